/* units - durations "250ms 10s 5m 1h", sizes "64KiB 1MiB 1GiB 512" (bytes), ratios "20%", multiples
 * "8x". Pure. Each parser wants the whole span to match, without spaces or signs; false leaves *ret
 * alone. */
#ifndef FL_COMMON_BASE_UNITS_H
#define FL_COMMON_BASE_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fmt.h"
#include "common/base/span.h"

bool fl_units_uint(struct fl_span s, uint64_t *ret); /* decimal digits, overflow-safe */
/* a unit is required, except for plain 0 */
bool fl_units_duration_ms(struct fl_span s, int64_t *ret);
bool fl_units_size_bytes(struct fl_span s, uint64_t *ret);
bool fl_units_percent(struct fl_span s, uint32_t *ret);  /* 0..100 */
bool fl_units_multiple(struct fl_span s, uint32_t *ret); /* "8x" -> 8 */
/* largest unit that is exact: 10s, 250ms, 0s */
void fl_units_print_duration(struct fl_fmt *f, int64_t ms);
void fl_units_print_size(struct fl_fmt *f, uint64_t bytes);

#endif
