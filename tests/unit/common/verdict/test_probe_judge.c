#include "common/verdict/probe_judge.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/check.h"

#define REFUSED                                                                                    \
    {                                                                                              \
        FL_PROBE_STEP_CONNECT, FL_OUTCOME_CONNECT_FAILED, ECONNREFUSED, 0, false, "", "", 1        \
    }
#define SILENT                                                                                     \
    {                                                                                              \
        FL_PROBE_STEP_HEAD, FL_OUTCOME_READ_TIMEOUT, 0, 0, false, "", "", 1                        \
    }
#define CLOSED                                                                                     \
    {                                                                                              \
        FL_PROBE_STEP_HEAD, FL_OUTCOME_PREMATURE_CLOSE, 0, 0, false, "", "", 1                     \
    }
#define NO_FDS                                                                                     \
    {                                                                                              \
        FL_PROBE_STEP_CONNECT, FL_OUTCOME_LOCAL_RESOURCE, EMFILE, 0, false, "", "", 1              \
    }
#define CONNECTED                                                                                  \
    {                                                                                              \
        FL_PROBE_STEP_CONNECT, FL_OUTCOME_OK, 0, 0, false, "", "", 1                               \
    }
#define STATUS(s, code)                                                                            \
    {                                                                                              \
        FL_PROBE_STEP_STATUS, FL_OUTCOME_OK, 0, s, false, code, "", 1                              \
    }

struct row {
    enum fl_probe_type type;
    bool keyed;
    int attempts; /* that the plan asks for; -1: no verdict */
    struct fl_probe_result results[3];
    enum fl_verdict_status status;
    const char *code, *text, *note, *step;
};

#define UP           FL_VERDICT_HEALTHY
#define DOWN         FL_VERDICT_UNREACHABLE
#define AUTH         FL_VERDICT_AUTH_REJECTED
#define ERR          FL_VERDICT_ERRORING
#define REFUSED_TEXT "connect to 10.0.0.1:9000 failed (Connection refused)"
#define SILENT_TEXT  "10.0.0.1:9000 accepts connections but does not answer"

static void check(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct row *r = &rows[i];
        const struct fl_probe_facts facts = {.address = "10.0.0.1:9000",
                                             .expect = "200-399",
                                             .bucket = "releases",
                                             .key_id = r->keyed ? "AKIAIOSFODNN7EXAMPLE" : ""};
        struct fl_probe_plan plan;
        fl_probe_plan_begin(&plan, r->type, true);
        int attempts = 0;
        enum fl_probe_next next = FL_PROBE_SEND;
        while (next == FL_PROBE_SEND) {
            assert_true(attempts < 3);
            next = fl_probe_plan_take(&plan, &r->results[attempts++]);
        }
        if (r->attempts < 0) {
            assert_int_equal(next, FL_PROBE_NO_VERDICT);
            continue;
        }
        assert_int_equal(next, FL_PROBE_DECIDED);
        struct fl_verdict v;
        fl_probe_judge(&facts, &plan, &v);
        if (attempts != r->attempts || v.status != r->status ||
            strcmp(v.cause.code, r->code) != 0 || strcmp(v.cause.text, r->text) != 0 ||
            strcmp(v.note, r->note) != 0 || strcmp(v.step, r->step) != 0) {
            fail_msg("row %zu: %d attempts, %s, %s '%s', note '%s', step '%s'", i, attempts,
                     fl_verdict_status_name(v.status), v.cause.code, v.cause.text, v.note, v.step);
        }
    }
}

// clang-format off
static const struct row tcp[] = {
    {FL_PROBE_TCP, false, 1, {CONNECTED}, UP, "", "", "", ""},
    {FL_PROBE_TCP, false, 2, {REFUSED, CONNECTED}, UP, "", "", "", ""}, /* one failure is no verdict */
    {FL_PROBE_TCP, false, 2, {REFUSED, REFUSED}, DOWN, "connect_refused", REFUSED_TEXT, "", "connect"},
    {FL_PROBE_TCP, false, 2, {REFUSED, {FL_PROBE_STEP_CONNECT, FL_OUTCOME_CONNECT_TIMEOUT, 0, 0, false, "", "", 1}}, DOWN,
     "connect_timeout", "connect to 10.0.0.1:9000 timed out", "", "connect"},
    {FL_PROBE_TCP, false, 2, {REFUSED, {FL_PROBE_STEP_DNS, FL_OUTCOME_CONNECT_FAILED, 0, 0, false, "", "", 1}}, DOWN,
     "dns_failure", "the name of 10.0.0.1:9000 does not resolve", "", "dns"},
    {FL_PROBE_TCP, false, 2, {REFUSED, {FL_PROBE_STEP_TLS, FL_OUTCOME_TLS_FAILED, 0, 0, false, "", "certificate has expired", 1}}, DOWN,
     "tls_failure", "TLS handshake with 10.0.0.1:9000 failed (certificate has expired)", "", "tls"},
    {FL_PROBE_TCP, false, -1, {NO_FDS}, UP, "", "", "", ""},
    {FL_PROBE_TCP, false, -1, {REFUSED, NO_FDS}, UP, "", "", "", ""},
};

static const struct row http[] = {
    {FL_PROBE_HTTP, false, 1, {STATUS(200, "")}, UP, "", "", "", ""},
    {FL_PROBE_HTTP, false, 1, {STATUS(399, "")}, UP, "", "", "", ""},
    {FL_PROBE_HTTP, false, 1, {STATUS(503, "")}, ERR, "http_503", "10.0.0.1:9000 answered with status 503", "", "status"},
    {FL_PROBE_HTTP, false, 1, {STATUS(404, "")}, ERR, "http_404", "10.0.0.1:9000 answered with status 404", "", "status"},
    {FL_PROBE_HTTP, false, 2, {SILENT, SILENT}, DOWN, "no_answer", SILENT_TEXT, "", "head"},
    {FL_PROBE_HTTP, false, 2, {SILENT, STATUS(200, "")}, UP, "", "", "", ""},
    {FL_PROBE_HTTP, false, 2, {CLOSED, CLOSED}, DOWN, "premature_close", "10.0.0.1:9000 closed the connection without an answer", "", "head"},
    {FL_PROBE_HTTP, false, 2, {CLOSED, {FL_PROBE_STEP_HEAD, FL_OUTCOME_INVALID_HEADER, 0, 0, false, "", "", 1}}, DOWN,
     "invalid_header", "the answer of 10.0.0.1:9000 is not valid HTTP", "", "head"},
};

static const struct row keyed[] = {
    {FL_PROBE_S3, true, 1, {STATUS(200, "")}, UP, "", "", "", ""},
    {FL_PROBE_S3, true, 1, {STATUS(404, "")}, UP, "", "", "bucket releases is absent", ""},
    /* a scoped key: HEAD refused, ListBuckets refused, and nothing proves bad keys */
    {FL_PROBE_S3, true, 2, {STATUS(403, ""), STATUS(403, "AccessDenied")}, UP, "", "", "access denied; the probe cannot prove more", ""},
    {FL_PROBE_S3, true, 2, {STATUS(403, ""), STATUS(200, "")}, UP, "", "", "", ""},
    {FL_PROBE_S3, true, 2, {STATUS(401, ""), STATUS(403, "")}, UP, "", "", "access denied; the probe cannot prove more", ""},
    {FL_PROBE_S3, true, 2, {STATUS(403, ""), STATUS(403, "InvalidAccessKeyId")}, AUTH, "credentials_rejected",
     "credentials rejected (status=403 code=InvalidAccessKeyId key=AKIA****LE)", "", "status"},
    {FL_PROBE_S3, true, 1, {STATUS(403, "SignatureDoesNotMatch")}, AUTH, "credentials_rejected",
     "credentials rejected (status=403 code=SignatureDoesNotMatch key=AKIA****LE)", "", "status"},
    {FL_PROBE_S3, true, 2, {STATUS(400, ""), STATUS(400, "ExpiredToken")}, AUTH, "credentials_rejected",
     "credentials rejected (status=400 code=ExpiredToken key=AKIA****LE)", "", "status"},
    {FL_PROBE_S3, true, 2, {STATUS(403, ""), {FL_PROBE_STEP_STATUS, FL_OUTCOME_OK, 0, 403, false, "RequestTimeTooSkewed", "they differ by 901 s", 1}}, ERR,
     "clock_skew", "the clock differs by more than the store allows", "they differ by 901 s", "status"},
    {FL_PROBE_S3, true, 1, {{FL_PROBE_STEP_STATUS, FL_OUTCOME_OK, 0, 301, false, "", "eu-west-1", 1}}, ERR,
     "wrong_region", "wrong region or endpoint (status=301 expected=eu-west-1)", "", "status"},
    {FL_PROBE_S3, true, 2, {STATUS(400, ""), STATUS(400, "AuthorizationHeaderMalformed")}, ERR,
     "wrong_region", "wrong region or endpoint (status=400)", "", "status"},
    {FL_PROBE_S3, true, 1, {STATUS(503, "SlowDown")}, ERR, "http_503", "10.0.0.1:9000 answered with status 503 (SlowDown)", "", "status"},
    {FL_PROBE_S3, true, 1, {STATUS(429, "")}, ERR, "http_429", "10.0.0.1:9000 answered with status 429", "", "status"},
    {FL_PROBE_S3, true, 1, {STATUS(500, "")}, ERR, "http_500", "10.0.0.1:9000 answered with status 500", "", "status"},
    {FL_PROBE_S3, true, 1, {STATUS(501, "")}, ERR, "http_501", "10.0.0.1:9000 answered with status 501", "", "status"},
    {FL_PROBE_S3, true, 2, {STATUS(400, ""), STATUS(400, "InvalidRequest")}, ERR, "http_400", "10.0.0.1:9000 answered with status 400 (InvalidRequest)", "", "status"},
    {FL_PROBE_S3, true, 1, {{FL_PROBE_STEP_STATUS, FL_OUTCOME_OK, 0, 200, true, "", "<html><head>", 1}}, ERR,
     "not_s3", "10.0.0.1:9000 answers HTTP but not S3 (status=200 <html><head>)", "", "status"},
    /* the HEAD was answered; a ListBuckets that dies or breaks says nothing more */
    {FL_PROBE_S3, true, 3, {STATUS(403, ""), SILENT, SILENT}, UP, "", "", "access denied; the probe cannot prove more", ""},
    {FL_PROBE_S3, true, 2, {STATUS(403, ""), STATUS(500, "InternalError")}, UP, "", "", "access denied; the probe cannot prove more", ""},
    {FL_PROBE_S3, true, 3, {STATUS(400, ""), CLOSED, REFUSED}, ERR, "http_400", "10.0.0.1:9000 answered with status 400", "", "status"},
    /* a list that is granted does not explain why the bucket was refused as malformed */
    {FL_PROBE_S3, true, 2, {STATUS(400, ""), STATUS(200, "")}, ERR, "http_400", "10.0.0.1:9000 answered with status 400", "", "status"},
    {FL_PROBE_S3, true, 2, {SILENT, SILENT}, DOWN, "no_answer", SILENT_TEXT, "", "head"},
    {FL_PROBE_S3, true, 2, {SILENT, REFUSED}, DOWN, "connect_refused", REFUSED_TEXT, "", "connect"},
    {FL_PROBE_S3, true, 3, {CLOSED, STATUS(403, ""), STATUS(200, "")}, UP, "", "", "", ""},
    {FL_PROBE_S3, true, -1, {STATUS(403, ""), NO_FDS}, UP, "", "", "", ""},
};

#define UNCHECKED "reachable, credentials not checked"

static const struct row anonymous[] = {
    {FL_PROBE_S3, false, 1, {STATUS(200, "")}, UP, "", "", UNCHECKED, ""},
    {FL_PROBE_S3, false, 1, {STATUS(404, "")}, UP, "", "", UNCHECKED, ""},
    {FL_PROBE_S3, false, 2, {STATUS(403, ""), STATUS(403, "AccessDenied")}, UP, "", "", UNCHECKED, ""},
    {FL_PROBE_S3, false, 2, {STATUS(403, ""), STATUS(403, "InvalidAccessKeyId")}, UP, "", "", UNCHECKED, ""}, /* cannot occur; cannot block */
    {FL_PROBE_S3, false, 1, {STATUS(503, "")}, ERR, "http_503", "10.0.0.1:9000 answered with status 503", "", "status"},
    {FL_PROBE_S3, false, 1, {{FL_PROBE_STEP_STATUS, FL_OUTCOME_OK, 0, 404, true, "", "", 1}}, ERR,
     "not_s3", "10.0.0.1:9000 answers HTTP but not S3 (status=404)", "", "status"},
    {FL_PROBE_S3, false, 2, {REFUSED, REFUSED}, DOWN, "connect_refused", REFUSED_TEXT, "", "connect"},
};
// clang-format on

static void tcp_connects(void **state)
{
    (void)state;
    check(tcp, FL_COUNTOF(tcp));
}

static void http_expects(void **state)
{
    (void)state;
    check(http, FL_COUNTOF(http));
}

static void s3_with_keys(void **state)
{
    (void)state;
    check(keyed, FL_COUNTOF(keyed));
}

static void s3_without_keys(void **state)
{
    (void)state;
    check(anonymous, FL_COUNTOF(anonymous));
}

static void the_plan_says_what_to_send(void **state)
{
    (void)state;
    struct fl_probe_plan p;
    const struct fl_probe_result closed = CLOSED, refused_403 = STATUS(403, "");
    fl_probe_plan_begin(&p, FL_PROBE_TCP, false);
    assert_int_equal(p.request, FL_PROBE_REQUEST_CONNECT);
    assert_true(p.fresh);
    fl_probe_plan_begin(&p, FL_PROBE_HTTP, false);
    assert_int_equal(p.request, FL_PROBE_REQUEST_GET);
    assert_false(p.fresh); /* one kept connection per definition */
    fl_probe_plan_begin(&p, FL_PROBE_S3, false);
    assert_int_equal(p.request, FL_PROBE_REQUEST_LIST_BUCKETS);
    fl_probe_plan_begin(&p, FL_PROBE_S3, true);
    assert_int_equal(p.request, FL_PROBE_REQUEST_HEAD_BUCKET);
    fl_probe_plan_take(&p, &closed);
    assert_int_equal(p.request, FL_PROBE_REQUEST_HEAD_BUCKET);
    assert_true(p.fresh);
    fl_probe_plan_take(&p, &refused_403);
    assert_int_equal(p.request, FL_PROBE_REQUEST_LIST_BUCKETS);
    assert_false(p.fresh);
    assert_string_equal(fl_probe_step_name(FL_PROBE_STEP_TLS), "tls");
}

static void expect_lists(void **state)
{
    (void)state;
    assert_true(fl_probe_judge_expects("200-399", 200));
    assert_true(fl_probe_judge_expects("200-399", 399));
    assert_false(fl_probe_judge_expects("200-399", 400));
    assert_true(fl_probe_judge_expects("200, 204 ,404", 404));
    assert_false(fl_probe_judge_expects("200, 204", 203));
    assert_true(fl_probe_judge_expects("200-299,401-403", 402));
    assert_false(fl_probe_judge_expects("", 200));
    assert_false(fl_probe_judge_expects("200-", 200));
    assert_false(fl_probe_judge_expects("200x", 200));
    assert_false(fl_probe_judge_expects("200,,201", 200));
    assert_false(fl_probe_judge_expects("99999999999999999999999", 200));
    assert_false(fl_probe_judge_expects("0-999", -1));
}

static void short_keys_are_masked_whole(void **state)
{
    (void)state;
    const struct fl_probe_facts facts = {
        .address = "a:1", .expect = "", .bucket = "", .key_id = "minio123"};
    const struct fl_probe_result bad = STATUS(403, "InvalidAccessKeyId");
    struct fl_probe_plan p;
    struct fl_verdict v;
    fl_probe_plan_begin(&p, FL_PROBE_S3, false);
    assert_int_equal(fl_probe_plan_take(&p, &bad), FL_PROBE_DECIDED);
    fl_probe_judge(&facts, &p, &v);
    assert_string_equal(v.cause.text,
                        "credentials rejected (status=403 code=InvalidAccessKeyId key=****)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tcp_connects),
        cmocka_unit_test(http_expects),
        cmocka_unit_test(s3_with_keys),
        cmocka_unit_test(s3_without_keys),
        cmocka_unit_test(the_plan_says_what_to_send),
        cmocka_unit_test(expect_lists),
        cmocka_unit_test(short_keys_are_masked_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
