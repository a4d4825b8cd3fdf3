/* The simulated sock: fl_sock_* as common/io/sock.h promises them. Also the paths and scripted
 * listeners. */
#include "common/io/sock.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/sim/sim_in.h"

static struct fl_addr parse(const char *text)
{
    struct fl_addr a;
    FL_MUST(fl_addr_parse(fl_span_of(text), &a));
    return a;
}

/* --- files --- */

struct sim_file *sim_file_of(struct sim_world *w, int fd)
{
    if (fd < SIM_FD_BASE || (unsigned)(fd - SIM_FD_BASE) >= w->file_count) {
        return NULL;
    }
    struct sim_file *f = w->files[fd - SIM_FD_BASE];
    return f->end != NULL || f->listener != NULL ? f : NULL;
}

int sim_file_new(struct sim_world *w, struct sim_end *e, struct sim_listener *l)
{
    if (w->files_open >= w->fd_limit) {
        return -EMFILE;
    }
    struct sim_file *f =
        w->free_files; /* last closed first: numbers come back at once, as traps should */
    if (f != NULL) {
        w->free_files = f->next_free;
    } else {
        f = sim_alloc(sizeof(*f));
        if (w->file_count % 64 == 0) {
            w->files = realloc(w->files, (w->file_count + 64) * sizeof(struct sim_file *));
            FL_MUST(w->files != NULL);
        }
        f->fd = SIM_FD_BASE + (int)w->file_count;
        w->files[w->file_count++] = f;
    }
    *f = (struct sim_file){.fd = f->fd, .end = e, .listener = l, .generation = f->generation};
    fl_list_init(&f->ready);
    w->files_open++;
    w->counts.sockets_made++;
    return f->fd;
}

void sim_file_close(struct sim_file *f)
{
    struct sim_world *w = f->end ? f->end->link->world : sim_current;
    struct sim_end *e = f->end;
    struct sim_listener *l = f->listener;
    sim_unregister(f);
    f->end = NULL;
    f->listener = NULL;
    f->next_free = w->free_files;
    w->free_files = f;
    w->files_open--;
    if (e != NULL) {
        sim_end_close(e, f->linger0);
    } else {
        sim_listener_free(l);
    }
}

/* --- listeners and paths --- */

static bool covers(const struct fl_addr *at, const struct fl_addr *to)
{
    bool ip = to->family == FL_ADDR_V4 || to->family == FL_ADDR_V6;
    bool any = ip && fl_addr_is_any(at) && at->port == to->port &&
               (at->family == FL_ADDR_V6 || to->family == FL_ADDR_V4);
    return any || fl_addr_eq(at, to);
}

struct sim_listener *sim_find_listener(struct sim_world *w, const struct fl_addr *to)
{
    fl_list_each (n, &w->listeners) {
        struct sim_listener *l = fl_container_of(n, struct sim_listener, node);
        if (covers(&l->at, to)) {
            return l;
        }
    }
    return NULL;
}

static struct sim_listener *new_listener(struct sim_world *w, const struct fl_addr *at)
{
    struct sim_listener *l = sim_alloc(sizeof(*l));
    l->at = *at;
    fl_list_init(&l->queue);
    fl_list_append(&w->listeners, &l->node);
    return l;
}

void sim_listener_free(struct sim_listener *l)
{
    fl_list_remove(&l->node);
    for (struct fl_list *n; (n = fl_list_first(&l->queue)) != NULL;) {
        struct sim_link *link = fl_container_of(n, struct sim_link, waiting);
        fl_list_remove(n);
        sim_end_close(&link->end[1], true);
    }
    free(l);
}

void sim_listen(struct sim_world *w, const char *at, const struct sim_endpoint *ep, void *arg)
{
    struct fl_addr a = parse(at);
    FL_MUST(sim_find_listener(w, &a) == NULL);
    struct sim_listener *l = new_listener(w, &a);
    l->ep = ep;
    l->arg = arg;
}

void sim_unlisten(struct sim_world *w, const char *at)
{
    struct fl_addr a = parse(at);
    struct sim_listener *l = sim_find_listener(w, &a);
    FL_MUST(l != NULL && l->file == NULL);
    sim_listener_free(l);
}

static struct sim_route *find_route(struct sim_world *w, const struct fl_addr *to)
{
    fl_list_each (n, &w->routes) {
        struct sim_route *route = fl_container_of(n, struct sim_route, node);
        if (fl_addr_eq(&route->to, to)) {
            return route;
        }
    }
    return NULL;
}

void sim_set_path(struct sim_world *w, const char *to, const struct sim_path *path)
{
    struct fl_addr a = parse(to);
    struct sim_route *route = find_route(w, &a);
    if (route == NULL) {
        route = sim_alloc(sizeof(*route));
        route->to = a;
        fl_list_append(&w->routes, &route->node);
    }
    route->path = *path;
}

/* --- fl_sock_* --- */

static int failed(enum sim_call call, int rc)
{
    if (rc == -EAGAIN) {
        sim_current->counts.eagain[call]++;
    }
    return rc;
}

int fl_sock_listen(const struct fl_addr *at, int backlog, int *ret_fd)
{
    struct sim_world *w = sim_current;
    struct fl_addr a = *at;
    int err = sim_call(w, SIM_CALL_LISTEN);
    if (err != 0) {
        return -err;
    }
    if (a.family != FL_ADDR_UNIX && a.port == 0) {
        a.port = w->next_port++;
    }
    if (sim_find_listener(w, &a) != NULL) {
        return -EADDRINUSE;
    }
    int fd = sim_file_new(w, NULL, NULL);
    if (fd < 0) {
        return fd;
    }
    struct sim_listener *l = new_listener(w, &a);
    l->backlog = backlog > 0 ? (unsigned)backlog : 1;
    l->file = w->files[fd - SIM_FD_BASE];
    l->file->listener = l;
    *ret_fd = fd;
    return 0;
}

int fl_sock_local(int fd, struct fl_addr *ret)
{
    const struct sim_file *f = sim_file_of(sim_current, fd);
    if (f == NULL) {
        return -EBADF;
    }
    const struct sim_end *e = f->end;
    *ret = e == NULL ? f->listener->at : e == &e->link->end[0] ? e->link->from : e->link->to;
    return 0;
}

int fl_sock_accept(int listen_fd, struct fl_addr *ret_peer)
{
    struct sim_world *w = sim_current;
    struct sim_file *f = sim_file_of(w, listen_fd);
    int err = sim_call(w, SIM_CALL_ACCEPT);
    if (f == NULL || f->listener == NULL) {
        return -EBADF;
    }
    f->told_read_us = 0;
    struct sim_listener *l = f->listener;
    struct fl_list *n = fl_list_first(&l->queue);
    if (n == NULL) {
        return failed(SIM_CALL_ACCEPT, -EAGAIN);
    }
    struct sim_link *link = fl_container_of(n, struct sim_link, waiting);
    int fd = err != 0 ? -err : sim_file_new(w, &link->end[1], NULL);
    if (fd < 0) {
        return fd; /* it stays in the queue, as with the kernel */
    }
    fl_list_remove(n);
    l->queued--;
    link->end[1].file = w->files[fd - SIM_FD_BASE];
    if (ret_peer != NULL) {
        *ret_peer = link->from;
    }
    return fd;
}

int fl_sock_connect(const struct fl_addr *to, int user_timeout_ms, int *ret_fd)
{
    struct sim_world *w = sim_current;
    int err = sim_call(w, SIM_CALL_CONNECT);
    const struct sim_route *route = find_route(w, to);
    struct sim_path path = route ? route->path : sim_path_default();
    if (err == 0 && path.connect == SIM_UNREACHABLE) {
        err = EHOSTUNREACH;
    }
    if (err == 0 && to->family == FL_ADDR_UNIX && sim_find_listener(w, to) == NULL) {
        err = ECONNREFUSED; /* unix sockets say so at once */
    }
    if (err != 0) {
        return -err;
    }
    struct fl_addr from = {.family = to->family};
    if (to->family == FL_ADDR_V4) {
        from.ip[0] = 127;
    }
    if (to->family != FL_ADDR_UNIX) {
        from.ip[to->family == FL_ADDR_V4 ? 3 : 15] = 1;
        from.port = w->next_port++;
    }
    struct sim_link *l = sim_link_new(w, &path, &from, to);
    int fd = sim_file_new(w, &l->end[0], NULL);
    if (fd < 0) {
        l->end[0].state = SIM_CLOSED;
        sim_link_unref(l);
        return fd;
    }
    l->end[0].app = true;
    l->end[0].file = w->files[fd - SIM_FD_BASE];
    l->end[0].user_timeout_ms = user_timeout_ms;
    sim_link_connect(l);
    *ret_fd = fd;
    return 0;
}

static int take_error(struct sim_end *e)
{
    int err = e->err;
    e->err = 0;
    return -err;
}

int fl_sock_error(int fd)
{
    struct sim_file *f = sim_file_of(sim_current, fd);
    return f == NULL || f->end == NULL ? -EBADF : take_error(f->end);
}

static struct sim_end *stream_of(int fd, int err, int *rc)
{
    struct sim_file *f = sim_file_of(sim_current, fd);
    *rc = f == NULL || f->end == NULL ? -EBADF : -err;
    return *rc == 0 ? f->end : NULL;
}

/* The order of tcp_recvmsg: bytes, then a FIN that has come (though an error came behind it), then
 * the error. */
ssize_t fl_sock_recv(int fd, void *into, size_t n)
{
    struct sim_world *w = sim_current;
    int rc;
    struct sim_end *e = stream_of(fd, sim_call(w, SIM_CALL_RECV), &rc);
    if (e == NULL) {
        return rc;
    }
    struct sim_file *f = e->file;
    f->told_read_us = f->half_read_us = 0;
    size_t got = 0, piece;
    for (const char *p; got < n && (p = sim_end_peek(e, &piece), piece > 0); got += piece) {
        piece = piece < n - got ? piece : n - got;
        memcpy((char *)into + got, p, piece);
        sim_end_consume(e, piece);
    }
    if (e->in->arrived > e->in->read) {
        f->half_read_us = w->now_us;
    }
    w->counts.bytes_received += got;
    if (got > 0 || n == 0) {
        return (ssize_t)got;
    }
    if (e->err != 0 && !e->in->fin_arrived) {
        return take_error(e);
    }
    return e->dead || e->in->fin_arrived ? 0 : failed(SIM_CALL_RECV, -EAGAIN);
}

ssize_t fl_sock_sendv(int fd, const struct iovec *iov, int count)
{
    struct sim_world *w = sim_current;
    int rc;
    struct sim_end *e = stream_of(fd, sim_call(w, SIM_CALL_SEND), &rc);
    if (e == NULL) {
        return rc;
    }
    struct sim_file *f = e->file;
    f->told_write_us = 0;
    f->short_sent = false;
    if (e->err != 0) {
        return take_error(e);
    }
    if (e->dead || e->snd_shut) {
        return -EPIPE;
    }
    if (e->state == SIM_CONNECTING) {
        return failed(SIM_CALL_SEND, -EAGAIN);
    }
    size_t sent = 0, asked = 0;
    for (int i = 0; i < count; i++) {
        asked += iov[i].iov_len;
        if (!f->short_sent) {
            sent += sim_end_send(e, iov[i].iov_base, iov[i].iov_len);
            f->short_sent = sent < asked;
        }
    }
    w->counts.bytes_sent += sent;
    return sent > 0 || asked == 0 ? (ssize_t)sent : failed(SIM_CALL_SEND, -EAGAIN);
}

bool fl_sock_hold_window(int fd, int bytes)
{
    (void)fd; /* windows here are the script's */
    (void)bytes;
    return true;
}

void fl_sock_widen_window(int fd, int bytes, bool grows)
{
    (void)fd;
    (void)bytes;
    (void)grows;
}

void fl_sock_wake_at(int fd, int bytes)
{
    struct sim_file *f = sim_file_of(sim_current, fd);
    if (f != NULL && f->end != NULL) {
        f->wake_at = (uint32_t)bytes;
        if (sim_end_wakes(f->end)) {
            sim_edge(f); /* tcp_set_rcvlowat looks again */
        }
    }
}

int fl_sock_pipe(size_t bytes, int *ret_from, int *ret_into)
{
    (void)bytes;
    (void)ret_from;
    (void)ret_into;
    return -ENOSYS; /* bodies are copied */
}

ssize_t fl_sock_splice(int from, int into, size_t n)
{
    (void)from;
    (void)into;
    (void)n;
    return -ENOSYS;
}

void fl_sock_finish(int fd)
{
    struct sim_file *f = sim_file_of(sim_current, fd);
    if (f != NULL && f->end != NULL) {
        sim_end_finish(f->end);
    }
}

void fl_sock_reset_on_close(int fd)
{
    struct sim_file *f = sim_file_of(sim_current, fd);
    if (f != NULL) {
        f->linger0 = true;
    }
}

void fl_sock_close(int fd)
{
    struct sim_file *f = sim_file_of(sim_current, fd);
    if (f != NULL) {
        FL_MUST(f->reactor == NULL);
        sim_file_close(f);
    }
}

bool fl_errno_is_local(int err)
{
    return err == EMFILE || err == ENFILE || err == EADDRNOTAVAIL || err == ENOBUFS ||
           err == ENOMEM;
}
