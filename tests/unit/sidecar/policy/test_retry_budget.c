#include "sidecar/policy/retry_budget.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const struct fl_retry_budget_conf standard = {20, 3, 1};

/* Total failure: every request wants one retry (tries 2). Retries granted over the seconds. */
static unsigned total_failure(struct fl_retry_budget *lanes, const struct fl_retry_budget_conf *c,
                              unsigned per_second, unsigned seconds, int64_t from_ms)
{
    unsigned granted = 0;
    for (unsigned i = 0; i < per_second * seconds; i++) {
        int64_t now = from_ms + (int64_t)i * 1000 / per_second;
        struct fl_retry_budget *b = &lanes[i % c->threads];
        fl_retry_budget_request(b, c, now);
        if (fl_retry_budget_has(b, c, now)) {
            fl_retry_budget_spend(b);
            granted++;
        }
    }
    return granted;
}

static void amplification_is_bounded(void **state)
{
    (void)state;
    static const unsigned rates[] = {60, 100, 333, 1000, 5000};
    for (unsigned threads = 1; threads <= 4; threads++) {
        for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
            struct fl_retry_budget lanes[4] = {{0}};
            struct fl_retry_budget_conf c = {20, 3, threads};
            unsigned requests = rates[r] * 10;
            unsigned granted = total_failure(lanes, &c, rates[r], 10, 1000);
            if (granted * 4 > requests) {
                fail_msg("%u/s, %u threads: %u retries of %u", rates[r], threads, granted,
                         requests);
            }
            assert_true(granted * 100 >= requests * 19); /* and not stingy */
        }
    }
}

/* The budget was idle and full, as before an outage; the bound holds over the outage all the same.
 */
static void a_full_bucket_is_one_second(void **state)
{
    (void)state;
    struct fl_retry_budget b = {0};
    for (int i = 0; i < 1000; i++) { /* 100/s in good health */
        fl_retry_budget_request(&b, &standard, 1000 + i * 10);
    }
    unsigned burst = 0;
    while (fl_retry_budget_has(&b, &standard, 11000)) {
        fl_retry_budget_spend(&b);
        burst++;
    }
    assert_in_range(burst, 19, 21);
    unsigned granted = total_failure(&b, &standard, 100, 10, 11000);
    assert_true(burst + granted <= 225);
}

static void the_floor_is_three_per_second(void **state)
{
    (void)state;
    struct fl_retry_budget b = {0};
    unsigned granted = total_failure(&b, &standard, 10, 100, 1000); /* 20 % of 10 is less than 3 */
    assert_in_range(granted, 300, 304); /* the first full bucket included */
}

static void the_first_request_has_a_token(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= 4; threads++) {
        struct fl_retry_budget b = {0};
        struct fl_retry_budget_conf c = {20, 3, threads};
        fl_retry_budget_request(&b, &c, 5);
        assert_true(fl_retry_budget_has(&b, &c, 5));
    }
}

static void the_floor_is_split_over_threads(void **state)
{
    (void)state;
    struct fl_retry_budget lanes[4] = {{0}};
    struct fl_retry_budget_conf c = {0, 3, 4};
    unsigned granted = 0;
    for (int64_t now = 1; now <= 100000; now += 10) { /* all four ask all the time */
        for (unsigned i = 0; i < 4; i++) {
            if (fl_retry_budget_has(&lanes[i], &c, now)) {
                fl_retry_budget_spend(&lanes[i]);
                granted++;
            }
        }
    }
    /* 3 a second in all, and each lane once had its burst of 3 */
    assert_in_range(granted, 296, 312);
}

static void zero_and_zero_is_none(void **state)
{
    (void)state;
    struct fl_retry_budget b = {0};
    const struct fl_retry_budget_conf c = {0, 0, 1};
    assert_int_equal(total_failure(&b, &c, 100, 10, 1000), 0);
}

static void ratio_alone_and_floor_alone(void **state)
{
    (void)state;
    struct fl_retry_budget b = {0};
    const struct fl_retry_budget_conf ratio = {20, 0, 1}, whole = {100, 0, 1};
    assert_in_range(total_failure(&b, &ratio, 5, 100, 1000), 99, 102);
    b = (struct fl_retry_budget){0};
    assert_int_equal(total_failure(&b, &whole, 50, 10, 1000), 500);
}

static void an_idle_night_fills_one_burst_only(void **state)
{
    (void)state;
    struct fl_retry_budget b = {0};
    total_failure(&b, &standard, 100, 3, 1000);
    const int64_t later[] = {4500, 10000, 100000, 100000000, INT64_C(100000000000)};
    for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
        unsigned granted = 0;
        while (fl_retry_budget_has(&b, &standard, later[i])) {
            fl_retry_budget_spend(&b);
            granted++;
        }
        assert_in_range(granted, i == 0 ? 0 : 3, i == 0 ? 20 : 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(amplification_is_bounded),
        cmocka_unit_test(a_full_bucket_is_one_second),
        cmocka_unit_test(the_floor_is_three_per_second),
        cmocka_unit_test(the_first_request_has_a_token),
        cmocka_unit_test(the_floor_is_split_over_threads),
        cmocka_unit_test(zero_and_zero_is_none),
        cmocka_unit_test(ratio_alone_and_floor_alone),
        cmocka_unit_test(an_idle_night_fills_one_burst_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
