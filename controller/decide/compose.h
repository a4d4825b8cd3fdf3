/* compose - the state that sidecars of one configuration get: the controller's routes and backends,
 * overlaid by what the pod's annotations say, with the members of their services and the verdicts
 * of the controller's probes (contract-cluster.md sections 1 and 4). Pure; time is an argument. */
#ifndef FL_CONTROLLER_DECIDE_COMPOSE_H
#define FL_CONTROLLER_DECIDE_COMPOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/model/controller_config.h"
#include "common/model/findings.h"
#include "common/model/state.h"
#include "controller/decide/membership.h"
#include "controller/decide/pod_overlay.h"
#include "controller/decide/verdict_table.h"

/* Does the push define this backend, or only fill one that the sidecar's own file defines? The
 * latter when nothing but its service (and how the controller probes it, which is its own business)
 * is given here and no route of ours names it: then any other key could only override the file's.
 */
bool fl_compose_owns(const struct fl_config *cluster, const struct fl_backend_conf *b);

/* A state in canonical order, with texts of its own; epoch, seq and hash are the pusher's.
 *
 * pod NULL, or without routes and backends of its own: all of the controller's routes and backends.
 * Else its routes go over the controller's by bucket, its backends by name, and the state carries
 * only the backends that a route uses.
 *
 * A service or port that is not there is a finding (a warning), and its backend then has no members
 * at all: sidecars answer no_membership. Members beyond FL_PEERS_MAX are left out, with a warning:
 * sidecars would refuse the whole state. Files of probe keys are never part of it: a path here
 * means nothing to a pod; the name of a Secret of the pod's namespace is. NULL: no memory. */
FL_MUST_USE struct fl_state *fl_compose_state(const struct fl_controller_config *c,
                                              const struct fl_membership *m,
                                              const struct fl_pod_overlay *pod,
                                              const struct fl_verdict_table *verdicts,
                                              int64_t now_ms, struct fl_findings *f);

/* Under which name a backend's peers are probed, and stand in the verdict table. For one of the
 * controller's own its name. For one of an annotation it says what is probed, so that those who
 * probe the same share it and nobody else does: "NAMESPACE/SERVICE:PORT" when it is nothing but a
 * Service, else "POD-NAMESPACE/NAME#" and a fingerprint of how it is probed. */
#define FL_SUBJECT_MAX 384
void fl_compose_subject(const struct fl_controller_config *c, const struct fl_pod_overlay *pod,
                        const struct fl_backend_conf *b, char ret[FL_SUBJECT_MAX]);

/* May the controller probe this peer of a composed backend? Of its own backends any. Of one that an
 * annotation defines only members of a Service, and that only in the pod's own namespace or one
 * that probe.namespaces adds: whoever writes an annotation must not make the controller knock at
 * any address. */
bool fl_compose_may_probe(const struct fl_controller_config *c, const struct fl_pod_overlay *pod,
                          const struct fl_backend_conf *b, const struct fl_peer_conf *peer);

/* Does `fresh` take anything away that `old` offers: a peer that is gone, down, without weight or
 * in a worse tier, a backend or route that is gone, a verdict that now blocks? Such a change is not
 * held back to settle. old may be NULL. */
bool fl_compose_takes_away(const struct fl_state *old, const struct fl_state *fresh);

#endif
