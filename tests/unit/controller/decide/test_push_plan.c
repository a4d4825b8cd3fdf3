#include "controller/decide/push_plan.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#define EPOCH    1700000000
#define T0       1000
#define INTERVAL 30000

static struct fl_push_plan plan;
static struct fl_push_group group;
static struct fl_push_target a, b;

static int set_up(void **state)
{
    (void)state;
    fl_push_plan_init(&plan, EPOCH, 42);
    plan.concurrency = 8;
    fl_push_plan_enter(&plan, &group);
    fl_push_plan_join(&plan, &group, &a, T0);
    fl_push_plan_join(&plan, &group, &b, T0);
    return 0;
}

/* Everything that may be sent now, settled with 200. The number of pushes. */
static int deliver(int64_t now_ms)
{
    struct fl_push_target *t;
    int n = 0;
    fl_push_plan_run(&plan, now_ms);
    while ((t = fl_push_plan_take(&plan)) != NULL) {
        const struct fl_push_report ok = {.result = FL_PUSH_OK};
        (void)fl_push_plan_settle(&plan, t, &ok, now_ms);
        assert_true(++n < 100);
    }
    return n;
}

static enum fl_push_lesson end(struct fl_push_target *t, enum fl_push_result r, int64_t now_ms)
{
    const struct fl_push_report report = {.result = r};
    return fl_push_plan_settle(&plan, t, &report, now_ms);
}

static struct fl_push_target *take(int64_t now_ms)
{
    fl_push_plan_run(&plan, now_ms);
    return fl_push_plan_take(&plan);
}

static void nothing_is_sent_before_there_is_a_state(void **state)
{
    (void)state;
    assert_null(take(T0 + 1000000));
    assert_true(fl_push_plan_next_ms(&plan) == INT64_MAX);
    assert_int_equal(fl_push_plan_lag_ms(&a, T0 + 1000), 0);
}

static void the_first_state_goes_out_at_once_to_all_under_one_pair(void **state)
{
    (void)state;
    fl_push_plan_changed(&plan, &group, false, T0);
    assert_ptr_equal(take(T0), &a);
    assert_ptr_equal(take(T0), &b);
    assert_null(take(T0));
    assert_int_equal(plan.epoch, EPOCH);
    assert_int_equal(plan.seq, 1);
}

static void an_addition_settles_and_later_ones_do_not_move_it(void **state)
{
    (void)state;
    fl_push_plan_changed(&plan, &group, true, T0);
    assert_int_equal(deliver(T0), 2);
    fl_push_plan_changed(&plan, &group, false, T0 + 100);
    fl_push_plan_changed(&plan, &group, false, T0 + 140);
    assert_int_equal(fl_push_plan_next_ms(&plan), T0 + 150);
    assert_int_equal(deliver(T0 + 149), 0);
    assert_int_equal(deliver(T0 + 150), 2);
    assert_int_equal(plan.seq, 2); /* both changes in one edition */
}

static void a_removal_does_not_wait_and_takes_what_settles_with_it(void **state)
{
    (void)state;
    fl_push_plan_changed(&plan, &group, true, T0);
    assert_int_equal(deliver(T0), 2);
    fl_push_plan_changed(&plan, &group, false, T0 + 100);
    fl_push_plan_changed(&plan, &group, true, T0 + 110);
    assert_int_equal(deliver(T0 + 110), 2);
    assert_int_equal(deliver(T0 + 150), 0); /* nothing is left to settle */
    assert_int_equal(plan.seq, 2);
}

static void settle_zero_means_at_once(void **state)
{
    (void)state;
    plan.settle_ms = 0;
    fl_push_plan_changed(&plan, &group, false, T0);
    assert_int_equal(deliver(T0), 2);
    fl_push_plan_changed(&plan, &group, false, T0 + 5);
    assert_int_equal(deliver(T0 + 5), 2);
}

static void one_push_is_in_flight_and_the_newest_follows_never_a_queue(void **state)
{
    (void)state;
    fl_push_plan_leave(&plan, &b);
    fl_push_plan_changed(&plan, &group, true, T0);
    assert_ptr_equal(take(T0), &a);
    for (int i = 1; i <= 10; i++) {
        fl_push_plan_changed(&plan, &group, true, T0 + i);
        assert_null(take(T0 + i));
    }
    assert_int_equal(end(&a, FL_PUSH_OK, T0 + 20), FL_PUSH_NOTHING);
    assert_ptr_equal(take(T0 + 20), &a);
    assert_int_equal(plan.seq, 11); /* the tenth change, none of those between */
    assert_int_equal(end(&a, FL_PUSH_OK, T0 + 30), FL_PUSH_NOTHING);
    assert_null(take(T0 + 30));
}

static void concurrency_bounds_what_is_in_flight_first_come_first_served(void **state)
{
    (void)state;
    struct fl_push_target c;
    plan.concurrency = 2;
    fl_push_plan_join(&plan, &group, &c, T0);
    fl_push_plan_changed(&plan, &group, true, T0);
    assert_ptr_equal(take(T0), &a);
    assert_ptr_equal(take(T0), &b);
    assert_null(take(T0));
    fl_push_plan_changed(&plan, &group, true, T0 + 1);
    (void)end(&b, FL_PUSH_OK, T0 + 2);
    assert_ptr_equal(take(T0 + 2), &c); /* b needs the newest too, but c waited */
    assert_null(take(T0 + 2));
    (void)end(&a, FL_PUSH_FAILED, T0 + 3);
    assert_ptr_equal(take(T0 + 3), &b);
}

static void the_silent_ones_take_a_quarter_of_the_places_and_let_the_others_by(void **state)
{
    (void)state;
    struct fl_push_target silent[20], *t;
    unsigned flying_silent = 0;
    plan.concurrency = 8;
    fl_push_plan_leave(&plan, &a);
    fl_push_plan_leave(&plan, &b);
    for (int i = 0; i < 20; i++) {
        fl_push_plan_join(&plan, &group, &silent[i], T0);
    }
    fl_push_plan_changed(&plan, &group, true, T0);
    while ((t = take(T0)) != NULL) { /* eight at a time: nobody is known to be silent yet */
        (void)end(t, FL_PUSH_FAILED, T0);
    }
    fl_push_plan_join(&plan, &group, &a, T0 + 2000);
    assert_ptr_equal(take(T0 + 2000), &a); /* although the others have waited longer */
    while ((t = take(T0 + 2000)) != NULL) {
        flying_silent++;
    }
    assert_int_equal(flying_silent, 2);
    assert_int_equal(end(&a, FL_PUSH_OK, T0 + 2100), FL_PUSH_NOTHING);
    fl_push_plan_changed(&plan, &group, true, T0 + 2100);
    assert_ptr_equal(take(T0 + 2100), &a);
    assert_null(take(T0 + 2100));
    plan.concurrency = 1; /* one place is for everybody */
    for (int i = 0; i < 20; i++) {
        fl_push_plan_leave(&plan, &silent[i]);
    }
    (void)end(&a, FL_PUSH_FAILED, T0 + 2200);
    assert_ptr_equal(take(T0 + 5000), &a);
    assert_int_equal(plan.flying, 1);
    assert_int_equal(plan.flying_ailing, 1);
}

static void an_unchanged_state_is_pushed_again_each_interval_with_a_new_seq(void **state)
{
    (void)state;
    fl_push_plan_changed(&plan, &group, true, T0);
    assert_int_equal(deliver(T0), 2);
    assert_int_equal(fl_push_plan_next_ms(&plan), T0 + INTERVAL);
    assert_int_equal(deliver(T0 + INTERVAL - 1), 0);
    assert_int_equal(deliver(T0 + INTERVAL), 2);
    assert_int_equal(plan.seq, 2);
    fl_push_plan_changed(&plan, &group, true,
                         T0 + INTERVAL + 10000); /* a change starts the interval anew */
    assert_int_equal(deliver(T0 + INTERVAL + 10000), 2);
    assert_int_equal(deliver(T0 + 2 * INTERVAL), 0);
    assert_int_equal(deliver(T0 + 2 * INTERVAL + 10000), 2);
}

static void failures_back_off_from_1_to_30_seconds_with_jitter(void **state)
{
    (void)state;
    static const int64_t least[] = {1000, 2000, 4000, 8000, 16000, 22500, 22500};
    static const int64_t most[] = {1500, 3000, 6000, 12000, 24000, 30000, 30000};
    unsigned spread[FL_COUNTOF(least)] = {0};
    for (uint64_t seed = 1; seed <= 50; seed++) {
        int64_t now_ms = T0;
        fl_push_plan_init(&plan, EPOCH, seed * 7919);
        fl_push_plan_enter(&plan, &group);
        fl_push_plan_join(&plan, &group, &a, T0);
        plan.interval_ms = 1000000000; /* refreshes stay out of it */
        fl_push_plan_changed(&plan, &group, true, T0);
        for (size_t i = 0; i < FL_COUNTOF(least); i++) {
            assert_ptr_equal(take(now_ms), &a);
            (void)end(&a, i % 2 ? FL_PUSH_REFUSED : FL_PUSH_FAILED, now_ms);
            int64_t wait_ms = fl_push_plan_next_ms(&plan) - now_ms;
            assert_in_range(wait_ms, least[i], most[i]);
            spread[i] += wait_ms != least[i];
            assert_null(take(now_ms + wait_ms - 1));
            now_ms += wait_ms;
        }
    }
    for (size_t i = 0; i < FL_COUNTOF(least); i++) {
        assert_true(spread[i] > 40); /* of 50 seeds */
    }
}

static void a_change_does_not_cut_the_back_off_short_but_is_what_is_sent_then(void **state)
{
    (void)state;
    fl_push_plan_leave(&plan, &b);
    fl_push_plan_changed(&plan, &group, true, T0);
    assert_ptr_equal(take(T0), &a);
    (void)end(&a, FL_PUSH_FAILED, T0);
    fl_push_plan_changed(&plan, &group, true, T0 + 10);
    assert_null(take(T0 + 10));
    assert_ptr_equal(take(T0 + 1500), &a);
    assert_int_equal(a.sent, plan.edition);
}

static void the_third_failure_is_the_one_to_tell_and_success_forgets(void **state)
{
    (void)state;
    static const enum fl_push_lesson want[] = {FL_PUSH_FAILS, FL_PUSH_FAILS_STILL,
                                               FL_PUSH_UNREACHABLE, FL_PUSH_FAILS_STILL};
    int64_t now_ms = T0;
    fl_push_plan_leave(&plan, &b);
    fl_push_plan_changed(&plan, &group, true, T0);
    for (size_t i = 0; i < FL_COUNTOF(want); i++, now_ms += 60000) {
        assert_ptr_equal(take(now_ms), &a);
        assert_int_equal(end(&a, FL_PUSH_FAILED, now_ms), want[i]);
    }
    assert_ptr_equal(take(now_ms), &a);
    assert_int_equal(end(&a, FL_PUSH_OK, now_ms), FL_PUSH_RECOVERED);
    fl_push_plan_changed(&plan, &group, true, now_ms);
    assert_ptr_equal(take(now_ms), &a);
    assert_int_equal(end(&a, FL_PUSH_FAILED, now_ms), FL_PUSH_FAILS);
    assert_true(a.not_before_ms - now_ms <= 1500); /* from the start again */
    assert_ptr_equal(take(now_ms + 1500), &a);
    assert_int_equal(end(&a, FL_PUSH_OK, now_ms + 1500), FL_PUSH_RECOVERED);
}

static void a_higher_seq_of_our_epoch_is_gone_on_from_for_that_sidecar_alone(void **state)
{
    (void)state;
    const struct fl_push_report told = {.result = FL_PUSH_CONFLICT, .epoch = EPOCH, .seq = 500};
    fl_push_plan_changed(&plan, &group, true, T0);
    assert_ptr_equal(take(T0), &a);
    assert_ptr_equal(take(T0), &b);
    assert_int_equal(end(&b, FL_PUSH_OK, T0), FL_PUSH_NOTHING);
    assert_int_equal(fl_push_plan_settle(&plan, &a, &told, T0), FL_PUSH_SEQ_RAISED);
    assert_ptr_equal(take(T0), &a); /* at once */
    assert_int_equal(plan.epoch, EPOCH);
    assert_int_equal(plan.seq, 501);
    assert_int_equal(end(&a, FL_PUSH_OK, T0), FL_PUSH_NOTHING);
    assert_null(take(T0)); /* b has the state already */
    assert_int_equal(a.failures, 0);
}

/* The answer to an accepted push was lost: the sidecar has our own pair. */
static void our_own_pair_told_back_is_stepped_over(void **state)
{
    (void)state;
    const struct fl_push_report told = {.result = FL_PUSH_CONFLICT, .epoch = EPOCH, .seq = 1};
    fl_push_plan_changed(&plan, &group, true, T0);
    assert_ptr_equal(take(T0), &a);
    assert_int_equal(fl_push_plan_settle(&plan, &a, &told, T0), FL_PUSH_SEQ_RAISED);
    assert_int_equal(plan.seq, 2);
}

static void a_higher_epoch_is_taken_over_and_one_added(void **state)
{
    (void)state;
    const struct fl_push_report told = {.result = FL_PUSH_CONFLICT, .epoch = EPOCH + 50, .seq = 9};
    fl_push_plan_changed(&plan, &group, true, T0);
    assert_ptr_equal(take(T0), &a);
    assert_ptr_equal(take(T0), &b);
    assert_int_equal(fl_push_plan_settle(&plan, &a, &told, T0), FL_PUSH_EPOCH_RAISED);
    assert_int_equal(plan.epoch, EPOCH + 51);
    assert_int_equal(plan.seq, 1);
    /* b was sent the old epoch meanwhile, and knows a higher pair of it */
    const struct fl_push_report late = {.result = FL_PUSH_CONFLICT, .epoch = EPOCH, .seq = 7};
    assert_int_equal(fl_push_plan_settle(&plan, &b, &late, T0), FL_PUSH_NOTHING);
    assert_int_equal(plan.epoch, EPOCH + 51);
    assert_int_equal(deliver(T0), 2);
}

static void a_sidecar_that_never_agrees_becomes_a_failure_instead_of_a_loop(void **state)
{
    (void)state;
    static const int64_t epochs[] = {EPOCH + 1000, EPOCH, 0}; /* raised each time; ours; lower */
    for (size_t k = 0; k < FL_COUNTOF(epochs); k++) {
        int pushes = 0;
        set_up(NULL);
        fl_push_plan_leave(&plan, &b);
        fl_push_plan_changed(&plan, &group, true, T0);
        while (take(T0) == &a) {
            struct fl_push_report told = {.result = FL_PUSH_CONFLICT, .epoch = epochs[k], .seq = 5};
            told.epoch += k == 0 ? plan.epoch - EPOCH : 0;
            (void)fl_push_plan_settle(&plan, &a, &told, T0);
            assert_true(++pushes < 20);
        }
        assert_int_equal(pushes, FL_PUSH_CONFLICTS_MAX + 1);
        assert_int_equal(a.failures, 1);
        pushes = 0; /* after the back-off it may be told anew */
        const struct fl_push_report told = {
            .result = FL_PUSH_CONFLICT, .epoch = plan.epoch, .seq = plan.seq};
        assert_ptr_equal(take(T0 + 2000), &a);
        assert_int_equal(fl_push_plan_settle(&plan, &a, &told, T0 + 2000), FL_PUSH_SEQ_RAISED);
    }
}

static void nonsense_is_not_followed(void **state)
{
    (void)state;
    static const struct fl_push_report told[] = {
        {.result = FL_PUSH_CONFLICT, .epoch = INT64_MAX, .seq = 1},
        {.result = FL_PUSH_CONFLICT, .epoch = EPOCH, .seq = INT64_MAX},
        {.result = FL_PUSH_CONFLICT, .epoch = FL_PUSH_EPOCH_MAX, .seq = 1},
    };
    for (size_t i = 0; i < FL_COUNTOF(told); i++) {
        set_up(NULL);
        fl_push_plan_changed(&plan, &group, true, T0);
        assert_ptr_equal(take(T0), &a);
        assert_int_equal(fl_push_plan_settle(&plan, &a, &told[i], T0), FL_PUSH_FAILS);
        assert_int_equal(plan.epoch, EPOCH);
        assert_int_equal(plan.seq, 1);
    }
}

static void another_hash_is_pushed_over_once_and_then_only_with_the_next_edition(void **state)
{
    (void)state;
    const struct fl_push_report differs = {.result = FL_PUSH_OK, .hash_differs = true},
                                same = {.result = FL_PUSH_OK};
    fl_push_plan_leave(&plan, &b);
    fl_push_plan_changed(&plan, &group, true, T0);
    assert_ptr_equal(take(T0), &a);
    assert_int_equal(fl_push_plan_settle(&plan, &a, &differs, T0), FL_PUSH_DRIFTED);
    assert_ptr_equal(take(T0), &a);
    assert_int_equal(plan.seq, 2); /* the sidecar has acknowledged 1 */
    assert_int_equal(fl_push_plan_settle(&plan, &a, &differs, T0), FL_PUSH_NOTHING);
    assert_null(take(T0));
    assert_ptr_equal(take(T0 + INTERVAL), &a);
    assert_int_equal(fl_push_plan_settle(&plan, &a, &same, T0 + INTERVAL), FL_PUSH_NOTHING);
    assert_ptr_equal(take(T0 + 2 * INTERVAL), &a);
    assert_int_equal(fl_push_plan_settle(&plan, &a, &differs, T0 + 2 * INTERVAL), FL_PUSH_DRIFTED);
}

static void lag_is_the_age_of_the_oldest_change_a_sidecar_does_not_have(void **state)
{
    (void)state;
    fl_push_plan_leave(&plan, &b);
    fl_push_plan_changed(&plan, &group, true, T0);
    assert_ptr_equal(take(T0 + 5), &a);
    assert_int_equal(fl_push_plan_lag_ms(&a, T0 + 10), 10);
    fl_push_plan_changed(&plan, &group, true, T0 + 20); /* not in the push under way */
    fl_push_plan_changed(&plan, &group, true, T0 + 25);
    (void)end(&a, FL_PUSH_OK, T0 + 30);
    assert_int_equal(fl_push_plan_lag_ms(&a, T0 + 40), 20);
    assert_int_equal(deliver(T0 + 40), 1);
    assert_int_equal(fl_push_plan_lag_ms(&a, T0 + 50), 0);
    assert_int_equal(deliver(T0 + 40 + INTERVAL), 1); /* a refresh is no change */
    assert_int_equal(fl_push_plan_lag_ms(&a, T0 + 50 + INTERVAL), 0);
}

static void what_settles_is_not_acknowledged_by_a_push_of_before(void **state)
{
    (void)state;
    fl_push_plan_leave(&plan, &b);
    fl_push_plan_changed(&plan, &group, true, T0);
    assert_ptr_equal(take(T0), &a);
    (void)end(&a, FL_PUSH_FAILED, T0);
    int64_t again_ms = fl_push_plan_next_ms(&plan);
    fl_push_plan_changed(&plan, &group, false, again_ms - 10);
    assert_ptr_equal(take(again_ms), &a);
    (void)end(&a, FL_PUSH_OK, again_ms + 1);
    assert_int_equal(fl_push_plan_lag_ms(&a, again_ms + 2), 12);
    assert_int_equal(deliver(again_ms + 40), 1);
    assert_int_equal(fl_push_plan_lag_ms(&a, again_ms + 41), 0);
}

static void who_joins_late_is_sent_the_state_and_who_leaves_gives_its_place_free(void **state)
{
    (void)state;
    struct fl_push_target c;
    plan.concurrency = 1;
    fl_push_plan_changed(&plan, &group, true, T0);
    assert_ptr_equal(take(T0), &a);
    fl_push_plan_join(&plan, &group, &c, T0 + 1);
    fl_push_plan_leave(&plan, &b); /* waits for a place */
    fl_push_plan_leave(&plan, &a); /* in flight */
    assert_false(a.flying);
    assert_ptr_equal(take(T0 + 1), &c);
    assert_int_equal(plan.flying, 1);
    assert_int_equal(fl_push_plan_lag_ms(&c, T0 + 11), 10);
}

/* Any mix of events: at most one push each, at most `concurrency` in all, and in the end, when
 * everybody answers, everybody has the newest edition. */
static void whatever_happens_all_end_up_with_the_newest(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct fl_push_target t[5], *flying[5] = {NULL}, *next;
        struct fl_rng rng;
        int64_t now_ms = T0;
        unsigned count = 0;
        fl_rng_seed(&rng, seed);
        fl_push_plan_init(&plan, EPOCH, seed);
        fl_push_plan_enter(&plan, &group);
        plan.concurrency = 1 + fl_rng_below(&rng, 3);
        for (int i = 0; i < 5; i++) {
            fl_push_plan_join(&plan, &group, &t[i], now_ms);
        }
        for (int step = 0; step < 300; step++) {
            now_ms += fl_rng_below(&rng, 400);
            if (fl_rng_below(&rng, 4) == 0) {
                fl_push_plan_changed(&plan, &group, fl_rng_below(&rng, 2) == 0, now_ms);
            }
            fl_push_plan_run(&plan, now_ms);
            while ((next = fl_push_plan_take(&plan)) != NULL) {
                assert_true(count < plan.concurrency);
                flying[count++] = next;
            }
            if (count > 0 && fl_rng_below(&rng, 2) == 0) {
                struct fl_push_report r = {.result = (enum fl_push_result)fl_rng_below(&rng, 4),
                                           .epoch = plan.epoch + fl_rng_below(&rng, 2),
                                           .seq = plan.seq + fl_rng_below(&rng, 3),
                                           .hash_differs = fl_rng_below(&rng, 5) == 0};
                uint32_t at = fl_rng_below(&rng, count);
                (void)fl_push_plan_settle(&plan, flying[at], &r, now_ms);
                flying[at] = flying[--count];
            }
        }
        fl_push_plan_changed(&plan, &group, false, now_ms);
        while (count > 0) {
            (void)end(flying[--count], FL_PUSH_OK, now_ms);
        }
        for (int64_t end_ms = now_ms + 40000; now_ms < end_ms; now_ms += 50) {
            (void)deliver(now_ms);
        }
        for (int i = 0; i < 5; i++) {
            assert_int_equal(fl_push_plan_lag_ms(&t[i], now_ms), 0);
            assert_true(t[i].acked >= t[i].need && !t[i].flying);
        }
        assert_int_equal(plan.flying, 0);
        assert_int_equal(plan.flying_ailing, 0);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_sent_before_there_is_a_state),
        TEST(the_first_state_goes_out_at_once_to_all_under_one_pair),
        TEST(an_addition_settles_and_later_ones_do_not_move_it),
        TEST(a_removal_does_not_wait_and_takes_what_settles_with_it),
        TEST(settle_zero_means_at_once),
        TEST(one_push_is_in_flight_and_the_newest_follows_never_a_queue),
        TEST(concurrency_bounds_what_is_in_flight_first_come_first_served),
        TEST(the_silent_ones_take_a_quarter_of_the_places_and_let_the_others_by),
        TEST(an_unchanged_state_is_pushed_again_each_interval_with_a_new_seq),
        TEST(failures_back_off_from_1_to_30_seconds_with_jitter),
        TEST(a_change_does_not_cut_the_back_off_short_but_is_what_is_sent_then),
        TEST(the_third_failure_is_the_one_to_tell_and_success_forgets),
        TEST(a_higher_seq_of_our_epoch_is_gone_on_from_for_that_sidecar_alone),
        TEST(our_own_pair_told_back_is_stepped_over),
        TEST(a_higher_epoch_is_taken_over_and_one_added),
        TEST(a_sidecar_that_never_agrees_becomes_a_failure_instead_of_a_loop),
        TEST(nonsense_is_not_followed),
        TEST(another_hash_is_pushed_over_once_and_then_only_with_the_next_edition),
        TEST(lag_is_the_age_of_the_oldest_change_a_sidecar_does_not_have),
        TEST(what_settles_is_not_acknowledged_by_a_push_of_before),
        TEST(who_joins_late_is_sent_the_state_and_who_leaves_gives_its_place_free),
        TEST(whatever_happens_all_end_up_with_the_newest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
