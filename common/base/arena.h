/* arena - bump allocator for things that die together (a configuration, a snapshot, a decoded
 * document). Nothing inside is freed singly. Not for the data path, which allocates nothing per
 * request. One thread at a time. */
#ifndef FL_COMMON_BASE_ARENA_H
#define FL_COMMON_BASE_ARENA_H

#include <stddef.h>

#include "common/base/check.h"
#include "common/base/span.h"

struct fl_arena {
    struct fl_arena_chunk *chunks;
    size_t used_bytes, max_bytes;
};

void fl_arena_init(struct fl_arena *a, size_t max_bytes); /* beyond max an allocation gives NULL */
/* frees everything; init again before further use */
void fl_arena_done(struct fl_arena *a);

/* Zeroed and aligned to 16; NULL when out of memory or over the limit. n == 0 gives a valid
 * pointer. */
FL_MUST_USE void *fl_arena_alloc(struct fl_arena *a, size_t n);
FL_MUST_USE void *fl_arena_array(struct fl_arena *a, size_t count, size_t size); /* overflow-safe */
/* NUL-terminated copy */
FL_MUST_USE char *fl_arena_text(struct fl_arena *a, struct fl_span s);
FL_MUST_USE char *fl_arena_printf(struct fl_arena *a, const char *fmt, ...) FL_PRINTF(2, 3);

#endif
