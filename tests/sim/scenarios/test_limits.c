/* Limits: connections, max_conns with its queue and its hold, memory for bytes in flight and for
 * bodies that may be sent again; the end of the process. */
#include "common/http1/body_frame.h"
#include "sidecar/proxy/engine_state.h"
#include "tests/sim/scenarios/kit.h"

enum { MANY = 64 };

static struct bed *single(uint64_t seed, const char *yaml)
{
    struct bed *b = bed_new(seed, 1, yaml);
    origin_new(b, 0);
    return b;
}

static struct user *each(struct bed *b, const struct user_script *script, struct deal *d)
{
    return user_dial(b, script, &d, 1);
}

static unsigned count(struct deal *const *deals, unsigned n, int status, const char *token)
{
    unsigned found = 0;
    for (unsigned i = 0; i < n; i++) {
        found += deals[i]->end == DEAL_ANSWERED && deals[i]->status == status &&
                 strcmp(deals[i]->token, token) == 0;
    }
    return found;
}

static void test_max_conns(void **state)
{
    (void)state;
    struct bed *b = single(1, KIT_S3(", max_conns: 2", KIT_ONE, ""));
    struct deal *deals[10];
    for (unsigned i = 0; i < 10; i++) {
        deals[i] = kit_get(b);
        kit_plan(deals[i], (struct plan){.delay_ms = 100});
        user_ask(b, deals[i]);
    }
    bed_run(b);
    assert_int_equal(count(deals, 10, 200, ""), 2);
    assert_int_equal(count(deals, 10, 503, "overload"), 8);
    bed_end(b);
}

static void test_queue(void **state)
{
    (void)state;
    struct bed *b =
        single(2, KIT_S3(", max_conns: 2, queue: {size: 5, timeout: 250ms}", KIT_ONE, ""));
    struct deal *deals[10];
    for (unsigned i = 0; i < 10; i++) {
        deals[i] = i % 2 ? kit_get(b) : kit_put(b, 100000);
        kit_plan(deals[i], (struct plan){.delay_ms = 100});
        user_ask(b, deals[i]);
    }
    bed_run(b);
    /* Two at once, two after 100 ms, two after 200 ms; the seventh waits for 250 ms in vain. */
    assert_int_equal(count(deals, 10, 200, ""), 6);
    assert_int_equal(count(deals, 10, 503, "overload"), 4);
    for (unsigned i = 0; i < 10; i++) {
        int64_t ms = deals[i]->answered_ms - deals[i]->asked_ms;
        assert_true(ms <= 330);
    }
    bed_end(b);
}

/* Those that wait leave: by FIN, by RST; their places are free again. */
static void test_queue_left(void **state)
{
    (void)state;
    struct bed *b =
        single(3, KIT_S3(", max_conns: 1, queue: {size: 4, timeout: 10s}", KIT_ONE, ""));
    struct user_script leaver = {.leaves = USER_AT_MS, .leaves_at = 50};
    struct deal *deals[9];
    for (unsigned i = 0; i < 9; i++) {
        deals[i] = kit_get(b);
        kit_plan(deals[i], (struct plan){.delay_ms = 300});
        leaver.by_reset = i % 2;
        user_dial(b, i > 0 && i < 5 ? &leaver : NULL, &deals[i], 1);
        bed_run_for(b, i == 4 ? 100 : 1);
    }
    bed_run(b);
    assert_int_equal(count(deals, 9, 200, ""), 5);
    bed_end(b);
}

static void test_hold(void **state)
{
    (void)state;
    struct bed *b = single(4, KIT_S3(", queue: {size: 10, hold: 5s}, fail_timeout: 1s",
                                     KIT_ONE "," KIT_PEER(2, ""), ""));
    origin_new(b, 1);
    origin_stop(b->origins[0]);
    origin_stop(b->origins[1]);
    struct deal *deals[6];
    deals[0] = kit_get(b);
    kit_do(b, deals[0]);
    kit_answered(deals[0], 503, "upstream_failed"); /* both are out now */
    for (unsigned i = 1; i < 6; i++) {
        deals[i] = i % 2 ? kit_get(b) : kit_put(b, 50000);
        user_ask(b, deals[i]);
    }
    bed_run_for(b, 500);
    origin_start(b->origins[1]);
    bed_run(b);
    assert_true(count(deals + 1, 5, 200, "") >= 4);
    bed_end(b);
}

static void test_hold_in_vain(void **state)
{
    (void)state;
    struct bed *b =
        single(5, KIT_S3(", queue: {size: 10, hold: 2s}, fail_timeout: 60s", KIT_TWO, ""));
    origin_stop(b->origins[0]);
    struct deal *d = kit_get(b);
    kit_do(b, d);
    d = kit_get(b);
    kit_do(b, d);
    kit_answered(d, 503, "no_live_upstream");
    assert_in_range(d->answered_ms - d->asked_ms, 2000, 2050);
    bed_end(b);
}

/* A new snapshot reaches those that wait. */
static void test_hold_for_members(void **state)
{
    (void)state;
    static const char *const none =
        "backends:\n  store: {service: {namespace: n, name: s, port: p}, "
        "probe: {type: none}, queue: {size: 5, hold: 10s}}\n"
        "routes:\n  \"*\": {backend: store}\n";
    static const char *const one =
        "backends:\n  store: {service: {namespace: n, name: s, port: p}, probe: {type: none}, "
        "queue: "
        "{size: 5, hold: 10s}, peers: [{address: \"10.0.0.1:9000\"}]}\nroutes:\n  \"*\": {backend: "
        "store}\n";
    struct bed *b = single(6, none);
    struct deal *d[2] = {kit_get(b), kit_put(b, 70000)};
    user_ask(b, d[0]);
    user_ask(b, d[1]);
    bed_run_for(b, 3000);
    assert_int_equal(d[0]->end, DEAL_OPEN);
    bed_publish(b, one);
    bed_run(b);
    kit_answered(d[0], 200, "");
    kit_answered(d[1], 200, "");
    assert_in_range(d[0]->answered_ms - d[0]->asked_ms, 3000, 3100);
    bed_end(b);
}

static void test_connection_cap(void **state)
{
    (void)state;
    struct bed *b = single(7, KIT("max_connections: 4", "s3", "", KIT_ONE, ""));
    struct deal *deals[20];
    for (unsigned i = 0; i < 20; i++) {
        deals[i] = kit_get(b);
        kit_plan(deals[i], (struct plan){.delay_ms = 100});
        user_ask(b, deals[i]);
    }
    bed_run(b);
    assert_int_equal(count(deals, 20, 200, ""), 20); /* late, but all */
    assert_true(bed_events(b, "accept paused") > 0);
    sim_fault(b->world, SIM_CALL_ACCEPT, EMFILE, 2, 5);
    for (unsigned i = 0; i < 20; i++) {
        deals[i] = kit_get(b);
        user_ask(b, deals[i]);
    }
    bed_run(b);
    assert_int_equal(count(deals, 20, 200, ""), 20);
    bed_end(b);
}

/* Slow readers hold all the memory there is. The others wait; no peer is blamed for that, and when
 * it comes back all goes on. */
static void test_buffer_memory(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct bed *b = single(8 + i, KIT("buffer_memory: 512KiB", "s3", "", KIT_TWO, ""));
        origin_new(b, 1);
        b->memory_short = b->impatient = true;
        struct user_script slow = {.path = sim_path_default(), .hold_ms = i % 2 ? 15000 : 100000};
        slow.path.send_bytes = slow.path.recv_bytes = 4096;
        struct deal *deals[MANY];
        for (unsigned k = 0; k < MANY; k++) {
            deals[k] = k % 4 == 3 && i / 2 ? kit_put(b, 100000) : kit_get(b);
            kit_plan(deals[k], (struct plan){.body_bytes = k < 32 ? 300000 : 20000,
                                             .body = k % 3 ? PLAN_LENGTH : PLAN_CHUNKED,
                                             .delay_ms = k < 32 ? 0 : 500});
            each(b, k < 32 ? &slow : NULL, deals[k]);
        }
        bed_run(b);
        assert_int_equal(bed_events(b, "temporarily disabled"), 0);
        struct deal *after = kit_get(b);
        kit_plan(after, (struct plan){.body_bytes = 300000});
        kit_do(b, after);
        kit_answered(after, 200, "");
        bed_end(b);
    }
}

/* Uploads into a silent backend do the same from the other side. */
static void test_buffer_memory_uploads(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct bed *b = single(9, KIT("buffer_memory: 256KiB", "s3", ", max_fails: 0", KIT_ONE,
                                      ", send_timeout: 30s, deadline: off"));
        b->memory_short = true;
        struct deal *deals[MANY];
        for (unsigned k = 0; k < MANY; k++) {
            deals[k] = kit_put(b, 200000);
            deals[k]->body = i ? DEAL_CHUNKED : DEAL_LENGTH;
            kit_plan(deals[k], (struct plan){.fault = k < 16 ? PLAN_HOLD_REQUEST : PLAN_SOUND,
                                             .fault_at = 1000});
            each(b, NULL, deals[k]);
        }
        bed_run(b);
        assert_true(count(deals, MANY, 200, "") > 0);
        struct deal *after = kit_put(b, 100000);
        kit_do(b, after);
        kit_answered(after, 200, "");
        bed_end(b);
    }
}

/* Requests that are kept for a second try take the memory that their own answers need: one after
 * the other gives up its second try, and none waits for what will not come. */
static void test_buffer_memory_kept(void **state)
{
    (void)state;
    for (unsigned seed = 437; seed < 597; seed++) {
        struct bed *b = single(seed, KIT("buffer_memory: 256KiB", "s3", "", KIT_ONE, ""));
        b->memory_short = true;
        struct fl_rng *rng = sim_rng(b->world);
        struct deal *deals[9];
        unsigned n = 3 + seed % 7;
        for (unsigned k = 0; k < n; k++) {
            struct user_script pieces = {.send_bytes = 1000 + fl_rng_below(rng, 40000),
                                         .send_ms = fl_rng_below(rng, 3)};
            deals[k] = kit_put(b, 40000 + fl_rng_below(rng, 25000));
            deals[k]->body = seed % 4 ? DEAL_CHUNKED : DEAL_LENGTH;
            deals[k]->chunk_bytes = 10000;
            kit_plan(deals[k], (struct plan){.delay_ms = 100});
            user_dial(b, &pieces, &deals[k], 1);
        }
        bed_run_for(b, 2000);
        assert_int_equal(count(deals, n, 200, ""), n);
        bed_run(b);
        bed_end(b);
    }
}

/* The longest line of a trailer, cut anywhere, where the smallest buffers are all there is. */
static void test_buffer_memory_trailer(void **state)
{
    (void)state;
    char line[FL_BODY_TRAILER_LINE_MAX + 64], text[sizeof line + 200];
    for (unsigned threads = 1; threads <= 4; threads++) {
        for (unsigned n = FL_BODY_TRAILER_LINE_MAX - 40; n <= FL_BODY_TRAILER_LINE_MAX + 40; n++) {
            struct bed *b =
                bed_new(n, threads, KIT("buffer_memory: 256KiB", "s3", "", KIT_ONE, ""));
            origin_new(b, 0);
            struct user_script pieces = {.send_bytes = n % 3 ? 3900 + n % 300 : 0, .send_ms = 1};
            memset(line, 't', n);
            snprintf(text, sizeof text,
                     "PUT /bucket/key HTTP/1.1\r\nHost: s3.internal\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: %.*s\r\n\r\n",
                     (int)(n - strlen("X-T: \r\n")), line);
            struct deal *d = kit_put(b, 5);
            d->raw = text;
            user_dial(b, &pieces, &d, 1);
            bed_run_for(b, 500);
            bool fits = n <= FL_BODY_TRAILER_LINE_MAX;
            kit_answered(d, fits ? 200 : 431, fits ? "" : "header_too_large");
            bed_run(b);
            bed_end(b);
        }
    }
}

/* Everything that takes a buffer, at once, and far too much of it: long heads both ways, hints,
 * trailers, chunked bodies, pipelines. What is answered is right; nobody is blamed; it passes. */
static void test_buffer_memory_mixed(void **state)
{
    (void)state;
    char *pad = malloc(40000);
    memcpy(pad, "x-pad: ", 7);
    memset(pad + 7, 'q', 30000);
    memcpy(pad + 30007, "\r\n", 3);
    for (unsigned i = 0; i < 12; i++) {
        struct bed *b =
            bed_new(20 + i, 1 + i % 2, KIT("buffer_memory: 256KiB", "s3", "", KIT_TWO, ""));
        origin_new(b, 0);
        origin_new(b, 1);
        b->memory_short = b->impatient = true;
        sim_set_shuffle(b->world, i % 2);
        for (unsigned k = 0; k < 60; k++) {
            struct user_script s = {.path = sim_path_default(), .pipelines = k % 5 == 0};
            s.hold_ms = k % 2 ? 3000 : 0;
            s.path.send_bytes = s.path.recv_bytes = k % 2 ? 4096 : 65536;
            struct deal *deals[3];
            for (unsigned j = 0; j < 3; j++) {
                unsigned n = k + j + i;
                deals[j] = n % 3 ? kit_get(b) : kit_put(b, 3000 * (n % 30));
                deals[j]->body = n % 6 == 0 ? DEAL_CHUNKED : deals[j]->body;
                deals[j]->trailers = true;
                deals[j]->fields = n % 7 == 0 ? pad : NULL;
                kit_plan(deals[j], (struct plan){.body = (enum plan_body)(n % 2),
                                                 .body_bytes = 4000 * (n % 40),
                                                 .head_bytes = n % 8 == 0 ? 30000 : 0,
                                                 .http10 = n % 2 == 0 && n % 16 == 0,
                                                 .hints = n % 9 == 0,
                                                 .hint_bytes = 5000,
                                                 .trailers = true});
            }
            user_dial(b, &s, deals, 3);
            bed_run_for(b, k % 4);
        }
        bed_run(b);
        assert_int_equal(bed_events(b, "temporarily disabled"), 0);
        struct deal *after = kit_get(b);
        kit_plan(after, (struct plan){.body_bytes = 100000});
        kit_do(b, after);
        kit_answered(after, 200, "");
        bed_end(b);
    }
    free(pad);
}

/* Without room for a second try a body still goes through, once. */
static void test_replay_memory(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct bed *b = single(10, KIT("replay_memory: 100KiB", "s3", "", KIT_TWO, ""));
        origin_new(b, 1);
        struct deal *deals[20];
        for (unsigned k = 0; k < 20; k++) {
            deals[k] = kit_put(b, 30000);
            deals[k]->body = i ? DEAL_CHUNKED : DEAL_LENGTH;
            kit_plan(deals[k], (struct plan){.delay_ms = 300});
            user_ask(b, deals[k]);
        }
        bed_run(b);
        assert_int_equal(count(deals, 20, 200, ""), 20);
        bed_end(b);
    }
}

/* A body is kept until the answer begins, and no longer. */
static void test_replay_until_answered(void **state)
{
    (void)state;
    struct bed *b = single(13, KIT_S3("", KIT_ONE, ""));
    struct fl_engine_gauges g;
    struct deal *d = kit_put(b, 50000);
    kit_plan(d, (struct plan){
                    .delay_ms = 1000, .body_bytes = 3000, .piece_bytes = 1000, .piece_ms = 1000});
    user_ask(b, d);
    bed_run_for(b, 500);
    fl_engine_gauges(b->engine, &g);
    assert_int_equal(g.replay_bytes, 50000);
    bed_run_for(b, 1000);
    fl_engine_gauges(b->engine, &g);
    assert_int_equal(g.replay_bytes, 0);
    bed_run(b);
    kit_answered(d, 200, "");
    bed_end(b);
}

/* A fast client and a hung origin: little of the body is taken in. */
static void test_hung_upload(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct bed *b = single(14, KIT_S3("", KIT_ONE, ""));
        struct fl_engine_gauges g;
        struct deal *d = kit_put(b, 3000000);
        d->body = i ? DEAL_CHUNKED : DEAL_LENGTH;
        kit_plan(d, (struct plan){.fault = PLAN_HOLD_REQUEST, .fault_at = 1000});
        user_ask(b, d);
        bed_run_for(b, 5000);
        fl_engine_gauges(b->engine, &g);
        assert_in_range(g.buffer_bytes, 4096, 256 * 1024);
        bed_run(b);
        kit_answered(d, 503, "upstream_timeout");
        bed_end(b);
    }
}

/* SIGTERM: idle clients are told at once, requests under way end, and are the last on their
 * connection. */
static void test_drain(void **state)
{
    (void)state;
    struct bed *b = single(11, KIT_S3("", KIT_ONE, ""));
    struct user_script stays = {.leaves = USER_LINGERS};
    struct deal *d[3] = {kit_get(b), kit_get(b), kit_get(b)};
    struct user *idle = each(b, &stays, d[0]);
    kit_plan(d[1], (struct plan){.delay_ms = 2000, .body_bytes = 10});
    bed_run_for(b, 1000);
    each(b, &stays, d[1]);
    bed_run_for(b, 500);
    assert_int_equal(idle->closed_ms, 0);
    fl_engine_drain(b->engine);
    bed_run_for(b, 100);
    assert_false(fl_engine_drained(b->engine, bed_now_ms(b)));
    bed_run_for(b, 1000);
    assert_true(idle->closed_ms > 0);
    user_ask(b, d[2]); /* still served */
    bed_run(b);
    kit_answered(d[1], 200, "");
    assert_true(d[1]->answer_closes);
    kit_answered(d[2], 200, "");
    assert_true(d[2]->answer_closes);
    bed_run_for(b, 1500);
    assert_true(fl_engine_drained(b->engine, bed_now_ms(b)));
    bed_end(b);
}

/* The end of the process in the middle of everything: nothing is left open. */
static void test_cut(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        struct bed *b =
            single(12 + i, KIT_S3(", max_conns: 6, queue: {size: 5, timeout: 5s}", KIT_TWO, ""));
        origin_new(b, 1);
        struct user_script slow = {
            .path = sim_path_default(), .read_ms = 100, .send_bytes = 5000, .send_ms = 30};
        slow.path.send_bytes = slow.path.recv_bytes = 4096;
        struct deal *deals[20];
        for (unsigned k = 0; k < 20; k++) {
            deals[k] = k % 2 ? kit_put(b, 60000) : kit_get(b);
            deals[k]->expect = k % 4 == 1 ? DEAL_WAITS : DEAL_NO_EXPECT;
            kit_plan(deals[k], (struct plan){.body_bytes = 60000,
                                             .delay_ms = k * 20,
                                             .hundred_ms = 400,
                                             .hundred = PLAN_HUNDRED_LATE});
            each(b, k % 3 ? &slow : NULL, deals[k]);
        }
        bed_run_for(b, i * 60 + 5);
        bed_cut(b);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_max_conns),
    cmocka_unit_test(test_queue),
    cmocka_unit_test(test_queue_left),
    cmocka_unit_test(test_hold),
    cmocka_unit_test(test_hold_in_vain),
    cmocka_unit_test(test_hold_for_members),
    cmocka_unit_test(test_connection_cap),
    cmocka_unit_test(test_buffer_memory),
    cmocka_unit_test(test_buffer_memory_uploads),
    cmocka_unit_test(test_buffer_memory_kept),
    cmocka_unit_test(test_buffer_memory_trailer),
    cmocka_unit_test(test_buffer_memory_mixed),
    cmocka_unit_test(test_replay_memory),
    cmocka_unit_test(test_replay_until_answered),
    cmocka_unit_test(test_hung_upload),
    cmocka_unit_test(test_drain),
    cmocka_unit_test(test_cut),
};
KIT_MAIN(tests)
