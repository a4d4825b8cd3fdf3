/* pods - the pods that have our sidecar: whom to push to. A store fed by their watch. Pure; one
 * thread. */
#ifndef FL_CONTROLLER_DECIDE_PODS_H
#define FL_CONTROLLER_DECIDE_PODS_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/decide/kube_objects.h"

struct fl_pods;

FL_MUST_USE struct fl_pods *fl_pods_new(uint64_t seed); /* NULL: no memory */
struct fl_pods *fl_pods_free(struct fl_pods *p);        /* accepts NULL, returns NULL */

/* All texts are copied. 0 or -ENOMEM. *ret_changed: something of the pod that we use is another
 * than before (most changes of a pod are none to us). */
FL_MUST_USE int fl_pods_put(struct fl_pods *p, const struct fl_kube_pod *pod, bool *ret_changed);
bool fl_pods_remove(struct fl_pods *p, const char *namespace, const char *name); /* it was there */
void fl_pods_begin(struct fl_pods *p); /* a relist, as in slices.h */
bool fl_pods_end(struct fl_pods *p);   /* some are gone by it */

uint32_t fl_pods_count(const struct fl_pods *p);
/* Walks in the order of (namespace, name): start with NULL; NULL at the end. The pod lives until
 * the next change. */
const struct fl_kube_pod *fl_pods_next(const struct fl_pods *p, const struct fl_kube_pod *before);
/* A push makes sense: an address, started, not ended. A pod that is being deleted gets pushes to
 * its end: it still serves. */
bool fl_pods_is_target(const struct fl_kube_pod *pod);
/* Two pods with the same configuration key get the same state: the namespace and our annotations,
 * without those that the injector writes. Written into key, NUL-terminated hex. "" for a pod
 * without such annotations. */
#define FL_POD_CONFIGURATION_MAX 40
void fl_pods_configuration(const struct fl_kube_pod *pod, char key[FL_POD_CONFIGURATION_MAX]);

#endif
