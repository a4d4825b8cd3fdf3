/* tell - what becomes an Event, and about whom: a sidecar's pod, a backend's Service, a pod whose
 * annotations are wrong. One thread. */
#ifndef FL_CONTROLLER_TELL_H
#define FL_CONTROLLER_TELL_H

#include "controller/decide/kube_objects.h"
#include "controller/kube/kube_events.h"
#include "controller/probe/backend_notice.h"
#include "controller/push/fanout.h"

void fl_tell_sidecar(struct fl_kube_events *e, enum fl_fanout_news what,
                     const struct fl_fanout_view *who);
/* About its Service; a backend without one is our own pod's matter. */
void fl_tell_backend(struct fl_kube_events *e, const char *our_namespace, const char *our_pod,
                     const struct fl_backend_news *news);
void fl_tell_annotation(struct fl_kube_events *e, const struct fl_kube_pod *pod, const char *said);

#endif
