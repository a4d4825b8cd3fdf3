#include "sidecar/proxy/listener.h"

#include <errno.h>

#include "common/io/sock.h"
#include "sidecar/proxy/client.h"
#include "sidecar/proxy/engine_state.h"
#include "sidecar/proxy/worker.h"

enum { BACKLOG = 1024, ACCEPTS_PER_TURN = 64, PAUSE_MS = 50, WARN_EVERY_MS = 1000 };

int fl_listener_open(struct fl_listener *l, struct fl_engine *e, const struct fl_addr *at)
{
    *l = (struct fl_listener){.engine = e, .at = *at, .io = {.fd = -1}};
    int fd = -1;
    int rc = fl_sock_listen(at, BACKLOG, &fd);
    if (rc != 0) {
        return rc;
    }
    l->io.fd = fd;
    (void)fl_sock_local(fd, &l->at);
    return 0;
}

static struct fl_worker *fewest(struct fl_engine *e)
{
    struct fl_worker *best = &e->workers[0];
    for (unsigned i = 1; i < e->threads; i++) {
        if (fl_worker_clients(&e->workers[i]) < fl_worker_clients(best)) {
            best = &e->workers[i];
        }
    }
    return best;
}

/* False: its thread has not turned for 256 connections. */
static bool hand_over(struct fl_worker *to, int fd, const struct fl_addr *from)
{
    uint32_t tail = atomic_load_explicit(&to->handoff_tail, memory_order_relaxed);
    if (tail - atomic_load_explicit(&to->handoff_head, memory_order_acquire) == FL_HANDOFF) {
        return false;
    }
    to->handoff_fd[tail % FL_HANDOFF] = fd;
    to->handoff_from[tail % FL_HANDOFF] = *from;
    atomic_store_explicit(&to->handoff_tail, tail + 1, memory_order_release);
    fl_reactor_wake(to->reactor);
    return true;
}

void fl_listener_take_over(struct fl_worker *w)
{
    uint32_t head = atomic_load_explicit(&w->handoff_head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(&w->handoff_tail, memory_order_acquire);
    for (; head != tail; head++) {
        fl_client_open(w, w->handoff_fd[head % FL_HANDOFF], &w->handoff_from[head % FL_HANDOFF]);
    }
    atomic_store_explicit(&w->handoff_head, head, memory_order_release);
}

static void pause_accepting(struct fl_listener *l, const char *why, int err, uint32_t clients)
{
    struct fl_worker *w = &l->engine->workers[0];
    int64_t now_ms = fl_worker_now_ms(w);
    fl_reactor_pause(w->reactor, &l->io, true);
    fl_timer_set(w->reactor, &l->resume, now_ms + PAUSE_MS);
    fl_tally_add(err != 0 ? &w->descriptor_limit_hits : &w->client_limit_hits, 1);
    if (now_ms - l->engine->accept_warned_ms < WARN_EVERY_MS) {
        return;
    }
    l->engine->accept_warned_ms = now_ms;
    struct fl_log_line line;
    fl_log_begin(&w->log, &line, FL_LOG_WARN, "accept paused");
    fl_log_text(&line, "reason", why);
    fl_log_int(&line, "connections", clients);
    fl_log_end(&w->log, &line);
}

static void resume(struct fl_timer *t)
{
    struct fl_listener *l = fl_container_of(t, struct fl_listener, resume);
    fl_reactor_pause(l->engine->workers[0].reactor, &l->io, false);
}

static void on_connection(struct fl_io *io, unsigned events)
{
    (void)events;
    struct fl_listener *l = fl_container_of(io, struct fl_listener, io);
    struct fl_engine *e = l->engine;
    unsigned failed = 0;
    for (unsigned i = 0; i < ACCEPTS_PER_TURN; i++) {
        uint32_t clients = fl_engine_clients(e); /* other threads change it meanwhile */
        if (clients >= e->max_connections) {
            pause_accepting(
                l, e->short_of_descriptors ? "out of descriptors" : "max_connections reached", 0,
                clients);
            return;
        }
        struct fl_addr from;
        int fd = fl_sock_accept(io->fd, &from);
        if (fd == -EAGAIN) {
            return;
        }
        if (fd == -EMFILE || fd == -ENFILE || fd == -ENOBUFS || fd == -ENOMEM) {
            pause_accepting(l, "out of descriptors", -fd, clients);
            return;
        }
        if (fd < 0) {
            failed++; /* that connection ended before it was accepted */
            continue;
        }
        struct fl_worker *to = fewest(e);
        if (to == &e->workers[0] || !hand_over(to, fd, &from)) {
            fl_client_open(&e->workers[0], fd, &from);
        }
    }
    if (failed == ACCEPTS_PER_TURN) { /* not a few that left, then: something forbids it */
        pause_accepting(l, "accept fails", 0, fl_engine_clients(l->engine));
    }
}

int fl_listener_start(struct fl_listener *l, struct fl_worker *first)
{
    l->io.on_event = on_connection;
    fl_timer_init(&l->resume, resume);
    return fl_reactor_add_level(first->reactor, &l->io, l->io.fd);
}

void fl_listener_stop(struct fl_listener *l)
{
    if (l->io.fd < 0) {
        return;
    }
    if (l->io.on_event != NULL) {
        fl_timer_remove(l->engine->workers[0].reactor, &l->resume);
        fl_reactor_close(l->engine->workers[0].reactor, &l->io);
    } else {
        fl_sock_close(l->io.fd);
        l->io.fd = -1;
    }
}
