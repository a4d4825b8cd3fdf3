/* Four data threads pick from and settle against one pool, each on its own lines; TSan watches
 * (preset tsan). */
#include "sidecar/policy/backend.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/check.h"
#include "tests/unit/sidecar/policy/pool_kit.h"

#define ROUNDS 20000

struct stage {
    struct pool pool;
    _Atomic int64_t now_ms;
    _Atomic uint32_t trials_out[4], overlaps, disabled, readmitted;
    _Atomic uint64_t picks;
};

struct actor {
    struct stage *stage;
    unsigned thread;
};

static void settle_one(struct stage *s, const struct fl_pick *pick, unsigned thread, int64_t now_ms,
                       struct fl_rng *rng)
{
    static const enum fl_outcome ends[] = {FL_OUTCOME_OK,          FL_OUTCOME_CONNECT_FAILED,
                                           FL_OUTCOME_HTTP_STATUS, FL_OUTCOME_CLIENT_ABORT,
                                           FL_OUTCOME_OK,          FL_OUTCOME_READ_TIMEOUT};
    struct fl_settled settled;
    enum fl_outcome o = ends[fl_rng_below(rng, FL_COUNTOF(ends))];
    if (pick->ticket.trial) {
        atomic_fetch_sub(&s->trials_out[pick->index], 1);
    }
    fl_backend_settle(s->pool.b, s->pool.p, pick, o, 503, 0, now_ms, thread, rng, &settled);
    s->disabled += settled.peer.what == FL_HEALTH_DISABLED;
    s->readmitted += settled.peer.what == FL_HEALTH_READMITTED;
}

static void *act(void *arg)
{
    struct actor *a = arg;
    struct stage *s = a->stage;
    struct fl_rng rng;
    fl_rng_seed(&rng, a->thread + 1);
    struct fl_pick flying[4];
    unsigned n = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        int64_t now_ms = s->now_ms;
        uint64_t tried[FL_TRIED_WORDS] = {0};
        struct fl_ask ask = {.now_ms = now_ms,
                             .thread = a->thread,
                             .rng = &rng,
                             .tried = tried,
                             .first_try = true,
                             .replayable = fl_rng_below(&rng, 2)};
        fl_backend_pick(s->pool.b, s->pool.p, &ask, &flying[n]);
        if (flying[n].kind == FL_PICK_PEER) {
            s->picks++;
            if (flying[n].ticket.trial) {
                s->overlaps += atomic_fetch_add(&s->trials_out[flying[n].index], 1) != 0;
            }
            n++;
        }
        s->now_ms += fl_rng_below(&rng, 8) == 0;
        while (n == 4 || (n > 0 && fl_rng_below(&rng, 2))) {
            settle_one(s, &flying[--n], a->thread, now_ms, &rng);
        }
    }
    while (n > 0) {
        settle_one(s, &flying[--n], a->thread, s->now_ms, &rng);
    }
    return NULL;
}

static void run(enum fl_balance balance)
{
    const struct pool_spec spec = {
        .protocol = FL_PROTOCOL_HTTP,
        .balance = balance,
        .max_fails = 2,
        .fail_timeout_ms = 40,
        .slow_start_ms = 100,
        .count_failures = FL_ON_ERROR | FL_ON_TIMEOUT | FL_ON_HTTP_503,
        .threads = 4,
        .peers = {{.address = "10.0.0.1:1", .weight = 3},
                  {.address = "10.0.0.2:1"},
                  {.address = "10.0.0.3:1", .max_conns = 6},
                  {.address = "10.0.0.4:1", .tier = FL_TIER_BACKUP}},
    };
    struct stage s = {.now_ms = 1000000};
    pool_init(&s.pool, &spec);
    pthread_t threads[4];
    struct actor actors[4];
    for (unsigned i = 0; i < 4; i++) {
        s.pool.b->lanes[i].rr_seeded = false;
        actors[i] = (struct actor){&s, i};
        assert_int_equal(pthread_create(&threads[i], NULL, act, &actors[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(s.overlaps, 0);
    assert_int_equal(pool_in_flight(&s.pool), 0);
    uint64_t requests = 0, attempts = 0, quarantines = 0;
    for (unsigned t = 0; t < 4; t++) {
        for (uint32_t i = 0; i < 4; i++) {
            requests += s.pool.b->peers[i].peer->lines[t].requests;
        }
        for (unsigned o = 0; o < FL_OUTCOME_COUNT; o++) {
            attempts += s.pool.b->tally->lines[t].attempts[o];
        }
        quarantines += s.pool.b->tally->lines[t].quarantines;
    }
    assert_int_equal(requests, s.picks);
    assert_int_equal(attempts, s.picks);
    assert_true(quarantines >= s.disabled && s.disabled > 10 && s.readmitted > 0);
    pool_done(&s.pool);
}

static void round_robin_in_four_threads(void **state)
{
    (void)state;
    run(FL_BALANCE_ROUND_ROBIN);
}

static void least_conn_in_four_threads(void **state)
{
    (void)state;
    run(FL_BALANCE_LEAST_CONN);
}

static void random_two_in_four_threads(void **state)
{
    (void)state;
    run(FL_BALANCE_RANDOM_TWO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_robin_in_four_threads),
        cmocka_unit_test(least_conn_in_four_threads),
        cmocka_unit_test(random_two_in_four_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
