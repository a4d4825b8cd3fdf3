/* admin - the controller's status and admin listeners (contract-cluster.md section 5): ready,
 * metrics, what it knows of backends, services and sidecars, and `Test connection`.
 *
 * One thread: the reactor's. */
#ifndef FL_CONTROLLER_ADMIN_ADMIN_H
#define FL_CONTROLLER_ADMIN_ADMIN_H

#include <stdint.h>

#include "common/base/check.h"
#include "common/base/list.h"
#include "common/io/bridge/mhd_bridge.h"
#include "common/model/controller_config.h"
#include "common/model/services.h"
#include "controller/delivery/delivery.h"
#include "controller/kube/cluster.h"

/* What the pages show; everything is borrowed for the time of one page. */
struct fl_admin_view {
    int64_t now_ms;
    const struct fl_controller_config *config;
    const struct fl_delivery *delivery;
    const struct fl_fanout *fanout; /* these three are the delivery's */
    const struct fl_verdict_table *verdicts;
    const struct fl_cluster_prober *prober;
    const struct fl_cluster *cluster;   /* NULL: the source is a file */
    const struct fl_services *services; /* of the file; NULL: none read so far */
    int64_t file_age_ms, file_read_unix_ms;
    const char *file_fault; /* "" while all is well */
};

typedef void fl_admin_look_fn(void *arg, struct fl_admin_view *ret);
/* Probes every peer of the backend (a subject) now; fl_cluster_prober_ask. */
typedef uint64_t fl_admin_ask_fn(void *arg, const char *backend);

struct fl_admin {
    fl_admin_look_fn *look;
    fl_admin_ask_fn *ask;
    void *arg;
    struct fl_list waits; /* calls that wait for the end of a probe */
};

void fl_admin_init(struct fl_admin *admin, fl_admin_look_fn *look, fl_admin_ask_fn *ask, void *arg);
void fl_admin_done(struct fl_admin *admin); /* after both servers are gone */
/* A probe has ended: answers those who waited for it. Not from within a probe's callback. */
void fl_admin_answer_waits(struct fl_admin *admin);
bool fl_admin_waits(const struct fl_admin *admin); /* somebody does */

/* Both take listen_fd over, also when they fail. admin must outlive the server. 0 or -errno. */
FL_MUST_USE int fl_admin_open_status(struct fl_admin *admin, struct fl_reactor *r, int listen_fd,
                                     struct fl_mhd **ret);
FL_MUST_USE int fl_admin_open_admin(struct fl_admin *admin, struct fl_reactor *r, bool loopback,
                                    int listen_fd, struct fl_mhd **ret);

#endif
