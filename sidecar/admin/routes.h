/* routes - GET /_/api/admin/routes: the effective policy of each route and path. */
#ifndef FL_SIDECAR_ADMIN_ROUTES_H
#define FL_SIDECAR_ADMIN_ROUTES_H

#include "common/io/bridge/mhd_bridge.h"

fl_mhd_fn fl_routes_list; /* arg: struct fl_control */

#endif
