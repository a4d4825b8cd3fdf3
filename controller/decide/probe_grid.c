#include "controller/decide/probe_grid.h"

/* Another part of the hash than the slot, which is its low end. */
static int64_t share_of(uint64_t hash, int64_t span_ms)
{
    return span_ms > 0 ? (int64_t)((hash >> 32) % (uint64_t)span_ms) : 0;
}

int64_t fl_probe_grid_first_ms(uint64_t hash, int64_t interval_ms)
{
    return share_of(hash,
                    interval_ms < FL_PROBE_GRID_FIRST_MS ? interval_ms : FL_PROBE_GRID_FIRST_MS);
}

int64_t fl_probe_grid_next_ms(uint64_t hash, int64_t interval_ms, int64_t began_ms, int64_t now_ms,
                              struct fl_rng *jitter)
{
    if (interval_ms < 1) {
        return now_ms + 1;
    }
    int64_t slot_ms = (int64_t)((hash & UINT32_MAX) % (uint64_t)interval_ms);
    int64_t after_ms = began_ms + interval_ms / 2;
    after_ms = after_ms > now_ms ? after_ms : now_ms;
    int64_t since_ms = (after_ms - slot_ms) % interval_ms; /* the last slot; -: no whole one yet */
    int64_t at_ms = after_ms - since_ms + (since_ms >= 0 ? interval_ms : 0);
    int64_t most_ms = interval_ms / 20;
    at_ms += (int64_t)fl_rng_below(jitter, (uint32_t)(2 * most_ms + 1)) - most_ms;
    return at_ms > now_ms ? at_ms : now_ms;
}

int64_t fl_probe_grid_late_ms(uint64_t hash, int64_t interval_ms, int64_t late_ms)
{
    return share_of(hash, late_ms < interval_ms / 2 ? late_ms : interval_ms / 2);
}
