/* admin - which handler serves which path on the status and the admin listener (contract.md section
 * 6). Every handler's arg is the control state. Control thread. */
#ifndef FL_SIDECAR_ADMIN_ADMIN_H
#define FL_SIDECAR_ADMIN_ADMIN_H

#include "common/io/bridge/mhd_bridge.h"
#include "sidecar/admin/control.h"

/* Takes listen_fd over. The servers end before the control state does. 0 or -errno. */
FL_MUST_USE int fl_admin_open_status(struct fl_control *c, int listen_fd, struct fl_mhd **ret);
FL_MUST_USE int fl_admin_open_admin(struct fl_control *c, int listen_fd, struct fl_mhd **ret);

#endif
