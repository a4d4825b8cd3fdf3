/* file - a small file as one text. Blocks. */
#ifndef FL_CONTROLLER_FILE_H
#define FL_CONTROLLER_FILE_H

#include <stddef.h>

#include "common/base/check.h"

/* NUL-terminated behind *ret_len bytes; free() it. -EFBIG when longer than max_bytes, -EISDIR,
 * -ENOMEM, another -errno. */
FL_MUST_USE int fl_file_read(const char *path, size_t max_bytes, char **ret, size_t *ret_len);

#endif
