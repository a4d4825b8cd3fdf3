/* peer - one address of one backend, as it outlives snapshots: identity, passive health, switches
 * and per-thread figures. Keyed (backend, address) in the registry. Created and freed by the
 * control thread; read and counted by data threads. */
#ifndef FL_SIDECAR_POLICY_PEER_H
#define FL_SIDECAR_POLICY_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/addr.h"
#include "common/base/list.h"
#include "common/model/config.h"
#include "common/model/outcome.h"
#include "sidecar/policy/failed_request.h"
#include "sidecar/policy/peer_health.h"

/* Written by its own data thread only (relaxed stores), read by anybody. */
struct fl_peer_line {
    _Atomic uint32_t in_flight, peak;
    _Atomic uint64_t requests, failures; /* attempts begun; attempts that counted or would have */
    _Atomic int64_t last_answer_ms;      /* of this thread's last complete response head */
    int64_t wrr_current;                 /* smooth weighted round robin; own thread only */
    /* The rest is sidecar/proxy's, own thread only; zero = not yet used. */
    struct fl_list idle; /* kept connections, youngest first (proxy/upstream) */
    uint32_t idle_count;
    uint32_t warn_suppressed; /* attempt failures not logged since warn_at_ms */
    int64_t warn_at_ms;
} __attribute__((aligned(64)));

struct fl_peer {
    char address[FL_ADDR_TEXT_MAX];
    struct fl_addr addr;
    uint32_t id;   /* small and stable while the peer lives: index of the data threads' idle pools;
                      unique for a process */
    uint32_t refs; /* snapshots that hold it; control thread only */
    struct fl_peer_health health;
    _Atomic bool drained, removed; /* no new work; idle connections close */
    _Atomic int64_t live_since_ms; /* last readmission (slow_start), 0 = from the start */
    _Atomic uint32_t last_outcome; /* enum fl_outcome of the last counted failure */
    _Atomic int32_t last_errno;    /* positive, 0 = none */
    _Atomic int32_t last_status;   /* of HTTP_STATUS, 0 = none */
    _Atomic int64_t last_fail_ms;
    _Atomic int64_t failing_since_ms; /* the first counted failure behind the last answer */
    _Atomic uint32_t
        probe_wanted; /* set by a data thread at a failure; the control thread exchanges it to 0 */
    struct fl_failed_box failed; /* put in before probe_wanted is set */
    struct fl_peer_line lines[FL_THREADS_MAX];
};

/* Of the last complete response head that anybody got from it; 0: nobody did. */
static inline int64_t fl_peer_last_answer_ms(const struct fl_peer *p)
{
    int64_t last_ms = 0;
    for (unsigned i = 0; i < FL_THREADS_MAX; i++) {
        int64_t ms = atomic_load_explicit(&p->lines[i].last_answer_ms, memory_order_relaxed);
        last_ms = ms > last_ms ? ms : last_ms;
    }
    return last_ms;
}

static inline uint32_t fl_peer_in_flight(const struct fl_peer *p, unsigned threads)
{
    uint32_t sum = 0;
    for (unsigned i = 0; i < threads; i++) {
        sum += atomic_load_explicit(&p->lines[i].in_flight, memory_order_relaxed);
    }
    return sum;
}

#endif
