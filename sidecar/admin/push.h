/* push - PUT /_/api/push/v1/state: the controller's state for this pod (contract-cluster.md section
 * 4). Who may: one of the configured public keys, by a signature that is checked from the head
 * before any body is read. What counts: a pair (epoch, seq) higher than the one in force. What is
 * refused changes nothing (fail-static). Control thread. */
#ifndef FL_SIDECAR_ADMIN_PUSH_H
#define FL_SIDECAR_ADMIN_PUSH_H

#include "common/io/bridge/mhd_bridge.h"

#define FL_PUSH_PATH           "/_/api/push/v1/state"
#define FL_PUSH_BODY_MAX_BYTES ((size_t)1 << 20)

fl_mhd_fn fl_push_head, fl_push_handle; /* arg: struct fl_control */

#endif
