/* scan - finding the first byte that ends a run, many bytes at a time. Inside common/http1 only.
 * SSE2 is part of every x86-64; elsewhere eight bytes at a time in a plain word. */
#ifndef FL_COMMON_HTTP1_SCAN_H
#define FL_COMMON_HTTP1_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
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
    __m128i letter = _mm_sub_epi8(_mm_or_si128(x, _mm_set1_epi8(0x20)), _mm_set1_epi8('a'));
    __m128i digit = _mm_sub_epi8(x, _mm_set1_epi8('0'));
    __m128i plain = _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(letter, _mm_set1_epi8(25)), letter),
                                 _mm_cmpeq_epi8(_mm_min_epu8(digit, _mm_set1_epi8(9)), digit));
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

#ifdef __SSE2__
struct fl_scan_masks { /* one bit per byte of a block of 64 */
    uint64_t c0, cr, lf;
};

static inline void fl_scan_16(const char *p, unsigned at, struct fl_scan_masks *m)
{
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)(p + at));
    __m128i c0 = _mm_cmpeq_epi8(_mm_min_epu8(x, _mm_set1_epi8(0x1f)), x);
    __m128i cr = _mm_cmpeq_epi8(x, _mm_set1_epi8('\r'));
    __m128i lf = _mm_cmpeq_epi8(x, _mm_set1_epi8('\n'));
    m->c0 |= (uint64_t)(unsigned)_mm_movemask_epi8(c0) << at;
    m->cr |= (uint64_t)(unsigned)_mm_movemask_epi8(cr) << at;
    m->lf |= (uint64_t)(unsigned)_mm_movemask_epi8(lf) << at;
}
#endif

/* Skips whole blocks at p that hold no end of a head and nothing a careful reader would object to:
 * no control bytes but CR LF pairs, no two pairs in a row. One pass without a branch per line; base
 * is where the start line begins: before p[-1] there may be nothing. */
static inline const char *fl_scan_clean_blocks(const char *base, const char *p, const char *end)
{
#ifdef __SSE2__
    /* Was the byte before this block a CR, were the two before it LF? p never follows a lone CR. */
    uint64_t cr_before = 0;
    uint64_t lf_before = p > base && p[-1] == '\n' ? 2 : 0;
    for (; end - p >= 64; p += 64) {
        struct fl_scan_masks m = {0, 0, 0};
        fl_scan_16(p, 0, &m); /* by hand: unrolled it is twice as fast */
        fl_scan_16(p, 16, &m);
        fl_scan_16(p, 32, &m);
        fl_scan_16(p, 48, &m);
        uint64_t lone = m.lf ^ (m.cr << 1 | cr_before);
        uint64_t empty_line = m.lf & (m.lf << 2 | lf_before);
        if (((m.c0 ^ m.cr ^ m.lf) | lone | empty_line) != 0) {
            break;
        }
        cr_before = m.cr >> 63;
        lf_before = m.lf >> 62;
    }
    return p - cr_before;
#else
    (void)base;
    (void)end;
    return p;
#endif
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
