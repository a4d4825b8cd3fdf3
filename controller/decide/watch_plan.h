/* watch_plan - what a list+watch does next, from what it has met: the behaviour of client-go's
 * Reflector as a pure machine. The caller carries out `step` and reports.
 *
 *            ┌──────────────── 410, broken, streaks of other trouble ───────────────┐
 *            ▼                                                                      │
 *   LIST (streamed if the server can, else list, else consistent list) ──whole──▶ WATCH ◀─┐
 *            ▲ │ fails                                              fails │ │ ends well    │
 *            │ ▼                                                          ▼ └──────────────┤
 *           WAIT                                                         WAIT ─────────────┘
 *
 * A streamed list (sendInitialEvents) is list and watch in one. What is known of versions comes
 * from the server alone, and never from a Status.
 *
 *   end            while it lists                       while it watches
 *   closed, cut    back off, list again                 watch at once from the last version
 *   short          back off, list again                 back off, watch; the 3rd in a row: list
 *   stalled        back off, list again                 watch at once; the 3rd silent one: list
 *   expired        at once without a version            list at once, not older than the last
 *   too_large      at once without a version            back off, list without a version
 *   throttled, unauthorized, forbidden: back off, the same again with the same version
 *   unreachable    back off, list again                 back off, list not older than the last
 *   no_streaming   at once a plain list, for good       back off, list
 *   server_error   back off, the same again             … the 5th in a row without an event: list
 *   broken         back off, list again                 back off, list
 *
 * A server that was away may return with other data (a restored backup), in which a watch from the
 * last version is silent or, worse, has a hole: only a list tells. One that has just begun forbids
 * everything for a moment, before it knows the roles: a 403 backs off as the rest does.
 *
 * "At once" is for a first time: a cut of under a second without an event backs off, the sixth
 * hasty watch in a row does, and so do lists between which no watch was of use (heard something, or
 * lasted FL_WATCH_STEADY_MS). Streamed lists that end three times before they are whole make way
 * for one plain list.
 *
 * Pure; times in ms of one clock. */
#ifndef FL_CONTROLLER_DECIDE_WATCH_PLAN_H
#define FL_CONTROLLER_DECIDE_WATCH_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/rng.h"

#define FL_WATCH_BACKOFF_MIN_MS     800
#define FL_WATCH_BACKOFF_MAX_MS     30000
#define FL_WATCH_BACKOFF_RESET_MS   120000 /* so long without waiting: from the start again */
#define FL_WATCH_RETRY_AFTER_MAX_MS 300000 /* a server asks for 32 s at most; more is a slip */
#define FL_WATCH_TIMEOUT_MIN_S      300    /* timeoutSeconds: random from here to twice that */
#define FL_WATCH_STALL_MS           150000 /* no byte though bookmarks are on */
#define FL_WATCH_SHORT_MS           1000
#define FL_WATCH_STEADY_MS          5000 /* such a watch was of use, though it heard nothing */
#define FL_WATCH_VERSION_MAX        64
/* in a row, and then: */
#define FL_WATCH_SHORTS_MAX     3 /* a list: the version may be one the server is silent about */
#define FL_WATCH_STALLS_MAX     3 /* likewise */
#define FL_WATCH_ERRORS_MAX     5 /* likewise */
#define FL_WATCH_HASTY_MAX      5 /* a back-off */
#define FL_WATCH_UNFINISHED_MAX 3 /* a plain list: streams may not get through */

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
    X(FORBIDDEN,    "forbidden")    /* 403 or 404 */                                                        \
    X(NO_STREAMING, "no_streaming") /* any other 4xx to a streamed list: fall back, for good */             \
    X(SERVER_ERROR, "server_error") /* 5xx, as a status or as an event */                                   \
    X(BROKEN,       "broken")       /* what came is not what the API sends, or too long */
// clang-format on
#define X(id, token) FL_WATCH_##id,
enum fl_watch_end { FL_WATCH_ENDS(X) FL_WATCH_END_COUNT };
#undef X
const char *fl_watch_end_token(enum fl_watch_end e);

enum fl_watch_step {
    /* watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=<version> */
    FL_WATCH_DO_STREAM,
    FL_WATCH_DO_LIST,  /* resourceVersion=<version>: "0" the first time, "" a consistent one */
    FL_WATCH_DO_WATCH, /* watch=1&resourceVersion=<version> */
    FL_WATCH_DO_WAIT,  /* until until_ms */
};

struct fl_watch_plan {
    enum fl_watch_step step;
    char version[FL_WATCH_VERSION_MAX]; /* the argument of the step */
    int64_t until_ms;
    int timeout_s; /* timeoutSeconds of the stream or watch */
    /* what it knows */
    bool no_streaming, synced;
    bool whole;                      /* the stream that runs has brought its list */
    bool consistent;                 /* the list that is due must come without a version */
    char last[FL_WATCH_VERSION_MAX]; /* the last version heard; "" none */
    unsigned shorts, stalls, errors, hasty, unfinished; /* in a row */
    unsigned relists;                    /* since a watch heard something or was steady */
    int64_t backoff_min_ms;              /* set by init; tests have a shorter one */
    int64_t backoff_ms, waited_until_ms; /* of the last wait */
    enum fl_watch_step after_wait;
    char version_after_wait[FL_WATCH_VERSION_MAX];
    struct fl_rng rng;
    uint64_t ends[FL_WATCH_END_COUNT];
};

void fl_watch_plan_init(struct fl_watch_plan *p, uint64_t seed);
/* May this be a version? Not empty, and not longer than what is kept. */
bool fl_watch_plan_takes(const char *version);
/* A list is whole, or the bookmark at the end of a streamed one came: its version (one that it
 * takes). Then (of a list) the step is WATCH. */
void fl_watch_plan_listed(struct fl_watch_plan *p, const char *version, bool streamed);
/* A version was heard on the watch (an event's object or a bookmark, never a Status). Ignored while
 * the initial events of a stream come, which are in no order, and when it is not one that it takes.
 */
void fl_watch_plan_heard(struct fl_watch_plan *p, const char *version);
/* The request of the step has ended. events: how many it brought; lasted_ms: for how long;
 * retry_after_ms: what the server asked for, 0 nothing. A CLOSED that was short is taken as SHORT.
 */
void fl_watch_plan_ended(struct fl_watch_plan *p, enum fl_watch_end how, uint64_t events,
                         int64_t lasted_ms, int64_t retry_after_ms, int64_t now_ms);
/* What it waits for may have come (a right was granted): a WAIT ends with the next run. */
void fl_watch_plan_hurry(struct fl_watch_plan *p, int64_t now_ms);
/* Time has passed: WAIT becomes what comes after it. */
void fl_watch_plan_run(struct fl_watch_plan *p, int64_t now_ms);

#endif
