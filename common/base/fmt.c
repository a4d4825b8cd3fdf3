#include "common/base/fmt.h"

#include <stdarg.h>
#include <stdio.h>

static const char hex_digits[] = "0123456789abcdef";

static bool put(struct fl_fmt *f, const char *p, size_t n)
{
    if (n >= f->cap - f->len) { /* one byte stays for the NUL */
        return false;
    }
    if (n) {
        memcpy(f->base + f->len, p, n);
    }
    f->len += n;
    return true;
}

/* Ends a call: keeps all it wrote, or none of it. */
static void settle(struct fl_fmt *f, size_t start, bool fits)
{
    if (!fits) {
        f->len = start;
        f->cut = true;
    }
    f->base[f->len] = '\0';
}

void fl_fmt_span(struct fl_fmt *f, struct fl_span s)
{
    settle(f, f->len, put(f, s.ptr, s.len));
}

void fl_fmt_char(struct fl_fmt *f, char c)
{
    settle(f, f->len, put(f, &c, 1));
}

/* Writes v right-aligned before `end`, at least `min` digits; returns the first one. */
static char *digits(char *end, uint64_t v, unsigned min)
{
    char *p = end;
    while (v > 0 || (size_t)(end - p) < min) {
        *--p = (char)('0' + v % 10);
        v /= 10;
    }
    return p;
}

static uint64_t magnitude(int64_t v) /* INT64_MIN has no positive twin */
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

void fl_fmt_uint(struct fl_fmt *f, uint64_t v)
{
    char text[20], *end = text + sizeof text;
    char *p = digits(end, v, 1);
    settle(f, f->len, put(f, p, (size_t)(end - p)));
}

void fl_fmt_int(struct fl_fmt *f, int64_t v)
{
    char text[21], *end = text + sizeof text;
    char *p = digits(end, magnitude(v), 1);
    if (v < 0) {
        *--p = '-';
    }
    settle(f, f->len, put(f, p, (size_t)(end - p)));
}

void fl_fmt_printf(struct fl_fmt *f, const char *fmt, ...)
{
    size_t start = f->len, room = f->cap - f->len;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(f->base + start, room, fmt, args);
    va_end(args);
    bool fits = n >= 0 && (size_t)n < room;
    f->len += fits ? (size_t)n : 0;
    settle(f, start, fits);
}

void fl_fmt_secs(struct fl_fmt *f, int64_t us)
{
    uint64_t ms = (magnitude(us) + 500) / 1000;
    char text[24], *end = text + sizeof text;
    char *p = digits(end, ms % 1000, 3);
    *--p = '.';
    p = digits(p, ms / 1000, 1);
    if (us < 0 && ms > 0) {
        *--p = '-';
    }
    settle(f, f->len, put(f, p, (size_t)(end - p)));
}

/* Length of the UTF-8 sequence at p (RFC 3629: no overlong forms, surrogates or values above
 * 10FFFF), 0: not one. */
static size_t utf8_length(const uint8_t *p, size_t n)
{
    uint8_t c = p[0], low = 0x80, high = 0xbf;
    size_t len = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if (len < 2) {
        return len;
    }
    if (c == 0xe0) {
        low = 0xa0;
    } else if (c == 0xed) {
        high = 0x9f;
    } else if (c == 0xf0) {
        low = 0x90;
    } else if (c == 0xf4) {
        high = 0x8f;
    }
    if (len > n || p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return len;
}

/* What stands for the byte or sequence at p[0 .. n): `used` bytes of input become `text`. */
struct escaped {
    size_t used, len;
    char text[8];
};

static struct escaped as_text(size_t used, const char *text)
{
    struct escaped e = {.used = used, .len = strlen(text)};
    memcpy(e.text, text, e.len);
    return e;
}

static struct escaped as_is(const uint8_t *p, size_t n)
{
    struct escaped e = {.used = n, .len = n};
    memcpy(e.text, p, n);
    return e;
}

/* A well-formed sequence stays; a byte that starts none becomes '?'. */
static struct escaped utf8_or_mark(const uint8_t *p, size_t n)
{
    size_t len = utf8_length(p, n);
    return len ? as_is(p, len) : as_text(1, "?");
}

/* Runs of plain bytes are copied at once, the others one by one. Inlined so that the functions are
 * too. */
static inline __attribute__((always_inline)) void
escape(struct fl_fmt *f, struct fl_span s, bool (*are_plain)(const uint8_t *eight),
       bool (*is_plain)(uint8_t), struct escaped (*replace)(const uint8_t *p, size_t n))
{
    const uint8_t *p = (const uint8_t *)s.ptr;
    size_t start = f->len, i = 0;
    bool fits = true;

    while (fits && i < s.len) {
        size_t run = i;
        while (s.len - run >= 8 && are_plain(p + run)) {
            run += 8;
        }
        while (run < s.len && is_plain(p[run])) {
            run++;
        }
        fits = put(f, s.ptr + i, run - i);
        i = run;
        if (fits && i < s.len) {
            struct escaped e = replace(p + i, s.len - i);
            fits = put(f, e.text, e.len);
            i += e.used;
        }
    }
    settle(f, start, fits);
}

static bool look_at_each(const uint8_t *eight)
{
    (void)eight;
    return false;
}

static bool json_plain(uint8_t c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* Eight bytes at once, a byte in each lane: the lowest that is not plain leaves its high bit, and
 * none is left where all are. */
#define LANES(c) (UINT64_C(0x0101010101010101) * (c))

static inline uint64_t eight_of(const uint8_t *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof w);
    return w;
}

static inline bool none_left(uint64_t lanes)
{
    return (lanes & LANES(0x80)) == 0;
}

static inline uint64_t below_space(uint64_t w)
{
    return w - LANES(0x20);
}

static inline uint64_t del_or_more(uint64_t w)
{
    return w | (w + LANES(1));
}

/* Lanes that are c in the bits of mask. */
static inline uint64_t equal(uint64_t w, uint8_t mask, uint8_t c)
{
    return ((w & LANES(mask)) ^ LANES(c)) - LANES(1);
}

static bool json_all_plain(const uint8_t *eight)
{
    uint64_t w = eight_of(eight);
    return none_left(below_space(w) | del_or_more(w) | equal(w, 0xff, '"') | equal(w, 0xff, '\\'));
}

static struct escaped json_hex(uint8_t c)
{
    struct escaped e = {.used = 1, .len = 6, .text = "\\u00"};
    e.text[4] = hex_digits[c >> 4];
    e.text[5] = hex_digits[c & 15];
    return e;
}

static struct escaped json_replace(const uint8_t *p, size_t n)
{
    switch (p[0]) {
    case '"':
        return as_text(1, "\\\"");
    case '\\':
        return as_text(1, "\\\\");
    case '\b':
        return as_text(1, "\\b");
    case '\f':
        return as_text(1, "\\f");
    case '\n':
        return as_text(1, "\\n");
    case '\r':
        return as_text(1, "\\r");
    case '\t':
        return as_text(1, "\\t");
    default:
        break;
    }
    size_t len = utf8_length(p, n);
    if (len < 2) {
        return json_hex(p[0]);
    }
    if (len == 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9)) {
        return as_text(3, p[2] == 0xa8 ? "\\u2028" : "\\u2029"); /* line ends in older JavaScript */
    }
    return as_is(p, len);
}

void fl_fmt_json(struct fl_fmt *f, struct fl_span s)
{
    escape(f, s, json_all_plain, json_plain, json_replace);
}

static bool xml_plain(uint8_t c)
{
    return c >= 0x20 && c < 0x80 && c != '&' && c != '<' && c != '>' && c != '"' && c != '\'';
}

static struct escaped xml_replace(const uint8_t *p, size_t n)
{
    switch (p[0]) {
    case '&':
        return as_text(1, "&amp;");
    case '<':
        return as_text(1, "&lt;");
    case '>':
        return as_text(1, "&gt;");
    case '"':
        return as_text(1, "&quot;");
    case '\'':
        return as_text(1, "&#39;");
    case '\r':
        return as_text(1, "&#13;"); /* a bare CR would be read back as LF */
    case '\t':
    case '\n':
        return as_is(p, 1);
    default:
        break;
    }
    if (p[0] < 0x20) {
        return as_text(1, "?");
    }
    if (n >= 3 && p[0] == 0xef && p[1] == 0xbf && p[2] >= 0xbe && p[2] <= 0xbf) {
        return as_text(3, "?"); /* U+FFFE and U+FFFF are no XML characters */
    }
    return utf8_or_mark(p, n);
}

static bool xml_all_plain(const uint8_t *eight)
{
    uint64_t w = eight_of(eight);
    uint64_t quotes =
        equal(w, 0xff, '"') | equal(w, 0xfe, '&'); /* & and ' differ in the lowest bit */
    return none_left(below_space(w) | w | quotes | equal(w, 0xfd, '<')); /* and < and > in one */
}

void fl_fmt_xml(struct fl_fmt *f, struct fl_span s)
{
    escape(f, s, xml_all_plain, xml_plain, xml_replace);
}

static bool prom_plain(uint8_t c)
{
    return c < 0x80 && c != '"' && c != '\\' && c != '\n';
}

static struct escaped prom_replace(const uint8_t *p, size_t n)
{
    switch (p[0]) {
    case '"':
        return as_text(1, "\\\"");
    case '\\':
        return as_text(1, "\\\\");
    case '\n':
        return as_text(1, "\\n");
    default:
        return utf8_or_mark(p, n); /* one bad byte would cost the whole scrape */
    }
}

void fl_fmt_prom(struct fl_fmt *f, struct fl_span s)
{
    escape(f, s, look_at_each, prom_plain, prom_replace);
}

static bool header_plain(uint8_t c)
{
    return c >= 0x20 && c < 0x7f;
}

static struct escaped header_replace(const uint8_t *p, size_t n)
{
    (void)p;
    (void)n;
    return as_text(1, "?");
}

static bool header_all_plain(const uint8_t *eight)
{
    uint64_t w = eight_of(eight);
    return none_left(below_space(w) | del_or_more(w));
}

void fl_fmt_header(struct fl_fmt *f, struct fl_span s)
{
    escape(f, s, header_all_plain, header_plain, header_replace);
}

struct civil {
    unsigned year, month, day, weekday; /* month and day from 1; weekday 0 = Sunday */
    unsigned hour, minute, second;
};

#define DAY_S    86400
#define FIRST_S  (-62167219200) /* 0000-01-01T00:00:00Z */
#define BEYOND_S 253402300800   /* 10000-01-01T00:00:00Z */

/* Proleptic Gregorian calendar by days since 0000-03-01, in cycles of 400 years; unix_s within the
 * bounds above. */
static struct civil civil_of(int64_t unix_s)
{
    uint64_t since = (uint64_t)(unix_s - FIRST_S), rest = since % DAY_S;
    uint64_t days = since / DAY_S + 400 * 365 + 97 -
                    60; /* one cycle up: January of year 0 precedes its March */
    unsigned in_cycle = (unsigned)(days % 146097);
    unsigned year = (in_cycle - in_cycle / 1460 + in_cycle / 36524 - in_cycle / 146096) / 365;
    unsigned in_year = in_cycle - (365 * year + year / 4 - year / 100);
    unsigned m = (5 * in_year + 2) / 153; /* 0 = March */
    struct civil c = {
        .year = (unsigned)(days / 146097) * 400 + year - 400 + (m >= 10),
        .month = m < 10 ? m + 3 : m - 9,
        .day = in_year - (153 * m + 2) / 5 + 1,
        .weekday = (unsigned)((since / DAY_S + 6) % 7), /* 0000-01-01 was a Saturday */
        .hour = (unsigned)rest / 3600,
        .minute = (unsigned)rest / 60 % 60,
        .second = (unsigned)rest % 60,
    };
    return c;
}

static int64_t clip(int64_t v, int64_t low, int64_t high)
{
    return v < low ? low : v > high ? high : v;
}

void fl_fmt_rfc3339(struct fl_fmt *f, int64_t unix_ms)
{
    unix_ms = clip(unix_ms, FIRST_S * 1000, BEYOND_S * 1000 - 1);
    uint64_t ms = (uint64_t)(unix_ms - FIRST_S * 1000) % 1000;
    struct civil c = civil_of((unix_ms - (int64_t)ms) / 1000);

    char text[] = "YYYY-MM-DDThh:mm:ss.mmmZ";
    digits(text + 4, c.year, 4);
    digits(text + 7, c.month, 2);
    digits(text + 10, c.day, 2);
    digits(text + 13, c.hour, 2);
    digits(text + 16, c.minute, 2);
    digits(text + 19, c.second, 2);
    digits(text + 23, ms, 3);
    settle(f, f->len, put(f, text, sizeof text - 1));
}

void fl_fmt_http_date(struct fl_fmt *f, int64_t unix_s)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct civil c = civil_of(clip(unix_s, FIRST_S, BEYOND_S - 1));

    char text[] = "Www, DD Mmm YYYY hh:mm:ss GMT";
    memcpy(text, days + 3 * c.weekday, 3);
    digits(text + 7, c.day, 2);
    memcpy(text + 8, months + 3 * (c.month - 1), 3);
    digits(text + 16, c.year, 4);
    digits(text + 19, c.hour, 2);
    digits(text + 22, c.minute, 2);
    digits(text + 25, c.second, 2);
    settle(f, f->len, put(f, text, sizeof text - 1));
}
