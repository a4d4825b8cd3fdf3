/* What a backend can do to a request before its answer begins, and what follows for the request,
 * for the peer and for the next one. */
#include "sidecar/policy/peer.h"
#include "tests/sim/scenarios/kit.h"

/* Two origins behind a round robin: the fault is at whichever is met first. */
static struct bed *pair(uint64_t seed, const char *yaml)
{
    struct bed *b = bed_new(seed, 1, yaml);
    origin_new(b, 0);
    origin_new(b, 1);
    return b;
}

static void both(struct bed *b, enum sim_connect how)
{
    origin_connect(b->origins[0], how);
    origin_connect(b->origins[1], how);
}

static void fault(struct origin *o, enum origin_fault f, uint32_t at, unsigned times)
{
    o->fault = f;
    o->fault_at = at;
    o->fault_times = times;
}

static void test_refused(void **state)
{
    (void)state;
    struct bed *b = pair(1, KIT_S3("", KIT_TWO, ""));
    origin_stop(b->origins[0]);
    for (unsigned i = 0; i < 8; i++) {
        struct deal *d = i % 2 ? kit_get(b) : kit_post(b); /* nothing sent: any class moves on */
        kit_do(b, d);
        kit_answered(d, 200, "");
    }
    assert_int_equal(b->log_attempts, 9);
    assert_int_equal(bed_events(b, "connect() failed while connecting to upstream"), 1);
    origin_stop(b->origins[1]);
    bed_run_for(b, 40000); /* connections age out */
    struct deal *d = kit_get(b);
    kit_do(b, d);
    kit_answered(d, 503, "upstream_failed");
    assert_int_equal(d->log_attempts, 2);
    d = kit_get(b);
    kit_do(b, d);
    kit_answered(d, 503, "no_live_upstream");
    assert_int_equal(d->answered_ms, d->asked_ms);
    origin_start(b->origins[0]);
    bed_run_for(b, 11000);
    d = kit_get(b);
    kit_do(b, d);
    kit_answered(d, 200, "");
    assert_int_equal(bed_events(b, "upstream readmitted"), 1);
    bed_end(b);
}

static void test_unreachable(void **state)
{
    (void)state;
    struct bed *b = pair(2, KIT_HTTP("", KIT_TWO, ""));
    both(b, SIM_UNREACHABLE);
    struct deal *d = kit_get(b);
    kit_do(b, d);
    kit_answered(d, 502, "upstream_failed");
    assert_int_equal(d->log_attempts, 2);
    bed_end(b);
}

static void test_blackhole(void **state)
{
    (void)state;
    struct bed *b = pair(3, KIT_S3("", KIT_TWO, ", connect_timeout: 700ms"));
    both(b, SIM_BLACKHOLE);
    struct deal *d = kit_put(b, 30000); /* kept: it may come in meanwhile */
    kit_do(b, d);
    kit_answered(d, 503, "upstream_timeout");
    assert_int_equal(d->log_attempts, 2);
    assert_in_range(d->answered_ms - d->asked_ms, 1400, 1440);
    bed_end(b);
}

/* Descriptors, ports or memory of our own run out: nobody's fault, and not tried elsewhere. */
static void test_no_descriptors(void **state)
{
    (void)state;
    static const int ours[] = {EMFILE, ENFILE, EADDRNOTAVAIL, ENOBUFS, ENOMEM};
    struct bed *b = pair(4, KIT_S3("", KIT_TWO, ""));
    struct deal *d = NULL;
    for (unsigned i = 0; i < FL_COUNTOF(ours); i++) {
        sim_fault(b->world, SIM_CALL_CONNECT, ours[i], 0, 3);
        for (unsigned k = 0; k < 3; k++) {
            d = i == 2 ? kit_put(b, 50000) : kit_get(b);
            kit_do(b, d);
            kit_answered(d, 503, "local_resource");
            assert_int_equal(d->log_attempts, 1);
        }
    }
    sim_fault(b->world, SIM_CALL_ADD, ENOMEM, 1, 1);
    d = kit_get(b);
    kit_do(b, d);
    kit_answered(d, 503, "local_resource");
    d = kit_get(b);
    kit_do(b, d);
    kit_answered(d, 200, "");
    assert_int_equal(bed_events(b, "temporarily disabled"), 0);
    bed_end(b);
}

/* After n bytes of the request: read again from the other origin, or not, by class. */
static void test_reset_in_the_request(void **state)
{
    (void)state;
    static const uint32_t after[] = {0, 1, 60, 300, 20000};
    for (unsigned i = 0; i < 20; i++) {
        struct bed *b = pair(5 + i, KIT_S3("", KIT_TWO, ""));
        struct sim_path tight = sim_path_default();
        tight.send_bytes = tight.recv_bytes = 4096;
        tight.latency_us = 500;
        origin_path(b->origins[0], &tight);
        origin_path(b->origins[1], &tight);
        fault(b->origins[0], ORIGIN_RST_AFTER, after[i % 5], 9);
        for (unsigned k = 0; k < 2; k++) {
            struct deal *d = i / 5 == 0   ? kit_get(b)
                             : i / 5 == 1 ? kit_put(b, 50000)
                             : i / 5 == 2 ? kit_put(b, 100000)
                                          : kit_post(b);
            if (i / 5 == 3) {
                d->body_bytes = 50000;
            }
            kit_do(b, d);
            if (i / 5 < 2) {
                kit_answered(d, 200, "");
            } else {
                assert_int_equal(d->end, DEAL_ANSWERED);
            }
            sim_run_for(b->world, 11000);
        }
        bed_end(b);
    }
}

static void test_ends_after_the_request(void **state)
{
    (void)state;
    static const enum plan_fault faults[] = {PLAN_RST_REQUEST, PLAN_FIN_REQUEST, PLAN_SILENT,
                                             PLAN_HOLD_REQUEST};
    for (unsigned i = 0; i < 12; i++) {
        struct bed *b = pair(6, KIT_S3("", KIT_TWO, ", read_timeout: 3s, deadline: 7s"));
        struct deal *d = i / 4 == 0 ? kit_get(b) : i / 4 == 1 ? kit_put(b, 500) : kit_post(b);
        enum plan_fault f = faults[i % 4];
        kit_plan(d, (struct plan){.fault = f, .fault_at = d->body_bytes});
        kit_plan(d, (struct plan){.body_bytes = 5});
        kit_do(b, d);
        bool silent = f == PLAN_SILENT || f == PLAN_HOLD_REQUEST;
        if (i / 4 == 0) {
            kit_answered(d, 200, "");
            assert_in_range(d->answered_ms - d->asked_ms, silent ? 3000 : 0, silent ? 3020 : 0);
        } else {
            kit_answered(d, 503, silent ? "deadline" : "upstream_failed");
            assert_int_equal(d->visit_count, 1);
            assert_in_range(d->answered_ms - d->asked_ms, silent ? 7000 : 0, silent ? 7020 : 0);
        }
        bed_end(b);
    }
}

/* nginx's way on http routes: PUT is repeated, POST is not, and the timeout is read_timeout. */
static void test_http_route(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct bed *b = pair(7, KIT_HTTP("", KIT_TWO, ", read_timeout: 2s"));
        struct deal *d = i % 2 ? kit_put(b, 500) : kit_post(b);
        d->repeats = i % 2;
        kit_plan(d, (struct plan){.fault = i / 2 ? PLAN_SILENT : PLAN_RST_REQUEST,
                                  .fault_at = d->body_bytes});
        kit_plan(d, (struct plan){.body_bytes = 5});
        kit_do(b, d);
        if (i % 2) {
            kit_answered(d, 200, "");
        } else {
            kit_answered(d, i / 2 ? 504 : 502, i / 2 ? "upstream_timeout" : "upstream_failed");
        }
        bed_end(b);
    }
}

static void test_replay_after_send(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        static const char *const yaml[] = {
            KIT_S3("", KIT_TWO, ", deadline: 2s, replay_after_send: never"),
            KIT_S3("", KIT_TWO, ", deadline: 2s, replay_after_send: reset"),
            KIT_S3("", KIT_TWO, ", deadline: off, read_timeout: 2s, replay_after_send: always")};
        struct bed *b = pair(8, yaml[i / 2]);
        bool silent = i % 2, again = i / 2 == 2 || (i / 2 == 1 && !silent);
        struct deal *d = kit_put(b, 500);
        d->repeats = i / 2 > 0;
        kit_plan(d,
                 (struct plan){.fault = silent ? PLAN_SILENT : PLAN_RST_REQUEST, .fault_at = 500});
        kit_plan(d, (struct plan){.body_bytes = 5});
        kit_do(b, d);
        assert_int_equal(d->status, again ? 200 : 503);
        assert_int_equal(d->visit_count, again ? 2 : 1);
        bed_end(b);
    }
}

/* A kept connection that ends under a request is nobody's fault; whether the request is sent again
 * is a matter of its class. */
static void test_stale_reuse(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct bed *b = bed_new(9, 1, KIT_S3("", KIT_ONE, ""));
        origin_new(b, 0);
        struct deal *first = kit_get(b);
        kit_do(b, first);
        bed_run_for(b, i < 4 ? 100 : 5000);
        struct deal *d = i % 4 == 0   ? kit_get(b)
                         : i % 4 == 1 ? kit_put(b, 1000)
                         : i % 4 == 2 ? kit_post(b)
                                      : kit_put(b, 100000);
        kit_plan(d, (struct plan){.fault = i % 2 ? PLAN_FIN_REQUEST : PLAN_RST_REQUEST});
        kit_plan(d, (struct plan){.body_bytes = 9});
        kit_do(b, d);
        bool fresh = i >= 4 && i % 4 != 0; /* rather not on one that has been idle */
        assert_int_equal(d->visits[0]->reused, !fresh);
        if (fresh) {
            assert_int_equal(bed_events(b, "prematurely closed"), 1);
        } else {
            assert_int_equal(bed_events(b, "prematurely closed"), 0);
            bool again = i % 4 == 0;
            if (i % 4 == 1) {
                again = d->visit_count == 2; /* its end may have come before all was sent */
            }
            assert_int_equal(d->status, again ? 200 : 503);
            assert_string_equal(d->token, again ? "" : "stale_reuse");
            assert_int_equal(d->log_tries, 1);
            assert_int_equal(d->log_attempts, again ? 2 : 1);
        }
        assert_int_equal(bed_events(b, "temporarily disabled"), 0);
        bed_end(b);
    }
}

/* A second later it is not the connection's age any more: an ordinary failure. */
static void test_stale_no_longer(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct bed *b = bed_new(9, 1, KIT_S3("", KIT_TWO, ""));
        origin_new(b, 0);
        origin_new(b, 1);
        struct deal *deals[5];
        for (unsigned k = 0; k < 5; k++) {
            deals[k] = kit_get(b);
        }
        kit_plan(deals[4], (struct plan){.delay_ms = i ? 1100 : 900, .fault = PLAN_FIN_ANSWER});
        kit_plan(deals[4], (struct plan){.body_bytes = 5});
        user_dial(b, NULL, deals, 5);
        bed_run(b);
        kit_answered(deals[4], 200, "");
        assert_true(deals[4]->visits[0]->reused);
        assert_int_equal(deals[4]->log_tries, i ? 2 : 1);
        assert_int_equal(bed_events(b, "prematurely closed"), i);
        bed_end(b);
    }
}

/* The FIN of an idle connection and the next request cross on the wire. */
static void test_late_fin(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        struct bed *b = bed_new(10 + i, 1, KIT_S3("", KIT_ONE, ""));
        origin_new(b, 0);
        struct sim_path far = sim_path_default();
        far.latency_us = 20000;
        origin_path(b->origins[0], &far);
        b->origins[0]->fault = i % 2 ? ORIGIN_FIN_IDLE : ORIGIN_RST_IDLE;
        b->origins[0]->fault_at = 30 + i;
        struct deal *deals[2] = {kit_get(b), i % 4 < 2 ? kit_get(b) : kit_put(b, 0)};
        user_ask(b, deals[0]);
        bed_run(b);
        bed_run_for(b, 30 + i / 2);
        user_ask(b, deals[1]);
        bed_run(b);
        kit_answered(deals[0], 200, "");
        assert_true(deals[1]->status == 200 || strcmp(deals[1]->token, "stale_reuse") == 0);
        assert_true(deals[1]->class != DEAL_S || deals[1]->status == 200);
        assert_int_equal(bed_events(b, "temporarily disabled"), 0);
        bed_end(b);
    }
}

static void test_silent_accept(void **state)
{
    (void)state;
    struct bed *b = pair(11, KIT_S3("", KIT_TWO, ", send_timeout: 4s"));
    fault(b->origins[0], ORIGIN_DEAF, 0, 99);
    fault(b->origins[1], ORIGIN_CUT, 0, 99);
    struct deal *d = kit_get(b);
    kit_do(b, d);
    kit_answered(d, 503, "upstream_timeout");
    assert_int_equal(d->log_attempts, 2);
    bed_run_for(b, 10000);
    d = kit_put(b, 400000); /* more than the socket takes */
    kit_do(b, d);
    kit_answered(d, 503, "upstream_timeout");
    assert_string_equal(d->log_class, "send_timeout");
    bed_end(b);
}

static void test_statuses(void **state)
{
    (void)state;
    static const struct {
        int status;
        bool put, again;
        const char *text;
    } t[] = {
        {500, false, false, ""},
        {502, false, true, ""},
        {503, false, true, "<Code>ServiceUnavailable"},
        {504, false, true, ""},
        {503, true, true, ""},
        {502, true, false, ""},
        {504, true, false, ""},
        {429, false, false, ""},
        {503, false, false, "<Code>SlowDown</Code>"},
        {403, false, false, ""},
        {404, false, false, ""},
    };
    for (unsigned i = 0; i < sizeof t / sizeof t[0]; i++) {
        struct bed *b =
            pair(12, KIT_S3("", KIT_TWO, ", next_upstream: [error, http_502, http_503, http_504]"));
        struct deal *d = t[i].put ? kit_put(b, 20) : kit_get(b);
        kit_plan(d, (struct plan){.status = t[i].status, .text = t[i].text});
        kit_plan(d, (struct plan){.body_bytes = 5});
        kit_do(b, d);
        kit_answered(d, t[i].again ? 200 : t[i].status, "");
        assert_int_equal(d->visit_count, t[i].again ? 2 : 1);
        bool counted = t[i].status == 502 || t[i].status == 504 ||
                       (t[i].status == 503 && strstr(t[i].text, "SlowDown") == NULL);
        assert_int_equal(bed_events(b, "temporarily disabled"), counted);
        bed_end(b);
    }
}

/* A 503 is looked into for a quarter of a second, and no byte of it is lost by that. */
static void test_peek(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 24; i++) {
        struct bed *b = bed_new(13, 1, KIT_S3("", KIT_ONE, ", next_upstream: [error, http_503]"));
        origin_new(b, 0);
        struct deal *d = kit_get(b);
        kit_plan(d, (struct plan){.status = 503,
                                  .body = (enum plan_body)(i % 3),
                                  .text = i & 1 ? "<Error><Code>SlowDown</Code></Error>" : NULL,
                                  .body_bytes = i & 4 ? 20000 : 300,
                                  .piece_bytes = i & 8 ? 37 : 0,
                                  .piece_ms = 100,
                                  .hints = i & 2 ? 1 : 0});
        kit_do(b, d);
        kit_answered(d, 503, "");
        bed_end(b);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_refused),
    cmocka_unit_test(test_unreachable),
    cmocka_unit_test(test_blackhole),
    cmocka_unit_test(test_no_descriptors),
    cmocka_unit_test(test_reset_in_the_request),
    cmocka_unit_test(test_ends_after_the_request),
    cmocka_unit_test(test_http_route),
    cmocka_unit_test(test_replay_after_send),
    cmocka_unit_test(test_stale_reuse),
    cmocka_unit_test(test_stale_no_longer),
    cmocka_unit_test(test_late_fin),
    cmocka_unit_test(test_silent_accept),
    cmocka_unit_test(test_statuses),
    cmocka_unit_test(test_peek),
};
KIT_MAIN(tests)
