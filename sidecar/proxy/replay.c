#include "sidecar/proxy/replay.h"

#include <errno.h>
#include <string.h>

#include "common/base/fmt.h"
#include "common/http1/headers.h"
#include "common/io/sock.h"
#include "sidecar/proxy/exchange.h"
#include "sidecar/proxy/upstream.h"
#include "sidecar/proxy/worker.h"

enum {
    WINDOW = 65536,    /* unsent bytes of a body that is not kept; reading pauses beyond */
    FRAMING_ROOM = 40, /* chunk head, CRLF, last chunk, CRLF around one decoded run */
};
_Static_assert(FL_BODY_TRAILER_LINE_MAX + FRAMING_ROOM < 4096,
               "what the smallest buffer has read, another such can take decoded");

static uint64_t kept_limit(const struct fl_exchange *x)
{
    return x->policy != NULL ? x->policy->conf->replay_body_bytes : 0;
}

/* Takes n bytes of this thread's share of replay_memory. */
static bool reserve(struct fl_exchange *x, uint64_t n)
{
    struct fl_worker *w = x->worker;
    uint64_t used = atomic_load_explicit(&w->replay_bytes, memory_order_relaxed);
    if (used + n > w->replay_limit_bytes) {
        return false;
    }
    atomic_store_explicit(&w->replay_bytes, used + n, memory_order_relaxed);
    x->body.reserved_bytes += n;
    return true;
}

static void unreserve(struct fl_exchange *x)
{
    fl_tally_add(&x->worker->replay_bytes, (uint64_t)0 - x->body.reserved_bytes);
    x->body.reserved_bytes = 0;
}

static void count_unbuffered(struct fl_exchange *x)
{
    if (!x->body.counted && x->policy != NULL) {
        fl_tally_add(&x->policy->tally->lines[x->worker->index].unbuffered_bodies, 1);
    }
    x->body.counted = true;
}

/* Sent nodes are given back, all of them: while nothing is on its way a body holds no memory, and
 * the next read gets the same warm node again. */
static void drop_sent(struct fl_exchange *x)
{
    struct fl_replay *r = &x->body;
    while (r->first != r->at) {
        struct fl_buffer *gone = r->first;
        r->first = gone->next;
        fl_buffer_give(&x->worker->buffers, &gone);
    }
    if (r->first == NULL) {
        r->last = NULL;
        r->at_off = 0;
    }
}

/* A node that was taken for a read which then brought nothing. */
static void drop_empty(struct fl_exchange *x)
{
    struct fl_replay *r = &x->body;
    if (r->first != NULL && r->first == r->last && r->first->end == 0) {
        fl_buffer_give(&x->worker->buffers, &r->first);
        r->last = r->at = NULL;
        r->at_off = 0;
    }
}

void fl_replay_unkeep(struct fl_exchange *x)
{
    if (!x->body.kept) {
        return;
    }
    x->body.kept = false;
    unreserve(x);
    drop_sent(x);
}

bool fl_replay_forgo(struct fl_exchange *x)
{
    bool forgoes = x->body.kept && x->body.sent_bytes > 0;
    if (forgoes) {
        count_unbuffered(x);
        fl_replay_unkeep(x);
    }
    return forgoes;
}

/* How much to take at once: little for a backend that is slow, or while memory is scarce. */
static enum fl_buffer_size step_of(const struct fl_exchange *x)
{
    bool slow = fl_window_is_slow(&x->client->window);
    return fl_buffers_fit(&x->worker->buffers, slow ? FL_BUFFER_16K : FL_BUFFER_64K);
}

/* What goes on at once, because the backend has taken all there was, comes before what would wait
 * here: hung uploads cannot take the memory that moving ones need. */
static enum fl_buffer_use use_of(const struct fl_exchange *x)
{
    bool goes_on = x->attempt.up != NULL && x->attempt.up->writable && x->body.unsent_bytes == 0;
    return goes_on ? FL_BUFFER_FOR_ANSWER : FL_BUFFER_FOR_BODY;
}

/* A buffer for the body. Where there is none, the second try is given up before the first waits. */
static struct fl_buffer *take(struct fl_exchange *x, enum fl_buffer_size size, size_t with_it)
{
    struct fl_buffers *pool = &x->worker->buffers;
    size_t cost = fl_buffer_bytes(size) + with_it;
    bool fits = fl_buffers_allow(pool, cost, use_of(x)) ||
                (fl_replay_forgo(x) && fl_buffers_allow(pool, cost, use_of(x)));
    return fits ? fl_buffer_take(pool, size, use_of(x)) : NULL;
}

/* A chain node with room, or NULL: no buffer now. */
static struct fl_buffer *tail(struct fl_exchange *x, size_t room, uint64_t expected)
{
    struct fl_replay *r = &x->body;
    if (r->last != NULL && fl_buffer_room(r->last) >= room) {
        return r->last;
    }
    enum fl_buffer_size size = fl_buffer_size_for(expected < WINDOW ? (size_t)expected : WINDOW);
    enum fl_buffer_size least = fl_buffer_size_for(room), step = step_of(x);
    size = size < step ? size : step;
    struct fl_buffer *b = take(x, size > least ? size : least, 0);
    if (b == NULL && size > least) {
        b = take(x, least, 0);
    }
    if (b == NULL) {
        return NULL;
    }
    if (r->last != NULL) {
        r->last->next = b;
    } else {
        r->first = b;
    }
    r->last = b;
    return b;
}

/* n bytes were put at the end of the last node. */
static void appended(struct fl_exchange *x, size_t n)
{
    struct fl_replay *r = &x->body;
    if (r->at == NULL) {
        r->at = r->last;
        r->at_off = r->last->end;
    }
    r->last->end += (uint32_t)n;
    r->unsent_bytes += n;
    if (r->kept && r->chunked) {
        bool fits = r->sent_bytes + r->unsent_bytes <= kept_limit(x) && reserve(x, n);
        if (!fits) {
            count_unbuffered(x);
            fl_replay_unkeep(x);
        }
    }
}

static void put(struct fl_exchange *x, const char *bytes, size_t n)
{
    struct fl_buffer *b = x->body.last;
    FL_MUST(b != NULL && fl_buffer_room(b) >= n);
    memcpy(b->bytes + b->end, bytes, n);
    appended(x, n);
}

static void put_chunk(struct fl_exchange *x, const char *data, size_t n)
{
    if (n > 0) {
        char head[FL_CHUNK_HEAD_BYTES];
        put(x, head, fl_chunk_head(head, n));
        put(x, data, n);
        put(x, "\r\n", 2);
        x->body.body_bytes += n;
    }
}

static void put_trailer(struct fl_exchange *x, struct fl_span line)
{
    struct fl_span name = fl_span_first(line, (size_t)fl_span_find(line, ':'));
    const char *head = x->head->bytes + x->head_off;
    if (!fl_headers_connection_names(head, &x->request.head, name)) {
        put(x, line.ptr, line.len);
        put(x, "\r\n", 2);
    }
}

/* Decodes chunked bytes at `in` (data is moved together at its front) and appends them in our
 * framing. The last node has len + FRAMING_ROOM bytes of room. Returns the bytes used, or -1:
 * malformed. */
static ptrdiff_t decode(struct fl_exchange *x, char *in, size_t len)
{
    struct fl_replay *r = &x->body;
    size_t used = 0, data = 0;
    for (;;) {
        size_t n = 0;
        struct fl_span piece;
        enum fl_body_piece kind = fl_body_frame_next(&r->frame, in + used, len - used, &n, &piece);
        if (kind == FL_BODY_DATA) {
            memmove(in + data, piece.ptr, piece.len);
            data += piece.len;
        }
        if (kind == FL_BODY_TRAILER || kind == FL_BODY_END) {
            put_chunk(x, in, data);
            data = 0;
            if (!r->trailers_begun) {
                put(x, "0\r\n", 3);
            }
            r->trailers_begun = true;
        }
        if (kind == FL_BODY_TRAILER) {
            put_trailer(x, piece);
        }
        used += n;
        if (kind == FL_BODY_END) {
            put(x, "\r\n", 2);
            r->complete = true;
            return (ptrdiff_t)used;
        }
        if (kind == FL_BODY_MORE) {
            put_chunk(x, in, data);
            return (ptrdiff_t)used;
        }
        if (kind == FL_BODY_ERROR) {
            return -1;
        }
    }
}

/* What a chunked read could not use (part of a trailer line) waits in raw. */
static bool keep_raw(struct fl_exchange *x, const char *rest, size_t n)
{
    struct fl_replay *r = &x->body;
    if (n > 0 && r->raw == NULL) {
        r->raw = fl_buffer_take(&x->worker->buffers, FL_BUFFER_16K, FL_BUFFER_FOR_ANSWER);
    }
    if (n > 0 && (r->raw == NULL || n > r->raw->cap)) {
        return false;
    }
    if (r->raw != NULL) {
        memmove(r->raw->bytes, rest, n);
        r->raw->end = (uint32_t)n;
    }
    return true;
}

static enum fl_replay_read begin_chunked(struct fl_exchange *x, uint32_t start, size_t avail,
                                         uint32_t *ret_next_off)
{
    struct fl_replay *r = &x->body;
    r->chunked = true;
    r->kept = kept_limit(x) > 0;
    *ret_next_off = start;
    if (avail == 0) {
        return FL_REPLAY_MORE;
    }
    if (tail(x, avail + FRAMING_ROOM, avail + FRAMING_ROOM) == NULL) {
        return FL_REPLAY_PAUSED;
    }
    char *in = x->head->bytes + start;
    ptrdiff_t used = decode(x, in, avail);
    if (used < 0) {
        return FL_REPLAY_BAD;
    }
    *ret_next_off = start + (uint32_t)used;
    if (r->complete) {
        return FL_REPLAY_COMPLETE;
    }
    if (!keep_raw(x, in + used, avail - (size_t)used)) {
        return FL_REPLAY_PAUSED;
    }
    *ret_next_off = x->head->end;
    return FL_REPLAY_MORE;
}

enum fl_replay_read fl_replay_begin(struct fl_exchange *x, uint32_t *ret_next_off)
{
    struct fl_replay *r = &x->body;
    const struct fl_request_head *q = &x->request;
    uint32_t start = x->head_off + q->head.length;
    size_t avail = x->head->end - start;
    uint64_t limit = x->snapshot->config->header_limit_bytes;
    x->client->window.waiting_since_ms = 0;
    fl_body_frame_init(&r->frame, q->framing, q->content_length, (uint32_t)limit);
    if (q->framing == FL_FRAMING_CHUNKED) {
        return begin_chunked(x, start, avail, ret_next_off);
    }
    uint64_t length = q->framing == FL_FRAMING_LENGTH ? q->content_length : 0;
    uint32_t n = (uint32_t)(avail < length ? avail : length);
    r->kept = true;
    if (length > 0) {
        r->kept = length <= kept_limit(x) && reserve(x, length);
        fl_body_frame_skip(&r->frame, n);
    }
    if (!r->kept) {
        count_unbuffered(x);
    }
    r->inline_off = start;
    r->inline_len = n;
    r->unsent_bytes = r->body_bytes = n;
    r->complete = n == length;
    *ret_next_off = start + n;
    return r->complete ? FL_REPLAY_COMPLETE : FL_REPLAY_MORE;
}

/* Reading on would go beyond what may be held now. */
static bool is_full(const struct fl_exchange *x)
{
    const struct fl_replay *r = &x->body;
    if (x->attempt.phase == FL_ATTEMPT_IDLE || x->attempt.phase == FL_ATTEMPT_CONNECTING) {
        return !r->kept || r->unsent_bytes >= kept_limit(x);
    }
    return r->unsent_bytes >= fl_buffer_bytes(step_of(x));
}

static enum fl_replay_read took(struct fl_exchange *x, ssize_t n, size_t asked)
{
    struct fl_client *c = x->client;
    if (n == -EAGAIN) {
        c->readable = false;
        return FL_REPLAY_MORE;
    }
    if (n <= 0) {
        return FL_REPLAY_GONE;
    }
    if ((size_t)n < asked && !c->hup) {
        c->readable = false;
    }
    x->client_wait_since_ms = 0;
    return FL_REPLAY_GOT;
}

static enum fl_replay_read read_length(struct fl_exchange *x)
{
    struct fl_replay *r = &x->body;
    uint64_t left = fl_body_frame_remaining(&r->frame);
    struct fl_buffer *b = tail(x, 1, left);
    if (b == NULL) {
        return FL_REPLAY_PAUSED;
    }
    size_t asked = fl_buffer_read_size(b) < left ? fl_buffer_read_size(b) : (size_t)left;
    ssize_t n = fl_sock_recv(x->client->io.fd, b->bytes + b->end, asked);
    enum fl_replay_read got = took(x, n, asked);
    if (got == FL_REPLAY_GOT) {
        fl_body_frame_skip(&r->frame, (uint64_t)n);
        r->body_bytes += (uint64_t)n;
        r->complete = (uint64_t)n == left;
        appended(x, (size_t)n);
    }
    drop_empty(x);
    return got;
}

/* Bytes behind the end of a chunked body belong to the next request: the client gets the buffer. */
static void hand_over(struct fl_exchange *x, size_t used, size_t len)
{
    struct fl_replay *r = &x->body;
    if (used < len) {
        FL_MUST(x->client->in == NULL);
        r->raw->start = (uint32_t)used;
        x->client->in = r->raw;
        r->raw = NULL;
    }
    fl_buffer_give(&x->worker->buffers, &r->raw);
}

/* How many bytes to read behind those that wait in raw. */
static size_t chunked_step(const struct fl_exchange *x, const struct fl_buffer *raw)
{
    size_t step = fl_buffer_bytes(step_of(x)) - FRAMING_ROOM, room = fl_buffer_room(raw);
    FL_MUST(raw->end < step); /* no longer than a trailer line */
    return step - raw->end < room ? step - raw->end : room;
}

/* Between two reads raw holds a cut trailer line, or nothing: then it goes back. */
static void rest_raw(struct fl_exchange *x)
{
    if (x->body.raw != NULL && x->body.raw->end == 0) {
        fl_buffer_give(&x->worker->buffers, &x->body.raw);
    }
}

/* Room to read into (any size holds a cut trailer line), and so that what is read can be decoded.
 */
static bool ready_raw(struct fl_exchange *x)
{
    if (x->body.raw == NULL) {
        enum fl_buffer_size size = fl_buffers_fit(&x->worker->buffers, FL_BUFFER_16K);
        x->body.raw = take(x, size, fl_buffer_bytes(FL_BUFFER_4K));
    }
    return x->body.raw != NULL;
}

static enum fl_replay_read read_chunked(struct fl_exchange *x)
{
    struct fl_replay *r = &x->body;
    if (!ready_raw(x)) {
        return FL_REPLAY_PAUSED;
    }
    struct fl_buffer *raw = r->raw;
    size_t asked = chunked_step(x, raw);
    if (tail(x, raw->end + asked + FRAMING_ROOM, WINDOW) == NULL) {
        rest_raw(x);
        return FL_REPLAY_PAUSED;
    }
    ssize_t n = fl_sock_recv(x->client->io.fd, raw->bytes + raw->end, asked);
    enum fl_replay_read got = took(x, n, asked);
    if (got != FL_REPLAY_GOT) {
        rest_raw(x);
        drop_empty(x);
        return got;
    }
    raw->end += (uint32_t)n;
    size_t len = raw->end;
    ptrdiff_t used = decode(x, raw->bytes, len);
    if (used < 0) {
        return FL_REPLAY_BAD;
    }
    size_t rest = len - (size_t)used;
    if (r->complete) {
        hand_over(x, (size_t)used, len);
        return got;
    }
    memmove(raw->bytes, raw->bytes + used, rest);
    raw->end = (uint32_t)rest;
    rest_raw(x);
    drop_empty(x); /* all of it was framing */
    return got;
}

enum fl_replay_read fl_replay_read(struct fl_exchange *x)
{
    struct fl_replay *r = &x->body;
    if (r->complete) {
        return FL_REPLAY_COMPLETE;
    }
    if (is_full(x)) {
        return FL_REPLAY_PAUSED;
    }
    if (!x->client->readable) {
        return FL_REPLAY_MORE;
    }
    enum fl_replay_read got = r->chunked ? read_chunked(x) : read_length(x);
    if (got == FL_REPLAY_GOT) {
        x->expect_pending = x->expect_pending && x->own_expect; /* the client did not wait */
    }
    return got;
}

int fl_replay_iov(struct fl_exchange *x, struct iovec *iov, int cap)
{
    struct fl_replay *r = &x->body;
    int n = 0;
    if (r->inline_sent < r->inline_len && n < cap) {
        iov[n++] = (struct iovec){x->head->bytes + r->inline_off + r->inline_sent,
                                  r->inline_len - r->inline_sent};
    }
    uint32_t off = r->at_off;
    for (struct fl_buffer *b = r->at; b != NULL && n < cap; b = b->next) {
        if (b->end > off) {
            iov[n++] = (struct iovec){b->bytes + off, b->end - off};
        }
        off = 0;
    }
    return n;
}

void fl_replay_sent(struct fl_exchange *x, size_t n)
{
    struct fl_replay *r = &x->body;
    fl_window_moved(x->worker, &x->client->window, x->client->io.fd, (size_t)r->unsent_bytes,
                    (size_t)r->unsent_bytes - n);
    r->unsent_bytes -= n;
    r->sent_bytes += n;
    uint32_t of_inline = r->inline_len - r->inline_sent;
    of_inline = n < of_inline ? (uint32_t)n : of_inline;
    r->inline_sent += of_inline;
    n -= of_inline;
    while (n > 0) {
        FL_MUST(r->at != NULL);
        uint32_t here = r->at->end - r->at_off;
        if (n < here) {
            r->at_off += (uint32_t)n;
            break;
        }
        n -= here;
        r->at = r->at->next;
        r->at_off = 0;
    }
    if (r->at != NULL && r->at_off == r->at->end) {
        r->at = r->at->next;
        r->at_off = 0;
    }
    if (!r->kept) {
        drop_sent(x);
    }
}

void fl_replay_rewind(struct fl_exchange *x)
{
    struct fl_replay *r = &x->body;
    FL_MUST(fl_replay_can_rewind(r));
    if (r->sent_bytes == 0) {
        return;
    }
    x->client->window.waiting_since_ms = 0; /* another backend, perhaps a quicker one */
    r->unsent_bytes += r->sent_bytes;
    r->sent_bytes = 0;
    r->inline_sent = 0;
    r->at = r->first;
    r->at_off = 0;
}

void fl_replay_done(struct fl_exchange *x)
{
    struct fl_replay *r = &x->body;
    unreserve(x);
    while (r->first != NULL) {
        struct fl_buffer *gone = r->first;
        r->first = gone->next;
        fl_buffer_give(&x->worker->buffers, &gone);
    }
    r->last = r->at = NULL;
    fl_buffer_give(&x->worker->buffers, &r->raw);
}
