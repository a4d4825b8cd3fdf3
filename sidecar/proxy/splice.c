#include "sidecar/proxy/splice.h"

#include <errno.h>

#include "common/io/sock.h"
#include "sidecar/proxy/exchange.h"
#include "sidecar/proxy/upstream.h"
#include "sidecar/proxy/worker.h"

enum { LAST_BYTES = 16384 }; /* a rest below this is copied */

static void close_pipe(struct fl_pipes *p, const struct fl_pipe *pipe)
{
    fl_sock_close(pipe->from);
    fl_sock_close(pipe->into);
    p->made--;
}

static bool take_pipe(struct fl_exchange *x)
{
    struct fl_pipes *p = &x->worker->pipes;
    struct fl_spliced *s = &x->spliced;
    if (p->idle_count > 0) {
        s->pipe = p->idle[--p->idle_count];
        p->idle_low = p->idle_count < p->idle_low ? p->idle_count : p->idle_low;
    } else if (p->made >= p->most) {
        return false;
    } else {
        int rc = fl_sock_pipe(p->bytes, &s->pipe.from, &s->pipe.into);
        if (rc != 0) {
            p->most = fl_errno_is_local(-rc) ? p->most : 0;
            return false;
        }
        p->made++;
    }
    s->held = true;
    return true;
}

bool fl_splice_ready(struct fl_exchange *x)
{
    const struct fl_relay *r = &x->relay;
    const struct fl_upstream *up = x->attempt.up;
    bool may = r->large && up->tls == NULL && up->window.state == FL_WINDOW_WIDE &&
               fl_body_frame_remaining(&r->frame) >= LAST_BYTES;
    return may && (x->spliced.held || take_pipe(x));
}

ssize_t fl_splice_in(struct fl_exchange *x)
{
    struct fl_upstream *up = x->attempt.up;
    uint64_t left = fl_body_frame_remaining(&x->relay.frame);
    size_t most = x->worker->pipes.bytes;
    ssize_t n = fl_sock_splice(up->io.fd, x->spliced.pipe.into, left < most ? (size_t)left : most);
    if (n > 0) {
        x->spliced.bytes = (uint32_t)n;
        fl_body_frame_skip(&x->relay.frame, (uint64_t)n);
    } else if (n == -EAGAIN) {
        up->readable = false;
    } else if (n == -EINVAL || n == -ENOSYS) { /* not here: nothing was moved, so copy it */
        x->worker->pipes.most = 0;
        x->relay.large = false;
        return -EAGAIN;
    }
    return n;
}

ssize_t fl_splice_out(struct fl_exchange *x)
{
    struct fl_spliced *s = &x->spliced;
    ssize_t n = fl_sock_splice(s->pipe.from, x->client->io.fd, s->bytes);
    if (n > 0) {
        s->bytes -= (uint32_t)n;
    }
    return n;
}

void fl_splice_rest(struct fl_exchange *x)
{
    struct fl_pipes *p = &x->worker->pipes;
    if (x->spliced.held && x->spliced.bytes == 0) {
        p->idle[p->idle_count++] = x->spliced.pipe;
        x->spliced.held = false;
    }
}

void fl_splice_done(struct fl_exchange *x)
{
    fl_splice_rest(x);
    if (x->spliced.held) {
        close_pipe(&x->worker->pipes, &x->spliced.pipe);
        x->spliced.held = false;
    }
}

void fl_pipes_trim(struct fl_pipes *p, bool all)
{
    unsigned surplus = all ? p->idle_count : p->idle_low;
    for (; surplus > 0; surplus--) {
        close_pipe(p, &p->idle[--p->idle_count]);
    }
    p->idle_low = p->idle_count;
}
