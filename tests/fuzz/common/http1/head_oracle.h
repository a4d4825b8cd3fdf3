/* head_oracle - what both head targets check of any parsed head, and of finding its end. */
#ifndef FL_TESTS_FUZZ_HEAD_ORACLE_H
#define FL_TESTS_FUZZ_HEAD_ORACLE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/http1/head_write.h"
#include "common/http1/headers.h"

/* Each prefix in memory of its own, so that a look past its end is seen. */
static inline ptrdiff_t end_of(const char *in, size_t len, size_t *scan)
{
    char *exact = malloc(len ? len : 1);
    FL_MUST(exact != NULL);
    memcpy(exact, in, len);
    ptrdiff_t n = fl_head_end(exact, len, scan);
    free(exact);
    return n;
}

/* Split invariance: pieces of any size say what the whole says. */
static inline ptrdiff_t oracle_end(const char *in, size_t len)
{
    size_t scan = 0;
    ptrdiff_t whole = end_of(in, len, &scan);
    for (size_t step = len > 4096 ? 509 : 1; step < 80; step = step * 3 + 1) {
        ptrdiff_t n = 0;
        scan = 0;
        for (size_t have = 0; n == 0 && have < len;) {
            have = have + step < len ? have + step : len;
            n = end_of(in, have, &scan);
            FL_MUST(scan <= have);
        }
        FL_MUST(n == whole);
    }
    FL_MUST(whole <= (ptrdiff_t)len && whole <= FL_HTTP_HEAD_MAX);
    FL_MUST(whole <= 0 || memcmp(in + whole - 4, "\r\n\r\n", 4) == 0);
    return whole;
}

struct oracle_head { /* a method: of an answer to it; NULL: of a request */
    const enum fl_http_method *method;
    union {
        struct fl_request_head q;
        struct fl_response_head a;
    };
};

/* In memory of its own, with the room behind it that is asked for. */
static inline size_t at_once(const char *in, size_t len, struct oracle_head *h)
{
    char *exact = malloc(len + FL_HTTP_STOP_BYTES);
    FL_MUST(exact != NULL);
    memcpy(exact, in, len);
    size_t n = h->method != NULL ? fl_response_parse_at_once(exact, len, *h->method, &h->a)
                                 : fl_request_parse_at_once(exact, len, &h->q);
    FL_MUST(memcmp(exact, in, len) == 0);
    free(exact);
    return n;
}

/* One pass takes what two steps take, and reads the same in it; it takes nothing that has not come
 * whole, and what lies behind the head makes no difference. */
static inline void oracle_at_once(const char *in, size_t len, const enum fl_http_method *method)
{
    static struct oracle_head once, steps;
    size_t scan = 0;
    ptrdiff_t n = fl_head_end(in, len, &scan);
    memset(&steps, 0, sizeof steps);
    steps.method = method;
    bool good =
        n > 0 && (method != NULL ? fl_response_parse(in, (size_t)n, *method, &steps.a)
                                 : fl_request_parse(in, (size_t)n, &steps.q)) == FL_HTTP_ERR_NONE;
    for (size_t have = len; len + FL_HTTP_STOP_BYTES <= FL_HTTP_HEAD_MAX;) {
        bool whole = n > 0 && have >= (size_t)n;
        memset(&once, 0, sizeof once);
        once.method = method;
        FL_MUST(at_once(in, have, &once) == (good && whole ? (size_t)n : 0));
        FL_MUST(!(good && whole) || memcmp(&once, &steps, sizeof once) == 0);
        if (have == 0 || have + 8 < (n > 0 ? (size_t)n : len)) {
            break;
        }
        have = n > 0 && have > (size_t)n ? (size_t)n : have - 1;
    }
}

static inline bool oracle_is_text(struct fl_span s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if ((c < 32 && c != '\t') || c == 127) {
            return false;
        }
    }
    return true;
}

/* Fields lie within the head, in order, each within a line of its own that ends in CRLF. */
static inline void oracle_fields(const char *buf, const struct fl_http_head *h)
{
    unsigned lengths = 0, codings = 0;
    size_t at = h->fields_off;
    FL_MUST(h->start_off < h->fields_off && h->fields_off <= h->length - 2);
    FL_MUST(h->count <= FL_HTTP_FIELDS_MAX);
    for (unsigned i = 0; i < h->count; i++) {
        const struct fl_http_field *f = &h->fields[i];
        struct fl_slice line = fl_head_line(h, i);
        size_t end = line.off + line.len;
        FL_MUST(line.off == at && end <= h->length - 2 && line.len >= 4);
        FL_MUST(memcmp(buf + end - 2, "\r\n", 2) == 0);
        FL_MUST(f->name_len > 0 && f->name_off + f->name_len < f->value_off + 1u);
        FL_MUST((size_t)f->value_off + f->value_len <= end - 2);
        FL_MUST(memchr(buf + at, '\n', line.len) == buf + end - 1);
        FL_MUST(memchr(buf + f->name_off, ':', f->name_len) == NULL);
        struct fl_span value = fl_headers_value(buf, f);
        FL_MUST(fl_span_eq(value, fl_span_trim(value)) && oracle_is_text(value));
        FL_MUST(f->id == fl_field_id_of(fl_headers_name(buf, f)));
        lengths += fl_span_ieq(fl_headers_name(buf, f), FL_SPAN("content-length"));
        codings += fl_span_ieq(fl_headers_name(buf, f), FL_SPAN("transfer-encoding"));
        at = end;
    }
    FL_MUST(at == h->length - 2);
    FL_MUST(lengths + codings <= 1);
}

/* Slices that drop nothing are the head itself, but for white space before colons. */
static inline void oracle_identity(const char *buf, const struct fl_http_head *h)
{
    struct fl_slice out[FL_HEAD_SLICES_MAX];
    int n = fl_head_slices(buf, h, 0, true, out, FL_HEAD_SLICES_MAX);
    size_t at = h->start_off;
    FL_MUST(n >= 1);
    for (int i = 0; i < n; i++) {
        FL_MUST(out[i].len > 0 && out[i].off >= at);
        for (; at < out[i].off; at++) {
            FL_MUST(buf[at] == ' ' || buf[at] == '\t');
        }
        at += out[i].len;
    }
    FL_MUST(at == h->length - 2);
}

/* The fields of b are those of a that were not dropped, less or more some at the ends. */
static inline void oracle_kept(const char *buf, const struct fl_http_head *a, const char *text,
                               const struct fl_http_head *b, unsigned before, unsigned after)
{
    unsigned k = before;
    for (unsigned i = 0; i < a->count; i++) {
        if ((a->fields[i].flags & FL_FIELD_HOP) != 0) {
            continue;
        }
        FL_MUST(k < b->count);
        FL_MUST(
            fl_span_eq(fl_headers_name(buf, &a->fields[i]), fl_headers_name(text, &b->fields[k])));
        FL_MUST(fl_span_eq(fl_headers_value(buf, &a->fields[i]),
                           fl_headers_value(text, &b->fields[k])));
        FL_MUST((b->fields[k].flags & (FL_FIELD_HOP | FL_FIELD_SPACED)) == 0);
        k++;
    }
    FL_MUST(k + after == b->count);
}

#endif
