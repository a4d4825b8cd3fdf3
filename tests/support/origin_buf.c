#include "tests/support/origin_buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die_of_memory(void)
{
    fputs("fairlead-origin: out of memory\n", stderr);
    abort();
}

void fl_origin_buf_done(struct fl_origin_buf *b)
{
    free(b->base);
    *b = (struct fl_origin_buf){NULL, 0, 0};
}

char *fl_origin_buf_room(struct fl_origin_buf *b, size_t n)
{
    if (b->cap - b->len < n) {
        size_t cap = b->cap ? b->cap : 1024;
        while (cap - b->len < n) {
            cap *= 2;
        }
        char *grown = realloc(b->base, cap);
        if (!grown) {
            die_of_memory();
        }
        b->base = grown;
        b->cap = cap;
    }
    return b->base + b->len;
}

void fl_origin_buf_add(struct fl_origin_buf *b, const void *bytes, size_t n)
{
    if (n) {
        memcpy(fl_origin_buf_room(b, n), bytes, n);
        b->len += n;
    }
}

void fl_origin_buf_text(struct fl_origin_buf *b, const char *text)
{
    fl_origin_buf_add(b, text, strlen(text));
}

void fl_origin_buf_span(struct fl_origin_buf *b, struct fl_span s)
{
    fl_origin_buf_add(b, s.ptr, s.len);
}

void fl_origin_buf_printf(struct fl_origin_buf *b, const char *fmt, ...)
{
    char small[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(small, sizeof(small), fmt, ap);
    va_end(ap);
    if (n > 0) {
        size_t len = (size_t)n;
        fl_origin_buf_add(b, small, len < sizeof(small) ? len : sizeof(small) - 1);
    }
}

void fl_origin_buf_eat(struct fl_origin_buf *b, size_t n)
{
    if (n >= b->len) {
        b->len = 0;
    } else if (n) {
        memmove(b->base, b->base + n, b->len - n);
        b->len -= n;
    }
}

void fl_origin_buf_json(struct fl_origin_buf *b, struct fl_span s)
{
    fl_origin_buf_add(b, "\"", 1);
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c == '"' || c == '\\') {
            fl_origin_buf_add(b, "\\", 1);
            fl_origin_buf_add(b, &c, 1);
        } else if (c < 0x20 || c >= 0x7f) {
            fl_origin_buf_printf(b, "\\u%04x", c);
        } else {
            fl_origin_buf_add(b, &c, 1);
        }
    }
    fl_origin_buf_add(b, "\"", 1);
}

void fl_origin_buf_base64(struct fl_origin_buf *b, struct fl_span s)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = (const unsigned char *)s.ptr;
    fl_origin_buf_add(b, "\"", 1);
    for (size_t i = 0; i < s.len; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16;
        v |= i + 1 < s.len ? (uint32_t)p[i + 1] << 8 : 0;
        v |= i + 2 < s.len ? p[i + 2] : 0;
        char four[4] = {digits[v >> 18], digits[v >> 12 & 63], digits[v >> 6 & 63], digits[v & 63]};
        if (i + 2 >= s.len) {
            four[3] = '=';
        }
        if (i + 1 >= s.len) {
            four[2] = '=';
        }
        fl_origin_buf_add(b, four, 4);
    }
    fl_origin_buf_add(b, "\"", 1);
}

void fl_origin_buf_hex(struct fl_origin_buf *b, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char two[2] = {"0123456789abcdef"[bytes[i] >> 4], "0123456789abcdef"[bytes[i] & 15]};
        fl_origin_buf_add(b, two, 2);
    }
}

char *fl_origin_buf_dup(struct fl_span s)
{
    char *copy = malloc(s.len + 1);
    if (!copy) {
        die_of_memory();
        return NULL;
    }
    memcpy(copy, s.ptr, s.len);
    copy[s.len] = '\0';
    return copy;
}

void fl_origin_buf_text_of(struct fl_span s, char *ret, size_t cap)
{
    size_t n = s.len < cap ? s.len : cap - 1;
    memcpy(ret, s.ptr, n);
    ret[n] = '\0';
}
