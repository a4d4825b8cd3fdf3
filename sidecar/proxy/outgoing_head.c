#include "sidecar/proxy/outgoing_head.h"

#include <string.h>

#include "common/base/fmt.h"
#include "common/http1/head_write.h"
#include "common/http1/headers.h"
#include "sidecar/proxy/buffer.h"
#include "sidecar/proxy/exchange.h"
#include "sidecar/proxy/upstream.h"
#include "sidecar/proxy/worker.h"

enum { LINE_ROOM = 64 }; /* what a rewritten request line may be longer by */

/* Our own lines at the end of the request head, and the empty line. */
static size_t print_own_lines(const struct fl_exchange *x, char *to, size_t room)
{
    const struct fl_request_head *q = &x->request;
    struct fl_fmt f = fl_fmt_of(to, room);
    if (!fl_exchange_has(x, FL_HTTP_X_REQUEST_ID)) { /* made here: clean */
        fl_fmt_span(&f, FL_SPAN("x-request-id: "));
        fl_fmt_text(&f, x->request_id);
        fl_fmt_span(&f, FL_SPAN("\r\n"));
    }
    if (q->framing == FL_FRAMING_CHUNKED) {
        fl_fmt_text(&f, "Transfer-Encoding: chunked\r\n");
    }
    if (x->own_expect) {
        fl_fmt_text(&f, "Expect: 100-continue\r\n");
    }
    if (q->rewrite_length) {
        fl_head_write_uint(&f, "Content-Length", q->content_length);
    }
    if (q->max_forwards > 0) {
        fl_head_write_uint(&f, "Max-Forwards", (uint64_t)q->max_forwards - 1);
    }
    if (q->host_len == 0 && !fl_exchange_has(x, FL_HTTP_HOST)) {
        fl_head_write_field(&f, "Host",
                            fl_span_of(x->attempt.up->peer->address)); /* HTTP/1.0 without Host */
    }
    fl_fmt_text(&f, "\r\n");
    FL_MUST(!f.cut);
    return f.len;
}

/* An untouched head with nothing behind it in its buffer: our lines take the place of its final
 * empty line, and all of it leaves as one slice (send costs less than sendmsg). False: not so. */
static bool extend_in_place(struct fl_exchange *x, const struct fl_slice *kept)
{
    struct fl_buffer *b = x->head;
    uint32_t length = x->request.head.length;
    bool last = b->end == x->head_off + length;
    if (!last || kept->off + kept->len + 2 != length || fl_buffer_room(b) < sizeof x->own_lines) {
        return false;
    }
    char *head = b->bytes + x->head_off;
    size_t own = print_own_lines(x, head + length - 2, sizeof x->own_lines);
    fl_gather_add(&x->to_peer, head + kept->off, kept->len + own);
    return true;
}

/* The head as slices of what the client sent, minus hop-by-hop fields, plus our lines. False: no
 * buffer. */
bool fl_outgoing_head(struct fl_exchange *x)
{
    const struct fl_request_head *q = &x->request;
    const char *head = x->head->bytes + x->head_off;
    struct fl_slice slices[FL_GATHER_MAX - 2] FL_UNCLEARED;
    bool whole = !q->rewrite_line;
    int n = fl_head_slices(head, &q->head, FL_FIELD_HOP, whole, slices, FL_GATHER_MAX - 2);
    fl_gather_clear(&x->to_peer);
    if ((!whole || n < 0) && x->line == NULL) {
        enum fl_buffer_size size = fl_buffer_size_for(q->head.length + LINE_ROOM);
        x->line = fl_buffer_take(&x->worker->buffers, size, FL_BUFFER_FOR_ANSWER);
        if (x->line == NULL) {
            return false;
        }
        struct fl_fmt f = fl_fmt_of(x->line->bytes, x->line->cap);
        if (!whole) {
            fl_head_write_request_line(&f, head, q);
        }
        if (n < 0) {
            fl_head_copy(&f, head, &q->head, FL_FIELD_HOP, whole);
        }
        if (f.cut) {
            return false;
        }
        x->line->end = (uint32_t)f.len;
    }
    if (x->line != NULL) {
        fl_gather_add(&x->to_peer, x->line->bytes, x->line->end);
    }
    if (n == 1 && x->line == NULL && extend_in_place(x, &slices[0])) {
        return true;
    }
    size_t own = print_own_lines(x, x->own_lines, sizeof x->own_lines);
    for (int i = 0; i < n; i++) {
        fl_gather_add(&x->to_peer, head + slices[i].off, slices[i].len);
    }
    fl_gather_add(&x->to_peer, x->own_lines, own);
    return true;
}
