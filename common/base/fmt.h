/* fmt - bounded text building. Writes never overflow: what does not fit sets `cut` and is dropped
 * whole per call. The buffer is NUL-terminated after every call (cap must be > 0). */
#ifndef FL_COMMON_BASE_FMT_H
#define FL_COMMON_BASE_FMT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/span.h"

struct fl_fmt {
    char *base;
    size_t len, cap;
    bool cut;
};

static inline struct fl_fmt fl_fmt_of(char *base, size_t cap)
{
    base[0] = '\0';
    return (struct fl_fmt){base, 0, cap, false};
}

void fl_fmt_span(struct fl_fmt *f, struct fl_span s);
static inline void fl_fmt_text(struct fl_fmt *f,
                               const char *text) /* the length of a constant is one */
{
    fl_fmt_span(f, fl_span_of(text));
}
void fl_fmt_char(struct fl_fmt *f, char c);
void fl_fmt_uint(struct fl_fmt *f, uint64_t v);
void fl_fmt_int(struct fl_fmt *f, int64_t v);
void fl_fmt_printf(struct fl_fmt *f, const char *fmt, ...) FL_PRINTF(2, 3);
/* microseconds as seconds with ms resolution: 1234567 -> 1.235 */
void fl_fmt_secs(struct fl_fmt *f, int64_t us);
/* the inside of a JSON string (RFC 8259); bytes that are not UTF-8 as \u00XX */
void fl_fmt_json(struct fl_fmt *f, struct fl_span s);
/* character data; controls that XML 1.0 forbids become '?' */
void fl_fmt_xml(struct fl_fmt *f, struct fl_span s);
void fl_fmt_prom(struct fl_fmt *f, struct fl_span s); /* Prometheus label value: \\ \" \n */
/* HTTP field value: controls and non-ASCII become '?' */
void fl_fmt_header(struct fl_fmt *f, struct fl_span s);
/* 2026-11-30T04:42:31.123Z; years clipped to 0..9999 */
void fl_fmt_rfc3339(struct fl_fmt *f, int64_t unix_ms);
/* Mon, 30 Nov 2026 04:42:31 GMT (RFC 9110 section 5.6.7) */
void fl_fmt_http_date(struct fl_fmt *f, int64_t unix_s);

#endif
