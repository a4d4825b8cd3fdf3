#include "tests/sim/scenarios/origin.h"

#include "common/http1/body_frame.h"
#include "common/http1/headers.h"

struct serving {
    struct fl_list node; /* origin.servings */
    struct origin *origin;
    struct sim_conn *conn;
    struct blob in, out;
    size_t scan, out_at;
    struct fl_request_head head;
    struct fl_body_frame frame;
    const struct plan *plan;
    struct visit *visit; /* NULL: a request that is no deal's */
    uint64_t body_bytes;
    unsigned served;
    unsigned hundred_for;    /* a late 100 belongs to the request that was this one's */
    bool reading_body, busy; /* busy: a request is under way */
    bool request_done, answer_begun, answer_done, closes;
    bool ending; /* the end of the connection is on its way */
};

/* ---- the answer ---- */

static bool has_body(const struct serving *s, int status)
{
    return s->head.method != FL_METHOD_HEAD && status != 204 && status != 304;
}

static void add_padding(struct blob *out, const char *name, uint32_t n)
{
    if (n > 0) {
        blob_printf(out, "%s: ", name);
        memset(blob_room(out, n), 'p', n);
        out->len += n;
        blob_text(out, "\r\n");
    }
}

static void add_hints(const struct serving *s, struct blob *out)
{
    for (unsigned i = 0; i < s->plan->hints; i++) {
        blob_printf(out, "HTTP/1.1 103 Early Hints\r\nlink: </%u>\r\n", i);
        add_padding(out, "x-hint", s->plan->hint_bytes);
        blob_text(out, "\r\n");
    }
}

static void add_head(const struct serving *s, int status, uint32_t bytes, struct blob *out)
{
    const struct plan *p = s->plan;
    blob_printf(out, "HTTP/1.%d %d Whatever\r\n", p->http10 ? 0 : 1, status);
    blob_printf(out, "x-origin: %u\r\n", s->origin->index);
    if (s->visit != NULL) {
        blob_printf(out, "x-for: %s\r\nx-visit: %u\r\n", s->visit->deal->id, s->visit->serial);
    }
    add_padding(out, "x-pad", p->head_bytes);
    if (p->body == PLAN_LENGTH && status != 204 && status != 304) {
        blob_printf(out, "Content-Length: %u\r\n", bytes);
    } else if (p->body == PLAN_CHUNKED && status != 204 && status != 304) {
        blob_text(out, "Transfer-Encoding: chunked\r\n");
    }
    blob_text(out, s->closes && !p->http10 ? "Connection: close\r\n" : "");
    blob_text(out, "\r\n");
}

static void add_made(const struct serving *s, uint64_t from, uint32_t n, struct blob *out)
{
    if (s->plan->text != NULL) {
        blob_add(out, s->plan->text + from, n);
    } else {
        deal_make(out, deal_answer_key(s->visit != NULL ? s->visit->serial : 0), from, n);
    }
}

static void add_body(const struct serving *s, uint32_t bytes, struct blob *out)
{
    if (s->plan->body != PLAN_CHUNKED) {
        add_made(s, 0, bytes, out);
        return;
    }
    uint32_t chunk = 1 + bytes / 3;
    for (uint32_t at = 0; at < bytes; at += chunk) {
        uint32_t n = bytes - at < chunk ? bytes - at : chunk;
        blob_printf(out, "%x\r\n", n);
        add_made(s, at, n, out);
        blob_text(out, "\r\n");
    }
    blob_text(out, "0\r\n");
    if (s->plan->trailers && s->visit != NULL) {
        blob_printf(out, "x-visit-end: %u\r\n", s->visit->serial);
    }
    blob_text(out, "\r\n");
}

static void build(struct serving *s)
{
    const struct plan *p = s->plan;
    int status = p->status != 0 ? p->status : 200;
    uint32_t bytes = p->text != NULL ? (uint32_t)strlen(p->text) : p->body_bytes;
    s->closes = s->closes || p->close || p->http10 || p->body == PLAN_UNTIL_CLOSE;
    if (p->raw != NULL) {
        blob_text(&s->out, p->raw);
        return;
    }
    add_hints(s, &s->out);
    add_head(s, status, bytes, &s->out);
    if (has_body(s, status)) {
        add_body(s, bytes, &s->out);
    }
    for (uint32_t i = 0; i < p->surplus; i++) {
        blob_text(&s->out, "s");
    }
}

static void look(struct serving *s);

static void idle_fin(struct sim_conn *c)
{
    const struct serving *s = c->user;
    if (!s->busy && s->in.len == 0) {
        sim_close(c);
    }
}

static void idle_rst(struct sim_conn *c)
{
    const struct serving *s = c->user;
    if (!s->busy && s->in.len == 0) {
        sim_reset(c);
    }
}

static void next_request(struct serving *s)
{
    if (!s->request_done || !s->answer_done) {
        return;
    }
    struct origin *o = s->origin;
    s->busy = false;
    s->visit = NULL;
    s->served++;
    if (o->fault == ORIGIN_FIN_IDLE || o->fault == ORIGIN_RST_IDLE) {
        sim_conn_after(s->conn, o->fault_at, o->fault == ORIGIN_FIN_IDLE ? idle_fin : idle_rst);
    }
    look(s);
}

/* All of the answer that the plan lets go has been handed over. */
static void answer_ends(struct serving *s, bool whole)
{
    bool cut = s->plan->fault == PLAN_RST_ANSWER || s->plan->fault == PLAN_FIN_ANSWER;
    if (s->visit != NULL) {
        s->visit->answered = whole;
    }
    s->ending = cut;
    if (s->plan->fault == PLAN_RST_ANSWER) {
        sim_reset_when_sent(s->conn);
    } else if (s->plan->fault == PLAN_FIN_ANSWER || (s->closes && whole)) {
        sim_close(s->conn);
    }
    if (whole && !cut) {
        s->answer_done = true;
        s->out.len = s->out_at = 0;
        next_request(s);
    }
}

static void send_piece(struct sim_conn *c)
{
    struct serving *s = c->user;
    const struct plan *p = s->plan;
    bool limited =
        p->fault == PLAN_RST_ANSWER || p->fault == PLAN_FIN_ANSWER || p->fault == PLAN_STALL_ANSWER;
    size_t upto = limited && p->fault_at < s->out.len ? p->fault_at : s->out.len;
    size_t n = upto > s->out_at ? upto - s->out_at : 0;
    size_t piece = s->out_at < p->gush_bytes ? p->gush_bytes - s->out_at : p->piece_bytes;
    n = piece > 0 && n > piece ? piece : n;
    size_t asked_for = s->out.len - p->surplus;
    if (p->piece_bytes > 0 && s->out_at < asked_for && s->out_at + n > asked_for) {
        n = asked_for - s->out_at;
    }
    if (n > 0) {
        sim_send(c, s->out.bytes + s->out_at, n);
    }
    s->out_at += n;
    if (s->out_at < upto) {
        sim_conn_after(c, p->piece_ms, send_piece);
    } else {
        answer_ends(s, s->out_at == s->out.len);
    }
}

static void answer_now(struct sim_conn *c)
{
    struct serving *s = c->user;
    if (s->visit != NULL) {
        s->visit->begun = true;
    }
    build(s);
    send_piece(c);
}

static void begin_answer(struct serving *s)
{
    if (s->answer_begun || s->plan->fault == PLAN_SILENT) {
        return;
    }
    s->answer_begun = true;
    if (s->plan->delay_ms > 0) {
        sim_conn_after(s->conn, s->plan->delay_ms, answer_now);
    } else {
        answer_now(s->conn);
    }
}

/* ---- the request ---- */

static void hundred(struct sim_conn *c)
{
    const struct serving *s = c->user;
    if (s->busy && !s->answer_begun && s->hundred_for == s->served) {
        sim_send_text(c, "HTTP/1.1 100 Continue\r\n\r\n");
    }
}

static void answer_expect(struct serving *s)
{
    if (!s->head.expect_continue || s->plan->when == PLAN_AT_HEAD) {
        return;
    }
    s->hundred_for = s->served;
    switch (s->plan->hundred) {
    case PLAN_HUNDRED_TWICE:
        hundred(s->conn);
        hundred(s->conn);
        break;
    case PLAN_HUNDRED_EARLY:
        hundred(s->conn);
        break;
    case PLAN_HUNDRED_LATE:
        sim_conn_after(s->conn, s->plan->hundred_ms, hundred);
        break;
    case PLAN_HUNDRED_NEVER:
        break;
    }
}

/* True: the plan ends the connection, or its reading, here. */
static bool befalls(struct serving *s)
{
    const struct plan *p = s->plan;
    if (s->body_bytes < p->fault_at) {
        return false;
    }
    switch (p->fault) {
    case PLAN_RST_REQUEST:
        sim_reset(s->conn);
        return true;
    case PLAN_FIN_REQUEST:
        sim_close(s->conn);
        return true;
    case PLAN_HOLD_REQUEST:
        sim_hold(s->conn, true);
        return true;
    case PLAN_SOUND:
    case PLAN_SILENT:
    case PLAN_RST_ANSWER:
    case PLAN_FIN_ANSWER:
    case PLAN_STALL_ANSWER:
        break;
    }
    return false;
}

static struct visit *note_visit(struct serving *s, struct deal *d)
{
    struct bed *b = s->origin->bed;
    struct visit *v = calloc(1, sizeof *v);
    FL_MUST(v != NULL);
    BED_MUST(d->visit_count < DEAL_VISITS, "%s reached origins for the %uth time", d->id,
             d->visit_count + 1);
    if (b->visit_count == b->visit_cap) {
        b->visit_cap = b->visit_cap ? b->visit_cap * 2 : 64;
        b->visits = realloc(b->visits, b->visit_cap * sizeof(struct visit *));
        FL_MUST(b->visits != NULL);
    }
    *v = (struct visit){.serial = b->visit_count,
                        .deal = d,
                        .origin = s->origin,
                        .plan = deal_plan(d, d->visit_count),
                        .at_ms = bed_now_ms(b),
                        .expects = s->head.expect_continue,
                        .reused = s->served > 0};
    b->visits[b->visit_count++] = v;
    d->visits[d->visit_count++] = v;
    bed_say("%s at origin %u, visit %u%s", d->id, s->origin->index, v->serial,
            v->reused ? ", on a kept connection" : "");
    return v;
}

/* What the client sent must have come, and nothing that was for the sidecar alone. */
static void check_head(const struct serving *s)
{
    const struct deal *d = s->visit->deal;
    const char *at = s->in.bytes;
    const struct fl_http_head *h = &s->head.head;
    const struct fl_http_field *end = fl_headers_find_name(at, h, FL_SPAN("x-end"));
    if (d->raw != NULL) {
        return;
    }
    BED_MUST(end != NULL && fl_span_eq(fl_headers_value(at, end), FL_SPAN("\"a  b\" ,c")),
             "%s lost a field on its way", d->id);
    BED_MUST(fl_headers_find_name(at, h, FL_SPAN("x-hop")) == NULL,
             "%s was forwarded with its hop-by-hop field", d->id);
    bool expects = d->expect != DEAL_NO_EXPECT, may = expects || d->bed->gates;
    BED_MUST(s->head.expect_continue ? may : !expects, "%s: Expect", d->id);
    bool chunked = s->head.framing == FL_FRAMING_CHUNKED;
    BED_MUST(chunked == (d->body == DEAL_CHUNKED), "%s: framing changed", d->id);
    BED_MUST(d->body != DEAL_LENGTH || s->head.content_length == d->body_bytes, "%s: length",
             d->id);
}

static bool read_head(struct serving *s)
{
    struct bed *b = s->origin->bed;
    ptrdiff_t end = s->in.len > 0 ? fl_head_end(s->in.bytes, s->in.len, &s->scan) : 0;
    BED_MUST(end >= 0, "origin %u got a malformed head: %.*s", s->origin->index,
             (int)(s->in.len < 200 ? s->in.len : 200), s->in.bytes);
    if (end == 0) {
        return false;
    }
    enum fl_http_error e = fl_request_parse(s->in.bytes, (size_t)end, &s->head);
    BED_MUST(e == FL_HTTP_ERR_NONE, "origin %u got a malformed head (%s): %.*s", s->origin->index,
             fl_http_error_text(e), (int)(end < 200 ? end : 200), s->in.bytes);
    struct fl_span id = fl_headers_get(s->in.bytes, &s->head.head, FL_HTTP_X_REQUEST_ID);
    BED_MUST(id.len > 0, "origin %u got a request without x-request-id", s->origin->index);
    struct deal *d = deal_find(b, id.ptr, id.len);
    static const struct plan plain;
    s->busy = s->reading_body = true;
    s->request_done = s->answer_begun = s->answer_done = s->closes = false;
    s->body_bytes = 0;
    s->visit = d != NULL ? note_visit(s, d) : NULL;
    s->plan = s->visit != NULL ? s->visit->plan : &plain;
    s->origin->requests++;
    if (s->visit != NULL) {
        check_head(s);
    }
    fl_body_frame_init(&s->frame, s->head.framing, s->head.content_length, 65536);
    blob_drop(&s->in, (size_t)end);
    s->scan = 0;
    return true;
}

static void take_data(struct serving *s, struct fl_span data)
{
    if (s->visit != NULL && s->visit->deal->raw == NULL) {
        const struct deal *d = s->visit->deal;
        BED_MUST(deal_same(data.ptr, deal_request_key(d), s->body_bytes, data.len),
                 "%s: its body is not what the client sent, within %llu + %zu", d->id,
                 (unsigned long long)s->body_bytes, data.len);
        BED_MUST(s->body_bytes + data.len <= d->body_bytes, "%s: more body than sent", d->id);
    }
    s->body_bytes += data.len;
    if (s->visit != NULL) {
        s->visit->body_bytes = s->body_bytes;
    }
}

static void request_ends(struct serving *s)
{
    s->reading_body = false;
    s->request_done = true;
    if (s->visit != NULL) {
        const struct deal *d = s->visit->deal;
        s->visit->whole = true;
        s->visit->whole_ms = bed_now_ms(s->origin->bed);
        BED_MUST(d->raw != NULL || d->body == DEAL_NO_BODY || s->body_bytes == d->body_bytes,
                 "%s: ended after %llu body bytes", d->id, (unsigned long long)s->body_bytes);
    }
    begin_answer(s);
    next_request(s);
}

/* False: more bytes are needed, or the connection is done for. */
static bool read_body(struct serving *s)
{
    size_t used = 0;
    struct fl_span data;
    enum fl_body_piece kind = fl_body_frame_next(&s->frame, s->in.bytes, s->in.len, &used, &data);
    BED_MUST(kind != FL_BODY_ERROR, "origin %u got a malformed body (%s)", s->origin->index,
             fl_http_error_text((enum fl_http_error)s->frame.error));
    if (kind == FL_BODY_DATA) {
        take_data(s, data);
    } else if (kind == FL_BODY_TRAILER && s->visit != NULL && s->visit->deal->raw == NULL) {
        const char *id = s->visit->deal->id;
        BED_MUST(data.len == 8 + strlen(id) && memcmp(data.ptr + 8, id, strlen(id)) == 0,
                 "%s: trailer '%.*s'", id, (int)data.len, data.ptr);
    }
    blob_drop(&s->in, used);
    if (kind == FL_BODY_DATA && befalls(s)) {
        return false;
    }
    if (s->plan->when == PLAN_AT_BYTES && s->body_bytes >= s->plan->when_bytes) {
        begin_answer(s);
    }
    if (kind == FL_BODY_END) {
        request_ends(s);
        return false;
    }
    return kind != FL_BODY_MORE;
}

static void look(struct serving *s)
{
    if (s->ending) {
        return;
    }
    if (!s->busy) {
        if (!read_head(s)) {
            return;
        }
        if (befalls(s)) {
            return;
        }
        answer_expect(s);
        if (s->plan->when == PLAN_AT_HEAD) {
            begin_answer(s);
        }
    }
    while (s->reading_body && read_body(s)) {
    }
    BED_MUST(!s->busy || s->reading_body || s->in.len == 0,
             "origin %u got a second request before it had answered the first", s->origin->index);
}

/* ---- the connection ---- */

static void meets(struct origin *o, struct sim_conn *c, enum origin_fault fault, uint32_t at)
{
    switch (fault) {
    case ORIGIN_RST_AFTER:
        if (at > 0) {
            sim_reset_after(c, at);
        } else {
            sim_reset(c);
        }
        break;
    case ORIGIN_DEAF:
        sim_hold(c, true);
        break;
    case ORIGIN_CUT:
        sim_cut(c);
        break;
    case ORIGIN_FIN_IDLE:
    case ORIGIN_RST_IDLE: /* between requests */
    case ORIGIN_WELL:
        break;
    }
    (void)o;
}

static void on_open(struct sim_conn *c)
{
    struct origin *o = c->arg;
    struct serving *s = calloc(1, sizeof *s);
    FL_MUST(s != NULL);
    s->origin = o;
    s->conn = c;
    c->user = s;
    fl_list_append(&o->servings, &s->node);
    o->conns++;
    o->conns_made++;
    uint32_t at = o->fault_at;
    if (o->misfortune != NULL) {
        enum origin_fault f = (enum origin_fault)o->misfortune(o, &at);
        meets(o, c, f, at);
    } else if (o->fault_times > 0) {
        o->fault_times--;
        meets(o, c, o->fault, at);
    }
}

static void on_data(struct sim_conn *c, const char *bytes, size_t n)
{
    struct serving *s = c->user;
    blob_add(&s->in, bytes, n);
    look(s);
}

static void on_eof(struct sim_conn *c)
{
    sim_close(c);
}

static void free_serving(struct serving *s)
{
    fl_list_remove(&s->node);
    blob_done(&s->in);
    blob_done(&s->out);
    free(s);
}

static void on_close(struct sim_conn *c, int err)
{
    struct serving *s = c->user;
    (void)err;
    if (s == NULL) {
        return; /* never opened */
    }
    s->origin->conns--;
    free_serving(s);
    c->user = NULL;
}

static const struct sim_endpoint endpoint = {
    .on_open = on_open, .on_data = on_data, .on_eof = on_eof, .on_close = on_close};

struct origin *origin_new(struct bed *b, unsigned index)
{
    FL_MUST(index < BED_ORIGINS && b->origins[index] == NULL);
    struct origin *o = calloc(1, sizeof *o);
    FL_MUST(o != NULL);
    fl_list_init(&o->servings);
    o->bed = b;
    o->index = index;
    snprintf(o->address, sizeof o->address, "10.0.0.%u:9000", index + 1);
    b->origins[index] = o;
    origin_start(o);
    return o;
}

void origin_start(struct origin *o)
{
    if (!o->listening) {
        sim_listen(o->bed->world, o->address, &endpoint, o);
        o->listening = true;
    }
}

void origin_stop(struct origin *o)
{
    if (o->listening) {
        sim_unlisten(o->bed->world, o->address);
        o->listening = false;
    }
}

void origin_path(struct origin *o, const struct sim_path *path)
{
    sim_set_path(o->bed->world, o->address, path);
}

void origin_connect(struct origin *o, enum sim_connect how)
{
    struct sim_path path = sim_path_default();
    path.connect = how;
    origin_path(o, &path);
}

void origin_free(struct origin *o)
{
    for (struct fl_list *n; (n = fl_list_first(&o->servings)) != NULL;) {
        free_serving(fl_container_of(n, struct serving, node)); /* its cable was cut */
    }
    free(o);
}
