/* read_file - a small file as one text. Any thread; blocks. */
#ifndef FL_COMMON_IO_READ_FILE_H
#define FL_COMMON_IO_READ_FILE_H

#include <stddef.h>

#include "common/base/check.h"

/* NUL-terminated behind *ret_len bytes; free() it. Pipes are read to their end, too (a
 * configuration on <(…)). -EFBIG when longer than max_bytes, -EISDIR, -ENOMEM, another -errno. */
FL_MUST_USE int fl_read_file(const char *path, size_t max_bytes, char **ret, size_t *ret_len);

#endif
