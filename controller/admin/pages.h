/* pages - the pages of admin.h; arg of each is the struct fl_admin. */
#ifndef FL_CONTROLLER_ADMIN_PAGES_H
#define FL_CONTROLLER_ADMIN_PAGES_H

#include "common/base/json.h"
#include "controller/admin/admin.h"

#define FL_PAGES_FAULT_MAX 512

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

/* Of /_/metrics: probes and the verdicts of backends; what only a cluster has. */
void fl_pages_probe_metrics(struct fl_fmt *out, const struct fl_admin_view *v);
void fl_pages_cluster_metrics(struct fl_fmt *out, const struct fl_admin_view *v);
void fl_pages_metric_head(struct fl_fmt *out, const char *name, const char *type, const char *help);
/* The one backend (a subject), as in the list. */
void fl_pages_backend(struct fl_mhd_call *call, const struct fl_admin_view *v, const char *name);
bool fl_pages_find(const struct fl_admin_view *v, const char *name,
                   struct fl_delivery_backend *ret);

/* The age of the membership in force, whatever its source, and what is wrong with that; "" while
 * all is well. */
bool fl_pages_known(const struct fl_admin_view *v);
int64_t fl_pages_age_ms(const struct fl_admin_view *v);
bool fl_pages_fault(const struct fl_admin_view *v, char text[FL_PAGES_FAULT_MAX]);
void fl_pages_put_services(struct fl_json *j, const struct fl_admin_view *v); /* of a cluster */

#endif
