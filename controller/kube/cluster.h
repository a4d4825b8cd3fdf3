/* cluster - the controller's side of a Kubernetes cluster, put together: who we are at the API
 * server, whether our role allows what we need, the election, the watches and the Events.
 *
 * The role is asked for at the start, then every 15 s while something is missing or could not be
 * asked for, else every 5 minutes. What is granted later is made use of at once.
 *
 * One thread: the reactor's. */
#ifndef FL_CONTROLLER_KUBE_CLUSTER_H
#define FL_CONTROLLER_KUBE_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/io/log.h"
#include "common/io/reactor.h"
#include "common/model/cause.h"
#include "common/model/controller_config.h"
#include "controller/kube/election.h"
#include "controller/kube/kube_access.h"
#include "controller/kube/kube_events.h"
#include "controller/kube/kube_source.h"

struct fl_cluster;

struct fl_cluster_conf {
    struct fl_reactor *reactor;
    const struct fl_log *log;
    const struct fl_kube_where *where;
    const char *host_name; /* of the pod: the first part of our identity in the Lease */
    const struct fl_controller_config *config; /* read within new only */
    uint64_t seed;
    void (*changed)(void *arg, bool members, bool pods); /* as in kube_source.h */
    void (*lead)(void *arg, int64_t epoch); /* as in election.h; without election once, soon */
    void (*follow)(void *arg);
    void *arg;
};

/* 0, or -errno with a cause that names the place and the remedy. */
FL_MUST_USE int fl_cluster_new(const struct fl_cluster_conf *conf, struct fl_cluster **ret,
                               struct fl_cause *ret_cause);
struct fl_cluster *fl_cluster_free(struct fl_cluster *c); /* accepts NULL, returns NULL */

const struct fl_kube_source *fl_cluster_source(const struct fl_cluster *c);
struct fl_kube_events *fl_cluster_events(struct fl_cluster *c);
const char *fl_cluster_namespace(const struct fl_cluster *c); /* ours; "" unknown */
void fl_cluster_raise(struct fl_cluster *c, int64_t above);   /* fl_election_raise */
/* Gives the Lease back; done is called once, at most 2 s later. */
void fl_cluster_release(struct fl_cluster *c, void (*done)(void *arg), void *arg);

struct fl_cluster_view {
    struct fl_election_view election; /* without one: we lead */
    struct fl_cause lacks;            /* what our role does not allow; code "" nothing */
};
void fl_cluster_view(const struct fl_cluster *c, struct fl_cluster_view *ret);
/* The lines of api_requests_total. */
void fl_cluster_metrics(const struct fl_cluster *c, struct fl_fmt *out);

#endif
