#include "sidecar/policy/retry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/check.h"

#define LISTED                                                                                     \
    (FL_ON_ERROR | FL_ON_TIMEOUT | FL_ON_INVALID_HEADER | FL_ON_HTTP_502 | FL_ON_HTTP_503 |        \
     FL_ON_HTTP_504)

static struct fl_policy_conf policy(uint32_t next_upstream, enum fl_replay_after_send replay)
{
    return (struct fl_policy_conf){.next_upstream = next_upstream,
                                   .next_upstream_tries = 2,
                                   .next_upstream_timeout_ms = 3000,
                                   .replay_after_send = replay};
}

/* A GET whose connect was refused, first try, everything else in order: yes. */
static struct fl_retry_facts good(void)
{
    return (struct fl_retry_facts){.outcome = FL_OUTCOME_CONNECT_FAILED,
                                   .class = FL_CLASS_S,
                                   .sent = FL_SENT_NOTHING,
                                   .body_held = true,
                                   .tries_used = 1,
                                   .peers = 3,
                                   .budget_ok = true,
                                   .peer_left = true};
}

static void assert_retry(const struct fl_policy_conf *p, const struct fl_retry_facts *f,
                         const char *expected)
{
    assert_string_equal(fl_retry_name(fl_retry_decide(p, f)), expected);
}

/* All reasons hold at once; taken away one by one from the front, each is named in its turn. */
static void reasons_come_in_the_order_of_the_contract(void **state)
{
    (void)state;
    struct fl_policy_conf p = policy(FL_ON_TIMEOUT, FL_REPLAY_NEVER);
    struct fl_retry_facts f = {.response_started = true,
                               .client_gone = true,
                               .outcome = FL_OUTCOME_CONNECT_FAILED, /* not listed */
                               .class = FL_CLASS_N,
                               .sent = FL_SENT_FULLY,
                               .tries_used = 2,
                               .peers = 2,
                               .elapsed_ms = 3000,
                               .deadline_passed = true};
    assert_retry(&p, &f, "response_started");
    f.response_started = false;
    assert_retry(&p, &f, "client_gone");
    f.client_gone = false;
    assert_retry(&p, &f, "not_listed");
    f.outcome = FL_OUTCOME_READ_TIMEOUT;
    assert_retry(&p, &f, "class");
    f.class = FL_CLASS_S;
    assert_retry(&p, &f, "body_not_replayable");
    f.body_held = true;
    assert_retry(&p, &f, "tries");
    f.tries_used = 1;
    assert_retry(&p, &f, "time");
    f.elapsed_ms = 2999;
    assert_retry(&p, &f, "deadline");
    f.deadline_passed = false;
    assert_retry(&p, &f, "budget");
    f.budget_ok = true;
    assert_retry(&p, &f, "no_peer");
    f.peer_left = true;
    assert_retry(&p, &f, "");
}

static void zero_means_every_peer_and_no_limit(void **state)
{
    (void)state;
    struct fl_policy_conf p = policy(LISTED, FL_REPLAY_NEVER);
    struct fl_retry_facts f = good();
    p.next_upstream_tries = 0;
    f.tries_used = 2;
    assert_retry(&p, &f, "");
    f.tries_used = 3;
    assert_retry(&p, &f, "tries");
    p.next_upstream_tries = 1;
    f.tries_used = 1;
    assert_retry(&p, &f, "tries");
    p.next_upstream_tries = 9;
    p.next_upstream_timeout_ms = 0;
    f.elapsed_ms = INT64_MAX;
    assert_retry(&p, &f, "");
    p.next_upstream = 0; /* off */
    assert_retry(&p, &f, "not_listed");
}

/* sent x class x replay_after_send, after a reset and after a timeout: y = yes, n = class. */
static void the_matrix(void **state)
{
    (void)state;
    static const struct {
        enum fl_replay_after_send replay;
        enum fl_outcome outcome;
        const char *nothing, *partly, *fully; /* S I C N */
    } rows[] = {
        {FL_REPLAY_NEVER, FL_OUTCOME_PREMATURE_CLOSE, "yyyy", "yynn", "ynnn"},
        {FL_REPLAY_NEVER, FL_OUTCOME_READ_TIMEOUT, "yyyy", "yynn", "ynnn"},
        {FL_REPLAY_RESET, FL_OUTCOME_PREMATURE_CLOSE, "yyyy", "yynn", "yynn"},
        {FL_REPLAY_RESET, FL_OUTCOME_INVALID_HEADER, "yyyy", "yynn", "yynn"},
        {FL_REPLAY_RESET, FL_OUTCOME_READ_TIMEOUT, "yyyy", "yynn", "ynnn"},
        {FL_REPLAY_RESET, FL_OUTCOME_SEND_TIMEOUT, "yyyy", "yynn", "ynnn"},
        {FL_REPLAY_RESET, FL_OUTCOME_DEADLINE_BLAMED, "yyyy", "yynn", "ynnn"},
        {FL_REPLAY_RESET, FL_OUTCOME_CLIPPED, "yyyy", "yynn", "ynnn"},
        {FL_REPLAY_ALWAYS, FL_OUTCOME_PREMATURE_CLOSE, "yyyy", "yynn", "yynn"},
        {FL_REPLAY_ALWAYS, FL_OUTCOME_READ_TIMEOUT, "yyyy", "yynn", "yynn"},
    };
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        struct fl_policy_conf p = policy(LISTED, rows[i].replay);
        const char *columns[] = {rows[i].nothing, rows[i].partly, rows[i].fully};
        for (unsigned sent = 0; sent < 3; sent++) {
            for (unsigned class = 0; class < 4; class ++) {
                struct fl_retry_facts f = good();
                f.outcome = rows[i].outcome;
                f.class = (enum fl_replay_class) class;
                f.sent = (enum fl_sent)sent;
                bool yes = columns[sent][class] == 'y';
                enum fl_retry got = fl_retry_decide(&p, &f);
                if (got != (yes ? FL_RETRY_YES : FL_RETRY_CLASS)) {
                    fail_msg("row %zu sent %u class %s: %s", i, sent, fl_replay_class_name(f.class),
                             fl_retry_name(got));
                }
                f.body_held = false;
                got = fl_retry_decide(&p, &f);
                enum fl_retry want = !yes       ? FL_RETRY_CLASS
                                     : sent > 0 ? FL_RETRY_BODY_NOT_REPLAYABLE
                                                : FL_RETRY_YES;
                assert_int_equal(got, want);
                p.next_upstream |= FL_ON_NON_IDEMPOTENT;
                f.body_held = true;
                assert_int_equal(fl_retry_decide(&p, &f), FL_RETRY_YES);
                p.next_upstream = LISTED;
            }
        }
    }
}

/* A listed status: S always; I only 503 and 429, more with always; C and N only while nothing of
 * the body was sent. */
static void statuses(void **state)
{
    (void)state;
    static const struct {
        enum fl_outcome outcome;
        int status;
        enum fl_replay_after_send replay;
        const char *classes; /* S I C N, fully sent: y, c = class, l = not listed */
    } rows[] = {
        {FL_OUTCOME_HTTP_STATUS, 503, FL_REPLAY_NEVER, "yycc"},
        {FL_OUTCOME_HTTP_STATUS, 502, FL_REPLAY_NEVER, "yccc"},
        {FL_OUTCOME_HTTP_STATUS, 504, FL_REPLAY_RESET, "yccc"},
        {FL_OUTCOME_HTTP_STATUS, 500, FL_REPLAY_RESET, "yccc"},
        {FL_OUTCOME_HTTP_STATUS, 500, FL_REPLAY_ALWAYS, "yycc"},
        {FL_OUTCOME_HTTP_STATUS, 504, FL_REPLAY_ALWAYS, "yycc"},
        {FL_OUTCOME_HTTP_STATUS, 404, FL_REPLAY_NEVER, "yccc"},
        {FL_OUTCOME_HTTP_STATUS, 501, FL_REPLAY_ALWAYS, "llll"},
        {FL_OUTCOME_THROTTLED, 429, FL_REPLAY_NEVER, "yycc"},
        {FL_OUTCOME_THROTTLED, 503, FL_REPLAY_ALWAYS, "llll"}, /* SlowDown matches no condition */
    };
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        struct fl_policy_conf p = policy(LISTED | FL_ON_ANY_STATUS, rows[i].replay);
        for (unsigned class = 0; class < 4; class ++) {
            struct fl_retry_facts f = good();
            f.outcome = rows[i].outcome;
            f.status = rows[i].status;
            f.class = (enum fl_replay_class) class;
            f.sent = FL_SENT_FULLY;
            char c = rows[i].classes[class];
            assert_int_equal(fl_retry_decide(&p, &f), c == 'y'   ? FL_RETRY_YES
                                                      : c == 'c' ? FL_RETRY_CLASS
                                                                 : FL_RETRY_NOT_LISTED);
            f.sent = FL_SENT_NOTHING; /* a final status in place of the 100 */
            assert_int_equal(fl_retry_decide(&p, &f),
                             c == 'l' ? FL_RETRY_NOT_LISTED : FL_RETRY_YES);
        }
    }
    struct fl_policy_conf p = policy(LISTED, FL_REPLAY_NEVER);
    struct fl_retry_facts f = good();
    f.outcome = FL_OUTCOME_THROTTLED;
    f.status = 429;
    assert_retry(&p, &f, "not_listed");
}

/* What never matches a condition is never retried, whatever is listed. */
static void what_is_nobodys_fault_is_not_retried(void **state)
{
    (void)state;
    static const enum fl_outcome outcomes[] = {
        FL_OUTCOME_OK,         FL_OUTCOME_CLIENT_ABORT,   FL_OUTCOME_CLIENT_TIMEOUT,
        FL_OUTCOME_CLIENT_BAD, FL_OUTCOME_LOCAL_RESOURCE, FL_OUTCOME_STALE_REUSE,
        FL_OUTCOME_DEADLINE,
    };
    struct fl_policy_conf p =
        policy(LISTED | FL_ON_ANY_STATUS | FL_ON_NON_IDEMPOTENT, FL_REPLAY_ALWAYS);
    for (size_t i = 0; i < FL_COUNTOF(outcomes); i++) {
        struct fl_retry_facts f = good();
        f.outcome = outcomes[i];
        assert_retry(&p, &f, "not_listed");
    }
}

static void stale_reuse_by_the_same_table(void **state)
{
    (void)state;
    static const struct {
        uint32_t extra;
        enum fl_replay_after_send replay;
        const char *nothing, *partly, *fully;
    } rows[] = {
        {0, FL_REPLAY_NEVER, "yyyy", "yynn", "ynnn"},
        {0, FL_REPLAY_RESET, "yyyy", "yynn", "yynn"},
        {0, FL_REPLAY_ALWAYS, "yyyy", "yynn", "yynn"},
        {FL_ON_NON_IDEMPOTENT, FL_REPLAY_NEVER, "yyyy", "yyyy", "yyyy"},
    };
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        struct fl_policy_conf p = policy(LISTED | rows[i].extra, rows[i].replay);
        for (unsigned class = 0; class < 4; class ++) {
            enum fl_replay_class c = (enum fl_replay_class) class;
            assert_true(fl_retry_stale_replay(&p, c, FL_SENT_NOTHING, false));
            assert_int_equal(fl_retry_stale_replay(&p, c, FL_SENT_PARTLY, true),
                             rows[i].partly[class] == 'y');
            assert_int_equal(fl_retry_stale_replay(&p, c, FL_SENT_FULLY, true),
                             rows[i].fully[class] == 'y');
            assert_false(fl_retry_stale_replay(&p, c, FL_SENT_PARTLY, false));
            assert_false(fl_retry_stale_replay(&p, c, FL_SENT_FULLY, false));
            assert_int_equal(fl_retry_may_ride_idle(&p, c, true), rows[i].fully[class] == 'y');
            assert_false(fl_retry_may_ride_idle(&p, c, false));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasons_come_in_the_order_of_the_contract),
        cmocka_unit_test(zero_means_every_peer_and_no_limit),
        cmocka_unit_test(the_matrix),
        cmocka_unit_test(statuses),
        cmocka_unit_test(what_is_nobodys_fault_is_not_retried),
        cmocka_unit_test(stale_reuse_by_the_same_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
