/* upstream - one connection to a peer, and the idle ones kept per peer and thread (LIFO, so old
 * ones age out). An edge on an idle connection (close, or bytes nobody asked for) closes it. Own
 * data thread only. */
#ifndef FL_SIDECAR_PROXY_UPSTREAM_H
#define FL_SIDECAR_PROXY_UPSTREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/io/reactor.h"
#include "sidecar/policy/peer.h"

struct fl_worker;
struct fl_exchange;
struct fl_backend_conf;

struct fl_upstream {
    struct fl_io io;
    struct fl_worker *worker;
    struct fl_peer *peer;      /* idle: the worker's snapshot keeps it; busy: the exchange's does */
    struct fl_exchange *owner; /* NULL while idle */
    struct fl_upstream *next_free;
    struct fl_list node;   /* in peer line's idle list */
    struct fl_timer timer; /* idle expiry */
    struct fl_task free_task;
    int64_t idle_since_ms;
    bool connected, readable, writable, hup,
        failed; /* edges seen and not yet used up; failed: an error is pending */
};

/* Takes the youngest idle connection, at most max_idle_ms idle (INT64_MAX: any); NULL when there is
 * none. */
struct fl_upstream *fl_upstream_take(struct fl_worker *w, struct fl_peer *p,
                                     struct fl_exchange *owner, int64_t max_idle_ms);
/* Starts a connect; 0 or -errno (nothing made). Its first writable edge says that it is connected.
 */
FL_MUST_USE int fl_upstream_dial(struct fl_worker *w, struct fl_peer *p, struct fl_exchange *owner,
                                 int user_timeout_ms, struct fl_upstream **ret);
/* Back to the idle list, or closed when the peer is leaving, the list is full or the connection has
 * seen an edge. *up = NULL. */
void fl_upstream_give(struct fl_upstream **up, const struct fl_backend_conf *b);
void fl_upstream_close(struct fl_upstream **up); /* *up = NULL; NULL is fine */
/* Closes the idle connections of a peer in this thread. */
void fl_upstream_close_idle(struct fl_worker *w, struct fl_peer *p);

#endif
