#include "controller/push/push_answer.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <string.h>

#include "common/base/rng.h"

static struct fl_arena arena, other;
static struct fl_findings findings;

static int set_up(void **state)
{
    (void)state;
    fl_arena_init(&arena, (size_t)1 << 20);
    fl_arena_init(&other, (size_t)1 << 20);
    fl_findings_init(&findings, "");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fl_arena_done(&arena);
    fl_arena_done(&other);
    fl_findings_done(&findings);
    return 0;
}

static void pair_hash_and_observations_are_read(void **state)
{
    (void)state;
    struct fl_push_answer a;
    struct fl_span body = FL_SPAN(
        "{\"epoch\":1700000000,\"seq\":4,\"hash\":\"0000000000abcdef\",\"later\":{\"a\":[1]},"
        "\"observations\":[{\"backend\":\"minio\",\"peer\":\"10.0.0.1:9000\",\"code\":"
        "\"connect_refused\",\"cause\":\"it \\\"refused\\\"\",\"since\":17,\"failures\":3,"
        "\"requests\":9,\"more\":null}]}");
    assert_true(fl_push_answer_read(body, &a));
    assert_int_equal(a.epoch, 1700000000);
    assert_int_equal(a.seq, 4);
    assert_int_equal(a.hash, 0xabcdef);
    assert_int_equal(a.count, 0); /* made for who looks */
    assert_true(fl_push_answer_read_all(body, &arena, &a));
    assert_int_equal(a.seq, 4);
    assert_int_equal(a.count, 1);
    assert_string_equal(a.observations[0].backend, "minio");
    assert_string_equal(a.observations[0].peer, "10.0.0.1:9000");
    assert_string_equal(a.observations[0].cause.code, "connect_refused");
    assert_string_equal(a.observations[0].cause.text, "it \"refused\"");
    assert_int_equal(a.observations[0].since_unix_ms, 17);
    assert_int_equal(a.observations[0].failures, 3);
    assert_int_equal(a.observations[0].requests, 9);
}

static void what_is_no_answer_of_a_sidecar_is_refused_as_the_other_reader_does(void **state)
{
    (void)state;
#define ONE(x) "{\"epoch\":1,\"seq\":2,\"observations\":[" x "]}"
#define HEAD   "{\"backend\":\"b\",\"peer\":\"p\",\"code\":\"c\",\"cause\":\"\","
    static const char *const bodies[] = {
        "",
        "<html>",
        "{}",
        "[1]",
        "{\"epoch\":1}",
        "{\"epoch\":1,\"seq\":2",
        "{\"epoch\":1,\"seq\":2}x",
        "{\"epoch\":-1,\"seq\":2}",
        "{\"epoch\":\"1\",\"seq\":2}",
        "{\"epoch\":1.5,\"seq\":2}",
        "{\"epoch\":9223372036854775808,\"seq\":2}",
        "{\"epoch\":null,\"seq\":2}",
        "{\"epoch\":1,\"seq\":2,\"hash\":\"123\"}",
        "{\"epoch\":1,\"seq\":2,\"hash\":\"00000000000000zz\"}",
        /* from here on the pair is good, and only who looks at the observations sees the fault */
        "{\"epoch\":1,\"seq\":2,\"observations\":{}}",
        ONE("1"),
        ONE("{}"),
        ONE(HEAD "\"since\":1,\"failures\":1}"),
        ONE(HEAD "\"since\":1,\"failures\":-1,\"requests\":1}"),
        ONE(HEAD "\"since\":\"1\",\"failures\":1,\"requests\":1}"),
        ONE("{\"backend\":1,\"peer\":\"p\",\"code\":\"c\",\"cause\":\"\",\"since\":1,\"failures\":"
            "1,"
            "\"requests\":1}"),
    };
    for (size_t i = 0; i < FL_COUNTOF(bodies); i++) {
        struct fl_push_answer a, b;
        bool pair_is_good = strstr(bodies[i], "observations") != NULL;
        if (fl_push_answer_read(fl_span_of(bodies[i]), &a) != pair_is_good ||
            fl_push_answer_read_all(fl_span_of(bodies[i]), &arena, &a) ||
            fl_answer_json_decode(fl_span_of(bodies[i]), &other, &b, &findings)) {
            fail_msg("taken: %s", bodies[i]);
        }
    }
    struct fl_push_answer a;
    assert_true(fl_push_answer_read(FL_SPAN("{\"epoch\":1,\"seq\":2}"), &a));
    assert_int_equal(a.hash, 0);
}

static const char *pick(struct fl_rng *r, char *text, size_t cap)
{
    static const char *const bits[] = {"a", "minio", "\"", "\\", "\n", "10.0.0.1:9000", " "};
    struct fl_fmt f = fl_fmt_of(text, cap);
    for (uint32_t n = fl_rng_below(r, 5); n > 0; n--) {
        fl_fmt_text(&f, bits[fl_rng_below(r, FL_COUNTOF(bits))]);
    }
    return text;
}

/* What the sidecar's encoder writes is read as the general decoder reads it. */
static void both_readers_agree_on_what_the_encoder_writes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        static struct fl_observation o[20];
        static char texts[20][2][64], body[1 << 16];
        struct fl_rng r;
        (void)tear_down(NULL);
        (void)set_up(NULL);
        fl_rng_seed(&r, seed);
        struct fl_push_answer from = {(int64_t)fl_rng_below(&r, 1000), 5, fl_rng_next(&r), o,
                                      fl_rng_below(&r, 20)};
        struct fl_push_answer a, b;
        for (uint32_t i = 0; i < from.count; i++) {
            char cause[64];
            o[i] = (struct fl_observation){.backend = pick(&r, texts[i][0], 64),
                                           .peer = pick(&r, texts[i][1], 64),
                                           .since_unix_ms = fl_rng_below(&r, 1000000),
                                           .failures = fl_rng_below(&r, 10),
                                           .requests = fl_rng_next(&r) >> 2};
            fl_cause_set(&o[i].cause, "code", "%s", pick(&r, cause, sizeof(cause)));
        }
        struct fl_fmt f = fl_fmt_of(body, sizeof(body));
        fl_answer_json_encode(&from, &f);
        struct fl_span text = {body, f.len};
        assert_true(fl_push_answer_read(text, &a));
        assert_true(fl_push_answer_read_all(text, &arena, &a));
        assert_true(fl_answer_json_decode(text, &other, &b, &findings));
        assert_true(a.epoch == b.epoch && a.seq == b.seq && a.hash == b.hash);
        assert_int_equal(a.count, b.count);
        for (uint32_t i = 0; i < a.count; i++) {
            const struct fl_observation *x = &a.observations[i], *y = &b.observations[i];
            assert_string_equal(x->backend, y->backend);
            assert_string_equal(x->peer, y->peer);
            assert_string_equal(x->cause.code, y->cause.code);
            assert_string_equal(x->cause.text, y->cause.text);
            assert_true(x->since_unix_ms == y->since_unix_ms && x->failures == y->failures &&
                        x->requests == y->requests);
        }
        for (size_t cut = 0; cut < text.len; cut += 7) { /* a part of it is no answer */
            assert_false(fl_push_answer_read(fl_span_first(text, cut), &a));
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(pair_hash_and_observations_are_read),
        TEST(what_is_no_answer_of_a_sidecar_is_refused_as_the_other_reader_does),
        TEST(both_readers_agree_on_what_the_encoder_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
