#include "sidecar/policy/backend.h"
#include "sidecar/policy/backend_look.h"

#include "common/base/check.h"

#define ANSWERED_LATELY_MS 1000

static void ramp_from(struct fl_peer *peer, const struct fl_health_change *c, int64_t now_ms)
{
    if (c->what == FL_HEALTH_READMITTED) {
        atomic_store_explicit(&peer->live_since_ms, now_ms, memory_order_relaxed);
    }
}

void fl_backend_answered(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                         const struct fl_pick *pick, int64_t now_ms, unsigned thread,
                         struct fl_settled *ret)
{
    struct fl_peer *peer = b->peers[pick->index].peer;
    *ret = (struct fl_settled){.counted = false};
    atomic_store_explicit(&peer->lines[thread].last_answer_ms, now_ms, memory_order_relaxed);
    ret->peer = fl_peer_health_answered(&peer->health, &pick->ticket, now_ms);
    ramp_from(peer, &ret->peer, now_ms);
    struct fl_peer_health *route = fl_backend_route_health(p, pick->index);
    if (route) {
        ret->route = fl_peer_health_answered(route, &pick->route_ticket, now_ms);
    }
}

/* What the outcome means to the peer for all routes, and to the peer for this route. A counted
 * status is an answer: the peer lives, this route does without it. A broken connection says nothing
 * of the route, unless it was its trial. */
static void judge(enum fl_outcome o, bool counted, const struct fl_pick *pick,
                  enum fl_health_result *ret_peer, enum fl_health_result *ret_route)
{
    bool answered = o == FL_OUTCOME_OK || o == FL_OUTCOME_HTTP_STATUS || o == FL_OUTCOME_THROTTLED;
    *ret_peer = *ret_route = answered ? FL_HEALTH_OK : FL_HEALTH_NEUTRAL;
    if (counted && answered) {
        *ret_route = FL_HEALTH_FAILED;
    } else if (counted) {
        *ret_peer = FL_HEALTH_FAILED;
        *ret_route = pick->route_ticket.trial ? FL_HEALTH_FAILED : FL_HEALTH_NEUTRAL;
    }
}

/* The single peer of a backend collects no failures: when the pool grows it starts without a past.
 */
static struct fl_health_policy policy_of(const struct fl_snap_backend *b,
                                         const struct fl_snap_peer *sp)
{
    struct fl_health_policy hp = sp->health;
    if (fl_backend_look_past(b, sp)) {
        hp.max_fails = 0;
    }
    return hp;
}

static void settle_route(struct fl_peer_health *route, struct fl_health_policy hp,
                         const struct fl_pick *pick, enum fl_health_result r, int64_t now_ms,
                         struct fl_rng *rng, struct fl_health_change *ret)
{
    if (pick->ticket.trial && hp.max_fails > 0) {
        hp.max_fails = 1; /* the peer's trial brought a counted status: it failed, for this route */
    }
    *ret = fl_peer_health_settle(route, &hp, &pick->route_ticket, r, now_ms, rng);
}

static void remember(struct fl_peer *peer, enum fl_outcome o, int status, int os_errno,
                     int64_t now_ms)
{
    if (fl_peer_last_answer_ms(peer) >=
        atomic_load_explicit(&peer->last_fail_ms, memory_order_relaxed)) {
        atomic_store_explicit(&peer->failing_since_ms, now_ms, memory_order_relaxed);
    }
    atomic_store_explicit(&peer->last_outcome, (uint32_t)o, memory_order_relaxed);
    atomic_store_explicit(&peer->last_status, status, memory_order_relaxed);
    atomic_store_explicit(&peer->last_errno, os_errno, memory_order_relaxed);
    atomic_store_explicit(&peer->last_fail_ms, now_ms, memory_order_relaxed);
}

static void want_probe(struct fl_peer *peer)
{
    if (!atomic_load_explicit(&peer->probe_wanted, memory_order_relaxed)) {
        atomic_store_explicit(&peer->probe_wanted, 1, memory_order_relaxed);
    }
}

static void count_out(const struct fl_snap_backend *b, const struct fl_pick *pick,
                      enum fl_outcome o, unsigned thread)
{
    struct fl_peer_line *line = &b->peers[pick->index].peer->lines[thread];
    uint32_t in_flight = atomic_load_explicit(&line->in_flight, memory_order_relaxed);
    FL_MUST(in_flight > 0);
    atomic_store_explicit(&line->in_flight, in_flight - 1, memory_order_relaxed);
    fl_tally_add(&b->tally->lines[thread].attempts[o], 1);
}

void fl_backend_settle(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                       const struct fl_pick *pick, enum fl_outcome outcome, int status,
                       int os_errno, int64_t now_ms, unsigned thread, struct fl_rng *rng,
                       struct fl_settled *ret)
{
    FL_MUST(pick->kind == FL_PICK_PEER);
    const struct fl_snap_peer *sp = &b->peers[pick->index];
    struct fl_backend_line *tally = &b->tally->lines[thread];
    struct fl_peer_health *route = fl_backend_route_health(p, pick->index);
    struct fl_health_policy hp = policy_of(b, sp);
    enum fl_health_result for_peer, for_route;
    *ret =
        (struct fl_settled){.counted = fl_outcome_counts(outcome, status, p->conf->count_failures)};
    count_out(b, pick, outcome, thread);
    judge(outcome, ret->counted, pick, &for_peer, &for_route);
    if (ret->counted) {
        fl_tally_add(&sp->peer->lines[thread].failures, 1);
        remember(sp->peer, outcome, status, os_errno, now_ms);
        if (for_peer == FL_HEALTH_FAILED &&
            fl_peer_health_ticket(&sp->peer->health).generation != pick->ticket.generation) {
            fl_tally_add(&tally->stale_failures, 1);
        }
    }
    ret->peer = fl_peer_health_settle(&sp->peer->health, &hp, &pick->ticket, for_peer, now_ms, rng);
    ramp_from(sp->peer, &ret->peer, now_ms);
    if (route) {
        settle_route(route, hp, pick, for_route, now_ms, rng, &ret->route);
    }
    fl_tally_add(&tally->quarantines, (uint64_t)(ret->peer.what == FL_HEALTH_DISABLED) +
                                          (uint64_t)(ret->route.what == FL_HEALTH_DISABLED));
    if (ret->counted || (outcome != FL_OUTCOME_HTTP_STATUS && fl_outcome_row(outcome)->blames) ||
        outcome == FL_OUTCOME_DEADLINE) {
        want_probe(sp->peer);
    }
}

bool fl_backend_retry_is_free(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                              uint32_t from, uint32_t to, int64_t now_ms, unsigned thread)
{
    int64_t answered_ms = atomic_load_explicit(&b->peers[to].peer->lines[thread].last_answer_ms,
                                               memory_order_relaxed);
    return fl_backend_look(b, p, from, now_ms).state != FL_LOOK_LIVE && answered_ms > 0 &&
           now_ms - answered_ms <= ANSWERED_LATELY_MS;
}
