#include "tests/sim/scenarios/user.h"

#include "common/http1/headers.h"
#include "tests/sim/scenarios/origin.h"

enum { CLOSED_WITHIN_MS = 3000 };

static struct deal *current(const struct user *u)
{
    return u->answered < u->asked ? u->deals[u->answered] : NULL;
}

/* ---- sending ---- */

static void leave(struct user *u)
{
    if (u->left || u->conn == NULL) {
        return;
    }
    u->left = true;
    bed_say("client of %s leaves by %s", u->deals[0]->id, u->script.by_reset ? "RST" : "FIN");
    if (u->script.by_reset) {
        sim_reset(u->conn);
    } else {
        sim_close(u->conn);
    }
}

static void leave_now(struct sim_conn *c)
{
    leave(c->user);
}

/* Leaves behind what was queued last. */
static void leave_when_sent(struct user *u)
{
    if (!u->script.by_reset) {
        leave(u);
        return;
    }
    u->left = true;
    sim_reset_when_sent(u->conn);
}

static void pump(struct sim_conn *c)
{
    struct user *u = c->user;
    const struct user_script *s = &u->script;
    size_t left = u->out.len - u->out_at;
    size_t n = s->send_bytes > 0 && left > s->send_bytes ? s->send_bytes : left;
    bool leaves = s->leaves == USER_AT_SENT && u->out_at + n >= s->leaves_at;
    u->sending = false;
    if (u->left) {
        return;
    }
    if (leaves) {
        n = s->leaves_at > u->out_at ? (size_t)(s->leaves_at - u->out_at) : 0;
    }
    sim_send(c, u->out.bytes + u->out_at, n);
    u->out_at += n;
    if (leaves) {
        leave_when_sent(u);
    } else if (u->out_at < u->out.len) {
        u->sending = true;
        sim_conn_after(c, s->send_ms, pump);
    } else if (s->leaves == USER_FINISHES && u->asked == u->deal_count && !u->body_waits) {
        sim_finish(c); /* leaving, to the sidecar */
        for (unsigned i = u->answered; i < u->deal_count; i++) {
            u->deals[i]->abandoned = true;
        }
    }
}

static void go_on_sending(struct user *u)
{
    if (!u->sending && u->open) {
        pump(u->conn);
    }
}

static void send_body(struct sim_conn *c)
{
    struct user *u = c->user;
    if (!u->body_waits || u->over) {
        return;
    }
    u->body_waits = false;
    deal_body_wire(u->deals[u->asked - 1], &u->out);
    u->deals[u->asked - 1]->sent_all = true;
    go_on_sending(u);
}

static void ask(struct user *u)
{
    struct deal *d = u->deals[u->asked++];
    d->sent_any = true;
    d->asked_ms = bed_now_ms(u->bed);
    if (d->raw != NULL) {
        blob_text(&u->out, d->raw);
        d->sent_all = true;
        return;
    }
    deal_head(d, &u->out);
    bool has_body = d->body == DEAL_CHUNKED || (d->body == DEAL_LENGTH && d->body_bytes > 0);
    if (d->expect == DEAL_WAITS && has_body && !u->script.pipelines) {
        u->body_waits = true;
        if (d->expect_ms > 0) {
            sim_conn_after(u->conn, d->expect_ms, send_body);
        }
        return;
    }
    deal_body_wire(d, &u->out);
    d->sent_all = true;
}

static void ask_on(struct user *u)
{
    if (u->over || u->left) {
        return;
    }
    while (u->asked < u->deal_count && (u->script.pipelines || u->asked == u->answered) &&
           (u->asked == 0 || !u->deals[u->asked - 1]->close)) { /* who says close, asks no more */
        ask(u);
    }
    go_on_sending(u);
}

/* ---- answers ---- */

static unsigned number_of(struct fl_span s)
{
    unsigned n = 0;
    for (size_t i = 0; i < s.len; i++) {
        n = n * 10 + (unsigned)(s.ptr[i] - '0');
    }
    return n;
}

static struct fl_span field(const struct user *u, const char *name)
{
    const struct fl_http_field *f =
        fl_headers_find_name(u->in.bytes, &u->answer.head.head, fl_span_of(name));
    return f != NULL ? fl_headers_value(u->in.bytes, f) : FL_SPAN("");
}

static void check_own(struct user *u, struct deal *d, struct fl_span token)
{
    struct fl_span id = field(u, "x-request-id");
    id = id.len > 0 ? id : field(u, "x-amz-request-id");
    BED_MUST(token.len < sizeof d->token, "%s: token too long", d->id);
    memcpy(d->token, token.ptr, token.len);
    u->answer.own = true;
    bool unread = u->bed->memory_short && fl_span_is(token, "overload"); /* its head was not read */
    BED_MUST(d->raw != NULL || unread || fl_span_is(id, d->id),
             "%s got the sidecar's answer for %.*s", d->id, (int)id.len, id.ptr);
    BED_MUST(field(u, "proxy-status").len > 0, "%s: no Proxy-Status", d->id);
    bool unavailable = d->status == 502 || d->status == 503 || d->status == 504;
    BED_MUST((field(u, "retry-after").len > 0) == unavailable, "%s: Retry-After", d->id);
}

static void check_relayed(struct user *u, struct deal *d)
{
    struct fl_span id = field(u, "x-for");
    unsigned serial = number_of(field(u, "x-visit"));
    if (d->raw != NULL && id.len == 0) {
        return;
    }
    BED_MUST(fl_span_is(id, d->id), "%s got the answer for %.*s", d->id, (int)id.len, id.ptr);
    BED_MUST(serial < u->bed->visit_count && u->bed->visits[serial]->deal == d,
             "%s got the answer of visit %u", d->id, serial);
    d->answered_by = u->bed->visits[serial];
    u->answer.key = deal_answer_key(serial);
}

static void final_head(struct user *u, struct deal *d)
{
    d->status = u->answer.head.status;
    struct fl_span token = field(u, "x-fairlead-error");
    u->answer.own = false;
    if (token.len > 0) {
        check_own(u, d, token);
    } else {
        check_relayed(u, d);
    }
    d->answer_closes = !u->answer.head.keep_alive;
    bed_say("%s is answered %d %s", d->id, d->status, d->token);
    u->answer.in_body = true;
    fl_body_frame_init(&u->answer.frame, u->answer.head.framing, u->answer.head.content_length,
                       65536);
}

static void interim_head(struct user *u, struct deal *d)
{
    BED_MUST(!d->http10, "%s: an interim answer to HTTP/1.0", d->id);
    if (u->answer.head.status != 100) {
        d->hints++;
        return;
    }
    d->hundreds++;
    BED_MUST(d->expect != DEAL_NO_EXPECT && d->hundreds == 1, "%s: 100 Continue for the %uth time",
             d->id, d->hundreds);
    send_body(u->conn);
}

static bool read_head(struct user *u)
{
    struct deal *d = current(u);
    if (u->in.len == 0) {
        return false;
    }
    BED_MUST(d != NULL, "bytes that no request asked for, after %s: %.*s",
             u->deals[u->deal_count - 1]->id, (int)(u->in.len < 100 ? u->in.len : 100),
             u->in.bytes);
    ptrdiff_t end = fl_head_end(u->in.bytes, u->in.len, &u->scan);
    BED_MUST(end >= 0, "%s: malformed head of an answer: %.*s", d->id,
             (int)(u->in.len < 200 ? u->in.len : 200), u->in.bytes);
    if (end == 0) {
        return false;
    }
    enum fl_http_method m = d->raw != NULL ? FL_METHOD_GET : fl_method_of(fl_span_of(d->method));
    enum fl_http_error e = fl_response_parse(u->in.bytes, (size_t)end, m, &u->answer.head);
    BED_MUST(e == FL_HTTP_ERR_NONE, "%s: malformed head of an answer (%s): %.*s", d->id,
             fl_http_error_text(e), (int)(end < 200 ? end : 200), u->in.bytes);
    if (u->answer.head.status < 200) {
        interim_head(u, d);
    } else {
        final_head(u, d);
    }
    d->wire_bytes += (uint64_t)end;
    blob_drop(&u->in, (size_t)end);
    u->scan = 0;
    return true;
}

static void must_be_closed(struct sim_conn *c)
{
    const struct user *u = c->user;
    BED_MUST(u->left, "%s was told that the connection closes, and it did not",
             u->deals[u->answered - 1]->id);
}

static bool ends_with(const struct blob *b, const char *text)
{
    size_t n = strlen(text);
    return b->len >= n && memcmp(b->bytes + b->len - n, text, n) == 0;
}

static void answer_ends(struct user *u)
{
    struct deal *d = current(u);
    d->end = DEAL_ANSWERED;
    d->answered_ms = bed_now_ms(u->bed);
    u->answer.in_body = false;
    u->answered++;
    if (u->answer.own && d->reply.len > 0) {
        BED_MUST(ends_with(&d->reply, "</Error>\n") || ends_with(&d->reply, "}\n"),
                 "%s: an answer of the sidecar that does not end: %.*s", d->id, (int)d->reply.len,
                 d->reply.bytes);
    }
    BED_MUST(!u->body_waits || d->answer_closes, "%s: its body may still come, and none can",
             d->id);
    u->body_waits = false;
    if (d->answer_closes) {
        u->over = u->told = true;
        if (u->script.read_ms == 0 && u->script.hold_ms == 0) {
            sim_conn_after(u->conn, CLOSED_WITHIN_MS, must_be_closed);
        }
    } else if (u->answered < u->deal_count) {
        ask_on(u);
    } else if (u->script.leaves != USER_LINGERS && u->script.leaves != USER_FINISHES) {
        leave(u);
    }
}

static void take_data(struct user *u, struct deal *d, struct fl_span data)
{
    if (u->answer.own) {
        blob_add(&d->reply, data.ptr, data.len);
    } else if (d->answered_by != NULL && d->answered_by->plan->raw == NULL) {
        const char *text = d->answered_by->plan->text;
        bool same = text != NULL ? d->got_bytes + data.len <= strlen(text) &&
                                       memcmp(text + d->got_bytes, data.ptr, data.len) == 0
                                 : deal_same(data.ptr, u->answer.key, d->got_bytes, data.len);
        BED_MUST(same, "%s: the body of its answer is not what origin %u sent, within %llu + %zu",
                 d->id, d->answered_by->origin->index, (unsigned long long)d->got_bytes, data.len);
    }
    d->got_bytes += data.len;
}

static bool read_body(struct user *u)
{
    struct deal *d = current(u);
    size_t used = 0;
    struct fl_span data;
    enum fl_body_piece kind =
        fl_body_frame_next(&u->answer.frame, u->in.bytes, u->in.len, &used, &data);
    BED_MUST(kind != FL_BODY_ERROR, "%s: malformed body of an answer (%s)", d->id,
             fl_http_error_text((enum fl_http_error)u->answer.frame.error));
    if (kind == FL_BODY_DATA) {
        take_data(u, d, data);
    } else if (kind == FL_BODY_TRAILER && d->answered_by != NULL &&
               d->answered_by->plan->raw == NULL) {
        struct fl_span value = fl_span_from(data, strlen("x-visit-end: "));
        BED_MUST(number_of(value) == d->answered_by->serial, "%s: trailer '%.*s'", d->id,
                 (int)data.len, data.ptr);
    }
    d->wire_bytes += used;
    blob_drop(&u->in, used);
    if (kind == FL_BODY_END) {
        answer_ends(u);
        return true;
    }
    return kind != FL_BODY_MORE;
}

/* ---- the connection ---- */

static void unhold(struct sim_conn *c)
{
    sim_hold(c, false);
}

static void pause_reading(struct user *u, int64_t ms)
{
    sim_hold(u->conn, true);
    sim_conn_after(u->conn, ms, unhold);
}

static void on_open(struct sim_conn *c)
{
    struct user *u = c->user;
    u->open = true;
    if (u->script.hold_ms > 0) {
        pause_reading(u, u->script.hold_ms);
    }
    if (u->script.leaves == USER_AT_MS) {
        sim_conn_after(c, (int64_t)u->script.leaves_at, leave_now);
    }
    ask_on(u);
}

static void on_data(struct sim_conn *c, const char *bytes, size_t n)
{
    struct user *u = c->user;
    blob_add(&u->in, bytes, n);
    while (u->answer.in_body ? read_body(u) : read_head(u)) {
    }
    if (u->script.leaves == USER_AT_GOT && c->got_bytes >= u->script.leaves_at) {
        leave(u);
    } else if (u->script.read_ms > 0 && !u->left) {
        pause_reading(u, u->script.read_ms);
    }
}

static void on_eof(struct sim_conn *c)
{
    struct user *u = c->user;
    u->over = true;
    if (u->answer.in_body && fl_body_frame_eof(&u->answer.frame)) {
        answer_ends(u);
    }
    sim_close(c);
}

static void on_close(struct sim_conn *c, int err)
{
    struct user *u = c->user;
    u->error = err;
    u->conn = NULL;
    u->open = false;
    u->closed_ms = bed_now_ms(u->bed);
    for (unsigned i = u->answered; i < u->deal_count; i++) {
        struct deal *d = u->deals[i];
        bool begun = i == u->answered && u->answer.in_body;
        if (u->left) {
            d->end = d->sent_any ? DEAL_LEFT : DEAL_UNSENT;
        } else if (begun) {
            d->end = DEAL_TRUNCATED;
        } else {
            d->end = d->sent_any && !u->told && i == u->answered ? DEAL_DROPPED : DEAL_UNSENT;
        }
        bed_say("%s ends %s (%s), %llu bytes of an answer", d->id,
                begun ? "truncated" : "without an answer", strerror(err),
                (unsigned long long)d->wire_bytes);
    }
    u->bed->users_open--;
}

static const struct sim_endpoint endpoint = {
    .on_open = on_open, .on_data = on_data, .on_eof = on_eof, .on_close = on_close};

struct user *user_dial(struct bed *b, const struct user_script *script, struct deal *const *deals,
                       unsigned count)
{
    struct user *u = calloc(1, sizeof *u);
    FL_MUST(u != NULL && count > 0);
    char from[32];
    unsigned number = deals[0]->number;
    snprintf(from, sizeof from, "10.1.%u.%u:%u", number / 200 % 200 + 1, number % 200 + 1,
             20000 + number % 40000);
    u->bed = b;
    u->script = script != NULL ? *script : (struct user_script){0};
    u->deals = malloc(count * sizeof(struct deal *));
    FL_MUST(u->deals != NULL);
    memcpy(u->deals, deals, count * sizeof(struct deal *));
    u->deal_count = count;
    u->dialled_ms = bed_now_ms(b);
    bool has_path = u->script.path.send_bytes > 0;
    u->conn = sim_dial(b->world, from, BED_FRONT, has_path ? &u->script.path : NULL, &endpoint, u);
    u->conn->user = u;
    u->next = b->users;
    b->users = u;
    b->users_open++;
    return u;
}

struct user *user_ask(struct bed *b, struct deal *deal)
{
    return user_dial(b, NULL, &deal, 1);
}

void user_free(struct user *u)
{
    blob_done(&u->out);
    blob_done(&u->in);
    free(u->deals);
    free(u);
}
