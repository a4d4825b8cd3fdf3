/* pages - the pages of admin.h; arg of each is the struct fl_admin. */
#ifndef FL_CONTROLLER_ADMIN_PAGES_H
#define FL_CONTROLLER_ADMIN_PAGES_H

#include "controller/admin/admin.h"

/* current: has every change; behind: lacks one; unreachable: three pushes in a row have failed. */
enum fl_sidecar_state {
    FL_SIDECAR_CURRENT,
    FL_SIDECAR_BEHIND,
    FL_SIDECAR_UNREACHABLE,
    FL_SIDECAR_STATES
};
enum fl_sidecar_state fl_pages_sidecar_state(const struct fl_fanout_view *s);
const char *fl_pages_sidecar_word(enum fl_sidecar_state s);
struct fl_admin_view fl_pages_look(const struct fl_admin *admin);

void fl_pages_ready(struct fl_mhd_call *call, void *arg);
void fl_pages_metrics(struct fl_mhd_call *call, void *arg);
void fl_pages_backends(struct fl_mhd_call *call, void *arg);
void fl_pages_pods(struct fl_mhd_call *call, void *arg);
void fl_pages_services(struct fl_mhd_call *call, void *arg);
void fl_pages_probe(struct fl_mhd_call *call, void *arg);

/* Of /_/metrics: probes and the verdicts of backends. */
void fl_pages_probe_metrics(struct fl_fmt *out, const struct fl_admin_view *v);
/* The one backend, as in the list. */
void fl_pages_backend(struct fl_mhd_call *call, const struct fl_admin_view *v, const char *name);
const struct fl_state_backend *fl_pages_find(const struct fl_admin_view *v, const char *name);

#endif
