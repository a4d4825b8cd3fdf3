#include "common/probe/probe_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/model/cause.h"

#define FILE_MAX 1024 /* a key and the white space around it */

static ssize_t read_text(const char *path, char into[FILE_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer is no key */
    if (fd < 0) {
        return -errno;
    }
    ssize_t len = 0, n;
    do {
        n = read(fd, into + len, FILE_MAX - (size_t)len);
        len += n > 0 ? n : 0;
    } while ((n > 0 && len < FILE_MAX) || (n < 0 && errno == EINTR));
    ssize_t rc = n < 0 ? -errno : n > 0 ? -EFBIG : len;
    (void)close(fd);
    return rc;
}

static struct fl_span strip(struct fl_span s)
{
    while (s.len != 0 && strchr(" \t\r\n", s.ptr[0]) != NULL && s.ptr[0] != '\0') {
        s = fl_span_from(s, 1);
    }
    while (s.len != 0 && strchr(" \t\r\n", s.ptr[s.len - 1]) != NULL && s.ptr[s.len - 1] != '\0') {
        s.len--;
    }
    return s;
}

/* One word of printable ASCII; an id stands in a list between '/' and ',' (Authorization). */
static bool is_key(struct fl_span s, bool id)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c <= ' ' || c >= 0x7f || (id && (c == '/' || c == ','))) {
            return false;
        }
    }
    return s.len != 0;
}

static bool take_key(const char *what, const char *path, bool id, char *into, size_t cap,
                     char why[96])
{
    char text[FILE_MAX];
    struct fl_fmt w = fl_fmt_of(why, 96), to = fl_fmt_of(into, cap);
    ssize_t n = read_text(path, text);
    if (n < 0) {
        fl_fmt_printf(&w, "%s: %s", what, fl_cause_errno_text((int)-n));
        return false;
    }
    struct fl_span key = strip((struct fl_span){text, (size_t)n});
    fl_fmt_span(&to, key);
    bool good = is_key(key, id) && !to.cut;
    explicit_bzero(text, sizeof(text));
    if (!good) {
        fl_fmt_printf(&w, "%s holds no key", what);
    }
    return good;
}

static uint64_t mix(uint64_t h, const char *text)
{
    do { /* FNV-1a, the NUL included */
        h = (h ^ (uint8_t)*text) * 0x100000001b3u;
    } while (*text++ != '\0');
    return h;
}

bool fl_probe_keys_read(const char *access_key_file, const char *secret_key_file,
                        struct fl_probe_keys *ret, char why[96])
{
    *ret = (struct fl_probe_keys){.hash = 0};
    why[0] = '\0';
    if (access_key_file == NULL || access_key_file[0] == '\0') {
        return true;
    }
    if (!take_key("access_key_file", access_key_file, true, ret->access_key,
                  sizeof(ret->access_key), why) ||
        !take_key("secret_key_file", secret_key_file, false, ret->secret_key,
                  sizeof(ret->secret_key), why)) {
        fl_probe_keys_forget(ret);
        return false;
    }
    ret->hash = mix(mix(0xcbf29ce484222325u, ret->access_key), ret->secret_key) | 1;
    return true;
}

void fl_probe_keys_forget(struct fl_probe_keys *k)
{
    explicit_bzero(k, sizeof(*k));
}
