/* election - one leader among the replicas by a Lease (coordination.k8s.io/v1), as client-go's
 * leaderelection does it; decide/lease decides, this carries out. The epoch of a leader is the
 * Lease's leaseTransitions: pushes carry it, sidecars refuse a lower one.
 *
 * One thread: the reactor's. */
#ifndef FL_CONTROLLER_KUBE_ELECTION_H
#define FL_CONTROLLER_KUBE_ELECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/io/log.h"
#include "common/io/reactor.h"
#include "controller/kube/kube_client.h"

struct fl_election;

struct fl_election_conf {
    struct fl_kube *kube;
    struct fl_reactor *reactor;
    const struct fl_log *log;
    const char *namespace, *name; /* of the Lease */
    const char *identity;         /* pod name + "_" + random */
    uint64_t seed;
    void (*lead)(void *arg, int64_t epoch); /* we lead from now on; also when the epoch is raised */
    void (*follow)(void *arg);              /* we do not any more */
    void *arg;
};

FL_MUST_USE int fl_election_new(const struct fl_election_conf *conf, struct fl_election **ret);
struct fl_election *fl_election_free(struct fl_election *e); /* does not release */
/* A sidecar was pushed to with a higher epoch: while we lead, our transitions go above it. */
void fl_election_raise(struct fl_election *e, int64_t above);
/* At the end: gives the Lease back so that another takes over at once. done: it is given back, or
 * cannot be (2 s at most). */
void fl_election_release(struct fl_election *e, void (*done)(void *arg), void *arg);

struct fl_election_view {
    bool leads;
    int64_t epoch;
    const char *holder;    /* as last seen; "" nobody */
    struct fl_cause fault; /* why the Lease cannot be read or written; code "" none */
};
void fl_election_view(const struct fl_election *e, struct fl_election_view *ret);

#endif
