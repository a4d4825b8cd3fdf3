/* engine_state - the inside of the engine, for this room only. What data threads read is atomic. */
#ifndef FL_SIDECAR_PROXY_ENGINE_STATE_H
#define FL_SIDECAR_PROXY_ENGINE_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "sidecar/proxy/engine.h"
#include "sidecar/proxy/listener.h"
#include "sidecar/proxy/worker.h"

enum { FL_LISTENERS_MAX = 16 };

struct fl_engine {
    unsigned threads, running; /* running: threads that were started; the first serves as it is */
    uint64_t seed;
    uint32_t max_connections;
    bool short_of_descriptors; /* max_connections is what they allow */
    _Atomic(struct fl_snapshot *) current;
    _Atomic bool draining, probe_wanted;
    struct fl_reactor *control; /* set before the threads start */
    struct fl_snapshot *old;    /* published before, not yet reclaimed (next_old); control thread */
    struct fl_listener listeners[FL_LISTENERS_MAX];
    unsigned listener_count;
    int64_t accept_warned_ms;         /* one line a second for all of them */
    pthread_t thread[FL_THREADS_MAX]; /* from 1 on */
    struct fl_worker *workers;        /* [threads] */
};

/* What start does before it makes threads: workers adopt `first` and begin to accept. The
 * simulation turns them itself. */
FL_MUST_USE int fl_engine_prepare(struct fl_engine *e, struct fl_snapshot *first);
/* A data thread wants a peer probed at once; it has set probe_wanted on the peer. */
void fl_engine_want_probe(struct fl_engine *e);
/* Client connections over all threads, those on their way to one included. */
uint32_t fl_engine_clients(const struct fl_engine *e);

#endif
