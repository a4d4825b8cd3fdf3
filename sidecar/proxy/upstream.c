#include "sidecar/proxy/upstream.h"

#include <errno.h>
#include <stdlib.h>

#include "common/io/sock.h"
#include "common/tls/tls.h"
#include "sidecar/proxy/exchange.h"
#include "sidecar/proxy/worker.h"

static struct fl_peer_line *line_of(struct fl_worker *w, struct fl_peer *p)
{
    struct fl_peer_line *l = &p->lines[w->index];
    if (l->idle.next == NULL) {
        fl_list_init(&l->idle);
    }
    return l;
}

static void recycle(struct fl_task *t)
{
    struct fl_upstream *up = fl_container_of(t, struct fl_upstream, free_task);
    up->next_free = up->worker->free_upstreams;
    up->worker->free_upstreams = up;
}

static void leave_idle(struct fl_upstream *up)
{
    fl_list_remove(&up->node);
    up->peer->lines[up->worker->index].idle_count--;
    fl_worker_count(&up->worker->upstreams_idle, -1);
    fl_timer_off(&up->timer);
}

static void discard(struct fl_upstream *up)
{
    fl_window_done(up->worker, &up->window);
    fl_timer_remove(up->worker->reactor, &up->timer);
    fl_handshake_leave(up);
    fl_tls_close(&up->tls);
    fl_reactor_close(up->worker->reactor, &up->io);
    fl_reactor_later(up->worker->reactor, &up->free_task);
}

static void drop_idle(struct fl_upstream *up)
{
    leave_idle(up);
    discard(up);
}

/* In clear the kernel tells of a reset once, and then of an end. The first error counts. EPIPE is
 * none of what was read: the reset came behind an end in good order, or behind an error that is
 * known. */
static ssize_t end_of(struct fl_upstream *up, ssize_t got)
{
    if (got < 0 && got != -EPIPE && up->error == 0) {
        up->error = (int)-got;
    }
    return -up->error;
}

ssize_t fl_upstream_recv(struct fl_upstream *up, void *into, size_t n)
{
    if (up->tls != NULL) {
        ssize_t got = fl_tls_recv(up->tls, into, n);
        up->readable = got != -EAGAIN && (got <= 0 || fl_tls_readable(up->tls));
        return got; /* an end without close_notify is an error, however often it is read */
    }
    ssize_t got = fl_sock_recv(up->io.fd, into, n);
    if (got == -EAGAIN || (got > 0 && (size_t)got < n && !up->hup)) {
        up->readable = false;
    }
    return got > 0 || got == -EAGAIN ? got : end_of(up, got);
}

ssize_t fl_upstream_sendv(struct fl_upstream *up, const struct iovec *iov, int count)
{
    size_t asked = 0;
    for (int i = 0; i < count; i++) {
        asked += iov[i].iov_len;
    }
    ssize_t sent =
        up->tls != NULL ? fl_tls_sendv(up->tls, iov, count) : fl_sock_sendv(up->io.fd, iov, count);
    if (sent == -EAGAIN || (sent >= 0 && (size_t)sent < asked)) {
        up->writable = false;
    } else if (sent < 0 && up->tls != NULL) {
        fl_tls_edge(up->tls, true); /* what came before the end is to be looked for */
    } else if (sent < 0) {
        (void)end_of(up, sent);
    }
    return sent;
}

void fl_upstream_wake_at(struct fl_upstream *up, int bytes)
{
    if (bytes != up->wake_at) {
        fl_sock_wake_at(up->io.fd, bytes);
        up->wake_at = bytes;
    }
}

static void listen_again(struct fl_upstream *up)
{
    fl_upstream_wake_at(up, 0);
    up->readable = true;
    if (up->tls != NULL) {
        fl_tls_edge(up->tls, false);
    }
}

void fl_upstream_lose_patience(struct fl_upstream *up)
{
    fl_patience_lost(&up->patience);
    listen_again(up);
}

/* Under TLS an event may mean nothing to the application. */
bool fl_upstream_spoke(struct fl_upstream *up)
{
    char byte;
    return up->readable && (up->tls == NULL || fl_upstream_recv(up, &byte, 1) != -EAGAIN);
}

static void on_event(struct fl_io *io, unsigned events)
{
    struct fl_upstream *up = fl_container_of(io, struct fl_upstream, io);
    if ((events & FL_IO_READ) != 0) {
        up->readable = true;
    }
    if ((events & FL_IO_WRITE) != 0) {
        up->writable = true;
    }
    if ((events & FL_IO_HUP) != 0) {
        up->hup = true;
        up->readable = true;
    }
    if ((events & FL_IO_ERROR) != 0) {
        up->failed = true;
        up->readable = true;
    }
    if (up->tls != NULL) {
        fl_tls_edge(up->tls, up->hup || up->failed);
        if (fl_tls_crossed(up->tls)) {
            up->readable = up->writable = true;
        }
    }
    if (up->owner != NULL) {
        fl_exchange_heard(up->owner);
    } else if (fl_upstream_spoke(up)) {
        drop_idle(up); /* a close, or bytes without a request: never to be trusted again */
    }
}

static void on_idle_too_long(struct fl_timer *t)
{
    drop_idle(fl_container_of(t, struct fl_upstream, timer));
}

struct fl_upstream *fl_upstream_take(struct fl_worker *w, struct fl_peer *p,
                                     struct fl_exchange *owner, uint64_t proof, int64_t max_idle_ms)
{
    struct fl_upstream *up = NULL;
    for (struct fl_list *n; up == NULL && (n = fl_list_first(&line_of(w, p)->idle)) != NULL;) {
        up = fl_container_of(n, struct fl_upstream, node);
        if (up->proof != proof) {
            drop_idle(up);
            up = NULL;
        }
    }
    if (up == NULL || fl_worker_now_ms(w) - up->idle_since_ms >= max_idle_ms) {
        return NULL;
    }
    leave_idle(up);
    up->owner = owner;
    fl_worker_count(&w->upstreams_active, 1);
    return up;
}

_Static_assert(offsetof(struct fl_upstream, io) == 0 &&
                   offsetof(struct fl_upstream, owner) % sizeof(void *) == 0 &&
                   offsetof(struct fl_upstream, owner) / sizeof(void *) < 256,
               "fl_io.also");

static struct fl_upstream *fresh(struct fl_worker *w)
{
    struct fl_upstream *up = w->free_upstreams;
    if (up != NULL) {
        w->free_upstreams = up->next_free;
    } else {
        up = malloc(sizeof *up);
    }
    if (up != NULL) {
        *up = (struct fl_upstream){
            .worker = w,
            .io = {.fd = -1,
                   .also = offsetof(struct fl_upstream, owner) / sizeof(void *),
                   .on_event = on_event}};
        fl_list_init(&up->node);
        fl_list_init(&up->place_node);
        fl_timer_init(&up->timer, on_idle_too_long);
        fl_task_init(&up->free_task, recycle);
    }
    return up;
}

int fl_upstream_dial(struct fl_worker *w, struct fl_peer *p, struct fl_exchange *owner,
                     uint64_t proof, int user_timeout_ms, struct fl_upstream **ret)
{
    struct fl_upstream *up = fresh(w);
    if (up == NULL) {
        return -ENOMEM;
    }
    int fd = -1;
    int rc = fl_sock_connect(&p->addr, user_timeout_ms, &fd);
    if (rc == 0) {
        rc = fl_reactor_add(w->reactor, &up->io, fd);
        if (rc != 0) {
            fl_sock_close(fd);
        }
    }
    if (rc != 0) {
        recycle(&up->free_task);
        return rc;
    }
    up->peer = p;
    up->owner = owner;
    up->proof = proof;
    fl_worker_count(&w->upstreams_active, 1);
    *ret = up;
    return 0;
}

void fl_upstream_close(struct fl_upstream **upp)
{
    struct fl_upstream *up = *upp;
    if (up == NULL) {
        return;
    }
    *upp = NULL;
    FL_MUST(up->owner != NULL);
    up->owner = NULL;
    fl_worker_count(&up->worker->upstreams_active, -1);
    discard(up);
}

/* The last read filled its buffer to the brim, so nobody knows whether more had come: bytes left
 * unread now would be taken for the next answer. */
static bool has_surplus(struct fl_upstream *up)
{
    char byte;
    return up->readable && fl_upstream_recv(up, &byte, 1) != -EAGAIN;
}

void fl_upstream_give(struct fl_upstream **upp, const struct fl_backend_conf *b)
{
    struct fl_upstream *up = *upp;
    struct fl_worker *w = up->worker;
    struct fl_peer_line *l = line_of(w, up->peer);
    bool leaving = atomic_load_explicit(&up->peer->removed, memory_order_relaxed) ||
                   atomic_load_explicit(&up->peer->drained, memory_order_relaxed);
    if (up->wake_at > 0) { /* what came too much would not have made an edge yet */
        listen_again(up);
    }
    if (up->hup || up->failed || leaving || w->draining || b->keepalive.idle == 0 ||
        has_surplus(up)) {
        fl_upstream_close(upp);
        return;
    }
    if (l->idle_count >= b->keepalive.idle) {
        drop_idle(fl_container_of(fl_list_last(&l->idle), struct fl_upstream, node));
    }
    *upp = NULL;
    up->owner = NULL;
    up->readable = false; /* all bytes were taken: the next edge is a surprise */
    up->idle_since_ms = fl_worker_now_ms(w);
    fl_list_push(&l->idle, &up->node);
    l->idle_count++;
    fl_worker_count(&w->upstreams_active, -1);
    fl_worker_count(&w->upstreams_idle, 1);
    fl_timer_set(w->reactor, &up->timer, up->idle_since_ms + b->keepalive.timeout_ms);
}

void fl_upstream_close_idle(struct fl_worker *w, struct fl_peer *p)
{
    struct fl_peer_line *l = line_of(w, p);
    fl_list_each_safe (it, next, &l->idle) {
        drop_idle(fl_container_of(it, struct fl_upstream, node));
    }
}
