/* upstream - one connection to a peer, in clear or under TLS, and the idle ones kept per peer and
 * thread (LIFO, so old ones age out). An edge on an idle connection (close, or bytes nobody asked
 * for) closes it; what TLS says to itself (a late ticket) does not. Own data thread only. */
#ifndef FL_SIDECAR_PROXY_UPSTREAM_H
#define FL_SIDECAR_PROXY_UPSTREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "common/base/list.h"
#include "common/io/reactor.h"
#include "sidecar/policy/patience.h"
#include "sidecar/policy/peer.h"
#include "sidecar/proxy/handshake.h"
#include "sidecar/proxy/window.h"

struct fl_tls;
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
    struct fl_window window; /* of its response bodies */
    struct fl_patience patience;
    int wake_at; /* bytes that an edge for reading is for; 0: any */
    int error;   /* that a call has returned */
    bool unused; /* on the free list since the last look at it */
    bool connected, readable, writable, hup,
        failed;         /* edges seen and not yet used up; failed: an error is pending */
    struct fl_tls *tls; /* NULL: in clear, or its handshake has not begun */
    uint64_t proof;     /* what stands for its terms and name (fl_tls_terms_proof); 0: in clear */
    enum fl_handshake_place place;
    struct fl_list place_node;
    int64_t place_until_ms;
};

/* Takes the youngest idle connection, at most max_idle_ms idle (INT64_MAX: any); NULL when there is
 * none. Those of another proof (the backend's terms have changed) are closed on the way. */
struct fl_upstream *fl_upstream_take(struct fl_worker *w, struct fl_peer *p,
                                     struct fl_exchange *owner, uint64_t proof,
                                     int64_t max_idle_ms);
/* Starts a connect; 0 or -errno (nothing made). Its first writable edge says that it is connected;
 * with a proof the handshake comes next. */
FL_MUST_USE int fl_upstream_dial(struct fl_worker *w, struct fl_peer *p, struct fl_exchange *owner,
                                 uint64_t proof, int user_timeout_ms, struct fl_upstream **ret);
/* As fl_sock_recv and _sendv, or fl_tls_recv and _sendv; they keep readable and writable (the
 * short-read rule, records left behind). At an end readable stays: it is found again, and the same:
 * also an error, of which the kernel tells once and then says EOF. */
ssize_t fl_upstream_recv(struct fl_upstream *up, void *into, size_t n);
ssize_t fl_upstream_sendv(struct fl_upstream *up, const struct iovec *iov, int count);
/* No edge for fewer bytes (0: any) from now on; it is undone when the connection is given back. */
void fl_upstream_wake_at(struct fl_upstream *up, int bytes);
/* The edge has not come in time: what is there is to be read, and the next byte makes one again. */
void fl_upstream_lose_patience(struct fl_upstream *up);
/* Of a kept one that was asked nothing yet: has it ended, or said something? Then it is good for
 * nothing more. */
bool fl_upstream_spoke(struct fl_upstream *up);
/* Back to the idle list, or closed when the peer is leaving, the list is full or the connection has
 * seen an edge. *up = NULL. */
void fl_upstream_give(struct fl_upstream **up, const struct fl_backend_conf *b);
void fl_upstream_close(struct fl_upstream **up); /* *up = NULL; NULL is fine */
/* Closes the idle connections of a peer in this thread. */
void fl_upstream_close_idle(struct fl_worker *w, struct fl_peer *p);

#endif
