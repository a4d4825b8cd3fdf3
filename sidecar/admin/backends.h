/* backends - the Backends panel as JSON, Test connection, drain (contract.md section 6). */
#ifndef FL_SIDECAR_ADMIN_BACKENDS_H
#define FL_SIDECAR_ADMIN_BACKENDS_H

#include "common/io/bridge/mhd_bridge.h"

fl_mhd_fn fl_backends_list, fl_backends_probe, fl_backends_drain,
    fl_backends_undrain; /* arg: struct fl_control */

#endif
