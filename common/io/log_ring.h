/* log_ring - one producer's way to the log writer: records of 8-byte alignment in a ring of bytes,
 * lock-free. Inside of common/io; producers see log.h. The producer owns head, the writer owns
 * tail, unless the ring is empty. */
#ifndef FL_COMMON_IO_LOG_RING_H
#define FL_COMMON_IO_LOG_RING_H

#include <stdalign.h>
#include <stdatomic.h>

#include "common/io/log.h"

/* What a producer must know of the writer: whether it has to be woken. */
enum fl_log_doze {
    FL_LOG_AWAKE, /* it will look by itself */
    FL_LOG_NAP,   /* it looks within 50 ms: worth waking only for a ring that gets full */
    FL_LOG_SLEEP, /* only a wake makes it look */
};

struct fl_log_bell {
    _Atomic int doze;
    _Atomic bool watched;
    int wake_fd;
};

struct fl_log_record {
    uint32_t size;   /* of what follows; FL_LOG_WRAP: nothing, go on at the start of the ring */
    uint32_t stream; /* enum fl_log_stream */
    fl_log_format_fn *format;
};

#define FL_LOG_WRAP UINT32_MAX

struct fl_log_ring {
    unsigned char *base;
    uint64_t cap; /* a power of two; positions only grow, the offset is position & (cap - 1) */
    struct fl_log_bell *bell;
    struct fl_log_ring *next;

    alignas(64) _Atomic uint64_t head;
    uint64_t place, place_size; /* the reserved record */
    uint64_t tail_seen;
    _Atomic uint64_t dropped;

    alignas(64) _Atomic uint64_t tail;
};

struct fl_log_ring *fl_log_ring_map(struct fl_log_bell *bell, size_t bytes);
void fl_log_ring_unmap(struct fl_log_ring *ring);

bool fl_log_ring_empty(struct fl_log_ring *ring);
/* Writer side: the oldest record, or NULL. Its payload follows it and stays until it is taken. */
const struct fl_log_record *fl_log_ring_peek(struct fl_log_ring *ring);
void fl_log_ring_take(struct fl_log_ring *ring, const struct fl_log_record *rec);

#endif
