/* metrics - GET /_/metrics: Prometheus text format 0.0.4 (contract.md section 7). Labels are names
 * of the configuration and words of fixed tables, never a key or a text of users. Read with relaxed
 * loads while data threads count. */
#ifndef FL_SIDECAR_ADMIN_METRICS_H
#define FL_SIDECAR_ADMIN_METRICS_H

#include "common/io/bridge/mhd_bridge.h"
#include "sidecar/admin/control.h"

fl_mhd_fn fl_metrics_handle; /* arg: struct fl_control */
void fl_metrics_write(const struct fl_control *c, struct fl_fmt *out);

#endif
