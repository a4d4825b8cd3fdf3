/* explain - GET /_/api/admin/explain?method=PUT&target=/b/k(&header=Name:value…): what would happen
 * to this request, and to whom it could go, before it is sent. The request is put together as text
 * and read by the parser of the data path, so both see the same. Nothing is sent, counted or
 * picked. */
#ifndef FL_SIDECAR_ADMIN_EXPLAIN_H
#define FL_SIDECAR_ADMIN_EXPLAIN_H

#include "common/io/bridge/mhd_bridge.h"

fl_mhd_fn fl_explain_handle; /* arg: struct fl_control */

#endif
