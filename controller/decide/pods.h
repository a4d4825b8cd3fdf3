/* pods - the pods that have our sidecar: whom to push to. A store fed by their watch. Pure; one
 * thread.
 *
 * Of a pod that is kept, resource_version is "" (it changes with everything, and we need it of
 * none) and the annotation fairlead.dev/bootstrap is left out (the injector wrote it, and it may
 * have 64 KiB). */
#ifndef FL_CONTROLLER_DECIDE_PODS_H
#define FL_CONTROLLER_DECIDE_PODS_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/decide/kube_objects.h"

struct fl_pods;

FL_MUST_USE struct fl_pods *fl_pods_new(uint64_t seed); /* NULL: no memory */
struct fl_pods *fl_pods_free(struct fl_pods *p);        /* accepts NULL, returns NULL */

/* All texts are copied. 0 or -ENOMEM (then the pod is as it was). *ret_changed: something of the
 * pod that we use is another than before (most changes of a pod are none to us). */
FL_MUST_USE int fl_pods_put(struct fl_pods *p, const struct fl_kube_pod *pod, bool *ret_changed);
bool fl_pods_remove(struct fl_pods *p, const char *namespace, const char *name); /* it was there */
/* A relist: what is put between them is in force at once, what was not put is gone at its end.
 * begin again starts anew. end: some are gone by it. */
void fl_pods_begin(struct fl_pods *p);
bool fl_pods_end(struct fl_pods *p);

uint32_t fl_pods_count(const struct fl_pods *p);
/* Walks in the order of (namespace, name): start with NULL; NULL at the end. The pod lives until
 * the next change. */
const struct fl_kube_pod *fl_pods_next(const struct fl_pods *p, const struct fl_kube_pod *before);
/* A push makes sense: an address, started, not ended. A pod that is being deleted gets pushes to
 * its end: it still serves. */
bool fl_pods_is_target(const struct fl_kube_pod *pod);
/* Two pods with the same configuration key get the same state: the namespace and our annotations,
 * without those that the injector writes. A hash and the namespace, NUL-terminated: the namespace
 * is there in full, so that nobody's annotations can be made to look like those of another one. ""
 * for a pod without such annotations. */
#define FL_POD_CONFIGURATION_MAX 100
void fl_pods_configuration(const struct fl_kube_pod *pod, char key[FL_POD_CONFIGURATION_MAX]);

#endif
