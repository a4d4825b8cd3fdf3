#include "sidecar/policy/tally.h"

#include "common/base/check.h"

const uint32_t fl_latency_bounds_ms[FL_LATENCY_BOUNDS] = {
    5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 120000,
};

void fl_latency_add(struct fl_latency *l, int64_t us)
{
    us = us > 0 ? us : 0;
    unsigned i = 0;
    while (i < FL_LATENCY_BOUNDS && us > (int64_t)fl_latency_bounds_ms[i] * 1000) {
        i++;
    }
    fl_tally_add(&l->le[i], 1);
    fl_tally_add(&l->sum_us, (uint64_t)us);
}
