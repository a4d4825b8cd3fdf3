/* scan - finding the first byte that ends a run, many bytes at a time. Inside common/http1 only.
 * SSE2 is part of every x86-64; elsewhere eight bytes at a time in a plain word. */
#ifndef FL_COMMON_HTTP1_SCAN_H
#define FL_COMMON_HTTP1_SCAN_H

#include <stdbool.h>
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

static inline const char *fl_scan_token(const char *p, const char *end)
{
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

/* First control byte (HTAB, CR and LF are some) in [p, end), or end. */
static inline const char *fl_scan_control(const char *p, const char *end)
{
#ifdef __SSE2__
    const __m128i last = _mm_set1_epi8(0x1f);
    const __m128i del = _mm_set1_epi8(0x7f);
    for (; end - p >= 16; p += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i hit =
            _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(x, last), x), _mm_cmpeq_epi8(x, del));
        unsigned mask = (unsigned)_mm_movemask_epi8(hit);
        if (mask != 0) {
            return p + __builtin_ctz(mask);
        }
    }
#endif
    for (uint64_t word; end - p >= 8; p += 8) {
        memcpy(&word, p, 8);
        if (fl_scan_below(word, 0x20) != 0 || fl_scan_below(word ^ 0x7f7f7f7f7f7f7f7fu, 1) != 0) {
            break;
        }
    }
    while (p < end && !fl_scan_is_control(*p)) {
        p++;
    }
    return p;
}

#endif
