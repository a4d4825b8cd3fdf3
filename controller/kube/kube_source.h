/* kube_source - membership and sidecars from the API server: three watches (endpointslices,
 * services, pods that have our sidecar) into the pure stores of decide/slices and decide/pods.
 *
 * Whatever the API server does, what is known stays known; its age and the reason are shown.
 * Changes of one turn are told once, at its end.
 *
 * One thread: the reactor's. */
#ifndef FL_CONTROLLER_KUBE_KUBE_SOURCE_H
#define FL_CONTROLLER_KUBE_KUBE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/io/log.h"
#include "common/io/reactor.h"
#include "controller/decide/pods.h"
#include "controller/decide/slices.h"
#include "controller/kube/kube_client.h"
#include "controller/kube/kube_watch.h"

struct fl_kube_source;

enum fl_kube_resource { FL_KUBE_SLICES, FL_KUBE_SERVICES, FL_KUBE_PODS, FL_KUBE_RESOURCES };

struct fl_kube_source_conf {
    struct fl_kube *kube;
    struct fl_reactor *reactor;
    const struct fl_log *log;
    uint64_t seed;
    /* Members or pods are others than before, or known for the first time; once members are known,
     * at the end of a turn. */
    void (*changed)(void *arg, bool members, bool pods);
    void *arg;
};

FL_MUST_USE int fl_kube_source_new(const struct fl_kube_source_conf *conf,
                                   struct fl_kube_source **ret); /* 0 or -errno */
struct fl_kube_source *
fl_kube_source_free(struct fl_kube_source *s); /* accepts NULL, returns NULL */

/* fl_kube_watch_hurry for all three. */
void fl_kube_source_hurry(const struct fl_kube_source *s);
/* Slices and services were listed once: what is known is worth pushing. It stays true. */
bool fl_kube_source_known(const struct fl_kube_source *s);
const struct fl_slices *fl_kube_source_slices(const struct fl_kube_source *s);
const struct fl_pods *fl_kube_source_pods(const struct fl_kube_source *s);
void fl_kube_source_watch(const struct fl_kube_source *s, enum fl_kube_resource r,
                          struct fl_kube_watch_view *ret);

#endif
