/* push_plan - when which sidecar gets the state, decided from events and time alone.
 *
 * Fan-out is by state, never by a queue: an *edition* is one serialisation of the newest state
 * under one (epoch, seq), shared by every sidecar that lacks it; a sidecar has at most one push in
 * flight, and what it gets next is whatever is newest then.
 *
 *   changed, urgent (something was taken away) ──▶ a new edition at once
 *   changed, else ───────────────────────────────▶ a new edition `settle` after the first such
 * change nothing new for `interval` ──────────────────▶ a new edition of the same state (new seq)
 *   a sidecar knows a higher seq of our epoch ───▶ a new edition above it, for that sidecar
 *   a sidecar knows a higher epoch ──────────────▶ we take the one above it (there is no Lease
 * here) the hash in force there is another ──────────▶ once more at once, then with the next
 * edition a push fails ────────────────────────────────▶ again after 1, 2, 4 … 30 s, with jitter
 *
 * Pure: the caller sends what `take` hands out and reports with `settle`. One thread. */
#ifndef FL_CONTROLLER_DECIDE_PUSH_PLAN_H
#define FL_CONTROLLER_DECIDE_PUSH_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/list.h"
#include "common/base/rng.h"

#define FL_PUSH_UNREACHABLE_AFTER 3 /* failed pushes in a row: Event SidecarUnreachable */
#define FL_PUSH_CONFLICTS_MAX     3 /* in a row; then it is a failure like any other */
#define FL_PUSH_BACKOFF_MIN_MS    1000
#define FL_PUSH_BACKOFF_MAX_MS    30000
#define FL_PUSH_EPOCH_MAX         (INT64_C(1) << 53) /* beyond: nonsense, which we do not follow */

// clang-format off
#define FL_PUSH_RESULTS(X)                                                                         \
    X(OK,       "ok")       /* 200 */                                                              \
    X(CONFLICT, "conflict") /* 409 with a pair */                                                  \
    X(REFUSED,  "refused")  /* any other answer */                                                 \
    X(FAILED,   "failed")   /* no answer */
// clang-format on
#define X(id, token) FL_PUSH_##id,
enum fl_push_result { FL_PUSH_RESULTS(X) FL_PUSH_RESULT_COUNT };
#undef X
const char *fl_push_result_token(enum fl_push_result r);

struct fl_push_report {
    enum fl_push_result result;
    int64_t epoch, seq; /* CONFLICT: the pair in force there */
    bool hash_differs;  /* OK: the set in force there is not the one that was sent */
};

/* What people should be told. */
enum fl_push_lesson {
    FL_PUSH_NOTHING,
    FL_PUSH_FAILS,        /* the first failure in a row */
    FL_PUSH_UNREACHABLE,  /* the third */
    FL_PUSH_FAILS_STILL,  /* any other */
    FL_PUSH_RECOVERED,    /* after at least one failure */
    FL_PUSH_SEQ_RAISED,   /* goes on from the seq it was told */
    FL_PUSH_EPOCH_RAISED, /* somebody else pushed there with a higher epoch */
    FL_PUSH_DRIFTED,      /* pushed again because of the hash */
};

struct fl_push_target { /* one sidecar; embedded in the caller's */
    struct fl_list node, ready;
    uint64_t need, acked, sent; /* editions */
    bool flying;
    bool flies_ailing;            /* in flight, and the push before had failed */
    bool drifted;                 /* the hash differed and the push was repeated */
    unsigned failures, conflicts; /* in a row */
    int64_t not_before_ms;
    int64_t lacks_since_ms; /* of the oldest change it does not have; 0: it has them all */
    int64_t newer_since_ms; /* of the oldest change that the push in flight does not carry */
};

struct fl_push_plan {
    int64_t interval_ms, settle_ms; /* may be set at any time */
    unsigned concurrency;
    int64_t epoch, seq;                              /* of the newest edition */
    uint64_t edition;                                /* 0: nothing to send yet */
    unsigned flying, flying_ailing;                  /* the latter among the former */
    int64_t changed_at_ms;                           /* the first change that waits to settle */
    int64_t settle_at_ms, refresh_at_ms, wake_at_ms; /* INT64_MAX: never */
    struct fl_list targets;
    struct fl_list ready, ready_ailing; /* first come, first served */
    struct fl_rng rng;
};

/* epoch: the start, in unix seconds. */
void fl_push_plan_init(struct fl_push_plan *p, int64_t epoch, uint64_t seed);
void fl_push_plan_join(struct fl_push_plan *p, struct fl_push_target *t, int64_t now_ms);
/* Out of the plan, in flight or not; nothing is reported for it any more. */
void fl_push_plan_leave(struct fl_push_plan *p, struct fl_push_target *t);

void fl_push_plan_changed(struct fl_push_plan *p, bool urgent, int64_t now_ms);
/* Time has passed. Then take until NULL. */
void fl_push_plan_run(struct fl_push_plan *p, int64_t now_ms);
/* The next sidecar to send the newest edition to; it is in flight now. NULL: none, or as many in
 * flight as may be. */
struct fl_push_target *fl_push_plan_take(struct fl_push_plan *p);
enum fl_push_lesson fl_push_plan_settle(struct fl_push_plan *p, struct fl_push_target *t,
                                        const struct fl_push_report *r, int64_t now_ms);
int64_t
fl_push_plan_next_ms(const struct fl_push_plan *p); /* when to run again; INT64_MAX: never */

/* For how long the sidecar has lacked a change; 0: it has them all. */
int64_t fl_push_plan_lag_ms(const struct fl_push_target *t, int64_t now_ms);

#endif
