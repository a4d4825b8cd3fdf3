/* metrics_text - lines of the Prometheus text format. */
#ifndef FL_SIDECAR_ADMIN_METRICS_TEXT_H
#define FL_SIDECAR_ADMIN_METRICS_TEXT_H

#include <stdint.h>

#include "common/base/fmt.h"
#include "sidecar/policy/tally.h"

/* "# HELP" and "# TYPE" of fairlead_<name>; type: counter, gauge, histogram. */
void fl_metrics_family(struct fl_fmt *out, const char *name, const char *type, const char *help);
/* fairlead_<name><suffix>{key="value",…} v; labels: key and value in turn, NULL at the end; values
 * are escaped. */
void fl_metrics_uint(struct fl_fmt *out, const char *name, const char *const *labels, uint64_t v);
void fl_metrics_secs(struct fl_fmt *out, const char *name, const char *const *labels, int64_t us);
/* Buckets, sum and count of the sum of `count` histograms, `stride` bytes apart (the lines of the
 * threads). */
void fl_metrics_latency(struct fl_fmt *out, const char *name, const char *const *labels,
                        const struct fl_latency *first, size_t stride, unsigned count);
uint64_t fl_metrics_latency_count(const struct fl_latency *first, size_t stride, unsigned count);

#endif
