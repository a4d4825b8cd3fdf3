/* pod_config - the annotations of a pod to what they mean for its sidecar (contract-cluster.md
 * section 1): with the parser and the table of the configuration files, and without trust in their
 * author. Whatever is wrong costs the routes that it is about, never another one, and is a finding
 * that names the annotation.
 *
 * - route.fairlead.dev/<bucket>: a backend's name, a Service (`name.namespace:port`, `name:port` of
 *   the pod's own namespace), or a mapping of route keys. Wherever a route names a backend, it may
 *   name a Service: the implicit backend is called `name.namespace:port`.
 * - backend.fairlead.dev/<name>: a mapping of backend keys. A route of the pod to a bad one is
 *   invalid, even if the controller has a good backend of that name.
 * - fairlead.dev/routes: a document of routes: and backends:, each entry on its own. When it cannot
 *   be read at all its routes are unknown: then what no other route takes is answered 503.
 * - An annotation of one bucket or backend counts more than the document; the key that is written
 *   right counts more than one in other letters.
 * - Sidecar-wide keys are checked and kept, and are no part of a state.
 *
 * What is accepted makes a state that sidecars take: checked as a sidecar would. No fds. */
#ifndef FL_CONTROLLER_CODEC_POD_CONFIG_H
#define FL_CONTROLLER_CODEC_POD_CONFIG_H

#include <stdint.h>

#include "common/base/check.h"
#include "common/model/controller_config.h"
#include "controller/decide/kube_objects.h"
#include "controller/decide/pod_overlay.h"

#define FL_POD_ROUTES_MAX   1024
#define FL_POD_BACKENDS_MAX 1024

/* namespace: the pod's. Nothing of c or the annotations is kept. Free the result with
 * fl_pod_overlay_free; NULL: no memory. */
FL_MUST_USE struct fl_pod_overlay *fl_pod_config_read(const struct fl_controller_config *c,
                                                      const char *namespace,
                                                      const struct fl_kube_annotation *annotations,
                                                      uint32_t count);

#endif
