/* rng - a small deterministic generator (xorshift64*). Policy gets its state from outside, so tests
 * replay a seed. */
#ifndef FL_COMMON_BASE_RNG_H
#define FL_COMMON_BASE_RNG_H

#include <stdint.h>

struct fl_rng {
    uint64_t state; /* never 0 */
};

static inline void fl_rng_seed(struct fl_rng *r, uint64_t seed)
{
    r->state = seed ? seed : 0x9e3779b97f4a7c15u;
}

static inline uint64_t fl_rng_next(struct fl_rng *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 0x2545f4914f6cdd1du;
}

static inline uint32_t fl_rng_below(struct fl_rng *r, uint32_t n) /* 0 .. n-1; n > 0 */
{
    return (uint32_t)(((fl_rng_next(r) >> 32) * n) >> 32);
}

#endif
