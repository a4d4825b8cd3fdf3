/* wheel - the coarse timer wheel behind fl_timer_*: 8 ms ticks, 1024 slots (about 8 s), an
 * occupancy bitmap. Shared by the real reactor and the simulated one (tests/sim), so that both fire
 * alike. It reads no clock.
 *
 * A held timer sits in the slot of its deadline or an earlier one; a slot that comes due hands over
 * its timers, and those whose deadline has moved on meanwhile are put back. So "later" and "off"
 * cost one store. One thread. */
#ifndef FL_COMMON_IO_WHEEL_H
#define FL_COMMON_IO_WHEEL_H

#include <stdint.h>

#include "common/base/list.h"
#include "common/io/reactor.h"

#define FL_WHEEL_TICK_MS 8
#define FL_WHEEL_SLOTS   1024

struct fl_wheel {
    int64_t done_tick; /* every slot up to this one has been handed over */
    int64_t next_tick; /* no busy slot lies before this one */
    struct fl_list due;
    uint64_t busy[FL_WHEEL_SLOTS / 64];
    struct fl_list slot[FL_WHEEL_SLOTS];
};

void fl_wheel_init(struct fl_wheel *w, int64_t now_ms);
void fl_wheel_set(struct fl_wheel *w, struct fl_timer *t, int64_t at_ms);
void fl_wheel_remove(struct fl_wheel *w, struct fl_timer *t);
int64_t fl_wheel_next_ms(struct fl_wheel *w); /* when to look again, INT64_MAX: nothing is held */

/* Two steps, so that what arrived together with a deadline is handled before the deadline fires. */
void fl_wheel_collect(struct fl_wheel *w, int64_t now_ms);
void fl_wheel_fire(struct fl_wheel *w, int64_t now_ms);

#endif
