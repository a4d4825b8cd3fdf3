/* client - one connection of the load generator: sends a prepared request, reads the answer, checks
 * status, length and, when asked, every byte. It reconnects by itself when the proxy closed between
 * two answers. One thread. */
#ifndef FL_BENCH_CLIENT_H
#define FL_BENCH_CLIENT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/hist.h"

enum fl_client_fault {
    FL_CLIENT_OK,
    FL_CLIENT_CONNECT, /* refused or reset before anything was sent */
    FL_CLIENT_CLOSED,  /* closed or reset before the answer was whole */
    FL_CLIENT_STATUS,  /* not one of the expected */
    FL_CLIENT_BODY,    /* wrong length or wrong bytes */
    FL_CLIENT_FRAMING, /* an answer we cannot read */
    FL_CLIENT_TIMEOUT,
    FL_CLIENT_FAULTS,
};

struct fl_client_plan { /* the same for every connection */
    struct sockaddr_in to;
    int epoll;
    const uint8_t *request; /* head and body as they go on the wire */
    size_t request_bytes;
    bool is_head;         /* the answer has no body */
    bool new_connections; /* the client closes after each answer */
    bool verify;
    uint64_t body_bytes;   /* expected of a 2xx answer; UINT64_MAX: any */
    unsigned expect[4];    /* statuses that are no error; 0 ends */
    int receive_buffer;    /* SO_RCVBUF, 0: leave */
    uint64_t read_at_most; /* of each turn of a slow reader; 0: no limit */
};

struct fl_client_tally {
    struct fl_hist latency; /* of good answers */
    uint64_t answers, faults[FL_CLIENT_FAULTS];
    uint64_t status[600];
    uint64_t bytes; /* of bodies received */
    uint64_t connects;
};

struct fl_client {
    const struct fl_client_plan *plan;
    struct fl_client_tally *tally;
    void (*on_done)(struct fl_client *c); /* the connection is free for the next request */
    int fd;
    bool busy, readable, ended, got_bytes, close_after;
    int64_t start_ns;
    size_t sent;
    char head[8192];
    size_t head_bytes;
    unsigned status; /* 0: the head is not complete */
    uint64_t body_left, body_at;
};

void fl_client_init(struct fl_client *c, const struct fl_client_plan *plan,
                    struct fl_client_tally *tally, void (*on_done)(struct fl_client *c));
/* Connects if it is not connected. false: it could not. */
bool fl_client_connect(struct fl_client *c);
/* Starts a request whose latency counts from start_ns. Not while busy. */
void fl_client_start(struct fl_client *c, int64_t start_ns);
/* An edge of epoll: `events` as epoll gave them. */
void fl_client_event(struct fl_client *c, uint32_t events);
/* A slow reader may read again. */
void fl_client_read_more(struct fl_client *c);
/* Gives up the request in flight. */
void fl_client_expire(struct fl_client *c);
void fl_client_close(struct fl_client *c);

#endif
