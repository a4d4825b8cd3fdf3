/* A message body: the first byte picks the framing, the next two the Content-Length, the fourth the
 * trailer limit. Whole and in pieces it must come to the same bytes, trailers, end and error; and
 * what was decoded, encoded again, decodes to the same. */
#include "common/http1/body_frame.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bytes {
    char *p;
    size_t len;
};

struct outcome {
    struct bytes body, trailers; /* trailers: each line with CRLF */
    size_t used;
    enum fl_body_piece last;
    struct fl_body_frame frame;
};

static void append(struct bytes *b, const char *p, size_t len)
{
    memcpy(b->p + b->len, p, len);
    b->len += len;
}

/* One call with the bytes in memory of their own. */
static enum fl_body_piece next(struct outcome *o, const char *in, size_t have, size_t *used)
{
    struct fl_span data;
    char *exact = malloc(have ? have : 1);
    FL_MUST(exact != NULL);
    memcpy(exact, in, have);
    enum fl_body_piece piece = fl_body_frame_next(&o->frame, exact, have, used, &data);
    FL_MUST(*used <= have);
    FL_MUST(data.len == 0 || (data.ptr >= exact && data.ptr + data.len <= exact + *used));
    FL_MUST(data.len == 0 || piece == FL_BODY_DATA || piece == FL_BODY_TRAILER);
    if (piece == FL_BODY_DATA) {
        FL_MUST(data.len > 0);
        append(&o->body, data.ptr, data.len);
    } else if (piece == FL_BODY_TRAILER) {
        append(&o->trailers, data.ptr, data.len);
        append(&o->trailers, "\r\n", 2);
    }
    free(exact);
    return piece;
}

static struct outcome run(struct fl_body_frame frame, const char *in, size_t len, size_t step)
{
    struct outcome o = {
        .frame = frame, .body = {malloc(len + 1), 0}, .trailers = {malloc(2 * len + 2), 0}};
    FL_MUST(o.body.p != NULL && o.trailers.p != NULL);
    for (size_t have = 0;;) {
        size_t used;
        o.last = next(&o, in + o.used, have, &used);
        o.used += used;
        have -= used;
        if (o.last == FL_BODY_END || o.last == FL_BODY_ERROR) {
            break;
        }
        if (o.last == FL_BODY_MORE) {
            FL_MUST(have < FL_BODY_TRAILER_LINE_MAX); /* what a caller has to keep is bounded */
            if (o.used + have == len) {
                break;
            }
            have = o.used + have + step < len ? have + step : len - o.used;
        }
    }
    FL_MUST((o.last == FL_BODY_ERROR) == (o.frame.error != FL_HTTP_ERR_NONE));
    FL_MUST(o.last != FL_BODY_END || fl_body_frame_ended(&o.frame));
    FL_MUST(o.last != FL_BODY_ERROR || !fl_body_frame_eof(&o.frame));
    return o;
}

static void done(struct outcome *o)
{
    free(o->body.p);
    free(o->trailers.p);
}

static void same(const struct bytes *a, const struct bytes *b)
{
    FL_MUST(a->len == b->len && memcmp(a->p, b->p, a->len) == 0);
}

/* Encodes what was decoded, in chunks of some size, with its trailers. */
static void round_trip(const struct outcome *o, size_t chunk)
{
    size_t cap = o->body.len * (FL_CHUNK_HEAD_BYTES + 3) + o->trailers.len + 16;
    struct bytes wire = {malloc(cap), 0};
    FL_MUST(wire.p != NULL);
    for (size_t at = 0; at < o->body.len; at += chunk) {
        size_t n = o->body.len - at < chunk ? o->body.len - at : chunk;
        char head[FL_CHUNK_HEAD_BYTES];
        append(&wire, head, fl_chunk_head(head, n));
        append(&wire, o->body.p + at, n);
        append(&wire, "\r\n", 2);
    }
    append(&wire, "0\r\n", 3);
    append(&wire, o->trailers.p, o->trailers.len);
    append(&wire, "\r\n", 2);
    FL_MUST(wire.len <= cap);
    struct fl_body_frame f;
    fl_body_frame_init(&f, FL_FRAMING_CHUNKED, 0, UINT32_MAX);
    struct outcome again = run(f, wire.p, wire.len, wire.len);
    FL_MUST(again.last == FL_BODY_END && again.used == wire.len);
    same(&again.body, &o->body);
    same(&again.trailers, &o->trailers);
    done(&again);
    free(wire.p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4) {
        return 0;
    }
    struct fl_body_frame f;
    uint64_t length = (uint64_t)data[1] << 8 | data[2];
    fl_body_frame_init(&f, (enum fl_http_framing)(data[0] % 4), length, data[3] * 64u);
    const char *in = (const char *)data + 4;
    size_t len = size - 4;
    struct outcome whole = run(f, in, len, len ? len : 1);
    for (size_t step = 1; step < 60; step = step * 3 + 1) {
        struct outcome parts = run(f, in, len, step);
        FL_MUST(parts.last == whole.last && parts.used == whole.used);
        FL_MUST(parts.frame.error == whole.frame.error);
        FL_MUST(fl_body_frame_eof(&parts.frame) == fl_body_frame_eof(&whole.frame));
        same(&parts.body, &whole.body);
        same(&parts.trailers, &whole.trailers);
        done(&parts);
    }
    if (whole.last == FL_BODY_END) {
        round_trip(&whole, 1 + data[3] % 31u);
    }
    done(&whole);
    return 0;
}
