/* admin - the controller's status and admin listeners (contract-cluster.md section 5): ready,
 * metrics, and what it knows of backends, services and sidecars. It looks, it changes nothing.
 *
 * One thread: the reactor's. */
#ifndef FL_CONTROLLER_ADMIN_ADMIN_H
#define FL_CONTROLLER_ADMIN_ADMIN_H

#include <stdint.h>

#include "common/base/check.h"
#include "common/io/bridge/mhd_bridge.h"
#include "common/model/controller_config.h"
#include "common/model/services.h"
#include "controller/decide/verdict_table.h"
#include "controller/push/fanout.h"

/* What the pages show; everything is borrowed for the time of one page. */
struct fl_admin_view {
    int64_t now_ms;
    const struct fl_controller_config *config;
    const struct fl_fanout *fanout;
    const struct fl_verdict_table *verdicts;
    const struct fl_services *services; /* NULL: none read so far */
    int64_t services_age_ms, services_read_unix_ms;
    const char *services_fault; /* "" while all is well */
};

struct fl_admin {
    void (*look)(void *arg, struct fl_admin_view *ret);
    void *arg;
};

/* Both take listen_fd over, also when they fail. admin must outlive the server. 0 or -errno. */
FL_MUST_USE int fl_admin_open_status(const struct fl_admin *admin, struct fl_reactor *r,
                                     int listen_fd, struct fl_mhd **ret);
FL_MUST_USE int fl_admin_open_admin(const struct fl_admin *admin, struct fl_reactor *r,
                                    bool loopback, int listen_fd, struct fl_mhd **ret);

#endif
