/* What the configuration says, and changes of it in mid-flight: tiers, trials, verdicts, clocks,
 * snapshots. */
#include "sidecar/policy/peer.h"
#include "sidecar/proxy/engine_state.h"
#include "tests/sim/scenarios/kit.h"

static struct bed *bed_of(uint64_t seed, unsigned threads, unsigned origins, const char *yaml)
{
    struct bed *b = bed_new(seed, threads, yaml);
    for (unsigned i = 0; i < origins; i++) {
        origin_new(b, i);
    }
    return b;
}

#define BACKUP KIT_PEER(1, "") "," KIT_PEER(2, ", backup: true")

static void test_backup(void **state)
{
    (void)state;
    struct bed *b = bed_of(1, 1, 2, KIT_S3(", fail_timeout: 5s", BACKUP, ""));
    for (unsigned i = 0; i < 5; i++) {
        struct deal *d = kit_get(b);
        kit_do(b, d);
        kit_answered(d, 200, "");
    }
    assert_int_equal(b->origins[1]->requests, 0);
    origin_stop(b->origins[0]);
    bed_run_for(b, 31000);
    struct deal *d = kit_get(b);
    kit_do(b, d);
    kit_answered(d, 200, "");
    assert_int_equal(d->visits[0]->origin->index, 1);
    d = kit_put(b, 10); /* not for a backup that may hold other objects */
    kit_do(b, d);
    kit_answered(d, 503, "backup_read_only");
    d = kit_get(b);
    kit_plan(d, (struct plan){.status = 404, .body_bytes = 40});
    kit_do(b, d);
    kit_answered(d, 503, "backup_not_authoritative");
    const struct fl_snapshot *s = fl_engine_snapshot(b->engine);
    assert_int_equal(atomic_load(&s->backends[0].tally->lines[0].on_backup_picks), 2);
    origin_start(b->origins[0]);
    bed_run_for(b, 6000);
    d = kit_get(b);
    kit_do(b, d);
    assert_int_equal(d->visits[0]->origin->index, 0);
    bed_end(b);
}

static void test_same_store(void **state)
{
    (void)state;
    struct bed *b = bed_of(2, 1, 2, KIT_S3(", same_store: true", BACKUP, ""));
    origin_stop(b->origins[0]);
    struct deal *d = kit_put(b, 1000);
    kit_do(b, d);
    kit_answered(d, 200, "");
    d = kit_get(b);
    kit_plan(d, (struct plan){.status = 404, .body_bytes = 40});
    kit_do(b, d);
    kit_answered(d, 404, "");
    bed_end(b);
}

/* Twenty at once meet a peer on probation: one of them is the trial, whatever becomes of it. */
static void test_probation(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct bed *b = bed_of(3, 1 + i % 2, 2, KIT_S3(", fail_timeout: 2s", KIT_TWO, ""));
        origin_stop(b->origins[0]);
        for (unsigned k = 0; k < 3; k++) {
            struct deal *d = kit_get(b);
            kit_do(b, d);
            kit_answered(d, 200, "");
        }
        assert_int_equal(bed_events(b, "temporarily disabled"), 1);
        if (i / 2 < 2) {
            origin_start(b->origins[0]);
        }
        bed_run_for(b, 2100);
        struct user_script leaver = {.leaves = USER_AT_MS, .leaves_at = 50, .by_reset = true};
        struct deal *deals[20];
        for (unsigned k = 0; k < 20; k++) {
            deals[k] = kit_get(b);
            kit_plan(deals[k], (struct plan){.delay_ms = 100});
            user_dial(b, i / 2 == 1 ? &leaver : NULL, &deals[k], 1);
        }
        bed_run_for(b, 60);
        assert_true(b->origins[0]->requests <= 1);
        bed_run(b);
        assert_int_equal(bed_events(b, "upstream readmitted"), i / 2 == 0);
        assert_int_equal(bed_events(b, "temporarily disabled"), i / 2 == 2 ? 2 : 1);
        bed_end(b);
    }
}

static void test_gated(void **state)
{
    (void)state;
    struct bed *b = bed_of(4, 1, 2, KIT_S3("", KIT_TWO, ""));
    b->gated = "10.0.0.1:9000";
    bed_publish(b, KIT_S3("", KIT_TWO, ""));
    for (unsigned i = 0; i < 4; i++) {
        struct deal *d = kit_get(b);
        kit_do(b, d);
        assert_int_equal(d->visits[0]->origin->index, 1);
    }
    bed_publish(b, KIT_S3("", KIT_ONE, ""));
    b->peers_left = true;
    for (unsigned i = 0; i < 3; i++) {
        struct deal *d = i == 0 ? kit_get(b) : kit_put(b, 300000);
        d->expect = i == 2 ? DEAL_WAITS : DEAL_NO_EXPECT;
        kit_do(b, d);
        kit_answered(d, 503, "backend_unavailable");
        assert_int_equal(d->answered_ms, d->asked_ms);
        assert_int_equal(d->hundreds, 0);
    }
    bed_end(b);
}

static void test_deadline(void **state)
{
    (void)state;
    /* A read: its head is limited by read_timeout, the whole by the deadline. */
    struct bed *b = bed_of(
        5, 1, 3, KIT_S3("", KIT_THREE, ", next_upstream_tries: 3, read_timeout: 2s, deadline: 5s"));
    struct deal *d = kit_get(b);
    kit_plan(d, (struct plan){.fault = PLAN_SILENT});
    kit_do(b, d);
    kit_answered(d, 503, "deadline");
    assert_int_equal(d->visit_count, 3);
    assert_in_range(d->answered_ms - d->asked_ms, 5000, 5050);
    assert_int_equal(bed_events(b, "temporarily disabled"), 2); /* the third had not had its time */
    bed_end(b);
    /* A write: one try, and its first one is to blame. */
    b = bed_of(5, 1, 3, KIT_S3("", KIT_THREE, ", deadline: 5s"));
    d = kit_put(b, 3 * 1048576);
    kit_plan(d, (struct plan){.fault = PLAN_SILENT});
    kit_do(b, d);
    kit_answered(d, 503, "deadline");
    assert_in_range(d->answered_ms - d->asked_ms, 8000, 8100);
    assert_int_equal(bed_events(b, "temporarily disabled"), 1);
    bed_end(b);
}

static void test_clip(void **state)
{
    (void)state;
    struct bed *b =
        bed_of(6, 1, 3,
               KIT_HTTP("", KIT_THREE,
                        ", next_upstream_tries: 3, next_upstream_timeout: 3s, read_timeout: 2s"));
    struct deal *d = kit_get(b);
    kit_plan(d, (struct plan){.fault = PLAN_SILENT});
    kit_do(b, d);
    kit_answered(d, 504, "upstream_timeout");
    assert_int_equal(d->visit_count, 2);
    assert_in_range(d->answered_ms - d->asked_ms, 3000, 3050);
    assert_int_equal(bed_events(b, "temporarily disabled"),
                     1); /* the clipped one is not to blame */
    bed_end(b);
}

/* Total failure: tries stay within the budget, and every client is told. */
static void test_budget(void **state)
{
    (void)state;
    struct bed *b = bed_of(7, 1, 3,
                           KIT_S3(", max_fails: 0, retry_budget: {ratio: 20%, min_per_second: 3}",
                                  KIT_THREE, ", next_upstream_tries: 3"));
    for (unsigned i = 0; i < 3; i++) {
        origin_stop(b->origins[i]);
    }
    for (unsigned i = 0; i < 1000; i++) {
        struct deal *d = kit_get(b);
        user_ask(b, d);
        bed_run_for(b, 5);
    }
    bed_run(b);
    assert_true(b->log_attempts <= 1000 + 5 * 40 + 50);
    assert_true(b->log_attempts > 1000 + 100);
    bed_end(b);
}

/* ---- snapshots in mid-flight ---- */

static void test_swaps(void **state)
{
    (void)state;
    static const char *const yaml[] = {
        KIT_S3("", KIT_TWO, ""), KIT_S3("", KIT_PEER(2, "") "," KIT_PEER(3, ""), ""),
        KIT_S3("", KIT_THREE, ", next_upstream_tries: 3"), KIT_HTTP("", KIT_ONE, ""),
        KIT_S3(", max_conns: 1, queue: {size: 3, timeout: 100ms}", KIT_TWO, "")};
    for (unsigned i = 0; i < 12; i++) {
        struct bed *b = bed_of(8 + i, 1 + i % 3, 3, yaml[0]);
        b->peers_left = true;
        struct user_script steady = {.send_bytes = 3000, .send_ms = 7};
        struct deal *deals[60][3];
        for (unsigned k = 0; k < 60; k++) {
            for (unsigned j = 0; j < 3; j++) {
                deals[k][j] = (k + j) % 3 ? kit_get(b) : kit_put(b, 20000);
                deals[k][j]->repeats = true; /* an http route may */
                kit_plan(deals[k][j], (struct plan){.body_bytes = 5000 * j,
                                                    .delay_ms = 10 * (k % 5),
                                                    .piece_bytes = k % 4 ? 0 : 1500,
                                                    .piece_ms = 15});
            }
            user_dial(b, &steady, deals[k], 3);
            bed_run_for(b, 6);
            if (k % 7 == 3) {
                bed_publish(b, yaml[(k + i) % 5]);
            }
            if (k % 11 == 5) {
                struct fl_peer *p = bed_peer(b, "10.0.0.2:9000");
                if (p != NULL) {
                    atomic_store(&p->drained, k % 2 == 0);
                }
            }
        }
        bed_run(b);
        for (unsigned k = 0; k < 60; k++) {
            for (unsigned j = 0; j < 3; j++) {
                assert_true(deals[k][j]->end == DEAL_ANSWERED || deals[k][j]->end == DEAL_UNSENT);
                assert_true(deals[k][j]->end == DEAL_UNSENT || deals[k][j]->status == 200 ||
                            strcmp(deals[k][j]->token, "overload") == 0 ||
                            strcmp(deals[k][j]->token, "no_live_upstream") == 0);
            }
        }
        bed_end(b);
    }
}

/* A request that sleeps through many generations keeps only its own. */
static void test_old_snapshot(void **state)
{
    (void)state;
    struct bed *b = bed_of(9, 2, 3, KIT_S3("", KIT_ONE, ""));
    b->peers_left = true;
    struct deal *d[2] = {kit_get(b), kit_put(b, 9000)};
    for (unsigned i = 0; i < 2; i++) {
        kit_plan(d[i], (struct plan){.delay_ms = 3000, .body_bytes = 9000});
        user_ask(b, d[i]);
    }
    bed_run_for(b, 50);
    for (unsigned i = 0; i < 20; i++) {
        bed_publish(b, i % 2 ? KIT_S3("", KIT_PEER(3, ""), "") : KIT_S3("", KIT_PEER(2, ""), ""));
        bed_run_for(b, 20);
        assert_int_equal(fl_engine_reclaim(b->engine, b->registry), 1);
    }
    bed_run(b);
    kit_answered(d[0], 200, "");
    kit_answered(d[1], 200, "");
    bed_run_for(b, 20);
    assert_int_equal(fl_engine_reclaim(b->engine, b->registry), 0);
    bed_end(b);
}

/* A failing peer asks for a probe, and asks again after the control thread has looked. */
static void test_probe_wanted(void **state)
{
    (void)state;
    static const char yaml[] =
        "backends:\n  store: {protocol: s3, peers: [" KIT_TWO
        "]}\nroutes:\n  \"*\": {backend: store, "
        "next_upstream: [error, http_502], count_failures: [error, http_502]}\n";
    struct bed *b = bed_of(10, 1, 2, yaml);
    for (unsigned i = 0; i < 6; i++) {
        struct deal *d = kit_get(b);
        kit_plan(d, (struct plan){.status = i % 2 ? 502 : 200,
                                  .fault = i % 2 ? PLAN_SOUND : PLAN_RST_REQUEST});
        kit_do(b, d);
        assert_true(fl_engine_probe_wanted(b->engine));
        unsigned wanted = 0;
        for (unsigned k = 0; k < 2; k++) {
            struct fl_peer *p = bed_peer(b, b->origins[k]->address);
            wanted += atomic_exchange(&p->probe_wanted, 0);
        }
        assert_true(wanted > 0);
        bed_run_for(b, 11000);
    }
    bed_end(b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_backup),       cmocka_unit_test(test_same_store),
    cmocka_unit_test(test_probation),    cmocka_unit_test(test_gated),
    cmocka_unit_test(test_deadline),     cmocka_unit_test(test_clip),
    cmocka_unit_test(test_budget),       cmocka_unit_test(test_swaps),
    cmocka_unit_test(test_old_snapshot), cmocka_unit_test(test_probe_wanted),
};
KIT_MAIN(tests)
