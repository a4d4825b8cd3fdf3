#include "sidecar/proxy/handshake.h"

#include <errno.h>

#include "common/tls/tls.h"
#include "sidecar/proxy/exchange.h"
#include "sidecar/proxy/upstream.h"
#include "sidecar/proxy/worker.h"

enum { PLACES = 8, LEASE_MS = 50 };

static struct fl_upstream *upstream_of(struct fl_list *n)
{
    return fl_container_of(n, struct fl_upstream, place_node);
}

static void hold(struct fl_handshakes *h, struct fl_upstream *up)
{
    fl_list_remove(&up->place_node);
    fl_list_append(&h->held, &up->place_node);
    h->held_count++;
    up->place = FL_PLACE_HELD;
    up->place_until_ms = fl_worker_now_ms(up->worker) + LEASE_MS;
}

static void watch(struct fl_worker *w)
{
    struct fl_handshakes *h = &w->handshakes;
    struct fl_list *oldest = fl_list_first(&h->held);
    if (oldest != NULL && !fl_list_empty(&h->waiting)) {
        fl_timer_set(w->reactor, &h->lease, upstream_of(oldest)->place_until_ms);
    }
}

void fl_handshake_leave(struct fl_upstream *up)
{
    struct fl_handshakes *h = &up->worker->handshakes;
    if (up->place == FL_PLACE_NONE) {
        return;
    }
    h->held_count -= up->place == FL_PLACE_HELD ? 1 : 0;
    fl_list_remove(&up->place_node);
    up->place = FL_PLACE_NONE;
    if (!fl_list_empty(&h->waiting)) {
        fl_reactor_soon(up->worker->reactor, &h->admit); /* not from within another exchange */
    }
}

static void admit(struct fl_task *t)
{
    struct fl_handshakes *h = fl_container_of(t, struct fl_handshakes, admit);
    struct fl_worker *w = fl_container_of(h, struct fl_worker, handshakes);
    while (h->held_count < PLACES && !fl_list_empty(&h->waiting)) {
        struct fl_upstream *up = upstream_of(fl_list_first(&h->waiting));
        hold(h, up);
        fl_exchange_run(up->owner); /* it goes on with its step */
    }
    watch(w);
}

/* Those that have had their time go on without a place. */
static void on_lease(struct fl_timer *t)
{
    struct fl_handshakes *h = fl_container_of(t, struct fl_handshakes, lease);
    struct fl_worker *w = fl_container_of(h, struct fl_worker, handshakes);
    for (struct fl_list *n; (n = fl_list_first(&h->held)) != NULL;) {
        if (upstream_of(n)->place_until_ms > fl_worker_now_ms(w)) {
            break;
        }
        fl_handshake_leave(upstream_of(n));
    }
    watch(w);
}

void fl_handshake_init(struct fl_handshakes *h)
{
    fl_list_init(&h->held);
    fl_list_init(&h->waiting);
    fl_timer_init(&h->lease, on_lease);
    fl_task_init(&h->admit, admit);
}

void fl_handshake_done(struct fl_worker *w)
{
    fl_list_remove(&w->handshakes.admit.node);
    fl_timer_remove(w->reactor, &w->handshakes.lease);
}

/* True: it may begin. Who comes while others wait stands behind them. */
static bool take_place(struct fl_upstream *up)
{
    struct fl_handshakes *h = &up->worker->handshakes;
    if (up->place == FL_PLACE_HELD) {
        return true;
    }
    if (up->place == FL_PLACE_NONE && h->held_count < PLACES && fl_list_empty(&h->waiting)) {
        hold(h, up);
        return true;
    }
    if (up->place == FL_PLACE_NONE) {
        fl_list_append(&h->waiting, &up->place_node);
        up->place = FL_PLACE_WAITS;
        watch(up->worker);
    }
    return false;
}

bool fl_handshake_waits(const struct fl_upstream *up)
{
    return up->place == FL_PLACE_WAITS;
}

int fl_handshake_step(struct fl_upstream *up, struct fl_tls_terms *terms, const char *name)
{
    int rc = 0;
    if (up->tls == NULL) {
        if (!take_place(up)) {
            return -EAGAIN;
        }
        const struct fl_tls_peer peer = {&up->peer->addr, name, up->worker->index};
        rc = fl_tls_open(terms, up->io.fd, &peer, &up->tls);
    }
    rc = rc == 0 ? fl_tls_handshake(up->tls) : rc;
    if (rc == -EAGAIN) {
        return rc;
    }
    fl_handshake_leave(up);
    if (rc == 0) {
        up->readable = fl_tls_readable(up->tls); /* the first records may have come along */
        up->writable = true;
    }
    return rc;
}
