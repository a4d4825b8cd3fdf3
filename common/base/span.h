/* span - a run of bytes owned by somebody else: (pointer, length), never NUL-terminated by promise.
 * A zeroed struct is a valid empty span: no function here dereferences ptr when len is 0. */
#ifndef FL_COMMON_BASE_SPAN_H
#define FL_COMMON_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct fl_span {
    const char *ptr;
    size_t len;
};

#define FL_SPAN(literal) ((struct fl_span){(literal), sizeof(literal) - 1})

static inline struct fl_span fl_span_of(const char *text) /* NULL gives the empty span */
{
    return (struct fl_span){text ? text : "", text ? strlen(text) : 0};
}

static inline bool fl_span_eq(struct fl_span a, struct fl_span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool fl_span_is(struct fl_span a, const char *text)
{
    return fl_span_eq(a, fl_span_of(text));
}

static inline char fl_ascii_lower(char c)
{
    return (c >= 'A' && c <= 'Z') ? (char)(c | 0x20) : c;
}

/* ASCII case-insensitive, as RFC 9110 wants for field names and most tokens. */
static inline bool fl_span_ieq(struct fl_span a, struct fl_span b)
{
    if (a.len != b.len) {
        return false;
    }
    for (size_t i = 0; i < a.len; i++) {
        if (fl_ascii_lower(a.ptr[i]) != fl_ascii_lower(b.ptr[i])) {
            return false;
        }
    }
    return true;
}

static inline bool fl_span_starts(struct fl_span a, struct fl_span prefix)
{
    return a.len >= prefix.len && (prefix.len == 0 || memcmp(a.ptr, prefix.ptr, prefix.len) == 0);
}

/* at is clipped to the end */
static inline struct fl_span fl_span_from(struct fl_span a, size_t at)
{
    at = at < a.len ? at : a.len;
    return at ? (struct fl_span){a.ptr + at, a.len - at} : a; /* NULL + 0 is undefined in C */
}

static inline struct fl_span fl_span_first(struct fl_span a, size_t n)
{
    return (struct fl_span){a.ptr, n < a.len ? n : a.len};
}

static inline ptrdiff_t fl_span_find(struct fl_span a, char c) /* index, or -1 */
{
    const char *p = a.len ? memchr(a.ptr, c, a.len) : NULL;
    return p ? p - a.ptr : -1;
}

/* Strips SP and HTAB at both ends; nothing else is white space on the wire. */
static inline struct fl_span fl_span_trim(struct fl_span a)
{
    while (a.len && (a.ptr[0] == ' ' || a.ptr[0] == '\t')) {
        a.ptr++;
        a.len--;
    }
    while (a.len && (a.ptr[a.len - 1] == ' ' || a.ptr[a.len - 1] == '\t')) {
        a.len--;
    }
    return a;
}

#endif
