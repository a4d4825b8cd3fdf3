/* tls_file - a PEM file as bytes, and a stamp that tells when it has become another one. Control
 * thread; blocks. */
#ifndef FL_COMMON_TLS_TLS_FILE_H
#define FL_COMMON_TLS_TLS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/check.h"

struct fl_tls_stamp { /* zeroed: no file */
    uint64_t device, inode, size_bytes;
    int64_t changed_ns; /* the later of content and inode */
};

#define FL_TLS_FILE_MAX_BYTES ((size_t)8 << 20)

/* NUL behind *ret_len bytes; give it to fl_tls_file_wipe. The stamp is of what was opened, taken
 * before reading: a file that changes meanwhile is found changed later. -EFBIG, -EISDIR, another
 * -errno. */
FL_MUST_USE int fl_tls_file_read(const char *path, char **ret, size_t *ret_len,
                                 struct fl_tls_stamp *ret_stamp);
/* Overwrites and frees: it may have been a key. NULL is fine. */
void fl_tls_file_wipe(char *bytes, size_t len);
/* Is what stands at the path now another file, or another content, than the stamp's? Also true
 * when it is gone. A path of "" has not changed. */
bool fl_tls_file_changed(const char *path, const struct fl_tls_stamp *stamp);

#endif
