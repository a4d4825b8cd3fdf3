/* base64 - RFC 4648 section 4 with padding, and hex in lower case. Pure. */
#ifndef FL_COMMON_BASE_BASE64_H
#define FL_COMMON_BASE_BASE64_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/fmt.h"
#include "common/base/span.h"

void fl_base64_encode(struct fl_fmt *f, const void *bytes, size_t n);
/* length, or -EINVAL (not canonical), -ENOSPC */
ssize_t fl_base64_decode(struct fl_span text, void *ret, size_t cap);
void fl_hex_encode(struct fl_fmt *f, const void *bytes, size_t n);

#endif
