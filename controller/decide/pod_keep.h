/* pod_keep - a live edit of a pod's annotations that is bad keeps the last good routes
 * (contract-cluster.md section 1). For one pod that had good routes and still runs: what it then
 * gets is its own, no longer what all pods with these annotations get. Pure. */
#ifndef FL_CONTROLLER_DECIDE_POD_KEEP_H
#define FL_CONTROLLER_DECIDE_POD_KEEP_H

#include <stdint.h>

#include "common/base/check.h"
#include "common/model/controller_config.h"
#include "controller/decide/pod_overlay.h"

/* fresh: of the annotations as they are, not yet in use, and read for this pod alone; old: what the
 * pod has. Each route that is invalid in fresh and good in old is old's, with the backend of old's
 * when fresh has none of that name; when fresh's document is one that cannot be read, so are the
 * routes of old's document that fresh lacks. One that the controller's backends do not bear any
 * more stays invalid. The findings stay: the annotation is bad. How many were kept, or -ENOMEM:
 * then fresh is good for nothing but to be freed. */
FL_MUST_USE int fl_pod_keep(const struct fl_controller_config *c, struct fl_pod_overlay *fresh,
                            const struct fl_pod_overlay *old);

#endif
