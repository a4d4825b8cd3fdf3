#include "sidecar/proxy/exchange_begin.h"

#include <string.h>

#include "common/http1/headers.h"
#include "sidecar/proxy/exchange_judge.h"
#include "sidecar/proxy/reply.h"
#include "sidecar/proxy/worker.h"

static void hold(struct fl_snapshot *s, unsigned thread, int32_t by)
{
    struct fl_snap_hold *h = &s->holds[thread];
    h->count += (uint32_t)by;
    atomic_store_explicit(&h->seen, h->count, memory_order_release);
}

static void pin(struct fl_exchange *x)
{
    x->snapshot = x->worker->snapshot;
    hold((struct fl_snapshot *)(uintptr_t)x->snapshot, x->worker->index,
         1); /* only the count is written */
}

void fl_exchange_unpin(struct fl_exchange *x)
{
    hold((struct fl_snapshot *)(uintptr_t)x->snapshot, x->worker->index, -1);
    x->snapshot = NULL;
    fl_worker_count(&x->worker->active_count, -1);
}

static void take_clock(struct fl_exchange *x)
{
    x->began_us = fl_reactor_now_us(x->worker->reactor);
    x->began_ms = fl_worker_now_ms(x->worker);
    atomic_store_explicit(&x->worker->last_begin_ms, x->began_ms, memory_order_relaxed);
    fl_worker_count(&x->worker->active_count, 1);
}

/* Eight hexadecimal digits of v in the bytes of a word: nibbles spread, then each made a digit. */
static uint64_t hex8(uint32_t v)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t w = (v & UINT64_C(0xffff0000)) << 16 | (v & 0xffff);
    w = (w << 8 | w) & UINT64_C(0x00ff00ff00ff00ff);
    w = (w << 4 | w) & (ones * 0x0f);
    uint64_t letter = (w + ones * 6) >> 4 & ones; /* 1 where the nibble is above 9 */
    return w + ones * '0' + letter * ('a' - '0' - 10);
}

static void name_request(struct fl_exchange *x, struct fl_span given)
{
    if (given.len > 0) { /* a longer one is forwarded whole, and named by its beginning */
        struct fl_fmt f = fl_fmt_of(x->request_id, sizeof x->request_id);
        fl_fmt_header(&f, fl_span_first(given, sizeof x->request_id - 1));
        return;
    }
    uint64_t random[2] = {fl_rng_next(&x->worker->rng), fl_rng_next(&x->worker->rng)};
    uint64_t digits[4] = {hex8((uint32_t)random[0]), hex8((uint32_t)(random[0] >> 32)),
                          hex8((uint32_t)random[1]), hex8((uint32_t)(random[1] >> 32))};
    _Static_assert(sizeof digits < FL_REQUEST_ID_MAX, "and its NUL");
    memcpy(x->request_id, digits, sizeof digits);
    x->request_id[sizeof digits] = '\0';
}

static void note_fields(struct fl_exchange *x)
{
    const struct fl_http_head *h = &x->request.head;
    for (unsigned i = 0; i < h->count; i++) {
        x->ids |= UINT64_C(1) << h->fields[i].id;
    }
}

/* Value of the first such field of the head. */
static struct fl_span value_of(const struct fl_exchange *x, enum fl_http_id id)
{
    return fl_exchange_has(x, id)
               ? fl_headers_get(x->head->bytes + x->head_off, &x->request.head, id)
               : FL_SPAN("");
}

static void split_target(struct fl_exchange *x)
{
    const struct fl_request_head *q = &x->request;
    const char *head = x->head->bytes + x->head_off;
    struct fl_route_ask *target = &x->target;
    struct fl_span path = {head + q->path_off, q->path_len};
    if (q->form == FL_TARGET_ABSOLUTE && (path.len == 0 || path.ptr[0] == '?')) {
        target->query = fl_span_from(path, 1);
        target->path = FL_SPAN("/");
    } else {
        ptrdiff_t mark = fl_span_find(path, '?');
        target->query = mark < 0 ? FL_SPAN("") : fl_span_from(path, (size_t)mark + 1);
        target->path = mark < 0 ? path : fl_span_first(path, (size_t)mark);
    }
    target->host = (struct fl_span){head + q->host_off, q->host_len};
}

static void take_route(struct fl_exchange *x, const struct fl_routed *r)
{
    x->policy = r->policy;
    x->backend = r->policy != NULL ? r->policy->backend : NULL;
    x->s3 = x->backend != NULL && x->backend->conf->protocol == FL_PROTOCOL_S3;
    x->key = r->key;
    size_t n = r->bucket.len < sizeof x->bucket - 1 ? r->bucket.len : sizeof x->bucket - 1;
    memcpy(x->bucket, r->bucket.ptr, n);
    x->bucket[n] = '\0';
}

static void classify(struct fl_exchange *x, bool bucket_in_host)
{
    const uint64_t conditions =
        UINT64_C(1) << FL_HTTP_IF_MATCH | UINT64_C(1) << FL_HTTP_IF_NONE_MATCH |
        UINT64_C(1) << FL_HTTP_IF_MODIFIED_SINCE | UINT64_C(1) << FL_HTTP_IF_UNMODIFIED_SINCE |
        UINT64_C(1) << FL_HTTP_X_AMZ_COPY_SOURCE_IF | UINT64_C(1) << FL_HTTP_X_AMZ_IF_MATCH;
    struct fl_operation_facts f = {
        .method = x->request.method,
        .path = x->target.path,
        .query = x->target.query,
        .bucket_in_host = bucket_in_host,
        .conditional = (x->ids & conditions) != 0,
        .copy_source = fl_exchange_has(x, FL_HTTP_X_AMZ_COPY_SOURCE),
        .write_offset = fl_exchange_has(x, FL_HTTP_X_AMZ_WRITE_OFFSET_BYTES),
    };
    x->operation = fl_s3_operation_of(x->s3 ? FL_PROTOCOL_S3 : FL_PROTOCOL_HTTP, &f);
}

/* What the backend may owe in all (behaviour.md section 4). */
static int64_t deadline_of(const struct fl_exchange *x)
{
    const struct fl_policy_conf *p = x->policy->conf;
    switch (x->operation.deadline) {
    case FL_DEADLINE_LONG:
        return p->long_deadline_ms;
    case FL_DEADLINE_UPLOAD:
        return p->deadline_ms > 0
                   ? p->deadline_ms + (int64_t)(x->request.content_length / 1048576 * 1000)
                   : 0;
    case FL_DEADLINE_CONTROL:
        break;
    }
    return p->deadline_ms;
}

static bool has_body(const struct fl_request_head *q)
{
    return q->framing == FL_FRAMING_CHUNKED ||
           (q->framing == FL_FRAMING_LENGTH && q->content_length > 0);
}

/* expect_gate: large bodies wait for the backend's 100 even when the client did not ask. */
static bool wants_own_expect(const struct fl_exchange *x)
{
    const struct fl_request_head *q = &x->request;
    uint64_t gate = x->policy->conf->expect_gate_bytes;
    bool large = q->framing == FL_FRAMING_CHUNKED ||
                 (q->framing == FL_FRAMING_LENGTH && q->content_length > gate);
    return gate > 0 && large && !q->expect_continue && q->minor >= 1;
}

/* A copy reads another bucket inside the store: both must be routed to the same backend. */
static bool copies_across(struct fl_exchange *x)
{
    struct fl_span value = value_of(x, FL_HTTP_X_AMZ_COPY_SOURCE);
    if (value.len == 0 || !x->s3) {
        return false;
    }
    char scratch[FL_BUCKET_MAX];
    struct fl_span bucket = fl_route_copy_source_bucket(value, scratch, sizeof scratch);
    const struct fl_snap_policy *source = fl_route_bucket(x->snapshot, bucket);
    if (source == NULL || source->backend == x->backend) {
        return false;
    }
    fl_cause_set(&x->cause, "copy_across_backends",
                 "source bucket '%.*s' is on backend '%s', bucket '%s' is on backend '%s'",
                 (int)bucket.len, bucket.ptr,
                 source->backend != NULL ? source->backend->conf->name : "", x->bucket,
                 x->backend->conf->name);
    return true;
}

static enum fl_x_state refuse_body(struct fl_exchange *x, enum fl_replay_read got)
{
    if (got == FL_REPLAY_PAUSED) {
        fl_cause_set(&x->cause, "buffer_memory", "buffer_memory is spent");
        x->class = "overload";
        return fl_judge_answer(x, FL_ANSWER_OVERLOAD, 0);
    }
    x->malformed = true;
    enum fl_http_error e = (enum fl_http_error)x->body.frame.error;
    fl_cause_set(&x->cause, "bad_body", "%s", fl_http_error_text(e));
    return fl_judge_answer(x, fl_judge_answer_of(e), 0);
}

static enum fl_x_state refuse_route(struct fl_exchange *x, enum fl_answer a)
{
    if (a == FL_ANSWER_BAD_ROUTE) {
        fl_cause_set(&x->cause, "bad_route", "%s", x->policy->invalid);
    } else if (a == FL_ANSWER_NO_ROUTE && x->bucket[0] != '\0') {
        fl_cause_set(&x->cause, "no_route", "no route for bucket '%.200s'", x->bucket);
    } else if (a ==
               FL_ANSWER_BAD_REQUEST) { /* as nginx: such a client is not listened to further */
        x->keep_alive = false;
        fl_cause_set(&x->cause, "bad_target",
                     "the path has a malformed percent-escape or leaves its root");
    }
    return fl_judge_answer(x, a, 0);
}

static enum fl_x_state answer_options(struct fl_exchange *x)
{
    x->relay.client_progress_ms = x->began_ms;
    if (fl_reply_options(x)) {
        return FL_X_REPLY;
    }
    x->class = "overload"; /* no buffer: like every answer of our own that finds none */
    x->status = 503;
    x->end = FL_CLIENT_CLOSE;
    return FL_X_FINISH;
}

enum fl_x_state fl_exchange_begin(struct fl_exchange *x)
{
    const struct fl_request_head *q = &x->request;
    char scratch[FL_ROUTE_SCRATCH] FL_UNCLEARED;
    struct fl_routed routed FL_UNCLEARED; /* fl_route_find fills all of it */
    pin(x);
    take_clock(x);
    note_fields(x);
    name_request(x, value_of(x, FL_HTTP_X_REQUEST_ID));
    x->keep_alive = q->keep_alive;
    split_target(x);
    bool local = q->form == FL_TARGET_ASTERISK || q->max_forwards == 0;
    if (!local) {
        fl_route_find(x->snapshot, &x->target, scratch, &routed);
        take_route(x, &routed);
    }
    enum fl_replay_read got = fl_replay_begin(x, &x->next_off);
    if (got == FL_REPLAY_BAD || got == FL_REPLAY_PAUSED) {
        return refuse_body(x, got);
    }
    if (x->client_gone) {
        x->status = 499;
        x->ended = FL_OUTCOME_CLIENT_ABORT;
        x->end = FL_CLIENT_CLOSE;
        return FL_X_FINISH;
    }
    if (local) {
        return answer_options(x);
    }
    if (routed.answer != FL_ANSWER_NONE) {
        return refuse_route(x, routed.answer);
    }
    classify(x, routed.bucket_in_host);
    if (copies_across(x)) {
        return fl_judge_answer(x, FL_ANSWER_COPY_ACROSS_BACKENDS, 0);
    }
    x->deadline_ms = deadline_of(x);
    bool asks = q->expect_continue && has_body(q) && x->body.body_bytes == 0 && !x->body.complete;
    bool own = wants_own_expect(x);
    x->own_expect = own;
    x->expect_pending = asks || own;
    fl_retry_budget_request(&x->backend->lanes[x->worker->index].budget, &x->backend->budget,
                            x->began_ms);
    return FL_X_PICK;
}

void fl_exchange_begin_refused(struct fl_exchange *x)
{
    pin(x);
    take_clock(x);
    name_request(x, FL_SPAN(""));
    x->target = (struct fl_route_ask){FL_SPAN(""), FL_SPAN(""), FL_SPAN("")};
    x->key = FL_SPAN("");
    x->bucket[0] = '\0';
}

void fl_exchange_rebase(struct fl_exchange *x)
{
    const struct fl_snapshot *fresh = x->worker->snapshot;
    if (fresh == x->snapshot || x->attempts > 0) {
        return;
    }
    char scratch[FL_ROUTE_SCRATCH] FL_UNCLEARED;
    struct fl_routed routed;
    fl_route_find(fresh, &x->target, scratch, &routed);
    if (routed.answer != FL_ANSWER_NONE) {
        return; /* its route is gone: it ends under the policy it began with */
    }
    hold((struct fl_snapshot *)(uintptr_t)x->snapshot, x->worker->index, -1);
    pin(x);
    take_route(x, &routed);
}
