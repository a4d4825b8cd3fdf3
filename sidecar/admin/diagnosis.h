/* diagnosis - what is wrong with a backend now, in one place: which peers, why, since when, seen
 * from where, what its requests get, what happens next, what to do. It puts together what the
 * probes found, what the requests met since, and what the controller says; it decides nothing. The
 * member `diagnosis` of the admin API: an object of sentences, null when nothing is wrong.
 *
 * What it is called (`finding`), worst first: "blocked", the verdict gates it; "no peer usable",
 * nobody is left for other reasons (quarantined, drained, no members); "erroring", it answers its
 * probe, but badly; "peers out" and "peers erroring", the others serve; "requests fail", the last
 * one did, and nobody is taken out for it; "no answer yet", a probe has waited for two seconds;
 * "controller only", pushed and not confirmed from here.
 *
 * Control thread. */
#ifndef FL_SIDECAR_ADMIN_DIAGNOSIS_H
#define FL_SIDECAR_ADMIN_DIAGNOSIS_H

#include "common/base/json.h"
#include "sidecar/admin/control_inner.h"

/* True when something is wrong. */
bool fl_diagnosis_put(const struct fl_control *c, struct fl_json *j,
                      const struct fl_snap_backend *b);

#endif
