/* election - one leader among the replicas by a Lease (coordination.k8s.io/v1), as client-go's
 * leaderelection does it; decide/lease decides, this carries out. The epoch of a leader is the
 * Lease's leaseTransitions: pushes carry it, sidecars refuse a lower one.
 *
 * `follow` is called in the very turn in which our term is over, by that turn's clock, before the
 * tasks at its end: also in the first turn after a pause of the whole process. Who acts earlier in
 * a turn than at its end asks fl_election_epoch first. `lead` and `follow` may call everything here
 * but free.
 *
 * One thread: the reactor's. */
#ifndef FL_CONTROLLER_KUBE_ELECTION_H
#define FL_CONTROLLER_KUBE_ELECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/io/log.h"
#include "common/io/reactor.h"
#include "common/model/cause.h"
#include "controller/kube/kube_client.h"

struct fl_election;

struct fl_election_conf {
    struct fl_kube *kube;
    struct fl_reactor *reactor;
    const struct fl_log *log;
    const char *namespace, *name; /* of the Lease; copied */
    const char *identity;         /* pod name + "_" + random, shorter than FL_LEASE_HOLDER_MAX */
    uint64_t seed;
    void (*lead)(void *arg, int64_t epoch); /* we lead from now on; also when the epoch is raised */
    void (*follow)(void *arg);              /* we do not any more */
    void *arg;
};

/* 0, -EINVAL (an identity or a name that is empty or too long), -ENOMEM. */
FL_MUST_USE int fl_election_new(const struct fl_election_conf *conf, struct fl_election **ret);
/* Does not release. Accepts NULL, returns NULL. */
struct fl_election *fl_election_free(struct fl_election *e);
/* To act with, by the clock of this turn; 0: we do not lead. */
int64_t fl_election_epoch(const struct fl_election *e);
/* A sidecar was pushed to with a higher epoch: while we lead, our transitions go above it, and
 * `lead` is called with the new one. */
void fl_election_raise(struct fl_election *e, int64_t above);
/* At the end, once: gives the Lease back so that another takes over at once. `follow` is called
 * before. done: it is given back, or cannot be (2 s at most); never from within release. */
void fl_election_release(struct fl_election *e, void (*done)(void *arg), void *arg);

struct fl_election_view {
    bool leads;
    int64_t epoch;
    const char *holder;    /* as last seen; "" nobody */
    struct fl_cause fault; /* why the Lease cannot be read or written; code "" none */
};
void fl_election_view(const struct fl_election *e, struct fl_election_view *ret);

#endif
