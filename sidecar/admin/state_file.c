#include "sidecar/admin/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/fmt.h"
#include "common/base/units.h"
#include "common/io/read_file.h"

#define FILE_MAX_BYTES ((size_t)4 << 20)
#define HEAD_MAX       256
#define MAGIC          "fairlead-state 1\n"

/* Layout: MAGIC, "epoch seq saved_unix_ms keys_len body_len check\n", keys, body. The check sum is
 * over everything else. */
static uint64_t add_sum(uint64_t h, struct fl_span s)
{
    for (size_t i = 0; i < s.len; i++) {
        h = (h ^ (uint8_t)s.ptr[i]) * 0x100000001b3u; /* FNV-1a */
    }
    return h;
}

static uint64_t sum_of(const struct fl_saved_state *s)
{
    char numbers[HEAD_MAX];
    struct fl_fmt f = fl_fmt_of(numbers, sizeof(numbers));
    fl_fmt_printf(&f, "%lld %lld %lld %zu %zu", (long long)s->epoch, (long long)s->seq,
                  (long long)s->saved_unix_ms, s->keys.len, s->body.len);
    uint64_t h = add_sum(0xcbf29ce484222325u, (struct fl_span){f.base, f.len});
    return add_sum(add_sum(h, s->keys), s->body);
}

static int write_all(int fd, struct fl_span s)
{
    while (s.len > 0) {
        ssize_t n = write(fd, s.ptr, s.len);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        s = fl_span_from(s, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

static int write_to(int fd, const struct fl_saved_state *s)
{
    char head[HEAD_MAX];
    struct fl_fmt f = fl_fmt_of(head, sizeof(head));
    fl_fmt_text(&f, MAGIC);
    fl_fmt_printf(&f, "%lld %lld %lld %zu %zu %llu\n", (long long)s->epoch, (long long)s->seq,
                  (long long)s->saved_unix_ms, s->keys.len, s->body.len,
                  (unsigned long long)sum_of(s));
    int rc = write_all(fd, (struct fl_span){f.base, f.len});
    rc = rc == 0 ? write_all(fd, s->keys) : rc;
    rc = rc == 0 ? write_all(fd, s->body) : rc;
    return rc == 0 && fsync(fd) < 0 ? -errno : rc;
}

/* The rename itself is durable only with its directory. */
static void sync_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash == NULL   ? strdup(".")
                : slash == path ? strdup("/")
                                : strndup(path, (size_t)(slash - path));
    int fd = dir != NULL ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)fsync(fd); /* some filesystems cannot: the file is still whole, old or new */
        close(fd);
    }
    free(dir);
}

int fl_state_file_write(const char *path, const struct fl_saved_state *s)
{
    char *temporary = NULL;
    if (asprintf(&temporary, "%s.new", path) < 0) {
        return -ENOMEM;
    }
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = fd < 0 ? -errno : write_to(fd, s);
    if (fd >= 0) {
        rc = close(fd) < 0 && rc == 0 ? -errno : rc;
        rc = rc == 0 && rename(temporary, path) < 0 ? -errno : rc;
        if (rc < 0) {
            (void)unlink(temporary);
        } else {
            sync_directory(path);
        }
    }
    free(temporary);
    return rc;
}

static bool take_number(struct fl_span *line, uint64_t *ret)
{
    ptrdiff_t end = fl_span_find(*line, ' ');
    struct fl_span one = end < 0 ? *line : fl_span_first(*line, (size_t)end);
    *line = end < 0 ? (struct fl_span){0} : fl_span_from(*line, (size_t)end + 1);
    return fl_units_uint(one, ret);
}

static bool parse(struct fl_span text, struct fl_saved_state *ret)
{
    uint64_t n[6];
    if (!fl_span_starts(text, FL_SPAN(MAGIC))) {
        return false;
    }
    text = fl_span_from(text, sizeof(MAGIC) - 1);
    ptrdiff_t end = fl_span_find(text, '\n');
    struct fl_span line = end < 0 ? (struct fl_span){0} : fl_span_first(text, (size_t)end);
    for (size_t i = 0; i < FL_COUNTOF(n); i++) {
        if (!take_number(&line, &n[i]) || (i < 3 && n[i] > INT64_MAX)) {
            return false;
        }
    }
    text = fl_span_from(text, (size_t)end + 1);
    if (n[3] > text.len || n[4] != text.len - n[3]) {
        return false;
    }
    ret->epoch = (int64_t)n[0];
    ret->seq = (int64_t)n[1];
    ret->saved_unix_ms = (int64_t)n[2];
    ret->keys = fl_span_first(text, n[3]);
    ret->body = fl_span_from(text, n[3]);
    return sum_of(ret) == n[5];
}

int fl_state_file_read(const char *path, struct fl_saved_state *ret)
{
    size_t len = 0;
    struct fl_saved_state s = {0};
    int rc = fl_read_file(path, FILE_MAX_BYTES, &s.memory, &len);
    if (rc == 0 && !parse((struct fl_span){s.memory, len}, &s)) {
        free(s.memory);
        rc = -EBADMSG;
    }
    if (rc == 0) {
        *ret = s;
    }
    return rc;
}

void fl_saved_state_done(struct fl_saved_state *s)
{
    free(s->memory);
    *s = (struct fl_saved_state){0};
}
