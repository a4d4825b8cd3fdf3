#include "controller/push/push_judge.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <string.h>

#define AT "10.0.0.7:8422"

static struct fl_push_judgement j;

static void judge(enum fl_push_fault fault, int status, int os_errno, const char *body)
{
    const struct fl_push_reply a = {fault, status, os_errno, fl_span_of(body), "its words"};
    fl_push_judge(&a, AT, 0xabcdef, &j);
}

static void an_accepted_push_is_good(void **state)
{
    (void)state;
    judge(FL_PUSH_FAULT_NONE, 200, 0,
          "{\"epoch\":1700000000,\"seq\":4,\"hash\":\"0000000000abcdef\",\"later\":1,"
          "\"observations\":[{\"backend\":\"minio\",\"peer\":\"10.0.0.1:9000\",\"code\":"
          "\"connect_refused\",\"cause\":\"it refused\",\"since\":17,\"failures\":3,"
          "\"requests\":9}]}");
    assert_int_equal(j.report.result, FL_PUSH_OK);
    assert_false(j.report.hash_differs);
    assert_string_equal(j.cause.code, "");
}

static void another_hash_is_seen_and_none_is_not_another(void **state)
{
    (void)state;
    judge(FL_PUSH_FAULT_NONE, 200, 0, "{\"epoch\":1,\"seq\":4,\"hash\":\"0000000000abcdee\"}");
    assert_int_equal(j.report.result, FL_PUSH_OK);
    assert_true(j.report.hash_differs);
    judge(FL_PUSH_FAULT_NONE, 200, 0, "{\"epoch\":1,\"seq\":4}");
    assert_int_equal(j.report.result, FL_PUSH_OK);
    assert_false(j.report.hash_differs);
}

static void a_200_of_somebody_else_is_not_success(void **state)
{
    (void)state;
    static const char *const bodies[] = {"",
                                         "<html>",
                                         "{}",
                                         "{\"epoch\":1}",
                                         "[1]",
                                         "{\"epoch\":-1,\"seq\":2}",
                                         "{\"epoch\":1,\"seq\":2,\"observations\":[1}"};
    for (size_t i = 0; i < FL_COUNTOF(bodies); i++) {
        judge(FL_PUSH_FAULT_NONE, 200, 0, bodies[i]);
        assert_int_equal(j.report.result, FL_PUSH_REFUSED);
        assert_string_equal(j.cause.code, "http_200");
        assert_non_null(strstr(j.hint, "status listener"));
    }
}

static void a_409_with_a_pair_is_a_conflict_and_one_without_is_another_pod(void **state)
{
    (void)state;
    judge(FL_PUSH_FAULT_NONE, 409, 0,
          "{\"token\":\"not_newer\",\"detail\":\"d\",\"epoch\":77,\"seq\":5}");
    assert_int_equal(j.report.result, FL_PUSH_CONFLICT);
    assert_int_equal(j.report.epoch, 77);
    assert_int_equal(j.report.seq, 5);
    assert_non_null(strstr(j.hint, "another controller"));
    judge(FL_PUSH_FAULT_NONE, 409, 0, "{\"token\":\"other_pod\",\"detail\":\"names another pod\"}");
    assert_int_equal(j.report.result, FL_PUSH_REFUSED);
    assert_string_equal(j.cause.text, AT " answered 409 other_pod: names another pod");
    assert_non_null(strstr(j.hint, "another id"));
}

static void a_refusal_is_told_in_the_sidecars_own_words(void **state)
{
    (void)state;
    judge(FL_PUSH_FAULT_NONE, 401, 0, "{\"token\":\"unknown_key\",\"detail\":\"no such keyid\"}");
    assert_int_equal(j.report.result, FL_PUSH_REFUSED);
    assert_string_equal(j.cause.code, "http_401");
    assert_string_equal(j.cause.text, AT " answered 401 unknown_key: no such keyid");
    assert_non_null(strstr(j.hint, "public_key_file"));
    judge(FL_PUSH_FAULT_NONE, 502, 0, "<html>Bad Gateway</html>");
    assert_string_equal(j.cause.text, AT " answered 502");
    assert_string_equal(j.hint, "");
}

static void every_fault_has_a_code_of_its_own(void **state)
{
    (void)state;
    static const struct {
        enum fl_push_fault fault;
        int os_errno;
        const char *code, *words, *hint;
    } want[] = {
        {FL_PUSH_FAULT_RESOLVE, 0, "dns", "no address", "DNS"},
        {FL_PUSH_FAULT_CONNECT, ECONNREFUSED, "connect_refused", "(Connection refused)",
         "sidecar run"},
        {FL_PUSH_FAULT_CONNECT, EHOSTUNREACH, "host_unreachable", "(No route to host)",
         "sidecar run"},
        {FL_PUSH_FAULT_CONNECT, 0, "connect_failed", "failed", "sidecar run"},
        {FL_PUSH_FAULT_CONNECT_TIMEOUT, 0, "connect_timeout", "timed out", "NetworkPolicy"},
        {FL_PUSH_FAULT_TIMEOUT, 0, "read_timeout", "does not answer", "mesh"},
        {FL_PUSH_FAULT_ENDED, 0, "premature_close", "closed", "mesh"},
        {FL_PUSH_FAULT_NOT_HTTP, 0, "invalid_header", "HTTP/1.1", "status listener"},
        {FL_PUSH_FAULT_TOO_LONG, 0, "too_long", "too long", "status listener"},
        {FL_PUSH_FAULT_OTHER, 0, "push_failed", "its words", ""},
    };
    for (size_t i = 0; i < FL_COUNTOF(want); i++) {
        judge(want[i].fault, 0, want[i].os_errno, "");
        assert_int_equal(j.report.result, FL_PUSH_FAILED);
        assert_string_equal(j.cause.code, want[i].code);
        assert_non_null(strstr(j.cause.text, want[i].words));
        assert_non_null(strstr(j.cause.text, AT));
        assert_non_null(strstr(j.hint, want[i].hint));
    }
}

static void an_answer_cut_short_is_no_success_whatever_its_status(void **state)
{
    (void)state;
    judge(FL_PUSH_FAULT_ENDED, 200, 0, "{\"epoch\":1,\"seq\":4,\"hash\":\"0000000000abcdef\"}");
    assert_int_equal(j.report.result, FL_PUSH_FAILED);
    judge(FL_PUSH_FAULT_ENDED, 409, 0, "{\"epoch\":77,\"seq\":5}");
    assert_int_equal(j.report.result, FL_PUSH_FAILED);
}

static void a_200_that_is_only_too_long_was_taken_all_the_same(void **state)
{
    (void)state;
    judge(FL_PUSH_FAULT_TOO_LONG, 200, 0, "{\"epoch\":1,\"seq\":4,\"hash\":\"00");
    assert_int_equal(j.report.result, FL_PUSH_OK);
    assert_false(j.report.hash_differs);
    judge(FL_PUSH_FAULT_TOO_LONG, 500, 0, "");
    assert_int_equal(j.report.result, FL_PUSH_FAILED);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_accepted_push_is_good),
        TEST(another_hash_is_seen_and_none_is_not_another),
        TEST(a_200_of_somebody_else_is_not_success),
        TEST(a_409_with_a_pair_is_a_conflict_and_one_without_is_another_pod),
        TEST(a_refusal_is_told_in_the_sidecars_own_words),
        TEST(every_fault_has_a_code_of_its_own),
        TEST(an_answer_cut_short_is_no_success_whatever_its_status),
        TEST(a_200_that_is_only_too_long_was_taken_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
