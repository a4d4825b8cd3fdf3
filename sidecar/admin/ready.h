/* ready - the kubelet's three questions (contract.md section 6). No authentication, no backend I/O.
 */
#ifndef FL_SIDECAR_ADMIN_READY_H
#define FL_SIDECAR_ADMIN_READY_H

#include "common/io/bridge/mhd_bridge.h"

fl_mhd_fn fl_ready_live, fl_ready_started, fl_ready_handle; /* arg: struct fl_control */

#endif
