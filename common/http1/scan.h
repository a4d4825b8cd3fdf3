/* scan - finding the first byte that ends a run, many bytes at a time. Inside common/http1 only.
 * SSE2 is part of every x86-64; elsewhere eight bytes at a time in a plain word. */
#ifndef FL_COMMON_HTTP1_SCAN_H
#define FL_COMMON_HTTP1_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/check.h"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum fl_scan_class_bit {
    FL_SCAN_TOKEN = 1,  /* tchar, RFC 9110 section 5.6.2 */
    FL_SCAN_TARGET = 2, /* what a request target may hold: 33..126 without '#' and '\' */
    FL_SCAN_HOST = 4,   /* unreserved and sub-delims without ',' (RFC 3986 section 3.2.2) */
};
extern const uint8_t fl_scan_class[256];

static inline bool fl_scan_is(char c, enum fl_scan_class_bit bit)
{
    return (fl_scan_class[(uint8_t)c] & bit) != 0;
}

#ifdef __SSE2__
/* One bit per byte of p[0, 16) that is not a letter, a digit or '-'. */
static inline unsigned fl_scan_odd(const char *p)
{
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    /* moved up so that the last of the range is the largest signed number: one compare is enough */
    __m128i letter = _mm_add_epi8(_mm_or_si128(x, _mm_set1_epi8(0x20)), _mm_set1_epi8(127 - 'z'));
    __m128i digit = _mm_add_epi8(x, _mm_set1_epi8(127 - '9'));
    __m128i plain = _mm_or_si128(_mm_cmpgt_epi8(letter, _mm_set1_epi8(127 - 26)),
                                 _mm_cmpgt_epi8(digit, _mm_set1_epi8(127 - 10)));
    plain = _mm_or_si128(plain, _mm_cmpeq_epi8(x, _mm_set1_epi8('-')));
    return (unsigned)_mm_movemask_epi8(plain) ^ 0xffffu;
}
#endif

/* First byte that is no tchar in [p, end), or end. */
static inline const char *fl_scan_token(const char *p, const char *end)
{
#ifdef __SSE2__
    for (; end - p >= 16; p += 16) { /* nearly all names are letters, digits and '-' */
        unsigned odd = fl_scan_odd(p);
        if (odd != 0) {
            p += __builtin_ctz(odd);
            if (*p == ':') {
                return p;
            }
            break;
        }
    }
#endif
    while (p < end && fl_scan_is(*p, FL_SCAN_TOKEN)) {
        p++;
    }
    return p;
}

/* Non-zero when some byte of the word is below n (n <= 128). */
static inline uint64_t fl_scan_below(uint64_t word, uint8_t n)
{
    const uint64_t ones = 0x0101010101010101u;
    return (word - ones * n) & ~word & (ones * 0x80u);
}

static inline bool fl_scan_is_control(char c) /* C0 and DEL; obs-text is not */
{
    return (uint8_t)c < 0x20 || c == 0x7f;
}

#ifdef __SSE2__
static inline __m128i fl_scan_c0_in(const char *p, bool del)
{
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i hit = _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8(0x1f)), x);
    return del ? _mm_or_si128(hit, _mm_cmpeq_epi8(x, _mm_set1_epi8(0x7f))) : hit;
}
#endif

/* First byte below 0x20 (HTAB, CR and LF are some), and DEL when del is set, in [p, end), or end.
 * del is a constant at every call. */
static inline __attribute__((always_inline)) const char *fl_scan_c0(const char *p, const char *end,
                                                                    bool del)
{
#ifdef __SSE2__
    ptrdiff_t blocks = (end - p) / 32;
    for (const char *stop = p + blocks * 32; p < stop; p += 32) {
        __m128i low = fl_scan_c0_in(p, del), high = fl_scan_c0_in(p + 16, del);
        if (_mm_movemask_epi8(_mm_or_si128(low, high)) != 0) {
            unsigned mask = (unsigned)_mm_movemask_epi8(high) << 16;
            return p + __builtin_ctz(mask | (unsigned)_mm_movemask_epi8(low));
        }
    }
#endif
    for (uint64_t word; end - p >= 8; p += 8) {
        memcpy(&word, p, 8);
        if (fl_scan_below(word, 0x20) != 0 ||
            (del && fl_scan_below(word ^ 0x7f7f7f7f7f7f7f7fu, 1) != 0)) {
            break;
        }
    }
    while (p < end && (uint8_t)*p >= 0x20 && (!del || *p != 0x7f)) {
        p++;
    }
    return p;
}

/* One bit for each byte of p[0, 64) that is not among 0x20..0x7e, in plain words. */
static inline uint64_t fl_scan_not_text_plain(const char *p)
{
    const uint64_t ones = 0x0101010101010101u;
    uint64_t hits = 0;
    for (unsigned at = 0; at < 64; at += 8) {
        uint64_t word;
        memcpy(&word, p + at, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        uint64_t low = word & ones * 0x7f; /* no carry leaves a byte */
        uint64_t text = (low + ones * 0x60) & ~(low + ones) & ~word;
        hits |= (~text & ones * 0x80) * UINT64_C(0x0002040810204081) >> 56 << at;
    }
    return hits;
}

#ifdef __SSE2__
static inline unsigned fl_scan_text_16(const char *p)
{
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    x = _mm_cmpgt_epi8(_mm_add_epi8(x, _mm_set1_epi8(1)), _mm_set1_epi8(0x20)); /* signed */
    return (unsigned)_mm_movemask_epi8(x);
}
#endif

static inline uint64_t fl_scan_not_text(const char *p)
{
#ifdef __SSE2__
    uint64_t text = fl_scan_text_16(p); /* by hand: gcc -O2 keeps the loop */
    text |= (uint64_t)fl_scan_text_16(p + 16) << 16;
    text |= (uint64_t)fl_scan_text_16(p + 32) << 32;
    text |= (uint64_t)fl_scan_text_16(p + 48) << 48;
    return ~text;
#else
    return fl_scan_not_text_plain(p);
#endif
}

/* The runs of bytes that are not among 0x20..0x7e, one after the other, 64 bytes at a time: one
 * pass over all lines of a head instead of a search for the end of each. CRLF is such a run. */
struct fl_scan_walk {
    const char *base; /* what was passed already may be read again */
    size_t next, len; /* where the next block begins, and the end: counted from base */
    uint64_t starts;  /* bit i: a run begins at base[next - 64 + i] that was not returned yet */
    uint64_t carry;   /* 1: a run reaches into the next block */
};

/* The next 64 bytes, or as many as there are. */
static inline uint64_t fl_scan_walk_look(const struct fl_scan_walk *w)
{
    size_t left = w->len - w->next;
    if (FL_LIKELY(left >= 64)) {
        return fl_scan_not_text(w->base + w->next);
    }
    if (FL_LIKELY(w->len >= 64)) {
        return fl_scan_not_text(w->base + w->len - 64) >> (64 - left);
    }
    char last[64] = {0};
    memcpy(last, w->base + w->next, left);
    return fl_scan_not_text(last) & ((UINT64_C(1) << left) - 1);
}

/* Where the next run begins, or the end. */
static inline __attribute__((always_inline)) const char *fl_scan_walk_next(struct fl_scan_walk *w)
{
    while (w->starts == 0) {
        if (w->next >= w->len) {
            return w->base + w->len;
        }
        uint64_t hits = fl_scan_walk_look(w);
        w->starts = hits & ~(hits << 1 | w->carry);
        w->carry = hits >> 63;
        w->next += 64;
    }
    const char *p = w->base + (w->next - 64 + (size_t)__builtin_ctzll(w->starts));
    w->starts &= w->starts - 1;
    return p;
}

static inline bool fl_scan_is_crlf(const char *p)
{
    return memcmp(p, "\r\n", 2) == 0;
}

/* First control byte, DEL among them, in [p, end), or end. */
static inline const char *fl_scan_control(const char *p, const char *end)
{
    return fl_scan_c0(p, end, true);
}

/* First byte that a request target must not hold; [p, end) has one. */
static inline const char *fl_scan_target(const char *p, const char *end)
{
#ifdef __SSE2__
    for (; end - p >= 16; p += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i hit = _mm_cmplt_epi8(x, _mm_set1_epi8('!')); /* signed: takes 0x80 and up too */
        hit = _mm_or_si128(hit, _mm_cmpeq_epi8(x, _mm_set1_epi8(0x7f)));
        hit = _mm_or_si128(hit, _mm_cmpeq_epi8(x, _mm_set1_epi8('#')));
        hit = _mm_or_si128(hit, _mm_cmpeq_epi8(x, _mm_set1_epi8('\\')));
        unsigned mask = (unsigned)_mm_movemask_epi8(hit);
        if (mask != 0) {
            return p + __builtin_ctz(mask);
        }
    }
#endif
    while (p < end && fl_scan_is(*p, FL_SCAN_TARGET)) {
        p++;
    }
    return p;
}

#endif
