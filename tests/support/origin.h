/* origin - a scriptable HTTP/1.1 origin for tests, demo and drills. One thread, one epoll set,
 * level-triggered.
 *
 * By default it is a tiny in-memory object store. Rules (origin_rule.h) make it misbehave, settings
 * change the connection handling, the ledger records what it got, and a control port
 * (origin_control.c) drives all of it. Times are monotonic microseconds (CLOCK_MONOTONIC, so other
 * processes can compare). */
#ifndef FL_TESTS_ORIGIN_H
#define FL_TESTS_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/base/list.h"
#include "common/base/span.h"
#include "tests/support/origin_buf.h"

struct fl_origin;
struct fl_origin_rule;
struct fl_origin_store;
struct fl_origin_ledger;

/* Something registered with epoll; `ready` gets the events of one turn. */
struct fl_origin_io {
    int fd;
    uint32_t interest;
    bool dead; /* closed; freed by `release` at the end of the turn */
    void (*ready)(struct fl_origin *o, struct fl_origin_io *io, uint32_t events);
    void (*wake)(struct fl_origin *o,
                 struct fl_origin_io *io); /* a time asked for has come; may be NULL */
    void (*release)(struct fl_origin_io *io);
    int64_t wake_us; /* 0: none */
    struct fl_list link;
};

struct fl_origin_settings {
    int64_t idle_ms;   /* FIN idle connections after this; 0 = never */
    int64_t keepalive; /* requests per connection, the last one answered with Connection: close; 0 =
                          no limit */
    int64_t keepalive_silent; /* 1: close after the last one without saying so */
    int64_t missing;   /* status for an object that was never stored: 404, or 200 with the origin's
                          name as body */
    int64_t store;     /* 0: uploads are digested and answered but not kept */
    int64_t store_max; /* bytes kept in all; beyond, uploads are answered 200 and not kept */
    int64_t rcvbuf;    /* SO_RCVBUF of accepted connections; 0 = the kernel's */
    int64_t sndbuf;
};

struct fl_origin_stats {
    uint64_t accepted, requests, answered, bad_heads, continues;
    uint64_t peer_fin, peer_rst, own_fin, own_rst, bytes_in, bytes_out;
    int64_t open, in_flight, in_flight_peak, hung;
};

struct fl_origin {
    const char *name;
    int epfd, listen_fd, holder_fd;
    struct sockaddr_storage listen_addr;
    socklen_t listen_addr_len;
    struct fl_origin_io listen_io, control_io, signal_io;
    struct fl_origin_settings set;
    struct fl_origin_stats stats;
    struct fl_list ios;   /* data and control connections */
    struct fl_list dead;  /* to be released at the end of the turn */
    struct fl_list rules; /* of struct fl_origin_rule */
    struct fl_origin_store *store;
    struct fl_origin_ledger *ledger; /* NULL: --no-ledger */
    int journal_fd;                  /* -1: none */
    int64_t now_us, next_wake_us;
    uint64_t next_conn, next_request, random;
    bool stopping;
    int64_t stop_us; /* hard end of a graceful stop */
};

int64_t fl_origin_clock_us(void);
int fl_origin_watch(struct fl_origin *o, struct fl_origin_io *io,
                    uint32_t interest); /* registers or changes */
void fl_origin_wake_at(struct fl_origin *o, struct fl_origin_io *io, int64_t at_us); /* 0 cancels */
void fl_origin_close_io(struct fl_origin *o, struct fl_origin_io *io,
                        bool rst); /* closes, releases later */

/* The data listener; refusing keeps the port reserved by a bound socket that does not listen. */
int fl_origin_listen(struct fl_origin *o);
void fl_origin_refuse(struct fl_origin *o);
int fl_origin_bind(const char *text, struct sockaddr_storage *addr, socklen_t *len, int *ret_fd);
void fl_origin_print_addr(int fd, struct fl_origin_buf *out);

#endif
