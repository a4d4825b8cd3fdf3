#include "sidecar/policy/balancer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/check.h"
#include "tests/unit/sidecar/policy/pool_kit.h"

static const uint16_t everyone[] = {0, 1, 2, 3, 4, 5, 6, 7};

static struct fl_candidates all_of(struct pool *pool)
{
    return (struct fl_candidates){.backend = pool->b,
                                  .index = everyone,
                                  .count = pool->b->peer_count,
                                  .now_ms = pool->now_ms,
                                  .rng = &pool->rng};
}

static struct pool_spec weights(uint32_t a, uint32_t b, uint32_t c)
{
    return (struct pool_spec){.protocol = FL_PROTOCOL_HTTP,
                              .peers = {{.address = "10.0.0.1:1", .weight = a},
                                        {.address = "10.0.0.2:1", .weight = b},
                                        {.address = "10.0.0.3:1", .weight = c}}};
}

/* nginx's own example of smooth weighted round robin. */
static void smooth_sequence_of_5_1_1(void **state)
{
    (void)state;
    struct pool_spec spec = weights(5, 1, 1);
    struct pool pool;
    pool_init(&pool, &spec);
    struct fl_candidates c = all_of(&pool);
    char sequence[22] = "";
    for (int i = 0; i < 21; i++) {
        sequence[i] = (char)('a' + fl_balancer_round_robin(&c));
    }
    assert_string_equal(sequence, "aabacaaaabacaaaabacaa");
    pool_done(&pool);
}

/* A thousand sidecars that start together: the first pick is anybody's, and each period is exact
 * from the first on. */
static void random_start_keeps_periods_exact(void **state)
{
    (void)state;
    struct pool_spec spec = weights(5, 1, 1);
    int first[3] = {0};
    for (uint64_t seed = 1; seed <= 700; seed++) {
        struct pool pool;
        pool_init(&pool, &spec);
        pool.b->lanes[0].rr_seeded = false;
        fl_rng_seed(&pool.rng, seed * 7919);
        struct fl_candidates c = all_of(&pool);
        int seen[3] = {0};
        for (int i = 0; i < 7; i++) {
            uint32_t index = fl_balancer_round_robin(&c);
            seen[index]++;
            first[index] += i == 0;
        }
        assert_int_equal(seen[0], 5);
        assert_int_equal(seen[1], 1);
        assert_true(pool.b->lanes[0].rr_seeded);
        pool_done(&pool);
    }
    assert_in_range(first[0], 430, 570);
    assert_in_range(first[1], 60, 150);
    assert_in_range(first[2], 60, 150);
}

static void threads_turn_on_their_own(void **state)
{
    (void)state;
    struct pool_spec spec = weights(1, 1, 1);
    spec.threads = 2;
    struct pool pool;
    pool_init(&pool, &spec);
    struct fl_candidates one = all_of(&pool), two = one;
    two.thread = 1;
    assert_int_equal(fl_balancer_round_robin(&one), 0);
    assert_int_equal(fl_balancer_round_robin(&one), 1);
    assert_int_equal(fl_balancer_round_robin(&two), 0);
    pool_done(&pool);
}

/* A candidate that comes back after a long absence does not flood: smooth state is not a debt. */
static void a_returning_candidate_gets_its_share_and_no_more(void **state)
{
    (void)state;
    struct pool_spec spec = weights(1, 1, 1);
    struct pool pool;
    pool_init(&pool, &spec);
    struct fl_candidates c = all_of(&pool);
    c.count = 2;
    for (int i = 0; i < 1000; i++) {
        assert_true(fl_balancer_round_robin(&c) < 2);
    }
    c.count = 3;
    int seen[3] = {0};
    for (int i = 0; i < 30; i++) {
        seen[fl_balancer_round_robin(&c)]++;
    }
    for (int i = 0; i < 3; i++) {
        assert_in_range(seen[i], 9, 11);
    }
    pool_done(&pool);
}

static void fly(struct pool *pool, uint32_t peer, unsigned thread, uint32_t n)
{
    pool->b->peers[peer].peer->lines[thread].in_flight = n;
}

static void least_conn_by_weight_over_all_threads(void **state)
{
    (void)state;
    struct pool_spec spec = weights(1, 2, 4);
    spec.threads = 3;
    struct pool pool;
    pool_init(&pool, &spec);
    struct fl_candidates c = all_of(&pool);
    fly(&pool, 0, 0, 1);
    fly(&pool, 1, 0, 2);
    fly(&pool, 2, 0, 3); /* 1, 1, 0.75 */
    assert_int_equal(fl_balancer_least_conn(&c), 2);
    fly(&pool, 2, 1, 2); /* 1, 1, 1.25 */
    fly(&pool, 1, 2, 1); /* 1, 1.5, 1.25 */
    assert_int_equal(fl_balancer_least_conn(&c), 0);
    for (uint32_t i = 0; i < 3; i++) {
        fly(&pool, i, 0, 0);
        fly(&pool, i, 1, 0);
        fly(&pool, i, 2, 0);
    }
    int seen[3] = {0}; /* ties by weighted round robin */
    for (int i = 0; i < 70; i++) {
        seen[fl_balancer_least_conn(&c)]++;
    }
    assert_int_equal(seen[0], 10);
    assert_int_equal(seen[1], 20);
    assert_int_equal(seen[2], 40);
    fly(&pool, 1, 0, 1);
    seen[0] = seen[2] = 0; /* only the tied ones turn */
    for (int i = 0; i < 50; i++) {
        seen[fl_balancer_least_conn(&c)]++;
    }
    assert_int_equal(seen[0] + seen[2], 50);
    assert_in_range(seen[0], 9, 11);
    pool_done(&pool);
}

static void random_two_takes_the_less_loaded(void **state)
{
    (void)state;
    struct pool_spec spec = weights(1, 1, 1);
    struct pool pool;
    pool_init(&pool, &spec);
    struct fl_candidates c = all_of(&pool);
    fly(&pool, 0, 0, 9);
    fly(&pool, 1, 0, 5);
    int seen[3] = {0};
    for (int i = 0; i < 3000; i++) {
        seen[fl_balancer_random_two(&c)]++;
    }
    assert_int_equal(seen[0], 0);        /* it loses every pair */
    assert_in_range(seen[1], 850, 1150); /* wins one pair of three */
    assert_in_range(seen[2], 1850, 2150);
    c.count = 1;
    assert_int_equal(fl_balancer_random_two(&c), 0);
    pool_done(&pool);
}

static void random_two_draws_by_weight(void **state)
{
    (void)state;
    struct pool_spec spec = weights(8, 1, 1);
    struct pool pool;
    pool_init(&pool, &spec);
    struct fl_candidates c = all_of(&pool);
    int seen[3] = {0};
    for (int i = 0; i < 10000; i++) {
        seen[fl_balancer_random_two(&c)]++;
    }
    assert_in_range(seen[0], 7700, 8300); /* equal load: the first drawn */
    assert_in_range(seen[1], 850, 1150);
    pool_done(&pool);
}

static void slow_start_ramps_linearly(void **state)
{
    (void)state;
    struct pool_spec spec = weights(4, 1, 1);
    spec.slow_start_ms = 10000;
    struct pool pool;
    pool_init(&pool, &spec);
    const struct fl_snap_peer *p = &pool.b->peers[0];
    assert_int_equal(fl_balancer_weight(p, 10000, pool.now_ms), 4000); /* never readmitted */
    p->peer->live_since_ms = 1000;
    static const struct {
        int64_t at_ms;
        uint32_t weight;
    } ramp[] = {{999, 1},     {1000, 1},     {1001, 1},     {1010, 4},    {2000, 400},
                {6000, 2000}, {10999, 3999}, {11000, 4000}, {99999, 4000}};
    for (size_t i = 0; i < FL_COUNTOF(ramp); i++) {
        assert_int_equal(fl_balancer_weight(p, 10000, ramp[i].at_ms), ramp[i].weight);
    }
    assert_int_equal(fl_balancer_weight(p, 0, 1001), 4000); /* off */
    p->peer->live_since_ms = pool.now_ms;
    pool.now_ms += 2500; /* a quarter of 4, against 1 and 1 */
    struct fl_candidates c = all_of(&pool);
    int seen[3] = {0};
    for (int i = 0; i < 30; i++) {
        seen[fl_balancer_round_robin(&c)]++;
    }
    assert_int_equal(seen[0], 10);
    pool_done(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smooth_sequence_of_5_1_1),
        cmocka_unit_test(random_start_keeps_periods_exact),
        cmocka_unit_test(threads_turn_on_their_own),
        cmocka_unit_test(a_returning_candidate_gets_its_share_and_no_more),
        cmocka_unit_test(least_conn_by_weight_over_all_threads),
        cmocka_unit_test(random_two_takes_the_less_loaded),
        cmocka_unit_test(random_two_draws_by_weight),
        cmocka_unit_test(slow_start_ramps_linearly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
