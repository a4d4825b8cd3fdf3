/* worker - one data thread: its reactor, snapshot, buffers, free lists, counters and log ring.
 * Everything here is the thread's own; what other threads read is atomic. No locks, no allocation
 * per request, no names resolved, no stdout. */
#ifndef FL_SIDECAR_PROXY_WORKER_H
#define FL_SIDECAR_PROXY_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/base/rng.h"
#include "common/io/log.h"
#include "common/io/reactor.h"
#include "sidecar/policy/snapshot.h"
#include "sidecar/proxy/buffer.h"
#include "sidecar/proxy/handshake.h"
#include "sidecar/proxy/splice.h"

struct fl_engine;
struct fl_client;
struct fl_exchange;

enum { FL_HANDOFF = 256 }; /* accepted connections on their way to another thread */

struct fl_worker {
    unsigned index;
    struct fl_engine *engine;
    struct fl_reactor *reactor;
    struct fl_log
        log; /* event lines, on a ring of their own: they never wait behind access lines */
    struct fl_log_ring *access_ring;
    const struct fl_snapshot *snapshot; /* adopted at the top of a turn */
    struct fl_rng rng;
    struct fl_buffers buffers;
    struct fl_pipes pipes;
    uint64_t replay_limit_bytes;
    int narrow_bytes;                /* receive buffer of a source not yet proved (window.h) */
    uint32_t wide_limit, wide_count; /* sources whose receive buffer may be large */
    bool wide_grows;                 /* and grow without a limit of ours */
    struct fl_list clients;          /* every open one */
    struct fl_list queue;   /* exchanges that wait for a peer, oldest first (exchange.queued) */
    struct fl_list starved; /* clients that wait for a buffer (client.waiting) */
    struct fl_exchange *free_exchanges;
    struct fl_client *free_clients;
    struct fl_upstream *free_upstreams;
    struct fl_handshakes handshakes;
    struct fl_timer queue_timer, house_timer;
    struct fl_task feed_task; /* serves starved and queued ones soon after something was freed */
    struct fl_response_head *response; /* scratch: one head is parsed at a time */
    bool draining;

    /* read by others, written here (relaxed) */
    _Atomic uint64_t acked_generation; /* release: nothing older is adopted any more */
    _Atomic int64_t turned_ms, last_begin_ms;
    _Atomic uint64_t accepted, client_limit_hits, descriptor_limit_hits, replay_bytes;
    _Atomic uint32_t client_count, active_count, upstreams_active, upstreams_idle, queued;

    /* connections from the accepting thread: single producer, single consumer */
    _Atomic uint32_t handoff_head, handoff_tail;
    int handoff_fd[FL_HANDOFF];
    struct fl_addr *handoff_from; /* [FL_HANDOFF] */
};

FL_MUST_USE int fl_worker_init(struct fl_worker *w, unsigned index, struct fl_engine *e,
                               const struct fl_config *c, unsigned threads,
                               struct fl_log_writer *logs);
void fl_worker_done(struct fl_worker *w); /* after its thread has ended; closes what is open */
/* Adopts the engine's newest snapshot and acknowledges it. Also what on_turn does. */
void fl_worker_adopt(struct fl_worker *w);
/* Asks for a look at starved clients and at the queue in the next turn. */
void fl_worker_feed(struct fl_worker *w);

static inline int64_t fl_worker_now_ms(const struct fl_worker *w)
{
    return fl_reactor_now_ms(w->reactor);
}
/* Its connections, those on their way to it included; any thread. */
static inline uint32_t fl_worker_clients(const struct fl_worker *w)
{
    return atomic_load_explicit(&w->client_count, memory_order_relaxed) +
           atomic_load_explicit(&w->handoff_tail, memory_order_relaxed) -
           atomic_load_explicit(&w->handoff_head, memory_order_relaxed);
}
/* Relaxed add on a counter that only this thread writes. */
static inline void fl_worker_count(_Atomic uint32_t *c, int32_t by)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + (uint32_t)by,
                          memory_order_relaxed);
}

#endif
