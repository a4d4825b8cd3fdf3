#include "common/io/read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#define FIRST_BYTES 4096

static int read_all(int fd, size_t max_bytes, char **text, size_t *len)
{
    size_t cap = 0;
    for (;;) {
        if (*len + 1 >= cap) {
            cap = cap ? cap * 2 : FIRST_BYTES;
            char *more = realloc(*text, cap);
            if (more == NULL) {
                return -ENOMEM;
            }
            *text = more;
        }
        ssize_t n = read(fd, *text + *len, cap - 1 - *len);
        if (n == 0) {
            (*text)[*len] = '\0';
            return 0;
        }
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        *len += n > 0 ? (size_t)n : 0;
        if (*len > max_bytes) {
            return -EFBIG;
        }
    }
}

int fl_read_file(const char *path, size_t max_bytes, char **ret, size_t *ret_len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    char *text = NULL;
    size_t len = 0;
    int rc = read_all(fd, max_bytes, &text, &len);
    close(fd);
    if (rc < 0) {
        free(text);
        return rc;
    }
    *ret = text;
    *ret_len = len;
    return 0;
}
