/* hist - log-linear histogram of microseconds: 16 sub-buckets per power of two from 1 us to >128 s,
 * error <= 6.25 %. One writer (a data thread) and any readers: counts are relaxed atomics. */
#ifndef FL_COMMON_BASE_HIST_H
#define FL_COMMON_BASE_HIST_H

#include <stdatomic.h>
#include <stdint.h>

#define FL_HIST_SUB     16
#define FL_HIST_BUCKETS (28 * FL_HIST_SUB)

struct fl_hist {
    _Atomic uint64_t count, sum_us;
    _Atomic uint32_t bucket[FL_HIST_BUCKETS];
};

/* Index of the bucket that holds `us`. */
static inline unsigned fl_hist_index(uint64_t us)
{
    if (us < FL_HIST_SUB) {
        return (unsigned)us;
    }
    unsigned top = 63u - (unsigned)__builtin_clzll(us); /* >= 4 */
    unsigned i = (top - 3u) * FL_HIST_SUB + (unsigned)((us >> (top - 4u)) & (FL_HIST_SUB - 1));
    return i < FL_HIST_BUCKETS ? i : FL_HIST_BUCKETS - 1;
}

static inline void fl_hist_add(struct fl_hist *h, uint64_t us)
{
    unsigned i = fl_hist_index(us);
    atomic_store_explicit(&h->count, atomic_load_explicit(&h->count, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&h->sum_us, atomic_load_explicit(&h->sum_us, memory_order_relaxed) + us,
                          memory_order_relaxed);
    atomic_store_explicit(&h->bucket[i],
                          atomic_load_explicit(&h->bucket[i], memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Observations <= bound_us, counting whole buckets (for Prometheus `le` lines). */
uint64_t fl_hist_below(const struct fl_hist *h, uint64_t bound_us);

#endif
