#include "tests/fuzz/sidecar/proxy/stream.h"

void stream_add(struct stream *s, const char *bytes, size_t n)
{
    if (!s->broken) {
        blob_add(&s->in, bytes, n);
    }
}

static enum stream_step broken(struct stream *s)
{
    s->broken = true;
    s->in.len = 0;
    return STREAM_BROKEN;
}

static enum stream_step read_body(struct stream *s)
{
    for (;;) {
        size_t used = 0;
        struct fl_span data;
        enum fl_body_piece kind =
            fl_body_frame_next(&s->frame, s->in.bytes, s->in.len, &used, &data);
        blob_drop(&s->in, used);
        if (kind == FL_BODY_ERROR) {
            return broken(s);
        }
        if (kind == FL_BODY_END) {
            s->in_body = false;
            s->whole++;
            return STREAM_WHOLE;
        }
        if (kind == FL_BODY_MORE) {
            return STREAM_MORE;
        }
    }
}

static void note_id(struct stream *s)
{
    struct fl_span id = fl_headers_get(s->in.bytes, &s->head.request.head, FL_HTTP_X_REQUEST_ID);
    size_t n = id.len < sizeof s->id ? id.len : 0;
    memcpy(s->id, n > 0 ? id.ptr : "", n);
    s->id[n] = '\0';
}

enum stream_step stream_request(struct stream *s)
{
    if (s->broken || s->in_body) {
        return s->broken ? STREAM_MORE : read_body(s);
    }
    ptrdiff_t end = s->in.len > 0 ? fl_head_end(s->in.bytes, s->in.len, &s->scan) : 0;
    if (end < 0) {
        return broken(s);
    }
    if (end == 0) {
        return STREAM_MORE;
    }
    if (fl_request_parse(s->in.bytes, (size_t)end, &s->head.request) != FL_HTTP_ERR_NONE) {
        return broken(s);
    }
    note_id(s);
    fl_body_frame_init(&s->frame, s->head.request.framing, s->head.request.content_length, 65536);
    blob_drop(&s->in, (size_t)end);
    s->scan = 0;
    s->in_body = true;
    return STREAM_HEAD;
}

enum stream_step stream_response(struct stream *s, enum fl_http_method method)
{
    if (s->broken || s->in_body) {
        return s->broken ? STREAM_MORE : read_body(s);
    }
    ptrdiff_t end = s->in.len > 0 ? fl_head_end(s->in.bytes, s->in.len, &s->scan) : 0;
    if (end < 0) {
        return broken(s);
    }
    if (end == 0) {
        return STREAM_MORE;
    }
    if (fl_response_parse(s->in.bytes, (size_t)end, method, &s->head.response) !=
        FL_HTTP_ERR_NONE) {
        return broken(s);
    }
    fl_body_frame_init(&s->frame, s->head.response.framing, s->head.response.content_length, 65536);
    s->scan = 0;
    if (s->head.response.status < 200) {
        blob_drop(&s->in, (size_t)end);
        return STREAM_INTERIM;
    }
    s->in_body = true;
    struct fl_http_head *h = &s->head.response.head;
    const struct fl_http_field *f = fl_headers_find_name(s->in.bytes, h, FL_SPAN("x-for"));
    struct fl_span id = f != NULL ? fl_headers_value(s->in.bytes, f) : FL_SPAN("");
    size_t n = id.len < sizeof s->id ? id.len : 0;
    memcpy(s->id, n > 0 ? id.ptr : "", n);
    s->id[n] = '\0';
    blob_drop(&s->in, (size_t)end);
    return STREAM_HEAD;
}

void stream_done(struct stream *s)
{
    blob_done(&s->in);
}
