#include "sidecar/proxy/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/io/sock.h"
#include "common/io/thread.h"
#include "sidecar/proxy/engine_state.h"
#include "sidecar/proxy/window.h"

enum {
    STACK_BYTES = 256 * 1024,
    QUIET_MS = 1000,
    LITTLE_MEMORY = 128 * 1024 * 1024,
    BYTES_PER_WIDE = 2 * 1024 * 1024, /* they take half of it at most, and seldom at once */
    /* Listeners, reactors, logs; status and admin connections and probes where all threads share
     * one table. */
    RESERVED_DESCRIPTORS = 32,
};

int fl_engine_new(const struct fl_config *config, unsigned threads, struct fl_log_writer *logs,
                  uint64_t seed, struct fl_engine **ret)
{
    FL_MUST(threads >= 1 && threads <= FL_THREADS_MAX);
    struct fl_engine *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return -ENOMEM;
    }
    e->threads = threads;
    e->seed = seed;
    e->max_connections = config->max_connections;
    if (posix_memalign((void **)&e->workers, 64, threads * sizeof *e->workers) != 0) {
        free(e);
        return -ENOMEM;
    }
    memset(e->workers, 0, threads * sizeof *e->workers);
    int rc = 0;
    for (unsigned i = 0; i < threads && rc == 0; i++) {
        rc = fl_worker_init(&e->workers[i], i, e, config, threads, logs);
    }
    if (rc != 0) {
        fl_engine_free(e, NULL);
        return rc;
    }
    *ret = e;
    return 0;
}

void fl_engine_bound(struct fl_engine *e, uint64_t memory_bytes, uint64_t descriptors)
{
    for (unsigned i = 0; i < e->threads && memory_bytes != 0 && memory_bytes < LITTLE_MEMORY; i++) {
        uint64_t wide = memory_bytes / BYTES_PER_WIDE / e->threads;
        e->workers[i].narrow_bytes = FL_NARROW_SMALL_BYTES;
        e->workers[i].wide_grows = false;
        e->workers[i].pipes.most = FL_PIPES_FEW;
        e->workers[i].pipes.bytes = FL_PIPE_SMALL_BYTES;
        e->workers[i].wide_limit = wide > 1 ? (uint32_t)wide : 1;
    }
    if (descriptors == 0) {
        return;
    }
    uint64_t pairs = descriptors > 2 * RESERVED_DESCRIPTORS
                         ? (descriptors - RESERVED_DESCRIPTORS) / 2
                         : descriptors / 4;
    if (pairs < e->max_connections) {
        e->max_connections = (uint32_t)pairs;
        e->short_of_descriptors = true;
    }
}

int fl_engine_listen(struct fl_engine *e, const struct fl_addr *at)
{
    if (e->listener_count == FL_LISTENERS_MAX) {
        return -ENOSPC;
    }
    int rc = fl_listener_open(&e->listeners[e->listener_count], e, at);
    e->listener_count += rc == 0 ? 1 : 0;
    return rc;
}

bool fl_engine_listening(const struct fl_engine *e, unsigned i, struct fl_addr *ret)
{
    if (i >= e->listener_count) {
        return false;
    }
    *ret = e->listeners[i].at;
    return true;
}

void fl_engine_leave_descriptors(const struct fl_engine *e)
{
    if (e->listener_count == 0 || !fl_thread_split_descriptors(e->listeners[0].io.fd)) {
        return;
    }
    for (unsigned i = 1; i < e->listener_count; i++) {
        fl_sock_close(e->listeners[i].io.fd);
    }
}

static void *run_worker(void *arg)
{
    struct fl_worker *w = arg;
    fl_reactor_run(w->reactor);
    return NULL;
}

int fl_engine_prepare(struct fl_engine *e, struct fl_snapshot *first)
{
    int rc = 0;
    atomic_store(&e->current, first);
    for (unsigned i = 0; i < e->threads; i++) {
        fl_worker_adopt(&e->workers[i]);
    }
    for (unsigned i = 0; i < e->listener_count && rc == 0; i++) {
        rc = fl_listener_start(&e->listeners[i], &e->workers[0]);
    }
    return rc;
}

int fl_engine_start(struct fl_engine *e, struct fl_snapshot *first, struct fl_reactor *control)
{
    e->control = control;
    int rc = fl_engine_prepare(e, first);
    if (rc != 0) {
        return rc;
    }
    for (unsigned i = 1; i < e->threads && rc == 0; i++) {
        rc = fl_thread_start(&e->thread[i], STACK_BYTES, run_worker, &e->workers[i]);
        e->running += rc == 0 ? 1 : 0;
    }
    return rc;
}

void fl_engine_serve(struct fl_engine *e)
{
    fl_reactor_run(e->workers[0].reactor);
}

static void wake_all(struct fl_engine *e)
{
    for (unsigned i = 0; i < e->threads; i++) {
        fl_reactor_wake(e->workers[i].reactor);
    }
}

void fl_engine_publish(struct fl_engine *e, struct fl_snapshot *fresh)
{
    struct fl_snapshot *was = atomic_exchange_explicit(&e->current, fresh, memory_order_acq_rel);
    fresh->next_old = NULL;
    was->next_old = e->old;
    e->old = was;
    wake_all(e);
}

const struct fl_snapshot *fl_engine_snapshot(const struct fl_engine *e)
{
    return atomic_load_explicit(&e->current, memory_order_relaxed);
}

static bool is_held(const struct fl_engine *e, const struct fl_snapshot *s)
{
    for (unsigned i = 0; i < e->threads; i++) {
        if (atomic_load_explicit(&e->workers[i].acked_generation, memory_order_acquire) <=
                s->generation ||
            atomic_load_explicit(&s->holds[i].seen, memory_order_acquire) != 0) {
            return true;
        }
    }
    return false;
}

unsigned fl_engine_reclaim(struct fl_engine *e, struct fl_registry *registry)
{
    unsigned waiting = 0;
    for (struct fl_snapshot **at = &e->old; *at != NULL;) {
        struct fl_snapshot *s = *at;
        if (is_held(e, s)) {
            waiting++;
            at = &s->next_old;
        } else {
            *at = s->next_old;
            fl_snapshot_free(registry, s);
        }
    }
    return waiting;
}

void fl_engine_drain(struct fl_engine *e)
{
    atomic_store(&e->draining, true);
    wake_all(e);
}

bool fl_engine_drained(const struct fl_engine *e, int64_t now_ms)
{
    for (unsigned i = 0; i < e->threads; i++) {
        if (atomic_load(&e->workers[i].active_count) != 0 ||
            now_ms - atomic_load(&e->workers[i].last_begin_ms) < QUIET_MS) {
            return false;
        }
    }
    return true;
}

void fl_engine_end(struct fl_engine *e)
{
    for (unsigned i = 0; i < e->threads; i++) {
        fl_reactor_stop(e->workers[i].reactor);
    }
}

unsigned fl_engine_stop(struct fl_engine *e)
{
    unsigned cut = 0;
    for (unsigned i = 1; i <= e->running; i++) {
        pthread_join(e->thread[i], NULL);
    }
    e->running = 0;
    for (unsigned i = 0; i < e->threads; i++) {
        cut += atomic_load(&e->workers[i].active_count);
    }
    for (unsigned i = 0; i < e->listener_count; i++) {
        fl_listener_stop(&e->listeners[i]);
    }
    for (unsigned i = 0; i < e->threads; i++) {
        fl_worker_done(&e->workers[i]);
    }
    return cut;
}

struct fl_engine *fl_engine_free(struct fl_engine *e, struct fl_registry *registry)
{
    if (e == NULL) {
        return NULL;
    }
    (void)fl_engine_stop(e);
    while (e->old != NULL) {
        struct fl_snapshot *s = e->old;
        e->old = s->next_old;
        fl_snapshot_free(registry, s);
    }
    struct fl_snapshot *last = atomic_load(&e->current);
    if (last != NULL) {
        fl_snapshot_free(registry, last);
    }
    free(e->workers);
    free(e);
    return NULL;
}

void fl_engine_want_probe(struct fl_engine *e)
{
    bool asked = atomic_exchange_explicit(&e->probe_wanted, true, memory_order_acq_rel);
    if (!asked && e->control != NULL) { /* one wake, however many requests fail */
        fl_reactor_wake(e->control);
    }
}

bool fl_engine_probe_wanted(struct fl_engine *e)
{
    return atomic_exchange_explicit(&e->probe_wanted, false, memory_order_acquire);
}

uint32_t fl_engine_clients(const struct fl_engine *e)
{
    uint32_t n = 0;
    for (unsigned i = 0; i < e->threads; i++) {
        n += fl_worker_clients(&e->workers[i]);
    }
    return n;
}

void fl_engine_gauges(const struct fl_engine *e, struct fl_engine_gauges *ret)
{
    *ret = (struct fl_engine_gauges){.oldest_turn_ms = INT64_MAX};
    for (unsigned i = 0; i < e->threads; i++) {
        const struct fl_worker *w = &e->workers[i];
        int64_t turned_ms = atomic_load_explicit(&w->turned_ms, memory_order_relaxed);
        ret->accepted += atomic_load_explicit(&w->accepted, memory_order_relaxed);
        ret->clients += atomic_load_explicit(&w->client_count, memory_order_relaxed);
        ret->clients_active += atomic_load_explicit(&w->active_count, memory_order_relaxed);
        ret->upstreams_active += atomic_load_explicit(&w->upstreams_active, memory_order_relaxed);
        ret->upstreams_idle += atomic_load_explicit(&w->upstreams_idle, memory_order_relaxed);
        ret->queued += atomic_load_explicit(&w->queued, memory_order_relaxed);
        ret->client_limit_hits += atomic_load_explicit(&w->client_limit_hits, memory_order_relaxed);
        ret->descriptor_limit_hits +=
            atomic_load_explicit(&w->descriptor_limit_hits, memory_order_relaxed);
        ret->buffer_bytes += atomic_load_explicit(&w->buffers.used_bytes, memory_order_relaxed);
        ret->replay_bytes += atomic_load_explicit(&w->replay_bytes, memory_order_relaxed);
        ret->oldest_turn_ms = turned_ms < ret->oldest_turn_ms ? turned_ms : ret->oldest_turn_ms;
    }
}
