/* blob - bytes that grow, for scripts. Aborts without memory: it is a test. */
#ifndef FL_TESTS_SCENARIOS_BLOB_H
#define FL_TESTS_SCENARIOS_BLOB_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

struct blob {
    char *bytes;
    size_t len, cap;
};

static inline char *blob_room(struct blob *b, size_t n)
{
    if (b->len + n > b->cap) {
        b->cap = b->cap * 2 > b->len + n ? b->cap * 2 : b->len + n;
        b->bytes = realloc(b->bytes, b->cap);
        FL_MUST(b->bytes != NULL);
    }
    return b->bytes + b->len;
}

static inline void blob_add(struct blob *b, const void *bytes, size_t n)
{
    if (n > 0) {
        memcpy(blob_room(b, n), bytes, n);
        b->len += n;
    }
}

static inline void blob_text(struct blob *b, const char *text)
{
    blob_add(b, text, strlen(text));
}

FL_PRINTF(2, 3) static inline void blob_printf(struct blob *b, const char *fmt, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    FL_MUST(n >= 0 && (size_t)n < sizeof text);
    blob_add(b, text, (size_t)n);
}

/* n bytes from the front are done with. */
static inline void blob_drop(struct blob *b, size_t n)
{
    memmove(b->bytes, b->bytes + n, b->len - n);
    b->len -= n;
}

static inline void blob_done(struct blob *b)
{
    free(b->bytes);
    *b = (struct blob){0};
}

#endif
