/* watch_plan - what a list+watch does next, from what it has met: the table of kubernetes.md
 * section 1.2 (client-go's Reflector) as a pure machine. The caller carries out `step` and reports.
 *
 *            ┌───────────────── 410, broken, 3 very short watches ────────────────┐
 *            ▼                                                                     │
 *   LIST (streamed if the server can, else list, else consistent list) ──whole──▶ WATCH ──end──▶
 * WATCH ▲                    │ fails                                          │ fails └────────
 * WAIT ◀─────┴────────────────────────────────────────────────┘
 *
 * A streamed list (sendInitialEvents) is list and watch in one. Pure; times in ms of one clock. */
#ifndef FL_CONTROLLER_DECIDE_WATCH_PLAN_H
#define FL_CONTROLLER_DECIDE_WATCH_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/rng.h"

#define FL_WATCH_BACKOFF_MIN_MS   800
#define FL_WATCH_BACKOFF_MAX_MS   30000
#define FL_WATCH_BACKOFF_RESET_MS 120000 /* so long without waiting: from the start again */
#define FL_WATCH_TIMEOUT_MIN_S    300    /* timeoutSeconds: random from here to twice that */
#define FL_WATCH_STALL_MS         150000 /* no byte though bookmarks are on */
#define FL_WATCH_SHORT_MS         1000
#define FL_WATCH_VERSION_MAX      64

// clang-format off
#define FL_WATCH_ENDS(X)                                                                                    \
    X(CLOSED,       "closed")       /* a clean end: the usual one */                                        \
    X(CUT,          "cut")          /* an end in the middle of an answer */                                 \
    X(SHORT,        "short")        /* ended in under a second without an event */                          \
    X(STALLED,      "stalled")      /* no byte for FL_WATCH_STALL_MS, or past its own time limit */          \
    X(EXPIRED,      "expired")      /* 410, as a status or as an event */                                   \
    X(TOO_LARGE,    "too_large")    /* 504 ResourceVersionTooLarge: the server is behind */                 \
    X(THROTTLED,    "throttled")    /* 429 */                                                               \
    X(UNREACHABLE,  "unreachable")  /* no connection, TLS, no answer */                                     \
    X(UNAUTHORIZED, "unauthorized") /* 401, with a fresh token too */                                       \
    X(FORBIDDEN,    "forbidden")    /* 403 or 404: a configuration error */                                 \
    X(NO_STREAMING, "no_streaming") /* any other 4xx to a streamed list: fall back, for good */             \
    X(SERVER_ERROR, "server_error") /* 5xx, as a status or as an event */                                   \
    X(BROKEN,       "broken")       /* what came is not what the API sends, or too long */
// clang-format on
#define X(id, token) FL_WATCH_##id,
enum fl_watch_end { FL_WATCH_ENDS(X) FL_WATCH_END_COUNT };
#undef X
const char *fl_watch_end_token(enum fl_watch_end e);

enum fl_watch_step {
    FL_WATCH_DO_STREAM, /* watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=
                         */
    FL_WATCH_DO_LIST,  /* resourceVersion=<version>: "0" the first time, "" after a 410 on a list */
    FL_WATCH_DO_WATCH, /* watch=1&resourceVersion=<version> */
    FL_WATCH_DO_WAIT,  /* until until_ms */
};

struct fl_watch_plan {
    enum fl_watch_step step;
    char version[FL_WATCH_VERSION_MAX]; /* the argument of the step */
    int64_t until_ms;
    int timeout_s; /* timeoutSeconds of the next stream or watch */
    /* what it knows */
    bool no_streaming, synced;
    char last[FL_WATCH_VERSION_MAX]; /* the last version heard; "" none */
    unsigned shorts, list_gone;      /* in a row */
    int64_t backoff_ms, waited_at_ms;
    enum fl_watch_step after_wait;
    char version_after_wait[FL_WATCH_VERSION_MAX];
    struct fl_rng rng;
    uint64_t ends[FL_WATCH_END_COUNT];
};

void fl_watch_plan_init(struct fl_watch_plan *p, uint64_t seed);
/* A list is whole, or the bookmark at the end of a streamed one came: its version. Then (of a list)
 * the step is WATCH. */
void fl_watch_plan_listed(struct fl_watch_plan *p, const char *version, bool streamed,
                          int64_t now_ms);
/* A version was heard on the watch after the initial events (an event's object or a bookmark, never
 * a Status). */
void fl_watch_plan_heard(struct fl_watch_plan *p, const char *version);
/* The request of the step has ended. events: how many it brought; lasted_ms: for how long;
 * retry_after_ms: what the server asked for, 0 nothing. */
void fl_watch_plan_ended(struct fl_watch_plan *p, enum fl_watch_end how, uint64_t events,
                         int64_t lasted_ms, int64_t retry_after_ms, int64_t now_ms);
/* Time has passed: WAIT becomes what comes after it. */
void fl_watch_plan_run(struct fl_watch_plan *p, int64_t now_ms);

#endif
