#include "tests/support/origin_conn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/origin_ledger.h"
#include "tests/support/origin_store.h"

#define READ_BYTES   ((size_t)65536)
#define IN_MAX       ((size_t)2 << 20)
#define LINGER_US    2000000
#define STOP_IDLE_US 200000
#define MS_US        1000
#define PACE_US      20000 /* how often a rate hands out bytes */

static void conn_ready(struct fl_origin *o, struct fl_origin_io *io, uint32_t events);

static struct fl_origin_conn *conn_of(struct fl_origin_io *io)
{
    return fl_container_of(io, struct fl_origin_conn, io);
}

bool fl_origin_conn_is(const struct fl_origin_io *io)
{
    return io->ready == conn_ready;
}

static void conn_release(struct fl_origin_io *io)
{
    struct fl_origin_conn *c = conn_of(io);
    fl_origin_rule_unref(&c->accept_rule);
    fl_origin_answer_done(&c->an);
    fl_origin_request_done(&c->rq);
    fl_origin_buf_done(&c->in);
    fl_origin_buf_done(&c->out);
    fl_origin_buf_done(&c->upload);
    EVP_MD_CTX_free(c->sha);
    EVP_MD_CTX_free(c->md5);
    free(c);
}

/* Writes the end of the running exchange into ledger and counters. */
static void end_exchange(struct fl_origin *o, struct fl_origin_conn *c, const char *end)
{
    if (!c->seq) {
        return;
    }
    struct fl_origin_entry *e = fl_origin_ledger_entry(o->ledger, c->seq);
    if (e) {
        unsigned len = 0;
        e->end = end;
        e->end_us = o->now_us;
        e->body_bytes = c->rq.body_bytes;
        e->complete = c->rq.body_done;
        e->status = c->an.status;
        e->sent_bytes = c->an.queued_bytes;
        e->has_sha256 =
            c->sha && c->rq.body_bytes && EVP_DigestFinal_ex(c->sha, e->sha256, &len) == 1;
        if (c->rq.trailers.len) {
            e->trailers =
                fl_origin_buf_dup((struct fl_span){c->rq.trailers.base, c->rq.trailers.len});
            e->trailers_len = c->rq.trailers.len;
        }
    }
    if (c->an.rule && c->an.rule->hang) {
        o->stats.hung--;
    }
    o->stats.in_flight--;
    c->seq = 0;
    fl_origin_answer_done(&c->an);
    fl_origin_buf_done(&c->upload);
}

static void close_conn(struct fl_origin *o, struct fl_origin_conn *c, bool rst, const char *end)
{
    end_exchange(o, c, end);
    struct fl_origin_visit *v = fl_origin_ledger_visit(o->ledger, c->id);
    if (v) {
        v->end = v->end && c->lingering ? v->end : end;
        v->end_us = v->end_us ? v->end_us : o->now_us;
        v->requests = c->requests;
        v->bytes_in = c->raw_in;
    }
    o->stats.open--;
    o->stats.own_rst += rst ? 1 : 0;
    fl_origin_close_io(o, &c->io, rst);
}

/* Our FIN, orderly: says no more, then reads on for a while so that what still comes is seen and
 * not answered by a RST. */
static void say_fin(struct fl_origin *o, struct fl_origin_conn *c, const char *end)
{
    end_exchange(o, c, end);
    struct fl_origin_visit *v = fl_origin_ledger_visit(o->ledger, c->id);
    if (v) {
        v->end = end;
        v->end_us = o->now_us;
        v->requests = c->requests;
        v->bytes_in = c->raw_in;
    }
    o->stats.own_fin++;
    shutdown(c->io.fd, SHUT_WR);
    c->lingering = c->reading = true;
    c->out.len = c->out_at = 0;
    c->answer_at_us = c->continue_at_us = c->read_at_us = c->send_at_us = 0;
    c->end_at_us = o->now_us + LINGER_US;
}

static void arm(struct fl_origin *o, struct fl_origin_conn *c)
{
    int64_t idle = 0;
    if (o->set.idle_ms && !c->seq && !c->lingering) {
        idle = c->idle_since_us + o->set.idle_ms * MS_US;
    }
    const int64_t times[] = {c->answer_at_us, c->continue_at_us, c->read_at_us,
                             c->send_at_us,   c->end_at_us,      idle};
    int64_t first = 0;
    for (size_t i = 0; i < FL_COUNTOF(times); i++) {
        if (times[i] && (!first || times[i] < first)) {
            first = times[i];
        }
    }
    fl_origin_wake_at(o, &c->io, first);
    uint32_t interest = c->want_out ? EPOLLOUT : 0u;
    if (c->reading && !c->read_at_us && c->in.len < IN_MAX) {
        interest |= EPOLLIN;
    }
    fl_origin_watch(o, &c->io, interest);
}

static void open_entry(struct fl_origin *o, struct fl_origin_conn *c)
{
    struct fl_origin_entry *e = fl_origin_ledger_open(o->ledger, c->seq);
    if (!e) {
        return;
    }
    e->conn = c->id;
    e->ordinal = c->requests;
    e->at_us = o->now_us;
    e->head = fl_origin_buf_dup((struct fl_span){c->rq.head.base, c->rq.head.len});
    e->head_len = c->rq.head.len;
    if (c->an.rule) {
        e->rule = fl_origin_buf_dup(fl_span_of(c->an.rule->line));
    }
    if (!c->rq.body_done) {
        c->sha = c->sha ? c->sha : EVP_MD_CTX_new();
        EVP_DigestInit_ex(c->sha, EVP_sha256(), NULL);
    }
}

/* Honours Expect and interim bytes at the head. */
static void answer_head_phase(struct fl_origin *o, struct fl_origin_conn *c)
{
    const struct fl_origin_rule *r = c->an.rule;
    if (r && r->interim.len) {
        fl_origin_buf_add(&c->out, r->interim.base, r->interim.len);
    }
    if (c->rq.expect_continue && !c->rq.body_done && !(r && r->early)) {
        int64_t wait_ms = r ? r->continue_ms : 0;
        c->continue_at_us = wait_ms == FL_ORIGIN_CONTINUE_NEVER ? 0 : o->now_us + wait_ms * MS_US;
    }
    if (r && r->early) {
        c->answer_at_us = o->now_us + r->delay_ms * MS_US;
    }
    if (r && r->stop) {
        c->reading = false;
    }
    if (r && r->hang) {
        o->stats.hung++;
    }
}

static void begin_exchange(struct fl_origin *o, struct fl_origin_conn *c)
{
    c->seq = ++o->next_request;
    c->requests++;
    o->stats.requests++;
    o->stats.in_flight++;
    if (o->stats.in_flight > o->stats.in_flight_peak) {
        o->stats.in_flight_peak = o->stats.in_flight;
    }
    c->an.rule = fl_list_empty(&o->rules)
                     ? NULL
                     : fl_origin_rule_pick(o, FL_ORIGIN_AT_REQUEST, c->rq.method, c->rq.target);
    open_entry(o, c);
    bool put = fl_span_is(c->rq.method, "PUT");
    c->keep_upload = put && o->set.store &&
                     !memmem(c->rq.query.ptr, c->rq.query.len, "uploadId=", 9) &&
                     !(c->an.rule && fl_origin_rule_answers(c->an.rule));
    if (put && !c->rq.body_done) {
        c->md5 = c->md5 ? c->md5 : EVP_MD_CTX_new();
        EVP_DigestInit_ex(c->md5, EVP_md5(), NULL);
    }
    answer_head_phase(o, c);
}

/* Tries to start an exchange from the buffered bytes; false when there is no whole head. */
static bool take_head(struct fl_origin *o, struct fl_origin_conn *c)
{
    size_t used = 0;
    int got = c->in.len
                  ? fl_origin_request_head(&c->rq, (struct fl_span){c->in.base, c->in.len}, &used)
                  : 0;
    if (got < 0) {
        o->stats.bad_heads++;
        fl_origin_buf_text(
            &c->out, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        send(c->io.fd, c->out.base, c->out.len, MSG_NOSIGNAL);
        say_fin(o, c, "bad_head");
        return false;
    }
    if (got > 0) {
        fl_origin_buf_eat(&c->in, used);
        begin_exchange(o, c);
    }
    return got > 0;
}

static void take_data(struct fl_origin *o, struct fl_origin_conn *c, struct fl_span data)
{
    struct fl_origin_entry *e = fl_origin_ledger_entry(o->ledger, c->seq);
    if (e) {
        EVP_DigestUpdate(c->sha, data.ptr, data.len);
        if (e->body_start_len < FL_ORIGIN_BODY_START) {
            struct fl_origin_buf start = {e->body_start, e->body_start_len, e->body_start_len};
            struct fl_span piece = fl_span_first(data, FL_ORIGIN_BODY_START - e->body_start_len);
            fl_origin_buf_span(&start, piece);
            e->body_start = start.base;
            e->body_start_len = start.len;
        }
    }
    if (fl_span_is(c->rq.method, "PUT")) {
        EVP_DigestUpdate(c->md5, data.ptr, data.len);
    }
    if (c->keep_upload) {
        c->keep_upload = fl_origin_store_bytes(o->store) + c->upload.len + data.len <=
                         (uint64_t)o->set.store_max;
        if (c->keep_upload) {
            fl_origin_buf_span(&c->upload, data);
        } else {
            fl_origin_buf_done(&c->upload);
        }
    }
}

/* Takes what is there of the body; false when the connection is gone. */
static bool take_body(struct fl_origin *o, struct fl_origin_conn *c)
{
    size_t at = 0;
    const struct fl_origin_rule *r = c->an.rule;
    while (!c->rq.body_done && at < c->in.len) {
        struct fl_span data;
        ssize_t used = fl_origin_request_body(
            &c->rq, (struct fl_span){c->in.base + at, c->in.len - at}, &data);
        if (used < 0) {
            o->stats.bad_heads++;
            say_fin(o, c, "bad_chunk");
            return false;
        }
        if (data.len) {
            take_data(o, c, data);
        }
        at += (size_t)used;
    }
    fl_origin_buf_eat(&c->in, at);
    if (r && r->rst_request >= 0 &&
        (c->rq.body_bytes >= (uint64_t)r->rst_request || c->rq.body_done)) {
        close_conn(o, c, true, "own_rst");
        return false;
    }
    return true;
}

static void write_journal(const struct fl_origin *o, const struct fl_origin_conn *c)
{
    struct fl_origin_buf line = {NULL, 0, 0};
    fl_origin_buf_printf(&line, "%" PRId64 " %d ", o->now_us, c->an.status);
    fl_origin_buf_span(&line, c->rq.method);
    fl_origin_buf_text(&line, " ");
    fl_origin_buf_span(&line, c->rq.target);
    fl_origin_buf_text(&line, "\n");
    if (write(o->journal_fd, line.base, line.len) != (ssize_t)line.len) {
        abort(); /* evidence that is lost proves nothing */
    }
    fl_origin_buf_done(&line);
}

static void consider_answer(struct fl_origin *o, struct fl_origin_conn *c)
{
    const struct fl_origin_rule *r = c->an.rule;
    if (c->continue_at_us && o->now_us >= c->continue_at_us) {
        c->continue_at_us = 0;
        o->stats.continues++;
        fl_origin_buf_text(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
    }
    if (c->an.started || (r && (r->hang || r->stop) && !r->early)) {
        return;
    }
    if (!c->answer_at_us && c->rq.body_done) {
        c->answer_at_us = o->now_us + (r ? r->delay_ms * MS_US : 0);
    }
    if (c->answer_at_us && o->now_us >= c->answer_at_us) {
        c->answer_at_us = c->continue_at_us = 0;
        fl_origin_answer_start(o, c);
        if (o->journal_fd >= 0) {
            write_journal(o, c);
        }
    }
}

/* Sends what is queued and feeds more; false when the connection is gone. */
static bool pump_out(struct fl_origin *o, struct fl_origin_conn *c)
{
    for (;;) {
        while (c->out_at < c->out.len) {
            ssize_t n =
                send(c->io.fd, c->out.base + c->out_at, c->out.len - c->out_at, MSG_NOSIGNAL);
            if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
                c->want_out = true;
                return true;
            }
            if (n < 0) {
                o->stats.peer_rst++;
                close_conn(o, c, false, "peer_rst");
                return false;
            }
            o->stats.bytes_out += (uint64_t)n;
            c->out_at += (size_t)n;
        }
        c->want_out = false;
        c->out.len = c->out_at = 0;
        if (!c->an.started || c->an.queued || c->send_at_us || !fl_origin_answer_feed(o, c)) {
            break;
        }
    }
    if (c->an.started && c->an.queued && !c->an.finished) {
        if (c->an.queued_bytes < c->an.limit) {
            c->an.finished = true;
        } else if (c->an.end != FL_ORIGIN_END_STALL && !c->end_at_us) {
            c->end_at_us = o->now_us + (c->an.rule ? c->an.rule->end_ms : 0) * MS_US;
        }
    }
    return true;
}

/* The exchange is over; false when that also ends the connection. */
static bool finish_exchange(struct fl_origin *o, struct fl_origin_conn *c)
{
    bool close_after = c->an.close_after || o->stopping;
    o->stats.answered++;
    if (close_after) {
        say_fin(o, c, "answered");
        return false;
    }
    end_exchange(o, c, "answered");
    c->idle_since_us = o->now_us;
    return true;
}

static void run(struct fl_origin *o, struct fl_origin_conn *c)
{
    while (!c->lingering && (c->seq || take_head(o, c))) {
        if (c->reading && !take_body(o, c)) {
            break;
        }
        consider_answer(o, c);
        if (!pump_out(o, c)) {
            break;
        }
        if (!c->an.finished || !(c->rq.body_done || c->an.close_after)) {
            break;
        }
        if (!finish_exchange(o, c)) {
            break;
        }
    }
    if (!c->io.dead) {
        arm(o, c);
    }
}

/* Rules for the connection itself; true when it was closed. */
static bool obey_accept_rule(struct fl_origin *o, struct fl_origin_conn *c)
{
    const struct fl_origin_rule *r = c->accept_rule;
    if (!r) {
        return false;
    }
    bool over = r->rst_after >= 0 && c->raw_in >= (uint64_t)r->rst_after;
    if (over) {
        close_conn(o, c, true, "own_rst");
        return true;
    }
    if (r->close_after >= 0 && c->raw_in >= (uint64_t)r->close_after) {
        say_fin(o, c, "own_fin");
        arm(o, c);
        return true;
    }
    return false;
}

static void read_some(struct fl_origin *o, struct fl_origin_conn *c)
{
    size_t want = READ_BYTES;
    int64_t rate = c->seq && c->an.rule && !c->rq.body_done ? c->an.rule->read_rate : 0;
    if (rate) {
        want = (size_t)(rate * PACE_US / 1000000) + 1;
    }
    ssize_t n = recv(c->io.fd, fl_origin_buf_room(&c->in, want), want, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        o->stats.peer_fin += n == 0 ? 1 : 0;
        o->stats.peer_rst += n < 0 ? 1 : 0;
        close_conn(o, c, false, n == 0 ? "peer_fin" : "peer_rst");
        return;
    }
    c->raw_in += (uint64_t)n;
    o->stats.bytes_in += (uint64_t)n;
    if (c->lingering) {
        struct fl_origin_visit *v = fl_origin_ledger_visit(o->ledger, c->id);
        if (v) {
            v->late_bytes += (uint64_t)n;
        }
        return;
    }
    c->in.len += (size_t)n;
    if (rate) {
        c->read_at_us = o->now_us + PACE_US;
    }
    if (!obey_accept_rule(o, c)) {
        run(o, c);
    }
}

static void conn_ready(struct fl_origin *o, struct fl_origin_io *io, uint32_t events)
{
    struct fl_origin_conn *c = conn_of(io);
    if (events & (EPOLLERR | EPOLLHUP) && !(io->interest & EPOLLIN)) {
        o->stats.peer_rst++;
        close_conn(o, c, false, events & EPOLLERR ? "peer_rst" : "peer_fin");
        return;
    }
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
        read_some(o, c);
    }
    if (!io->dead && events & EPOLLOUT) {
        run(o, c);
    }
}

static void reach_end(struct fl_origin *o, struct fl_origin_conn *c)
{
    const struct fl_origin_rule *r = c->accept_rule;
    c->end_at_us = 0;
    if (c->lingering) {
        close_conn(o, c, false, "own_fin");
    } else if (c->seq ? c->an.end == FL_ORIGIN_END_RST : r && r->rst) {
        close_conn(o, c, true, "own_rst");
    } else {
        say_fin(o, c, "own_fin");
    }
}

static void conn_wake(struct fl_origin *o, struct fl_origin_io *io)
{
    struct fl_origin_conn *c = conn_of(io);
    if (c->end_at_us && o->now_us >= c->end_at_us) {
        reach_end(o, c);
    }
    if (!io->dead && !c->lingering && !c->seq && o->set.idle_ms && c->in.len == 0 &&
        o->now_us >= c->idle_since_us + o->set.idle_ms * MS_US) {
        say_fin(o, c, "own_idle_fin");
    }
    if (io->dead) {
        return;
    }
    c->read_at_us = o->now_us >= c->read_at_us ? 0 : c->read_at_us;
    c->send_at_us = o->now_us >= c->send_at_us ? 0 : c->send_at_us;
    run(o, c);
}

void fl_origin_conn_accept(struct fl_origin *o, int fd, const char *peer)
{
    struct fl_origin_conn *c = calloc(1, sizeof(*c));
    if (!c) {
        abort();
    }
    c->io = (struct fl_origin_io){
        .fd = fd, .ready = conn_ready, .wake = conn_wake, .release = conn_release};
    c->id = ++o->next_conn;
    c->reading = true;
    c->idle_since_us = o->now_us;
    fl_list_append(&o->ios, &c->io.link);
    o->stats.accepted++;
    o->stats.open++;
    struct fl_origin_visit *v = fl_origin_ledger_arrive(o->ledger, c->id);
    if (v) {
        v->at_us = o->now_us;
        snprintf(v->peer, sizeof(v->peer), "%s", peer);
    }
    c->accept_rule = fl_origin_rule_pick(o, FL_ORIGIN_AT_ACCEPT, (struct fl_span){"", 0},
                                         (struct fl_span){"", 0});
    const struct fl_origin_rule *r = c->accept_rule;
    if (r && (r->rst || r->close) && !r->delay_ms) {
        close_conn(o, c, r->rst != 0, r->rst ? "own_rst" : "own_fin");
        return;
    }
    if (r && (r->rst || r->close)) {
        c->end_at_us = o->now_us + r->delay_ms * MS_US;
    }
    if (r && (r->stop || r->rst || r->close)) {
        c->reading = false;
    }
    if (!obey_accept_rule(o, c)) {
        arm(o, c);
    }
}

void fl_origin_conn_release_hung(struct fl_origin *o)
{
    fl_list_each_safe (it, next, &o->ios) {
        struct fl_origin_io *io = fl_container_of(it, struct fl_origin_io, link);
        struct fl_origin_conn *c = fl_origin_conn_is(io) ? conn_of(io) : NULL;
        if (c && c->seq && c->an.rule && (c->an.rule->hang || c->an.rule->stop)) {
            o->stats.hung -= c->an.rule->hang ? 1 : 0;
            fl_origin_rule_unref(&c->an.rule);
            c->reading = true;
            run(o, c);
        }
    }
}

void fl_origin_conn_drop(struct fl_origin *o, bool idle_only, bool rst)
{
    fl_list_each_safe (it, next, &o->ios) {
        struct fl_origin_io *io = fl_container_of(it, struct fl_origin_io, link);
        struct fl_origin_conn *c = fl_origin_conn_is(io) ? conn_of(io) : NULL;
        if (!c || (idle_only && c->seq) || c->lingering) {
            continue;
        }
        if (rst) {
            close_conn(o, c, true, "own_rst");
        } else {
            say_fin(o, c, "own_fin");
            arm(o, c);
        }
    }
}

void fl_origin_conn_stop_idle(struct fl_origin *o)
{
    fl_list_each_safe (it, next, &o->ios) {
        struct fl_origin_io *io = fl_container_of(it, struct fl_origin_io, link);
        struct fl_origin_conn *c = fl_origin_conn_is(io) ? conn_of(io) : NULL;
        if (c && !c->seq && !c->lingering && c->in.len == 0 &&
            o->now_us - c->idle_since_us >= STOP_IDLE_US) {
            say_fin(o, c, "own_fin");
            arm(o, c);
        }
    }
}
