#include "sidecar/proxy/buffer.h"

#include <stdlib.h>

static const uint32_t caps[FL_BUFFER_SIZES] = {4096, 16384, 65536};

void fl_buffers_init(struct fl_buffers *b, uint64_t limit_bytes)
{
    *b = (struct fl_buffers){.limit_bytes = limit_bytes};
}

static void drop(struct fl_buffers *b, unsigned size, uint32_t count)
{
    for (; count > 0 && b->free[size] != NULL; count--) {
        struct fl_buffer *one = b->free[size];
        b->free[size] = one->next;
        b->free_count[size]--;
        free(one);
    }
}

void fl_buffers_done(struct fl_buffers *b)
{
    for (unsigned i = 0; i < FL_BUFFER_SIZES; i++) {
        drop(b, i, UINT32_MAX);
    }
}

void fl_buffers_trim(struct fl_buffers *b)
{
    for (unsigned i = 0; i < FL_BUFFER_SIZES; i++) {
        drop(b, i, b->free_low[i]);
        b->free_low[i] = b->free_count[i];
    }
}

static uint64_t used(const struct fl_buffers *b)
{
    return atomic_load_explicit(&b->used_bytes, memory_order_relaxed);
}

struct fl_buffer *fl_buffer_take(struct fl_buffers *b, enum fl_buffer_size size,
                                 enum fl_buffer_use use)
{
    uint64_t limit = use == FL_BUFFER_FOR_INPUT ? b->limit_bytes / 4 * 3 : b->limit_bytes;
    if (used(b) + caps[size] > limit) {
        b->wanted = true;
        return NULL;
    }
    struct fl_buffer *one = b->free[size];
    if (one != NULL) {
        b->free[size] = one->next;
        if (--b->free_count[size] < b->free_low[size]) {
            b->free_low[size] = b->free_count[size];
        }
    } else {
        one = malloc(sizeof *one + caps[size]);
        if (one == NULL) {
            b->wanted = true;
            return NULL;
        }
        one->cap = caps[size];
        one->size = size;
    }
    one->next = NULL;
    one->start = one->end = 0;
    atomic_store_explicit(&b->used_bytes, used(b) + caps[size], memory_order_relaxed);
    return one;
}

void fl_buffer_give(struct fl_buffers *b, struct fl_buffer **buffer)
{
    struct fl_buffer *one = *buffer;
    if (one == NULL) {
        return;
    }
    *buffer = NULL;
    one->next = b->free[one->size];
    b->free[one->size] = one;
    b->free_count[one->size]++;
    atomic_store_explicit(&b->used_bytes, used(b) - one->cap, memory_order_relaxed);
}
