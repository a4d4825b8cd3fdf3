#include "common/probe/probe_answer.h"

#include "common/base/fmt.h"
#include "common/base/units.h"
#include "common/http1/headers.h"
#include "common/verdict/probe_judge.h"

#define FIRST_BYTES 48 /* of an answer that says nothing else */

static struct fl_span field(const struct fl_probe_answer *a, const char *name)
{
    const struct fl_http_field *f =
        fl_headers_find_name(a->head_text, &a->head->head, fl_span_of(name));
    return f != NULL ? fl_headers_value(a->head_text, f) : (struct fl_span){0};
}

static bool is_word(struct fl_span s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = fl_ascii_lower(s.ptr[i]);
        bool ok = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                  c == '_' || c == ':' || c == '/';
        if (!ok) {
            return false;
        }
    }
    return s.len != 0;
}

/* The text of the first <tag> element that is one word. */
static struct fl_span element(struct fl_span body, const char *tag)
{
    char open[40];
    struct fl_fmt o = fl_fmt_of(open, sizeof(open));
    fl_fmt_printf(&o, "<%s>", tag);
    const char *at = body.len != 0 ? memmem(body.ptr, body.len, open, o.len) : NULL;
    if (at == NULL) {
        return (struct fl_span){0};
    }
    struct fl_span rest = fl_span_from(body, (size_t)(at - body.ptr) + o.len);
    ptrdiff_t end = fl_span_find(rest, '<');
    struct fl_span text = fl_span_trim(fl_span_first(rest, end < 0 ? 0 : (size_t)end));
    return is_word(text) ? text : (struct fl_span){0};
}

static void set(char *to, size_t cap, struct fl_span text)
{
    struct fl_fmt f = fl_fmt_of(to, cap);
    fl_fmt_header(&f, fl_span_first(text, cap - 1));
}

/* ---- the clock ---- */

static int64_t days_before(int64_t y, int64_t m, int64_t d) /* of 1970-01-01; Gregorian */
{
    y -= m <= 2;
    int64_t era = y / 400, of_era = y - era * 400;
    int64_t of_year = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static bool number(struct fl_span s, size_t at, size_t len, int64_t max, int64_t *ret)
{
    uint64_t v;
    if (!fl_units_uint(fl_span_first(fl_span_from(s, at), len), &v) || v > (uint64_t)max) {
        return false;
    }
    *ret = (int64_t)v;
    return true;
}

bool fl_probe_answer_date(struct fl_span s, int64_t *ret_unix_s)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    int64_t d, y, hh, mm, ss;
    if (s.len != 29 || !number(s, 5, 2, 31, &d) || !number(s, 12, 4, 9999, &y) ||
        !number(s, 17, 2, 23, &hh) || !number(s, 20, 2, 59, &mm) || !number(s, 23, 2, 60, &ss) ||
        !fl_span_is(fl_span_from(s, 25), " GMT")) {
        return false;
    }
    for (int64_t m = 0; m < 12; m++) {
        if (memcmp(s.ptr + 8, months + 3 * m, 3) == 0) {
            *ret_unix_s = days_before(y, m + 1, d) * 86400 + hh * 3600 + mm * 60 + ss;
            return true;
        }
    }
    return false;
}

static void tell_skew(const struct fl_probe_answer *a, struct fl_probe_result *ret)
{
    int64_t theirs, ours = a->wall_ms / 1000;
    struct fl_fmt f = fl_fmt_of(ret->detail, sizeof(ret->detail));
    if (!fl_probe_answer_date(fl_headers_get(a->head_text, &a->head->head, FL_HTTP_DATE),
                              &theirs)) {
        fl_fmt_text(&f, "the store does not tell its time");
        return;
    }
    int64_t ahead = theirs - ours;
    fl_fmt_printf(&f, "the store's clock is %lld s %s ours",
                  (long long)(ahead < 0 ? -ahead : ahead), ahead < 0 ? "behind" : "ahead of");
}

/* ---- the place ---- */

static void tell_place(const struct fl_probe_answer *a, struct fl_probe_result *ret)
{
    const struct fl_span places[] = {
        field(a, "x-amz-bucket-region"),
        element(a->body, "Region"),
        element(a->body, "Endpoint"),
        field(a, "location"),
    };
    for (size_t i = 0; i < FL_COUNTOF(places); i++) {
        if (places[i].len != 0) {
            set(ret->detail, sizeof(ret->detail), places[i]);
            return;
        }
    }
}

/* ---- is this S3 at all? ---- */

static bool starts_with_word(struct fl_span s, const char *word)
{
    return fl_span_ieq(fl_span_first(s, strlen(word)), fl_span_of(word));
}

static struct fl_span skip_blank(struct fl_span s)
{
    if (fl_span_starts(s, FL_SPAN("\xef\xbb\xbf"))) {
        s = fl_span_from(s, 3);
    }
    while (s.len != 0 &&
           (s.ptr[0] == ' ' || s.ptr[0] == '\t' || s.ptr[0] == '\r' || s.ptr[0] == '\n')) {
        s = fl_span_from(s, 1);
    }
    return s;
}

static bool has_store_fields(const struct fl_probe_answer *a)
{
    const struct fl_http_head *h = &a->head->head;
    for (unsigned i = 0; i < h->count; i++) {
        struct fl_span name = fl_headers_name(a->head_text, &h->fields[i]);
        if (starts_with_word(name, "x-amz-") || starts_with_word(name, "x-minio-")) {
            return true;
        }
    }
    return false;
}

/* Wants a proof: many stores send bare heads. A page or a document of another kind is one; so is a
 * list of buckets that is no XML. A 5xx may be a proxy's in front of a store. */
static bool is_foreign(const struct fl_probe_answer *a)
{
    struct fl_span body = skip_blank(a->body);
    struct fl_span type = fl_headers_get(a->head_text, &a->head->head, FL_HTTP_CONTENT_TYPE);
    if (a->head->status >= 500 || has_store_fields(a)) {
        return false;
    }
    if (starts_with_word(body, "<!doctype html") || starts_with_word(body, "<html")) {
        return true;
    }
    if (body.len != 0 && body.ptr[0] == '<') {
        return false;
    }
    bool list = a->request == FL_PROBE_REQUEST_LIST_BUCKETS && a->head->status == 200;
    return starts_with_word(type, "text/html") || starts_with_word(type, "application/json") ||
           (list && body.len != 0);
}

static void tell_first_bytes(const struct fl_probe_answer *a, struct fl_probe_result *ret)
{
    struct fl_span body = fl_span_first(skip_blank(a->body), FIRST_BYTES);
    size_t n = 0;
    while (n < body.len && body.ptr[n] >= ' ' && body.ptr[n] != 0x7f) {
        n++;
    }
    set(ret->detail, sizeof(ret->detail), fl_span_trim(fl_span_first(body, n)));
}

void fl_probe_answer_read(const struct fl_probe_answer *a, struct fl_probe_result *ret)
{
    ret->status = a->head->status;
    ret->foreign = false;
    ret->code[0] = ret->detail[0] = '\0';
    if (a->request == FL_PROBE_REQUEST_GET) {
        return; /* its status is all that counts */
    }
    struct fl_span code = field(a, "x-minio-error-code");
    if (code.len == 0 && ret->status >= 300) {
        code = element(a->body, "Code");
    }
    set(ret->code, sizeof(ret->code), is_word(code) ? code : (struct fl_span){0});
    ret->foreign = ret->code[0] == '\0' && is_foreign(a);
    if (fl_probe_judge_is_skew(ret->code)) {
        tell_skew(a, ret);
    } else if (fl_probe_judge_is_elsewhere(ret->status, ret->code)) {
        tell_place(a, ret);
    } else if (ret->foreign || (ret->code[0] == '\0' && ret->status >= 300)) {
        tell_first_bytes(a, ret);
    }
}
