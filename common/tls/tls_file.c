#include "common/tls/tls_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPARE_BYTES 1 /* beyond the size that fstat told: a file that grew is noticed */

static int64_t later_ns(const struct stat *st)
{
    int64_t content =
        (int64_t)st->st_mtim.tv_sec * INT64_C(1000000000) + (int64_t)st->st_mtim.tv_nsec;
    int64_t inode =
        (int64_t)st->st_ctim.tv_sec * INT64_C(1000000000) + (int64_t)st->st_ctim.tv_nsec;
    return content > inode ? content : inode;
}

static struct fl_tls_stamp stamp_of(const struct stat *st)
{
    return (struct fl_tls_stamp){.device = st->st_dev,
                                 .inode = st->st_ino,
                                 .size_bytes = (uint64_t)st->st_size,
                                 .changed_ns = later_ns(st)};
}

static int read_all(int fd, char *bytes, size_t cap, size_t *ret_len)
{
    size_t len = 0;
    while (len < cap) {
        ssize_t n = read(fd, bytes + len, cap - len);
        if (n == 0) {
            break;
        }
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        len += n > 0 ? (size_t)n : 0;
    }
    *ret_len = len;
    return len == cap ? -EAGAIN : 0; /* longer than it was a moment ago: somebody writes it */
}

static int read_open(int fd, char **ret, size_t *ret_len, struct fl_tls_stamp *ret_stamp)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
    }
    if ((uint64_t)st.st_size > FL_TLS_FILE_MAX_BYTES) {
        return -EFBIG;
    }
    size_t cap = (size_t)st.st_size + SPARE_BYTES;
    char *bytes = malloc(cap + 1);
    if (bytes == NULL) {
        return -ENOMEM;
    }
    size_t len = 0;
    int rc = read_all(fd, bytes, cap, &len);
    if (rc < 0) {
        fl_tls_file_wipe(bytes, cap);
        return rc;
    }
    bytes[len] = '\0';
    *ret = bytes;
    *ret_len = len;
    *ret_stamp = stamp_of(&st);
    return 0;
}

int fl_tls_file_read(const char *path, char **ret, size_t *ret_len, struct fl_tls_stamp *ret_stamp)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us */
    if (fd < 0) {
        return -errno;
    }
    int rc = read_open(fd, ret, ret_len, ret_stamp);
    close(fd);
    return rc;
}

void fl_tls_file_wipe(char *bytes, size_t len)
{
    if (bytes != NULL) {
        explicit_bzero(bytes, len);
        free(bytes);
    }
}

bool fl_tls_file_changed(const char *path, const struct fl_tls_stamp *stamp)
{
    struct stat st;
    if (path[0] == '\0') {
        return false;
    }
    if (stat(path, &st) < 0) {
        return true;
    }
    struct fl_tls_stamp now = stamp_of(&st);
    return now.device != stamp->device || now.inode != stamp->inode ||
           now.size_bytes != stamp->size_bytes || now.changed_ns != stamp->changed_ns;
}
