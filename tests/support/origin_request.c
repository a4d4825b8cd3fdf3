#include "tests/support/origin_request.h"

#include <string.h>

static uint64_t parse_decimal(struct fl_span s)
{
    uint64_t v = 0;
    for (size_t i = 0; i < s.len && s.ptr[i] >= '0' && s.ptr[i] <= '9'; i++) {
        v = v * 10 + (uint64_t)(s.ptr[i] - '0');
    }
    return v;
}

/* Does a comma-separated field value hold the token? */
static bool has_token(struct fl_span value, const char *token)
{
    while (value.len) {
        ptrdiff_t comma = fl_span_find(value, ',');
        struct fl_span one = comma < 0 ? value : fl_span_first(value, (size_t)comma);
        if (fl_span_ieq(fl_span_trim(one), fl_span_of(token))) {
            return true;
        }
        value = comma < 0 ? fl_span_from(value, value.len) : fl_span_from(value, (size_t)comma + 1);
    }
    return false;
}

static void take_field(struct fl_origin_request *rq, struct fl_span name, struct fl_span value)
{
    switch (name.len) {
    case 5:
        if (fl_span_ieq(name, FL_SPAN("range"))) {
            rq->range = value;
        }
        break;
    case 6:
        rq->expect_continue |=
            fl_span_ieq(name, FL_SPAN("expect")) && has_token(value, "100-continue");
        break;
    case 10:
        if (fl_span_ieq(name, FL_SPAN("connection"))) {
            rq->wants_close |= has_token(value, "close");
            rq->wants_keepalive |= has_token(value, "keep-alive");
        }
        break;
    case 13:
        rq->only_if_absent |= fl_span_ieq(name, FL_SPAN("if-none-match")) && fl_span_is(value, "*");
        break;
    case 14:
        if (fl_span_ieq(name, FL_SPAN("content-length")) && rq->body == FL_ORIGIN_BODY_NONE) {
            rq->left = parse_decimal(value);
            rq->body = FL_ORIGIN_BODY_LENGTH;
        }
        break;
    case 17:
        if (fl_span_ieq(name, FL_SPAN("transfer-encoding")) && has_token(value, "chunked")) {
            rq->body = FL_ORIGIN_BODY_CHUNKED;
        } else if (fl_span_ieq(name, FL_SPAN("x-amz-copy-source"))) {
            rq->copy_source = value;
        }
        break;
    default:
        break;
    }
}

static bool take_start_line(struct fl_origin_request *rq, struct fl_span line)
{
    ptrdiff_t first = fl_span_find(line, ' ');
    if (first <= 0) {
        return false;
    }
    struct fl_span rest = fl_span_from(line, (size_t)first + 1);
    ptrdiff_t second = fl_span_find(rest, ' ');
    if (second <= 0) {
        return false;
    }
    struct fl_span version = fl_span_from(rest, (size_t)second + 1);
    if (version.len != 8 || !fl_span_starts(version, FL_SPAN("HTTP/1."))) {
        return false;
    }
    rq->method = fl_span_first(line, (size_t)first);
    rq->target = fl_span_first(rest, (size_t)second);
    rq->minor = version.ptr[7] - '0';
    ptrdiff_t mark = fl_span_find(rq->target, '?');
    rq->path = mark < 0 ? rq->target : fl_span_first(rq->target, (size_t)mark);
    rq->query = mark < 0 ? (struct fl_span){"", 0} : fl_span_from(rq->target, (size_t)mark + 1);
    return true;
}

static void reset(struct fl_origin_request *rq)
{
    struct fl_origin_buf head = rq->head, trailers = rq->trailers;
    head.len = trailers.len = 0;
    *rq = (struct fl_origin_request){.head = head, .trailers = trailers, .minor = 1};
}

int fl_origin_request_head(struct fl_origin_request *rq, struct fl_span in, size_t *ret_used)
{
    size_t skip = 0;
    while (skip + 1 < in.len && in.ptr[skip] == '\r' && in.ptr[skip + 1] == '\n') {
        skip += 2;
    }
    struct fl_span raw = fl_span_from(in, skip);
    const char *end = memmem(raw.ptr, raw.len, "\r\n\r\n", 4);
    if (!end) {
        return raw.len > FL_ORIGIN_HEAD_MAX ? -1 : 0;
    }
    reset(rq);
    size_t len = (size_t)(end - raw.ptr) + 4;
    fl_origin_buf_add(&rq->head, raw.ptr, len);
    *ret_used = skip + len;
    struct fl_span rest = {rq->head.base, len - 2};
    bool start = true;
    while (rest.len) {
        const char *eol = memmem(rest.ptr, rest.len, "\r\n", 2);
        struct fl_span line = {rest.ptr, eol ? (size_t)(eol - rest.ptr) : rest.len};
        rest = fl_span_from(rest, line.len + 2);
        ptrdiff_t colon = fl_span_find(line, ':');
        if (start) {
            if (!take_start_line(rq, line)) {
                return -1;
            }
            start = false;
        } else if (colon < 0) {
            return -1;
        } else {
            take_field(rq, fl_span_first(line, (size_t)colon),
                       fl_span_trim(fl_span_from(line, (size_t)colon + 1)));
        }
    }
    rq->body_done =
        rq->body == FL_ORIGIN_BODY_NONE || (rq->body == FL_ORIGIN_BODY_LENGTH && rq->left == 0);
    return 1;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = fl_ascii_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One byte of chunk framing; false when it is broken. */
static bool chunk_byte(struct fl_origin_request *rq, char c)
{
    switch (rq->chunk) {
    case FL_ORIGIN_CHUNK_SIZE:
        if (hex_value(c) >= 0) {
            rq->left = rq->left * 16 + (uint64_t)hex_value(c);
            return rq->left < (uint64_t)1 << 60;
        }
        rq->chunk = FL_ORIGIN_CHUNK_EXT;
        return c == ';' || c == '\r' || c == ' ';
    case FL_ORIGIN_CHUNK_EXT:
        if (c == '\n') {
            rq->chunk = rq->left ? FL_ORIGIN_CHUNK_DATA : FL_ORIGIN_CHUNK_TRAILER;
            rq->line_len = 0;
        }
        return true;
    case FL_ORIGIN_CHUNK_DATA_END:
        if (c == '\n') {
            rq->chunk = FL_ORIGIN_CHUNK_SIZE;
            rq->left = 0;
            return true;
        }
        return c == '\r';
    case FL_ORIGIN_CHUNK_TRAILER:
        if (c == '\n' && rq->line_len == 0) {
            rq->body_done = true;
            rq->trailers.len -=
                rq->trailers.len && rq->trailers.base[rq->trailers.len - 1] == '\r' ? 1 : 0;
            return true;
        }
        rq->line_len = c == '\n' ? 0 : rq->line_len + (c == '\r' ? 0 : 1);
        fl_origin_buf_add(&rq->trailers, &c, 1);
        return rq->trailers.len < FL_ORIGIN_HEAD_MAX;
    case FL_ORIGIN_CHUNK_DATA:
        break;
    }
    return false;
}

ssize_t fl_origin_request_body(struct fl_origin_request *rq, struct fl_span in,
                               struct fl_span *ret_data)
{
    *ret_data = (struct fl_span){in.ptr, 0};
    if (rq->body_done || !in.len) {
        return 0;
    }
    size_t used = 0;
    if (rq->body == FL_ORIGIN_BODY_CHUNKED) {
        while (used < in.len && rq->chunk != FL_ORIGIN_CHUNK_DATA && !rq->body_done) {
            if (!chunk_byte(rq, in.ptr[used++])) {
                return -1;
            }
        }
        if (rq->chunk != FL_ORIGIN_CHUNK_DATA) {
            return (ssize_t)used;
        }
    }
    size_t n = in.len - used < rq->left ? in.len - used : (size_t)rq->left;
    *ret_data = (struct fl_span){in.ptr + used, n};
    rq->left -= n;
    rq->body_bytes += n;
    if (rq->left == 0 && rq->body == FL_ORIGIN_BODY_CHUNKED) {
        rq->chunk = FL_ORIGIN_CHUNK_DATA_END;
    } else if (rq->left == 0) {
        rq->body_done = true;
    }
    return (ssize_t)(used + n);
}

void fl_origin_request_done(struct fl_origin_request *rq)
{
    fl_origin_buf_done(&rq->head);
    fl_origin_buf_done(&rq->trailers);
}
