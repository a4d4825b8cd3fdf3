#include "sidecar/proxy/buffer.h"

#include "common/io/pages.h"

static const uint32_t bytes_of[FL_BUFFER_SIZES] = {4096, 20480, 69632}; /* whole pages */

enum {
    TRIM_MOST = 1024, /* of a size, in one go: some milliseconds */
    SHELF_STRUCTS = 63,
};

/* A page of structs, each in a line of the cache of its own. */
struct fl_buffer_shelf {
    struct fl_buffer_shelf *next;
    struct {
        _Alignas(64) struct fl_buffer one;
    } places[SHELF_STRUCTS];
};
_Static_assert(sizeof(struct fl_buffer_shelf) == 4096, "a page");

void fl_buffers_init(struct fl_buffers *b, uint64_t limit_bytes)
{
    *b = (struct fl_buffers){.limit_bytes = limit_bytes};
}

static void drop(struct fl_buffers *b, enum fl_buffer_size size, uint32_t count)
{
    for (; count > 0 && b->free[size] != NULL; count--) {
        struct fl_buffer *one = b->free[size];
        b->free[size] = one->next;
        b->free_count[size]--;
        fl_pages_free(one->bytes, one->cap);
        one->next = b->bare;
        b->bare = one;
    }
}

void fl_buffers_done(struct fl_buffers *b)
{
    for (unsigned i = 0; i < FL_BUFFER_SIZES; i++) {
        drop(b, i, UINT32_MAX);
    }
    for (struct fl_buffer_shelf *shelf; (shelf = b->shelves) != NULL;) {
        b->shelves = shelf->next;
        fl_pages_free(shelf, sizeof *shelf);
    }
}

void fl_buffers_trim(struct fl_buffers *b)
{
    for (unsigned i = 0; i < FL_BUFFER_SIZES; i++) {
        drop(b, i, b->free_low[i] < TRIM_MOST ? b->free_low[i] : TRIM_MOST);
        b->free_low[i] = b->free_count[i];
    }
}

uint32_t fl_buffer_bytes(enum fl_buffer_size size)
{
    return bytes_of[size];
}

enum fl_buffer_size fl_buffer_size_for(size_t bytes)
{
    return bytes <= fl_buffer_bytes(FL_BUFFER_4K)    ? FL_BUFFER_4K
           : bytes <= fl_buffer_bytes(FL_BUFFER_16K) ? FL_BUFFER_16K
                                                     : FL_BUFFER_64K;
}

static uint64_t used(const struct fl_buffers *b)
{
    return atomic_load_explicit(&b->used_bytes, memory_order_relaxed);
}

/* In sixteenths of the limit. */
static const unsigned share[] = {
    [FL_BUFFER_FOR_LONG_HEAD] = 6,
    [FL_BUFFER_FOR_HEAD] = 10,
    [FL_BUFFER_FOR_BODY] = 12,
    [FL_BUFFER_FOR_ANSWER] = 16,
};

bool fl_buffers_scarce(const struct fl_buffers *b)
{
    return used(b) > b->limit_bytes / 16 * share[FL_BUFFER_FOR_LONG_HEAD];
}

enum fl_buffer_size fl_buffers_fit(const struct fl_buffers *b, enum fl_buffer_size best)
{
    enum fl_buffer_size size = best;
    if (size == FL_BUFFER_64K && used(b) + bytes_of[size] > b->limit_bytes / 16 * 6) {
        size = FL_BUFFER_16K;
    }
    if (size == FL_BUFFER_16K && used(b) + bytes_of[size] > b->limit_bytes / 16 * 7) {
        size = FL_BUFFER_4K;
    }
    return size;
}

static void refuse(struct fl_buffers *b)
{
    b->wanted = true;
    b->refused_at = used(b) > b->refused_at ? used(b) : b->refused_at;
}

bool fl_buffers_allow(struct fl_buffers *b, size_t bytes, enum fl_buffer_use use)
{
    if (used(b) + bytes <= b->limit_bytes / 16 * share[use]) {
        return true;
    }
    refuse(b);
    return false;
}

static bool add_shelf(struct fl_buffers *b)
{
    struct fl_buffer_shelf *shelf = fl_pages_new(sizeof *shelf);
    if (shelf == NULL) {
        return false;
    }
    shelf->next = b->shelves;
    b->shelves = shelf;
    for (unsigned i = 0; i < SHELF_STRUCTS; i++) {
        shelf->places[i].one.next = b->bare;
        b->bare = &shelf->places[i].one;
    }
    return true;
}

static struct fl_buffer *make(struct fl_buffers *b, enum fl_buffer_size size)
{
    if (b->bare == NULL && !add_shelf(b)) {
        return NULL;
    }
    struct fl_buffer *one = b->bare;
    one->bytes = fl_pages_new(bytes_of[size]);
    if (one->bytes == NULL) {
        return NULL;
    }
    b->bare = one->next;
    one->cap = bytes_of[size];
    one->size = size;
    return one;
}

struct fl_buffer *fl_buffer_take(struct fl_buffers *b, enum fl_buffer_size size,
                                 enum fl_buffer_use use)
{
    if (!fl_buffers_allow(b, bytes_of[size], use)) {
        return NULL;
    }
    struct fl_buffer *one = b->free[size];
    if (one != NULL) {
        b->free[size] = one->next;
        __builtin_prefetch(one->next, 1); /* for whoever takes after this */
        if (--b->free_count[size] < b->free_low[size]) {
            b->free_low[size] = b->free_count[size];
        }
    } else {
        one = make(b, size);
        if (one == NULL) {
            refuse(b);
            return NULL;
        }
    }
    one->next = NULL;
    one->start = one->end = one->scan = 0;
    atomic_store_explicit(&b->used_bytes, used(b) + bytes_of[size], memory_order_relaxed);
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
    atomic_store_explicit(&b->used_bytes, used(b) - bytes_of[one->size], memory_order_relaxed);
    if (b->wanted && used(b) < b->refused_at && b->on_return != NULL) {
        b->on_return(b);
    }
}
