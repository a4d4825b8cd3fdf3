#include "sidecar/policy/backend.h"

#include "common/base/check.h"
#include "sidecar/policy/backend_look.h"
#include "sidecar/policy/balancer.h"

#define TIERS (FL_TIER_BACKUP + 1)

/* What one pass over the peers found. The arrays are filled from the front and never cleared. */
struct scan {
    uint32_t usable;            /* live for anyone on this route; tried and full ones are */
    uint32_t live_count[TIERS]; /* untried, below max_conns */
    uint32_t full[TIERS];       /* untried, at max_conns */
    uint32_t probation_count;
    uint32_t probation_full, read_only;
    int64_t release_at_ms; /* first end of a quarantine, 0 = none */
    uint16_t live[TIERS][FL_PEERS_MAX];
    uint16_t probation[FL_PEERS_MAX];
};

static bool was_tried(const struct fl_ask *ask, uint32_t index)
{
    return ask->tried && (ask->tried[index / 64] >> (index % 64) & 1);
}

static void sort_in(const struct fl_snap_backend *b, const struct fl_ask *ask, uint32_t index,
                    bool probation, struct scan *s)
{
    const struct fl_snap_peer *sp = &b->peers[index];
    enum fl_tier tier = sp->conf->tier;
    if (was_tried(ask, index)) {
        return;
    }
    if (ask->write && fl_backend_is_read_only(b, sp)) {
        s->read_only++;
    } else if (fl_backend_is_full(b, sp)) {
        *(probation ? &s->probation_full : &s->full[tier]) += 1;
    } else if (probation) {
        s->probation[s->probation_count++] = (uint16_t)index;
    } else {
        s->live[tier][s->live_count[tier]++] = (uint16_t)index;
    }
}

static void scan_peers(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                       const struct fl_ask *ask, bool ignore_quarantine, struct scan *s)
{
    s->usable = s->probation_count = s->probation_full = s->read_only = 0;
    s->release_at_ms = 0;
    for (unsigned tier = 0; tier < TIERS; tier++) {
        s->live_count[tier] = s->full[tier] = 0;
    }
    for (uint32_t i = 0; i < b->peer_count; i++) {
        struct fl_look look = fl_backend_look(b, p, i, ask->now_ms);
        if (look.state == FL_LOOK_OUT) {
            continue;
        }
        s->usable += look.state == FL_LOOK_LIVE;
        if (look.state == FL_LOOK_LIVE || ignore_quarantine) {
            sort_in(b, ask, i, false, s);
        } else if (look.state == FL_LOOK_PROBATION) {
            sort_in(b, ask, i, true, s);
        } else if (look.state == FL_LOOK_QUARANTINED &&
                   (s->release_at_ms == 0 || look.until_ms < s->release_at_ms)) {
            s->release_at_ms = look.until_ms;
        }
    }
}

/* The trial where there is one to win, else the plain ticket of a live peer (`force`: of any). */
static bool take_ticket(struct fl_peer_health *h, int64_t now_ms, bool force,
                        struct fl_health_ticket *ret)
{
    int64_t until_ms;
    if (fl_peer_health_take_trial(h, now_ms, ret)) {
        return true;
    }
    *ret = fl_peer_health_ticket(h);
    return force || fl_peer_health_gate(h, now_ms, &until_ms) == FL_HEALTH_LIVE;
}

static void give_back(struct fl_peer_health *h, const struct fl_health_policy *hp,
                      const struct fl_health_ticket *t, int64_t now_ms)
{
    (void)fl_peer_health_settle(h, hp, t, FL_HEALTH_NEUTRAL, now_ms, NULL);
}

static void count_in(const struct fl_snap_backend *b, const struct fl_pick *pick, unsigned thread)
{
    struct fl_peer_line *line = &b->peers[pick->index].peer->lines[thread];
    uint32_t in_flight = atomic_load_explicit(&line->in_flight, memory_order_relaxed) + 1;
    atomic_store_explicit(&line->in_flight, in_flight, memory_order_relaxed);
    if (in_flight > atomic_load_explicit(&line->peak, memory_order_relaxed)) {
        atomic_store_explicit(&line->peak, in_flight, memory_order_relaxed);
    }
    fl_tally_add(&line->requests, 1);
    if (pick->tier == FL_TIER_BACKUP) {
        fl_tally_add(&b->tally->lines[thread].on_backup_picks, 1);
    }
}

static bool take(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                 const struct fl_ask *ask, uint32_t index, bool force, struct fl_pick *ret)
{
    const struct fl_snap_peer *sp = &b->peers[index];
    struct fl_peer_health *route = fl_backend_route_health(p, index);
    if (!take_ticket(&sp->peer->health, ask->now_ms, force, &ret->ticket)) {
        return false;
    }
    if (route && !take_ticket(route, ask->now_ms, force, &ret->route_ticket)) {
        give_back(&sp->peer->health, &sp->health, &ret->ticket, ask->now_ms);
        return false;
    }
    ret->kind = FL_PICK_PEER;
    ret->index = index;
    ret->tier = sp->conf->tier;
    count_in(b, ret, ask->thread);
    return true;
}

/* A trial is a risk: rather for a request that can go elsewhere, unless none has come for one
 * further fail_timeout. */
static bool is_due(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                   const struct fl_ask *ask, uint32_t index)
{
    if (ask->replayable) {
        return true;
    }
    struct fl_look look = fl_backend_look(b, p, index, ask->now_ms);
    return ask->now_ms - look.until_ms >= b->peers[index].health.fail_timeout_ms;
}

static bool take_trial(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                       const struct fl_ask *ask, const struct scan *s, unsigned tier,
                       bool any_request, struct fl_pick *ret)
{
    for (uint32_t i = 0; i < s->probation_count; i++) {
        uint32_t index = s->probation[i];
        if (b->peers[index].conf->tier == tier && (any_request || is_due(b, p, ask, index)) &&
            take(b, p, ask, index, false, ret)) {
            return true;
        }
    }
    return false;
}

static uint32_t balance(const struct fl_snap_backend *b, const struct fl_ask *ask,
                        const struct scan *s, unsigned tier)
{
    const struct fl_candidates c = {.backend = b,
                                    .index = s->live[tier],
                                    .count = s->live_count[tier],
                                    .thread = ask->thread,
                                    .now_ms = ask->now_ms,
                                    .rng = ask->rng};
    switch (b->conf->balance) {
    case FL_BALANCE_ROUND_ROBIN:
        return fl_balancer_round_robin(&c);
    case FL_BALANCE_LEAST_CONN:
        return fl_balancer_least_conn(&c);
    case FL_BALANCE_RANDOM_TWO:
        return fl_balancer_random_two(&c);
    }
    FL_IMPOSSIBLE("balance");
}

/* Tier by tier. A peer on probation is tried before its tier is balanced, but by first tries only:
 * an exchange that has already lost a peer goes where it is safe. Full is not failed, so it never
 * opens the next tier. */
static bool choose(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                   const struct fl_ask *ask, const struct scan *s, struct fl_pick *ret)
{
    for (unsigned tier = 0; tier < TIERS; tier++) {
        bool others_full = s->live_count[tier] == 0 && s->full[tier] > 0;
        if ((ask->first_try || others_full) && take_trial(b, p, ask, s, tier, false, ret)) {
            return true;
        }
        if (s->live_count[tier] > 0) {
            return take(b, p, ask, balance(b, ask, s, tier), true, ret);
        }
        if (others_full) {
            ret->kind = FL_PICK_FULL;
            return true;
        }
    }
    for (unsigned tier = 0; tier < TIERS; tier++) { /* nobody else: any request is the trial */
        if (take_trial(b, p, ask, s, tier, true, ret)) {
            return true;
        }
    }
    return false;
}

void fl_backend_pick(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                     const struct fl_ask *ask, struct fl_pick *ret)
{
    struct scan s FL_UNCLEARED; /* 8 KiB; scan_peers sets what is read */
    *ret = (struct fl_pick){.kind = FL_PICK_NONE};
    if (b->gated) {
        ret->kind = FL_PICK_GATED;
        return;
    }
    if (b->peer_count == 0 && !b->has_members) {
        ret->kind = FL_PICK_NO_MEMBERS;
        return;
    }
    scan_peers(b, p, ask, false, &s);
    if (s.usable * 100 < b->conf->panic_threshold_percent * b->countable) {
        ret->panic = true;
        scan_peers(b, p, ask, true, &s);
    }
    if (choose(b, p, ask, &s, ret)) {
        return;
    }
    ret->release_at_ms = s.release_at_ms;
    if (s.probation_full > 0) {
        ret->kind = FL_PICK_FULL;
    } else if (s.read_only > 0) {
        ret->kind = FL_PICK_READ_ONLY;
    }
}

void fl_backend_cancel(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                       const struct fl_pick *pick, int64_t now_ms, unsigned thread)
{
    FL_MUST(pick->kind == FL_PICK_PEER);
    const struct fl_snap_peer *sp = &b->peers[pick->index];
    struct fl_peer_line *line = &sp->peer->lines[thread];
    uint32_t in_flight = atomic_load_explicit(&line->in_flight, memory_order_relaxed);
    FL_MUST(in_flight > 0);
    atomic_store_explicit(&line->in_flight, in_flight - 1, memory_order_relaxed);
    fl_tally_add(&line->requests, UINT64_MAX);
    if (pick->tier == FL_TIER_BACKUP) {
        fl_tally_add(&b->tally->lines[thread].on_backup_picks, UINT64_MAX);
    }
    give_back(&sp->peer->health, &sp->health, &pick->ticket, now_ms);
    struct fl_peer_health *route = fl_backend_route_health(p, pick->index);
    if (route) {
        give_back(route, &sp->health, &pick->route_ticket, now_ms);
    }
}

bool fl_backend_primary_usable(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                               int64_t now_ms)
{
    for (uint32_t i = 0; i < b->peer_count; i++) {
        if (b->peers[i].conf->tier == FL_TIER_PRIMARY &&
            fl_backend_look(b, p, i, now_ms).state == FL_LOOK_LIVE) {
            return true;
        }
    }
    return false;
}
