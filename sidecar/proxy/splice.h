/* splice - the body of a large answer on its way through the kernel, never copied into our memory:
 * socket, pipe, socket. For answers in clear, of known length, whose reader has proved to be fast
 * (window.h); all others, and whatever is left when no pipe is to be had, go by copy (relay).
 * A pipe belongs to an exchange only while bytes are in it; empty ones wait in a short list of the
 * worker. At most FL_PIPES_MAX a thread, so stalled readers hold a bounded amount of kernel memory.
 * Own data thread only. */
#ifndef FL_SIDECAR_PROXY_SPLICE_H
#define FL_SIDECAR_PROXY_SPLICE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fl_worker;
struct fl_exchange;

enum {
    FL_PIPES_MAX = 32,
    FL_PIPES_FEW = 8,        /* where memory is little */
    FL_PIPE_BYTES = 1048576, /* the more passes at once, the less it costs */
    FL_PIPE_SMALL_BYTES = 262144,
    FL_SPLICE_BODY_BYTES = 262144, /* from this length on a body may go this way */
};

struct fl_pipe {
    int from, into;
};

struct fl_pipes {   /* of a worker */
    unsigned most;  /* at once; 0: none at all */
    uint32_t bytes; /* of each */
    struct fl_pipe idle[FL_PIPES_MAX];
    unsigned idle_count, made;
    unsigned idle_low; /* fewest idle since the last trim */
};

struct fl_spliced { /* of an exchange; zeroed: no pipe */
    struct fl_pipe pipe;
    uint32_t bytes; /* in the pipe: read from the upstream, not yet taken by the client */
    bool held;
};

/* May the next bytes of the body go this way? Then the exchange holds a pipe. */
bool fl_splice_ready(struct fl_exchange *x);
/* From the upstream into the empty pipe: > 0, 0 = EOF, -EAGAIN, -errno. A kernel that cannot is
 * -EAGAIN, too, and not asked again. */
ssize_t fl_splice_in(struct fl_exchange *x);
/* From the pipe to the client: bytes taken, -EAGAIN or -errno. */
ssize_t fl_splice_out(struct fl_exchange *x);
/* Gives an empty pipe back; one with bytes in it stays. */
void fl_splice_rest(struct fl_exchange *x);
/* The exchange ends: a pipe with bytes in it is closed. */
void fl_splice_done(struct fl_exchange *x);
/* Closes pipes that were not needed since the last call; all = every idle one. */
void fl_pipes_trim(struct fl_pipes *p, bool all);

#endif
