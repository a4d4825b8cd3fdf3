/* rfc3339 - a time as Kubernetes writes it: "2026-11-30T09:21:47Z", with or without a fraction, or
 * with an offset ("+01:00"). No fds, no clock. */
#ifndef FL_CONTROLLER_CODEC_RFC3339_H
#define FL_CONTROLLER_CODEC_RFC3339_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/span.h"

/* Milliseconds since 1970, rounded down; false: not such a time (years 1 to 9999). */
bool fl_rfc3339_parse(struct fl_span text, int64_t *ret_unix_ms);

#endif
