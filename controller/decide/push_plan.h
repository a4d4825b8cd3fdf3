/* push_plan - when which sidecar gets its state, decided from events and time alone.
 *
 * A *group* is the targets of one configuration; an *edition* is one serialisation of the newest
 * state of a group under one (epoch, seq), shared by every target of the group that lacks it.
 * Editions and their pairs rise over all groups, so a target may go from one group to another.
 * Fan-out is by state, never by a queue: a target has at most one push in flight, and what it gets
 * next is whatever is newest then.
 *
 *   changed, urgent (something was taken away) → a new edition at once
 *   changed, else                              → a new edition `settle` after the first such change
 *   nothing new for `interval`                 → a new edition of the same state
 *   an eager target                            → that every second
 *   a sidecar knows a higher seq of our epoch  → a new edition above it, for that sidecar
 *   the hash in force there is another         → once more at once, then with the next edition
 *   a push fails                               → again after 1, 2, 4 … 30 s, with jitter
 *   a sidecar knows a higher epoch             → alone: we take the one above it; elected: kept in
 *                                                `met_epoch`, and it waits as after a failure
 *
 * Refreshes go in waves of at most FL_PUSH_WAVE targets, spread over the interval: nobody waits
 * longer than the interval, a change counts as a refresh, and up to FL_PUSH_WAVE targets are
 * refreshed together. A wave takes whole groups where it can, so that few editions are made.
 *
 * Places go to changes first, then to refreshes, then, at most a quarter of them, to those whose
 * last push failed.
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
#define FL_PUSH_EAGER_MS          1000
#define FL_PUSH_WAVE              64
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

/* Where a target waits for its next push. */
enum fl_push_queue {
    FL_PUSH_QUEUE_CHANGE,
    FL_PUSH_QUEUE_REFRESH,
    FL_PUSH_QUEUE_AILING, /* its last push failed */
    FL_PUSH_QUEUE_LATER,  /* … and the time to try again has not come */
    FL_PUSH_QUEUES,
    FL_PUSH_QUEUE_NONE = FL_PUSH_QUEUES,
};

struct fl_push_group {       /* embedded in the caller's */
    struct fl_list node;     /* of the plan */
    struct fl_list turn;     /* in the order of refreshes: while it has a state and targets */
    struct fl_list settling; /* while a change waits to settle */
    struct fl_list targets;  /* who was refreshed longest ago first */
    uint32_t count;          /* of them */
    bool stated;             /* there is a state */
    uint64_t edition;        /* its newest; 0: none yet */
    int64_t epoch, seq;      /* of that edition */
    int64_t changed_at_ms;   /* the first change that waits to settle */
    int64_t settle_at_ms;    /* INT64_MAX: none does */
    int64_t cycle_ms;        /* while a wave has taken a part of it; else 0 */
    uint64_t eager_tick;     /* the last one that made an edition here */
};

struct fl_push_target { /* one sidecar; embedded in the caller's */
    struct fl_list node, queued, eagerly;
    struct fl_push_group *group;
    enum fl_push_queue queue;
    uint64_t need, acked, sent; /* editions */
    bool flying;
    bool flies_ailing;            /* in flight, and the push before had failed */
    bool drifted;                 /* the hash differed and the push was repeated */
    unsigned failures, conflicts; /* in a row */
    int64_t not_before_ms;
    int64_t fresh_ms;       /* when it was last given an edition to need */
    int64_t lacks_since_ms; /* of the oldest change it does not have; 0: it has them all */
    int64_t newer_since_ms; /* of the oldest change that the push in flight does not carry */
};

enum fl_push_mode {
    FL_PUSH_ALONE,   /* nobody elects: the epoch is ours to raise */
    FL_PUSH_FOLLOWS, /* another leads: nothing is sent */
    FL_PUSH_LEADS,
};

struct fl_push_plan {
    int64_t settle_ms; /* may be set at any time, as may the next two */
    unsigned concurrency;
    int64_t epoch_max;   /* from here on a told epoch is nonsense */
    int64_t interval_ms; /* set by fl_push_plan_set_interval */
    enum fl_push_mode mode;
    int64_t epoch, seq; /* of the newest edition */
    int64_t met_epoch;  /* the highest that a sidecar knew above ours while we led; 0: none */
    uint64_t edition;   /* 0: nothing to send yet */
    uint32_t count;     /* targets of groups with a state */
    unsigned flying, flying_ailing;                               /* the latter among the former */
    int64_t settle_at_ms, refresh_at_ms, eager_at_ms, wake_at_ms; /* INT64_MAX: never */
    int64_t waved_ms;                                             /* the last wave */
    uint64_t eager_ticks;
    struct fl_list groups, turns, settling, eager;
    struct fl_list queues[FL_PUSH_QUEUES]; /* first come, first served */
    struct fl_rng rng;
};

/* epoch: the start, in unix seconds; or 0: an election decides, and we follow until
 * fl_push_plan_lead. */
void fl_push_plan_init(struct fl_push_plan *p, int64_t epoch, uint64_t seed);
void fl_push_plan_set_interval(struct fl_push_plan *p, int64_t interval_ms, int64_t now_ms);

/* We lead from now on, or our epoch was raised: every target gets its state anew, under this epoch.
 * False, and nothing changes, when we have used a higher one: it must be raised above
 * fl_push_plan.epoch first. Under the epoch of before, the sequence goes on. */
FL_MUST_USE bool fl_push_plan_lead(struct fl_push_plan *p, int64_t epoch, int64_t now_ms);
/* We do not any more. What is in flight counts as never sent: the caller breaks it off, and settles
 * nothing. */
void fl_push_plan_follow(struct fl_push_plan *p);

void fl_push_plan_enter(struct fl_push_plan *p, struct fl_push_group *g);
/* It has no targets. */
void fl_push_plan_drop(struct fl_push_plan *p, struct fl_push_group *g);

void fl_push_plan_join(struct fl_push_plan *p, struct fl_push_group *g, struct fl_push_target *t,
                       int64_t now_ms);
/* Into another group; what is known of it stays. A push in flight lands as it is. */
void fl_push_plan_move(struct fl_push_plan *p, struct fl_push_target *t, struct fl_push_group *to,
                       int64_t now_ms);
/* Out of the plan, in flight or not; nothing is reported for it any more. */
void fl_push_plan_leave(struct fl_push_plan *p, struct fl_push_target *t);
void fl_push_plan_eager(struct fl_push_plan *p, struct fl_push_target *t, bool eager,
                        int64_t now_ms);

/* The group has another state, or its first. */
void fl_push_plan_changed(struct fl_push_plan *p, struct fl_push_group *g, bool urgent,
                          int64_t now_ms);
/* Time has passed. Then take until NULL. */
void fl_push_plan_run(struct fl_push_plan *p, int64_t now_ms);
/* The next sidecar to send the newest edition of its group to; it is in flight now. NULL: none, or
 * as many in flight as may be. */
struct fl_push_target *fl_push_plan_take(struct fl_push_plan *p);
enum fl_push_lesson fl_push_plan_settle(struct fl_push_plan *p, struct fl_push_target *t,
                                        const struct fl_push_report *r, int64_t now_ms);
/* When to run again; INT64_MAX: never. */
int64_t fl_push_plan_next_ms(const struct fl_push_plan *p);

/* For how long the sidecar has lacked a change; 0: it has them all. */
int64_t fl_push_plan_lag_ms(const struct fl_push_target *t, int64_t now_ms);

#endif
