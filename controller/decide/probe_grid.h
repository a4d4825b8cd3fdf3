/* probe_grid - when the controller's interval probes are due. Each peer has a slot of its own in
 * the interval, by its hash, so that the probes of a large cluster are spread evenly however its
 * peers came to be known, and stay so. Pure; times in ms of one clock. */
#ifndef FL_CONTROLLER_DECIDE_PROBE_GRID_H
#define FL_CONTROLLER_DECIDE_PROBE_GRID_H

#include <stdint.h>

#include "common/base/rng.h"

#define FL_PROBE_GRID_FIRST_MS 5000 /* new peers are asked within this time, or the interval */

/* How long a new peer waits for its first probe. */
int64_t fl_probe_grid_first_ms(uint64_t hash, int64_t interval_ms);
/* When a peer whose last probe began at began_ms is due: in its next slot that is half an interval
 * or more after that, give or take a twentieth. Not before now_ms. */
int64_t fl_probe_grid_next_ms(uint64_t hash, int64_t interval_ms, int64_t began_ms, int64_t now_ms,
                              struct fl_rng *jitter);
/* This process was stopped or starved, and the probe is overdue by late_ms with all the others: how
 * long it still waits, so that they do not all go out at once. */
int64_t fl_probe_grid_late_ms(uint64_t hash, int64_t interval_ms, int64_t late_ms);

#endif
