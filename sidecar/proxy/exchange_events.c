#include "sidecar/proxy/exchange_events.h"

#include <stdio.h>
#include <string.h>

#include "common/base/fmt.h"
#include "sidecar/proxy/exchange.h"
#include "sidecar/proxy/worker.h"

enum { EVERY_MS = 1000 };

static const struct fl_peer *peer_of(const struct fl_exchange *x, const struct fl_pick *pick)
{
    return x->backend->peers[pick->index].peer;
}

static void peer_fields(struct fl_exchange *x, const struct fl_pick *pick, struct fl_log_line *l)
{
    fl_log_text(l, "peer", peer_of(x, pick)->address);
    fl_log_text(l, "backend", x->backend->conf->name);
}

/* "connect() failed while connecting to upstream" -> "connecting to upstream" */
static const char *doing(enum fl_outcome o)
{
    const char *message = fl_outcome_row(o)->message;
    const char *at = strstr(message, " while ");
    return at != NULL ? at + strlen(" while ") : "reading response header from upstream";
}

static void log_disabled(struct fl_exchange *x, const struct fl_pick *pick,
                         const struct fl_health_change *c, enum fl_outcome o, bool route_only)
{
    struct fl_worker *w = x->worker;
    struct fl_log_line l;
    fl_log_begin(&w->log, &l, FL_LOG_WARN, "upstream server temporarily disabled");
    peer_fields(x, pick, &l);
    if (route_only) {
        fl_log_text(&l, "route", x->policy->route);
    }
    fl_log_text(&l, "while", doing(o));
    fl_log_int(&l, "fails", c->fails);
    char text[40];
    struct fl_fmt f = fl_fmt_of(text, sizeof text);
    fl_fmt_rfc3339(&f, fl_reactor_wall_ms(w->reactor) + (c->until_ms - fl_worker_now_ms(w)));
    fl_log_text(&l, "until", text);
    fl_log_end(&w->log, &l);
}

static void log_readmitted(struct fl_exchange *x, const struct fl_pick *pick, bool route_only)
{
    struct fl_log_line l;
    fl_log_begin(&x->worker->log, &l, FL_LOG_INFO, "upstream readmitted");
    peer_fields(x, pick, &l);
    if (route_only) {
        fl_log_text(&l, "route", x->policy->route);
    }
    fl_log_end(&x->worker->log, &l);
}

void fl_events_settled(struct fl_exchange *x, const struct fl_settled *s,
                       const struct fl_pick *pick, enum fl_outcome o)
{
    const struct fl_health_change *changes[2] = {&s->peer, &s->route};
    for (unsigned i = 0; i < 2; i++) {
        if (changes[i]->what == FL_HEALTH_DISABLED) {
            log_disabled(x, pick, changes[i], o, i == 1);
        } else if (changes[i]->what == FL_HEALTH_READMITTED) {
            log_readmitted(x, pick, i == 1);
        }
    }
}

void fl_events_attempt_failed(struct fl_exchange *x)
{
    struct fl_worker *w = x->worker;
    const struct fl_attempt *a = &x->attempt;
    const char *message = fl_outcome_row(a->outcome)->message;
    struct fl_peer_line *line = &x->backend->peers[a->pick.index].peer->lines[w->index];
    int64_t now_ms = fl_worker_now_ms(w);
    if (message[0] == '\0') {
        return;
    }
    if (line->warn_at_ms != 0 && now_ms - line->warn_at_ms < EVERY_MS) {
        line->warn_suppressed++;
        return;
    }
    struct fl_log_line l;
    fl_log_begin(&w->log, &l, FL_LOG_WARN, message);
    peer_fields(x, &a->pick, &l);
    if (a->os_errno != 0) {
        fl_log_text(&l, "error", fl_cause_errno_text(a->os_errno));
    } else if (a->http_error != FL_HTTP_ERR_NONE) {
        fl_log_text(&l, "error", fl_http_error_text(a->http_error));
    }
    fl_log_text(&l, "request_id", x->request_id);
    fl_log_int(&l, "count", (int64_t)line->warn_suppressed + 1);
    fl_log_end(&w->log, &l);
    line->warn_at_ms = now_ms;
    line->warn_suppressed = 0;
}

void fl_events_no_live(struct fl_exchange *x)
{
    struct fl_worker *w = x->worker;
    struct fl_backend_lane *lane = &x->backend->lanes[w->index];
    int64_t now_ms = fl_worker_now_ms(w);
    lane->no_live_count++;
    if (lane->no_live_logged_ms != 0 && now_ms - lane->no_live_logged_ms < EVERY_MS) {
        return;
    }
    struct fl_log_line l;
    fl_log_begin(&w->log, &l, FL_LOG_ERROR, "no live upstreams");
    fl_log_text(&l, "backend", x->backend->conf->name);
    fl_log_text(&l, "cause", x->cause.text);
    fl_log_int(&l, "count", lane->no_live_count);
    fl_log_end(&w->log, &l);
    lane->no_live_logged_ms = now_ms;
    lane->no_live_count = 0;
}

/* One figure of each attempt, comma-joined as in the access log. */
static void attempts_field(const struct fl_exchange *x, struct fl_log_line *l, const char *key,
                           bool times)
{
    char text[512];
    struct fl_fmt f = fl_fmt_of(text, sizeof text);
    uint32_t shown = x->attempts < FL_ATTEMPTS_LOGGED ? x->attempts : FL_ATTEMPTS_LOGGED;
    for (uint32_t i = 0; i < shown; i++) {
        const struct fl_attempt_record *a = &x->records[i];
        int64_t us = a->header_us >= 0 ? a->header_us : a->response_us;
        fl_fmt_text(&f, i > 0 ? ", " : "");
        if (times ? us < 0 : a->status == 0) {
            fl_fmt_char(&f, '-');
        } else if (times) {
            fl_fmt_secs(&f, us);
        } else {
            fl_fmt_uint(&f, (uint64_t)a->status);
        }
    }
    fl_log_text(l, key, text);
}

void fl_events_slow(struct fl_exchange *x)
{
    if (x->attempts == 0 || x->first_byte_us == 0) {
        return;
    }
    int64_t total_us = x->first_byte_us - x->began_us;
    int64_t limit_ms =
        x->snapshot->config->slow_request_ms + (int64_t)(x->body.body_bytes * 1000 / (1024 * 1024));
    if (total_us < limit_ms * 1000) {
        return;
    }
    struct fl_log_line l;
    fl_log_begin(&x->worker->log, &l, FL_LOG_WARN, "slow backend request");
    fl_log_text(&l, "backend", x->backend->conf->name);
    uint32_t last = x->attempts < FL_ATTEMPTS_LOGGED ? x->attempts : FL_ATTEMPTS_LOGGED;
    fl_log_text(&l, "peer", x->records[last - 1].peer->address);
    fl_log_text(&l, "operation", fl_s3_operation_name(x->operation.op));
    fl_log_text(&l, "bucket", x->bucket);
    fl_log_str(&l, "key", fl_span_first(x->key, 512));
    fl_log_int(&l, "attempts", x->attempts);
    attempts_field(x, &l, "statuses", false);
    attempts_field(x, &l, "times", true);
    fl_log_secs(&l, "before_first_attempt_secs", (x->first_try_ms - x->began_ms) * 1000);
    fl_log_secs(&l, "total_secs", total_us);
    fl_log_text(&l, "request_id", x->request_id);
    fl_log_end(&x->worker->log, &l);
}

void fl_events_count(struct fl_exchange *x)
{
    struct fl_worker *w = x->worker;
    struct fl_route_tally *tally = x->policy != NULL ? x->policy->tally : x->snapshot->no_route;
    struct fl_route_line *r = &tally->lines[w->index];
    unsigned class = x->status >= 100 && x->status < 600 ? (unsigned)x->status / 100 : 0;
    fl_tally_add(&r->requests[class][x->answer], 1);
    fl_latency_add(&r->duration, fl_reactor_now_us(w->reactor) - x->began_us);
    if (x->retried && (class == 2 || class == 3)) {
        fl_tally_add(&r->rescued, 1);
    }
    if (x->discovered && x->answer != FL_ANSWER_NONE) {
        fl_tally_add(&r->sacrificed, 1);
    }
    if (x->client_gone && !x->client_stalled) {
        fl_tally_add(&r->client_aborts, 1);
    }
    if (x->backend != NULL && x->first_byte_us != 0 && x->attempts > 0) {
        struct fl_latency *l = &x->backend->tally->lines[w->index].duration[x->operation.op];
        fl_latency_add(l, x->first_byte_us - x->began_us);
    }
}
