/* backend - choosing a peer and learning from its attempt (behaviour.md sections 1, 2). tier x
 * balancer x passive health x verdict x max_conns. Pure: the clock and the random state are
 * arguments. Any data thread, on its own line. */
#ifndef FL_SIDECAR_POLICY_BACKEND_H
#define FL_SIDECAR_POLICY_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/rng.h"
#include "common/model/config_check.h"
#include "sidecar/policy/snapshot.h"

#define FL_TRIED_WORDS (FL_PEERS_MAX / 64)

struct fl_ask {
    int64_t now_ms;
    unsigned thread;
    struct fl_rng *rng;
    const uint64_t
        *tried;      /* FL_TRIED_WORDS words, bit = peer index; the caller owns and sets them */
    bool first_try;  /* nothing was tried yet by this exchange */
    bool replayable; /* the request may be repeated: preferred for a trial */
    bool write;      /* s3: refused by a read-only backup */
};

enum fl_pick_kind {
    FL_PICK_PEER,
    FL_PICK_FULL,       /* usable peers exist, all at max_conns: queue or shed */
    FL_PICK_NONE,       /* nobody left: no_live_upstream */
    FL_PICK_READ_ONLY,  /* only a backup that must not take this write is left */
    FL_PICK_NO_MEMBERS, /* the backend never had any */
    FL_PICK_GATED,      /* the verdict blocks the backend */
};

struct fl_pick {
    enum fl_pick_kind kind;
    uint32_t index; /* of the peer in the snapshot's backend */
    enum fl_tier tier;
    struct fl_health_ticket ticket, route_ticket;
    bool panic;            /* quarantine was ignored because of panic_threshold */
    int64_t release_at_ms; /* FL_PICK_NONE: when the first peer is released, 0 = unknown */
};

/* On FL_PICK_PEER the peer's in-flight count is taken and a trial may have been won: settle (or
 * cancel) exactly once. */
void fl_backend_pick(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                     const struct fl_ask *ask, struct fl_pick *ret);
/* As if it had never been picked: in-flight back, a trial back to probation, no request counted. */
void fl_backend_cancel(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                       const struct fl_pick *pick, int64_t now_ms, unsigned thread);

struct fl_settled {
    struct fl_health_change peer;  /* for all routes */
    struct fl_health_change route; /* for this route only (a counted status) */
    bool counted;                  /* the outcome counts under count_failures */
};

/* A complete response head came whose status does not count: a trial readmits now. */
void fl_backend_answered(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                         const struct fl_pick *pick, int64_t now_ms, unsigned thread,
                         struct fl_settled *ret);
/* The attempt's end, exactly once. os_errno: positive or 0, kept for the cause. Counts
 * attempts_total. */
void fl_backend_settle(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                       const struct fl_pick *pick, enum fl_outcome outcome, int status,
                       int os_errno, int64_t now_ms, unsigned thread, struct fl_rng *rng,
                       struct fl_settled *ret);

/* Is a primary usable for anyone on this route, ignoring what one exchange tried? (on_backup gauge,
 * explain) */
bool fl_backend_primary_usable(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                               int64_t now_ms);

/* Why one peer would not be taken now (explain, admin): a word of: eligible down drained removed
 * quarantined trial_out probation verdict max_conns weight_zero read_only_backup route_quarantined;
 * until_ms where known, else 0. */
const char *fl_backend_why_not(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                               uint32_t index, const struct fl_ask *ask, int64_t *ret_until_ms);

/* Is a retry from one peer to another free of the retry budget? From one that is out by now, to one
 * that answered this thread within the last second (behaviour.md section 3). */
bool fl_backend_retry_is_free(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                              uint32_t from, uint32_t to, int64_t now_ms, unsigned thread);

/* The cause of "nobody left": the last failure of the first peer, as text for people; code and text
 * are stable. */
void fl_backend_cause(const struct fl_snap_backend *b, struct fl_cause *ret);
/* The last counted failure of one peer (admin: last_cause); empty when there was none. */
void fl_backend_peer_cause(const struct fl_peer *peer, struct fl_cause *ret);
/* Cause of one attempt's failure: "connect to ADDRESS failed (Connection refused)". */
void fl_backend_attempt_cause(enum fl_outcome o, int status, int os_errno, const char *address,
                              struct fl_cause *ret);

#endif
