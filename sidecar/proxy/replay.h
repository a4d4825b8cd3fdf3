/* replay - the request body on its way to the backend: read from the client, framed for the
 * upstream, and kept for a second try while it is short enough (replay_body) and the process has
 * room (replay_memory). Bytes are held in wire form, so a rewind is all that a second try needs.
 * Own data thread only. */
#ifndef FL_SIDECAR_PROXY_REPLAY_H
#define FL_SIDECAR_PROXY_REPLAY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/http1/body_frame.h"

struct fl_exchange;
struct fl_buffer;

struct fl_replay {
    struct fl_body_frame frame;     /* the client's framing */
    struct fl_buffer *first, *last; /* chain of wire bytes after the inline part */
    struct fl_buffer *at; /* next to send, NULL: all of the chain is sent (or none is there) */
    uint32_t at_off;      /* within at, from its start */
    uint32_t inline_off, inline_len,
        inline_sent;         /* body bytes that came with the head, in the head's buffer */
    uint64_t unsent_bytes;   /* wire bytes held and not yet sent in this try */
    uint64_t sent_bytes;     /* wire bytes sent in this try */
    uint64_t body_bytes;     /* decoded, from the client so far (bytes_in) */
    uint64_t reserved_bytes; /* of the worker's share of replay_memory */
    struct fl_buffer *raw;   /* chunked: a trailer line cut by a read waits here */
    bool kept;     /* all wire bytes since the first are still here: a rewind is possible */
    bool complete; /* the end of the body has been read from the client */
    bool chunked;
    bool counted;        /* as unbuffered */
    bool trailers_begun; /* the last chunk is appended */
};

enum fl_replay_read {
    FL_REPLAY_GOT,  /* bytes came */
    FL_REPLAY_MORE, /* none there now */
    FL_REPLAY_COMPLETE,
    FL_REPLAY_PAUSED, /* no buffer, or enough unsent */
    FL_REPLAY_GONE,   /* the client ended */
    FL_REPLAY_BAD,    /* malformed (frame.error) */
};

/* After the head was parsed: what follows it in the buffer is taken; bytes of a next request stay
 * where they are
 * (*ret_next_off: where they start in the head's buffer). MORE, COMPLETE, PAUSED (no buffer) or
 * BAD. */
enum fl_replay_read fl_replay_begin(struct fl_exchange *x, uint32_t *ret_next_off);
/* Reads from the client what it may: at most the kept size before a peer is connected. */
enum fl_replay_read fl_replay_read(struct fl_exchange *x);
int fl_replay_iov(struct fl_exchange *x, struct iovec *iov,
                  int cap); /* unsent slices, oldest first */
void fl_replay_sent(struct fl_exchange *x, size_t n);
void fl_replay_rewind(struct fl_exchange *x); /* kept, or nothing was sent */
void fl_replay_unkeep(
    struct fl_exchange *x); /* no second try any more: sent bytes are given back */
/* For want of memory; false: nothing was to be had by that. */
FL_MUST_USE bool fl_replay_forgo(struct fl_exchange *x);
void fl_replay_done(struct fl_exchange *x); /* everything back */
/* Everything that was sent could be sent again. */
static inline bool fl_replay_can_rewind(const struct fl_replay *r)
{
    return r->kept || r->sent_bytes == 0;
}

#endif
