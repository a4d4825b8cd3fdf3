/* Odd requests and odd answers: what is refused, rewritten, or has no place to go. */
#include "tests/sim/scenarios/kit.h"

static struct bed *single(uint64_t seed, const char *yaml)
{
    struct bed *b = bed_new(seed, 1, yaml);
    origin_new(b, 0);
    return b;
}

static struct deal *raw(struct bed *b, const char *text)
{
    struct deal *d = deal_new(b, "GET", "/");
    d->raw = text;
    kit_do(b, d);
    return d;
}

static void test_large(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after;
        size_t n;
        int status;
    } t[] = {
        {"GET /bucket/", " HTTP/1.1\r\nHost: a\r\n\r\n", 40000, 414},
        {"GET /bucket/", "", 70000, 414},
        {"GET /bucket/key HTTP/1.1\r\nHost: a\r\nx: ", "\r\n\r\n", 70000, 431},
        {"GET /bucket/key HTTP/1.1\r\nHost: a\r\nx: ", "\n\r\n", 100, 400},
        {"GET /bucket/key HTTP/1.1\r\nHost: a\r\nx: ", "\r\nConnection: close\r\n\r\n", 60000, 200},
        {"GET /bucket/key HTTP/1.1\r\nHost: a\r\nConnection: close\r\nx: ", "\r\n\r\n", 65000, 200},
    };
    for (unsigned i = 0; i < sizeof t / sizeof t[0]; i++) {
        struct bed *b = single(1, KIT_S3("", KIT_ONE, ""));
        struct blob text = {0};
        blob_text(&text, t[i].before);
        memset(blob_room(&text, t[i].n), 'k', t[i].n);
        text.len += t[i].n;
        blob_add(&text, t[i].after, strlen(t[i].after) + 1);
        struct deal *d = raw(b, text.bytes);
        assert_int_equal(d->end, DEAL_ANSWERED);
        assert_int_equal(d->status, t[i].status);
        bed_end(b);
        blob_done(&text);
    }
}

/* The backend's name for an HTTP/1.0 client without Host, leading zeros, Max-Forwards. */
static void test_rewritten(void **state)
{
    (void)state;
    static const char *const t[] = {
        "GET /bucket/key HTTP/1.0\r\n\r\n",
        "PUT /b/k HTTP/1.1\r\nHost: a\r\nContent-Length: 003\r\nConnection: close\r\n\r\nabc",
        "OPTIONS /bucket/key HTTP/1.1\r\nHost: a\r\nMax-Forwards: 5\r\nConnection: close\r\n\r\n",
        "OPTIONS /bucket/key HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\nConnection: close\r\n\r\n",
        "GET http://a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET http://a?list-type=2 HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n",
        "GET /bucket/key HTTP/1.3\r\nHost: a\r\nConnection: close\r\n\r\n",
    };
    struct bed *b = single(2, KIT_S3("", KIT_ONE, ""));
    for (unsigned i = 0; i < sizeof t / sizeof t[0]; i++) {
        struct deal *d = raw(b, t[i]);
        assert_int_equal(d->end, DEAL_ANSWERED);
        assert_int_equal(d->status, 200);
    }
    assert_int_equal(b->origins[0]->requests, 6);
    bed_end(b);
}

static void test_rewritten_answers(void **state)
{
    (void)state;
    static const char *const t[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 005\r\n\r\nhello",
        "HTTP/1.0 200\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX : y\r\n\r\n5;e\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nConnection: x-a\r\nx-a: 1\r\nContent-Length: 5\r\n\r\nhello",
    };
    struct bed *b = single(3, KIT_S3("", KIT_ONE, ""));
    for (unsigned i = 0; i < sizeof t / sizeof t[0]; i++) {
        struct deal *d = deal_new(b, "GET", "/bucket/key");
        static char asked[120];
        snprintf(asked, sizeof asked, "GET /b/k HTTP/1.1\r\nHost: a\r\nx-request-id: %s\r\n\r\n",
                 d->id);
        d->raw = asked;
        kit_plan(d, (struct plan){.raw = t[i], .close = true});
        kit_do(b, d);
        assert_int_equal(d->end, DEAL_ANSWERED);
        assert_int_equal(d->status, 200);
        assert_int_equal(d->got_bytes, 5);
    }
    bed_end(b);
}

static void test_no_way(void **state)
{
    (void)state;
    static const char yaml[] =
        "backends:\n"
        "  one: {probe: {type: none}, peers: [{address: \"10.0.0.1:9000\"}]}\n"
        "  two: {probe: {type: none}, peers: [{address: \"10.0.0.2:9000\"}]}\n"
        "  none: {probe: {type: none}, service: {namespace: n, name: s, port: p}}\n"
        "  web: {protocol: http, probe: {type: none}, peers: [{address: \"10.0.0.3:9000\"}]}\n"
        "routes:\n  a: {backend: one}\n  b: {backend: two}\n  c: {backend: none}\n  w: {backend: "
        "web}\n";
    static const struct {
        const char *target, *fields, *token;
        int status;
    } t[] = {
        {"/a/key", "x-amz-copy-source: /a/other\r\n", "", 200},
        {"/a/key", "x-amz-copy-source: b/other\r\n", "copy_across_backends", 400},
        {"/a/key", "x-amz-write-offset-bytes: 5\r\n", "", 200},
        {"/c/key", NULL, "no_membership", 503},
        {"/nowhere/key", NULL, "no_route", 421},
        {"/_/ready", NULL, "not_found", 404},
        {"/w/../../x", NULL, "bad_request", 400},
        {"/w/%zz", NULL, "bad_request", 400},
    };
    for (unsigned i = 0; i < sizeof t / sizeof t[0]; i++) {
        struct bed *b = single(4, yaml);
        struct deal *d = deal_new(b, "PUT", t[i].target);
        d->class = DEAL_N;
        d->fields = t[i].fields;
        d->body = DEAL_LENGTH;
        d->body_bytes = i % 2 ? 100000 : 10;
        kit_do(b, d);
        kit_answered(d, t[i].status, t[i].token);
        bed_end(b);
    }
}

/* expect_gate: the backend is asked before a large body goes, though the client did not. */
static void test_gate(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        struct bed *b = bed_new(5, 1, KIT_S3("", KIT_TWO, ", expect_gate: 16KiB"));
        origin_new(b, 0);
        origin_new(b, 1);
        b->gates = true;
        struct deal *d = i % 2 ? kit_put(b, 100000) : kit_post(b);
        d->body_bytes = i % 4 < 2 ? 30000 : 200000;
        d->body = i % 3 == 2 ? DEAL_CHUNKED : DEAL_LENGTH;
        kit_plan(d, (struct plan){.hundred = (enum plan_hundred)(i % 4),
                                  .hundred_ms = 300,
                                  .when = i >= 8 ? PLAN_AT_HEAD : PLAN_AT_END,
                                  .status = i >= 8 ? 417 : 200});
        kit_plan(d, (struct plan){.body_bytes = 6});
        kit_do(b, d);
        kit_answered(d, 200, "");
        assert_int_equal(d->hundreds, 0);
        bed_end(b);
    }
}

/* The gate asks the first origin, which dies; nothing of the body has gone, so the second gets it,
 * whatever the request does. */
static void test_gate_moves_on(void **state)
{
    (void)state;
    struct bed *b = bed_new(6, 1, KIT_S3("", KIT_TWO, ", expect_gate: 16KiB, replay_body: 0"));
    origin_new(b, 0);
    origin_new(b, 1);
    b->gates = true;
    struct deal *d = kit_post(b);
    d->body_bytes = 100000;
    kit_plan(d, (struct plan){.hundred = PLAN_HUNDRED_NEVER, .fault = PLAN_RST_REQUEST});
    kit_plan(d, (struct plan){.body_bytes = 6});
    kit_do(b, d);
    kit_answered(d, 200, "");
    assert_int_equal(d->visit_count, 2);
    bed_end(b);
}

/* Many at once that are answered at once: others have their turn in between. */
static void test_local_flood(void **state)
{
    (void)state;
    struct bed *b = single(7, KIT_S3("", KIT_ONE, ""));
    struct user_script flood = {.pipelines = true};
    struct deal *deals[200];
    for (unsigned i = 0; i < 200; i++) {
        deals[i] = deal_new(b, "OPTIONS", "*");
        deals[i]->raw = "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n";
    }
    user_dial(b, &flood, deals, 200);
    bed_run(b);
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(deals[i]->status, 200);
    }
    bed_end(b);
}

/* Nobody reads our own answer. */
static void test_dead_reader_of_ours(void **state)
{
    (void)state;
    struct bed *b = bed_new(8, 1, KIT_S3("", KIT_ONE, ""));
    struct user_script dead = {.path = sim_path_default(), .hold_ms = 200000};
    dead.path.send_bytes = dead.path.recv_bytes = 256;
    struct deal *d = kit_get(b);
    user_dial(b, &dead, &d, 1);
    bed_run(b);
    assert_int_equal(d->end, DEAL_DROPPED);
    assert_string_equal(d->log_class, "client_timeout");
    bed_end(b);
}

/* The origin answers without reading, and closes: an RST stops the sending, the answer is read. */
static void test_answer_before_the_reset(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct bed *b = single(9, KIT_S3("", KIT_ONE, ""));
        struct sim_path far = sim_path_default();
        far.latency_us = i * 700;
        origin_path(b->origins[0], &far);
        struct deal *d = kit_put(b, 1000000);
        d->body = i % 2 ? DEAL_CHUNKED : DEAL_LENGTH;
        kit_plan(d, (struct plan){
                        .when = PLAN_AT_HEAD, .status = 413, .body_bytes = 200, .close = true});
        kit_do(b, d);
        assert_int_equal(d->end, DEAL_ANSWERED);
        assert_true(d->status == 413 || strcmp(d->token, "upstream_failed") == 0);
        bed_end(b);
    }
}

/* Trailers at their limits. */
static void test_trailers(void **state)
{
    (void)state;
    struct bed *b = single(10, KIT_S3("", KIT_ONE, ""));
    struct blob text = {0};
    for (unsigned i = 0; i < 3; i++) {
        text.len = 0;
        blob_text(
            &text,
            "PUT /bucket/key HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: "
            "close\r\n\r\n3\r\nabc\r\n0\r\n");
        for (unsigned k = 0; k < 30; k++) {
            blob_printf(&text, "x-t%u: ", k);
            size_t n = i == 0 ? 100 : i == 1 ? 4000 : 5000;
            memset(blob_room(&text, n), 't', n);
            text.len += n;
            blob_text(&text, "\r\n");
        }
        blob_add(&text, "\r\n", 3);
        struct deal *d = raw(b, text.bytes);
        assert_int_equal(d->end, DEAL_ANSWERED);
        assert_int_equal(d->status, i == 0 ? 200 : 431);
    }
    blob_done(&text);
    bed_end(b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_large),
    cmocka_unit_test(test_rewritten),
    cmocka_unit_test(test_rewritten_answers),
    cmocka_unit_test(test_no_way),
    cmocka_unit_test(test_gate),
    cmocka_unit_test(test_gate_moves_on),
    cmocka_unit_test(test_local_flood),
    cmocka_unit_test(test_dead_reader_of_ours),
    cmocka_unit_test(test_answer_before_the_reset),
    cmocka_unit_test(test_trailers),
};
KIT_MAIN(tests)
