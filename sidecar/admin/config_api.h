/* config_api - the running configuration: shown, replaced (apply_api.c), and its events. */
#ifndef FL_SIDECAR_ADMIN_CONFIG_API_H
#define FL_SIDECAR_ADMIN_CONFIG_API_H

#include "common/io/bridge/mhd_bridge.h"

/* arg: struct fl_control. */
fl_mhd_fn fl_config_get, fl_config_put, fl_config_events, fl_config_tap;

#endif
