#include "common/base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN       16u
#define CHUNK_FIRST 1024u
#define CHUNK_LAST  (64u * 1024u)

struct fl_arena_chunk {
    struct fl_arena_chunk *next;
    size_t used, size;
    alignas(ALIGN) unsigned char data[];
};

void fl_arena_init(struct fl_arena *a, size_t max_bytes)
{
    *a = (struct fl_arena){.max_bytes = max_bytes};
}

void fl_arena_done(struct fl_arena *a)
{
    struct fl_arena_chunk *c = a->chunks;
    while (c) {
        struct fl_arena_chunk *next = c->next;
        free(c);
        c = next;
    }
    *a = (struct fl_arena){0};
}

/* A chunk with room for n, at the front of the list unless it serves this one large request only.
 */
static struct fl_arena_chunk *grow(struct fl_arena *a, size_t n)
{
    size_t size = a->chunks ? a->chunks->size * 2 : CHUNK_FIRST;
    size = size < CHUNK_LAST ? size : CHUNK_LAST;
    bool alone = n > size;
    size = alone ? n : size;

    struct fl_arena_chunk *c = calloc(1, sizeof *c + size);
    if (!c) {
        return NULL;
    }
    c->size = size;
    if (alone && a->chunks) {
        c->next = a->chunks->next; /* the chunk in front keeps its free room */
        a->chunks->next = c;
    } else {
        c->next = a->chunks;
        a->chunks = c;
    }
    return c;
}

void *fl_arena_alloc(struct fl_arena *a, size_t n)
{
    if (n > SIZE_MAX / 2) {
        return NULL; /* the roundings below cannot overflow from here on */
    }
    n = n ? (n + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
    if (a->used_bytes > a->max_bytes || n > a->max_bytes - a->used_bytes) {
        return NULL;
    }
    struct fl_arena_chunk *c = a->chunks;
    if (!c || n > c->size - c->used) {
        c = grow(a, n);
        if (!c) {
            return NULL;
        }
    }
    void *ret = c->data + c->used;
    c->used += n;
    a->used_bytes += n;
    return ret;
}

void *fl_arena_array(struct fl_arena *a, size_t count, size_t size)
{
    size_t n;
    return __builtin_mul_overflow(count, size, &n) ? NULL : fl_arena_alloc(a, n);
}

char *fl_arena_text(struct fl_arena *a, struct fl_span s)
{
    char *ret = s.len < SIZE_MAX ? fl_arena_alloc(a, s.len + 1) : NULL;
    if (ret && s.len) {
        memcpy(ret, s.ptr, s.len);
    }
    return ret;
}

char *fl_arena_printf(struct fl_arena *a, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    char *ret = n >= 0 ? fl_arena_alloc(a, (size_t)n + 1) : NULL;
    if (ret) {
        vsnprintf(ret, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    va_end(args);
    return ret;
}
