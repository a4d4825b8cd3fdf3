/* balancer - one verb: which of the candidates takes the next attempt. Candidates are already
 * usable, of one tier and below max_conns. Pure; own thread only (wrr_current, rr state). */
#ifndef FL_SIDECAR_POLICY_BALANCER_H
#define FL_SIDECAR_POLICY_BALANCER_H

#include <stdint.h>

#include "common/base/rng.h"
#include "sidecar/policy/snapshot.h"

struct fl_candidates {
    const struct fl_snap_backend *backend;
    const uint16_t *index; /* of peers, ascending */
    uint32_t count;        /* > 0 */
    unsigned thread;
    int64_t now_ms;
    struct fl_rng *rng;
};

/* Peer index (not position). slow_start lowers the weight linearly from the peer's readmission on.
 */
uint32_t fl_balancer_round_robin(
    const struct fl_candidates *c); /* smooth weighted (nginx), random start per process */
uint32_t fl_balancer_least_conn(
    const struct fl_candidates *c); /* in-flight / weight over all threads, ties by round robin */
uint32_t fl_balancer_random_two(
    const struct fl_candidates *c); /* two random by weight, the less loaded wins */
/* Effective weight in 1/1000, at least 1. */
uint32_t fl_balancer_weight(const struct fl_snap_peer *p, int64_t slow_start_ms, int64_t now_ms);

#endif
