#include "sidecar/proxy/gather.h"

#include "common/base/check.h"
#include "common/io/sock.h"

void fl_gather_add(struct fl_gather *g, const void *bytes, size_t n)
{
    if (n == 0) {
        return;
    }
    struct iovec *last = g->count > g->at ? &g->iov[g->count - 1] : NULL;
    if (last != NULL && (const char *)last->iov_base + last->iov_len == (const char *)bytes) {
        last->iov_len += n; /* a head and its body, read together: send costs less than sendmsg */
        g->left += n;
        return;
    }
    FL_MUST(g->count < FL_GATHER_MAX);
    g->iov[g->count].iov_base = (void *)(uintptr_t)bytes; /* iovec has no const variant */
    g->iov[g->count].iov_len = n;
    g->count++;
    g->left += n;
}

void fl_gather_advance(struct fl_gather *g, size_t n)
{
    FL_MUST(n <= g->left);
    g->left -= n;
    while (n > 0) {
        struct iovec *v = &g->iov[g->at];
        if (n < v->iov_len) {
            v->iov_base = (char *)v->iov_base + n;
            v->iov_len -= n;
            return;
        }
        n -= v->iov_len;
        g->at++;
    }
    if (g->left == 0) {
        g->at = g->count = 0;
    }
}

ssize_t fl_gather_send(struct fl_gather *g, int fd)
{
    FL_MUST(g->left > 0);
    ssize_t n = fl_sock_sendv(fd, g->iov + g->at, (int)(g->count - g->at));
    if (n > 0) {
        fl_gather_advance(g, (size_t)n);
    }
    return n;
}
