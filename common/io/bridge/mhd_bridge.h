/* mhd_bridge - a small HTTP/1.1 server for kubelets, Prometheus, pushes and people: libmicrohttpd
 * on our reactor.
 *
 * How it runs: MHD in epoll mode without a thread of its own; its epoll descriptor is nested in the
 * reactor, MHD_run is called when it is ready or its timeout comes. No thread, no wake-up while
 * nobody is connected.
 *
 * Limits. We accept (MHD only gets connected sockets), so that the limits are ours: max_connections
 * in all and max_per_ip per address; when either is full, the oldest connection (of that address)
 * that has not sent a whole request head gives way to the new one; when every one of them is in the
 * middle of a request, the new one is closed. A head must be whole head_ms after its connection was
 * opened or last answered (which bounds idle ones too, and slow senders whose trickle MHD's own
 * inactivity timeout, of the same length, would not notice); body and answer may take six times as
 * long. Out of descriptors, a small reserve is opened up, so that readiness and metrics stay
 * reachable; after that accepting pauses for 100 ms.
 *
 * Bodies are collected up to the handler's limit, then 413. What is refused before its body was
 * read is answered after up to 64 KiB of it were discarded (so that the answer is not lost to a
 * reset); a longer one is answered at once and closed.
 *
 * Answers: errors are application/problem+json (RFC 9457) with the member `token` and
 * X-Fairlead-Error (contract.md section 5); every answer is no-store. GET handlers answer HEAD.
 * Paths are matched raw and their `*` segments decoded afterwards, so "%2F" never splits a segment.
 *
 * One thread: the reactor's. Handlers must be short; one that has to wait suspends its call. */
#ifndef FL_COMMON_IO_BRIDGE_MHD_BRIDGE_H
#define FL_COMMON_IO_BRIDGE_MHD_BRIDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/addr.h"
#include "common/base/check.h"
#include "common/base/fmt.h"
#include "common/base/span.h"
#include "common/io/reactor.h"

struct fl_mhd;      /* one server: one listener */
struct fl_mhd_call; /* one request; lives until it is answered and sent, or its connection ends */

typedef void fl_mhd_fn(struct fl_mhd_call *call, void *arg);

enum { FL_MHD_MUTATES = 1 /* http_guard.h is asked before the body is read */ };

struct fl_mhd_handler {
    const char *method; /* "GET" answers HEAD too */
    const char *path; /* "/_/api/admin/backends/<>/probe" with * for <>: any one segment that is not
                         empty */
    unsigned flags;
    size_t body_max_bytes;
    fl_mhd_fn *head;   /* NULL, or: called when the head is whole and no body byte was read; may
                          answer (refuse) */
    fl_mhd_fn *handle; /* the body is whole: answers or suspends, exactly one of them */
};

struct fl_mhd_conf {
    const struct fl_mhd_handler *handlers; /* looked through in order; must outlive the server */
    size_t handler_count;
    void *arg;
    unsigned max_connections, max_per_ip; /* max_per_ip 0: no limit */
    int64_t head_ms;                      /* rounded up to whole seconds for MHD's part */
    bool loopback_only; /* the listener is loopback: Host of mutating calls must be, too */
};

/* Takes listen_fd over, also when it fails. 0 or -errno. */
FL_MUST_USE int fl_mhd_new(struct fl_reactor *r, const struct fl_mhd_conf *conf, int listen_fd,
                           struct fl_mhd **ret);
/* Ends every connection; suspended calls are gone afterwards. Accepts NULL, returns NULL. After the
 * reactor's last turn. */
struct fl_mhd *fl_mhd_free(struct fl_mhd *m);
void fl_mhd_local(const struct fl_mhd *m, struct fl_addr *ret); /* as bound */
unsigned fl_mhd_connections(const struct fl_mhd *m);

/* ---- The request. Spans live as long as the call. ---- */
struct fl_span fl_mhd_method(const struct fl_mhd_call *c);
struct fl_span fl_mhd_path(const struct fl_mhd_call *c); /* raw, without the query */
struct fl_span fl_mhd_segment(const struct fl_mhd_call *c,
                              unsigned i); /* the i-th `*`, percent-decoded; empty: none */
struct fl_span fl_mhd_body(const struct fl_mhd_call *c);
/* The value of a field that is there exactly once, else empty. */
struct fl_span fl_mhd_field(const struct fl_mhd_call *c, const char *name);
bool fl_mhd_has_query(const struct fl_mhd_call *c);
/* The nth value (from 0) of a query key, percent-decoded into text ('+' stays '+'). False: absent,
 * badly encoded or too long. */
bool fl_mhd_query(const struct fl_mhd_call *c, const char *key, unsigned nth, char *text,
                  size_t cap, struct fl_span *ret);

/* ---- The answer. Exactly one per call; it may come later after a suspend. ---- */
/* Before the answer: a field of it. Name and value are constant text or copied by MHD; a value with
 * controls is dropped. */
void fl_mhd_add_field(struct fl_mhd_call *c, const char *name, const char *value);
void fl_mhd_reply(struct fl_mhd_call *c, int status, const char *type,
                  struct fl_span body); /* copies body */
void fl_mhd_reply_static(struct fl_mhd_call *c, int status, const char *type,
                         struct fl_span body); /* body lives on */
/* Runs write into buffers of growing size until it fits (16 KiB … 8 MiB, then 503): write must be
 * repeatable. */
typedef void fl_mhd_write_fn(struct fl_fmt *out, void *arg);
void fl_mhd_reply_written(struct fl_mhd_call *c, int status, const char *type,
                          fl_mhd_write_fn *write, void *arg);
/* token: a word of contract.md section 5, or one of the API's own. */
void fl_mhd_problem(struct fl_mhd_call *c, int status, const char *token, const char *detail);

/* An answer 200 that goes on until somebody ends it, in chunks. more gives up to cap bytes, 0: none
 * now (then fl_mhd_stream_more says when to ask again). ended is called once: the client has left
 * or was too slow (MHD's timeout), the stream was ended, or the server is freed. */
struct fl_mhd_stream {
    size_t (*more)(void *arg, char *into, size_t cap);
    void (*ended)(void *arg);
    void *arg;
};
void fl_mhd_reply_stream(struct fl_mhd_call *c, const char *type, const struct fl_mhd_stream *s);
void fl_mhd_stream_more(struct fl_mhd_call *c); /* there is something to send, now */
void fl_mhd_stream_end(struct fl_mhd_call *c);  /* when what more still has was sent */

/* The handler returns without an answer; the call stays valid until it is answered, or the server
 * is freed. A client that leaves meanwhile is noticed when the answer is sent. */
void fl_mhd_suspend(struct fl_mhd_call *c);

#endif
