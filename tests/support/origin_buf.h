/* origin_buf - a growable byte buffer, and the few ways of printing into it. Out of memory ends the
 * process. */
#ifndef FL_TESTS_ORIGIN_BUF_H
#define FL_TESTS_ORIGIN_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/span.h"

struct fl_origin_buf {
    char *base; /* NULL while cap is 0; not NUL-terminated */
    size_t len, cap;
};

void fl_origin_buf_done(struct fl_origin_buf *b);
char *fl_origin_buf_room(struct fl_origin_buf *b,
                         size_t n); /* n writable bytes at the end; add to len yourself */
void fl_origin_buf_add(struct fl_origin_buf *b, const void *bytes, size_t n);
void fl_origin_buf_text(struct fl_origin_buf *b, const char *text);
void fl_origin_buf_span(struct fl_origin_buf *b, struct fl_span s);
void fl_origin_buf_printf(struct fl_origin_buf *b, const char *fmt, ...) FL_PRINTF(2, 3);
void fl_origin_buf_eat(struct fl_origin_buf *b, size_t n); /* drops n bytes at the front */
void fl_origin_buf_json(struct fl_origin_buf *b,
                        struct fl_span s); /* quoted; bytes >= 0x80 as \u00XX */
void fl_origin_buf_base64(struct fl_origin_buf *b, struct fl_span s); /* quoted */
void fl_origin_buf_hex(struct fl_origin_buf *b, const uint8_t *bytes, size_t n);
void fl_origin_buf_text_of(struct fl_span s, char *ret,
                           size_t cap);    /* NUL-terminated, cut to fit */
char *fl_origin_buf_dup(struct fl_span s); /* NUL-terminated malloc copy */

#endif
