#include "sidecar/proxy/exchange_judge.h"

#include <errno.h>
#include <string.h>

#include "common/io/sock.h"
#include "sidecar/proxy/engine_state.h"
#include "sidecar/proxy/exchange_clock.h"
#include "sidecar/proxy/exchange_events.h"
#include "sidecar/proxy/relay.h"
#include "sidecar/proxy/reply.h"
#include "sidecar/proxy/upstream.h"
#include "sidecar/proxy/worker.h"

void fl_judge_ask(struct fl_exchange *x, struct fl_ask *ret)
{
    *ret = (struct fl_ask){.now_ms = fl_worker_now_ms(x->worker),
                           .thread = x->worker->index,
                           .rng = &x->worker->rng,
                           .tried = x->tried,
                           .first_try = x->tries == 0,
                           .write = x->s3 && x->operation.write,
                           .replayable = x->operation.class == FL_CLASS_S && x->body.kept};
}

static void settle(struct fl_exchange *x, enum fl_outcome o, int status)
{
    struct fl_attempt *a = &x->attempt;
    struct fl_settled s;
    FL_MUST(a->picked); /* every attempt is judged exactly once */
    a->picked = false;
    fl_backend_settle(x->backend, x->policy, &a->pick, o, status, a->os_errno,
                      fl_worker_now_ms(x->worker), x->worker->index, &x->worker->rng, &s);
    x->discovered = x->discovered || s.counted;
    fl_events_settled(x, &s, &a->pick, o);
    if (s.counted && o == FL_OUTCOME_HTTP_STATUS &&
        x->backend->conf->probe.type != FL_PROBE_NONE) { /* the peer is marked by policy */
        fl_engine_want_probe(x->worker->engine);
    }
    if (!fl_list_empty(&x->worker->queue)) {
        fl_worker_feed(x->worker);
    }
}

static void put_text(char *to, size_t cap, struct fl_span text)
{
    size_t n = text.len < cap ? text.len : cap - 1;
    memcpy(to, n != 0 ? text.ptr : "", n);
    to[n] = '\0';
}

/* Should the probe be answered, the control thread says which request this was. */
static void leave_name(const struct fl_exchange *x, struct fl_peer *peer)
{
    struct fl_failed_request rq = {.operation = fl_s3_operation_name(x->operation.op),
                                   .total_ms = fl_worker_now_ms(x->worker) - x->began_ms};
    put_text(rq.request_id, sizeof rq.request_id, fl_span_of(x->request_id));
    put_text(rq.method, sizeof rq.method, fl_span_of(fl_method_name(x->request.method)));
    put_text(rq.bucket, sizeof rq.bucket, fl_span_of(x->bucket));
    put_text(rq.key, sizeof rq.key, x->key);
    (void)fl_failed_box_put(&peer->failed, &rq);
}

/* A peer that fails is probed at once, by the control thread. */
static void want_probe(struct fl_exchange *x, enum fl_outcome o)
{
    struct fl_peer *peer = x->backend->peers[x->attempt.pick.index].peer;
    bool deadline = o == FL_OUTCOME_DEADLINE || o == FL_OUTCOME_DEADLINE_BLAMED;
    bool suspicious = (fl_outcome_row(o)->blames && o != FL_OUTCOME_HTTP_STATUS) || deadline;
    if (!suspicious || x->backend->conf->probe.type == FL_PROBE_NONE) {
        return;
    }
    if (deadline) {
        leave_name(x, peer);
    }
    atomic_store_explicit(&peer->probe_wanted, 1, memory_order_release);
    fl_engine_want_probe(x->worker->engine);
}

enum fl_answer fl_judge_answer_of(enum fl_http_error e)
{
    switch (fl_http_error_status(e)) {
    case 414:
        return FL_ANSWER_URI_TOO_LONG;
    case 417:
        return FL_ANSWER_EXPECTATION_FAILED;
    case 431:
        return FL_ANSWER_HEADER_TOO_LARGE;
    case 501:
        return FL_ANSWER_NOT_IMPLEMENTED;
    case 505:
        return FL_ANSWER_VERSION_NOT_SUPPORTED;
    default:
        return FL_ANSWER_BAD_REQUEST;
    }
}

enum fl_x_state fl_judge_answer(struct fl_exchange *x, enum fl_answer a, int64_t release_at_ms)
{
    x->answer = a;
    x->relay.client_progress_ms = fl_worker_now_ms(x->worker);
    x->first_byte_us = fl_reactor_now_us(x->worker->reactor);
    if (!fl_reply_prepare(x, release_at_ms)) {
        x->keep_alive = false;
        x->end = FL_CLIENT_CLOSE;
        return FL_X_FINISH;
    }
    return FL_X_REPLY;
}

/* Was the exchange's failure an end of the client? Then nothing is answered, and nothing retried.
 */
static bool is_client_end(enum fl_outcome o)
{
    return o == FL_OUTCOME_CLIENT_ABORT || (o == FL_OUTCOME_CLIENT_TIMEOUT);
}

static void fill_facts(struct fl_exchange *x, enum fl_outcome o, int status,
                       struct fl_retry_facts *f)
{
    *f = (struct fl_retry_facts){
        .response_started = x->released || x->interim_relayed,
        .client_gone = x->client_gone,
        .outcome = o,
        .status = status,
        .class = x->operation.class,
        .sent = fl_attempt_sent(x),
        .body_held = fl_replay_can_rewind(&x->body),
        .tries_used = x->tries - x->tries_forgiven,
        .peers = x->backend->countable,
        .elapsed_ms = fl_worker_now_ms(x->worker) - x->first_try_ms,
        .deadline_passed = fl_exchange_deadline_passed(x),
        .budget_ok = true,
        .peer_left = true,
    };
}

/* Decides with a peer already in hand, so that the budget knows where the retry would go; gives it
 * back on a refusal. */
static enum fl_retry decide(struct fl_exchange *x, enum fl_outcome o, int status)
{
    struct fl_retry_facts f;
    fill_facts(x, o, status, &f);
    enum fl_retry r = fl_retry_decide(x->policy->conf, &f);
    if (r != FL_RETRY_YES) {
        return r;
    }
    struct fl_ask ask;
    fl_judge_ask(x, &ask);
    struct fl_retry_budget *budget = &x->backend->lanes[ask.thread].budget;
    bool has_token = fl_retry_budget_has(budget, &x->backend->budget, ask.now_ms);
    fl_backend_pick(x->backend, x->policy, &ask, &x->next_pick);
    if (x->next_pick.kind != FL_PICK_PEER) {
        return has_token ? FL_RETRY_NO_PEER : FL_RETRY_BUDGET;
    }
    if (!fl_backend_retry_is_free(x->backend, x->policy, x->attempt.pick.index, x->next_pick.index,
                                  ask.now_ms, ask.thread)) {
        if (!has_token) {
            fl_backend_cancel(x->backend, x->policy, &x->next_pick, ask.now_ms, ask.thread);
            return FL_RETRY_BUDGET;
        }
        fl_retry_budget_spend(budget);
    }
    x->has_next_pick = true;
    return FL_RETRY_YES;
}

/* Refused only because there is nobody else to try? Then queue.hold lets it wait, and what was said
 * about repeating the request stays true. */
static bool nobody_else(struct fl_exchange *x, enum fl_outcome o, enum fl_retry refused)
{
    struct fl_retry_facts f;
    fill_facts(x, o, 0, &f);
    f.tries_used = 0;
    if (refused < FL_RETRY_TRIES || refused == FL_RETRY_TIME ||
        fl_retry_decide(x->policy->conf, &f) != FL_RETRY_YES) {
        return false;
    }
    struct fl_ask ask;
    struct fl_pick p;
    fl_judge_ask(x, &ask);
    fl_backend_pick(x->backend, x->policy, &ask, &p);
    if (p.kind == FL_PICK_PEER) {
        fl_backend_cancel(x->backend, x->policy, &p, ask.now_ms, ask.thread);
    }
    return p.kind != FL_PICK_PEER && p.kind != FL_PICK_FULL;
}

/* Counts and notes the decision. False: this was the last try. Else the next state is PICK, or
 * QUEUED when it is held. */
static bool wants_retry(struct fl_exchange *x, enum fl_outcome o, int status, enum fl_x_state *next)
{
    struct fl_route_line *line = &x->policy->tally->lines[x->worker->index];
    enum fl_retry r = decide(x, o, status);
    *next = FL_X_PICK;
    if (r != FL_RETRY_YES && status == 0 && x->backend->conf->queue.hold_ms > 0 &&
        nobody_else(x, o, r) && fl_exchange_hold(x)) {
        *next = FL_X_QUEUED;
        r = FL_RETRY_YES;
    }
    if (r == FL_RETRY_YES) {
        fl_tally_add(&line->retries[o], 1);
        x->retried = true;
        x->retry_note = fl_outcome_row(o)->token;
        return true;
    }
    fl_tally_add(&line->refused[r], 1);
    x->retry_note = fl_retry_name(r);
    return false;
}

static enum fl_x_state client_ended(struct fl_exchange *x, enum fl_outcome o)
{
    x->ended = o;
    if (o == FL_OUTCOME_CLIENT_TIMEOUT && !x->client_gone) {
        fl_cause_set(&x->cause, "client_timeout", "the request body did not arrive in time");
        fl_attempt_end(x, false);
        return fl_judge_answer(x, FL_ANSWER_REQUEST_TIMEOUT, 0);
    }
    x->status = 499;
    x->end = FL_CLIENT_CLOSE;
    return FL_X_FINISH;
}

/* The same peer once more, on a fresh connection: no try spent, the pick is still held. */
static enum fl_x_state same_peer_again(struct fl_exchange *x)
{
    struct fl_pick same = x->attempt.pick;
    fl_attempt_end(x, false);
    enum fl_attempt_step step = fl_attempt_begin(x, &same, true);
    return step == FL_ATTEMPT_WAIT ? FL_X_TRY : fl_judge_attempt(x);
}

/* A kept connection died under the request: the same peer again where that is allowed. */
static bool replay_stale(struct fl_exchange *x, enum fl_x_state *ret)
{
    struct fl_attempt *a = &x->attempt;
    if (a->outcome != FL_OUTCOME_STALE_REUSE || x->client_gone ||
        !fl_retry_stale_replay(x->policy->conf, x->operation.class, fl_attempt_sent(x),
                               fl_replay_can_rewind(&x->body))) {
        return false;
    }
    fl_tally_add(&x->backend->tally->lines[x->worker->index].attempts[FL_OUTCOME_STALE_REUSE], 1);
    *ret = same_peer_again(x);
    return true;
}

static void describe(struct fl_exchange *x, enum fl_outcome o)
{
    const struct fl_attempt *a = &x->attempt;
    const char *address = x->backend->peers[a->pick.index].peer->address;
    fl_backend_attempt_cause(o, 0, a->os_errno, address, &x->cause);
    if (o == FL_OUTCOME_LOCAL_RESOURCE && a->os_errno == EBUSY) {
        fl_cause_set(&x->cause, "local_resource", "too many TLS handshakes at once");
    } else if (o == FL_OUTCOME_INVALID_HEADER) {
        fl_cause_set(&x->cause, "invalid_header", "%s sent an invalid response head (%s)", address,
                     fl_http_error_text(a->http_error));
    } else if (o == FL_OUTCOME_CLIENT_BAD) {
        fl_cause_set(&x->cause, "bad_body", "%s", fl_http_error_text(a->http_error));
    }
}

static enum fl_x_state failed(struct fl_exchange *x)
{
    struct fl_attempt *a = &x->attempt;
    enum fl_outcome o = a->outcome;
    enum fl_x_state next;
    x->client_gone = x->client_gone || o == FL_OUTCOME_CLIENT_ABORT;
    if (replay_stale(x, &next)) {
        return next;
    }
    describe(x, o);
    fl_events_attempt_failed(x);
    settle(x, o, 0);
    want_probe(x, o); /* a green one must find the quarantine that it may open */
    if (is_client_end(o)) {
        return client_ended(x, o);
    }
    x->ended = o;
    if (o == FL_OUTCOME_CLIENT_BAD) {
        fl_attempt_end(x, false);
        x->malformed = true;
        return fl_judge_answer(x, fl_judge_answer_of(a->http_error), 0);
    }
    bool again = wants_retry(x, o, 0, &next);
    fl_attempt_end(x, false);
    if (again) {
        return next;
    }
    if (x->client_gone) {
        return client_ended(x, FL_OUTCOME_CLIENT_ABORT);
    }
    enum fl_answer answer =
        fl_exchange_deadline_passed(x) ? FL_ANSWER_DEADLINE : fl_outcome_row(o)->answer;
    return fl_judge_answer(x, answer, 0);
}

/* What a final status means for the peer. False: more of the body must be seen first (TRY goes on).
 */
static bool weigh(struct fl_exchange *x, int status, enum fl_outcome *ret)
{
    const struct fl_policy_conf *p = x->policy->conf;
    uint32_t condition = fl_condition_of_status(status);
    bool matters = (condition & (p->next_upstream | p->count_failures)) != 0;
    *ret = matters ? FL_OUTCOME_HTTP_STATUS : status == 429 ? FL_OUTCOME_THROTTLED : FL_OUTCOME_OK;
    if (status != 503 || !x->s3 || !matters || x->request.method == FL_METHOD_HEAD) {
        return true;
    }
    if (!x->attempt.peeked && fl_attempt_peek(x) == FL_ATTEMPT_WAIT) {
        return false;
    }
    if (fl_attempt_throttled(x)) {
        *ret = FL_OUTCOME_THROTTLED;
    }
    return true;
}

/* The absence that a backup with other objects reports proves nothing. */
static bool is_doubtful_absence(const struct fl_exchange *x, int status)
{
    return status == 404 && x->s3 && x->attempt.pick.tier == FL_TIER_BACKUP &&
           !x->backend->conf->same_store && x->operation.class == FL_CLASS_S;
}

static enum fl_x_state refuse_absence(struct fl_exchange *x)
{
    const char *address = x->backend->peers[x->attempt.pick.index].peer->address;
    fl_cause_set(&x->cause, "backup_404",
                 "backup %s does not have the object, and it is not known to hold all of them",
                 address);
    settle(x, FL_OUTCOME_OK, 404);
    fl_attempt_end(x, false);
    return fl_judge_answer(x, FL_ANSWER_BACKUP_NOT_AUTHORITATIVE, 0);
}

static enum fl_x_state headed(struct fl_exchange *x)
{
    int status = x->worker->response->status;
    enum fl_outcome o;
    enum fl_x_state next;
    if (!weigh(x, status, &o)) {
        return FL_X_TRY;
    }
    if (status == 417 && x->own_expect && x->body.sent_bytes == 0) {
        struct fl_backend_line *line = &x->backend->tally->lines[x->worker->index];
        x->own_expect = x->expect_pending = false; /* a backend that does not know Expect */
        fl_tally_add(&line->attempts[FL_OUTCOME_OK], 1);
        return same_peer_again(x);
    }
    x->verdict_of_head = o;
    if (o == FL_OUTCOME_HTTP_STATUS &&
        (fl_condition_of_status(status) & x->policy->conf->next_upstream) != 0 &&
        wants_retry(x, o, status, &next)) {
        fl_attempt_record(x)->response_us =
            fl_reactor_now_us(x->worker->reactor) - x->attempt.began_us;
        x->ended = o;
        settle(x, o, status);
        fl_attempt_end(x, false); /* the rest of a discarded answer is not worth reading */
        return FL_X_PICK;
    }
    if (o == FL_OUTCOME_OK || o == FL_OUTCOME_THROTTLED) {
        struct fl_settled s;
        fl_backend_answered(x->backend, x->policy, &x->attempt.pick, fl_worker_now_ms(x->worker),
                            x->worker->index, &s);
        fl_events_settled(x, &s, &x->attempt.pick, o);
    }
    if (is_doubtful_absence(x, status)) {
        return refuse_absence(x);
    }
    x->status = status;
    x->ended = o;
    x->answer = FL_ANSWER_NONE;
    fl_exchange_no_cause(x);
    if (fl_relay_begin(x) == FL_RELAY_NO_MEMORY) {
        settle(x, FL_OUTCOME_LOCAL_RESOURCE, 0);
        fl_attempt_end(x, false);
        return fl_judge_answer(x, FL_ANSWER_LOCAL_RESOURCE, 0);
    }
    x->relay.client_progress_ms = fl_worker_now_ms(x->worker);
    return FL_X_RELAY;
}

enum fl_x_state fl_judge_attempt(struct fl_exchange *x)
{
    return x->attempt.phase == FL_ATTEMPT_HEADED && x->attempt.outcome == FL_OUTCOME_OK ? headed(x)
                                                                                        : failed(x);
}

/* A close with bytes unread is an RST, which takes the rest of the answer with it (RFC 9112 section
 * 9.6): those that are there, or that the client may still send, are read first. Only one
 * that said itself that it closes sends nothing more. */
enum fl_client_end fl_judge_end(const struct fl_exchange *x)
{
    if (x->keep_alive) {
        return FL_CLIENT_KEEP;
    }
    bool said_close = !x->malformed && !x->request.keep_alive;
    bool silent = said_close && x->body.complete && !x->client->readable;
    return silent ? FL_CLIENT_CLOSE : FL_CLIENT_DRAIN;
}

enum fl_x_state fl_judge_relayed(struct fl_exchange *x, enum fl_outcome o)
{
    struct fl_attempt *a = &x->attempt;
    struct fl_relay *r = &x->relay;
    fl_attempt_record(x)->status = r->status;
    fl_attempt_record(x)->response_us = fl_reactor_now_us(x->worker->reactor) - a->began_us;
    if (o == FL_OUTCOME_OK) {
        settle(x, x->verdict_of_head, r->status);
        fl_attempt_end(x, r->upstream_reusable && a->fully_sent && !a->send_broken);
        x->end = fl_judge_end(x);
        return FL_X_FINISH;
    }
    a->outcome = o;
    x->ended = o;
    if (o == FL_OUTCOME_TRUNCATED || o == FL_OUTCOME_STALLED || o == FL_OUTCOME_LOCAL_RESOURCE) {
        describe(x, o);
        fl_events_attempt_failed(x);
        x->answer = FL_ANSWER_TRUNCATED;
    }
    settle(x, o, r->status);
    want_probe(x, o);
    fl_attempt_end(x, false);
    if (!x->released) { /* the client left before the answer began */
        x->status = 499;
    }
    x->end = r->close_delimited || o != FL_OUTCOME_CLIENT_ABORT ? FL_CLIENT_RESET : FL_CLIENT_CLOSE;
    return FL_X_FINISH;
}
