#include "sidecar/policy/snapshot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/check.h"
#include "tests/unit/sidecar/policy/route_kit.h"

static const struct pool_spec two = {
    .protocol = FL_PROTOCOL_S3,
    .peers = {{.address = "10.0.0.1:9000"}, {.address = "10.0.0.2:9000"}},
};
static const struct pool_spec first_only = {
    .protocol = FL_PROTOCOL_S3,
    .peers = {{.address = "10.0.0.1:9000"}},
};

/* A peer that stays through a reload keeps its state; the snapshots hold it together. */
static void a_peer_that_stays_keeps_its_state(void **state)
{
    (void)state;
    struct pool pool;
    const char *name;
    pool_init(&pool, &two);
    struct fl_peer *one = pool.b->peers[0].peer;
    assert_int_equal(one->refs, 1);
    pool_one(&pool, POOL_READ, FL_OUTCOME_CONNECT_FAILED, 0, &name);
    struct fl_snapshot *fresh =
        pool_must(fl_snapshot_build(pool.registry, pool_config(&two), 1, 2, NULL, NULL));
    assert_ptr_equal(fresh->backends[0].peers[0].peer, one);
    assert_ptr_equal(fresh->backends[0].lanes, pool.b->lanes);
    assert_ptr_equal(fresh->backends[0].tally, pool.b->tally);
    assert_int_equal(one->refs, 2);
    fl_snapshot_retire(pool.snapshot, fresh);
    assert_false(one->removed);
    fl_snapshot_free(pool.registry, pool.snapshot);
    pool.snapshot = fresh;
    pool_look(&pool);
    assert_int_equal(one->refs, 1);
    pool_one(&pool, POOL_READ, FL_OUTCOME_OK, 0, &name);
    assert_string_equal(name, "10.0.0.2:9000"); /* still quarantined */
    pool_done(&pool);
}

/* One that leaves and returns starts clean, even while an exchange still holds the old one. */
static void a_peer_that_returns_is_a_new_one(void **state)
{
    (void)state;
    struct pool pool;
    const char *name;
    pool_init(&pool, &two);
    struct fl_peer *old = pool.b->peers[0].peer;
    uint32_t old_id = old->id;
    pool_one(&pool, POOL_READ, FL_OUTCOME_CONNECT_FAILED, 0, &name);
    struct pool_spec second_only = two;
    second_only.peers[0] = two.peers[1];
    second_only.peers[1] = (struct pool_peer){.address = NULL};
    struct fl_snapshot *held = pool.snapshot; /* an exchange holds it */
    struct fl_snapshot *without =
        pool_must(fl_snapshot_build(pool.registry, pool_config(&second_only), 1, 2, NULL, NULL));
    fl_snapshot_retire(held, without);
    assert_true(old->removed);
    assert_false(without->backends[0].peers[0].peer->removed);
    struct fl_snapshot *with =
        pool_must(fl_snapshot_build(pool.registry, pool_config(&two), 1, 3, NULL, NULL));
    fl_snapshot_retire(without, with);
    struct fl_peer *again = with->backends[0].peers[0].peer;
    assert_ptr_not_equal(again, old);
    assert_int_not_equal(again->id, old_id);
    assert_int_not_equal(again->id, with->backends[0].peers[1].peer->id);
    int64_t until;
    assert_int_equal(fl_peer_health_gate(&again->health, pool.now_ms, &until), FL_HEALTH_LIVE);
    assert_int_equal(fl_peer_health_gate(&old->health, pool.now_ms, &until), FL_HEALTH_QUARANTINED);
    assert_true(old->removed);
    fl_snapshot_free(pool.registry, without);
    fl_snapshot_free(pool.registry,
                     held); /* the exchange ends: the old one goes, the new one stays found */
    struct fl_snapshot *more =
        pool_must(fl_snapshot_build(pool.registry, pool_config(&two), 1, 4, NULL, NULL));
    assert_ptr_equal(more->backends[0].peers[0].peer, again);
    fl_snapshot_free(pool.registry, with);
    pool.snapshot = more;
    pool_done(&pool);
}

static void two_backends_never_share_a_peer(void **state)
{
    (void)state;
    const struct kit k = {.s3 = {"a", "b"}, .routes = {{.bucket = "*", .backend = "a"}}};
    struct fl_registry *registry = fl_registry_new(5);
    struct fl_snapshot *s = kit_snapshot(registry, &k);
    assert_string_equal(s->backends[0].peers[0].peer->address,
                        s->backends[1].peers[0].peer->address);
    assert_ptr_not_equal(s->backends[0].peers[0].peer, s->backends[1].peers[0].peer);
    assert_true(s->any_s3);
    fl_snapshot_free(registry, s);
    fl_registry_free(registry);
}

static void status_health_only_where_a_status_counts(void **state)
{
    (void)state;
    struct pool_spec spec = two;
    struct pool pool;
    pool_init(&pool, &spec);
    assert_null(pool.p->status_health);
    spec.count_failures =
        FL_ON_ERROR | FL_ON_HTTP_404 | FL_ON_HTTP_429 | FL_ON_HTTP_403; /* these never count */
    pool_reload(&pool, &spec, NULL, NULL);
    assert_null(pool.p->status_health);
    spec.count_failures = FL_ON_ERROR | FL_ON_HTTP_502;
    pool_reload(&pool, &spec, NULL, NULL);
    assert_non_null(pool.p->status_health);
    struct fl_peer_health *first = pool.p->status_health[0];
    assert_non_null(first);
    assert_ptr_not_equal(first, pool.p->status_health[1]);
    assert_ptr_not_equal(first, &pool.b->peers[0].peer->health);
    pool_reload(&pool, &spec, NULL, NULL); /* it lives as long as the peer */
    assert_ptr_equal(pool.p->status_health[0], first);
    pool_done(&pool);
}

static void paths_are_sorted_and_named(void **state)
{
    (void)state;
    const struct kit k = {.s3 = {"a", "b"},
                          .routes = {{.bucket = "releases",
                                      .backend = "a",
                                      .paths = {{.prefix = "/a/"},
                                                {.prefix = "/abc/", .backend = "b"},
                                                {.prefix = "/x", .exact = true},
                                                {.prefix = "/ab/"},
                                                {.prefix = "/ba/"},
                                                {.prefix = "/longer/than/all", .exact = true}}},
                                     {.bucket = "broken",
                                      .backend = "none",
                                      .invalid = "no such backend",
                                      .paths = {{.prefix = "/p"}}},
                                     {.bucket = "/", .backend = "b"},
                                     {.bucket = "*", .backend = "b"}}};
    struct fl_registry *registry = fl_registry_new(5);
    struct fl_snapshot *s = kit_snapshot(registry, &k);
    const struct fl_snap_route *r = fl_smap_get(&s->by_bucket, FL_SPAN("releases"));
    static const char *const names[] = {"releases = /x",  "releases = /longer/than/all",
                                        "releases /abc/", "releases /ab/",
                                        "releases /ba/",  "releases /a/"};
    assert_int_equal(r->path_count, FL_COUNTOF(names));
    for (uint32_t i = 0; i < r->path_count; i++) {
        assert_string_equal(r->paths[i].policy.route, names[i]);
        assert_string_equal(r->paths[i].policy.tally->name, names[i]);
        assert_string_equal(r->paths[i].policy.backend->conf->name, i == 2 ? "b" : "a");
        assert_int_equal(r->paths[i].exact, i < 2);
    }
    const struct fl_snap_route *broken = fl_smap_get(&s->by_bucket, FL_SPAN("broken"));
    assert_null(broken->policy.backend);
    assert_string_equal(broken->paths[0].policy.invalid, "no such backend");
    assert_string_equal(s->any->policy.route, "*");
    assert_string_equal(s->service->policy.route, "/");
    assert_non_null(s->no_route);
    fl_snapshot_free(registry, s);
    fl_registry_free(registry);
}

static void tallies_outlive_snapshots_and_end_with_their_name(void **state)
{
    (void)state;
    struct fl_registry *registry = fl_registry_new(5);
    const struct kit k = {
        .s3 = {"a"}, .routes = {{.bucket = "x", .backend = "a"}, {.bucket = "*", .backend = "a"}}};
    const struct kit less = {.s3 = {"a"}, .routes = {{.bucket = "*", .backend = "a"}}};
    struct fl_snapshot *s = kit_snapshot(registry, &k);
    fl_tally_add(&s->any->policy.tally->lines[0].rescued, 7);
    struct fl_snapshot *fresh = kit_snapshot(registry, &less);
    assert_int_equal(fresh->any->policy.tally->lines[0].rescued, 7);
    assert_int_equal(fresh->any->policy.tally->refs, 2);
    fl_snapshot_free(registry, s);
    assert_int_equal(fresh->any->policy.tally->refs, 1);
    fl_snapshot_free(registry, fresh);
    fl_registry_free(registry); /* asserts that nobody holds anything */
}

static void retire_looks_at_backends_that_went(void **state)
{
    (void)state;
    struct fl_registry *registry = fl_registry_new(5);
    const struct kit both = {.s3 = {"a", "b"}, .routes = {{.bucket = "*", .backend = "a"}}};
    const struct kit one = {.s3 = {"a"}, .routes = {{.bucket = "*", .backend = "a"}}};
    struct fl_snapshot *old = kit_snapshot(registry, &both), *fresh = kit_snapshot(registry, &one);
    fl_snapshot_retire(NULL, old);
    assert_false(old->backends[1].peers[0].peer->removed);
    fl_snapshot_retire(old, fresh);
    assert_false(old->backends[0].peers[0].peer->removed);
    assert_true(old->backends[1].peers[0].peer->removed);
    fl_snapshot_free(registry, old);
    fl_snapshot_free(registry, fresh);
    assert_null(fl_snapshot_free(registry, NULL));
    fl_registry_free(registry);
}

static void down_peers_do_not_count(void **state)
{
    (void)state;
    struct pool_spec spec = two;
    spec.peers[1].down = true;
    spec.peers[2] = (struct pool_peer){.address = "not-resolved:9000"};
    struct pool pool;
    pool_init(&pool, &spec);
    assert_int_equal(pool.b->peer_count, 2);
    assert_int_equal(pool.b->countable, 1);
    assert_true(pool.b->has_members);
    pool_done(&pool);
    pool_init(&pool, &first_only);
    assert_int_equal(pool.b->countable, 1);
    pool_done(&pool);
}

struct given {
    enum fl_verdict_status one, two;
    bool one_gated, two_gated;
};

static bool give(void *arg, const struct fl_backend_conf *b, const char *address,
                 struct fl_verdict *ret, bool *ret_gated)
{
    (void)b;
    const struct given *g = arg;
    bool is_one = strcmp(address, "10.0.0.1:9000") == 0;
    *ret = (struct fl_verdict){.status = is_one ? g->one : g->two};
    *ret_gated = is_one ? g->one_gated : g->two_gated;
    return true;
}

#define U FL_VERDICT_UNREACHABLE
#define H FL_VERDICT_HEALTHY
#define A FL_VERDICT_AUTH_REJECTED
#define E FL_VERDICT_ERRORING
#define N FL_VERDICT_UNKNOWN

/* The backend is gated by gates, not by words: a pushed verdict that nobody confirmed is shown and
 * blocks nothing. */
static void gates_of_the_backend(void **state)
{
    (void)state;
    static const struct {
        struct given g;
        enum fl_verdict_status derived;
        bool gated;
    } rows[] = {
        {{U, U, true, true}, U, true},    {{U, U, true, false}, U, false},
        {{U, U, false, false}, U, false}, {{U, H, true, false}, H, false},
        {{U, E, true, false}, E, false},  {{A, A, true, true}, A, true},
        {{A, A, false, false}, A, false}, {{A, U, true, true}, A, true},
        {{A, U, false, true}, A, false},  {{A, N, true, false}, A, true},
        {{U, N, true, false}, N, false},  {{N, N, false, false}, N, false},
    };
    struct pool pool;
    pool_init(&pool, &two);
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        struct given g = rows[i].g;
        pool_reload(&pool, &two, give, &g);
        if (pool.b->verdict.status != rows[i].derived || pool.b->gated != rows[i].gated) {
            fail_msg("row %zu: %s, gated %d", i, fl_verdict_status_name(pool.b->verdict.status),
                     pool.b->gated);
        }
    }
    pool_done(&pool);
}

static unsigned given_back;

static void give_tls(struct fl_tls_terms *t)
{
    assert_non_null(t);
    given_back++;
}

/* The name that a peer must prove, and the terms, which are given back when the snapshot goes. */
static void tls_names_and_terms(void **state)
{
    (void)state;
    static char terms; /* only its address is carried */
    struct pool pool;
    pool_init(&pool, &two);
    for (int named = 0; named < 2; named++) {
        struct fl_config *c = pool_config(&two);
        c->backends[0].tls.on = true;
        c->backends[0].tls.server_name = named ? "store.example" : "";
        c->backends[0].peers[1].host_name = "b.example";
        struct fl_snapshot *s = pool_must(fl_snapshot_build(pool.registry, c, 1, 2, NULL, NULL));
        assert_null(s->backends[0].tls);
        assert_string_equal(s->backends[0].peers[0].tls_name, named ? "store.example" : "");
        assert_string_equal(s->backends[0].peers[1].tls_name,
                            named ? "store.example" : "b.example");
        given_back = 0;
        s->give_tls = give_tls;
        s->backends[0].tls = named ? (struct fl_tls_terms *)(void *)&terms : NULL;
        fl_snapshot_free(pool.registry, s);
        assert_int_equal(given_back, named);
    }
    pool_done(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_stays_keeps_its_state),
        cmocka_unit_test(a_peer_that_returns_is_a_new_one),
        cmocka_unit_test(two_backends_never_share_a_peer),
        cmocka_unit_test(status_health_only_where_a_status_counts),
        cmocka_unit_test(paths_are_sorted_and_named),
        cmocka_unit_test(tallies_outlive_snapshots_and_end_with_their_name),
        cmocka_unit_test(retire_looks_at_backends_that_went),
        cmocka_unit_test(down_peers_do_not_count),
        cmocka_unit_test(gates_of_the_backend),
        cmocka_unit_test(tls_names_and_terms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
