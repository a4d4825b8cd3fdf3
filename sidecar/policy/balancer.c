#include "sidecar/policy/balancer.h"

#include "common/base/check.h"
#include "common/model/config_check.h"

#define START_STEPS_MAX                                                                            \
    1024 /* of the random start: a thousand picks once in a process, at most                       \
          */

static const struct fl_snap_peer *peer_at(const struct fl_candidates *c, uint32_t position)
{
    return &c->backend->peers[c->index[position]];
}

static int64_t *current_of(const struct fl_candidates *c, uint32_t position)
{
    return &peer_at(c, position)->peer->lines[c->thread].wrr_current;
}

static uint32_t weight_of(const struct fl_candidates *c, uint32_t position)
{
    return fl_balancer_weight(peer_at(c, position), c->backend->conf->slow_start_ms, c->now_ms);
}

uint32_t fl_balancer_weight(const struct fl_snap_peer *p, int64_t slow_start_ms, int64_t now_ms)
{
    int64_t full = (int64_t)p->conf->weight * 1000;
    int64_t since = atomic_load_explicit(&p->peer->live_since_ms, memory_order_relaxed);
    if (slow_start_ms > 0 && since > 0 && now_ms - since < slow_start_ms) {
        full = now_ms > since ? full * (now_ms - since) / slow_start_ms : 0;
    }
    return full > 0 ? (uint32_t)full : 1;
}

/* nginx's smooth weighted round robin: everyone gains its weight, the richest is taken and pays the
 * total. Only positions whose bit in `tied` is set take part; NULL: all. Returns a position. */
static uint32_t turn(const struct fl_candidates *c, const uint64_t *tied)
{
    int64_t total = 0;
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < c->count; i++) {
        if (tied && !(tied[i / 64] >> (i % 64) & 1)) {
            continue;
        }
        int64_t weight = weight_of(c, i);
        *current_of(c, i) += weight;
        total += weight;
        if (best == UINT32_MAX || *current_of(c, i) > *current_of(c, best)) {
            best = i;
        }
    }
    FL_MUST(best != UINT32_MAX);
    *current_of(c, best) -= total;
    return best;
}

/* A thousand sidecars that start together must not all begin at the first peer. Whole turns are
 * skipped, so the sequence stays smooth and every period stays exact. */
static void start_somewhere(const struct fl_candidates *c)
{
    struct fl_backend_lane *lane = &c->backend->lanes[c->thread];
    if (lane->rr_seeded || !c->rng) {
        return;
    }
    lane->rr_seeded = true;
    uint64_t period = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        period += peer_at(c, i)->conf->weight;
    }
    uint32_t skip = period < START_STEPS_MAX ? (uint32_t)period : START_STEPS_MAX;
    skip = skip ? fl_rng_below(c->rng, skip) : 0;
    for (; skip > 0; skip--) {
        turn(c, NULL);
    }
}

uint32_t fl_balancer_round_robin(const struct fl_candidates *c)
{
    start_somewhere(c);
    return c->index[turn(c, NULL)];
}

/* in-flight / weight of a against b, without dividing */
static int compare_load(uint32_t in_flight_a, uint32_t weight_a, uint32_t in_flight_b,
                        uint32_t weight_b)
{
    uint64_t a = (uint64_t)in_flight_a * weight_b, b = (uint64_t)in_flight_b * weight_a;
    return a < b ? -1 : a > b;
}

static uint32_t in_flight_of(const struct fl_candidates *c, uint32_t position)
{
    return fl_peer_in_flight(peer_at(c, position)->peer, c->backend->budget.threads);
}

uint32_t fl_balancer_least_conn(const struct fl_candidates *c)
{
    start_somewhere(c);
    uint64_t tied[FL_PEERS_MAX / 64];
    uint32_t best = 0, ties = 0, best_flight = 0, best_weight = 1;
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t flight = in_flight_of(c, i), weight = weight_of(c, i);
        int less = i == 0 ? -1 : compare_load(flight, weight, best_flight, best_weight);
        if (i % 64 == 0) {
            tied[i / 64] = 0;
        }
        if (less > 0) {
            continue;
        }
        if (less < 0) {
            for (uint32_t word = 0; word <= i / 64; word++) {
                tied[word] = 0;
            }
            best = i;
            ties = 0;
            best_flight = flight;
            best_weight = weight;
        }
        tied[i / 64] |= UINT64_C(1) << (i % 64);
        ties++;
    }
    return c->index[ties > 1 ? turn(c, tied) : best];
}

/* A position by weight, never `not_this`. */
static uint32_t draw(const struct fl_candidates *c, uint32_t total, uint32_t not_this)
{
    uint32_t at = fl_rng_below(c->rng, total);
    uint32_t last = not_this;
    for (uint32_t i = 0; i < c->count; i++) {
        if (i == not_this) {
            continue;
        }
        uint32_t weight = weight_of(c, i);
        if (at < weight) {
            return i;
        }
        at -= weight;
        last = i;
    }
    return last;
}

uint32_t fl_balancer_random_two(const struct fl_candidates *c)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        total += weight_of(c, i); /* 1024 x 100 x 1000 fits */
    }
    uint32_t one = draw(c, total, UINT32_MAX);
    if (c->count == 1) {
        return c->index[one];
    }
    uint32_t two = draw(c, total - weight_of(c, one), one);
    int less = compare_load(in_flight_of(c, two), weight_of(c, two), in_flight_of(c, one),
                            weight_of(c, one));
    return c->index[less < 0 ? two : one];
}
