#include "sidecar/proxy/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/fmt.h"
#include "common/http1/headers.h"
#include "common/io/sock.h"
#include "sidecar/proxy/access_log.h"
#include "sidecar/proxy/exchange_begin.h"
#include "sidecar/proxy/exchange_clock.h"
#include "sidecar/proxy/exchange_events.h"
#include "sidecar/proxy/exchange_judge.h"
#include "sidecar/proxy/relay.h"
#include "sidecar/proxy/worker.h"

/* Between the tries of a held exchange: the pause doubles up to the second figure. */
enum { HOLD_PAUSE_MS = 50, HOLD_PAUSE_MAX_MS = 200 };

static void run_again(struct fl_task *t)
{
    fl_exchange_run(fl_container_of(t, struct fl_exchange, again_task));
}

struct fl_exchange *fl_exchange_take(struct fl_worker *w)
{
    struct fl_exchange *x = w->free_exchanges;
    if (x != NULL) {
        w->free_exchanges = x->next_free;
        fl_exchange_foresee(x->next_free); /* for whoever takes after this */
    } else if ((x = malloc(sizeof *x)) == NULL) {
        return NULL;
    }
    memset(x, 0, offsetof(struct fl_exchange, to_peer));
    fl_gather_clear(&x->to_peer);
    fl_gather_clear(&x->to_client);
    fl_exchange_no_cause(x);
    x->worker = w;
    fl_list_init(&x->queued);
    fl_task_init(&x->again_task, run_again);
    return x;
}

void fl_exchange_untake(struct fl_exchange *x)
{
    x->next_free = x->worker->free_exchanges;
    x->worker->free_exchanges = x;
}

/* ---- steps ---- */

static enum fl_x_state after(enum fl_attempt_step step)
{
    return step == FL_ATTEMPT_WAIT ? FL_X_TRY : FL_X_JUDGE;
}

static uint32_t queued_for(const struct fl_exchange *x)
{
    uint32_t n = 0;
    fl_list_each (it, &x->worker->queue) {
        n += fl_container_of(it, struct fl_exchange, queued)->backend == x->backend ? 1 : 0;
    }
    return n;
}

/* Waits for a free place until queue.timeout, or for somebody usable until queue.hold has passed.
 * False: no room in the queue, or no such waiting. */
static bool enqueue(struct fl_exchange *x, bool holding, int64_t until_ms)
{
    struct fl_worker *w = x->worker;
    unsigned threads = x->snapshot->threads;
    uint32_t size = (x->backend->conf->queue.size + threads - 1) / threads;
    if (until_ms <= fl_worker_now_ms(w) || queued_for(x) >= size) {
        return false;
    }
    x->queued_until_ms = until_ms;
    x->holding = holding;
    fl_list_append(&w->queue, &x->queued);
    fl_worker_count(&w->queued, 1);
    fl_timer_set(w->reactor, &w->queue_timer, fl_worker_now_ms(w) + 5);
    return true;
}

static bool wait_for_place(struct fl_exchange *x)
{
    int64_t now_ms = fl_worker_now_ms(x->worker);
    bool waits_already = x->queued_until_ms != 0 && !x->holding;
    return enqueue(
        x, false, waits_already ? x->queued_until_ms : now_ms + x->backend->conf->queue.timeout_ms);
}

bool fl_exchange_hold(struct fl_exchange *x)
{
    int64_t now_ms = fl_worker_now_ms(x->worker);
    if (x->backend->conf->queue.hold_ms == 0) {
        return false;
    }
    if (x->hold_until_ms == 0) {
        x->hold_until_ms = now_ms + x->backend->conf->queue.hold_ms;
    }
    if (!enqueue(x, true, x->hold_until_ms)) {
        return false;
    }
    if (x->tries > x->tries_forgiven) { /* whoever broke may be back: a fresh start, but no hurry */
        x->tries_forgiven = x->tries;
        x->first_try_ms = 0;
        memset(x->tried, 0, sizeof x->tried);
        x->pause_ms = x->pause_ms == 0 ? HOLD_PAUSE_MS : x->pause_ms * 2;
        x->pause_ms = x->pause_ms < HOLD_PAUSE_MAX_MS ? x->pause_ms : HOLD_PAUSE_MAX_MS;
        x->look_at_ms = now_ms + x->pause_ms;
    }
    return true;
}

static enum fl_x_state nobody(struct fl_exchange *x, const struct fl_pick *p)
{
    enum fl_answer answer = FL_ANSWER_NO_LIVE_UPSTREAM;
    x->class = "no_live_upstreams";
    fl_backend_cause(x->backend, &x->cause);
    if (p->kind == FL_PICK_GATED) {
        answer = FL_ANSWER_BACKEND_UNAVAILABLE;
        x->class = "gated";
        x->cause = x->backend->verdict.cause;
        fl_tally_add(&x->backend->tally->lines[x->worker->index].gated[x->backend->verdict.status],
                     1);
    } else if (p->kind == FL_PICK_NO_MEMBERS) {
        answer = FL_ANSWER_NO_MEMBERSHIP;
        fl_cause_set(&x->cause, "no_members",
                     "the backend has had no members since the sidecar started");
    } else if (p->kind == FL_PICK_READ_ONLY) {
        answer = FL_ANSWER_BACKUP_READ_ONLY;
        fl_cause_set(
            &x->cause, "backup_read_only",
            "all primaries are down and the backups do not take writes (same_store is not set)");
    } else {
        fl_events_no_live(x);
    }
    return fl_judge_answer(x, answer, p->release_at_ms);
}

static enum fl_x_state pick(struct fl_exchange *x)
{
    struct fl_pick p = x->next_pick;
    if (!x->has_next_pick) {
        struct fl_ask ask;
        fl_judge_ask(x, &ask);
        fl_backend_pick(x->backend, x->policy, &ask, &p);
    }
    x->has_next_pick = false;
    switch (p.kind) {
    case FL_PICK_PEER:
        x->queued_until_ms = 0;
        return after(fl_attempt_begin(x, &p, false));
    case FL_PICK_FULL:
        if (wait_for_place(x)) {
            return FL_X_QUEUED;
        }
        x->class = "overload";
        fl_cause_set(&x->cause, "max_conns", "every usable peer has max_conns requests in flight");
        return fl_judge_answer(x, FL_ANSWER_OVERLOAD, 0);
    case FL_PICK_NONE:
    case FL_PICK_READ_ONLY:
    case FL_PICK_NO_MEMBERS:
    case FL_PICK_GATED:
        break;
    }
    if (fl_exchange_hold(x)) {
        return FL_X_QUEUED;
    }
    return nobody(x, &p);
}

static void leave_queue(struct fl_exchange *x)
{
    if (!fl_list_empty(&x->queued)) {
        fl_list_remove(&x->queued);
        fl_worker_count(&x->worker->queued, -1);
    }
}

static enum fl_x_state queued(struct fl_exchange *x)
{
    struct fl_pick p;
    bool late = fl_worker_now_ms(x->worker) >= x->queued_until_ms || fl_exchange_deadline_passed(x);
    if (!x->looked && !late) {
        return FL_X_QUEUED;
    }
    x->looked = false;
    if (!late && fl_worker_now_ms(x->worker) < x->look_at_ms) {
        return FL_X_QUEUED;
    }
    fl_exchange_rebase(x);
    struct fl_ask ask;
    fl_judge_ask(x, &ask);
    fl_backend_pick(x->backend, x->policy, &ask, &p);
    if (p.kind == FL_PICK_PEER) {
        leave_queue(x);
        x->next_pick = p;
        x->has_next_pick = true;
        return FL_X_PICK;
    }
    if (!late) {
        return FL_X_QUEUED;
    }
    leave_queue(x);
    if (fl_exchange_deadline_passed(x)) {
        return fl_judge_answer(x, FL_ANSWER_DEADLINE, 0);
    }
    if (p.kind == FL_PICK_FULL) {
        x->class = "overload";
        fl_cause_set(&x->cause, "queue_timeout", "no peer had room within queue.timeout");
        return fl_judge_answer(x, FL_ANSWER_OVERLOAD, 0);
    }
    return nobody(x, &p);
}

static enum fl_x_state try_on(struct fl_exchange *x)
{
    return after(fl_attempt_run(x));
}

static enum fl_x_state relay(struct fl_exchange *x)
{
    switch (fl_relay_run(x)) {
    case FL_RELAY_WAIT:
    case FL_RELAY_NO_MEMORY:
        return FL_X_RELAY;
    case FL_RELAY_DONE:
        return fl_judge_relayed(x, FL_OUTCOME_OK);
    case FL_RELAY_CLIENT_GONE:
        x->client_gone = true;
        return fl_judge_relayed(x, FL_OUTCOME_CLIENT_ABORT);
    case FL_RELAY_TRUNCATED:
        return fl_judge_relayed(x, FL_OUTCOME_TRUNCATED);
    }
    FL_IMPOSSIBLE("relay step");
}

static enum fl_x_state reply(struct fl_exchange *x)
{
    if (fl_relay_flush(x)) {
        x->end = fl_judge_end(x);
        return FL_X_FINISH;
    }
    if (x->client_gone) {
        x->end = FL_CLIENT_CLOSE;
        return FL_X_FINISH;
    }
    return FL_X_REPLY;
}

/* Bytes of a pipelined next request go back to the client. */
static void return_input(struct fl_exchange *x)
{
    struct fl_client *c = x->client;
    if (x->head != NULL && x->end == FL_CLIENT_KEEP && x->next_off < x->head->end) {
        FL_MUST(c->in == NULL);
        x->head->start = x->next_off;
        c->in = x->head;
        x->head = NULL;
    }
    fl_buffer_give(&x->worker->buffers, &x->head);
}

static enum fl_x_state finish(struct fl_exchange *x)
{
    struct fl_buffers *pool = &x->worker->buffers;
    FL_MUST(!x->attempt.picked);
    fl_events_count(x);
    fl_events_slow(x);
    fl_access_log_write(x);
    fl_attempt_end(x, false);
    fl_replay_done(x);
    fl_splice_done(x);
    fl_buffer_give(pool, &x->relay.extra);
    fl_buffer_give(pool, &x->relay.trailers);
    fl_buffer_give(pool, &x->reply);
    fl_buffer_give(pool, &x->line);
    return_input(x);
    fl_exchange_unpin(x);
    fl_list_remove(&x->again_task.node);
    x->client->exchange = NULL;
    return FL_X_DONE;
}

static enum fl_x_state (*const step[])(struct fl_exchange *x) = {
    [FL_X_BEGIN] = fl_exchange_begin,
    [FL_X_PICK] = pick,
    [FL_X_QUEUED] = queued,
    [FL_X_TRY] = try_on,
    [FL_X_JUDGE] = fl_judge_attempt,
    [FL_X_RELAY] = relay,
    [FL_X_REPLY] = reply,
    [FL_X_FINISH] = finish,
};

/* The one door through which a state is entered. */
static void enter(struct fl_exchange *x, enum fl_x_state next)
{
    bool forward = next > x->state;
    bool retry =
        next == FL_X_PICK || (x->state == FL_X_JUDGE && (next == FL_X_TRY || next == FL_X_QUEUED));
    FL_MUST(forward || retry);
    x->state = next;
}

/* ---- being run ---- */

static void give_back(struct fl_exchange *x)
{
    struct fl_client *c = x->client;
    enum fl_client_end end = x->end;
    fl_exchange_untake(x);
    if (x->worker->buffers.wanted) {
        fl_worker_feed(x->worker);
    }
    fl_client_finished(c, end);
}

static void notice_client(struct fl_exchange *x)
{
    if (!(x->client->hup || x->client->failed) || x->client_gone || x->state >= FL_X_FINISH) {
        return;
    }
    x->client_gone = true;
    if (x->state == FL_X_TRY) {
        (void)fl_attempt_fail(x, FL_OUTCOME_CLIENT_ABORT, 0);
        x->attempt.phase = FL_ATTEMPT_EXCHANGING;
        enter(x, FL_X_JUDGE);
    } else if (x->state == FL_X_RELAY) {
        enter(x, fl_judge_relayed(x, FL_OUTCOME_CLIENT_ABORT));
    } else if (x->state == FL_X_QUEUED || x->state == FL_X_REPLY) {
        leave_queue(x);
        x->ended = FL_OUTCOME_CLIENT_ABORT;
        x->class = NULL;
        x->status = x->state == FL_X_REPLY && x->relay.sent_bytes > 0 ? x->status : 499;
        x->end = FL_CLIENT_CLOSE;
        enter(x, FL_X_FINISH);
    }
}

/* Runs it behind the events of this turn. */
static void put_behind(struct fl_exchange *x)
{
    fl_reactor_behind(x->worker->reactor, &x->again_task);
}

void fl_exchange_again(struct fl_exchange *x)
{
    fl_reactor_soon(x->worker->reactor, &x->again_task);
}

void fl_exchange_starve(struct fl_exchange *x)
{
    x->starving = true;
    if (fl_list_empty(&x->client->waiting)) {
        fl_list_append(&x->worker->starved, &x->client->waiting);
    }
}

/* What these send waits until all that came in this turn was read and understood. A turn so has
 * three parts, reading, thinking, sending, and each is done for many exchanges in a row: its code
 * stays in the first cache, where read, think, send for one exchange after another would have each
 * part drive out the next. */
static bool sends_later(const struct fl_exchange *x)
{
    bool sends = x->state == FL_X_TRY || x->state == FL_X_RELAY || x->state == FL_X_REPLY;
    return sends && !fl_buffers_scarce(&x->worker->buffers);
}

void fl_exchange_heard(struct fl_exchange *x)
{
    if (x->state == FL_X_TRY && !fl_buffers_scarce(&x->worker->buffers) && fl_attempt_read(x)) {
        put_behind(x);
    } else {
        fl_exchange_run(x);
    }
}

/* Goes from state to state as far as it can. True: it waits behind others of this turn. */
static bool go(struct fl_exchange *x)
{
    while (x->state != FL_X_DONE) {
        enum fl_x_state next = step[x->state](x);
        if (next == x->state) {
            return false;
        }
        enter(x, next);
        if (sends_later(x)) {
            put_behind(x);
            return true;
        }
    }
    return false;
}

static void set_timer(struct fl_exchange *x)
{
    struct fl_due due = fl_exchange_due(x);
    if (due.what == FL_DUE_NOTHING) {
        fl_timer_off(&x->client->timer);
    } else {
        fl_timer_set(x->worker->reactor, &x->client->timer, due.at_ms);
    }
}

void fl_exchange_run(struct fl_exchange *x)
{
    if (x->running) {
        x->again = true;
        return;
    }
    bool behind;
    x->running = true;
    do {
        x->again = x->starving = false;
        notice_client(x);
        behind = go(x);
    } while (x->again && x->state != FL_X_DONE);
    x->running = false;
    if (x->state == FL_X_DONE) {
        give_back(x);
    } else if (behind) { /* it runs again in this turn, or next: what the timer says then will do */
        fl_exchange_advance(x);
    } else {
        set_timer(x);
    }
}

void fl_exchange_start(struct fl_exchange *x, struct fl_client *c)
{
    x->client = c;
    c->exchange = x;
    x->head = c->in;
    x->head_off = c->in->start;
    c->in = NULL;
    fl_exchange_run(x);
}

void fl_exchange_refuse(struct fl_exchange *x, struct fl_client *c, enum fl_answer a,
                        const char *why)
{
    memset(&x->request, 0,
           offsetof(struct fl_request_head, head) + offsetof(struct fl_http_head, fields));
    x->malformed = true;
    x->client = c;
    c->exchange = x;
    fl_exchange_begin_refused(x);
    fl_cause_set(&x->cause, fl_answer_row(a)->token, "%s", why);
    fl_buffer_give(&x->worker->buffers, &c->in);
    x->class = a == FL_ANSWER_REQUEST_TIMEOUT ? "client_timeout"
               : a == FL_ANSWER_OVERLOAD      ? "overload"
                                              : NULL;
    x->state = fl_judge_answer(x, a, 0);
    fl_exchange_run(x);
}

/* ---- deadlines ---- */

static void try_failed(struct fl_exchange *x)
{
    x->attempt.phase = FL_ATTEMPT_EXCHANGING;
    enter(x, FL_X_JUDGE);
}

static void fail_try(struct fl_exchange *x, enum fl_outcome o)
{
    (void)fl_attempt_fail(x, o, 0);
    try_failed(x);
}

/* Cut by the deadline: a write's first try is the peer's fault, the rest is neutral. */
static void deadline_out(struct fl_exchange *x)
{
    if (x->state == FL_X_TRY) {
        bool blamed = x->operation.class != FL_CLASS_S && x->tries == 1;
        fail_try(x, blamed ? FL_OUTCOME_DEADLINE_BLAMED : FL_OUTCOME_DEADLINE);
    }
}

static void client_too_slow(struct fl_exchange *x)
{
    x->client_stalled = true;
    if (x->state == FL_X_RELAY) {
        enter(x, fl_judge_relayed(x, FL_OUTCOME_CLIENT_TIMEOUT));
    } else if (x->state == FL_X_REPLY) {
        x->ended = FL_OUTCOME_CLIENT_TIMEOUT;
        x->end = FL_CLIENT_RESET;
        enter(x, FL_X_FINISH);
    } else {
        fail_try(x, FL_OUTCOME_CLIENT_TIMEOUT);
    }
}

/* We could not read for want of a buffer: nobody else is to blame. */
static void starved(struct fl_exchange *x)
{
    if (x->state == FL_X_RELAY) {
        enter(x, fl_judge_relayed(x, FL_OUTCOME_LOCAL_RESOURCE));
    } else if (x->state == FL_X_TRY) {
        fail_try(x, FL_OUTCOME_LOCAL_RESOURCE);
    }
}

static void ran_out(struct fl_exchange *x, enum fl_due_what what)
{
    switch (what) {
    case FL_DUE_CONNECT:
        (void)fl_attempt_connect_timeout(x);
        try_failed(x);
        break;
    case FL_DUE_SEND:
        fail_try(x, FL_OUTCOME_SEND_TIMEOUT);
        break;
    case FL_DUE_HEAD:
        fail_try(x, FL_OUTCOME_READ_TIMEOUT);
        break;
    case FL_DUE_CLIP:
        fail_try(x, FL_OUTCOME_CLIPPED);
        break;
    case FL_DUE_DEADLINE:
        deadline_out(x);
        break;
    case FL_DUE_EXPECT:
        fl_relay_continue(x);
        break;
    case FL_DUE_PATIENCE:
        fl_relay_hurry(x);
        break;
    case FL_DUE_STALL:
        enter(x, fl_judge_relayed(x, FL_OUTCOME_STALLED));
        break;
    case FL_DUE_CLIENT_READ:
    case FL_DUE_CLIENT_WRITE:
        client_too_slow(x);
        break;
    case FL_DUE_STARVED:
        starved(x);
        break;
    case FL_DUE_QUEUE:
    case FL_DUE_PEEK:
    case FL_DUE_NOTHING:
        break; /* the step itself looks at the time */
    }
}

void fl_exchange_tick(struct fl_exchange *x)
{
    struct fl_due due = fl_exchange_due(x);
    if (due.what != FL_DUE_NOTHING && due.at_ms <= fl_worker_now_ms(x->worker)) {
        ran_out(x, due.what);
    }
    fl_exchange_run(x);
}

void fl_exchange_retry_queue(struct fl_exchange *x)
{
    x->looked = true;
    fl_exchange_run(x);
}

void fl_exchange_cut(struct fl_exchange *x)
{
    x->client->hup = true;
    fl_exchange_run(x);
}
