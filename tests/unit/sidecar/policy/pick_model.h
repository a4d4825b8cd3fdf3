/* pick_model - who may be picked, told as sets and without thought of speed, and a random machine
 * that drives a pool beside it. Unit test and fuzz target share it. */
#ifndef FL_TESTS_PICK_MODEL_H
#define FL_TESTS_PICK_MODEL_H

#include "tests/unit/sidecar/policy/pool_kit.h"

#define PICK_CHECK(cond)                                                                           \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            (void)fprintf(stderr, "%s:%d: model disagrees: %s\n", __FILE__, __LINE__, #cond);      \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define PICK_EXCHANGES 12

typedef uint32_t peer_set;

struct pick_exchange {
    bool used, busy;
    unsigned what;
    bool first;
    uint64_t tried[FL_TRIED_WORDS];
    struct fl_pick pick;
};

struct pick_machine {
    struct pool pool;
    struct pick_exchange exchanges[PICK_EXCHANGES];
};

static inline enum fl_health_gate pick_worse(const struct fl_snap_backend *b,
                                             const struct fl_snap_policy *p, uint32_t i,
                                             int64_t now_ms, int64_t *ret_since)
{
    if (b->countable == 1 || b->peers[i].conf->max_fails == 0) {
        return FL_HEALTH_LIVE;
    }
    int64_t one = 0, two = 0;
    enum fl_health_gate a = fl_peer_health_gate(&b->peers[i].peer->health, now_ms, &one);
    enum fl_health_gate c = FL_HEALTH_LIVE;
    if (p->status_health) {
        c = fl_peer_health_gate(p->status_health[i], now_ms, &two);
    }
    *ret_since = a == FL_HEALTH_PROBATION && c == FL_HEALTH_PROBATION ? (one > two ? one : two)
                 : a == FL_HEALTH_PROBATION                           ? one
                                                                      : two;
    if (a == FL_HEALTH_QUARANTINED || c == FL_HEALTH_QUARANTINED) {
        return FL_HEALTH_QUARANTINED;
    }
    if (a == FL_HEALTH_TRIAL_OUT || c == FL_HEALTH_TRIAL_OUT) {
        return FL_HEALTH_TRIAL_OUT;
    }
    return a == FL_HEALTH_LIVE ? c : a;
}

struct pick_sets {
    peer_set tier[3], live, probation, due, full, mine,
        barred; /* mine: untried and allowed; barred: read-only */
    uint32_t usable;
};

static inline struct pick_sets pick_survey(const struct fl_snap_backend *b,
                                           const struct fl_snap_policy *p, const struct fl_ask *ask)
{
    struct pick_sets s = {.usable = 0};
    peer_set any = 0;
    for (uint32_t i = 0; i < b->peer_count; i++) {
        const struct fl_snap_peer *sp = &b->peers[i];
        peer_set bit = (peer_set)1 << i;
        int64_t since = 0;
        if (sp->conf->down || sp->conf->weight == 0 || sp->gated || sp->peer->drained) {
            continue;
        }
        enum fl_health_gate gate = pick_worse(b, p, i, ask->now_ms, &since);
        bool barred = ask->write && sp->conf->tier == FL_TIER_BACKUP &&
                      b->conf->protocol == FL_PROTOCOL_S3 && !b->conf->same_store;
        bool tried = ask->tried[0] >> i & 1;
        any |= bit;
        s.tier[sp->conf->tier] |= bit;
        s.live |= gate == FL_HEALTH_LIVE ? bit : 0;
        s.usable += gate == FL_HEALTH_LIVE;
        if (gate == FL_HEALTH_PROBATION) {
            s.probation |= bit;
            bool waited = ask->now_ms >= since + sp->conf->fail_timeout_ms;
            s.due |= ask->replayable || waited ? bit : 0;
        }
        s.full |= sp->conf->max_conns &&
                          fl_peer_in_flight(sp->peer, FL_THREADS_MAX) >= sp->conf->max_conns
                      ? bit
                      : 0;
        s.mine |= !tried && !barred ? bit : 0;
        s.barred |= !tried && barred ? bit : 0;
    }
    if (s.usable * 100 < b->conf->panic_threshold_percent * b->countable) {
        s.live = any;
        s.probation = s.due = 0;
    }
    return s;
}

/* The kind of the answer; for PEER the set it must come from. */
static inline enum fl_pick_kind pick_expect(const struct fl_snap_backend *b,
                                            const struct fl_snap_policy *p,
                                            const struct fl_ask *ask, peer_set *ret)
{
    struct pick_sets s = pick_survey(b, p, ask);
    for (unsigned t = 0; t < 3; t++) {
        peer_set here = s.tier[t] & s.mine;
        peer_set free = here & s.live & ~s.full, full = here & s.live & s.full;
        *ret = here & s.due & ~s.full;
        if (*ret && (ask->first_try || (!free && full))) {
            return FL_PICK_PEER;
        }
        *ret = free;
        if (free || full) {
            return free ? FL_PICK_PEER : FL_PICK_FULL;
        }
    }
    for (unsigned t = 0; t < 3; t++) {
        *ret = s.tier[t] & s.mine & s.probation & ~s.full;
        if (*ret) {
            return FL_PICK_PEER;
        }
    }
    if (s.mine & s.probation & s.full) {
        return FL_PICK_FULL;
    }
    return s.barred & (s.live | s.probation) ? FL_PICK_READ_ONLY : FL_PICK_NONE;
}

/* Of least_conn the load must be the least of the set. */
static inline bool pick_is_least(const struct fl_snap_backend *b, peer_set of, uint32_t index)
{
    const struct fl_snap_peer *one = &b->peers[index];
    uint64_t mine = fl_peer_in_flight(one->peer, FL_THREADS_MAX);
    for (uint32_t i = 0; i < b->peer_count; i++) {
        if (of >> i & 1) {
            uint64_t its = fl_peer_in_flight(b->peers[i].peer, FL_THREADS_MAX);
            if (its * one->conf->weight < mine * b->peers[i].conf->weight) {
                return false;
            }
        }
    }
    return true;
}

static inline void pick_try(struct pick_machine *m, struct pick_exchange *x)
{
    struct pool *pool = &m->pool;
    const struct fl_snap_backend *b = pool->b;
    struct fl_ask ask = {.now_ms = pool->now_ms,
                         .tried = x->tried,
                         .first_try = x->first,
                         .replayable = !(x->what & POOL_UNREPEATABLE),
                         .write = x->what & POOL_WRITE,
                         .rng = &pool->rng};
    peer_set of = 0;
    enum fl_pick_kind kind = pick_expect(b, pool->p, &ask, &of);
    peer_set least = 0;
    for (uint32_t i = 0; i < b->peer_count; i++) {
        least |= (of >> i & 1) && pick_is_least(b, of, i) ? (peer_set)1 << i : 0;
    }
    int64_t since = 0, until = 0;
    bool trial[POOL_PEERS_MAX], live[POOL_PEERS_MAX];
    for (uint32_t i = 0; i < b->peer_count; i++) {
        trial[i] = fl_peer_health_gate(&b->peers[i].peer->health, pool->now_ms, &until) ==
                   FL_HEALTH_PROBATION;
        live[i] = pick_worse(b, pool->p, i, pool->now_ms, &since) == FL_HEALTH_LIVE;
    }
    fl_backend_pick(b, pool->p, &ask, &x->pick);
    PICK_CHECK(x->pick.kind == kind);
    if (kind != FL_PICK_PEER) {
        x->used = false;
        return;
    }
    uint32_t i = x->pick.index;
    PICK_CHECK(of >> i & 1);
    PICK_CHECK(x->pick.ticket.trial == trial[i]);
    PICK_CHECK(x->pick.tier == b->peers[i].conf->tier);
    PICK_CHECK(b->conf->balance != FL_BALANCE_LEAST_CONN || b->conf->slow_start_ms || !live[i] ||
               x->pick.panic || (least >> i & 1));
    x->tried[0] |= UINT64_C(1) << i;
    x->first = false;
    x->busy = true;
}

static inline void pick_check_in_flight(const struct pick_machine *m)
{
    const struct fl_snap_backend *b = m->pool.b;
    uint32_t flying[POOL_PEERS_MAX] = {0}, trials[POOL_PEERS_MAX] = {0};
    for (unsigned i = 0; i < PICK_EXCHANGES; i++) {
        const struct pick_exchange *x = &m->exchanges[i];
        if (x->used && x->busy) {
            flying[x->pick.index]++;
            trials[x->pick.index] +=
                x->pick.ticket.trial &&
                x->pick.ticket.generation ==
                    fl_peer_health_ticket(&b->peers[x->pick.index].peer->health).generation;
        }
    }
    for (uint32_t i = 0; i < b->peer_count; i++) {
        int64_t until;
        PICK_CHECK(fl_peer_in_flight(b->peers[i].peer, FL_THREADS_MAX) == flying[i]);
        bool out = fl_peer_health_gate(&b->peers[i].peer->health, m->pool.now_ms, &until) ==
                   FL_HEALTH_TRIAL_OUT;
        PICK_CHECK(!out || trials[i] >= 1);
    }
}

static inline void pick_settle(struct pick_machine *m, struct pick_exchange *x, uint32_t amount)
{
    static const struct {
        enum fl_outcome o;
        int status;
    } ends[] = {
        {FL_OUTCOME_OK, 200},           {FL_OUTCOME_OK, 404},
        {FL_OUTCOME_CONNECT_FAILED, 0}, {FL_OUTCOME_CONNECT_FAILED, 0},
        {FL_OUTCOME_READ_TIMEOUT, 0},   {FL_OUTCOME_PREMATURE_CLOSE, 0},
        {FL_OUTCOME_HTTP_STATUS, 503},  {FL_OUTCOME_HTTP_STATUS, 503},
        {FL_OUTCOME_HTTP_STATUS, 500},  {FL_OUTCOME_THROTTLED, 503},
        {FL_OUTCOME_TRUNCATED, 200},    {FL_OUTCOME_CLIENT_ABORT, 0},
        {FL_OUTCOME_LOCAL_RESOURCE, 0}, {FL_OUTCOME_STALE_REUSE, 0},
        {FL_OUTCOME_CLIPPED, 0},        {FL_OUTCOME_DEADLINE_BLAMED, 0},
    };
    struct pool *pool = &m->pool;
    struct fl_settled s;
    unsigned i = amount % 16;
    fl_backend_settle(pool->b, pool->p, &x->pick, ends[i].o, ends[i].status, 0, pool->now_ms, 0,
                      &pool->rng, &s);
    PICK_CHECK(s.counted ==
               fl_outcome_counts(ends[i].o, ends[i].status, pool->p->conf->count_failures));
    PICK_CHECK(s.counted || s.peer.what != FL_HEALTH_DISABLED);
    PICK_CHECK(ends[i].o != FL_OUTCOME_HTTP_STATUS || s.peer.what != FL_HEALTH_DISABLED);
    x->busy = false;
    if ((amount >> 4 & 3) == 0) {
        x->used = false; /* else it may try again */
    }
}

/* One operation out of 32 random bits. */
static inline void pick_step(struct pick_machine *m, uint32_t bits)
{
    struct pool *pool = &m->pool;
    struct pick_exchange *x = &m->exchanges[(bits >> 4 & 0xff) % PICK_EXCHANGES];
    uint32_t amount = bits >> 12;
    struct fl_settled s;
    switch (bits & 15) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
        if (!x->used) {
            *x = (struct pick_exchange){.used = true, .first = true, .what = amount & 3};
        }
        if (!x->busy) {
            pick_try(m, x);
        }
        break;
    case 6:
        if (x->used && x->busy) {
            fl_backend_answered(pool->b, pool->p, &x->pick, pool->now_ms, 0, &s);
        }
        break;
    case 7:
    case 8:
    case 9:
    case 10:
    case 11:
        if (x->used && x->busy) {
            pick_settle(m, x, amount);
        }
        break;
    case 12:
        if (x->used && x->busy) {
            fl_backend_cancel(pool->b, pool->p, &x->pick, pool->now_ms, 0);
            x->used = x->busy = false;
        }
        break;
    case 13: {
        struct fl_peer *peer = pool->b->peers[amount % pool->b->peer_count].peer;
        peer->drained = (amount >> 8 & 7) == 0;
        break;
    }
    case 14:
        if ((amount & 15) == 0) {
            fl_peer_health_open(&pool->b->peers[(amount >> 4) % pool->b->peer_count].peer->health,
                                pool->now_ms);
        }
        break;
    default:
        pool->now_ms += amount % 3000;
        break;
    }
    pick_check_in_flight(m);
}

static inline void pick_finish(struct pick_machine *m)
{
    for (unsigned i = 0; i < PICK_EXCHANGES; i++) {
        if (m->exchanges[i].used && m->exchanges[i].busy) {
            pick_settle(m, &m->exchanges[i], 0);
        }
    }
    PICK_CHECK(pool_in_flight(&m->pool) == 0);
    pool_done(&m->pool);
}

/* A pool out of a few random bits. */
static inline void pick_machine_init(struct pick_machine *m, uint64_t bits)
{
    static const char *const addresses[] = {"10.0.0.1:9000", "10.0.0.2:9000", "10.0.0.3:9000",
                                            "10.0.0.4:9000", "10.0.0.5:9000", "10.0.0.6:9000"};
    struct fl_rng r;
    fl_rng_seed(&r, bits);
    struct pool_spec spec = {
        .protocol = fl_rng_below(&r, 2) ? FL_PROTOCOL_S3 : FL_PROTOCOL_HTTP,
        .balance = (enum fl_balance)fl_rng_below(&r, 3),
        .max_fails = 1 + fl_rng_below(&r, 3),
        .passive_off = fl_rng_below(&r, 16) == 0,
        .fail_timeout_ms = 1000 + fl_rng_below(&r, 9000),
        .quarantine_max = 1 + fl_rng_below(&r, 8),
        .panic_percent = fl_rng_below(&r, 3) ? 0 : 40,
        .slow_start_ms = fl_rng_below(&r, 3) ? 0 : 5000,
        .same_store = fl_rng_below(&r, 2),
        .count_failures = FL_ON_ERROR | FL_ON_TIMEOUT | FL_ON_INVALID_HEADER |
                          (fl_rng_below(&r, 2) ? FL_ON_HTTP_503 : 0u),
    };
    uint32_t n = 1 + fl_rng_below(&r, 6);
    for (uint32_t i = 0; i < n; i++) {
        spec.peers[i] = (struct pool_peer){
            .address = addresses[i],
            .tier = fl_rng_below(&r, 2) ? FL_TIER_PRIMARY : (enum fl_tier)fl_rng_below(&r, 3),
            .weight = 1 + fl_rng_below(&r, 5),
            .weight_zero = fl_rng_below(&r, 16) == 0,
            .max_conns = fl_rng_below(&r, 3) ? 0 : 1 + fl_rng_below(&r, 3),
            .down = fl_rng_below(&r, 10) == 0};
    }
    *m = (struct pick_machine){.exchanges = {{.used = false}}};
    pool_init(&m->pool, &spec);
}

#endif
