/* What a client can do: be slow, flood, rush, say Expect and not wait, leave at any moment. */
#include "tests/sim/scenarios/kit.h"

static struct bed *single(uint64_t seed, const char *yaml)
{
    struct bed *b = bed_new(seed, 1, yaml);
    origin_new(b, 0);
    return b;
}

static void test_slow_reader(void **state)
{
    (void)state;
    struct bed *b = single(1, KIT_S3("", KIT_ONE, ", read_timeout: 2s"));
    struct user_script slow = {.path = sim_path_default(), .read_ms = 300};
    slow.path.send_bytes = slow.path.recv_bytes = 4096;
    struct deal *d = kit_get(b);
    kit_plan(d, (struct plan){.body_bytes = 400000});
    user_dial(b, &slow, &d, 1);
    bed_run(b);
    kit_answered(d, 200, "");
    assert_true(d->answered_ms - d->asked_ms > 20000); /* far beyond read_timeout */
    assert_int_equal(bed_events(b, "temporarily disabled"), 0);
    bed_end(b);
}

static void test_dead_reader(void **state)
{
    (void)state;
    struct bed *b = single(2, KIT_S3("", KIT_ONE, ""));
    struct user_script dead = {.path = sim_path_default(), .hold_ms = 200000};
    dead.path.send_bytes = dead.path.recv_bytes = 4096;
    struct deal *d = kit_get(b);
    kit_plan(d, (struct plan){.body_bytes = 400000});
    b->impatient = true;
    user_dial(b, &dead, &d, 1);
    bed_run(b);
    assert_string_equal(d->log_class, "client_timeout");
    assert_int_equal(bed_events(b, "temporarily disabled"), 0);
    bed_end(b);
}

static void test_slow_head(void **state)
{
    (void)state;
    struct bed *b = single(3, KIT_S3("", KIT_ONE, ""));
    struct user_script slow = {.send_bytes = 1, .send_ms = 20};
    struct deal *d = kit_get(b);
    user_dial(b, &slow, &d, 1);
    bed_run(b);
    kit_answered(d, 200, "");
    slow.send_ms = 500;
    d = kit_get(b);
    d->raw = "GET /bucket/key HTTP/1.1\r\nHost: store.test\r\n\r\n";
    user_dial(b, &slow, &d, 1);
    bed_run(b);
    kit_answered(d, 400, "request_timeout");
    assert_in_range(d->answered_ms - d->asked_ms, 10000, 10600);
    bed_end(b);
}

/* The deadline's clock stands still while the client owes; its own one then ends it. */
static void test_slow_upload(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct bed *b = single(4, KIT_S3("", KIT_ONE, ", deadline: 3s"));
        struct user_script slow = {.send_bytes = 10000, .send_ms = i < 2 ? 10000 : 40000};
        struct deal *d = kit_put(b, 100000);
        d->body = i % 2 ? DEAL_CHUNKED : DEAL_LENGTH;
        user_dial(b, &slow, &d, 1);
        bed_run(b);
        if (i < 2) {
            kit_answered(d, 200, "");
            assert_true(d->answered_ms - d->asked_ms > 90000);
        } else {
            kit_answered(d, 400, "request_timeout");
        }
        assert_int_equal(bed_events(b, "temporarily disabled"), 0);
        bed_end(b);
    }
}

/* A backend that takes the body slowly, but takes it: a body of unknown length has no deadline
 * while it moves; one of a known length has its second per MiB. */
static void test_slow_origin_upload(void **state)
{
    (void)state;
    struct bed *b = single(5, KIT_S3("", KIT_ONE, ", deadline: 5s"));
    struct sim_path narrow = {.latency_us = 200000, .send_bytes = 8192, .recv_bytes = 8192};
    origin_path(b->origins[0], &narrow);
    struct deal *d = kit_put(b, 400000);
    d->body = DEAL_CHUNKED;
    kit_do(b, d);
    kit_answered(d, 200, "");
    assert_true(d->answered_ms - d->asked_ms > 10000);
    d = kit_put(b, 400000);
    kit_do(b, d);
    kit_answered(d, 503, "deadline");
    bed_end(b);
}

static void test_pipelining(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct bed *b = single(6, KIT_S3("", KIT_ONE, ""));
        struct deal *deals[300];
        for (unsigned k = 0; k < 300; k++) {
            deals[k] = k % 5 == 4 ? kit_put(b, k * 20) : kit_get(b);
            deals[k]->body = deals[k]->body == DEAL_LENGTH && k % 2 ? DEAL_CHUNKED : deals[k]->body;
            deals[k]->trailers = true;
            kit_plan(deals[k], (struct plan){.body_bytes = k * 3, .delay_ms = k % 7 == 0});
        }
        struct user_script flood = {.pipelines = true, .send_bytes = i * 333, .send_ms = 0};
        if (i == 3) {
            deals[150]->close = true; /* nothing behind it is answered */
        }
        user_dial(b, &flood, deals, 300);
        bed_run(b);
        for (unsigned k = 0; k < (i == 3 ? 151 : 300); k++) {
            kit_answered(deals[k], 200, "");
        }
        bed_end(b);
    }
}

static void test_large_heads(void **state)
{
    (void)state;
    char *pad = malloc(66000);
    for (unsigned i = 0; i < 12; i++) {
        struct bed *b = single(7, KIT_S3("", KIT_ONE, ""));
        unsigned n = 4000 * (i % 6) + (i == 5 || i == 11 ? 44000 : 900);
        memcpy(pad, "x-pad: ", 7);
        memset(pad + 7, 'q', n);
        memcpy(pad + 7 + n, "\r\n", 3);
        struct deal *deals[3] = {kit_get(b), kit_put(b, 50000), kit_get(b)};
        for (unsigned k = 0; k < 3; k++) {
            deals[k]->fields = pad;
            deals[k]->body = k == 1 && i % 2 ? DEAL_CHUNKED : deals[k]->body;
        }
        struct user_script flood = {.pipelines = i >= 6};
        user_dial(b, &flood, deals, 3);
        bed_run(b);
        for (unsigned k = 0; k < 3; k++) {
            if (i % 6 == 5) {
                assert_true(k > 0 || deals[k]->status == 200 || deals[k]->status == 431);
            } else {
                kit_answered(deals[k], 200, "");
            }
        }
        bed_end(b);
    }
    free(pad);
}

static void test_bad_requests(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
    } t[] = {
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET /bucket/key HTTP/2.0\r\nHost: a\r\n\r\n", 505},
        {"BREW /bucket/key HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400},
        {"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 501},
        {"PUT /bucket/key HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501},
        {"PUT /bucket/key HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n\r\n", 417},
        {"PUT /bucket/key HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
        {"PUT /bucket/key HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: "
         "chunked\r\n\r\nabc",
         400},
        {"GET /_/ready HTTP/1.1\r\nHost: a\r\n\r\n", 404},
        {"OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200},
        {"\r\n\r\nGET /bucket/key HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200},
        {"GET /bucket/key\r\n\r\n", 400},
    };
    for (unsigned i = 0; i < sizeof t / sizeof t[0]; i++) {
        struct bed *b = single(8, KIT_S3("", KIT_ONE, ""));
        struct deal *d = deal_new(b, "GET", "/");
        d->raw = t[i].text;
        kit_do(b, d);
        assert_int_equal(d->end, DEAL_ANSWERED);
        assert_int_equal(d->status, t[i].status);
        bed_end(b);
    }
}

/* A chunk that is none, while the origin is still being dialled, is found out at once. */
static void test_bad_chunk_while_connecting(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct bed *b = single(9, KIT_S3("", KIT_ONE, ""));
        struct sim_path far = sim_path_default();
        far.latency_us = 100000;
        origin_path(b->origins[0], &far);
        struct user_script two = {.send_bytes = 80, .send_ms = 50 + i * 90};
        struct deal *d = deal_new(b, "PUT", "/");
        d->raw =
            "PUT /bucket/key HTTP/1.1\r\nHost: store.test\r\nTransfer-Encoding: chunked\r\n\r\n"
            "3\r\nabc\r\nZ\r\n";
        user_dial(b, &two, &d, 1);
        bed_run(b);
        kit_answered(d, 400, "bad_request");
        assert_in_range(d->answered_ms - d->asked_ms, 0, 500);
        bed_end(b);
    }
}

static void test_expect(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 48; i++) {
        struct bed *b = single(10, KIT_S3("", KIT_ONE, ""));
        struct deal *d = kit_put(b, i & 1 ? 300 : 200000);
        d->body = i & 2 ? DEAL_CHUNKED : DEAL_LENGTH;
        d->expect = i & 4 ? DEAL_RUSHES : DEAL_WAITS;
        d->expect_ms = i % 3 == 0 ? 5000 : 0;
        enum plan_hundred hundred = (enum plan_hundred)(i / 12);
        kit_plan(d, (struct plan){
                        .hundred = hundred, .hundred_ms = i & 8 ? 3000 : 300, .body_bytes = 7});
        kit_do(b, d);
        kit_answered(d, 200, "");
        assert_int_equal(d->visit_count, 1);
        assert_int_equal(d->answer_closes, 0);
        assert_true(d->answered_ms - d->asked_ms <= 3100);
        bed_end(b);
    }
}

/* A final answer in place of the 100: no body comes, and it may be asked for elsewhere. */
static void test_expect_refused(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct bed *b = single(11, KIT_S3("", KIT_TWO, ", next_upstream: [error, http_503]"));
        origin_new(b, 1);
        struct deal *d = kit_post(b);
        d->body_bytes = 90000;
        d->expect = DEAL_WAITS;
        int status = i % 3 == 0 ? 403 : i % 3 == 1 ? 503 : 200;
        kit_plan(d, (struct plan){
                        .when = PLAN_AT_HEAD, .status = status, .body_bytes = 50, .close = i > 2});
        kit_plan(d, (struct plan){.body_bytes = 3});
        kit_do(b, d);
        kit_answered(d, i % 3 == 1 ? 200 : status, "");
        assert_int_equal(d->visit_count, i % 3 == 1 ? 2 : 1);
        assert_int_equal(d->sent_all, i % 3 == 1);
        bed_end(b);
    }
}

/* The first origin dies before its 100, or after it; the client hears of one 100 only. */
static void test_expect_moves_on(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct bed *b = single(12, KIT_S3("", KIT_TWO, ""));
        origin_new(b, 1);
        struct deal *d = i & 1 ? kit_post(b) : kit_put(b, 50000);
        d->body_bytes = 50000;
        d->expect = DEAL_WAITS;
        kit_plan(d, (struct plan){.hundred = i & 2 ? PLAN_HUNDRED_EARLY : PLAN_HUNDRED_NEVER,
                                  .fault = PLAN_RST_REQUEST,
                                  .fault_at = i & 2 ? 10000 : 0});
        kit_plan(d, (struct plan){.hundred = i & 4 ? PLAN_HUNDRED_NEVER : PLAN_HUNDRED_EARLY});
        kit_do(b, d);
        bool again = !(i & 2) || !(i & 1);
        assert_int_equal(d->end, DEAL_ANSWERED);
        if (!(i & 2)) {
            kit_answered(d, 200, "");
        }
        assert_true(again || d->visit_count == 1);
        bed_end(b);
    }
}

/* In every phase, by FIN and by RST: the origin's connection goes, nobody is blamed. */
static void test_aborts(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 120; i++) {
        struct bed *b = single(13 + i, KIT_S3("", KIT_TWO, ""));
        origin_new(b, 1);
        struct sim_path far = sim_path_default();
        far.latency_us = 5000;
        far.recv_bytes = far.send_bytes = 16384;
        origin_path(b->origins[0], &far);
        origin_path(b->origins[1], &far);
        struct user_script leaver = {.by_reset = i & 1, .path = far};
        leaver.leaves = i / 2 % 3 == 0 ? USER_AT_SENT : i / 2 % 3 == 1 ? USER_AT_GOT : USER_AT_MS;
        leaver.leaves_at = leaver.leaves == USER_AT_MS ? i * 7 / 6 % 140 : i * 997 % 60000;
        leaver.leaves_at = i % 12 < 4 ? leaver.leaves_at % 200 : leaver.leaves_at;
        struct deal *deals[2] = {i & 8 ? kit_put(b, 60000) : kit_get(b), kit_get(b)};
        deals[0]->expect = i & 16 && i & 8 ? DEAL_WAITS : DEAL_NO_EXPECT;
        kit_plan(deals[0],
                 (struct plan){.body_bytes = 60000, .delay_ms = 40, .hints = i & 32 ? 1 : 0});
        leaver.pipelines = i & 64;
        user_dial(b, &leaver, deals, 2);
        bed_run(b);
        assert_int_equal(bed_events(b, "temporarily disabled"), 0);
        assert_true(deals[0]->end != DEAL_LEFT || deals[0]->log_lines == 0 ||
                    strcmp(deals[0]->log_class, "client_abort") == 0 ||
                    deals[0]->log_status == 200);
        bed_end(b);
    }
}

static void test_idle(void **state)
{
    (void)state;
    struct bed *b = single(14, KIT_S3("", KIT_ONE, ""));
    struct user_script stays = {.leaves = USER_LINGERS};
    struct deal *d = kit_get(b);
    struct user *u = user_dial(b, &stays, &d, 1);
    bed_run(b);
    kit_answered(d, 200, "");
    assert_in_range(u->closed_ms - d->answered_ms, 60000, 60020);
    stays.leaves = USER_FINISHES; /* a half-close behind the request is leaving, as in nginx */
    d = kit_get(b);
    kit_plan(d, (struct plan){.delay_ms = 10});
    user_dial(b, &stays, &d, 1);
    bed_run(b);
    assert_int_equal(d->end, DEAL_DROPPED);
    assert_int_equal(d->log_status, 499);
    bed_end(b);
}

static void test_long_targets(void **state)
{
    (void)state;
    char target[3000];
    for (unsigned i = 0; i < 4; i++) {
        struct bed *b = bed_new(15, 1, i % 2 ? KIT_S3("", KIT_ONE, "") : KIT_HTTP("", KIT_ONE, ""));
        struct deal *d = deal_new(b, "GET", target); /* no origin: our own answer */
        target[0] = '/';
        memset(target + 1, '&', 255);
        target[256] = '/';
        memset(target + 257, i < 2 ? '&' : '\'', 2000);
        target[2257] = '\0';
        d->class = DEAL_S;
        kit_do(b, d);
        assert_int_equal(d->end, DEAL_ANSWERED);
        bed_end(b);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_slow_reader),
    cmocka_unit_test(test_dead_reader),
    cmocka_unit_test(test_slow_head),
    cmocka_unit_test(test_slow_upload),
    cmocka_unit_test(test_slow_origin_upload),
    cmocka_unit_test(test_pipelining),
    cmocka_unit_test(test_large_heads),
    cmocka_unit_test(test_bad_requests),
    cmocka_unit_test(test_bad_chunk_while_connecting),
    cmocka_unit_test(test_expect),
    cmocka_unit_test(test_expect_refused),
    cmocka_unit_test(test_expect_moves_on),
    cmocka_unit_test(test_aborts),
    cmocka_unit_test(test_idle),
    cmocka_unit_test(test_long_targets),
};
KIT_MAIN(tests)
