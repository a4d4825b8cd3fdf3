#include "common/probe/http_client.h"

#include <errno.h>
#include <stdlib.h>

#include "common/io/sock.h"
#include "common/model/tls_fault.h"
#include "common/probe/http_body.h"
#include "common/tls/tls.h"

#define FIRST_BYTES  4096
#define INTERIMS_MAX 8

enum step { STEP_IDLE, STEP_QUEUED, STEP_CONNECT, STEP_SHAKE, STEP_SEND, STEP_HEAD, STEP_BODY };

/* One request and its answer. */
struct flight {
    struct fl_http_ask ask; /* text points behind the struct */
    int64_t until_ms;       /* INT64_MAX: no limit for all of it */
    bool reused, send_broken, ended, late;
    int send_errno;
    size_t sent;
    unsigned interims;
    char *in; /* the head stays at its front; body bytes come and go behind it */
    size_t len, cap, scan, head_len;
    struct fl_response_head head;
    struct fl_http_body body;
    char text[];
};

struct fl_http_client {
    struct fl_reactor *reactor;
    fl_http_answered_fn *answered;
    void *arg;
    struct fl_io io;
    struct fl_timer deadline;
    struct fl_task begin, bury;
    struct flight *flight;
    enum step step;
    bool readable, writable, hup; /* edges not used up */
    struct fl_addr to;            /* of the open connection */
    struct fl_tls *tls;           /* of it; NULL: in clear */
    uint64_t proof;               /* of it (fl_tls_terms_proof); 0: in clear */
};

static int64_t now_of(const struct fl_http_client *c)
{
    return fl_reactor_now_ms(c->reactor);
}

static void disconnect(struct fl_http_client *c)
{
    fl_tls_close(&c->tls);
    c->proof = 0;
    fl_reactor_close(c->reactor, &c->io);
    c->readable = c->writable = c->hup = false;
}

/* ---- bytes ---- */

/* What is left of the request: its text, and the body behind it. */
static ssize_t send_some(struct fl_http_client *c)
{
    const struct fl_http_ask *ask = &c->flight->ask;
    size_t sent_text = c->flight->sent < ask->text.len ? c->flight->sent : ask->text.len;
    struct fl_span text = fl_span_from(ask->text, sent_text);
    struct fl_span body = fl_span_from(ask->body, c->flight->sent - sent_text);
    struct iovec iov[2];
    int n = 0;
    /* iovec has no const; the bytes are only read */
    if (text.len > 0) {
        iov[n++] = (struct iovec){(char *)(uintptr_t)text.ptr, text.len};
    }
    if (body.len > 0) {
        iov[n++] = (struct iovec){(char *)(uintptr_t)body.ptr, body.len};
    }
    ssize_t sent = c->tls != NULL ? fl_tls_sendv(c->tls, iov, n) : fl_sock_sendv(c->io.fd, iov, n);
    if (sent < 0 && sent != -EAGAIN && c->tls != NULL) {
        fl_tls_edge(c->tls, true); /* what came before the end is to be looked for */
    }
    return sent;
}

/* Keeps readable: the short-read rule, or what TLS has left behind. */
static ssize_t recv_some(struct fl_http_client *c, char *into, size_t n)
{
    if (c->tls != NULL) {
        ssize_t got = fl_tls_recv(c->tls, into, n);
        c->readable = got != -EAGAIN && (got <= 0 || fl_tls_readable(c->tls));
        return got;
    }
    ssize_t got = fl_sock_recv(c->io.fd, into, n);
    if (got == -EAGAIN || (got > 0 && (size_t)got < n && !c->hup)) {
        c->readable = false;
    }
    return got;
}

static struct flight *free_flight(struct flight *f)
{
    if (f != NULL) {
        free(f->in);
        fl_http_body_done(&f->body);
        free(f);
    }
    return NULL;
}

/* Nothing more has come, and no end. */
static bool is_quiet(struct fl_http_client *c)
{
    char one;
    return (!c->readable || recv_some(c, &one, 1) == -EAGAIN) && !c->hup;
}

/* The one way out of a request. */
static void finish(struct fl_http_client *c, const struct fl_http_answer *a, bool keep)
{
    struct flight *f = c->flight;
    if (!keep || !is_quiet(c)) {
        disconnect(c);
    }
    fl_timer_off(&c->deadline);
    c->flight = NULL;
    c->step = STEP_IDLE; /* the callback may ask again */
    c->answered(c->arg, a);
    free_flight(f);
}

enum fl_probe_step fl_http_client_step(const struct fl_http_client *c)
{
    static const enum fl_probe_step steps[] = {
        [STEP_IDLE] = FL_PROBE_STEP_NONE,       [STEP_QUEUED] = FL_PROBE_STEP_CONNECT,
        [STEP_CONNECT] = FL_PROBE_STEP_CONNECT, [STEP_SHAKE] = FL_PROBE_STEP_TLS,
        [STEP_SEND] = FL_PROBE_STEP_SEND,       [STEP_HEAD] = FL_PROBE_STEP_HEAD,
        [STEP_BODY] = FL_PROBE_STEP_HEAD,
    };
    return steps[c->step];
}

static void fail(struct fl_http_client *c, enum fl_outcome outcome, int os_errno,
                 enum fl_http_error error)
{
    const struct fl_http_answer a = {
        .outcome = outcome,
        .step = outcome == FL_OUTCOME_TLS_FAILED ? FL_PROBE_STEP_TLS : fl_http_client_step(c),
        .os_errno = os_errno,
        .error = error,
        .reused = c->flight->reused,
    };
    finish(c, &a, false);
}

static void succeed(struct fl_http_client *c, bool keep)
{
    const struct flight *f = c->flight;
    struct fl_http_answer a = {.outcome = FL_OUTCOME_OK, .reused = f->reused};
    if (c->step == STEP_BODY) {
        a.head = &f->head;
        a.head_text = f->in;
        a.body = fl_http_body_kept(&f->body);
        a.whole = f->ended && f->body.came == f->body.kept;
        a.late = f->late;
    }
    finish(c, &a, keep);
}

/* Makes the buffer at least that large, for a head (up to FL_HTTP_HEAD_MAX) and what stands behind
 * it. */
static bool grow(struct flight *f, size_t want)
{
    if (want <= f->cap) {
        return true;
    }
    char *more = realloc(f->in, want);
    if (more != NULL) {
        f->in = more;
        f->cap = want;
    }
    return more != NULL;
}

/* ---- the body ---- */

/* What was read behind the head. True: the request is over. */
static bool take_body(struct fl_http_client *c)
{
    struct flight *f = c->flight;
    const struct fl_span in = {f->in + f->head_len, f->len - f->head_len};
    size_t used = 0;
    switch (fl_http_body_take(&f->body, in, &used)) {
    case FL_HTTP_BODY_GOES_ON:
        f->len -= used;
        memmove(f->in + f->head_len, f->in + f->head_len + used, f->len - f->head_len);
        return false;
    case FL_HTTP_BODY_ENDED:
        f->ended = true;
        succeed(c, f->head.keep_alive && used == in.len && !f->send_broken);
        return true;
    case FL_HTTP_BODY_BROKEN:
        succeed(c, false); /* the head has answered */
        return true;
    case FL_HTTP_BODY_NO_MEMORY:
        fail(c, FL_OUTCOME_LOCAL_RESOURCE, ENOMEM, FL_HTTP_ERR_NONE);
        return true;
    }
    FL_IMPOSSIBLE("a body that is in no state");
}

/* ---- the head ---- */

enum headed { HEAD_MORE, HEAD_THERE, HEAD_BAD };

static enum headed take_head(struct fl_http_client *c)
{
    struct flight *f = c->flight;
    for (;;) {
        enum fl_http_error sniffed = fl_response_sniff(f->in, f->len);
        ptrdiff_t end = fl_head_end(f->in, f->len, &f->scan);
        enum fl_http_error e = sniffed != FL_HTTP_ERR_NONE ? sniffed
                               : end < 0                   ? (enum fl_http_error) - end
                                                           : FL_HTTP_ERR_NONE;
        if (e == FL_HTTP_ERR_NONE && end == 0 && f->len < FL_HTTP_HEAD_MAX) {
            return HEAD_MORE;
        }
        if (e == FL_HTTP_ERR_NONE) {
            e = end == 0 ? FL_HTTP_ERR_HEAD_LARGE
                         : fl_response_parse(f->in, (size_t)end, f->ask.method, &f->head);
        }
        bool interim = e == FL_HTTP_ERR_NONE && f->head.status < 200;
        if (interim && ++f->interims > INTERIMS_MAX) {
            e = FL_HTTP_ERR_NOT_HTTP;
        }
        if (e != FL_HTTP_ERR_NONE) {
            fail(c, FL_OUTCOME_INVALID_HEADER, 0, e);
            return HEAD_BAD;
        }
        if (!interim) {
            f->head_len = (size_t)end;
            return HEAD_THERE;
        }
        f->len -= (size_t)end; /* nobody waits for a 1xx here */
        memmove(f->in, f->in + end, f->len);
        f->scan = 0;
    }
}

static void enter_body(struct fl_http_client *c)
{
    struct flight *f = c->flight;
    c->step = STEP_BODY;
    fl_http_body_begin(&f->body, &f->head, f->ask.keep, FL_HTTP_BODY_DRAINED);
    if (f->ask.total_ms > 0) {
        fl_timer_set(c->reactor, &c->deadline, f->until_ms);
    } else if (now_of(c) + FL_HTTP_BODY_MS < c->deadline.at_ms) {
        fl_timer_set(c->reactor, &c->deadline, now_of(c) + FL_HTTP_BODY_MS);
    }
}

/* ---- steps ---- */

static void ended(struct fl_http_client *c, int err) /* 0: EOF, else positive */
{
    if (c->step == STEP_BODY) { /* cut short or not, the head has answered */
        c->flight->ended = err == 0 && fl_http_body_eof(&c->flight->body);
        succeed(c, false);
    } else if (fl_tls_fault_is_refusal(err)) { /* with TLS 1.3 it may come after our handshake */
        fail(c, FL_OUTCOME_TLS_FAILED, err, FL_HTTP_ERR_NONE);
    } else {
        fail(c, FL_OUTCOME_PREMATURE_CLOSE, err, FL_HTTP_ERR_NONE);
    }
}

/* Room behind what is there: 0 when there is no memory. */
static size_t make_room(struct flight *f)
{
    bool ok = true;
    if (f->head_len != 0) { /* a trailer line must fit */
        ok = grow(f, f->head_len + 2 * FL_BODY_TRAILER_LINE_MAX);
    } else if (f->len == f->cap) {
        size_t twice = f->cap != 0 ? 2 * f->cap : FIRST_BYTES;
        ok = grow(f, twice < FL_HTTP_HEAD_MAX ? twice : FL_HTTP_HEAD_MAX);
    }
    return ok ? f->cap - f->len : 0;
}

static void read_answer(struct fl_http_client *c)
{
    struct flight *f = c->flight;
    while (c->readable) {
        size_t room = make_room(f);
        if (room == 0) {
            fail(c, FL_OUTCOME_LOCAL_RESOURCE, ENOMEM, FL_HTTP_ERR_NONE);
            return;
        }
        ssize_t n = recv_some(c, f->in + f->len, room);
        if (n == -EAGAIN) {
            break;
        }
        if (n <= 0) {
            ended(c, n < 0 ? (int)-n : f->send_errno);
            return;
        }
        f->len += (size_t)n;
        if (c->step == STEP_HEAD) {
            enum headed h = take_head(c);
            if (h == HEAD_BAD) {
                return;
            }
            if (h == HEAD_MORE) {
                continue;
            }
            enter_body(c);
        }
        if (take_body(c)) {
            return;
        }
    }
    if (f->send_broken) {
        ended(c, f->send_errno);
    }
}

static void set_deadline(struct fl_http_client *c, int64_t limit_ms)
{
    int64_t at_ms = now_of(c) + limit_ms, until_ms = c->flight->until_ms;
    fl_timer_set(c->reactor, &c->deadline, at_ms < until_ms ? at_ms : until_ms);
}

static void send_request(struct fl_http_client *c)
{
    struct flight *f = c->flight;
    size_t all = f->ask.text.len + f->ask.body.len;
    while (c->writable && f->sent < all) {
        ssize_t n = send_some(c);
        if (n == -EAGAIN) {
            c->writable = false;
        } else if (n < 0) { /* an answer may have come before the end */
            f->send_broken = true;
            f->send_errno = (int)-n;
            c->readable = true;
            break;
        } else {
            f->sent += (size_t)n;
        }
    }
    if (f->sent == all || f->send_broken) {
        c->step = STEP_HEAD;
        read_answer(c);
    }
}

static void enter_send(struct fl_http_client *c)
{
    struct flight *f = c->flight;
    if (f->ask.text.len == 0) {
        succeed(c, false);
        return;
    }
    c->step = STEP_SEND;
    set_deadline(c, f->ask.answer_ms);
    send_request(c);
}

static uint64_t proof_of(const struct fl_http_ask *ask)
{
    return ask->tls ? fl_tls_terms_proof(ask->terms, ask->tls_name) : 0;
}

static void shake_hands(struct fl_http_client *c)
{
    int rc = fl_tls_handshake(c->tls);
    if (rc == -EAGAIN) {
        return;
    }
    if (rc < 0) {
        fail(c, FL_OUTCOME_TLS_FAILED, -rc, FL_HTTP_ERR_NONE);
        return;
    }
    c->readable = fl_tls_readable(c->tls);
    c->writable = true;
    enter_send(c);
}

static void enter_shake(struct fl_http_client *c)
{
    const struct fl_http_ask *ask = &c->flight->ask;
    const struct fl_tls_peer peer = {&c->to, ask->tls_name, FL_TLS_NO_LANE};
    c->step = STEP_SHAKE;
    int rc = fl_tls_open(ask->terms, c->io.fd, &peer, &c->tls);
    if (rc < 0) {
        fail(c, FL_OUTCOME_LOCAL_RESOURCE, -rc, FL_HTTP_ERR_NONE);
        return;
    }
    c->proof = proof_of(ask);
    shake_hands(c);
}

static void connect_failed(struct fl_http_client *c, int err) /* positive */
{
    bool was_open = err == ECONNRESET || err == EPIPE; /* accepted, then reset */
    fail(c,
         fl_errno_is_local(err) ? FL_OUTCOME_LOCAL_RESOURCE
         : was_open             ? FL_OUTCOME_PREMATURE_CLOSE
                                : FL_OUTCOME_CONNECT_FAILED,
         err, FL_HTTP_ERR_NONE);
}

static void connected(struct fl_http_client *c)
{
    int err = fl_sock_error(c->io.fd);
    if (err < 0) {
        connect_failed(c, -err);
        return;
    }
    if (c->flight->ask.tls) {
        enter_shake(c);
        return;
    }
    c->writable = true;
    enter_send(c);
}

static void start_connect(struct fl_http_client *c)
{
    struct flight *f = c->flight;
    int fd = -1;
    disconnect(c);
    c->step = STEP_CONNECT;
    int rc = fl_sock_connect(&f->ask.to, 0, &fd);
    if (rc == 0) {
        rc = fl_reactor_add(c->reactor, &c->io, fd);
        if (rc < 0) {
            fl_sock_close(fd);
        }
    }
    if (rc < 0) {
        connect_failed(c, -rc);
        return;
    }
    c->to = f->ask.to;
    set_deadline(c, f->ask.connect_ms);
}

static void on_begin(struct fl_task *t)
{
    struct fl_http_client *c = fl_container_of(t, struct fl_http_client, begin);
    struct flight *f = c->flight;
    if (f->ask.tls && f->ask.terms == NULL) {
        fail(c, FL_OUTCOME_TLS_FAILED, FL_TLS_UNAVAILABLE, FL_HTTP_ERR_NONE);
    } else if (c->io.fd >= 0 && !f->ask.fresh && fl_addr_eq(&c->to, &f->ask.to) &&
               c->proof == proof_of(&f->ask)) {
        f->reused = true;
        c->writable = true;
        enter_send(c);
    } else {
        start_connect(c);
    }
}

static void on_event(struct fl_io *io, unsigned events)
{
    struct fl_http_client *c = fl_container_of(io, struct fl_http_client, io);
    bool read = (events & (FL_IO_READ | FL_IO_HUP | FL_IO_ERROR)) != 0;
    c->hup = c->hup || (events & (FL_IO_HUP | FL_IO_ERROR)) != 0;
    c->readable = c->readable || read;
    c->writable = c->writable || (events & FL_IO_WRITE) != 0;
    if (c->tls != NULL) {
        fl_tls_edge(c->tls, c->hup);
        if (fl_tls_crossed(c->tls)) {
            c->readable = c->writable = true;
        }
    }
    switch (c->step) {
    case STEP_IDLE:
    case STEP_QUEUED:
        /* its end, or something that nobody asked for; a late ticket is TLS's own affair */
        if (read && (c->tls == NULL || !is_quiet(c))) {
            disconnect(c);
        }
        return;
    case STEP_CONNECT:
        if ((events & (FL_IO_WRITE | FL_IO_HUP | FL_IO_ERROR)) != 0) {
            connected(c);
        }
        return;
    case STEP_SHAKE:
        shake_hands(c);
        return;
    case STEP_SEND:
        send_request(c);
        return;
    case STEP_HEAD:
    case STEP_BODY:
        read_answer(c);
        return;
    }
}

static void on_deadline(struct fl_timer *t)
{
    struct fl_http_client *c = fl_container_of(t, struct fl_http_client, deadline);
    switch (c->step) {
    case STEP_CONNECT:
        fail(c, FL_OUTCOME_CONNECT_TIMEOUT, ETIMEDOUT, FL_HTTP_ERR_NONE);
        return;
    case STEP_SHAKE:
        fail(c, FL_OUTCOME_TLS_FAILED, FL_TLS_TIMEOUT, FL_HTTP_ERR_NONE);
        return;
    case STEP_SEND:
        fail(c, FL_OUTCOME_SEND_TIMEOUT, 0, FL_HTTP_ERR_NONE);
        return;
    case STEP_HEAD:
        fail(c, FL_OUTCOME_READ_TIMEOUT, 0, FL_HTTP_ERR_NONE);
        return;
    case STEP_BODY:
        c->flight->late = true;
        succeed(c, false);
        return;
    case STEP_IDLE:
    case STEP_QUEUED:
        return;
    }
}

/* ---- life ---- */

static void on_bury(struct fl_task *t)
{
    free(fl_container_of(t, struct fl_http_client, bury));
}

int fl_http_client_new(struct fl_reactor *r, fl_http_answered_fn *answered, void *arg,
                       struct fl_http_client **ret)
{
    struct fl_http_client *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return -ENOMEM;
    }
    c->reactor = r;
    c->answered = answered;
    c->arg = arg;
    c->io = (struct fl_io){.fd = -1, .on_event = on_event};
    fl_timer_init(&c->deadline, on_deadline);
    fl_task_init(&c->begin, on_begin);
    fl_task_init(&c->bury, on_bury);
    *ret = c;
    return 0;
}

struct fl_http_client *fl_http_client_free(struct fl_http_client *c)
{
    if (c != NULL) {
        fl_http_client_drop(c);
        fl_timer_remove(c->reactor, &c->deadline);
        fl_reactor_later(c->reactor, &c->bury);
    }
    return NULL;
}

int fl_http_client_ask(struct fl_http_client *c, const struct fl_http_ask *ask)
{
    FL_MUST(c->step == STEP_IDLE);
    struct flight *f = calloc(1, sizeof(*f) + ask->text.len);
    if (f == NULL) {
        return -ENOMEM;
    }
    f->ask = *ask;
    f->ask.keep = ask->keep != 0 ? ask->keep : FL_HTTP_BODY_KEPT;
    f->until_ms = ask->total_ms > 0 ? now_of(c) + ask->total_ms : INT64_MAX;
    if (ask->text.len != 0) {
        memcpy(f->text, ask->text.ptr, ask->text.len);
    }
    f->ask.text.ptr = f->text;
    c->flight = f;
    c->step = STEP_QUEUED;
    fl_reactor_soon(c->reactor, &c->begin);
    return 0;
}

bool fl_http_client_busy(const struct fl_http_client *c)
{
    return c->step != STEP_IDLE;
}

void fl_http_client_drop(struct fl_http_client *c)
{
    disconnect(c);
    fl_timer_off(&c->deadline);
    fl_list_remove(&c->begin.node);
    c->flight = free_flight(c->flight);
    c->step = STEP_IDLE;
}
