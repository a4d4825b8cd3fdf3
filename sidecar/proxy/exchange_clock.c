#include "sidecar/proxy/exchange_clock.h"

#include "sidecar/proxy/exchange.h"
#include "sidecar/proxy/upstream.h"
#include "sidecar/proxy/worker.h"

static bool has_unsent(const struct fl_exchange *x)
{
    return x->to_peer.left > 0 || x->body.unsent_bytes > 0;
}

/* Everything we have is sent and the client has not finished its body. An answer may flow already.
 */
static bool waits_for_client(const struct fl_exchange *x)
{
    bool uploads = x->state == FL_X_RELAY ? !x->attempt.send_broken
                                          : x->attempt.phase == FL_ATTEMPT_EXCHANGING;
    return uploads && !x->body.complete && !has_unsent(x) && !x->expect_pending;
}

/* Nobody knows how long such a body takes: send_timeout watches that it moves, and the deadline
 * begins behind it. */
static bool moves_unknown_length(const struct fl_exchange *x)
{
    const struct fl_attempt *a = &x->attempt;
    return x->body.chunked && a->phase == FL_ATTEMPT_EXCHANGING && !a->fully_sent &&
           !x->expect_pending;
}

static bool backend_owes(const struct fl_exchange *x)
{
    if (x->state == FL_X_QUEUED) {
        return true;
    }
    return x->state == FL_X_TRY && !x->starving && !waits_for_client(x) && !moves_unknown_length(x);
}

void fl_exchange_advance(struct fl_exchange *x)
{
    int64_t now_ms = fl_worker_now_ms(x->worker);
    bool owes = backend_owes(x);
    if (x->owing_since_ms != 0) {
        x->owed_ms += now_ms - x->owing_since_ms;
    }
    x->owing_since_ms = owes ? now_ms : 0;
    bool waits = (x->state == FL_X_TRY || x->state == FL_X_RELAY) && waits_for_client(x);
    if (!x->starving) {
        x->starved_since_ms = 0;
    } else if (x->starved_since_ms == 0) {
        x->starved_since_ms = now_ms;
    }
    if (!waits) {
        x->client_wait_since_ms = 0;
    } else if (x->client_wait_since_ms == 0) {
        x->client_wait_since_ms = now_ms;
    }
}

bool fl_exchange_deadline_passed(struct fl_exchange *x)
{
    fl_exchange_advance(x);
    return x->deadline_ms > 0 && x->owed_ms >= x->deadline_ms;
}

static void earlier(struct fl_due *d, int64_t at_ms, enum fl_due_what what)
{
    if (at_ms < d->at_ms) {
        *d = (struct fl_due){at_ms, what};
    }
}

/* On s3 routes only plain reads do; the others wait until their deadline, where there is one. */
static bool head_has_own_limit(const struct fl_exchange *x)
{
    bool plain_read = x->operation.class == FL_CLASS_S && x->operation.deadline != FL_DEADLINE_LONG;
    return !x->s3 || plain_read || x->deadline_ms == 0;
}

static void due_in_try(const struct fl_exchange *x, struct fl_due *d)
{
    const struct fl_attempt *a = &x->attempt;
    const struct fl_policy_conf *p = x->policy->conf;
    if (a->phase == FL_ATTEMPT_CONNECTING) {
        earlier(d, a->began_ms + p->connect_timeout_ms, FL_DUE_CONNECT);
    } else if (a->phase == FL_ATTEMPT_PEEKING) {
        earlier(d, a->peek_until_ms, FL_DUE_PEEK);
        return;
    } else if (has_unsent(x) && !a->up->writable) {
        earlier(d, a->sent_progress_ms + p->send_timeout_ms, FL_DUE_SEND);
    } else if (x->starving) { /* perhaps they wait in the socket, both of them */
        earlier(d, x->starved_since_ms + p->read_timeout_ms, FL_DUE_STARVED);
    } else if (a->fully_sent && head_has_own_limit(x)) {
        earlier(d, a->awaiting_since_ms + p->read_timeout_ms, FL_DUE_HEAD);
    } else if (waits_for_client(x)) {
        earlier(d, x->client_wait_since_ms + x->snapshot->config->client.body_timeout_ms,
                FL_DUE_CLIENT_READ);
    }
    if (x->expect_pending && x->expect_until_ms != 0) {
        earlier(d, x->expect_until_ms, FL_DUE_EXPECT);
    }
    if (x->to_client.left > 0) { /* an interim answer is stuck */
        earlier(d, x->relay.client_progress_ms + x->snapshot->config->client.write_timeout_ms,
                FL_DUE_CLIENT_WRITE);
    }
    if (x->tries - x->tries_forgiven > 1 && p->next_upstream_timeout_ms > 0) {
        earlier(d, x->first_try_ms + p->next_upstream_timeout_ms, FL_DUE_CLIP);
    }
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void due_in_relay(const struct fl_exchange *x, struct fl_due *d)
{
    const struct fl_relay *r = &x->relay;
    if (fl_exchange_unsent(x) > 0) {
        earlier(d, r->client_progress_ms + x->snapshot->config->client.write_timeout_ms,
                FL_DUE_CLIENT_WRITE);
        return;
    }
    int64_t since = later(r->client_progress_ms, r->upstream_progress_ms);
    if (x->attempt.up->wake_at > 0) {
        earlier(d, since + FL_PATIENCE_MS, FL_DUE_PATIENCE);
    }
    if (x->starving) { /* until those who hold the buffers have run out of time */
        earlier(d, x->starved_since_ms + x->snapshot->config->client.write_timeout_ms,
                FL_DUE_STARVED);
        return;
    }
    if (waits_for_client(x)) { /* the backend may be waiting for the rest of the request */
        earlier(d,
                later(since, x->client_wait_since_ms) + x->snapshot->config->client.body_timeout_ms,
                FL_DUE_CLIENT_READ);
        return;
    }
    since = later(since, later(x->attempt.sent_progress_ms, x->attempt.awaiting_since_ms));
    earlier(d, since + x->policy->conf->read_timeout_ms, FL_DUE_STALL);
}

struct fl_due fl_exchange_due(struct fl_exchange *x)
{
    struct fl_due d = {INT64_MAX, FL_DUE_NOTHING};
    fl_exchange_advance(x);
    if (x->state == FL_X_TRY) {
        due_in_try(x, &d);
    } else if (x->state == FL_X_RELAY) {
        due_in_relay(x, &d);
    } else if (x->state == FL_X_REPLY) {
        earlier(&d, x->relay.client_progress_ms + x->snapshot->config->client.write_timeout_ms,
                FL_DUE_CLIENT_WRITE);
    } else if (x->state == FL_X_QUEUED) {
        earlier(&d, x->queued_until_ms, FL_DUE_QUEUE);
    }
    if (x->owing_since_ms != 0 && x->deadline_ms > 0) {
        earlier(&d, x->owing_since_ms + (x->deadline_ms - x->owed_ms), FL_DUE_DEADLINE);
    }
    return d;
}
