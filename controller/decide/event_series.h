/* event_series - which Events are written (events.k8s.io/v1), so that people see each fact once and
 * a storm of facts costs the API server little.
 *
 * - A *series* is the same fact about the same object: type, reason, action, note and object are
 *   equal. The first one is POSTed; repetitions are counted and PATCHed into series.count and
 *   series.lastObservedTime, at most every FL_EVENT_PATCH_MS. After FL_EVENT_END_MS without one the
 *   series is over, and the next is a new Event.
 * - Each object has FL_EVENT_BURST writes and gets one more per FL_EVENT_REFILL_MS (client-go's
 *   EventSourceObjectSpamFilter). PATCHes leave FL_EVENT_RESERVE of them for new facts. A new fact
 *   without a write left is lost.
 * - An Event that the server has forgotten meanwhile (its time to live is an hour) is POSTed anew,
 *   with what was counted.
 * - What fails is tried FL_EVENT_TRIES times; a write that was carried out without our hearing of
 *   it is found by its name. Bounded: FL_EVENT_SERIES_MAX series, the least recently used goes;
 *   FL_EVENT_OBJECTS_MAX objects; FL_EVENT_FLYING_MAX writes at a time.
 *
 * Pure; now_ms is monotonic, unix_us the wall clock. One thread. */
#ifndef FL_CONTROLLER_DECIDE_EVENT_SERIES_H
#define FL_CONTROLLER_DECIDE_EVENT_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"

#define FL_EVENT_NOTE_MAX    1024 /* bytes; the API server's limit */
#define FL_EVENT_SERIES_MAX  256
#define FL_EVENT_OBJECTS_MAX 512
#define FL_EVENT_FLYING_MAX  4
#define FL_EVENT_BURST       25
#define FL_EVENT_RESERVE     5
#define FL_EVENT_REFILL_MS   300000
#define FL_EVENT_PATCH_MS    60000
#define FL_EVENT_END_MS      360000
#define FL_EVENT_TRIES       3
#define FL_EVENT_RETRY_MS    10000 /* times the number of tries */

struct fl_event_series; /* all of them */
struct fl_event_entry;  /* one */

struct fl_event_facts { /* "" none, never NULL; what is not UTF-8 becomes '?', what is too long is
                           cut at a character */
    const char *api_version, *kind, *namespace, *name, *uid;
    const char *type, *reason, *action, *note; /* action "": the reason's word */
};

FL_MUST_USE struct fl_event_series *fl_event_series_new(uint64_t seed); /* NULL: no memory */
struct fl_event_series *fl_event_series_free(struct fl_event_series *s);

enum fl_event_said {
    FL_EVENT_NEW,
    FL_EVENT_FOLDED, /* into a series */
    FL_EVENT_LOST,   /* the object's writes are used up, or no memory */
};
enum fl_event_said fl_event_series_say(struct fl_event_series *s, const struct fl_event_facts *f,
                                       int64_t now_ms, int64_t unix_us);

struct fl_event_write {
    struct fl_event_entry *entry;
    bool patch;             /* else POST */
    const char *event_name; /* these live until the write is settled */
    struct fl_event_facts facts;
    int64_t first_us, last_us;
    uint32_t count; /* >= 2: with a series */
};
/* The next write; it is in flight until settled. False: none now. */
bool fl_event_series_take(struct fl_event_series *s, int64_t now_ms, struct fl_event_write *ret);

enum fl_event_result {
    FL_EVENT_WRITTEN,
    FL_EVENT_EXISTS,    /* 409 */
    FL_EVENT_GONE,      /* 404 */
    FL_EVENT_TRY_AGAIN, /* no answer, 429, 5xx */
    FL_EVENT_REFUSED,   /* any other */
};
void fl_event_series_settle(struct fl_event_series *s, struct fl_event_entry *e,
                            enum fl_event_result result, int64_t now_ms);
int64_t
fl_event_series_next_ms(const struct fl_event_series *s); /* when to take; INT64_MAX: never */

struct fl_event_totals {
    uint64_t written, folded, lost;
};
struct fl_event_totals fl_event_series_totals(const struct fl_event_series *s);

#endif
