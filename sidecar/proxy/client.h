/* client - one downstream connection: reads request heads, keeps alive, ends in good order. Owns at
 * most one exchange at a time; pipelined requests wait in its buffer and are answered in order. Own
 * data thread only; 168 bytes, and idle it has nothing else. */
#ifndef FL_SIDECAR_PROXY_CLIENT_H
#define FL_SIDECAR_PROXY_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/addr.h"
#include "common/base/list.h"
#include "common/io/reactor.h"
#include "sidecar/proxy/window.h"

struct fl_worker;
struct fl_exchange;
struct fl_buffer;

struct fl_client {
    struct fl_io io;
    struct fl_worker *worker;
    union {
        struct fl_exchange *exchange; /* NULL between requests */
        struct fl_client *next_free;  /* on the free list */
    };
    /* Bytes not yet taken by an exchange: part of a head, or pipelined requests. */
    struct fl_buffer *in;
    struct fl_timer timer;
    struct fl_list node;     /* worker.clients */
    struct fl_list waiting;  /* worker.starved */
    struct fl_task task;     /* looks at what was read; closed: goes to the free list */
    struct fl_window window; /* of its request bodies */
    uint8_t from_ip[16];     /* fl_addr in short */
    uint16_t from_port;
    uint8_t from_family;
    bool readable : 1, writable : 1, hup : 1, failed : 1;
    bool served : 1;    /* had an answer: what comes next may go elsewhere */
    bool unused : 1;    /* on the free list since the last look at it */
    bool lingering : 1; /* answered; reads and discards until the client closes or 2 s passed */
};

_Static_assert(sizeof(struct fl_client) <= 168, "most of what an idle connection costs");

/* Takes over an accepted descriptor; on failure it is closed. */
void fl_client_open(struct fl_worker *w, int fd, const struct fl_addr *from);
/* The exchange has ended and is already given back. reusable: the next request may follow; else the
 * connection ends: drain = by FIN, reading on for a while so that no RST loses the answer; else at
 * once (reset: RST, a visible truncation). */
enum fl_client_end { FL_CLIENT_KEEP, FL_CLIENT_DRAIN, FL_CLIENT_CLOSE, FL_CLIENT_RESET };
void fl_client_finished(struct fl_client *c, enum fl_client_end end);
/* Reads on after a pause for want of a buffer. */
void fl_client_resume(struct fl_client *c);
void fl_client_close(struct fl_client *c, bool reset);
/* The process drains: if it rests between two requests it is closed in a second, unless the next
 * one comes. One that has not asked yet stays: its client would take the end for a failure. */
void fl_client_rest(struct fl_client *c);
/* Remote address without port, for the log. */
void fl_client_print_from(const struct fl_client *c, struct fl_fmt *f);

#endif
