#include "sidecar/policy/backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/check.h"
#include "tests/unit/sidecar/policy/pool_kit.h"

static const struct pool_spec pool_fail = {
    .protocol = FL_PROTOCOL_HTTP,
    .peers = {{.address = "127.0.0.1:9998"}, {.address = "127.0.0.1:9001"}},
};

/* The route-blind trap: a counted status takes the peer out for its route only, a broken connection
 * for all. */
static void a_counted_status_is_the_routes_own_affair(void **state)
{
    (void)state;
    struct pool_spec spec = pool_fail;
    spec.count_failures = FL_ON_ERROR | FL_ON_TIMEOUT | FL_ON_HTTP_503;
    struct pool pool;
    const char *name;
    pool_init(&pool, &spec);
    struct fl_snap_policy other = *pool.p; /* a route that counts no status */
    other.status_health = NULL;
    struct fl_settled s = pool_one(&pool, POOL_READ, FL_OUTCOME_HTTP_STATUS, 503, &name);
    assert_string_equal(name, "127.0.0.1:9998");
    assert_int_equal(s.peer.what, FL_HEALTH_SAME);
    assert_int_equal(s.route.what, FL_HEALTH_DISABLED);
    assert_int_equal(s.route.until_ms, pool.now_ms + 10000);
    for (int i = 0; i < 3; i++) {
        pool_one(&pool, POOL_READ, FL_OUTCOME_OK, 200, &name);
        assert_string_equal(name, "127.0.0.1:9001");
    }
    const struct fl_snap_policy *own = pool.p;
    pool.p = &other;
    int seen = 0;
    for (int i = 0; i < 4; i++) {
        pool_one(&pool, POOL_READ, FL_OUTCOME_OK, 200, &name);
        seen += strcmp(name, "127.0.0.1:9998") == 0;
    }
    assert_int_equal(seen, 2);
    pool.p = own;
    pool.now_ms += 10000; /* the route's own probation */
    s = pool_one(&pool, POOL_READ, FL_OUTCOME_OK, 200, &name);
    assert_string_equal(name, "127.0.0.1:9998");
    assert_int_equal(s.route.what, FL_HEALTH_READMITTED);
    assert_int_equal(s.peer.what, FL_HEALTH_SAME);
    pool_done(&pool);
}

/* The peer's trial brings a counted status: the peer answers, so it is back, but not for this
 * route. */
static void a_trial_that_brings_a_counted_status(void **state)
{
    (void)state;
    struct pool_spec spec = pool_fail;
    spec.count_failures = FL_ON_ERROR | FL_ON_HTTP_503;
    spec.max_fails = 3;
    struct pool pool;
    const char *name;
    pool_init(&pool, &spec);
    for (int i = 0; i < 6; i++) {
        pool_one(&pool, POOL_READ, i % 2 ? FL_OUTCOME_OK : FL_OUTCOME_CONNECT_FAILED, 200, &name);
    }
    pool.now_ms += 10000;
    struct fl_settled s = pool_one(&pool, POOL_READ, FL_OUTCOME_HTTP_STATUS, 503, &name);
    assert_string_equal(name, "127.0.0.1:9998");
    assert_int_equal(s.peer.what, FL_HEALTH_READMITTED);
    assert_int_equal(s.route.what, FL_HEALTH_DISABLED);
    pool_done(&pool);
}

/* The route's own trial breaks: it failed for the route, and is one failure more for the peer. */
static void a_route_trial_that_breaks(void **state)
{
    (void)state;
    struct pool_spec spec = pool_fail;
    spec.count_failures = FL_ON_ERROR | FL_ON_HTTP_503;
    spec.max_fails = 2;
    struct pool pool;
    const char *name;
    pool_init(&pool, &spec);
    for (int i = 0; i < 4; i++) {
        pool_one(&pool, POOL_READ, i % 2 ? FL_OUTCOME_OK : FL_OUTCOME_HTTP_STATUS, 503, &name);
    }
    pool.now_ms += 10000;
    struct fl_settled s = pool_one(&pool, POOL_READ, FL_OUTCOME_CONNECT_FAILED, 0, &name);
    assert_string_equal(name, "127.0.0.1:9998");
    assert_int_equal(s.peer.what, FL_HEALTH_SAME);
    assert_int_equal(s.route.what, FL_HEALTH_DISABLED);
    assert_int_equal(
        fl_peer_health_fails(&pool.b->peers[0].peer->health, &pool.b->peers[0].health, pool.now_ms),
        1);
    pool_done(&pool);
}

static void what_counts_and_what_never_does(void **state)
{
    (void)state;
    static const struct {
        enum fl_outcome o;
        int status;
        bool counted, disables, probe;
    } rows[] = {
        {FL_OUTCOME_OK, 200, false, false, false},
        {FL_OUTCOME_CONNECT_FAILED, 0, true, true, true},
        {FL_OUTCOME_CONNECT_TIMEOUT, 0, true, true, true},
        {FL_OUTCOME_TLS_FAILED, 0, true, true, true},
        {FL_OUTCOME_SEND_TIMEOUT, 0, true, true, true},
        {FL_OUTCOME_READ_TIMEOUT, 0, true, true, true},
        {FL_OUTCOME_PREMATURE_CLOSE, 0, true, true, true},
        {FL_OUTCOME_INVALID_HEADER, 0, true, true, true},
        {FL_OUTCOME_TRUNCATED, 200, true, true, true},
        {FL_OUTCOME_STALLED, 200, true, true, true},
        {FL_OUTCOME_DEADLINE_BLAMED, 0, true, true, true},
        {FL_OUTCOME_HTTP_STATUS, 500, false, false, false},
        {FL_OUTCOME_HTTP_STATUS, 403, false, false, false},
        {FL_OUTCOME_HTTP_STATUS, 404, false, false, false},
        {FL_OUTCOME_THROTTLED, 503, false, false, false},
        {FL_OUTCOME_THROTTLED, 429, false, false, false},
        {FL_OUTCOME_STALE_REUSE, 0, false, false, false},
        {FL_OUTCOME_CLIENT_ABORT, 0, false, false, false},
        {FL_OUTCOME_CLIENT_TIMEOUT, 0, false, false, false},
        {FL_OUTCOME_CLIENT_BAD, 0, false, false, false},
        {FL_OUTCOME_LOCAL_RESOURCE, 0, false, false, false},
        {FL_OUTCOME_CLIPPED, 0, false, false, false},
        {FL_OUTCOME_DEADLINE, 0, false, false, true},
    };
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        struct pool_spec spec = pool_fail;
        spec.count_failures = FL_ON_ERROR | FL_ON_TIMEOUT | FL_ON_INVALID_HEADER | FL_ON_HTTP_403 |
                              FL_ON_HTTP_404 | FL_ON_HTTP_429;
        struct pool pool;
        const char *name;
        pool_init(&pool, &spec);
        struct fl_settled s = pool_one(&pool, POOL_READ, rows[i].o, rows[i].status, &name);
        struct fl_peer *peer = pool.b->peers[0].peer;
        if (s.counted != rows[i].counted ||
            (s.peer.what == FL_HEALTH_DISABLED) != rows[i].disables ||
            (peer->probe_wanted == 1) != rows[i].probe) {
            fail_msg("%s %d", fl_outcome_row(rows[i].o)->token, rows[i].status);
        }
        assert_int_equal(pool.b->tally->lines[0].attempts[rows[i].o], 1);
        assert_int_equal(peer->lines[0].failures, rows[i].counted);
        assert_int_equal(peer->lines[0].requests, 1);
        pool_done(&pool);
    }
}

static void stragglers_are_counted_in_metrics_only(void **state)
{
    (void)state;
    struct pool pool;
    pool_init(&pool, &pool_fail);
    struct fl_pick picks[6];
    for (int i = 0; i < 6; i++) {
        pool_begin(&pool);
        picks[i] = pool_pick(&pool, POOL_READ);
    }
    int lines = 0;
    for (int i = 0; i < 6; i++) {
        if (picks[i].index == 0) {
            pool.now_ms += 100;
            lines += pool_settle(&pool, &picks[i], FL_OUTCOME_CONNECT_FAILED, 0).peer.what ==
                     FL_HEALTH_DISABLED;
        }
    }
    assert_int_equal(lines, 1);
    assert_int_equal(pool.b->tally->lines[0].quarantines, 1);
    assert_int_equal(pool.b->tally->lines[0].stale_failures, 2);
    pool.now_ms = 1000000 + 100 + 9999;
    pool_begin(&pool);
    struct fl_pick pick = pool_pick(&pool, POOL_READ);
    assert_int_equal(pick.index, 1);
    pool.now_ms += 1; /* 10 s after the first failure, not after the last */
    pool_begin(&pool);
    pick = pool_pick(&pool, POOL_READ);
    assert_int_equal(pick.index, 0);
    pool_done(&pool);
}

static void an_answer_readmits_before_the_body_ends(void **state)
{
    (void)state;
    struct pool pool;
    const char *name;
    struct fl_settled s;
    pool_init(&pool, &pool_fail);
    pool_one(&pool, POOL_READ, FL_OUTCOME_CONNECT_FAILED, 0, &name);
    pool.now_ms += 10000;
    pool_begin(&pool);
    struct fl_pick trial = pool_pick(&pool, POOL_READ);
    assert_true(trial.ticket.trial);
    fl_backend_answered(pool.b, pool.p, &trial, pool.now_ms, 0, &s);
    assert_int_equal(s.peer.what, FL_HEALTH_READMITTED);
    assert_int_equal(pool.b->peers[0].peer->live_since_ms, pool.now_ms);
    assert_int_equal(pool.b->peers[0].peer->lines[0].last_answer_ms, pool.now_ms);
    s = pool_settle(&pool, &trial, FL_OUTCOME_TRUNCATED, 200); /* max_fails 1 */
    assert_int_equal(s.peer.what, FL_HEALTH_DISABLED);
    pool_done(&pool);
}

static void cancel_leaves_no_trace(void **state)
{
    (void)state;
    struct pool pool;
    const char *name;
    pool_init(&pool, &pool_fail);
    pool_one(&pool, POOL_READ, FL_OUTCOME_CONNECT_FAILED, 0, &name);
    pool.now_ms += 10000;
    for (int i = 0; i < 3; i++) {
        pool_begin(&pool);
        struct fl_pick trial = pool_pick(&pool, POOL_READ);
        assert_true(trial.ticket.trial);
        fl_backend_cancel(pool.b, pool.p, &trial, pool.now_ms, 0);
        assert_int_equal(pool_in_flight(&pool), 0);
        assert_int_equal(pool.b->peers[0].peer->lines[0].requests, 1);
    }
    pool_done(&pool);
}

static void retries_away_from_the_dead_to_the_living_are_free(void **state)
{
    (void)state;
    struct pool pool;
    const char *name;
    struct fl_settled s;
    pool_init(&pool, &pool_fail);
    pool_one(&pool, POOL_READ, FL_OUTCOME_CONNECT_FAILED, 0, &name);
    assert_false(
        fl_backend_retry_is_free(pool.b, pool.p, 0, 1, pool.now_ms, 0)); /* never answered */
    pool_begin(&pool);
    struct fl_pick pick = pool_pick(&pool, POOL_READ);
    fl_backend_answered(pool.b, pool.p, &pick, pool.now_ms, 0, &s);
    assert_true(fl_backend_retry_is_free(pool.b, pool.p, 0, 1, pool.now_ms + 1000, 0));
    assert_false(fl_backend_retry_is_free(pool.b, pool.p, 0, 1, pool.now_ms + 1001, 0));
    assert_false(fl_backend_retry_is_free(pool.b, pool.p, 1, 1, pool.now_ms, 0)); /* not out */
    assert_false(fl_backend_retry_is_free(pool.b, pool.p, 0, 1, pool.now_ms,
                                          1)); /* another thread's answer */
    pool_done(&pool);
}

static void the_cause_of_nobody_left(void **state)
{
    (void)state;
    struct pool pool;
    const char *name;
    struct fl_cause cause;
    pool_init(&pool, &pool_fail);
    fl_backend_cause(pool.b, &cause);
    assert_string_equal(cause.text, "no peer is usable");
    pool_one(&pool, POOL_READ, FL_OUTCOME_READ_TIMEOUT, 0, &name);
    fl_backend_cause(pool.b, &cause);
    assert_string_equal(cause.text, "127.0.0.1:9998 accepts connections but does not answer");
    pool_one(&pool, POOL_READ, FL_OUTCOME_CONNECT_FAILED, 0, &name); /* first by address speaks */
    fl_backend_cause(pool.b, &cause);
    assert_string_equal(cause.code, "connect_refused");
    assert_string_equal(cause.text, "connect to 127.0.0.1:9001 failed (Connection refused)");
    pool_done(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counted_status_is_the_routes_own_affair),
        cmocka_unit_test(a_trial_that_brings_a_counted_status),
        cmocka_unit_test(a_route_trial_that_breaks),
        cmocka_unit_test(what_counts_and_what_never_does),
        cmocka_unit_test(stragglers_are_counted_in_metrics_only),
        cmocka_unit_test(an_answer_readmits_before_the_body_ends),
        cmocka_unit_test(cancel_leaves_no_trace),
        cmocka_unit_test(retries_away_from_the_dead_to_the_living_are_free),
        cmocka_unit_test(the_cause_of_nobody_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
