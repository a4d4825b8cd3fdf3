#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/origin_conn.h"
#include "tests/support/origin_store.h"

#define FEED_BYTES ((uint64_t)65536)
#define PACE_US    20000

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *reason;
    } known[] = {
        {200, "OK"},
        {204, "No Content"},
        {206, "Partial Content"},
        {304, "Not Modified"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {412, "Precondition Failed"},
        {416, "Range Not Satisfiable"},
        {429, "Too Many Requests"},
        {500, "Internal Server Error"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
    };
    for (size_t i = 0; i < FL_COUNTOF(known); i++) {
        if (known[i].status == status) {
            return known[i].reason;
        }
    }
    return "Scripted";
}

static void own_text(struct fl_origin_answer *an, const char *text)
{
    fl_origin_buf_text(&an->own, text);
}

static void own_error(struct fl_origin_answer *an, int status, const char *code)
{
    an->status = status;
    own_text(an, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>");
    own_text(an, code);
    own_text(an, "</Code><Message>said by the origin</Message></Error>");
}

static void own_name(const struct fl_origin *o, struct fl_origin_answer *an)
{
    own_text(an, o->name);
    own_text(an, "\n");
}

static bool names_an_object(struct fl_span path)
{
    struct fl_span rest = fl_span_from(path, 1);
    ptrdiff_t slash = fl_span_find(rest, '/');
    return slash > 0 && (size_t)slash + 1 < rest.len;
}

/* Narrows the body to "bytes=A-B", "bytes=A-" or "bytes=-N". */
static void apply_range(struct fl_origin_answer *an, struct fl_span range,
                        struct fl_origin_buf *head)
{
    char text[64];
    unsigned long long first = 0, last = 0;
    uint64_t total = an->body_len;
    fl_origin_buf_text_of(range, text, sizeof(text));
    if (strncmp(text, "bytes=", 6) != 0 || total == 0) {
        return;
    }
    char *end = NULL;
    if (text[6] == '-') {
        uint64_t n = strtoull(text + 7, &end, 10);
        first = n < total ? total - n : 0;
        last = total - 1;
    } else {
        first = strtoull(text + 6, &end, 10);
        last = *end == '-' && end[1] ? strtoull(end + 1, &end, 10) : total - 1;
    }
    last = last < total ? last : total - 1;
    if (first > last) {
        an->status = 416;
        an->body_len = 0;
        return;
    }
    an->status = 206;
    an->body += first;
    an->body_len = last - first + 1;
    fl_origin_buf_printf(head, "Content-Range: bytes %llu-%llu/%" PRIu64 "\r\n", first, last,
                         total);
}

static void answer_get(struct fl_origin *o, struct fl_origin_conn *c, struct fl_origin_buf *head)
{
    struct fl_origin_answer *an = &c->an;
    an->object = fl_origin_store_get(o->store, c->rq.path);
    if (an->object) {
        an->body = an->object->bytes.base ? an->object->bytes.base : "";
        an->body_len = an->object->bytes.len;
        fl_origin_buf_printf(head, "ETag: \"%s\"\r\nAccept-Ranges: bytes\r\n", an->object->etag);
        if (c->rq.range.len) {
            apply_range(an, c->rq.range, head);
        }
    } else if (o->set.missing == 200) {
        own_name(o, an);
    } else if (names_an_object(c->rq.path)) {
        own_error(an, 404, "NoSuchKey");
    } else {
        fl_origin_store_list(o->store, c->rq.path, &an->own);
    }
}

static void answer_put(struct fl_origin *o, struct fl_origin_conn *c, struct fl_origin_buf *head)
{
    struct fl_origin_answer *an = &c->an;
    struct fl_origin_object *old = fl_origin_store_get(o->store, c->rq.path);
    char etag[33] = "d41d8cd98f00b204e9800998ecf8427e"; /* MD5 of nothing */
    if (c->rq.body_bytes) {
        uint8_t digest[EVP_MAX_MD_SIZE];
        unsigned len = 0;
        struct fl_origin_buf hex = {NULL, 0, 0};
        EVP_DigestFinal_ex(c->md5, digest, &len);
        fl_origin_buf_hex(&hex, digest, 16);
        fl_origin_buf_text_of((struct fl_span){hex.base, hex.len}, etag, sizeof(etag));
        fl_origin_buf_done(&hex);
    }
    if (c->rq.only_if_absent && old) {
        own_error(an, 412, "PreconditionFailed");
    } else if (c->rq.copy_source.len) {
        own_text(an, "<CopyObjectResult><ETag>\"0\"</ETag></CopyObjectResult>");
    } else if (c->keep_upload && names_an_object(c->rq.path)) {
        fl_origin_store_put(o->store, c->rq.path, etag, &c->upload);
    }
    if (an->status == 200) {
        fl_origin_buf_printf(head, "ETag: \"%s\"\r\n", etag);
    }
    fl_origin_object_unref(&old);
}

static bool query_has(const struct fl_origin_conn *c, const char *name)
{
    return memmem(c->rq.query.ptr, c->rq.query.len, name, strlen(name)) != NULL;
}

static void answer_post(struct fl_origin *o, struct fl_origin_conn *c)
{
    if (query_has(c, "uploadId=")) {
        own_text(
            &c->an,
            "<CompleteMultipartUploadResult><ETag>\"0-1\"</ETag></CompleteMultipartUploadResult>");
    } else if (query_has(c, "uploads")) {
        char text[160];
        snprintf(text, sizeof(text),
                 "<InitiateMultipartUploadResult><UploadId>%s-%" PRIu64
                 "</UploadId></InitiateMultipartUploadResult>",
                 o->name, c->seq);
        own_text(&c->an, text);
    } else if (query_has(c, "delete")) {
        own_text(&c->an, "<DeleteResult></DeleteResult>");
    } else {
        own_name(o, &c->an);
    }
}

static void answer_by_store(struct fl_origin *o, struct fl_origin_conn *c,
                            struct fl_origin_buf *head)
{
    struct fl_span method = c->rq.method;
    c->an.status = 200;
    if (fl_span_is(method, "GET") || fl_span_is(method, "HEAD")) {
        answer_get(o, c, head);
    } else if (fl_span_is(method, "PUT")) {
        answer_put(o, c, head);
    } else if (fl_span_is(method, "POST")) {
        answer_post(o, c);
    } else if (fl_span_is(method, "DELETE")) {
        fl_origin_store_remove(o->store, c->rq.path);
        c->an.status = 204;
    } else if (!fl_span_is(method, "OPTIONS")) {
        own_name(o, &c->an);
    }
}

static void answer_by_rule(struct fl_origin *o, struct fl_origin_conn *c,
                           struct fl_origin_buf *head)
{
    struct fl_origin_answer *an = &c->an;
    const struct fl_origin_rule *r = an->rule;
    an->status = r->status ? (int)r->status : 200;
    if (r->size >= 0) {
        an->body_len = (uint64_t)r->size; /* body stays NULL: generated */
    } else if (r->code) {
        own_error(an, an->status, r->code);
        fl_origin_buf_text(head, "Content-Type: application/xml\r\n");
    } else if (r->has_body) {
        fl_origin_buf_add(&an->own, r->body.base, r->body.len);
    } else if (an->status >= 200 && an->status < 300 && an->status != 204) {
        own_name(o, an);
    }
}

static void pad_head(struct fl_origin_buf *out, size_t start, size_t target)
{
    while (out->len - start + 2 < target) {
        size_t left = target - (out->len - start) - 2;
        size_t value = left > 1024 ? 1000 : left > 18 ? left - 18 : 1;
        fl_origin_buf_text(out, "x-amz-meta-pad: ");
        memset(fl_origin_buf_room(out, value), 'p', value);
        out->len += value;
        fl_origin_buf_text(out, "\r\n");
    }
}

static void add_framing(struct fl_origin_conn *c, struct fl_origin_buf *out)
{
    struct fl_origin_answer *an = &c->an;
    const struct fl_origin_rule *r = an->rule;
    if (an->framing == FL_ORIGIN_FRAMING_LENGTH && an->status != 204 && an->status >= 200) {
        fl_origin_buf_printf(out, "Content-Length: %" PRIu64 "\r\n", an->body_len);
    } else if (an->framing == FL_ORIGIN_FRAMING_CHUNKED) {
        fl_origin_buf_text(out, "Transfer-Encoding: chunked\r\n");
    }
    bool asked = c->rq.wants_close || (c->rq.minor == 0 && !c->rq.wants_keepalive);
    an->close_after |= asked || an->framing == FL_ORIGIN_FRAMING_CLOSE;
    if (an->close_after && !(r && r->close_silent)) {
        fl_origin_buf_text(out, "Connection: close\r\n");
    } else if (c->rq.minor == 0 && c->rq.wants_keepalive) {
        fl_origin_buf_text(out, "Connection: keep-alive\r\n");
    }
    an->close_after |= r && r->close_silent;
}

static void set_limits(struct fl_origin_answer *an, uint64_t head_len)
{
    const struct fl_origin_rule *r = an->rule;
    an->limit = UINT64_MAX;
    if (r && r->cut >= 0) {
        an->limit = head_len + (uint64_t)r->cut;
        an->end = (enum fl_origin_end)r->cut_end;
    } else if (r && r->rst_response >= 0) {
        an->limit = (uint64_t)r->rst_response;
        an->end = FL_ORIGIN_END_RST;
    } else if (r && r->fin_response >= 0) {
        an->limit = (uint64_t)r->fin_response;
        an->end = FL_ORIGIN_END_FIN;
    }
}

static void start_raw(struct fl_origin_conn *c)
{
    struct fl_origin_answer *an = &c->an;
    fl_origin_buf_add(&c->out, an->rule->raw.base, an->rule->raw.len);
    an->queued_bytes = an->rule->raw.len;
    an->queued = true;
    an->limit = UINT64_MAX;
    an->close_after = an->rule->close || an->rule->close_silent;
}

void fl_origin_answer_start(struct fl_origin *o, struct fl_origin_conn *c)
{
    struct fl_origin_answer *an = &c->an;
    const struct fl_origin_rule *r = an->rule;
    an->started = true;
    if (r && r->has_raw) {
        start_raw(c);
        return;
    }
    struct fl_origin_buf fields = {NULL, 0, 0};
    if (r && fl_origin_rule_answers(r)) {
        answer_by_rule(o, c, &fields);
    } else {
        answer_by_store(o, c, &fields);
    }
    if (an->own.len) {
        an->body = an->own.base;
        an->body_len = an->own.len;
    }
    bool last = o->set.keepalive && c->requests >= (uint64_t)o->set.keepalive;
    an->close_after = o->stopping || (r && r->close) || (last && !o->set.keepalive_silent);
    an->framing = r ? (enum fl_origin_framing)r->framing : FL_ORIGIN_FRAMING_LENGTH;
    size_t start = c->out.len;
    fl_origin_buf_printf(&c->out, "HTTP/1.%d %d %s\r\nX-Origin: %s\r\n", r && r->http10 ? 0 : 1,
                         an->status, reason_of(an->status), o->name);
    fl_origin_buf_add(&c->out, fields.base, fields.len);
    fl_origin_buf_done(&fields);
    if (r) {
        fl_origin_buf_add(&c->out, r->headers.base, r->headers.len);
    }
    add_framing(c, &c->out);
    an->close_after |= last;
    if (r && r->head_size) {
        pad_head(&c->out, start, (size_t)r->head_size);
    }
    fl_origin_buf_text(&c->out, "\r\n");
    an->queued_bytes = c->out.len - start;
    set_limits(an, an->queued_bytes);
    if (an->queued_bytes >= an->limit) {
        c->out.len -= (size_t)(an->queued_bytes - an->limit);
        an->queued_bytes = an->limit;
        an->queued = true;
    }
    bool bodiless = fl_span_is(c->rq.method, "HEAD") || an->status == 204 || an->status == 304 ||
                    an->status < 200;
    an->body_at = bodiless ? an->body_len : 0;
    an->queued |= bodiless || (an->body_len == 0 && an->framing != FL_ORIGIN_FRAMING_CHUNKED);
}

/* Adds n body bytes from body_at; generated bytes follow the offset, so any slice can be checked.
 */
static void add_body(struct fl_origin_answer *an, struct fl_origin_buf *out, uint64_t n)
{
    char *room = fl_origin_buf_room(out, (size_t)n);
    if (an->body) {
        memcpy(room, an->body + an->body_at, (size_t)n);
    } else {
        for (uint64_t i = 0; i < n; i++) {
            room[i] = (char)('a' + (an->body_at + i) % 26);
        }
    }
    out->len += (size_t)n;
    an->body_at += n;
}

static void end_chunks(struct fl_origin_conn *c)
{
    const struct fl_origin_rule *r = c->an.rule;
    fl_origin_buf_text(&c->out, "0\r\n");
    if (r) {
        fl_origin_buf_add(&c->out, r->trailers.base, r->trailers.len);
    }
    fl_origin_buf_text(&c->out, "\r\n");
}

bool fl_origin_answer_feed(struct fl_origin *o, struct fl_origin_conn *c)
{
    struct fl_origin_answer *an = &c->an;
    const struct fl_origin_rule *r = an->rule;
    size_t start = c->out.len;
    uint64_t n = an->body_len - an->body_at;
    n = n < FEED_BYTES ? n : FEED_BYTES;
    if (r && r->rate && n) {
        uint64_t pace = (uint64_t)(r->rate * PACE_US / 1000000) + 1;
        n = n < pace ? n : pace;
        c->send_at_us = o->now_us + PACE_US;
    }
    if (an->framing == FL_ORIGIN_FRAMING_CHUNKED) {
        uint64_t chunk = r && r->chunk ? (uint64_t)r->chunk : FEED_BYTES;
        n = n < chunk ? n : chunk;
        if (n) {
            fl_origin_buf_printf(&c->out, "%" PRIx64 "\r\n", n);
            add_body(an, &c->out, n);
            fl_origin_buf_text(&c->out, "\r\n");
        }
        if (an->body_at == an->body_len) {
            end_chunks(c);
        }
    } else {
        add_body(an, &c->out, n);
    }
    an->queued = an->body_at == an->body_len;
    an->queued_bytes += c->out.len - start;
    if (an->queued_bytes >= an->limit) {
        c->out.len -= (size_t)(an->queued_bytes - an->limit);
        an->queued_bytes = an->limit;
        an->queued = true;
    }
    return c->out.len > start || an->queued;
}

void fl_origin_answer_done(struct fl_origin_answer *an)
{
    fl_origin_rule_unref(&an->rule);
    fl_origin_object_unref(&an->object);
    fl_origin_buf_done(&an->own);
    *an = (struct fl_origin_answer){.limit = UINT64_MAX};
}
