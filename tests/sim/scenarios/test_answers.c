/* Answers that are whole: every framing in both directions, cut into pieces in every way; interim
 * answers; early ones; bad ones. */
#include "tests/sim/scenarios/kit.h"

static void test_plain(void **state)
{
    (void)state;
    struct bed *b = bed_new(1, 1, KIT_S3("", KIT_ONE, ""));
    origin_new(b, 0);
    struct deal *d = kit_get(b);
    kit_plan(d, (struct plan){.body_bytes = 1000});
    kit_do(b, d);
    kit_answered(d, 200, "");
    assert_int_equal(d->got_bytes, 1000);
    bed_end(b);
}

/* Nine framings on one connection, again and again over a network that cuts and delays. */
static void test_framings(void **state)
{
    (void)state;
    static const enum plan_body bodies[] = {PLAN_LENGTH, PLAN_CHUNKED, PLAN_UNTIL_CLOSE};
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct bed *b = bed_new(seed, 1, KIT_S3("", KIT_TWO, ""));
        struct sim_path rough = {.latency_us = 300 * (int64_t)(seed % 3),
                                 .send_bytes = seed % 2 ? 4096 : 65536,
                                 .recv_bytes = seed % 4 ? 65536 : 2048,
                                 .fragment_pct = 50,
                                 .short_write_pct = 50};
        struct user_script script = {.path = rough, .pipelines = seed % 2};
        sim_set_shuffle(b->world, true);
        origin_path(origin_new(b, 0), &rough);
        origin_path(origin_new(b, 1), &rough);
        struct deal *deals[27];
        for (unsigned i = 0; i < 27; i++) {
            uint32_t bytes = i % 9 == 0 ? 0 : i * 4000 + 1;
            deals[i] = i % 3 == 0 ? kit_get(b) : kit_put(b, bytes);
            deals[i]->body = i % 3 == 2 ? DEAL_CHUNKED : deals[i]->body;
            deals[i]->trailers = i % 2;
            deals[i]->chunk_bytes = 777;
            kit_plan(deals[i], (struct plan){.body = bodies[i / 3 % 3],
                                             .body_bytes = (26 - i) * 4000,
                                             .trailers = i % 2 == 0,
                                             .head_bytes = i * 300,
                                             .http10 = i == 18});
        }
        user_dial(b, &script, deals, 27);
        bed_run(b);
        for (unsigned i = 0; i < 27; i++) {
            kit_answered(deals[i], 200, "");
        }
        bed_end(b);
    }
}

static void test_old_clients(void **state)
{
    (void)state;
    static const enum plan_body bodies[] = {PLAN_LENGTH, PLAN_CHUNKED, PLAN_UNTIL_CLOSE};
    struct bed *b = bed_new(2, 1, KIT_S3("", KIT_ONE, ""));
    origin_new(b, 0);
    for (unsigned i = 0; i < 6; i++) {
        struct deal *d = kit_get(b);
        d->http10 = true;
        d->close = i % 2;
        kit_plan(d, (struct plan){.body = bodies[i % 3], .body_bytes = 5000, .hints = i});
        kit_do(b, d);
        kit_answered(d, 200, "");
        assert_int_equal(d->got_bytes, 5000);
        assert_int_equal(d->hints, 0);
    }
    bed_end(b);
}

static void test_heads(void **state)
{
    (void)state;
    static const int statuses[] = {200, 204, 304, 404, 412, 500, 503};
    struct bed *b = bed_new(3, 1, KIT_S3("", KIT_ONE, ""));
    origin_new(b, 0);
    for (unsigned i = 0; i < 2 * 7; i++) {
        struct deal *d = deal_new(b, i % 2 ? "HEAD" : "GET", "/bucket/key");
        d->class = DEAL_S;
        kit_plan(d, (struct plan){.status = statuses[i / 2], .body_bytes = 700});
        kit_do(b, d);
        kit_answered(d, statuses[i / 2], "");
    }
    bed_end(b);
}

/* A head that only just fits, and must be rewritten, does not become two. */
static void test_huge_heads(void **state)
{
    (void)state;
    struct bed *b = bed_new(4, 1, KIT_S3("", KIT_ONE, ""));
    origin_new(b, 0);
    static const uint32_t paddings[] = {15000, 16384, 40000, 65200, 65400,
                                        65420, 65440, 65460, 70000};
    for (unsigned i = 0; i < 2 * sizeof paddings / sizeof paddings[0]; i++) {
        struct deal *d = kit_get(b);
        d->close = true;
        kit_plan(d,
                 (struct plan){.head_bytes = paddings[i / 2], .body_bytes = 100, .http10 = i % 2});
        kit_do(b, d);
        assert_int_equal(d->end, DEAL_ANSWERED);
        assert_true(d->status == 200 || d->status == 503);
        sim_run_for(b->world, 20000); /* it may have counted as a failure */
    }
    bed_end(b);
}

static void test_hints(void **state)
{
    (void)state;
    struct bed *b = bed_new(5, 1, KIT_S3("", KIT_TWO, ""));
    origin_new(b, 0);
    origin_new(b, 1);
    struct deal *d = kit_get(b);
    kit_plan(d, (struct plan){.hints = 3, .hint_bytes = 9000, .body_bytes = 10});
    kit_do(b, d);
    kit_answered(d, 200, "");
    assert_int_equal(d->hints, 3);
    /* Too many are an attack. */
    d = kit_get(b);
    kit_plan(d, (struct plan){.hints = 17});
    kit_do(b, d);
    kit_answered(d, 503, "upstream_failed");
    /* After a relayed hint the answer has begun: no second origin. */
    d = kit_get(b);
    kit_plan(d, (struct plan){.hints = 1, .fault = PLAN_RST_ANSWER, .fault_at = 50});
    kit_do(b, d);
    assert_int_equal(d->visit_count, 1);
    kit_answered(d, 503, "upstream_failed");
    bed_end(b);
}

/* A slow client with an interim answer half sent loses neither it nor what follows. */
static void test_hint_stuck(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        struct bed *b = bed_new(6, 1, KIT_S3("", KIT_TWO, ""));
        origin_new(b, 0);
        origin_new(b, 1);
        struct user_script slow = {.path = sim_path_default(), .hold_ms = i < 6 ? 5000 : 15000};
        slow.path.send_bytes = 4096;
        slow.path.recv_bytes = 2048;
        struct deal *d = kit_get(b);
        kit_plan(d, (struct plan){.hints = 1 + i / 2 % 3,
                                  .hint_bytes = 15000,
                                  .fault = i % 2 ? PLAN_RST_ANSWER : PLAN_SOUND,
                                  .fault_at = (1 + i / 2 % 3) * 15050 + 10,
                                  .body_bytes = 100});
        user_dial(b, &slow, &d, 1);
        bed_run_for(b, 1000);
        struct deal *others[4]; /* what was given back is used by others at once */
        for (unsigned k = 0; k < 4; k++) {
            others[k] = kit_get(b);
            kit_plan(others[k], (struct plan){.body_bytes = 60000});
        }
        user_dial(b, NULL, others, 4);
        bed_run(b);
        assert_int_equal(d->end, DEAL_ANSWERED);
        assert_true(d->status == 503 || (d->status == 200 && i < 6 && i % 2 == 0));
        assert_true(d->hints == 1 + i / 2 % 3 || (i >= 6 && d->hints > 0));
        bed_end(b);
    }
}

/* The answer before fills the client's socket to the brim: the hint waits, and does not time out
 * there and then. */
static void test_hint_behind_a_full_socket(void **state)
{
    (void)state;
    for (uint32_t head = 60; head < 110; head++) {
        struct bed *b = bed_new(7, 1, KIT_S3("", KIT_ONE, ""));
        origin_new(b, 0);
        struct user_script slow = {.path = sim_path_default(), .hold_ms = 3000, .pipelines = true};
        slow.path.send_bytes = 8192;
        slow.path.recv_bytes = 8192;
        struct deal *d[2] = {kit_get(b), kit_get(b)};
        kit_plan(d[0], (struct plan){.body_bytes = 16384 - head});
        kit_plan(d[1], (struct plan){.hints = 1, .body_bytes = 100});
        user_dial(b, &slow, d, 2);
        bed_run(b);
        kit_answered(d[0], 200, "");
        kit_answered(d[1], 200, "");
        bed_end(b);
    }
}

static void test_bad_heads(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "SSH-2.0-OpenSSH_9.2p1\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n1",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "\x16\x03\x01\x02",
        "HTTP/1.1 99 Low\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    };
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct bed *b =
            bed_new(8, 1, KIT_S3("", KIT_TWO, ", next_upstream: [error, invalid_header]"));
        origin_new(b, 0);
        origin_new(b, 1);
        struct deal *d = kit_get(b);
        kit_plan(d, (struct plan){.raw = bad[i]});
        kit_plan(d, (struct plan){.body_bytes = 10});
        kit_do(b, d);
        kit_answered(d, 200, "");
        assert_int_equal(d->log_attempts, 2);
        assert_int_equal(bed_events(b, "upstream sent invalid header"), 1);
        assert_int_equal(bed_events(b, "temporarily disabled"), 1);
        d = kit_put(b, 10); /* class I, sent in full: not again */
        kit_plan(d, (struct plan){.raw = bad[i]});
        kit_do(b, d);
        kit_answered(d, 503, "upstream_failed");
        bed_end(b);
    }
}

static void test_short_bodies(void **state)
{
    (void)state;
    static const enum plan_fault faults[] = {PLAN_RST_ANSWER, PLAN_FIN_ANSWER, PLAN_STALL_ANSWER};
    static const enum plan_body bodies[] = {PLAN_LENGTH, PLAN_CHUNKED, PLAN_UNTIL_CLOSE};
    for (unsigned i = 0; i < 18; i++) {
        if (i / 3 % 3 == 2 && faults[i % 3] == PLAN_FIN_ANSWER) {
            continue; /* that is its end */
        }
        struct bed *b = bed_new(9, 1, KIT_S3("", KIT_TWO, ""));
        origin_new(b, 0);
        origin_new(b, 1);
        struct deal *d = kit_get(b);
        d->http10 = i >= 9;
        kit_plan(d, (struct plan){.body = bodies[i / 3 % 3],
                                  .body_bytes = 100000,
                                  .fault = faults[i % 3],
                                  .fault_at = 30000});
        kit_do(b, d);
        assert_int_equal(d->end, DEAL_TRUNCATED);
        assert_true(d->got_bytes > 0 && d->got_bytes <= 30000);
        assert_string_equal(d->log_error, "truncated");
        assert_string_equal(d->log_class, "truncated");
        assert_int_equal(d->visit_count, 1);
        assert_int_equal(bed_events(b, "temporarily disabled"), 1);
        bed_end(b);
    }
}

/* Bytes behind the answer are never taken for the next one. */
static void test_surplus(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct bed *b = bed_new(10, 1, KIT_S3("", KIT_ONE, ""));
        origin_new(b, 0);
        struct deal *deals[4];
        for (unsigned k = 0; k < 4; k++) {
            deals[k] = kit_get(b);
            kit_plan(deals[k], (struct plan){.body = i % 2 ? PLAN_CHUNKED : PLAN_LENGTH,
                                             .body_bytes = i < 2 ? 5 : 61440 - 90,
                                             .surplus = k % 2 ? 70000 : 1});
        }
        user_dial(b, NULL, deals, 4);
        bed_run(b);
        for (unsigned k = 0; k < 4; k++) {
            kit_answered(deals[k], 200, "");
            assert_false(deals[k]->visits[0]->reused); /* who says too much is not asked again */
        }
        bed_end(b);
    }
}

/* The answer comes while the body is still being sent. */
static void test_early_answers(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct bed *b = bed_new(11, 1, KIT_S3("", KIT_ONE, ""));
        origin_new(b, 0);
        struct user_script steady = {.send_bytes = 20000, .send_ms = 20};
        struct deal *d = kit_put(b, 400000);
        d->body = i & 1 ? DEAL_CHUNKED : DEAL_LENGTH;
        d->chunk_bytes = 30000;
        kit_plan(d, (struct plan){.when = i & 2 ? PLAN_AT_HEAD : PLAN_AT_BYTES,
                                  .when_bytes = 100000,
                                  .status = i & 4 ? 200 : 413,
                                  .body_bytes = i & 4 ? 150000 : 300,
                                  .close = !(i & 4)});
        user_dial(b, &steady, &d, 1);
        bed_run(b);
        kit_answered(d, i & 4 ? 200 : 413, "");
        bed_end(b);
    }
}

/* An answer that ends only when the upload does: the transfer moves, so no stall timer may cut it,
 * though the answer itself rests for longer than read_timeout. */
static void test_early_answer_waits_for_the_upload(void **state)
{
    (void)state;
    struct bed *b = bed_new(12, 1, KIT_S3("", KIT_ONE, ", read_timeout: 2s"));
    origin_new(b, 0);
    struct user_script steady = {.send_bytes = 10000, .send_ms = 500};
    struct deal *d = kit_put(b, 200000); /* 10 s */
    kit_plan(d,
             (struct plan){
                 .when = PLAN_AT_HEAD, .body_bytes = 2000, .piece_bytes = 1500, .piece_ms = 12000});
    user_dial(b, &steady, &d, 1);
    bed_run(b);
    kit_answered(d, 200, "");
    assert_int_equal(bed_events(b, "temporarily disabled"), 0);
    bed_end(b);
}

static void test_drip(void **state)
{
    (void)state;
    struct bed *b = bed_new(13, 1, KIT_S3("", KIT_ONE, ""));
    origin_new(b, 0);
    struct deal *d[2] = {kit_get(b), kit_get(b)};
    /* Ten minutes, far beyond the deadline: what keeps moving is never cut. */
    kit_plan(d[0], (struct plan){.body_bytes = 12000, .piece_bytes = 100, .piece_ms = 5000});
    kit_plan(d[1], (struct plan){
                       .body = PLAN_CHUNKED, .body_bytes = 200, .piece_bytes = 1, .piece_ms = 50});
    user_dial(b, NULL, d, 2);
    bed_run(b);
    kit_answered(d[0], 200, "");
    kit_answered(d[1], 200, "");
    assert_true(d[0]->answered_ms - d[0]->asked_ms > 500000);
    bed_end(b);
}

/* A 503 is looked into, and its connection is reset behind a part of a body that only a close would
 * end: no whole answer. */
static void test_peeked_reset(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        struct bed *b =
            bed_new(40 + i, 1, KIT_S3("", KIT_ONE, ", next_upstream: [error, http_503]"));
        origin_new(b, 0);
        struct deal *d = kit_post(b);
        kit_plan(d, (struct plan){.status = 503,
                                  .body = PLAN_UNTIL_CLOSE,
                                  .body_bytes = 900,
                                  .fault = PLAN_RST_ANSWER,
                                  .fault_at = 100 + i * 20});
        kit_do(b, d);
        assert_int_not_equal(d->end, DEAL_ANSWERED);
        bed_end(b);
    }
}

/* A 413 that only its end ends comes while a body is still sent. */
static struct deal *refused_early(struct bed *b, unsigned i, enum plan_fault fault)
{
    origin_new(b, 0);
    struct sim_path far = sim_path_default();
    far.latency_us = i * 100;
    origin_path(b->origins[0], &far);
    struct deal *d = kit_put(b, 1000000);
    d->body = i % 2 ? DEAL_CHUNKED : DEAL_LENGTH;
    kit_plan(d, (struct plan){.when = PLAN_AT_HEAD,
                              .status = 413,
                              .body = PLAN_UNTIL_CLOSE,
                              .body_bytes = 30000,
                              .fault = fault,
                              .fault_at = 20000});
    kit_do(b, d);
    return d;
}

/* The same as above where the sending of the body hears of the reset first. */
static void test_reset_while_sending(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        struct bed *b = bed_new(90 + i, 1, KIT_S3("", KIT_ONE, ""));
        const struct deal *d = refused_early(b, i, PLAN_RST_ANSWER);
        assert_true(d->end != DEAL_ANSWERED || d->token[0] != '\0');
        bed_end(b);
    }
}

/* The end came in good order, and the reset behind it, for what we still sent: a whole answer. */
static void test_reset_behind_the_end(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        struct bed *b = bed_new(190 + i, 1, KIT_S3("", KIT_ONE, ""));
        const struct deal *d = refused_early(b, i, PLAN_SOUND);
        assert_int_equal(d->end, DEAL_ANSWERED);
        assert_string_equal(d->token, "");
        bed_end(b);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_reset_while_sending),
    cmocka_unit_test(test_peeked_reset),
    cmocka_unit_test(test_reset_behind_the_end),
    cmocka_unit_test(test_plain),
    cmocka_unit_test(test_framings),
    cmocka_unit_test(test_old_clients),
    cmocka_unit_test(test_heads),
    cmocka_unit_test(test_huge_heads),
    cmocka_unit_test(test_hints),
    cmocka_unit_test(test_hint_stuck),
    cmocka_unit_test(test_hint_behind_a_full_socket),
    cmocka_unit_test(test_bad_heads),
    cmocka_unit_test(test_short_bodies),
    cmocka_unit_test(test_surplus),
    cmocka_unit_test(test_early_answers),
    cmocka_unit_test(test_early_answer_waits_for_the_upload),
    cmocka_unit_test(test_drip),
};
KIT_MAIN(tests)
