/* buffer - memory for bytes in flight: three sizes on LIFO free lists of one data thread, within
 * its share of buffer_memory. Attached only while bytes are in flight; an idle connection has none.
 */
#ifndef FL_SIDECAR_PROXY_BUFFER_H
#define FL_SIDECAR_PROXY_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/check.h"

/* By what they are for; each is whole pages, as much as its name says or a little more. 16K: of a
 * body, and a head before it; such an answer takes one read and one send. */
enum fl_buffer_size { FL_BUFFER_4K, FL_BUFFER_16K, FL_BUFFER_64K, FL_BUFFER_SIZES };

/* Lies on a page of such structs (a shelf, kept to the end), not in front of its bytes: beginnings
 * of pages share few lines of each cache. */
struct fl_buffer {
    struct fl_buffer *next; /* free list, or the owner's chain */
    char *bytes;
    uint32_t cap, start, end; /* bytes [start, end) are filled */
    enum fl_buffer_size size;
    uint32_t scan; /* so many from start on hold no end of a head (incoming_head.h) */
};

struct fl_buffers {
    struct fl_buffer *free[FL_BUFFER_SIZES];
    struct fl_buffer *bare; /* structs without bytes */
    struct fl_buffer_shelf *shelves;
    uint32_t free_count[FL_BUFFER_SIZES];
    uint32_t free_low[FL_BUFFER_SIZES]; /* fewest free since the last trim: surely not needed */
    _Atomic uint64_t used_bytes;        /* handed out, in whole pages; own thread writes */
    uint64_t limit_bytes;
    bool wanted;         /* a take was refused since somebody last looked */
    uint64_t refused_at; /* the most that was in use when one was: below it, it may succeed */
    /* Called when something is given back while `wanted` is set and less than that is in use. */
    void (*on_return)(struct fl_buffers *b);
};

/* What the bytes are for, first refused first: what is further on its way is let through, and a few
 * long heads do not keep others from being heard. */
enum fl_buffer_use {
    FL_BUFFER_FOR_LONG_HEAD,
    FL_BUFFER_FOR_HEAD,
    FL_BUFFER_FOR_BODY,
    FL_BUFFER_FOR_ANSWER,
};

void fl_buffers_init(struct fl_buffers *b, uint64_t limit_bytes);
void fl_buffers_done(struct fl_buffers *b);
/* Empty, or NULL: over the limit or out of memory (reading pauses until something is given back).
 */
FL_MUST_USE struct fl_buffer *fl_buffer_take(struct fl_buffers *b, enum fl_buffer_size size,
                                             enum fl_buffer_use use);
/* Whether buffers that cost `bytes` could be taken now; false counts as a refusal. Who takes some,
 * is refused the rest and gives back would only wake himself. */
FL_MUST_USE bool fl_buffers_allow(struct fl_buffers *b, size_t bytes, enum fl_buffer_use use);
/* *buffer = NULL afterwards; NULL is fine. */
void fl_buffer_give(struct fl_buffers *b, struct fl_buffer **buffer);
/* Frees what was never needed since the last call, but not so many at once that it takes long. */
void fl_buffers_trim(struct fl_buffers *b);
/* Its room, and what it costs of the limit. */
uint32_t fl_buffer_bytes(enum fl_buffer_size size);
/* The smallest size for so many bytes; 64 KiB for more. */
enum fl_buffer_size fl_buffer_size_for(size_t bytes);
/* Much is in use. Whoever holds some then goes as far as he can at once: a whole turn's worth of
 * half-way exchanges would take what each of them needs to end. */
bool fl_buffers_scarce(const struct fl_buffers *b);
/* `best`, or smaller while much is in use: then many slow bodies share what is left. */
enum fl_buffer_size fl_buffers_fit(const struct fl_buffers *b, enum fl_buffer_size best);

static inline size_t fl_buffer_room(const struct fl_buffer *b)
{
    return b->cap - b->end;
}
static inline size_t fl_buffer_len(const struct fl_buffer *b)
{
    return b->end - b->start;
}
/* How much to read at once: at most 60 KiB. What is sent in one go then fits one segment of a
 * loopback connection (MSS 65483); 64 KiB makes two of it and costs nearly twice the CPU per MiB
 * (measured, bench 1m@8). */
static inline size_t fl_buffer_read_size(const struct fl_buffer *b)
{
    size_t room = fl_buffer_room(b);
    return room < 61440 ? room : 61440;
}
static inline char *fl_buffer_at(struct fl_buffer *b)
{
    return b->bytes + b->start;
}

#endif
