/* compose - the state that sidecars of one configuration get: the controller's routes and backends,
 * with the members of their services and the verdicts of its probes (contract-cluster.md section
 * 4). Pure; time is an argument. */
#ifndef FL_CONTROLLER_DECIDE_COMPOSE_H
#define FL_CONTROLLER_DECIDE_COMPOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/model/controller_config.h"
#include "common/model/findings.h"
#include "common/model/services.h"
#include "common/model/state.h"
#include "controller/decide/verdict_table.h"

/* Does the push define this backend, or only fill one that the sidecar's own file defines? The
 * latter when nothing but its service (and how the controller probes it, which is its own business)
 * is given here and no route of ours names it: then any other key could only override the file's.
 */
bool fl_compose_owns(const struct fl_config *cluster, const struct fl_backend_conf *b);

/* A state in canonical order, with texts of its own; epoch, seq and hash are the pusher's. A
 * service or port that the document does not have is a finding (a warning), and its backend then
 * has no members at all: sidecars answer no_membership. Probe keys are never part of it: a path
 * here means nothing to a pod, and a pod holds no secret of ours. NULL: no memory. */
FL_MUST_USE struct fl_state *fl_compose_state(const struct fl_controller_config *c,
                                              const struct fl_services *s,
                                              const struct fl_verdict_table *verdicts,
                                              int64_t now_ms, struct fl_findings *f);

/* Does `fresh` take anything away that `old` offers: a peer that is gone, down, without weight or
 * in a worse tier, a backend or route that is gone, a verdict that now blocks? Such a change is not
 * held back to settle. old may be NULL. */
bool fl_compose_takes_away(const struct fl_state *old, const struct fl_state *fresh);

#endif
