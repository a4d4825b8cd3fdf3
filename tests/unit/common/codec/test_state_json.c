#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/codec/answer_json.h"
#include "common/codec/state_json.h"
#include "common/model/outcome.h"
#include "tests/unit/common/codec/findings_kit.h"

#define WHOLE                                                                                      \
    "{\"epoch\":7,\"seq\":9,\"routes\":{\"bad\":{\"invalid\":\"no such "                           \
    "key\"},\"releases\":{\"backend\":\"minio\","                                                  \
    "\"next_upstream\":[\"error\",\"http_503\"],\"deadline\":\"off\",\"replay_body\":\"1MiB\","    \
    "\"paths\":{"                                                                                  \
    "\"/a/\":{\"next_upstream_tries\":1},\"= /b\":{\"backend\":\"web\"}}}},"                       \
    "\"backends\":{\"minio\":{\"max_fails\":3,\"tls\":{\"server_name\":\"m\"},\"probe\":{"         \
    "\"interval\":\"5s\"},"                                                                        \
    "\"verdict_policy\":\"trust\",\"peers\":[{\"address\":\"10.0.0.1:9000\",\"weight\":0,"         \
    "\"tier\":\"last_resort\","                                                                    \
    "\"zone\":\"a\"},{\"address\":\"10.0.0.2:9000\",\"backup\":true}],\"verdicts\":{\"10.0.0.1:"   \
    "9000\":{"                                                                                     \
    "\"status\":\"unreachable\",\"code\":\"connect_refused\",\"cause\":\"connect to "              \
    "10.0.0.1:9000 failed\","                                                                      \
    "\"step\":\"connect\",\"age_ms\":1200}}},\"web\":{\"peers\":[]}},\"keys\":[\"PEM\\n1\"]}"

static void every_part_is_decoded(void **state)
{
    (void)state;
    struct fl_state *s = fl_state_json_decode(FL_SPAN(WHOLE), &f);
    assert_string_equal(findings(), "");
    assert_non_null(s);
    assert_int_equal(s->epoch, 7);
    assert_int_equal(s->seq, 9);
    assert_int_equal(s->route_count, 2);
    assert_string_equal(s->routes[0].invalid, "no such key");
    const struct fl_route_conf *r = &s->routes[1];
    assert_int_equal(r->policy.next_upstream, FL_ON_ERROR | FL_ON_HTTP_503);
    assert_int_equal(r->owner, FL_OWNER_CONTROLLER);
    assert_int_equal(r->path_count, 2);
    const struct fl_state_backend *m = &s->backends[0], *w = &s->backends[1];
    assert_true(m->owns && m->has_peers);
    assert_int_equal(m->conf.max_fails, 3);
    assert_int_equal(m->conf.verdicts, FL_VERDICTS_TRUST);
    assert_true(m->conf.tls.on);
    assert_int_equal(m->conf.peers[0].weight, 0);
    assert_int_equal(m->conf.peers[0].tier, FL_TIER_LAST_RESORT);
    assert_string_equal(m->conf.peers[0].zone, "a");
    assert_int_equal(m->conf.peers[1].tier, FL_TIER_BACKUP);
    assert_int_equal(m->verdict_count, 1);
    assert_string_equal(m->verdicts[0].address, "10.0.0.1:9000");
    assert_int_equal(m->verdicts[0].status, FL_VERDICT_UNREACHABLE);
    assert_string_equal(m->verdicts[0].cause.code, "connect_refused");
    assert_string_equal(m->verdicts[0].step, "connect");
    assert_int_equal(m->verdicts[0].age_ms, 1200);
    assert_true(!w->owns && w->has_peers && w->conf.peer_count == 0);
    assert_int_equal(s->keys.count, 1);
    assert_string_equal(s->keys.items[0], "PEM\n1");
    fl_state_free(s);
}

/* Encode and decode again: the same text, so the same hash on both sides. */
static void the_text_is_canonical(void **state)
{
    size_t len;
    (void)state;
    struct fl_state *s = fl_state_json_decode(FL_SPAN(WHOLE), &f);
    assert_non_null(s);
    char *once = fl_state_json_text(s, &len);
    assert_non_null(once);
    struct fl_state *again = fl_state_json_decode(fl_span_of(once), &f);
    assert_string_equal(findings(), "");
    assert_non_null(again);
    char *twice = fl_state_json_text(again, &len);
    assert_string_equal(once, twice);
    assert_string_equal(once, WHOLE);
    assert_true(s->hash == again->hash && s->hash == fl_state_json_hash(s) && s->hash != 0);
    free(once);
    free(twice);
    fl_state_free(s);
    fl_state_free(again);
}

static uint64_t hash_of(const char *text)
{
    struct fl_state *s = fl_state_json_decode(fl_span_of(text), &f);
    assert_non_null(s);
    uint64_t hash = s->hash;
    fl_state_free(s);
    return hash;
}

static void the_hash_is_of_the_set_alone(void **state)
{
    (void)state;
    uint64_t a = hash_of("{\"epoch\":1,\"seq\":1,\"backends\":{\"a\":{\"peers\":[{\"address\":\"h:"
                         "1\"}]},\"b\":{\"peers\":[]}}}");
    uint64_t b =
        hash_of("{\"seq\":5,\"epoch\":2,\"routes\":{},\"backends\":{\"b\":{\"peers\":[]},\"a\":{"
                "\"verdicts\":{\"h:1\":"
                "{\"status\":\"healthy\"}},\"peers\":[{\"address\":\"h:1\"}]}},\"keys\":[\"x\"]}");
    uint64_t c = hash_of("{\"epoch\":1,\"seq\":1,\"backends\":{\"a\":{\"peers\":[{\"address\":\"h:"
                         "2\"}]},\"b\":{\"peers\":[]}}}");
    assert_true(a == b);
    assert_true(a != c);
}

static void faults_name_their_path(void **state)
{
    static const char *const rows[][2] = {
        {"[]", "f: error: the state is not an object\n"},
        {"{\"epoch\":\"1\",\"seq\":1}", "f: error: epoch: is not a whole number of 0 or more\n"},
        {"{\"epoch\":1}", "f: error: seq: is missing\n"},
        {"{\"epoch\":1,\"seq\":-1}", "f: error: seq: is not a whole number of 0 or more\n"},
        {"{\"epoch\":1,\"seq\":99999999999999999999}",
         "f: error: seq: is not a whole number of 0 or more\n"},
        {"{\"epoch\":1,\"seq\":1,\"routes\":[]}", "f: error: routes: is not an object\n"},
        {"{\"epoch\":1,\"seq\":1,\"backends\":{\"m\":[]}}",
         "f: error: backends.m: is not a mapping of keys\n"},
        {"{\"epoch\":1,\"seq\":1,\"backends\":{\"minio\":{\"peers\":[{\"address\":\"a:1\"},{"
         "\"address\":\"b:1\",\"weight\":101}]}}}",
         "f: error: backends.minio.peers[1].weight: 101 is out of range (0, or 1 to 100)\n"},
        {"{\"epoch\":1,\"seq\":1,\"backends\":{\"m\":{\"peers\":[{\"weight\":1}]}}}",
         "f: error: backends.m.peers[0]: address is missing\n"},
        {"{\"epoch\":1,\"seq\":1,\"backends\":{\"m\":{\"verdicts\":{\"a:1\":{\"status\":\"bad\"}}}}"
         "}",
         "f: error: backends.m.verdicts.\"a:1\".status: is not one of healthy, unreachable, "
         "auth-rejected, erroring, unknown\n"},
        {"{\"epoch\":1,\"seq\":1,\"backends\":{\"m\":{\"verdicts\":{\"a:1\":{\"status\":"
         "\"healthy\",\"age_ms\":\"1\"}}}}}",
         "f: error: backends.m.verdicts.\"a:1\".age_ms: is not a whole number of 0 or more\n"},
        {"{\"epoch\":1,\"seq\":1,\"backends\":{\"a b\":{}}}",
         "f: error: backends.\"a b\": is not a name for a backend (letters, digits, '.', '_', "
         "'-', ':'; a letter or digit first)\n"},
        {"{\"epoch\":1,\"seq\":1,\"routes\":{\"r\":{\"backend\":\"m\",\"deadline\":30}}}",
         "f: error: routes.r.deadline: \"30\" is not a duration (write 10s, 250ms, 5m, or "
         "off)\n"},
        {"{\"epoch\":1,\"seq\":1,\"keys\":[]}",
         "f: error: keys: is empty; that would lock every controller out\n"},
        {"{\"epoch\":1,\"seq\":1,\"keys\":[\"a\",1]}", "f: error: keys[1]: is not a PEM text\n"},
        {"{\"epoch\":1,\"seq\":1",
         "f: error: this is not valid JSON: it ends too early at byte 18\n"},
    };
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        assert_null(fl_state_json_decode(fl_span_of(rows[i][0]), &f));
        assert_string_equal(findings(), rows[i][1]);
        end(NULL);
        begin(NULL);
    }
}

/* An old sidecar under a younger controller keeps its members. */
static void unknown_keys_only_warn(void **state)
{
    (void)state;
    struct fl_state *s =
        fl_state_json_decode(FL_SPAN("{\"epoch\":1,\"seq\":1,\"new\":1,\"backends\":{\"m\":{"
                                     "\"peers\":[{\"address\":\"a:1\",\"colour\":\"red\"}]}},"
                                     "\"routes\":{\"r\":{\"backend\":\"m\",\"shiny\":{}}}}"),
                             &f);
    assert_non_null(s);
    assert_string_equal(findings(),
                        "f: warning: unknown key \"new\" at the top level (ignored)\n"
                        "f: warning: unknown key \"shiny\" in routes.r (ignored)\n"
                        "f: warning: unknown key \"colour\" in backends.m.peers[0] (ignored)\n");
    fl_state_free(s);
}

static void an_owned_backend_with_defaults_says_so(void **state)
{
    size_t len;
    (void)state;
    struct fl_state *s = fl_state_new();
    struct fl_state_backend b = {
        .name = "m", .has_peers = true, .owns = true, .conf = {.name = "m"}};
    assert_non_null(s);
    s->backends = &b;
    s->backend_count = 1;
    char *text = fl_state_json_text(s, &len);
    assert_string_equal(text, "{\"epoch\":0,\"seq\":0,\"routes\":{},\"backends\":{\"m\":{"
                              "\"protocol\":\"s3\",\"peers\":[]}}}");
    free(text);
    s->backend_count = 0;
    fl_state_free(s);
}

static void answers_go_there_and_back(void **state)
{
    struct fl_observation o[2] = {{.backend = "m",
                                   .peer = "a:1",
                                   .since_unix_ms = 1700000000123,
                                   .failures = 3,
                                   .requests = 5},
                                  {.backend = "\"", .peer = "b:1"}};
    struct fl_push_answer a = {7, 9, 0xabcdef, o, 2}, back;
    struct fl_arena arena;
    char text[1024];
    struct fl_fmt out = fl_fmt_of(text, sizeof(text));
    (void)state;
    fl_arena_init(&arena, (size_t)1 << 20);
    fl_cause_set(&o[0].cause, "connect_refused", "refused");
    fl_cause_set(&o[1].cause, "healthy", "%s", "");
    fl_answer_json_encode(&a, &out);
    assert_string_equal(text, "{\"epoch\":7,\"seq\":9,\"hash\":\"0000000000abcdef\","
                              "\"observations\":[{\"backend\":\"m\",\"peer\":\"a:1\","
                              "\"code\":\"connect_refused\",\"cause\":\"refused\",\"since\":"
                              "1700000000123,\"failures\":3,\"requests\":5},"
                              "{\"backend\":\"\\\"\",\"peer\":\"b:1\",\"code\":\"healthy\","
                              "\"cause\":\"\",\"since\":0,\"failures\":0,\"requests\":0}]}");
    assert_true(fl_answer_json_decode(fl_span_of(text), &arena, &back, &f));
    assert_int_equal(back.epoch, 7);
    assert_int_equal(back.seq, 9);
    assert_true(back.hash == 0xabcdef);
    assert_int_equal(back.count, 2);
    assert_string_equal(back.observations[0].cause.text, "refused");
    assert_int_equal(back.observations[0].since_unix_ms, 1700000000123);
    assert_int_equal(back.observations[0].failures, 3);
    assert_string_equal(back.observations[1].backend, "\"");
    assert_true(fl_answer_json_decode(FL_SPAN("{\"epoch\":3,\"seq\":4,\"title\":\"x\"}"), &arena,
                                      &back, &f));
    assert_int_equal(back.epoch, 3);
    assert_int_equal(back.count, 0);
    static const char *const bad[] = {"{}",
                                      "[]",
                                      "{\"epoch\":1,\"seq\":1,\"hash\":\"12\"}",
                                      "{\"epoch\":1,\"seq\":1,\"hash\":12}",
                                      "{\"epoch\":1,\"seq\":1,\"observations\":{}}",
                                      "{\"epoch\":1,\"seq\":1,\"observations\":[{}]}",
                                      "{\"epoch\":1,\"seq\":1,\"hash\":\"00000000000000zz\"}",
                                      "{\"epoch\":1,\"seq\":1,\"observations\":[1]}"};
    for (size_t i = 0; i < FL_COUNTOF(bad); i++) {
        unsigned before = f.errors;
        assert_false(fl_answer_json_decode(fl_span_of(bad[i]), &arena, &back, &f));
        assert_int_equal(f.errors, before + 1);
        assert_int_equal(back.epoch, 3); /* untouched */
    }
    fl_arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_part_is_decoded, begin, end),
        cmocka_unit_test_setup_teardown(the_text_is_canonical, begin, end),
        cmocka_unit_test_setup_teardown(the_hash_is_of_the_set_alone, begin, end),
        cmocka_unit_test_setup_teardown(faults_name_their_path, begin, end),
        cmocka_unit_test_setup_teardown(unknown_keys_only_warn, begin, end),
        cmocka_unit_test_setup_teardown(an_owned_backend_with_defaults_says_so, begin, end),
        cmocka_unit_test_setup_teardown(answers_go_there_and_back, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
