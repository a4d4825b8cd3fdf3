#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/model/outcome.h"
#include "common/base/check.h"

static void conditions_name_themselves(void **state)
{
    (void)state;
    static const struct {
        int status;
        enum fl_condition condition;
        const char *name;
    } rows[] = {{500, FL_ON_HTTP_500, "http_500"}, {502, FL_ON_HTTP_502, "http_502"},
                {503, FL_ON_HTTP_503, "http_503"}, {504, FL_ON_HTTP_504, "http_504"},
                {403, FL_ON_HTTP_403, "http_403"}, {404, FL_ON_HTTP_404, "http_404"},
                {429, FL_ON_HTTP_429, "http_429"}, {200, FL_ON_NEVER, "off"},
                {501, FL_ON_NEVER, "off"},         {0, FL_ON_NEVER, "off"},
                {-1, FL_ON_NEVER, "off"},          {400, FL_ON_NEVER, "off"}};
    uint32_t all = 0;
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        assert_int_equal(fl_condition_of_status(rows[i].status), rows[i].condition);
        assert_string_equal(fl_condition_name(rows[i].condition), rows[i].name);
        all |= (uint32_t)rows[i].condition;
    }
    assert_int_equal(all, FL_ON_ANY_STATUS);
    assert_string_equal(fl_condition_name(FL_ON_NON_IDEMPOTENT), "non_idempotent");
    assert_string_equal(fl_condition_name(FL_ON_INVALID_HEADER), "invalid_header");
}

/* The frozen words: a change here breaks dashboards and scripts. */
static void words_are_frozen(void **state)
{
    (void)state;
    assert_string_equal(fl_answer_row(FL_ANSWER_NO_LIVE_UPSTREAM)->token, "no_live_upstream");
    assert_int_equal(fl_answer_row(FL_ANSWER_UPSTREAM_FAILED)->http_status, 502);
    assert_int_equal(fl_answer_row(FL_ANSWER_UPSTREAM_TIMEOUT)->http_status, 504);
    assert_int_equal(fl_answer_row(FL_ANSWER_NO_ROUTE)->s3_status, 421);
    assert_int_equal(fl_answer_row(FL_ANSWER_REQUEST_TIMEOUT)->s3_status, 400);
    assert_string_equal(fl_answer_row(FL_ANSWER_OVERLOAD)->s3_code, "SlowDown");
    for (int a = FL_ANSWER_UPSTREAM_FAILED; a < FL_ANSWER_REQUEST_TIMEOUT; a++) {
        const struct fl_answer_row *row = fl_answer_row((enum fl_answer)a);
        assert_true(row->s3_status == 503 ||
                    row->http_status < 500); /* the oldest SDKs repeat 503 alone */
        assert_true(row->title[0] && row->proxy_status[0] && row->s3_code[0]);
    }
    assert_string_equal(fl_outcome_row(FL_OUTCOME_CONNECT_FAILED)->message,
                        "connect() failed while connecting to upstream");
    assert_string_equal(fl_outcome_row(FL_OUTCOME_STALLED)->class, "truncated");
    assert_int_equal(fl_outcome_row(FL_OUTCOME_CONNECT_TIMEOUT)->upstream_status, 504);
}

static void an_outcome_is_listed_by_its_condition(void **state)
{
    (void)state;
    const uint32_t all = FL_ON_ERROR | FL_ON_TIMEOUT | FL_ON_INVALID_HEADER | FL_ON_ANY_STATUS |
                         FL_ON_NON_IDEMPOTENT;
    assert_true(fl_outcome_listed(FL_OUTCOME_CONNECT_FAILED, 0, FL_ON_ERROR));
    assert_false(fl_outcome_listed(FL_OUTCOME_CONNECT_FAILED, 0, all & ~(uint32_t)FL_ON_ERROR));
    assert_true(fl_outcome_listed(FL_OUTCOME_CONNECT_TIMEOUT, 0, FL_ON_TIMEOUT));
    assert_true(fl_outcome_listed(FL_OUTCOME_INVALID_HEADER, 0, FL_ON_INVALID_HEADER));
    assert_true(fl_outcome_listed(FL_OUTCOME_HTTP_STATUS, 502, FL_ON_HTTP_502));
    assert_false(fl_outcome_listed(FL_OUTCOME_HTTP_STATUS, 502, all & ~(uint32_t)FL_ON_HTTP_502));
    assert_true(fl_outcome_listed(FL_OUTCOME_HTTP_STATUS, 404, FL_ON_HTTP_404));
    assert_false(fl_outcome_listed(FL_OUTCOME_HTTP_STATUS, 501, all));
    assert_false(fl_outcome_listed(FL_OUTCOME_OK, 200, all));
    assert_false(fl_outcome_listed(FL_OUTCOME_CLIENT_ABORT, 0, all));
    assert_false(fl_outcome_listed(FL_OUTCOME_STALE_REUSE, 0, all));
    assert_false(fl_outcome_listed(FL_OUTCOME_DEADLINE, 0, all));
    assert_true(fl_outcome_listed(FL_OUTCOME_DEADLINE_BLAMED, 0, FL_ON_TIMEOUT));
}

static void throttling_matches_only_an_explicit_429(void **state)
{
    (void)state;
    const uint32_t most = FL_ON_ERROR | FL_ON_TIMEOUT | FL_ON_INVALID_HEADER | FL_ON_ANY_STATUS;
    assert_false(fl_outcome_listed(FL_OUTCOME_THROTTLED, 503, most));
    assert_true(fl_outcome_listed(FL_OUTCOME_THROTTLED, 429, FL_ON_HTTP_429));
    assert_false(fl_outcome_listed(FL_OUTCOME_THROTTLED, 429, most & ~(uint32_t)FL_ON_HTTP_429));
    assert_false(fl_outcome_counts(FL_OUTCOME_THROTTLED, 503, most));
    assert_false(fl_outcome_counts(FL_OUTCOME_THROTTLED, 429, most));
}

/* behaviour.md section 1, "what never counts" */
static void only_the_peers_own_faults_count(void **state)
{
    (void)state;
    const uint32_t all = ~UINT32_C(0);
    static const enum fl_outcome never[] = {
        FL_OUTCOME_OK,           FL_OUTCOME_THROTTLED,      FL_OUTCOME_STALE_REUSE,
        FL_OUTCOME_CLIENT_ABORT, FL_OUTCOME_CLIENT_TIMEOUT, FL_OUTCOME_CLIENT_BAD,
        FL_OUTCOME_CLIPPED,      FL_OUTCOME_LOCAL_RESOURCE, FL_OUTCOME_DEADLINE};
    static const enum fl_outcome always[] = {FL_OUTCOME_CONNECT_FAILED, FL_OUTCOME_CONNECT_TIMEOUT,
                                             FL_OUTCOME_TLS_FAILED,     FL_OUTCOME_SEND_TIMEOUT,
                                             FL_OUTCOME_READ_TIMEOUT,   FL_OUTCOME_PREMATURE_CLOSE,
                                             FL_OUTCOME_INVALID_HEADER, FL_OUTCOME_TRUNCATED,
                                             FL_OUTCOME_STALLED,        FL_OUTCOME_DEADLINE_BLAMED};
    for (size_t i = 0; i < FL_COUNTOF(never); i++) {
        assert_false(fl_outcome_counts(never[i], 503, all));
    }
    for (size_t i = 0; i < FL_COUNTOF(always); i++) {
        assert_true(fl_outcome_counts(always[i], 0, all));
        assert_false(fl_outcome_counts(always[i], 0, FL_ON_ANY_STATUS | FL_ON_NON_IDEMPOTENT));
    }
    assert_int_equal(FL_COUNTOF(never) + FL_COUNTOF(always) + 1, FL_OUTCOME_COUNT);
    static const int counted[] = {500, 502, 503, 504}, uncounted[] = {200, 403, 404, 429, 501, 0};
    for (size_t i = 0; i < FL_COUNTOF(counted); i++) {
        assert_true(fl_outcome_counts(FL_OUTCOME_HTTP_STATUS, counted[i], all));
        assert_false(fl_outcome_counts(FL_OUTCOME_HTTP_STATUS, counted[i],
                                       all & ~(uint32_t)fl_condition_of_status(counted[i])));
    }
    for (size_t i = 0; i < FL_COUNTOF(uncounted); i++) {
        assert_false(fl_outcome_counts(FL_OUTCOME_HTTP_STATUS, uncounted[i], all));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conditions_name_themselves),
        cmocka_unit_test(words_are_frozen),
        cmocka_unit_test(an_outcome_is_listed_by_its_condition),
        cmocka_unit_test(throttling_matches_only_an_explicit_429),
        cmocka_unit_test(only_the_peers_own_faults_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
