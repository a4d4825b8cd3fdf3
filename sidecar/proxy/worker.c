#include "sidecar/proxy/worker.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "common/http1/head_parse.h"
#include "sidecar/proxy/client.h"
#include "sidecar/proxy/engine_state.h"
#include "sidecar/proxy/exchange.h"
#include "sidecar/proxy/listener.h"
#include "sidecar/proxy/upstream.h"
#include "sidecar/proxy/window.h"

enum {
    ACCESS_RING_BYTES = 256 * 1024,
    EVENT_RING_BYTES = 64 * 1024,
    HOUSE_MS = 2000,
    QUEUE_MS = 5,
    REFUSALS = 32,
    GIVE_BACK_BYTES = 8 * 1024,
};

/* Peers that were removed or drained keep no idle connection; afterwards nothing of this thread but
 * exchanges under way reaches into an older snapshot. */
static void close_leaving(struct fl_worker *w, const struct fl_snapshot *s)
{
    for (uint32_t i = 0; i < s->backend_count; i++) {
        for (uint32_t j = 0; j < s->backends[i].peer_count; j++) {
            struct fl_peer *p = s->backends[i].peers[j].peer;
            if (atomic_load_explicit(&p->removed, memory_order_relaxed) ||
                atomic_load_explicit(&p->drained, memory_order_relaxed)) {
                fl_upstream_close_idle(w, p);
            }
        }
    }
}

void fl_worker_adopt(struct fl_worker *w)
{
    const struct fl_snapshot *fresh =
        atomic_load_explicit(&w->engine->current, memory_order_acquire);
    const struct fl_snapshot *old = w->snapshot;
    if (fresh == old) {
        return;
    }
    if (old != NULL) {
        close_leaving(w, old);
    }
    w->snapshot = fresh;
    w->log.level = (enum fl_log_level)fresh->config->log_level;
    close_leaving(w, fresh);
    atomic_store_explicit(&w->acked_generation, fresh->generation, memory_order_release);
    fl_worker_feed(w);
}

/* The process ends: whoever rests is told so now, whoever asks gets his answer first. */
static void begin_draining(struct fl_worker *w)
{
    w->draining = true;
    fl_list_each_safe (it, next, &w->clients) {
        fl_client_rest(fl_container_of(it, struct fl_client, node));
    }
}

static void on_turn(void *arg)
{
    struct fl_worker *w = arg;
    atomic_store_explicit(&w->turned_ms, fl_worker_now_ms(w), memory_order_relaxed);
    if (atomic_load_explicit(&w->engine->current, memory_order_relaxed) != w->snapshot) {
        fl_worker_adopt(w);
    }
    if (!w->draining && atomic_load_explicit(&w->engine->draining, memory_order_relaxed)) {
        begin_draining(w);
    }
    if (atomic_load_explicit(&w->handoff_tail, memory_order_relaxed) !=
        atomic_load_explicit(&w->handoff_head, memory_order_relaxed)) {
        fl_listener_take_over(w);
    }
}

/* Each waiting exchange looks once, oldest first; those that stay are asked again in 5 ms, since no
 * thread wakes another. */
static void serve_queue(struct fl_worker *w)
{
    struct fl_list *last = fl_list_last(&w->queue);
    while (last != NULL) {
        struct fl_list *it = fl_list_first(&w->queue);
        bool was_last = it == last;
        fl_list_remove(it);
        fl_list_append(&w->queue, it); /* to the end for now: it may leave the list while it runs */
        fl_exchange_retry_queue(fl_container_of(it, struct fl_exchange, queued));
        if (was_last) {
            break;
        }
    }
    if (!fl_list_empty(&w->queue)) {
        fl_timer_set(w->reactor, &w->queue_timer, fl_worker_now_ms(w) + QUEUE_MS);
    }
}

/* Each looks once, oldest first; whoever finds nothing goes to the end. One that wants much does
 * not keep the others from the little that is there. */
static void serve_starved(struct fl_worker *w)
{
    struct fl_list *last = fl_list_last(&w->starved);
    unsigned refused = 0;
    w->buffers.refused_at = 0;
    while (last != NULL && refused < REFUSALS) {
        struct fl_list *it = fl_list_first(&w->starved);
        bool was_last = it == last;
        fl_list_remove(it);
        w->buffers.wanted = false;
        fl_client_resume(fl_container_of(it, struct fl_client, waiting));
        refused += w->buffers.wanted ? 1 : 0;
        if (was_last || fl_list_empty(&w->starved)) {
            break;
        }
    }
    w->buffers.wanted = !fl_list_empty(&w->starved);
    if (refused == REFUSALS) {
        w->buffers.refused_at = UINT64_MAX; /* some have not been asked */
    }
}

static void feed(struct fl_task *t)
{
    struct fl_worker *w = fl_container_of(t, struct fl_worker, feed_task);
    serve_starved(w);
    serve_queue(w);
}

static void on_return(struct fl_buffers *b)
{
    fl_worker_feed(fl_container_of(b, struct fl_worker, buffers));
}

void fl_worker_feed(struct fl_worker *w)
{
    if (!fl_list_empty(&w->queue) || !fl_list_empty(&w->starved)) {
        fl_reactor_soon(w->reactor, &w->feed_task);
    }
}

static void on_queue_timer(struct fl_timer *t)
{
    serve_queue(fl_container_of(t, struct fl_worker, queue_timer));
}

/* Whatever lay on a free list for a whole interval is freed: taking clears `unused`, and lists are
 * last in, first out, so the busy ones stay. */
#define TRIM(type, list, freed)                                                                    \
    for (struct type **at = &(list), *it; (it = *at) != NULL;) {                                   \
        if (it->unused) {                                                                          \
            *at = it->next_free;                                                                   \
            (freed) += sizeof *it;                                                                 \
            free(it);                                                                              \
        } else {                                                                                   \
            it->unused = true;                                                                     \
            at = &it->next_free;                                                                   \
        }                                                                                          \
    }

static void on_house(struct fl_timer *t)
{
    struct fl_worker *w = fl_container_of(t, struct fl_worker, house_timer);
    size_t freed = 0;
    fl_buffers_trim(&w->buffers);
    fl_pipes_trim(&w->pipes, false);
    TRIM(fl_exchange, w->free_exchanges, freed)
    TRIM(fl_client, w->free_clients, freed)
    TRIM(fl_upstream, w->free_upstreams, freed)
    if (freed >= GIVE_BACK_BYTES) {
        (void)malloc_trim(0); /* else what lies between two blocks in use stays ours */
    }
    fl_worker_feed(w);
    fl_timer_set(w->reactor, t, fl_worker_now_ms(w) + HOUSE_MS);
}

int fl_worker_init(struct fl_worker *w, unsigned index, struct fl_engine *e,
                   const struct fl_config *c, unsigned threads, struct fl_log_writer *logs)
{
    *w = (struct fl_worker){.index = index,
                            .engine = e,
                            .replay_limit_bytes = c->replay_memory_bytes / threads,
                            .narrow_bytes = FL_NARROW_BYTES,
                            .wide_limit = UINT32_MAX,
                            .pipes = {.most = FL_PIPES_MAX, .bytes = FL_PIPE_BYTES},
                            .wide_grows = true};
    int rc = fl_reactor_new(&w->reactor);
    if (rc != 0) {
        return rc;
    }
    w->response = malloc(sizeof *w->response);
    w->handoff_from = threads > 1 ? calloc(FL_HANDOFF, sizeof *w->handoff_from) : NULL;
    if (w->response == NULL || (threads > 1 && w->handoff_from == NULL)) {
        return -ENOMEM;
    }
    w->log = (struct fl_log){.level = (enum fl_log_level)c->log_level};
    if (logs != NULL) {
        w->access_ring = fl_log_ring_new(logs, ACCESS_RING_BYTES);
        w->log.ring = fl_log_ring_new(logs, EVENT_RING_BYTES);
        if (w->access_ring == NULL || w->log.ring == NULL) {
            return -ENOMEM;
        }
    }
    fl_buffers_init(&w->buffers, c->buffer_memory_bytes / threads);
    w->buffers.on_return = on_return;
    fl_list_init(&w->clients);
    fl_list_init(&w->queue);
    fl_list_init(&w->starved);
    fl_handshake_init(&w->handshakes);
    fl_timer_init(&w->queue_timer, on_queue_timer);
    fl_timer_init(&w->house_timer, on_house);
    fl_task_init(&w->feed_task, feed);
    fl_rng_seed(&w->rng, e->seed + index * UINT64_C(0x9e3779b97f4a7c15));
    fl_timer_set(w->reactor, &w->house_timer, fl_worker_now_ms(w) + HOUSE_MS);
    fl_reactor_on_turn(w->reactor, on_turn, w);
    atomic_store_explicit(&w->turned_ms, fl_worker_now_ms(w), memory_order_relaxed);
    return 0;
}

static void free_list_clients(struct fl_worker *w)
{
    while (w->free_clients != NULL) {
        struct fl_client *c = w->free_clients;
        w->free_clients = c->next_free;
        free(c);
    }
    while (w->free_exchanges != NULL) {
        struct fl_exchange *x = w->free_exchanges;
        w->free_exchanges = x->next_free;
        free(x);
    }
    while (w->free_upstreams != NULL) {
        struct fl_upstream *u = w->free_upstreams;
        w->free_upstreams = u->next_free;
        free(u);
    }
}

void fl_worker_done(struct fl_worker *w)
{
    if (w->reactor == NULL) {
        return;
    }
    fl_reactor_on_turn(w->reactor, NULL, NULL);
    fl_list_each_safe (it, next, &w->clients) {
        struct fl_client *c = fl_container_of(it, struct fl_client, node);
        if (c->exchange != NULL) {
            fl_exchange_cut(c->exchange);
        } else {
            fl_client_close(c, false);
        }
    }
    const struct fl_snapshot *s = w->snapshot;
    for (uint32_t i = 0; s != NULL && i < s->backend_count; i++) {
        for (uint32_t j = 0; j < s->backends[i].peer_count; j++) {
            fl_upstream_close_idle(w, s->backends[i].peers[j].peer);
        }
    }
    fl_handshake_done(w);
    fl_timer_remove(w->reactor, &w->queue_timer);
    fl_timer_remove(w->reactor, &w->house_timer);
    fl_reactor_turn(w->reactor, 0); /* runs what was put off to the end of a turn */
    w->reactor = fl_reactor_free(w->reactor);
    free_list_clients(w);
    fl_buffers_done(&w->buffers);
    fl_pipes_trim(&w->pipes, true);
    free(w->response);
    free(w->handoff_from);
}
