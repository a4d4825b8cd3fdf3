#include "sidecar/proxy/attempt.h"

#include <errno.h>
#include <string.h>

#include "common/base/foresee.h"
#include "common/io/sock.h"
#include "common/model/tls_fault.h"
#include "common/tls/tls_terms.h"
#include "sidecar/proxy/exchange.h"
#include "sidecar/proxy/incoming_head.h"
#include "sidecar/proxy/outgoing_head.h"
#include "sidecar/proxy/relay.h"
#include "sidecar/proxy/upstream.h"
#include "sidecar/proxy/worker.h"

enum {
    BODY_SLICES = 12,
    UPLOAD_ROUNDS = 4, /* reads and sends in one go, then other connections have their turn */
    INTERIMS_MAX = 16, /* 1xx answers before the final one */
    STALE_WITHIN_MS = 1000,
    FRESH_ENOUGH_MS = 1000,
    PEEK_BYTES = 4096,
    EXPECT_MS = 1000, /* the backend's silence after which we send the 100 ourselves */
};

struct fl_attempt_record *fl_attempt_record(struct fl_exchange *x)
{
    unsigned last = x->attempts - 1;
    return &x->records[last < FL_ATTEMPTS_LOGGED ? last : FL_ATTEMPTS_LOGGED - 1];
}

enum fl_attempt_step fl_attempt_fail(struct fl_exchange *x, enum fl_outcome o, int os_errno)
{
    struct fl_attempt *a = &x->attempt;
    a->outcome = o;
    a->os_errno = os_errno;
    struct fl_attempt_record *rec = fl_attempt_record(x);
    rec->status = fl_outcome_row(o)->upstream_status;
    rec->response_us = fl_reactor_now_us(x->worker->reactor) - a->began_us;
    return FL_ATTEMPT_FAILED;
}

static enum fl_attempt_step connect_failed(struct fl_exchange *x, int err)
{
    return fl_attempt_fail(
        x, fl_errno_is_local(err) ? FL_OUTCOME_LOCAL_RESOURCE : FL_OUTCOME_CONNECT_FAILED, err);
}

/* A kept connection where the request could be repeated should it prove stale, or one that was used
 * a moment ago. */
static struct fl_upstream *take_kept(struct fl_exchange *x, struct fl_peer *peer, uint64_t proof)
{
    bool any_age = fl_retry_may_ride_idle(x->policy->conf, x->operation.class, x->body.kept);
    return fl_upstream_take(x->worker, peer, x, proof, any_age ? INT64_MAX : FRESH_ENOUGH_MS);
}

static uint64_t proof_of(const struct fl_exchange *x, const struct fl_pick *pick)
{
    const struct fl_snap_backend *b = x->backend;
    return b->tls != NULL ? fl_tls_terms_proof(b->tls, b->peers[pick->index].tls_name) : 0;
}

static void begin_record(struct fl_exchange *x, struct fl_peer *peer)
{
    x->attempts++;
    *fl_attempt_record(x) = (struct fl_attempt_record){
        .peer = peer, .connect_us = -1, .header_us = -1, .response_us = -1};
}

enum fl_attempt_step fl_attempt_begin(struct fl_exchange *x, const struct fl_pick *pick,
                                      bool same_peer)
{
    struct fl_attempt *a = &x->attempt;
    struct fl_worker *w = x->worker;
    struct fl_peer *peer = x->backend->peers[pick->index].peer;
    *a = (struct fl_attempt){.pick = *pick,
                             .picked = true,
                             .outcome = FL_OUTCOME_OK,
                             .began_us = fl_reactor_now_us(w->reactor),
                             .began_ms = fl_worker_now_ms(w)};
    fl_gather_clear(&x->to_peer);
    x->tried[pick->index / 64] |= UINT64_C(1) << (pick->index % 64);
    x->tries += same_peer ? 0 : 1;
    if (x->first_try_ms == 0) {
        x->first_try_ms = a->began_ms;
    }
    begin_record(x, peer);
    fl_replay_rewind(x);
    x->expect_pending =
        x->own_expect || (x->expect_pending && x->body.body_bytes == 0 && !x->continue_sent);
    x->expect_until_ms = 0;
    if (x->backend->conf->tls.on && x->backend->tls == NULL) { /* never in clear instead */
        return fl_attempt_fail(x, FL_OUTCOME_TLS_FAILED, FL_TLS_UNAVAILABLE);
    }
    uint64_t proof = proof_of(x, pick);
    a->up = same_peer ? NULL : take_kept(x, peer, proof);
    a->reused = a->up != NULL;
    a->phase = a->reused ? FL_ATTEMPT_EXCHANGING : FL_ATTEMPT_CONNECTING;
    if (!a->reused) {
        int rc = fl_upstream_dial(w, peer, x, proof, (int)x->policy->conf->send_timeout_ms, &a->up);
        if (rc != 0) {
            return connect_failed(x, -rc);
        }
    } else {
        fl_attempt_record(x)->connect_us = 0;
        a->connected_us = a->began_us;
        a->sent_progress_ms = a->began_ms;
    }
    if (!fl_outgoing_head(x)) {
        return fl_attempt_fail(x, FL_OUTCOME_LOCAL_RESOURCE, ENOBUFS);
    }
    return FL_ATTEMPT_WAIT;
}

enum fl_sent fl_attempt_sent(const struct fl_exchange *x)
{
    const struct fl_attempt *a = &x->attempt;
    if (a->sent_bytes == 0 || x->expect_pending) {
        return FL_SENT_NOTHING;
    }
    return a->fully_sent ? FL_SENT_FULLY : FL_SENT_PARTLY;
}

/* GOT_HEAD: go on. */
static enum fl_attempt_step shake_hands(struct fl_exchange *x)
{
    struct fl_attempt *a = &x->attempt;
    const struct fl_snap_backend *b = x->backend;
    int rc = fl_handshake_step(a->up, b->tls, b->peers[a->pick.index].tls_name);
    if (rc == 0) {
        return FL_ATTEMPT_GOT_HEAD;
    }
    if (rc == -EAGAIN) {
        return FL_ATTEMPT_WAIT;
    }
    return fl_attempt_fail(
        x, fl_errno_is_local(-rc) ? FL_OUTCOME_LOCAL_RESOURCE : FL_OUTCOME_TLS_FAILED, -rc);
}

enum fl_attempt_step fl_attempt_connect_timeout(struct fl_exchange *x)
{
    const struct fl_upstream *up = x->attempt.up;
    if (!up->connected) {
        return fl_attempt_fail(x, FL_OUTCOME_CONNECT_TIMEOUT, 0);
    }
    return fl_handshake_waits(up) ? fl_attempt_fail(x, FL_OUTCOME_LOCAL_RESOURCE, EBUSY)
                                  : fl_attempt_fail(x, FL_OUTCOME_TLS_FAILED, FL_TLS_TIMEOUT);
}

static enum fl_attempt_step dialling(struct fl_exchange *x)
{
    struct fl_upstream *up = x->attempt.up;
    if (up->failed) {
        int err = -fl_sock_error(up->io.fd);
        bool was_open =
            err == ECONNRESET || err == EPIPE; /* accepted, then reset before a byte was sent */
        return was_open ? fl_attempt_fail(x, FL_OUTCOME_PREMATURE_CLOSE, err)
                        : connect_failed(x, err != 0 ? err : ECONNREFUSED);
    }
    if (!up->writable) {
        return FL_ATTEMPT_WAIT;
    }
    up->connected = true;
    return FL_ATTEMPT_GOT_HEAD;
}

/* The connect, and the handshake of a backend that wants TLS. */
static enum fl_attempt_step connecting(struct fl_exchange *x)
{
    struct fl_attempt *a = &x->attempt;
    enum fl_attempt_step step = a->up->connected ? FL_ATTEMPT_GOT_HEAD : dialling(x);
    if (step == FL_ATTEMPT_GOT_HEAD && x->backend->tls != NULL) {
        step = shake_hands(x);
    }
    if (step != FL_ATTEMPT_GOT_HEAD) {
        return step;
    }
    a->connected_us = fl_reactor_now_us(x->worker->reactor);
    a->sent_progress_ms = fl_worker_now_ms(x->worker);
    fl_attempt_record(x)->connect_us = a->connected_us - a->began_us;
    a->phase = FL_ATTEMPT_EXCHANGING;
    return FL_ATTEMPT_GOT_HEAD;
}

/* Behind our own Expect the body waits here; behind the client's it has not come yet. */
static bool has_body_to_send(const struct fl_exchange *x)
{
    return x->body.unsent_bytes > 0 && !(x->own_expect && x->expect_pending);
}

bool fl_attempt_send(struct fl_exchange *x)
{
    struct fl_attempt *a = &x->attempt;
    struct fl_replay *r = &x->body;
    while (a->up->writable && (x->to_peer.left > 0 || has_body_to_send(x))) {
        struct iovec iov[FL_GATHER_MAX + BODY_SLICES] FL_UNCLEARED;
        int n = (int)(x->to_peer.count - x->to_peer.at);
        memcpy(iov, x->to_peer.iov + x->to_peer.at, (size_t)n * sizeof iov[0]);
        n += has_body_to_send(x) ? fl_replay_iov(x, iov + n, BODY_SLICES) : 0;
        ssize_t sent = fl_upstream_sendv(a->up, iov, n);
        if (sent == -EAGAIN) {
            break;
        }
        if (sent < 0) {
            a->send_broken = true;
            a->os_errno = (int)-sent;
            return false;
        }
        a->sent_bytes += (uint64_t)sent;
        a->sent_progress_ms = fl_worker_now_ms(x->worker);
        size_t of_head = (size_t)sent < x->to_peer.left ? (size_t)sent : x->to_peer.left;
        fl_gather_advance(&x->to_peer, of_head);
        fl_replay_sent(x, (size_t)sent - of_head);
    }
    if (x->expect_pending && x->to_peer.left == 0 && x->expect_until_ms == 0) {
        x->expect_until_ms = fl_worker_now_ms(x->worker) + EXPECT_MS;
    }
    if (!a->fully_sent && x->to_peer.left == 0 && r->unsent_bytes == 0 && r->complete) {
        a->fully_sent = true;
        a->awaiting_since_ms = fl_worker_now_ms(x->worker);
    }
    return true;
}

static enum fl_attempt_step client_bad(struct fl_exchange *x)
{
    x->attempt.http_error = (enum fl_http_error)x->body.frame.error;
    return fl_attempt_fail(x, FL_OUTCOME_CLIENT_BAD, 0);
}

enum fl_attempt_step fl_attempt_upload(struct fl_exchange *x)
{
    struct fl_attempt *a = &x->attempt;
    for (unsigned i = 0; !a->fully_sent && !a->send_broken; i++) {
        if (i == UPLOAD_ROUNDS) {
            fl_exchange_again(x);
            break;
        }
        if (!fl_attempt_send(x) || a->fully_sent) {
            break;
        }
        enum fl_replay_read got = fl_replay_read(x);
        if (got == FL_REPLAY_GONE) {
            return fl_attempt_fail(x, FL_OUTCOME_CLIENT_ABORT, 0);
        }
        if (got == FL_REPLAY_BAD) {
            return client_bad(x);
        }
        bool waits = !a->up->writable || (x->body.unsent_bytes > 0 && !has_body_to_send(x));
        if (got == FL_REPLAY_MORE || (got != FL_REPLAY_GOT && waits)) {
            break; /* an edge, or the 100, says when to go on */
        }
        if (got == FL_REPLAY_PAUSED && x->body.unsent_bytes == 0) {
            fl_exchange_starve(x); /* no buffer now */
            break;
        }
    }
    return FL_ATTEMPT_WAIT;
}

/* The connection ended before a complete head of a response. */
static enum fl_attempt_step ended_early(struct fl_exchange *x, int err)
{
    struct fl_attempt *a = &x->attempt;
    bool silent = a->interims == 0 && (a->in == NULL || a->in->end == 0);
    int64_t age_ms = fl_worker_now_ms(x->worker) - a->began_ms;
    if (a->reused && silent && age_ms < STALE_WITHIN_MS) {
        return fl_attempt_fail(x, FL_OUTCOME_STALE_REUSE, err);
    }
    if (!a->reused && silent && fl_tls_fault_is_refusal(err)) {
        a->sent_bytes = 0; /* TLS 1.3: our certificate was judged after we had begun to send */
        return fl_attempt_fail(x, FL_OUTCOME_TLS_FAILED, err);
    }
    return fl_attempt_fail(x, FL_OUTCOME_PREMATURE_CLOSE, err);
}

static enum fl_attempt_step bad_head(struct fl_exchange *x, enum fl_http_error e)
{
    x->attempt.http_error = e;
    return fl_attempt_fail(x, FL_OUTCOME_INVALID_HEADER, 0);
}

/* A 1xx answer goes on at once; a second 100, or one to a client of HTTP/1.0, is swallowed. */
static void interim(struct fl_exchange *x, size_t length)
{
    struct fl_attempt *a = &x->attempt;
    const struct fl_response_head *p = x->worker->response;
    a->interims++;
    bool go_on = p->status == 100;
    bool ours = go_on && (x->continue_sent || x->own_expect);
    bool relay = x->request.minor >= 1 && !ours;
    if (go_on) {
        x->expect_pending = false;
    }
    if (relay && fl_relay_interim(x, a->in->bytes + a->in->start, p)) {
        x->continue_sent = x->continue_sent || go_on;
        x->interim_relayed = x->interim_relayed || !go_on;
    }
    a->in->start += (uint32_t)length;
}

/* A head that is not there at once. GOT_HEAD: it is, *ret_length long. WAIT: more bytes are needed.
 */
static enum fl_attempt_step parse_in_two_steps(struct fl_exchange *x, size_t *ret_length)
{
    struct fl_buffer *in = x->attempt.in;
    size_t limit = (size_t)x->snapshot->config->header_limit_bytes;
    const char *at = fl_buffer_at(in);
    size_t len = fl_buffer_len(in);
    ptrdiff_t end = fl_incoming_head_end(in);
    if (end <= 0) {
        enum fl_http_error sniffed = fl_response_sniff(at, len);
        if (sniffed != FL_HTTP_ERR_NONE) {
            return bad_head(x, sniffed);
        }
        if (end < 0) {
            return bad_head(x, (enum fl_http_error) - end);
        }
        return len >= limit ? bad_head(x, FL_HTTP_ERR_HEAD_LARGE) : FL_ATTEMPT_WAIT;
    }
    if ((size_t)end > limit) {
        return bad_head(x, FL_HTTP_ERR_HEAD_LARGE);
    }
    enum fl_http_error e =
        fl_response_parse(at, (size_t)end, x->request.method, x->worker->response);
    *ret_length = (size_t)end;
    return e == FL_HTTP_ERR_NONE ? FL_ATTEMPT_GOT_HEAD : bad_head(x, e);
}

static enum fl_attempt_step headed(struct fl_exchange *x, size_t length)
{
    struct fl_attempt *a = &x->attempt;
    struct fl_attempt_record *rec = fl_attempt_record(x);
    a->header_us = fl_reactor_now_us(x->worker->reactor);
    a->phase = FL_ATTEMPT_HEADED;
    a->head_length = length;
    rec->header_us = a->header_us - a->began_us;
    rec->status = x->worker->response->status;
    return FL_ATTEMPT_GOT_HEAD;
}

/* Looks at what was read so far. WAIT: more bytes are needed. */
static enum fl_attempt_step parse(struct fl_exchange *x)
{
    struct fl_attempt *a = &x->attempt;
    struct fl_response_head *p = x->worker->response;
    while (fl_buffer_len(a->in) > 0 && x->to_client.left == 0) {
        size_t length = fl_incoming_response(a->in, x->request.method, p);
        if (length == 0 || length > (size_t)x->snapshot->config->header_limit_bytes) {
            enum fl_attempt_step step = parse_in_two_steps(x, &length);
            if (step != FL_ATTEMPT_GOT_HEAD) {
                return step;
            }
        }
        if (p->status >= 200) {
            return headed(x, length);
        }
        if (a->interims == INTERIMS_MAX) {
            return bad_head(x, FL_HTTP_ERR_NOT_HTTP);
        }
        interim(x, length);
    }
    return FL_ATTEMPT_WAIT;
}

static bool make_room(struct fl_exchange *x)
{
    return fl_incoming_head_room(&x->worker->buffers, &x->attempt.in, FL_BUFFER_16K,
                                 FL_BUFFER_FOR_ANSWER);
}

/* The second try is given up before the first waits for room for its answer: it may be our own
 * request, kept for it, that takes the room. */
static bool must_make_room(struct fl_exchange *x)
{
    return make_room(x) || (fl_replay_forgo(x) && make_room(x));
}

static ssize_t read_in(struct fl_exchange *x)
{
    struct fl_buffer *in = x->attempt.in;
    fl_exchange_foresee(x);
    __builtin_prefetch(&x->request);
    fl_foresee(x->client, sizeof *x->client);
    __builtin_prefetch(x->head, 1);
    return fl_upstream_recv(x->attempt.up, in->bytes + in->end, fl_buffer_room(in));
}

bool fl_attempt_read(struct fl_exchange *x)
{
    struct fl_attempt *a = &x->attempt;
    bool awaits = a->phase == FL_ATTEMPT_EXCHANGING && a->fully_sent && x->to_client.left == 0;
    if (awaits && !a->has_read && a->up->readable && make_room(x)) {
        a->read = read_in(x);
        a->has_read = true;
    }
    return a->has_read;
}

static ssize_t take_read(struct fl_exchange *x)
{
    struct fl_attempt *a = &x->attempt;
    if (!a->has_read) {
        return read_in(x);
    }
    a->has_read = false;
    return a->read;
}

static enum fl_attempt_step receive(struct fl_exchange *x)
{
    struct fl_attempt *a = &x->attempt;
    if (x->to_client.left > 0 && !fl_relay_flush(x)) {
        return x->client_gone ? fl_attempt_fail(x, FL_OUTCOME_CLIENT_ABORT, 0) : FL_ATTEMPT_WAIT;
    }
    /* What was read ahead lies behind the bytes that count, where a parse puts its stop. */
    if (!a->has_read && a->in != NULL && fl_buffer_len(a->in) > 0) {
        enum fl_attempt_step step = parse(x);
        if (step != FL_ATTEMPT_WAIT) {
            return step;
        }
    }
    while (a->has_read || (a->up->readable && x->to_client.left == 0)) {
        if (!a->has_read && !must_make_room(x)) {
            fl_exchange_starve(x);
            return FL_ATTEMPT_WAIT;
        }
        ssize_t n = take_read(x);
        if (n == -EAGAIN) {
            break;
        }
        if (n <= 0) {
            return ended_early(x, (int)-n);
        }
        a->in->end += (uint32_t)n;
        a->received_ms = fl_worker_now_ms(x->worker);
        enum fl_attempt_step step = parse(x);
        if (step != FL_ATTEMPT_WAIT) {
            return step;
        }
    }
    return FL_ATTEMPT_WAIT;
}

enum fl_attempt_step fl_attempt_run(struct fl_exchange *x)
{
    struct fl_attempt *a = &x->attempt;
    if (x->client_gone) { /* seen when an interim answer was sent */
        return fl_attempt_fail(x, FL_OUTCOME_CLIENT_ABORT, 0);
    }
    if (a->phase == FL_ATTEMPT_CONNECTING) {
        /* A kept body may come in meanwhile; an end of the client shows later. */
        if (fl_replay_read(x) == FL_REPLAY_BAD) {
            return client_bad(x);
        }
        enum fl_attempt_step step = connecting(x);
        if (step != FL_ATTEMPT_GOT_HEAD) {
            return step;
        }
    }
    if (a->phase == FL_ATTEMPT_PEEKING) {
        return fl_attempt_peek(x);
    }
    if (a->reused && a->sent_bytes == 0 && fl_upstream_spoke(a->up)) {
        return fl_attempt_fail(x, FL_OUTCOME_STALE_REUSE, 0); /* seen in time: nothing is sent */
    }
    enum fl_attempt_step step = fl_attempt_upload(x);
    if (step != FL_ATTEMPT_WAIT) {
        return step;
    }
    if (a->send_broken) {
        a->up->readable = true; /* an answer may have come before the end */
    }
    bool gated = x->own_expect && x->expect_pending;
    step = receive(x);
    if (step == FL_ATTEMPT_WAIT && gated && !x->expect_pending) {
        step = fl_attempt_upload(x); /* the 100 has come: the body may go */
    }
    if (step == FL_ATTEMPT_WAIT && x->client_gone) {
        return fl_attempt_fail(x, FL_OUTCOME_CLIENT_ABORT, 0);
    }
    if (step == FL_ATTEMPT_WAIT && a->send_broken && !a->up->readable) {
        return ended_early(x, a->os_errno);
    }
    return step;
}

enum fl_attempt_step fl_attempt_peek(struct fl_exchange *x)
{
    struct fl_attempt *a = &x->attempt;
    bool ended = false;
    a->phase = FL_ATTEMPT_PEEKING;
    if (a->peek_until_ms == 0) {
        a->peek_until_ms = fl_worker_now_ms(x->worker) + FL_PEEK_MS;
    }
    size_t head = a->head_length;
    while (a->up->readable && !ended && fl_buffer_len(a->in) - head < PEEK_BYTES &&
           fl_buffer_room(a->in) > 0) {
        size_t room = fl_buffer_room(a->in);
        ssize_t n = fl_upstream_recv(a->up, a->in->bytes + a->in->end, room);
        ended = n <= 0 && n != -EAGAIN; /* relay finds it again: the socket stays readable */
        a->in->end += n > 0 ? (uint32_t)n : 0;
    }
    size_t have = fl_buffer_len(a->in) - head;
    if (fl_response_parse(fl_buffer_at(a->in), head, x->request.method, x->worker->response) !=
        FL_HTTP_ERR_NONE) {
        return bad_head(x, FL_HTTP_ERR_NOT_HTTP);
    }
    const struct fl_response_head *p = x->worker->response;
    bool whole = p->framing == FL_FRAMING_NONE ||
                 (p->framing == FL_FRAMING_LENGTH && have >= p->content_length);
    bool enough = whole || ended || have >= PEEK_BYTES || fl_buffer_room(a->in) == 0 ||
                  fl_worker_now_ms(x->worker) >= a->peek_until_ms || fl_attempt_throttled(x);
    if (!enough) {
        return FL_ATTEMPT_WAIT;
    }
    a->peeked = true;
    a->phase = FL_ATTEMPT_HEADED;
    return FL_ATTEMPT_GOT_HEAD;
}

bool fl_attempt_throttled(const struct fl_exchange *x)
{
    const struct fl_buffer *in = x->attempt.in;
    const char *body = in->bytes + in->start + x->worker->response->head.length;
    size_t len = (size_t)(in->bytes + in->end - body);
    return memmem(body, len, "SlowDown", 8) != NULL ||
           memmem(body, len, "RequestLimitExceeded", 20) != NULL;
}

void fl_attempt_end(struct fl_exchange *x, bool reusable)
{
    struct fl_attempt *a = &x->attempt;
    if (x->to_client.left > 0 && x->relay.extra == NULL) {
        x->relay.extra = a->in; /* an interim answer in it is still on its way to the client */
        a->in = NULL;
    }
    fl_buffer_give(&x->worker->buffers, &a->in);
    if (a->up != NULL && reusable) {
        fl_upstream_give(&a->up, x->backend->conf);
    }
    fl_upstream_close(&a->up);
    fl_gather_clear(&x->to_peer);
    a->phase = FL_ATTEMPT_IDLE;
}
