/* micro_time - MicroTime of the Kubernetes API: RFC 3339 in UTC with exactly six digits of a
 * fraction ("2026-11-30T09:21:47.000123Z"); the API server refuses any other number of digits.
 * No fds, no clock. */
#ifndef FL_CONTROLLER_CODEC_MICRO_TIME_H
#define FL_CONTROLLER_CODEC_MICRO_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fmt.h"
#include "common/base/span.h"

#define FL_MICRO_TIME_MAX 28 /* with its NUL */

void fl_micro_time_write(struct fl_fmt *out, int64_t unix_us); /* years clipped to 0..9999 */
/* The same as a text of its own. */
const char *fl_micro_time_text(int64_t unix_us, char text[FL_MICRO_TIME_MAX]);
/* Microseconds since 1970; any number of digits is read. False: not such a time. */
bool fl_micro_time_parse(struct fl_span text, int64_t *ret_unix_us);

#endif
