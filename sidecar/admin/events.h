/* events - the last 256 state transitions, for people who look afterwards (GET
 * /_/api/admin/events). Control thread only. */
#ifndef FL_SIDECAR_ADMIN_EVENTS_H
#define FL_SIDECAR_ADMIN_EVENTS_H

#include <stdint.h>

#include "common/base/check.h"
#include "common/base/fmt.h"

#define FL_EVENTS_MAX 256

struct fl_events;

FL_MUST_USE struct fl_events *fl_events_new(void);
struct fl_events *fl_events_free(struct fl_events *e); /* accepts NULL, returns NULL */
/* kind: a fixed word ("backend_unhealthy"); backend and peer may be "". Out of memory, the event is
 * lost and its number is not. */
void fl_events_add(struct fl_events *e, int64_t unix_ms, const char *kind, const char *backend,
                   const char *peer, const char *fmt, ...) FL_PRINTF(6, 7);
uint64_t fl_events_version(const struct fl_events *e); /* number of the newest; 0 = none yet */
/* {"version":N,"events":[{"version","ts","kind","backend","peer","text"}]}: those after `since`,
 * oldest first. */
void fl_events_write(const struct fl_events *e, uint64_t since, struct fl_fmt *out);

#endif
