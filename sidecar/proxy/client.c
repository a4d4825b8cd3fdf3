#include "sidecar/proxy/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/http1/head_parse.h"
#include "common/io/sock.h"
#include "sidecar/proxy/buffer.h"
#include "sidecar/proxy/exchange.h"
#include "sidecar/proxy/exchange_judge.h"
#include "sidecar/proxy/incoming_head.h"
#include "sidecar/proxy/worker.h"

enum {
    LINGER_MS = 2000,
    REST_MS = 1000, /* a request may be on its way when the process begins to drain */
    DISCARDS_PER_TURN = 16,
    DISCARD_BYTES = 8192,
};

static void receive(struct fl_client *c);
static void process(struct fl_client *c);

static const struct fl_config *config_of(const struct fl_client *c)
{
    return c->worker->snapshot->config;
}

static void recycle(struct fl_task *t)
{
    struct fl_client *c = fl_container_of(t, struct fl_client, task);
    c->next_free = c->worker->free_clients;
    c->worker->free_clients = c;
}

void fl_client_close(struct fl_client *c, bool reset)
{
    if (c->io.fd < 0) {
        return;
    }
    struct fl_worker *w = c->worker;
    if (reset) {
        fl_sock_reset_on_close(c->io.fd);
    }
    fl_window_done(w, &c->window);
    fl_buffer_give(&w->buffers, &c->in);
    fl_timer_remove(w->reactor, &c->timer);
    fl_reactor_close(w->reactor, &c->io);
    fl_list_remove(&c->node);
    fl_list_remove(&c->waiting);
    fl_list_remove(&c->task.node);
    fl_worker_count(&w->client_count, -1);
    fl_task_init(&c->task, recycle);
    fl_reactor_later(w->reactor, &c->task);
}

/* Answered with bytes still coming in: takes them off the socket so that the answer is not lost to
 * an RST (RFC 9112 section 9.6). */
static void discard(struct fl_client *c)
{
    char bytes[DISCARD_BYTES];
    for (unsigned i = 0; i < DISCARDS_PER_TURN && c->readable; i++) {
        ssize_t n = fl_sock_recv(c->io.fd, bytes, sizeof bytes);
        if (n == -EAGAIN) {
            c->readable = false;
            return;
        }
        if (n <= 0) {
            fl_client_close(c, false);
            return;
        }
    }
    if (c->readable) {
        fl_reactor_soon(c->worker->reactor, &c->task);
    }
}

static void linger(struct fl_client *c)
{
    c->lingering = true;
    fl_buffer_give(&c->worker->buffers, &c->in);
    fl_sock_finish(c->io.fd);
    fl_timer_set(c->worker->reactor, &c->timer, fl_worker_now_ms(c->worker) + LINGER_MS);
    discard(c);
}

static void on_event(struct fl_io *io, unsigned events)
{
    struct fl_client *c = fl_container_of(io, struct fl_client, io);
    c->readable = c->readable || (events & (FL_IO_READ | FL_IO_HUP | FL_IO_ERROR)) != 0;
    c->writable = c->writable || (events & FL_IO_WRITE) != 0;
    c->hup = c->hup || (events & FL_IO_HUP) != 0;
    c->failed = c->failed || (events & FL_IO_ERROR) != 0;
    if (c->lingering) {
        discard(c);
    } else if (c->exchange != NULL) {
        fl_exchange_run(c->exchange);
    } else {
        receive(c);
    }
}

static void on_again(struct fl_task *t)
{
    struct fl_client *c = fl_container_of(t, struct fl_client, task);
    if (c->lingering) {
        discard(c);
    } else if (c->exchange == NULL) {
        process(c);
    }
}

static void begin(struct fl_client *c, struct fl_exchange *x)
{
    fl_timer_off(&c->timer);
    fl_exchange_start(x, c);
}

static void refuse_by(struct fl_client *c, struct fl_exchange *x, enum fl_answer a, const char *why)
{
    fl_timer_off(&c->timer);
    fl_exchange_refuse(x, c, a, why);
}

static void refuse(struct fl_client *c, enum fl_answer a, const char *why)
{
    struct fl_exchange *x = fl_exchange_take(c->worker);
    if (x == NULL) {
        fl_client_close(c, false);
        return;
    }
    refuse_by(c, x, a, why);
}

static void on_timeout(struct fl_timer *t)
{
    struct fl_client *c = fl_container_of(t, struct fl_client, timer);
    if (c->exchange != NULL) {
        fl_exchange_tick(c->exchange);
    } else if (!c->lingering && c->in != NULL && !fl_list_empty(&c->waiting)) {
        refuse(c, FL_ANSWER_OVERLOAD, "buffer_memory is spent"); /* the rest may well be there */
    } else if (!c->lingering && c->in != NULL && fl_buffer_len(c->in) > 0) {
        refuse(c, FL_ANSWER_REQUEST_TIMEOUT, "the request head did not arrive in time");
    } else {
        fl_client_close(c, false);
    }
}

/* A head that is not there at once. NONE with *ret_whole false: more bytes are needed. */
static enum fl_http_error parse_in_two_steps(struct fl_client *c, struct fl_request_head *ret,
                                             bool *ret_whole)
{
    size_t limit = (size_t)config_of(c)->header_limit_bytes;
    size_t len = fl_buffer_len(c->in);
    ptrdiff_t end = fl_incoming_head_end(c->in);
    *ret_whole = end > 0;
    if (end < 0) {
        return (enum fl_http_error) - end;
    }
    if ((end == 0 && len >= limit) || (size_t)end > limit) {
        return fl_head_overflow(fl_buffer_at(c->in), len);
    }
    return end > 0 ? fl_request_parse(fl_buffer_at(c->in), (size_t)end, ret) : FL_HTTP_ERR_NONE;
}

/* Looks for a whole head in what is there. True: a request (or a refusal) has begun. */
static bool look(struct fl_client *c)
{
    struct fl_exchange *x = fl_exchange_take(c->worker);
    if (x == NULL) {
        fl_client_close(c, false);
        return true;
    }
    size_t length = fl_incoming_request(c->in, &x->request);
    bool whole = length > 0 && length <= (size_t)config_of(c)->header_limit_bytes;
    enum fl_http_error e = whole ? FL_HTTP_ERR_NONE : parse_in_two_steps(c, &x->request, &whole);
    if (e != FL_HTTP_ERR_NONE) {
        refuse_by(c, x, fl_judge_answer_of(e), fl_http_error_text(e));
        return true;
    }
    if (!whole) {
        fl_exchange_untake(x);
        return false;
    }
    begin(c, x);
    return true;
}

/* False: no buffer now, the client waits for one. */
static bool make_room(struct fl_client *c)
{
    bool first = c->in == NULL;
    if (!fl_incoming_head_room(&c->worker->buffers, &c->in, FL_BUFFER_4K,
                               first ? FL_BUFFER_FOR_HEAD : FL_BUFFER_FOR_LONG_HEAD)) {
        if (fl_list_empty(&c->waiting)) {
            fl_list_append(&c->worker->starved, &c->waiting);
        }
        return false;
    }
    return true;
}

enum read_step { READ_WAIT, READ_LOOK, READ_ENDED };

static enum read_step read_some(struct fl_client *c)
{
    if (!c->readable) {
        return READ_WAIT;
    }
    if (!make_room(c)) {
        if (!c->hup && !c->failed) {
            return READ_WAIT;
        }
        fl_client_close(c, false); /* it has not waited for its turn */
        return READ_ENDED;
    }
    size_t room = fl_buffer_room(c->in);
    fl_exchange_foresee(c->worker->free_exchanges);
    ssize_t n = fl_sock_recv(c->io.fd, c->in->bytes + c->in->end, room);
    if (n == -EAGAIN) {
        c->readable = false;
        return READ_WAIT;
    }
    if (n <= 0) {
        fl_client_close(c, false);
        return READ_ENDED;
    }
    if (fl_buffer_len(c->in) == 0) { /* the head's own limit runs from its first byte */
        fl_timer_set(c->worker->reactor, &c->timer,
                     fl_worker_now_ms(c->worker) + config_of(c)->client.head_timeout_ms);
    }
    c->in->end += (uint32_t)n;
    if ((size_t)n < room && !c->hup) {
        c->readable = false;
    }
    return READ_LOOK;
}

static void rest(struct fl_client *c)
{
    if (c->in != NULL && fl_buffer_len(c->in) == 0) {
        fl_buffer_give(&c->worker->buffers, &c->in);
    }
    fl_client_rest(c);
}

/* Reads. What has come is looked at when all of this turn have read; at once while memory is
 * scarce. */
static void receive(struct fl_client *c)
{
    enum read_step step = read_some(c);
    while (step == READ_LOOK && fl_buffers_scarce(&c->worker->buffers)) {
        if (look(c)) {
            return;
        }
        step = read_some(c);
    }
    if (step == READ_LOOK) {
        fl_reactor_behind(c->worker->reactor, &c->task);
    } else if (step == READ_WAIT) {
        rest(c);
    }
}

static void process(struct fl_client *c)
{
    bool begun = c->in != NULL && fl_buffer_len(c->in) > 0 && look(c);
    if (!begun) {
        receive(c);
    }
}

void fl_client_resume(struct fl_client *c)
{
    if (c->exchange != NULL) {
        fl_exchange_run(c->exchange);
    } else if (!c->lingering) {
        process(c);
    }
}

void fl_client_rest(struct fl_client *c)
{
    bool rests = c->io.fd >= 0 && c->served && c->exchange == NULL && c->in == NULL &&
                 !c->lingering && !c->readable;
    if (rests && c->worker->draining) {
        fl_timer_set(c->worker->reactor, &c->timer, fl_worker_now_ms(c->worker) + REST_MS);
    }
}

void fl_client_open(struct fl_worker *w, int fd, const struct fl_addr *from)
{
    struct fl_client *c = w->free_clients;
    if (c != NULL) {
        w->free_clients = c->next_free;
    } else if ((c = malloc(sizeof *c)) == NULL) {
        fl_sock_close(fd);
        return;
    }
    *c = (struct fl_client){.worker = w, .io = {.fd = -1, .on_event = on_event}};
    fl_list_init(&c->node);
    fl_list_init(&c->waiting);
    fl_timer_init(&c->timer, on_timeout);
    fl_task_init(&c->task, on_again);
    memcpy(c->from_ip, from->ip, sizeof c->from_ip);
    c->from_port = from->port;
    c->from_family = (uint8_t)from->family;
    if (fl_reactor_add(w->reactor, &c->io, fd) != 0) {
        fl_sock_close(fd);
        recycle(&c->task);
        return;
    }
    fl_list_append(&w->clients, &c->node);
    fl_worker_count(&w->client_count, 1);
    fl_tally_add(&w->accepted, 1);
    fl_timer_set(w->reactor, &c->timer, fl_worker_now_ms(w) + config_of(c)->client.idle_timeout_ms);
}

void fl_client_finished(struct fl_client *c, enum fl_client_end end)
{
    FL_MUST(c->exchange == NULL);
    c->served = true;
    switch (end) {
    case FL_CLIENT_KEEP:
        if (c->in == NULL) {
            fl_timer_set(c->worker->reactor, &c->timer,
                         fl_worker_now_ms(c->worker) + config_of(c)->client.idle_timeout_ms);
        } else {
            fl_timer_set(c->worker->reactor, &c->timer,
                         fl_worker_now_ms(c->worker) + config_of(c)->client.head_timeout_ms);
        }
        if (c->in != NULL || c->readable) {
            fl_reactor_soon(c->worker->reactor, &c->task); /* others have their turn first */
        }
        fl_client_rest(c);
        return;
    case FL_CLIENT_DRAIN:
        linger(c);
        return;
    case FL_CLIENT_CLOSE:
    case FL_CLIENT_RESET:
        break;
    }
    fl_client_close(c, end == FL_CLIENT_RESET);
}

void fl_client_print_from(const struct fl_client *c, struct fl_fmt *f)
{
    struct fl_addr a = {.family = (enum fl_addr_family)c->from_family, .port = c->from_port};
    memcpy(a.ip, c->from_ip, sizeof a.ip);
    fl_addr_print_ip(&a, f);
}
