/* pool_kit - one backend, one route and their snapshot, built by hand, for the tests of
 * sidecar/policy. */
#ifndef FL_TESTS_POOL_KIT_H
#define FL_TESTS_POOL_KIT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sidecar/policy/backend.h"

#define POOL_PEERS_MAX 16

struct pool_peer {
    const char *address;
    enum fl_tier tier;
    uint32_t weight, max_conns; /* weight 0: 1; to have it 0 set weight_zero */
    bool down, weight_zero;
};

struct pool_spec {
    enum fl_protocol protocol;
    enum fl_balance balance;
    uint32_t max_fails; /* 0: 1; to have it 0 set passive_off */
    bool passive_off;
    int64_t fail_timeout_ms; /* 0: 10 s */
    uint32_t quarantine_max, panic_percent;
    int64_t slow_start_ms;
    bool same_store;
    uint32_t count_failures; /* 0: error timeout invalid_header */
    unsigned threads;        /* 0: 1 */
    struct pool_peer peers[POOL_PEERS_MAX];
};

struct pool {
    struct fl_registry *registry;
    struct fl_snapshot *snapshot;
    const struct fl_snap_backend *b;
    const struct fl_snap_policy *p;
    struct fl_rng rng;
    int64_t now_ms;
    uint64_t tried[FL_TRIED_WORDS];
    bool is_first;
};

static inline void *pool_must(void *p)
{
    if (!p) {
        abort();
    }
    return p;
}

static inline struct fl_peer_conf *pool_peers(struct fl_config *c, const struct pool_spec *spec,
                                              uint32_t *ret_count)
{
    struct fl_peer_conf *peers =
        pool_must(fl_arena_array(&c->arena, POOL_PEERS_MAX, sizeof(struct fl_peer_conf)));
    uint32_t n = 0;
    for (; n < POOL_PEERS_MAX && spec->peers[n].address; n++) {
        const struct pool_peer *p = &spec->peers[n];
        peers[n] = (struct fl_peer_conf){
            .address = p->address,
            .fallback_address = "",
            .zone = "",
            .tier = p->tier,
            .weight = p->weight_zero ? 0
                      : p->weight    ? p->weight
                                     : 1,
            .max_fails = spec->passive_off ? 0
                         : spec->max_fails ? spec->max_fails
                                           : 1,
            .max_conns = p->max_conns,
            .fail_timeout_ms = spec->fail_timeout_ms ? spec->fail_timeout_ms : 10000,
            .down = p->down,
        };
    }
    *ret_count = n;
    return peers;
}

static inline struct fl_config *pool_config(const struct pool_spec *spec)
{
    struct fl_config *c = pool_must(fl_config_new());
    c->backends = pool_must(fl_arena_array(&c->arena, 1, sizeof(struct fl_backend_conf)));
    c->routes = pool_must(fl_arena_array(&c->arena, 1, sizeof(struct fl_route_conf)));
    c->backend_count = c->route_count = 1;
    struct fl_backend_conf *b = &c->backends[0];
    b->name = "minio";
    b->protocol = spec->protocol;
    b->balance = spec->balance;
    b->peers = pool_peers(c, spec, &b->peer_count);
    b->quarantine_max = spec->quarantine_max ? spec->quarantine_max : 1;
    b->panic_threshold_percent = spec->panic_percent;
    b->slow_start_ms = spec->slow_start_ms;
    b->same_store = spec->same_store;
    b->retry_budget.ratio_percent = 20;
    b->retry_budget.min_per_second = 3;
    struct fl_route_conf *r = &c->routes[0];
    r->bucket = "*";
    r->backend = "minio";
    r->invalid = "";
    r->policy.count_failures = spec->count_failures
                                   ? spec->count_failures
                                   : FL_ON_ERROR | FL_ON_TIMEOUT | FL_ON_INVALID_HEADER;
    r->policy.next_upstream = FL_ON_ERROR | FL_ON_TIMEOUT;
    r->policy.next_upstream_tries = 2;
    return c;
}

static inline void pool_look(struct pool *pool)
{
    pool->b = &pool->snapshot->backends[0];
    pool->p = &pool->snapshot->routes[0].policy;
}

static inline void pool_init(struct pool *pool, const struct pool_spec *spec)
{
    *pool = (struct pool){.now_ms = 1000000, .is_first = true};
    fl_rng_seed(&pool->rng, 42);
    pool->registry = pool_must(fl_registry_new(1));
    pool->snapshot = pool_must(fl_snapshot_build(pool->registry, pool_config(spec),
                                                 spec->threads ? spec->threads : 1, 1, NULL, NULL));
    pool_look(pool);
    for (unsigned i = 0; i < FL_THREADS_MAX; i++) {
        pool->b->lanes[i].rr_seeded = true; /* the sequence from its start */
    }
}

/* A push or a reload: the same registry, another snapshot. */
static inline void pool_reload(struct pool *pool, const struct pool_spec *spec,
                               fl_snapshot_verdict_fn *verdicts, void *arg)
{
    struct fl_snapshot *fresh =
        pool_must(fl_snapshot_build(pool->registry, pool_config(spec), pool->snapshot->threads,
                                    pool->snapshot->generation + 1, verdicts, arg));
    fl_snapshot_retire(pool->snapshot, fresh);
    fl_snapshot_free(pool->registry, pool->snapshot);
    pool->snapshot = fresh;
    pool_look(pool);
}

static inline void pool_done(struct pool *pool)
{
    fl_snapshot_free(pool->registry, pool->snapshot);
    fl_registry_free(pool->registry);
}

static inline void pool_begin(struct pool *pool) /* a new exchange */
{
    memset(pool->tried, 0, sizeof(pool->tried));
    pool->is_first = true;
}

enum { POOL_READ = 0, POOL_WRITE = 1, POOL_UNREPEATABLE = 2 };

static inline struct fl_ask pool_ask(const struct pool *pool, unsigned what)
{
    return (struct fl_ask){.now_ms = pool->now_ms,
                           .thread = 0,
                           .tried = pool->tried,
                           .first_try = pool->is_first,
                           .replayable = !(what & POOL_UNREPEATABLE),
                           .write = what & POOL_WRITE};
}

static inline struct fl_pick pool_pick(struct pool *pool, unsigned what)
{
    struct fl_pick pick;
    struct fl_ask ask = pool_ask(pool, what);
    ask.rng = &pool->rng;
    fl_backend_pick(pool->b, pool->p, &ask, &pick);
    if (pick.kind == FL_PICK_PEER) {
        pool->tried[pick.index / 64] |= UINT64_C(1) << (pick.index % 64);
        pool->is_first = false;
    }
    return pick;
}

static inline const char *pool_name(const struct pool *pool, const struct fl_pick *pick)
{
    static const char *const kinds[] = {"peer", "full", "none", "read_only", "no_members", "gated"};
    return pick->kind == FL_PICK_PEER ? pool->b->peers[pick->index].peer->address
                                      : kinds[pick->kind];
}

static inline struct fl_settled pool_settle(struct pool *pool, const struct fl_pick *pick,
                                            enum fl_outcome o, int status)
{
    struct fl_settled s;
    fl_backend_settle(pool->b, pool->p, pick, o, status, o == FL_OUTCOME_CONNECT_FAILED ? 111 : 0,
                      pool->now_ms, 0, &pool->rng, &s);
    return s;
}

/* A new exchange that ends at once. */
static inline struct fl_settled pool_one(struct pool *pool, unsigned what, enum fl_outcome o,
                                         int status, const char **ret_name)
{
    struct fl_settled s = {.counted = false};
    pool_begin(pool);
    struct fl_pick pick = pool_pick(pool, what);
    *ret_name = pool_name(pool, &pick);
    if (pick.kind == FL_PICK_PEER) {
        s = pool_settle(pool, &pick, o, status);
    }
    return s;
}

static inline uint32_t pool_in_flight(const struct pool *pool)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < pool->b->peer_count; i++) {
        sum += fl_peer_in_flight(pool->b->peers[i].peer, FL_THREADS_MAX);
    }
    return sum;
}

#endif
