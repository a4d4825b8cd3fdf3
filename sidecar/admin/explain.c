#include "sidecar/admin/explain.h"

#include <stdlib.h>

#include "common/http1/headers.h"
#include "sidecar/admin/diagnosis.h"
#include "sidecar/admin/view.h"
#include "sidecar/policy/route.h"

#define HEAD_MAX    8192
#define HEADERS_MAX 32

struct question {
    const struct fl_control *c;
    char text[HEAD_MAX]; /* the request head */
    size_t len;
    struct fl_request_head head;
    enum fl_http_error error;
    struct fl_span path, query;
    char scratch[FL_ROUTE_SCRATCH];
    struct fl_routed routed;
    struct fl_operation op;
};

/* "Name:value" as a field line; a Host among them stands in for ours. */
static bool put_fields(struct fl_mhd_call *call, struct fl_fmt *f)
{
    bool host = false;
    for (unsigned i = 0; i < HEADERS_MAX; i++) {
        char value[2048];
        struct fl_span one;
        if (!fl_mhd_query(call, "header", i, value, sizeof(value), &one)) {
            break;
        }
        if (memchr(one.ptr, '\r', one.len) != NULL || memchr(one.ptr, '\n', one.len) != NULL) {
            return false;
        }
        host |= fl_span_ieq(fl_span_first(one, 5), FL_SPAN("host:"));
        fl_fmt_span(f, one);
        fl_fmt_text(f, "\r\n");
    }
    fl_fmt_text(f, host ? "\r\n" : "Host: localhost\r\n\r\n");
    return !f->cut;
}

static bool put_line(struct fl_mhd_call *call, struct fl_fmt *f)
{
    char method[64], target[4096];
    struct fl_span m = FL_SPAN("GET"), t;
    (void)fl_mhd_query(call, "method", 0, method, sizeof(method), &m);
    if (!fl_mhd_query(call, "target", 0, target, sizeof(target), &t)) {
        return false;
    }
    fl_fmt_span(f, m);
    fl_fmt_char(f, ' ');
    fl_fmt_span(f, t);
    fl_fmt_text(f, " HTTP/1.1\r\n");
    return true;
}

static void split_target(struct question *q)
{
    struct fl_span path = {q->text + q->head.path_off, q->head.path_len};
    ptrdiff_t mark = fl_span_find(path, '?');
    q->query = mark < 0 ? (struct fl_span){0} : fl_span_from(path, (size_t)mark + 1);
    q->path = mark < 0 ? path : fl_span_first(path, (size_t)mark);
    if (q->path.len == 0) {
        q->path = FL_SPAN("/");
    }
}

/* The header facts that the data path looks at (sidecar/proxy/exchange_begin). */
static void classify(struct question *q)
{
    struct fl_operation_facts f = {.method = q->head.method,
                                   .path = q->path,
                                   .query = q->query,
                                   .bucket_in_host = q->routed.bucket_in_host};
    static const enum fl_http_id conditions[] = {
        FL_HTTP_IF_MATCH,
        FL_HTTP_IF_NONE_MATCH,
        FL_HTTP_IF_MODIFIED_SINCE,
        FL_HTTP_IF_UNMODIFIED_SINCE,
        FL_HTTP_X_AMZ_COPY_SOURCE_IF,
        FL_HTTP_X_AMZ_IF_MATCH,
    };
    for (size_t i = 0; i < FL_COUNTOF(conditions); i++) {
        f.conditional |= fl_headers_find(&q->head.head, conditions[i]) != NULL;
    }
    f.copy_source = fl_headers_find(&q->head.head, FL_HTTP_X_AMZ_COPY_SOURCE) != NULL;
    f.write_offset = fl_headers_find(&q->head.head, FL_HTTP_X_AMZ_WRITE_OFFSET_BYTES) != NULL;
    const struct fl_snap_backend *b = q->routed.policy->backend;
    q->op = fl_s3_operation_of(b != NULL ? b->conf->protocol : FL_PROTOCOL_HTTP, &f);
}

static const char *deadline_name(enum fl_deadline_kind d)
{
    switch (d) {
    case FL_DEADLINE_CONTROL:
        return "control";
    case FL_DEADLINE_UPLOAD:
        return "upload";
    case FL_DEADLINE_LONG:
        break;
    }
    return "long";
}

/* Of one that is passed over: the verdict's, or what the last attempt there found. */
static void put_peer_cause(struct fl_json *j, const struct fl_snap_peer *p, bool eligible)
{
    struct fl_cause cause = {.code = ""};
    if (!eligible && p->gated) {
        cause = p->verdict.cause;
    } else if (!eligible) {
        fl_backend_peer_cause(p->peer, &cause);
    }
    fl_json_text(j, "cause", cause.text);
}

static void put_peers(const struct question *q, struct fl_json *j)
{
    const struct fl_snap_policy *p = q->routed.policy;
    const struct fl_snap_backend *b = p->backend;
    const struct fl_ask ask = {.now_ms = fl_control_now_ms(q->c),
                               .first_try = true,
                               .replayable = true,
                               .write = q->op.write};
    fl_json_open(j, "peers", '[');
    for (uint32_t i = 0; b != NULL && i < b->peer_count; i++) {
        int64_t until_ms = 0;
        const char *why = fl_backend_why_not(b, p, i, &ask, &until_ms);
        bool eligible = strcmp(why, "eligible") == 0;
        fl_json_open(j, NULL, '{');
        fl_json_text(j, "address", b->peers[i].peer->address);
        fl_json_text(j, "tier", fl_view_tier(b->peers[i].conf->tier));
        fl_json_bool(j, "eligible", eligible);
        fl_json_text(j, "why", eligible ? "" : why);
        put_peer_cause(j, &b->peers[i], eligible);
        fl_json_time(j, "until", fl_view_unix_ms(q->c, until_ms));
        fl_json_close(j, '}');
    }
    fl_json_close(j, ']');
}

/* What the sidecar would answer by itself at once, as far as that is certain before sending. */
static enum fl_answer answer_of(const struct question *q)
{
    const struct fl_snap_policy *p = q->routed.policy;
    if (q->routed.answer != FL_ANSWER_NONE || p == NULL || p->backend == NULL) {
        return q->routed.answer;
    }
    if (p->backend->gated) {
        return FL_ANSWER_BACKEND_UNAVAILABLE;
    }
    return p->backend->has_members ? FL_ANSWER_NONE : FL_ANSWER_NO_MEMBERSHIP;
}

/* The one that the answer would have. */
static void put_cause(const struct question *q, struct fl_json *j)
{
    const struct fl_snap_policy *p = q->routed.policy;
    struct fl_cause cause = {.code = ""};
    if (p != NULL && p->invalid[0] != '\0') {
        fl_json_text(j, "cause", p->invalid);
        return;
    }
    if (answer_of(q) != FL_ANSWER_NONE && p != NULL && p->backend != NULL) {
        fl_backend_cause(p->backend, &cause);
    }
    fl_json_text(j, "cause", cause.text);
}

static void put_routed(const struct question *q, struct fl_json *j)
{
    const struct fl_snap_policy *p = q->routed.policy;
    fl_json_text(j, "route", p->route);
    fl_json_text(j, "backend", p->backend != NULL ? p->backend->conf->name : "");
    fl_json_text(j, "operation", fl_s3_operation_name(q->op.op));
    fl_json_text(j, "replay_class", fl_replay_class_name(q->op.class));
    fl_json_text(j, "deadline_kind", deadline_name(q->op.deadline));
    fl_json_bool(j, "write", q->op.write);
    fl_json_open(j, "policy", '{');
    fl_view_policy(j, p->conf);
    fl_json_close(j, '}');
    put_peers(q, j);
    if (p->backend != NULL) {
        (void)fl_diagnosis_put(q->c, j, p->backend);
    }
}

static void write_explanation(struct fl_fmt *out, void *arg)
{
    const struct question *q = arg;
    struct fl_json j = {out, false};
    fl_json_open(&j, NULL, '{');
    if (q->error != FL_HTTP_ERR_NONE) {
        fl_json_text(&j, "answer", fl_answer_row(FL_ANSWER_BAD_REQUEST)->token);
        fl_json_text(&j, "cause", fl_http_error_text(q->error));
    } else {
        fl_json_text(&j, "answer", fl_answer_row(answer_of(q))->token);
        put_cause(q, &j);
        fl_json_span(&j, "bucket", q->routed.bucket);
        fl_json_span(&j, "key", q->routed.key);
        fl_json_bool(&j, "bucket_in_host", q->routed.bucket_in_host);
        if (q->routed.policy != NULL) {
            put_routed(q, &j);
        }
    }
    fl_json_close(&j, '}');
    fl_fmt_char(out, '\n');
}

static void look(struct question *q)
{
    size_t scan = 0;
    ptrdiff_t end = fl_head_end(q->text, q->len, &scan);
    if (end < 0) {
        q->error = (enum fl_http_error)(-end);
    } else if ((size_t)end != q->len) {
        q->error = FL_HTTP_ERR_TARGET; /* a line break in method or target */
    } else {
        q->error = fl_request_parse(q->text, q->len, &q->head);
    }
    if (q->error != FL_HTTP_ERR_NONE) {
        return;
    }
    split_target(q);
    const struct fl_route_ask ask = {
        q->path, q->query, {q->text + q->head.host_off, q->head.host_len}};
    fl_route_find(q->c->current, &ask, q->scratch, &q->routed);
    if (q->routed.policy != NULL) {
        classify(q);
    }
}

void fl_explain_handle(struct fl_mhd_call *call, void *arg)
{
    struct question *q = calloc(1, sizeof(*q));
    if (q == NULL) {
        fl_mhd_problem(call, 503, "local_resource", "out of memory");
        return;
    }
    q->c = arg;
    struct fl_fmt f = fl_fmt_of(q->text, sizeof(q->text));
    if (!put_line(call, &f) || !put_fields(call, &f)) {
        fl_mhd_problem(call, 400, "bad_request",
                       "target is required, percent-encoded; header is Name:value");
    } else {
        q->len = f.len;
        look(q);
        fl_mhd_reply_written(call, 200, "application/json", write_explanation, q);
    }
    free(q);
}
