#include "common/base/base64.h"

#include <errno.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Takes n bytes of room in f for the caller to fill, NUL behind them set; NULL (and cut) when they
 * do not fit. */
static char *reserve(struct fl_fmt *f, size_t n)
{
    if (n >= f->cap - f->len) {
        f->cut = true;
        return NULL;
    }
    char *p = f->base + f->len;
    f->len += n;
    f->base[f->len] = '\0';
    return p;
}

void fl_base64_encode(struct fl_fmt *f, const void *bytes, size_t n)
{
    const uint8_t *in = bytes;
    char *out = n <= SIZE_MAX / 2 ? reserve(f, (n + 2) / 3 * 4) : NULL;
    if (!out) {
        f->cut = true;
        return;
    }
    for (size_t i = 0; i < n; i += 3) {
        size_t have = n - i < 3 ? n - i : 3;
        uint32_t v = (uint32_t)in[i] << 16;
        v |= have > 1 ? (uint32_t)in[i + 1] << 8 : 0;
        v |= have > 2 ? (uint32_t)in[i + 2] : 0;
        *out++ = alphabet[v >> 18];
        *out++ = alphabet[v >> 12 & 63];
        *out++ = have > 1 ? alphabet[v >> 6 & 63] : '=';
        *out++ = have > 2 ? alphabet[v & 63] : '=';
    }
}

static int value_of(char c) /* 0..63, or -1 */
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

ssize_t fl_base64_decode(struct fl_span text, void *ret, size_t cap)
{
    uint8_t *out = ret;
    size_t pad = 0, done = 0;
    if (text.len % 4 != 0) {
        return -EINVAL;
    }
    while (pad < 2 && pad < text.len && text.ptr[text.len - 1 - pad] == '=') {
        pad++;
    }
    for (size_t i = 0; i < text.len; i += 4) {
        size_t skip = i + 4 == text.len ? pad : 0;
        uint32_t v = 0;
        for (size_t k = 0; k < 4; k++) {
            int six = k < 4 - skip ? value_of(text.ptr[i + k]) : 0;
            if (six < 0) {
                return -EINVAL;
            }
            v = v << 6 | (uint32_t)six;
        }
        if ((v & ((1u << 8 * skip) - 1)) != 0) {
            return -EINVAL; /* bits behind the last byte: two texts would mean the same bytes */
        }
        if (cap - done < 3 - skip) {
            return -ENOSPC;
        }
        for (size_t k = 0; k < 3 - skip; k++) {
            out[done++] = (uint8_t)(v >> (16 - 8 * k));
        }
    }
    return (ssize_t)done;
}

void fl_hex_encode(struct fl_fmt *f, const void *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *in = bytes;
    char *out = n <= SIZE_MAX / 2 ? reserve(f, 2 * n) : NULL;
    if (!out) {
        f->cut = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        *out++ = digits[in[i] >> 4];
        *out++ = digits[in[i] & 15];
    }
}
