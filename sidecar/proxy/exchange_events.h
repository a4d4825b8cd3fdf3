/* exchange_events - event-log lines and counters of the data plane, with their once-a-second
 * limits. */
#ifndef FL_SIDECAR_PROXY_EXCHANGE_EVENTS_H
#define FL_SIDECAR_PROXY_EXCHANGE_EVENTS_H

#include "sidecar/policy/backend.h"

struct fl_exchange;

void fl_events_settled(struct fl_exchange *x, const struct fl_settled *s,
                       const struct fl_pick *pick, enum fl_outcome o);
void fl_events_attempt_failed(struct fl_exchange *x); /* once per second and peer */
void fl_events_no_live(struct fl_exchange *x);        /* once per second and backend */
/* `slow backend request`: slow_request, and 1 s per MiB uploaded, passed before the first byte. */
void fl_events_slow(struct fl_exchange *x);
/* Adds the ended exchange to its route's and backend's tallies. */
void fl_events_count(struct fl_exchange *x);

#endif
