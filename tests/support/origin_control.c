/* The control port: small HTTP/1.1, so that curl and http.client drive it.
 *   GET    /stats                 counters                     DELETE /ledger   clears ledger and
 * counters GET    /ledger[?since=SEQ]    what came, as JSON           DELETE /store    forgets all
 * objects GET    /rules                 the rules and their hits     POST /rules      adds rules,
 * PUT replaces, DELETE clears POST   /set                   lines "name=value"           POST
 * /release    answers what `hang` and `stop` hold POST   /refuse                closes the
 * listening socket  POST /listen     opens it again POST   /drop[?how=rst|fin][&idle=1]   ends open
 * connections */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/origin_conn.h"
#include "tests/support/origin_control.h"
#include "tests/support/origin_ledger.h"
#include "tests/support/origin_store.h"

struct control {
    struct fl_origin_io io;
    struct fl_origin_request rq;
    struct fl_origin_buf in, body, out;
    size_t out_at;
    bool in_request, close_after;
};

static void print_stats(const struct fl_origin *o, struct fl_origin_buf *out)
{
    const struct fl_origin_stats *s = &o->stats;
    fl_origin_buf_printf(out,
                         "{\"name\":\"%s\",\"now_us\":%" PRId64
                         ",\"listening\":%s,\"accepted\":%" PRIu64 ",\"requests\":%" PRIu64
                         ",\"answered\":%" PRIu64 ",\"bad_heads\":%" PRIu64
                         ",\"continues\":%" PRIu64,
                         o->name, o->now_us, o->listen_fd >= 0 ? "true" : "false", s->accepted,
                         s->requests, s->answered, s->bad_heads, s->continues);
    fl_origin_buf_printf(out,
                         ",\"peer_fin\":%" PRIu64 ",\"peer_rst\":%" PRIu64 ",\"own_fin\":%" PRIu64
                         ",\"own_rst\":%" PRIu64 ",\"bytes_in\":%" PRIu64 ",\"bytes_out\":%" PRIu64,
                         s->peer_fin, s->peer_rst, s->own_fin, s->own_rst, s->bytes_in,
                         s->bytes_out);
    fl_origin_buf_printf(out,
                         ",\"open\":%" PRId64 ",\"in_flight\":%" PRId64
                         ",\"in_flight_peak\":%" PRId64 ",\"hung\":%" PRId64 ",\"objects\":%" PRIu64
                         ",\"object_bytes\":%" PRIu64 "}\n",
                         s->open, s->in_flight, s->in_flight_peak, s->hung,
                         fl_origin_store_count(o->store), fl_origin_store_bytes(o->store));
}

static void print_rules(const struct fl_origin *o, struct fl_origin_buf *out)
{
    const char *comma = "";
    fl_origin_buf_text(out, "[");
    fl_list_each (it, &o->rules) {
        const struct fl_origin_rule *r = fl_container_of(it, struct fl_origin_rule, link);
        fl_origin_buf_printf(out, "%s{\"hits\":%" PRIu64 ",\"left\":%" PRId64 ",\"line\":", comma,
                             r->hits, r->count);
        fl_origin_buf_json(out, fl_span_of(r->line));
        fl_origin_buf_text(out, "}");
        comma = ",\n";
    }
    fl_origin_buf_text(out, "]\n");
}

static void clear_stats(struct fl_origin *o)
{
    struct fl_origin_stats *s = &o->stats;
    *s = (struct fl_origin_stats){.open = s->open,
                                  .in_flight = s->in_flight,
                                  .in_flight_peak = s->in_flight,
                                  .hung = s->hung};
}

bool fl_origin_control_set(struct fl_origin *o, struct fl_span line)
{
    const struct {
        const char *name;
        int64_t *at;
    } names[] = {
        {"idle_ms", &o->set.idle_ms},
        {"keepalive", &o->set.keepalive},
        {"keepalive_silent", &o->set.keepalive_silent},
        {"missing", &o->set.missing},
        {"store", &o->set.store},
        {"store_max", &o->set.store_max},
        {"rcvbuf", &o->set.rcvbuf},
        {"sndbuf", &o->set.sndbuf},
    };
    ptrdiff_t eq = fl_span_find(line, '=');
    struct fl_span name = eq < 0 ? line : fl_span_first(line, (size_t)eq);
    char value[32] = "";
    if (eq >= 0) {
        struct fl_span rest = fl_span_trim(fl_span_from(line, (size_t)eq + 1));
        fl_origin_buf_text_of(rest, value, sizeof(value));
    }
    char *end = NULL;
    long long v = strtoll(value, &end, 10);
    for (size_t i = 0; i < FL_COUNTOF(names); i++) {
        if (fl_span_is(fl_span_trim(name), names[i].name) && end != value && *end == '\0' &&
            v >= 0) {
            *names[i].at = v;
            return true;
        }
    }
    return false;
}

static bool set_lines(struct fl_origin *o, struct fl_span text, char *error, size_t cap)
{
    while (text.len) {
        ptrdiff_t end = fl_span_find(text, '\n');
        struct fl_span line = fl_span_trim(end < 0 ? text : fl_span_first(text, (size_t)end));
        text = end < 0 ? fl_span_from(text, text.len) : fl_span_from(text, (size_t)end + 1);
        if (line.len && !fl_origin_control_set(o, line)) {
            snprintf(error, cap, "bad setting (NAME=VALUE, one a line)");
            return false;
        }
    }
    return true;
}

static bool query_has(const struct control *k, const char *text)
{
    return memmem(k->rq.query.ptr, k->rq.query.len, text, strlen(text)) != NULL;
}

/* Commands without an answer of their own; false when the path is unknown. */
static bool command(struct fl_origin *o, const struct control *k)
{
    struct fl_span path = k->rq.path;
    if (fl_span_is(path, "/release")) {
        fl_origin_conn_release_hung(o);
    } else if (fl_span_is(path, "/refuse")) {
        fl_origin_refuse(o);
    } else if (fl_span_is(path, "/listen")) {
        return fl_origin_listen(o) == 0;
    } else if (fl_span_is(path, "/drop")) {
        fl_origin_conn_drop(o, query_has(k, "idle=1"), !query_has(k, "how=fin"));
    } else {
        return false;
    }
    return true;
}

static int handle_rules(struct fl_origin *o, struct control *k, struct fl_origin_buf *out,
                        char *error, size_t cap)
{
    struct fl_span text = {k->body.base ? k->body.base : "", k->body.len};
    if (fl_span_is(k->rq.method, "DELETE")) {
        fl_origin_rule_clear(o);
    } else if (!fl_span_is(k->rq.method, "GET") &&
               !fl_origin_rule_add_lines(o, text, fl_span_is(k->rq.method, "PUT"), error, cap)) {
        return 400;
    }
    print_rules(o, out);
    return 200;
}

static int handle(struct fl_origin *o, struct control *k, struct fl_origin_buf *out, char *error,
                  size_t cap)
{
    struct fl_span path = k->rq.path;
    bool get = fl_span_is(k->rq.method, "GET"), drop = fl_span_is(k->rq.method, "DELETE");
    if (fl_span_is(path, "/rules")) {
        return handle_rules(o, k, out, error, cap);
    }
    if (fl_span_is(path, "/stats") && get) {
        print_stats(o, out);
        return 200;
    }
    if (fl_span_is(path, "/ledger") && get) {
        if (!o->ledger) {
            snprintf(error, cap, "started with --no-ledger");
            return 400;
        }
        uint64_t since = query_has(k, "since=") ? strtoull(k->rq.query.ptr + 6, NULL, 10) : 0;
        fl_origin_buf_printf(out, "{\"name\":\"%s\",\"now_us\":%" PRId64 ",", o->name, o->now_us);
        fl_origin_ledger_print(o->ledger, since, out);
        fl_origin_buf_text(out, "}\n");
        return 200;
    }
    if (fl_span_is(path, "/ledger") && drop) {
        fl_origin_ledger_clear(o->ledger);
        clear_stats(o);
    } else if (fl_span_is(path, "/store") && drop) {
        fl_origin_store_free(o->store);
        o->store = fl_origin_store_new();
    } else if (fl_span_is(path, "/set") && !get) {
        if (!set_lines(o, (struct fl_span){k->body.base ? k->body.base : "", k->body.len}, error,
                       cap)) {
            return 400;
        }
    } else if (get || drop || !command(o, k)) {
        snprintf(error, cap, "no such command");
        return 404;
    }
    fl_origin_buf_text(out, "{}\n");
    return 200;
}

static void answer(struct fl_origin *o, struct control *k)
{
    char error[200] = "";
    struct fl_origin_buf text = {NULL, 0, 0};
    int status = handle(o, k, &text, error, sizeof(error));
    if (status != 200) {
        fl_origin_buf_text(&text, "{\"error\":");
        fl_origin_buf_json(&text, fl_span_of(error));
        fl_origin_buf_text(&text, "}\n");
    }
    k->close_after = k->rq.wants_close || k->rq.minor == 0;
    fl_origin_buf_printf(
        &k->out,
        "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n", status,
        status == 200 ? "OK" : "Error", text.len, k->close_after ? "Connection: close\r\n" : "");
    fl_origin_buf_add(&k->out, text.base, text.len);
    fl_origin_buf_done(&text);
    k->body.len = 0;
    k->in_request = false;
}

/* Takes requests from the buffered bytes; false when they are broken. */
static bool take_requests(struct fl_origin *o, struct control *k)
{
    for (;;) {
        size_t used = 0;
        struct fl_span in = {k->in.base, k->in.len};
        if (!k->in_request) {
            int got = k->in.len ? fl_origin_request_head(&k->rq, in, &used) : 0;
            if (got <= 0) {
                return got == 0;
            }
            k->in_request = true;
            fl_origin_buf_eat(&k->in, used);
            if (k->rq.expect_continue) {
                fl_origin_buf_text(&k->out, "HTTP/1.1 100 Continue\r\n\r\n");
            }
        }
        while (!k->rq.body_done && k->in.len) {
            struct fl_span data;
            ssize_t n =
                fl_origin_request_body(&k->rq, (struct fl_span){k->in.base, k->in.len}, &data);
            if (n < 0) {
                return false;
            }
            fl_origin_buf_span(&k->body, data);
            fl_origin_buf_eat(&k->in, (size_t)n);
        }
        if (!k->rq.body_done) {
            return true;
        }
        answer(o, k);
    }
}

static void control_ready(struct fl_origin *o, struct fl_origin_io *io, uint32_t events)
{
    struct control *k = fl_container_of(io, struct control, io);
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
        ssize_t n = recv(io->fd, fl_origin_buf_room(&k->in, 16384), 16384, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            fl_origin_close_io(o, io, false);
            return;
        }
        k->in.len += n > 0 ? (size_t)n : 0;
        if (!take_requests(o, k)) {
            fl_origin_close_io(o, io, false);
            return;
        }
    }
    while (k->out_at < k->out.len) {
        ssize_t n = send(io->fd, k->out.base + k->out_at, k->out.len - k->out_at, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            fl_origin_close_io(o, io, false);
            return;
        }
        if (n < 0) {
            fl_origin_watch(o, io, EPOLLIN | EPOLLOUT);
            return;
        }
        k->out_at += (size_t)n;
    }
    k->out_at = k->out.len = 0;
    if (k->close_after) {
        fl_origin_close_io(o, io, false);
        return;
    }
    fl_origin_watch(o, io, EPOLLIN);
}

static void control_release(struct fl_origin_io *io)
{
    struct control *k = fl_container_of(io, struct control, io);
    fl_origin_request_done(&k->rq);
    fl_origin_buf_done(&k->in);
    fl_origin_buf_done(&k->body);
    fl_origin_buf_done(&k->out);
    free(k);
}

void fl_origin_control_accept(struct fl_origin *o, int fd)
{
    struct control *k = calloc(1, sizeof(*k));
    if (!k) {
        abort();
    }
    k->io = (struct fl_origin_io){.fd = fd, .ready = control_ready, .release = control_release};
    fl_list_append(&o->ios, &k->io.link);
    fl_origin_watch(o, &k->io, EPOLLIN);
}
