/* tally - counters of routes and backends that outlive snapshots. Each data thread adds to its own
 * line (relaxed, never locked); the metrics page sums. Keyed by name in the registry; labels are
 * bounded by the configuration. */
#ifndef FL_SIDECAR_POLICY_TALLY_H
#define FL_SIDECAR_POLICY_TALLY_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/model/outcome.h"
#include "sidecar/policy/peer.h"
#include "sidecar/policy/retry.h"
#include "sidecar/policy/s3_operation.h"

#define FL_LATENCY_BOUNDS 14 /* 5 10 25 50 100 250 500 ms, 1 2.5 5 10 30 60 120 s */
extern const uint32_t fl_latency_bounds_ms[FL_LATENCY_BOUNDS];

struct fl_latency {
    _Atomic uint64_t le[FL_LATENCY_BOUNDS + 1]; /* not cumulative; last = +Inf */
    _Atomic uint64_t sum_us;
};

#define FL_STATUS_CLASSES 6 /* 0: no status (499 and the like count as 4xx), 1xx..5xx */

struct fl_route_line {
    _Atomic uint64_t requests[FL_STATUS_CLASSES][FL_ANSWER_COUNT];
    _Atomic uint64_t retries[FL_OUTCOME_COUNT]; /* by the outcome that caused them */
    _Atomic uint64_t refused[FL_RETRY_COUNT];
    _Atomic uint64_t rescued, sacrificed, client_aborts, unbuffered_bodies;
    struct fl_latency duration;
} __attribute__((aligned(64)));

struct fl_route_tally {
    const char *name; /* own copy */
    uint32_t refs;    /* control thread only */
    struct fl_route_line lines[FL_THREADS_MAX];
};

struct fl_backend_line {
    _Atomic uint64_t attempts[FL_OUTCOME_COUNT];
    _Atomic uint64_t quarantines, stale_failures; /* failures of an older generation */
    _Atomic uint64_t gated[5];                    /* by enum fl_verdict_status */
    _Atomic uint64_t on_backup_picks;
    struct fl_latency duration[FL_OP_COUNT];
} __attribute__((aligned(64)));

struct fl_backend_tally {
    const char *name;
    uint32_t refs;
    struct fl_backend_line lines[FL_THREADS_MAX];
};

static inline void fl_tally_add(_Atomic uint64_t *c, uint64_t n)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
                          memory_order_relaxed);
}
void fl_latency_add(struct fl_latency *l, int64_t us);

#endif
