#include "sidecar/proxy/relay.h"

#include <errno.h>
#include <string.h>

#include "common/http1/head_write.h"
#include "common/http1/headers.h"
#include "common/io/sock.h"
#include "sidecar/proxy/exchange.h"
#include "sidecar/proxy/upstream.h"
#include "sidecar/proxy/worker.h"

enum {
    ROUNDS = 4,             /* reads of one run, then other connections have their turn */
    SPLICE_ROUNDS = 1,      /* the less often, the more is there at once */
    BODY_SLICES = 6,        /* chunk head, data, CRLF; last chunk, trailers, empty line */
    TLS_HELD_BYTES = 32768, /* more than the record that TLS has read the beginning of */
    STATUS_LINE_MAX = 120,  /* rewritten, reason included */
};

static bool keeps_client(const struct fl_exchange *x)
{
    return x->keep_alive && !x->worker->draining;
}

/* How the body goes out, from how it comes in and from what the client understands. */
static void choose_framing(struct fl_exchange *x)
{
    struct fl_relay *r = &x->relay;
    bool framed = r->framing == FL_FRAMING_NONE || r->framing == FL_FRAMING_LENGTH;
    r->chunked_out = !framed && x->request.minor >= 1;
    r->close_delimited = !framed && x->request.minor == 0;
    x->keep_alive = keeps_client(x) && x->body.complete && !r->close_delimited;
}

/* Our own lines of the response head; without the empty line. */
static void print_own_lines(struct fl_exchange *x, const struct fl_response_head *p,
                            struct fl_fmt *f)
{
    if (x->relay.chunked_out) {
        fl_fmt_text(f, "Transfer-Encoding: chunked\r\n");
    }
    if (p->rewrite_length) {
        fl_head_write_uint(f, "Content-Length", p->content_length);
    }
    if (!x->keep_alive) {
        fl_fmt_text(f, "Connection: close\r\n");
    } else if (x->request.minor == 0) {
        fl_fmt_text(f, "Connection: keep-alive\r\n");
    }
}

/* A head with more slices than the gather holds, or a long reason phrase, is copied once. */
static bool copy_head(struct fl_exchange *x, const char *bytes, const struct fl_response_head *p,
                      struct fl_span own)
{
    struct fl_relay *r = &x->relay;
    enum fl_buffer_size size = fl_buffer_size_for(p->head.length + STATUS_LINE_MAX);
    r->extra = fl_buffer_take(&x->worker->buffers, size, FL_BUFFER_FOR_ANSWER);
    if (r->extra == NULL) {
        return false;
    }
    struct fl_fmt f = fl_fmt_of(r->extra->bytes, r->extra->cap);
    if (p->rewrite_line) {
        fl_head_write_status_line(&f, bytes, p);
    }
    fl_head_copy(&f, bytes, &p->head, FL_FIELD_HOP, !p->rewrite_line);
    if (f.cut) {
        return false;
    }
    fl_gather_add(&x->to_client, r->extra->bytes, f.len);
    fl_gather_add(&x->to_client, own.ptr, own.len); /* not copied: the head may fill the buffer */
    fl_gather_add(&x->to_client, "\r\n", 2);
    return true;
}

/* Puts a response head (final or interim) into the empty gather. */
static bool add_head(struct fl_exchange *x, const char *bytes, const struct fl_response_head *p,
                     struct fl_span own)
{
    struct fl_relay *r = &x->relay;
    struct fl_slice slices[FL_GATHER_MAX - BODY_SLICES - 2] FL_UNCLEARED;
    fl_buffer_give(&x->worker->buffers, &r->extra); /* of the answer before, which has left */
    int n = p->rewrite_line ? -1
                            : fl_head_slices(bytes, &p->head, FL_FIELD_HOP, true, slices,
                                             FL_GATHER_MAX - BODY_SLICES - 2);
    if (n < 0) {
        return copy_head(x, bytes, p, own);
    }
    bool untouched = n == 1 && own.len == 0 && slices[0].off + slices[0].len + 2 == p->head.length;
    if (untouched) {
        fl_gather_add(&x->to_client, bytes + slices[0].off, slices[0].len + 2);
        return true;
    }
    for (int i = 0; i < n; i++) {
        fl_gather_add(&x->to_client, bytes + slices[i].off, slices[i].len);
    }
    fl_gather_add(&x->to_client, own.ptr, own.len);
    fl_gather_add(&x->to_client, "\r\n", 2);
    return true;
}

bool fl_relay_interim(struct fl_exchange *x, const char *bytes, const struct fl_response_head *head)
{
    FL_MUST(x->to_client.left == 0);
    fl_gather_clear(&x->to_client);
    if (!add_head(x, bytes, head, FL_SPAN(""))) {
        fl_gather_clear(&x->to_client);
        return false;
    }
    x->relay.client_progress_ms = fl_worker_now_ms(x->worker);
    (void)fl_relay_flush(x);
    return true;
}

void fl_relay_continue(struct fl_exchange *x)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (x->to_client.left == 0 && !x->own_expect) {
        fl_gather_clear(&x->to_client);
        fl_gather_add(&x->to_client, text, sizeof text - 1);
        x->relay.client_progress_ms = fl_worker_now_ms(x->worker);
        (void)fl_relay_flush(x);
    }
    x->continue_sent = x->continue_sent || !x->own_expect;
    x->expect_pending = false;
}

static void add_body(struct fl_exchange *x, const char *data, size_t n)
{
    struct fl_relay *r = &x->relay;
    if (n == 0) {
        return;
    }
    if (r->chunked_out) {
        fl_gather_add(&x->to_client, x->chunk_head, fl_chunk_head(x->chunk_head, n));
    }
    fl_gather_add(&x->to_client, data, n);
    if (r->chunked_out) {
        fl_gather_add(&x->to_client, "\r\n", 2);
    }
}

/* The end of a body that we frame chunked: last chunk, trailers, empty line. */
static void add_end(struct fl_exchange *x, struct fl_span trailers)
{
    struct fl_relay *r = &x->relay;
    r->complete = true;
    if (!r->chunked_out) {
        return;
    }
    fl_gather_add(&x->to_client, "0\r\n", 3);
    fl_gather_add(&x->to_client, trailers.ptr, trailers.len);
    fl_gather_add(&x->to_client, "\r\n", 2);
}

/* Trailer lines wait until the end of the body. Without a buffer they are left out, which RFC 9110
 * section 6.5.1 allows. */
static void keep_trailer(struct fl_exchange *x, struct fl_span line)
{
    struct fl_relay *r = &x->relay;
    if (r->trailers == NULL) {
        r->trailers = fl_buffer_take(&x->worker->buffers, FL_BUFFER_64K, FL_BUFFER_FOR_ANSWER);
    }
    if (r->trailers == NULL || fl_buffer_room(r->trailers) < line.len + 2) {
        return;
    }
    memcpy(r->trailers->bytes + r->trailers->end, line.ptr, line.len);
    memcpy(r->trailers->bytes + r->trailers->end + line.len, "\r\n", 2);
    r->trailers->end += (uint32_t)line.len + 2;
}

/* Chunked in: data is moved together at the front of the run and goes out as one chunk; what could
 * not be used (part of a trailer line) is remembered as the tail. */
static bool decode_chunked(struct fl_exchange *x, char *in, size_t len)
{
    struct fl_relay *r = &x->relay;
    size_t used = 0, data = 0;
    enum fl_body_piece kind = FL_BODY_MORE;
    do {
        size_t n = 0;
        struct fl_span piece;
        kind = fl_body_frame_next(&r->frame, in + used, len - used, &n, &piece);
        if (kind == FL_BODY_DATA) {
            memmove(in + data, piece.ptr, piece.len);
            data += piece.len;
        } else if (kind == FL_BODY_TRAILER && r->chunked_out) {
            keep_trailer(x, piece);
        }
        used += n;
    } while (kind == FL_BODY_DATA || kind == FL_BODY_TRAILER);
    add_body(x, in, data);
    if (kind == FL_BODY_ERROR) {
        return false;
    }
    if (kind == FL_BODY_END) {
        struct fl_span trailers = r->trailers != NULL
                                      ? (struct fl_span){r->trailers->bytes, r->trailers->end}
                                      : FL_SPAN("");
        add_end(x, trailers);
        r->upstream_reusable = r->upstream_reusable && used == len;
        return true;
    }
    r->tail_off = (uint32_t)(in + used - x->attempt.in->bytes);
    r->tail_len = (uint32_t)(len - used);
    return true;
}

/* Takes body bytes that were just read into the gather. False: broken framing. */
static bool take_body(struct fl_exchange *x, char *in, size_t len)
{
    struct fl_relay *r = &x->relay;
    switch (r->framing) {
    case FL_FRAMING_CHUNKED:
        return decode_chunked(x, in, len);
    case FL_FRAMING_UNTIL_CLOSE:
        add_body(x, in, len);
        return true;
    case FL_FRAMING_LENGTH:
    case FL_FRAMING_NONE:
        break;
    }
    uint64_t left = r->framing == FL_FRAMING_LENGTH ? fl_body_frame_remaining(&r->frame) : 0;
    size_t n = len < left ? len : (size_t)left;
    add_body(x, in, n);
    if (r->framing == FL_FRAMING_LENGTH) {
        fl_body_frame_skip(&r->frame, n);
    }
    r->complete = n == left;
    r->upstream_reusable =
        r->upstream_reusable && n == len; /* surplus bytes: never another answer */
    return true;
}

enum fl_relay_step fl_relay_begin(struct fl_exchange *x)
{
    struct fl_relay *r = &x->relay;
    struct fl_attempt *a = &x->attempt;
    const struct fl_response_head *p = x->worker->response;
    char *bytes = fl_buffer_at(a->in);
    r->status = p->status;
    r->framing = p->framing;
    r->upstream_reusable = p->keep_alive;
    fl_body_frame_init(&r->frame, p->framing, p->content_length,
                       (uint32_t)x->snapshot->config->header_limit_bytes);
    r->large = p->framing == FL_FRAMING_LENGTH && p->content_length >= FL_SPLICE_BODY_BYTES;
    choose_framing(x);
    struct fl_fmt own = fl_fmt_of(x->answer_lines, sizeof x->answer_lines);
    print_own_lines(x, p, &own);
    fl_gather_clear(&x->to_client);
    if (!add_head(x, bytes, p, (struct fl_span){x->answer_lines, own.len})) {
        return FL_RELAY_NO_MEMORY;
    }
    char *body = bytes + p->head.length;
    size_t have = (size_t)(a->in->bytes + a->in->end - body);
    r->upstream_progress_ms = fl_worker_now_ms(x->worker);
    r->broken = !take_body(x, body, have);
    return FL_RELAY_WAIT;
}

static void client_ended(struct fl_exchange *x)
{
    x->client_gone = true;
    fl_gather_clear(&x->to_client);
}

bool fl_relay_flush(struct fl_exchange *x)
{
    struct fl_relay *r = &x->relay;
    struct fl_client *c = x->client;
    if (x->to_client.left == 0) {
        return true;
    }
    if (!c->writable) {
        return false;
    }
    size_t asked = x->to_client.left;
    ssize_t n = fl_gather_send(&x->to_client, c->io.fd);
    if (n == -EAGAIN) {
        c->writable = false;
        return false;
    }
    if (n < 0) {
        client_ended(x);
        return false;
    }
    if ((size_t)n < asked) {
        c->writable = false;
    }
    r->sent_bytes += (uint64_t)n;
    r->client_progress_ms = fl_worker_now_ms(x->worker);
    return x->to_client.left == 0;
}

/* Marks the point of no return. True: everything prepared has left. */
static bool flush_response(struct fl_exchange *x)
{
    size_t before = x->to_client.left;
    bool all = fl_relay_flush(x);
    if (x->to_client.left < before && !x->released && !x->client_gone) {
        x->released = true;
        x->first_byte_us = fl_reactor_now_us(x->worker->reactor);
        fl_replay_unkeep(x);
    }
    return all;
}

/* What is in the pipe. True: all has left. */
static bool flush_pipe(struct fl_exchange *x)
{
    struct fl_client *c = x->client;
    if (x->spliced.bytes == 0) {
        return true;
    }
    if (!c->writable) {
        return false;
    }
    ssize_t n = fl_splice_out(x);
    if (n < 0 && n != -EAGAIN) {
        client_ended(x);
        return false;
    }
    c->writable = x->spliced.bytes == 0;
    if (n > 0) {
        x->relay.sent_bytes += (uint64_t)n;
        x->relay.client_progress_ms = fl_worker_now_ms(x->worker);
    }
    return x->spliced.bytes == 0;
}

/* Large for a large rest, unless its reader is slow: what it does not take stays here. */
static struct fl_buffer *take_buffer(struct fl_exchange *x, bool large)
{
    struct fl_buffers *pool = &x->worker->buffers;
    large = large && !fl_window_is_slow(&x->attempt.up->window);
    enum fl_buffer_size size = fl_buffers_fit(pool, large ? FL_BUFFER_64K : FL_BUFFER_16K);
    struct fl_buffer *b = fl_buffer_take(pool, size, FL_BUFFER_FOR_ANSWER);
    return b != NULL ? b : fl_buffer_take(pool, FL_BUFFER_4K, FL_BUFFER_FOR_ANSWER);
}

/* A buffer to read on into, with a cut trailer line at its front (any size holds one,
 * body_frame.h). False: none now. */
static bool ready_buffer(struct fl_exchange *x)
{
    struct fl_relay *r = &x->relay;
    struct fl_attempt *a = &x->attempt;
    bool large = r->framing != FL_FRAMING_LENGTH || fl_body_frame_remaining(&r->frame) > 16384;
    if (r->tail_len == 0 && large) { /* perhaps another size is right now */
        fl_buffer_give(&x->worker->buffers, &a->in);
    }
    if (a->in == NULL) {
        a->in = take_buffer(x, large);
    }
    if (a->in == NULL) {
        return false;
    }
    if (r->tail_len > 0) {
        memmove(a->in->bytes, a->in->bytes + r->tail_off, r->tail_len);
    }
    a->in->start = 0;
    a->in->end = r->tail_len;
    r->tail_off = 0;
    r->tail_len = 0;
    return true;
}

/* Nothing is in flight: the buffer goes back, so that the next connection works in the same warm
 * memory. */
static void rest(struct fl_exchange *x)
{
    fl_splice_rest(x);
    fl_buffer_give(&x->worker->buffers, &x->relay.extra);
    if (x->relay.tail_len == 0) {
        fl_buffer_give(&x->worker->buffers, &x->attempt.in);
    }
}

static enum fl_relay_step upstream_ended(struct fl_exchange *x, ssize_t n)
{
    struct fl_relay *r = &x->relay;
    r->eof = true;
    r->upstream_reusable = false;
    if (n < 0 || !fl_body_frame_eof(&r->frame)) {
        x->attempt.os_errno = (int)-n;
        return FL_RELAY_TRUNCATED;
    }
    add_end(x, FL_SPAN(""));
    return FL_RELAY_WAIT;
}

static void came(struct fl_exchange *x, ssize_t n)
{
    x->relay.upstream_progress_ms = fl_worker_now_ms(x->worker);
    fl_patience_came(&x->attempt.up->patience, x->relay.upstream_progress_ms, (size_t)n);
}

static enum fl_relay_step splice_more(struct fl_exchange *x)
{
    struct fl_relay *r = &x->relay;
    ssize_t n = fl_splice_in(x);
    if (n == -EAGAIN) {
        return FL_RELAY_WAIT;
    }
    if (n <= 0) {
        return upstream_ended(x, n);
    }
    came(x, n);
    r->complete = fl_body_frame_remaining(&r->frame) == 0;
    return FL_RELAY_WAIT;
}

static enum fl_relay_step read_more(struct fl_exchange *x)
{
    struct fl_relay *r = &x->relay;
    struct fl_attempt *a = &x->attempt;
    if (fl_splice_ready(x)) {
        return splice_more(x);
    }
    if (!ready_buffer(x)) {
        fl_exchange_starve(x);
        return FL_RELAY_NO_MEMORY;
    }
    if (fl_buffer_room(a->in) == 0) {
        return FL_RELAY_TRUNCATED; /* a trailer line longer than the buffer */
    }
    size_t room = fl_buffer_read_size(a->in);
    ssize_t n = fl_upstream_recv(a->up, a->in->bytes + a->in->end, room);
    if (n == -EAGAIN) {
        r->tail_len = a->in->end;
        return FL_RELAY_WAIT;
    }
    if (n <= 0) {
        return upstream_ended(x, n);
    }
    a->in->end += (uint32_t)n;
    came(x, n);
    return take_body(x, a->in->bytes, a->in->end) ? FL_RELAY_WAIT : FL_RELAY_TRUNCATED;
}

/* Everything has left. For more of a large body that comes fast, and goes as fast, we let the
 * kernel gather: see patience.h. */
static void wait_for_more(struct fl_exchange *x)
{
    const struct fl_relay *r = &x->relay;
    struct fl_upstream *up = x->attempt.up;
    rest(x);
    if (up->readable) {
        fl_exchange_again(x);
        return;
    }
    int bytes = 0;
    if (r->large && up->window.state == FL_WINDOW_WIDE) {
        bytes = fl_patience_for(&up->patience, fl_body_frame_remaining(&r->frame),
                                up->tls != NULL ? TLS_HELD_BYTES : 0,
                                x->worker->wide_grows ? FL_PATIENCE_BYTES : FL_PATIENCE_FEW_BYTES);
    }
    fl_upstream_wake_at(up, bytes);
}

void fl_relay_hurry(struct fl_exchange *x)
{
    fl_upstream_lose_patience(x->attempt.up);
}

enum fl_relay_step fl_relay_run(struct fl_exchange *x)
{
    struct fl_relay *r = &x->relay;
    if (!x->attempt.fully_sent && fl_attempt_upload(x) == FL_ATTEMPT_FAILED) {
        return FL_RELAY_CLIENT_GONE; /* or it broke its framing: nothing more to do for it */
    }
    for (unsigned i = 0;; i++) {
        size_t asked = fl_exchange_unsent(x);
        bool all = flush_response(x) && flush_pipe(x);
        fl_window_moved(x->worker, &x->attempt.up->window, x->attempt.up->io.fd, asked,
                        fl_exchange_unsent(x));
        if (!all) {
            return x->client_gone ? FL_RELAY_CLIENT_GONE : FL_RELAY_WAIT;
        }
        if (r->complete) {
            return FL_RELAY_DONE;
        }
        if (r->broken) {
            return FL_RELAY_TRUNCATED;
        }
        if (!x->attempt.up->readable || i >= (x->spliced.held ? SPLICE_ROUNDS : ROUNDS)) {
            wait_for_more(x);
            return FL_RELAY_WAIT;
        }
        enum fl_relay_step step = read_more(x);
        if (step == FL_RELAY_NO_MEMORY) {
            return FL_RELAY_WAIT;
        }
        r->broken = r->broken || step == FL_RELAY_TRUNCATED; /* what came before goes out first */
    }
}
