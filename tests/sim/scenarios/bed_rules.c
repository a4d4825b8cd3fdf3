#include "tests/sim/scenarios/bed_rules.h"

#include "sidecar/policy/peer.h"
#include "sidecar/proxy/client.h"
#include "sidecar/proxy/engine_state.h"
#include "sidecar/proxy/exchange.h"
#include "sidecar/proxy/upstream.h"
#include "tests/sim/scenarios/user.h"

enum { LATE_MS = 100, STUCK_MS = 200, PATIENCE_MS = FL_PATIENCE_MS + 8 };

static struct fl_client *client_of(struct fl_list *node)
{
    return fl_container_of(node, struct fl_client, node);
}

/* What a store gives is held back only so long. */
static void check_patience(const struct bed *b, const struct fl_client *c)
{
    const struct fl_exchange *x = c->exchange;
    if (x == NULL || x->state != FL_X_RELAY || x->attempt.up == NULL ||
        x->attempt.up->wake_at == 0 || fl_exchange_unsent(x) > 0) {
        return;
    }
    bool runs = !fl_list_empty(&c->task.node) || !fl_list_empty(&x->again_task.node);
    BED_MUST(runs || c->timer.at_ms <= bed_now_ms(b) + PATIENCE_MS,
             "%s: waits for %d bytes and is not due for %lld ms", x->request_id,
             x->attempt.up->wake_at, (long long)(c->timer.at_ms - bed_now_ms(b)));
}

/* Nothing armed and nothing to come is a hang. */
static void check_client(const struct bed *b, const struct fl_client *c)
{
    const struct fl_exchange *x = c->exchange;
    bool timed = c->timer.at_ms != INT64_MAX;
    bool waits = !fl_list_empty(&c->waiting) || !fl_list_empty(&c->task.node);
    if (x != NULL) {
        waits = waits || !fl_list_empty(&x->queued) || !fl_list_empty(&x->again_task.node);
    }
    BED_MUST(timed || waits, "a client with nothing armed: %s, state %d, attempt %d",
             x != NULL ? x->request_id : "between requests", x != NULL ? (int)x->state : -1,
             x != NULL ? (int)x->attempt.phase : -1);
    BED_MUST(!timed || c->timer.at_ms + LATE_MS >= bed_now_ms(b), "%s: a deadline is %lld ms late",
             x != NULL ? x->request_id : "a client", (long long)(bed_now_ms(b) - c->timer.at_ms));
}

static void check_memory(const struct fl_worker *w)
{
    uint64_t used = atomic_load(&w->buffers.used_bytes);
    BED_MUST(used <= w->buffers.limit_bytes, "buffers: %llu bytes of %llu",
             (unsigned long long)used, (unsigned long long)w->buffers.limit_bytes);
    uint64_t replay = atomic_load(&w->replay_bytes);
    BED_MUST(replay <= w->replay_limit_bytes, "replay: %llu bytes of %llu",
             (unsigned long long)replay, (unsigned long long)w->replay_limit_bytes);
}

/* A turn without an event and without a byte is a busy loop, unless it is one of a few. */
static void check_idle(struct bed *b)
{
    struct sim_counts now = sim_counts(b->world), was = b->seen;
    uint64_t bytes = now.bytes_received + now.bytes_sent - was.bytes_received - was.bytes_sent;
    uint64_t turns = now.turns - was.turns, events = now.events - was.events;
    BED_MUST(turns <= 600 + 2 * events + bytes / 256,
             "a busy loop: %llu turns for %llu events and %llu bytes", (unsigned long long)turns,
             (unsigned long long)events, (unsigned long long)bytes);
    b->seen = now;
}

/* A 503 is looked into; nothing is sent meanwhile, on purpose. */
static bool is_peeking(const struct fl_client *c)
{
    const struct fl_exchange *x = c->exchange;
    return x != NULL && x->state == FL_X_TRY && x->attempt.phase == FL_ATTEMPT_PEEKING;
}

void bed_rules_running(struct bed *b)
{
    bool peeking = false;
    check_idle(b);
    for (unsigned i = 0; i < b->threads; i++) {
        struct fl_worker *w = &b->engine->workers[i];
        fl_list_each (it, &w->clients) {
            check_client(b, client_of(it));
            check_patience(b, client_of(it));
            peeking = peeking || is_peeking(client_of(it));
        }
        check_memory(w);
    }
    int64_t stuck_ms = peeking ? FL_PEEK_MS + LATE_MS : STUCK_MS;
    struct sim_stuck stuck = sim_stuck(b->world, stuck_ms, NULL);
    if (stuck.unsent > 0) {
        sim_stuck(b->world, stuck_ms, stderr);
    }
    BED_MUST(stuck.unsent == 0, "a lost wake-up: room was announced and nothing was sent");
}

void bed_rules_show(const struct bed *b)
{
    for (const struct user *u = b->users; u != NULL; u = u->next) {
        if (u->conn != NULL) {
            fprintf(stderr, "  client: %u of %u asked, %u answered, first %s%s\n", u->asked,
                    u->deal_count, u->answered, u->deals[0]->id, u->open ? "" : ", not accepted");
        }
    }
    for (unsigned i = 0; i < b->threads; i++) {
        fl_list_each (it, &b->engine->workers[i].clients) {
            const struct fl_exchange *x = client_of(it)->exchange;
            fprintf(stderr, "  exchange: %s, state %d, attempt %d, due in %lld ms\n",
                    x != NULL ? x->request_id : "none", x != NULL ? (int)x->state : -1,
                    x != NULL ? (int)x->attempt.phase : -1,
                    (long long)(client_of(it)->timer.at_ms - bed_now_ms(b)));
        }
    }
}

/* ---- when it is over ---- */

void bed_rules_left(const struct bed *b)
{
    struct fl_engine_gauges g;
    fl_engine_gauges(b->engine, &g);
    BED_MUST(g.clients == 0 && g.clients_active == 0, "%u clients, %u active", g.clients,
             g.clients_active);
    BED_MUST(g.upstreams_active == 0 && g.upstreams_idle == 0, "%u upstreams, %u idle",
             g.upstreams_active, g.upstreams_idle);
    BED_MUST(g.queued == 0, "%u queued", g.queued);
    BED_MUST(g.buffer_bytes == 0, "%llu bytes of buffers", (unsigned long long)g.buffer_bytes);
    BED_MUST(g.replay_bytes == 0, "%llu replay bytes", (unsigned long long)g.replay_bytes);
    struct sim_counts c = sim_counts(b->world);
    BED_MUST(c.sockets_open == c.listeners_open, "%u sockets open", c.sockets_open);
}

static uint64_t sum_attempts(const struct fl_snap_backend *sb)
{
    uint64_t n = 0;
    for (unsigned t = 0; t < FL_THREADS_MAX; t++) {
        for (unsigned o = 0; o < FL_OUTCOME_COUNT; o++) {
            n += atomic_load(&sb->tally->lines[t].attempts[o]);
        }
    }
    return n;
}

static uint64_t sum_requests(const struct fl_peer *p)
{
    uint64_t n = 0;
    for (unsigned t = 0; t < FL_THREADS_MAX; t++) {
        n += atomic_load(&p->lines[t].requests);
    }
    return n;
}

/* Every pick is one try, every attempt has one outcome, and no peer believes in a request that is
 * over. */
static void check_tallies(const struct bed *b, const struct fl_snapshot *s)
{
    uint64_t attempts = 0, picks = 0, quarantines = 0, trials = 0;
    for (uint32_t i = 0; i < s->backend_count; i++) {
        const struct fl_snap_backend *sb = &s->backends[i];
        attempts += sum_attempts(sb);
        for (unsigned t = 0; t < FL_THREADS_MAX; t++) {
            quarantines += atomic_load(&sb->tally->lines[t].quarantines);
        }
        for (uint32_t j = 0; j < sb->peer_count; j++) {
            const struct fl_peer *p = sb->peers[j].peer;
            int64_t until_ms = 0;
            BED_MUST(fl_peer_in_flight(p, b->threads) == 0, "%s: %u in flight", p->address,
                     fl_peer_in_flight(p, b->threads));
            trials +=
                fl_peer_health_gate(&p->health, bed_now_ms(b), &until_ms) == FL_HEALTH_TRIAL_OUT;
            picks += sum_requests(p);
        }
    }
    BED_MUST(trials == 0, "%llu trials are out and nobody makes them", (unsigned long long)trials);
    BED_MUST(b->log_capped || attempts == b->log_attempts, "%llu attempts judged, %llu logged",
             (unsigned long long)attempts, (unsigned long long)b->log_attempts);
    BED_MUST(b->peers_left || picks == b->log_tries, "%llu picks, %llu tries logged",
             (unsigned long long)picks, (unsigned long long)b->log_tries);
    unsigned said = bed_events(b, "upstream server temporarily disabled");
    BED_MUST(quarantines == said, "%llu quarantines counted, %u logged",
             (unsigned long long)quarantines, said);
}

static uint64_t sum_routed(const struct fl_route_tally *t)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < FL_THREADS_MAX; i++) {
        for (unsigned c = 0; c < FL_STATUS_CLASSES; c++) {
            for (unsigned a = 0; a < FL_ANSWER_COUNT; a++) {
                n += atomic_load(&t->lines[i].requests[c][a]);
            }
        }
    }
    return n;
}

static void check_routes(const struct bed *b, const struct fl_snapshot *s)
{
    uint64_t n = sum_routed(s->no_route);
    for (uint32_t i = 0; i < s->route_count; i++) {
        n += sum_routed(s->routes[i].policy.tally);
        for (uint32_t j = 0; j < s->routes[i].path_count; j++) {
            n += sum_routed(s->routes[i].paths[j].policy.tally);
        }
    }
    BED_MUST(n == b->log_lines, "%llu requests counted, %llu logged", (unsigned long long)n,
             (unsigned long long)b->log_lines);
}

void bed_rules_over(struct bed *b)
{
    const struct fl_snapshot *s = fl_engine_snapshot(b->engine);
    bed_rules_left(b);
    BED_MUST(fl_engine_reclaim(b->engine, b->registry) == 0, "a snapshot is still held");
    BED_MUST(fl_log_dropped(b->logs) == 0, "log lines were dropped");
    check_tallies(b, s);
    check_routes(b, s);
    for (unsigned i = 0; i < b->deal_count; i++) {
        deal_check(b->deals[i]);
    }
}
