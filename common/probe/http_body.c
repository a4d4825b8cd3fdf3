#include "common/probe/http_body.h"

#include <stdlib.h>
#include <string.h>

void fl_http_body_begin(struct fl_http_body *b, const struct fl_response_head *head, size_t keep,
                        size_t drain)
{
    b->exact = head->framing == FL_FRAMING_LENGTH;
    b->keep_most = b->exact && head->content_length < keep ? (size_t)head->content_length : keep;
    b->read_most = keep > drain ? keep : drain;
    fl_body_frame_init(&b->frame, head->framing, head->content_length, FL_HTTP_HEAD_MAX);
}

void fl_http_body_done(struct fl_http_body *b)
{
    free(b->bytes);
    b->bytes = NULL;
}

static bool reserve(struct fl_http_body *b, size_t n)
{
    size_t want = b->kept + n, cap = b->exact ? b->keep_most : 2 * b->cap;
    if (want <= b->cap) {
        return true;
    }
    cap = cap < want ? want : cap < b->keep_most ? cap : b->keep_most;
    char *more = realloc(b->bytes, cap);
    if (more != NULL) {
        b->bytes = more;
        b->cap = cap;
    }
    return more != NULL;
}

static bool keep(struct fl_http_body *b, struct fl_span data)
{
    size_t n = b->keep_most - b->kept;
    n = data.len < n ? data.len : n;
    if (!reserve(b, n)) {
        return false;
    }
    if (n != 0) {
        memcpy(b->bytes + b->kept, data.ptr, n);
    }
    b->kept += n;
    b->came += data.len;
    return true;
}

enum fl_http_body_end fl_http_body_take(struct fl_http_body *b, struct fl_span in, size_t *ret_used)
{
    size_t at = 0;
    enum fl_http_body_end end = FL_HTTP_BODY_GOES_ON;
    for (bool more = true; more && end == FL_HTTP_BODY_GOES_ON;) {
        size_t used = 0;
        struct fl_span data;
        switch (fl_body_frame_next(&b->frame, in.ptr + at, in.len - at, &used, &data)) {
        case FL_BODY_DATA:
            end = keep(b, data) ? end : FL_HTTP_BODY_NO_MEMORY;
            break;
        case FL_BODY_TRAILER:
            break;
        case FL_BODY_END:
            end = FL_HTTP_BODY_ENDED;
            break;
        case FL_BODY_MORE:
            more = false;
            break;
        case FL_BODY_ERROR:
            end = FL_HTTP_BODY_BROKEN;
            break;
        }
        at += used;
        end = end == FL_HTTP_BODY_GOES_ON && b->came > b->read_most ? FL_HTTP_BODY_BROKEN : end;
    }
    *ret_used = at;
    return end;
}

bool fl_http_body_eof(const struct fl_http_body *b)
{
    return fl_body_frame_eof(&b->frame);
}

struct fl_span fl_http_body_kept(const struct fl_http_body *b)
{
    return (struct fl_span){b->kept > 0 ? b->bytes : "", b->kept};
}
