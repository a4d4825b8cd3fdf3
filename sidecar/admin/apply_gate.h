/* apply_gate - asks the backends whose definition a configuration changes, before it is in force
 * (behaviour.md section 5). All at once, with names and a prober of its own: whatever comes out of
 * it, what the running configuration knows and shows of its backends stays as it is. All peers of a
 * changed backend are asked, each with the probe of its type.
 *
 * A definition is changed when a peer that is not `down` is new, or its fingerprint is another
 * (prober.h). Policies, weights, routes are no definition. Control thread. */
#ifndef FL_SIDECAR_ADMIN_APPLY_GATE_H
#define FL_SIDECAR_ADMIN_APPLY_GATE_H

#include "common/verdict/derive.h"
#include "sidecar/admin/control_inner.h"

struct fl_apply_gate;

/* now: in force; next: what would be; both effective and not expanded. next is taken over, also
 * when this fails. done is called once, in a later turn, as a task: it may free the gate; rc: 0, or
 * -ENOMEM when nobody could be asked. 0 or -errno. */
FL_MUST_USE int fl_apply_gate_new(struct fl_control *c, const struct fl_config *now,
                                  struct fl_config *next, void (*done)(void *arg, int rc),
                                  void *arg, struct fl_apply_gate **ret);
/* Accepts NULL, returns NULL. Turn the reactor once more before it is freed. */
struct fl_apply_gate *fl_apply_gate_free(struct fl_apply_gate *g);

/* What was asked: the backends in the order of the configuration; NULL beyond the last. */
const struct fl_backend_conf *fl_apply_gate_backend(const struct fl_apply_gate *g, uint32_t i);
/* Once done: the derived verdict of the i-th. */
void fl_apply_gate_verdict(const struct fl_apply_gate *g, uint32_t i, struct fl_derived *ret);
/* Once done: names and prober of the control state take over what was learnt, with the next
 * rebuild; until false is said, which must be before the gate is freed. */
void fl_apply_gate_teach(const struct fl_apply_gate *g, bool on);

#endif
