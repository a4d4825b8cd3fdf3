#include "common/base/hist.h"

/* The largest value that falls into bucket i. The last bucket also takes everything above. */
static uint64_t upper_us(unsigned i)
{
    if (i < FL_HIST_SUB) {
        return i;
    }
    if (i == FL_HIST_BUCKETS - 1) {
        return UINT64_MAX;
    }
    unsigned shift = i / FL_HIST_SUB - 1;
    return ((uint64_t)(FL_HIST_SUB + i % FL_HIST_SUB + 1) << shift) - 1;
}

uint64_t fl_hist_below(const struct fl_hist *h, uint64_t bound_us)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < FL_HIST_BUCKETS && upper_us(i) <= bound_us; i++) {
        sum += atomic_load_explicit(&h->bucket[i], memory_order_relaxed);
    }
    return sum;
}
