/* engine - the data plane as the control thread sees it: data threads, their listeners, and the
 * snapshot swap.
 *
 * Snapshot life cycle: publish stores the new pointer and wakes every data thread; a thread adopts
 * it at the top of its next turn and acknowledges; an exchange holds the snapshot it began with.
 * reclaim frees a snapshot once every thread has acknowledged a newer one and no exchange holds it.
 * Data threads never lock, never free a snapshot.
 *
 * Two threads share the functions below. The serving thread makes the engine, opens its listeners,
 * starts, serves and stops: whatever has to do with descriptors, since the control thread may have
 * a descriptor table of its own (sidecar/app.c). It is the first data thread. Everything else is
 * the control thread's, except where a comment says otherwise; fl_engine_free after the serving
 * thread's fl_engine_stop. */
#ifndef FL_SIDECAR_PROXY_ENGINE_H
#define FL_SIDECAR_PROXY_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/addr.h"
#include "common/base/check.h"
#include "common/io/log.h"
#include "common/io/reactor.h"
#include "sidecar/policy/registry.h"
#include "sidecar/policy/snapshot.h"

struct fl_engine;

/* Makes the threads' memory and rings, before the log writer starts; config gives limits that hold
 * for the whole run (threads, buffer_memory, replay_memory, max_connections). What else a request
 * needs is read from its snapshot. seed: of the random state (round-robin starts, request ids);
 * from the system's random source. */
FL_MUST_USE int fl_engine_new(const struct fl_config *config, unsigned threads,
                              struct fl_log_writer *logs, uint64_t seed, struct fl_engine **ret);
/* What the machine allows: memory of the container (0 = no limit known), descriptors of the process
 * (0 = not known). Before start. Little memory holds what the kernel may keep for slow readers;
 * every client needs a second descriptor for its upstream, and others need some too. */
void fl_engine_bound(struct fl_engine *e, uint64_t memory_bytes, uint64_t descriptors);
/* Opens one data listener (contract.md section 2); before start. -errno. */
FL_MUST_USE int fl_engine_listen(struct fl_engine *e, const struct fl_addr *at);
/* The address of listener i as bound (port 0 resolved); false beyond the last. */
bool fl_engine_listening(const struct fl_engine *e, unsigned i, struct fl_addr *ret);
/* Any thread but the serving one, at its beginning: a descriptor table of its own, if it may have
 * one, in which no listener is open. */
void fl_engine_leave_descriptors(const struct fl_engine *e);
/* Takes over the first snapshot, begins to accept, and starts the data threads after the first.
 * control is woken when a data thread wants a probe. */
FL_MUST_USE int fl_engine_start(struct fl_engine *e, struct fl_snapshot *first,
                                struct fl_reactor *control);
/* Is the first data thread until fl_engine_end. */
void fl_engine_serve(struct fl_engine *e);

void fl_engine_publish(struct fl_engine *e, struct fl_snapshot *fresh);  /* takes fresh over */
const struct fl_snapshot *fl_engine_snapshot(const struct fl_engine *e); /* the newest published */
/* Frees what nobody reads any more; returns how many snapshots still wait. */
unsigned fl_engine_reclaim(struct fl_engine *e, struct fl_registry *registry);

/* SIGTERM: idle clients are closed, answers carry Connection: close. Listeners stay open until
 * nothing came for 1 s. */
void fl_engine_drain(struct fl_engine *e);
bool fl_engine_drained(const struct fl_engine *e, int64_t now_ms);
/* The data threads end after their turn. fl_engine_stop comes after this has returned. */
void fl_engine_end(struct fl_engine *e);
/* Closes everything, cutting what is still in flight; returns how many exchanges were cut. Frees
 * nothing. Also without start. */
unsigned fl_engine_stop(struct fl_engine *e);
struct fl_engine *fl_engine_free(struct fl_engine *e, struct fl_registry *registry);

/* Has a data thread seen a failing peer since last asked? (peers carry probe_wanted) */
bool fl_engine_probe_wanted(struct fl_engine *e);

struct fl_engine_gauges { /* sums over the threads; relaxed reads, any thread */
    uint64_t accepted;
    uint32_t clients, clients_active, upstreams_active, upstreams_idle, queued;
    uint64_t client_limit_hits, descriptor_limit_hits;
    uint64_t buffer_bytes, replay_bytes;
    /* Monotonic time of the last turn of the thread that turned longest ago. */
    int64_t oldest_turn_ms;
};
void fl_engine_gauges(const struct fl_engine *e, struct fl_engine_gauges *ret);

#endif
