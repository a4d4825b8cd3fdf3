#include "sidecar/proxy/incoming_head.h"

#include <string.h>

static bool may_try_at_once(const struct fl_buffer *in)
{
    return in->scan == 0 && fl_buffer_room(in) >= FL_HTTP_STOP_BYTES;
}

size_t fl_incoming_request(struct fl_buffer *in, struct fl_request_head *ret)
{
    return may_try_at_once(in) ? fl_request_parse_at_once(fl_buffer_at(in), fl_buffer_len(in), ret)
                               : 0;
}

size_t fl_incoming_response(struct fl_buffer *in, enum fl_http_method request_method,
                            struct fl_response_head *ret)
{
    return may_try_at_once(in)
               ? fl_response_parse_at_once(fl_buffer_at(in), fl_buffer_len(in), request_method, ret)
               : 0;
}

ptrdiff_t fl_incoming_head_end(struct fl_buffer *in)
{
    size_t scan = in->scan;
    ptrdiff_t end = fl_head_end(fl_buffer_at(in), fl_buffer_len(in), &scan);
    in->scan = end == 0 ? (uint32_t)scan : 0;
    return end;
}

static void move_to_front(struct fl_buffer *in)
{
    memmove(in->bytes, fl_buffer_at(in), fl_buffer_len(in));
    in->end -= in->start;
    in->start = 0;
}

bool fl_incoming_head_room(struct fl_buffers *pool, struct fl_buffer **in,
                           enum fl_buffer_size first, enum fl_buffer_use use)
{
    struct fl_buffer *old = *in;
    if (old != NULL && fl_buffer_room(old) > 0) {
        return true;
    }
    if (old != NULL && old->start > 0) {
        move_to_front(old);
        return true;
    }
    enum fl_buffer_size size = old == NULL                 ? first
                               : old->size == FL_BUFFER_4K ? FL_BUFFER_16K
                                                           : FL_BUFFER_64K;
    struct fl_buffer *larger = fl_buffer_take(pool, size, use);
    if (larger == NULL) {
        return false;
    }
    if (old != NULL) {
        memcpy(larger->bytes, old->bytes, old->end);
        larger->end = old->end;
        larger->scan = old->scan;
        fl_buffer_give(pool, in);
    }
    *in = larger;
    return true;
}
