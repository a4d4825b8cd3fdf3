/* peer_health - passive health: may this peer be offered traffic, and what does a failure change?
 * (behaviour.md section 1; nginx max_fails / fail_timeout with a true sliding window.) Pure: no
 * clock, no I/O, no logging; the policy is an argument, so a changed configuration keeps the state.
 * Any thread: one atomic word; a failure takes a small lock; one CAS wins a trial; success writes
 * nothing shared. Times: monotonic ms > 0. */
#ifndef FL_SIDECAR_POLICY_PEER_HEALTH_H
#define FL_SIDECAR_POLICY_PEER_HEALTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/rng.h"

#define FL_MAX_FAILS_MAX 32

struct fl_health_policy {
    uint32_t max_fails; /* 0: passive marking is off */
    int64_t fail_timeout_ms;
    uint32_t quarantine_max; /* 1..8 */
};

struct fl_peer_health {
    _Atomic uint64_t word; /* state, generation, until: only peer_health.c looks inside */
    _Atomic uint32_t lock;
    uint32_t failed_trials; /* in a row, under lock */
    uint32_t fail_next, fail_count;
    int64_t fail_at_ms[FL_MAX_FAILS_MAX];
};

enum fl_health_gate {
    FL_HEALTH_LIVE,
    FL_HEALTH_QUARANTINED, /* until *ret_until_ms */
    FL_HEALTH_PROBATION,   /* the window is over: one exchange may take the trial */
    FL_HEALTH_TRIAL_OUT,   /* somebody's trial is under way */
};

enum fl_health_result { FL_HEALTH_OK, FL_HEALTH_FAILED, FL_HEALTH_NEUTRAL };

struct fl_health_ticket { /* what a pick remembers until its attempt is settled */
    uint32_t generation;
    bool trial;
};

struct fl_health_change {
    enum { FL_HEALTH_SAME, FL_HEALTH_DISABLED, FL_HEALTH_READMITTED } what;
    uint32_t fails;   /* counted failures that led to DISABLED */
    int64_t until_ms; /* DISABLED */
};

void fl_peer_health_init(struct fl_peer_health *h);
enum fl_health_gate fl_peer_health_gate(const struct fl_peer_health *h, int64_t now_ms,
                                        int64_t *ret_until_ms);
/* The ticket of a peer that is LIVE (or used in spite of quarantine: panic, single peer). */
struct fl_health_ticket fl_peer_health_ticket(const struct fl_peer_health *h);
/* Wins the one trial of a peer on probation; false when somebody else did. */
bool fl_peer_health_take_trial(struct fl_peer_health *h, int64_t now_ms,
                               struct fl_health_ticket *ret);
/* A complete, uncounted response head came: a trial readmits the peer now. Otherwise SAME, and
 * nothing is written. */
struct fl_health_change fl_peer_health_answered(struct fl_peer_health *h,
                                                const struct fl_health_ticket *t, int64_t now_ms);
/* The end of the attempt, exactly once per ticket. A failure of an older generation changes nothing
 * (the caller counts it in metrics). A neutral end of a trial puts the peer back on probation.
 * jitter only for quarantine_max > 1. */
struct fl_health_change fl_peer_health_settle(struct fl_peer_health *h,
                                              const struct fl_health_policy *p,
                                              const struct fl_health_ticket *t,
                                              enum fl_health_result r, int64_t now_ms,
                                              struct fl_rng *jitter);
/* A green probe while nobody is usable: quarantine becomes probation at once. True when it changed.
 */
bool fl_peer_health_open(struct fl_peer_health *h, int64_t now_ms);
/* Failures inside the window now (admin, metrics). */
uint32_t fl_peer_health_fails(struct fl_peer_health *h, const struct fl_health_policy *p,
                              int64_t now_ms);

#endif
