/* push_plan: several configurations, leadership, eager targets, refreshes in waves */
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
#define MANY     1000

static struct fl_push_plan plan;
static struct fl_push_group g1, g2;
static struct fl_push_target a, b, c;

static const struct fl_push_report ok = {.result = FL_PUSH_OK}, failed = {.result = FL_PUSH_FAILED};

static void begin(int64_t epoch)
{
    fl_push_plan_init(&plan, epoch, 42);
    plan.concurrency = 8;
    fl_push_plan_enter(&plan, &g1);
    fl_push_plan_enter(&plan, &g2);
    fl_push_plan_join(&plan, &g1, &a, T0);
    fl_push_plan_join(&plan, &g1, &b, T0);
    fl_push_plan_join(&plan, &g2, &c, T0);
}

static int alone(void **state)
{
    (void)state;
    begin(EPOCH);
    return 0;
}

static int elected(void **state)
{
    (void)state;
    begin(0);
    return 0;
}

static struct fl_push_target *take(int64_t now_ms)
{
    fl_push_plan_run(&plan, now_ms);
    return fl_push_plan_take(&plan);
}

/* Everything that may be sent now, settled with 200. The number of pushes. */
static int deliver(int64_t now_ms)
{
    struct fl_push_target *t;
    int n = 0;
    while ((t = take(now_ms)) != NULL) {
        (void)fl_push_plan_settle(&plan, t, &ok, now_ms);
        n++;
    }
    return n;
}

static void told(struct fl_push_target *t, int64_t epoch, int64_t seq, enum fl_push_lesson want)
{
    const struct fl_push_report r = {.result = FL_PUSH_CONFLICT, .epoch = epoch, .seq = seq};
    assert_int_equal(fl_push_plan_settle(&plan, t, &r, T0), want);
}

/* ---- configurations ---- */

static void each_group_gets_its_own_and_seq_rises_over_all(void **state)
{
    (void)state;
    fl_push_plan_changed(&plan, &g1, false, T0);
    assert_ptr_equal(take(T0), &a);
    assert_ptr_equal(take(T0), &b);
    assert_null(take(T0)); /* the other group has no state yet */
    assert_int_equal(g1.seq, 1);
    fl_push_plan_changed(&plan, &g2, false, T0);
    assert_ptr_equal(take(T0), &c);
    assert_int_equal(g2.seq, 2);
    fl_push_plan_changed(&plan, &g1, true, T0);
    assert_int_equal(g1.seq, 3);
    assert_int_equal(g2.seq, 2);
}

static void each_group_settles_by_itself(void **state)
{
    (void)state;
    fl_push_plan_changed(&plan, &g1, false, T0);
    fl_push_plan_changed(&plan, &g2, false, T0);
    assert_int_equal(deliver(T0), 3);
    fl_push_plan_changed(&plan, &g1, false, T0 + 100);
    fl_push_plan_changed(&plan, &g2, false, T0 + 120);
    assert_int_equal(fl_push_plan_next_ms(&plan), T0 + 150);
    assert_int_equal(deliver(T0 + 149), 0);
    assert_int_equal(deliver(T0 + 150), 2);
    assert_int_equal(fl_push_plan_next_ms(&plan), T0 + 170);
    fl_push_plan_changed(&plan, &g1, true, T0 + 160); /* urgent, for its own group */
    assert_int_equal(deliver(T0 + 160), 2);
    assert_int_equal(deliver(T0 + 170), 1);
}

static void who_changes_its_configuration_keeps_what_is_known_and_gets_a_higher_pair(void **state)
{
    (void)state;
    fl_push_plan_changed(&plan, &g2, false, T0); /* seq 1 */
    fl_push_plan_changed(&plan, &g1, false, T0); /* seq 2 */
    assert_int_equal(deliver(T0), 3);
    fl_push_plan_changed(&plan, &g1, true, T0);
    assert_ptr_equal(take(T0), &a);
    (void)fl_push_plan_settle(&plan, &a, &failed, T0);
    fl_push_plan_move(&plan, &a, &g2, T0 + 10);
    assert_int_equal(a.failures, 1);
    assert_int_equal(deliver(T0 + 10), 1); /* b: the failure of a still counts */
    assert_int_equal(fl_push_plan_lag_ms(&a, T0 + 30), 20);
    assert_int_equal(deliver(T0 + 2000), 1); /* c has nothing new */
    assert_true(g2.seq > 3);
    assert_int_equal(a.acked, g2.edition);
    assert_int_equal(fl_push_plan_lag_ms(&a, T0 + 3000), 0);
    assert_int_equal(g1.count, 1);
    assert_int_equal(g2.count, 2);
}

static void a_push_in_flight_lands_after_a_move_and_the_new_state_follows(void **state)
{
    (void)state;
    fl_push_plan_changed(&plan, &g2, false, T0);
    assert_int_equal(deliver(T0), 1);
    fl_push_plan_changed(&plan, &g1, false, T0);
    assert_ptr_equal(take(T0), &a);
    fl_push_plan_move(&plan, &a, &g2, T0 + 1);
    assert_ptr_equal(take(T0 + 1), &b);
    assert_null(take(T0 + 1)); /* one in flight */
    (void)fl_push_plan_settle(&plan, &a, &ok, T0 + 2);
    assert_int_equal(fl_push_plan_lag_ms(&a, T0 + 3), 2);
    assert_ptr_equal(take(T0 + 2), &a);
    assert_int_equal(a.sent, g2.edition);
}

static void a_move_of_many_makes_few_editions(void **state)
{
    (void)state;
    static struct fl_push_target t[MANY];
    for (int i = 0; i < MANY; i++) {
        fl_push_plan_join(&plan, &g1, &t[i], T0);
    }
    fl_push_plan_changed(&plan, &g2, true, T0);
    fl_push_plan_changed(&plan, &g1, true, T0);
    (void)deliver(T0);
    uint64_t before = plan.edition;
    for (int i = 0; i < MANY; i++) {
        fl_push_plan_move(&plan, &t[i], &g2, T0 + 1);
    }
    assert_int_equal(plan.edition, before + 1);
    assert_int_equal(deliver(T0 + 1), MANY);
}

static void into_a_configuration_without_a_state_nothing_is_sent_until_it_has_one(void **state)
{
    (void)state;
    fl_push_plan_changed(&plan, &g1, false, T0);
    assert_int_equal(deliver(T0), 2);
    fl_push_plan_move(&plan, &a, &g2, T0 + 1);
    assert_int_equal(deliver(T0 + 1), 0);
    assert_int_equal(fl_push_plan_lag_ms(&a, T0 + 100), 0); /* nothing is known to be lacking */
    fl_push_plan_changed(&plan, &g2, false, T0 + 100);
    assert_int_equal(deliver(T0 + 100), 2);
}

static void who_told_a_pair_is_overtaken_without_an_edition_for_each(void **state)
{
    (void)state;
    static struct fl_push_target t[8];
    fl_push_plan_leave(&plan, &a);
    fl_push_plan_leave(&plan, &b);
    for (int i = 0; i < 8; i++) {
        fl_push_plan_join(&plan, &g1, &t[i], T0);
    }
    fl_push_plan_changed(&plan, &g1, true, T0);
    while (take(T0) != NULL) {
    }
    for (int i = 0; i < 8; i++) {
        told(&t[i], EPOCH, 500, FL_PUSH_SEQ_RAISED);
    }
    assert_int_equal(plan.edition, 2);
    assert_int_equal(g1.seq, 501);
    assert_int_equal(deliver(T0), 8);
}

static void a_raised_epoch_goes_to_the_other_groups_with_their_next_edition(void **state)
{
    (void)state;
    fl_push_plan_changed(&plan, &g1, true, T0);
    fl_push_plan_changed(&plan, &g2, true, T0);
    assert_ptr_equal(take(T0), &a);
    told(&a, EPOCH + 5, 1, FL_PUSH_EPOCH_RAISED);
    assert_int_equal(g1.epoch, EPOCH + 6);
    assert_int_equal(g2.epoch, EPOCH);
    fl_push_plan_leave(&plan, &b);
    assert_ptr_equal(take(T0), &c);
    assert_ptr_equal(take(T0), &a);
    (void)fl_push_plan_settle(&plan, &a, &ok, T0);
    fl_push_plan_move(&plan, &a, &g2, T0); /* its sidecar knows the raised epoch */
    assert_int_equal(g2.epoch, EPOCH + 6);
}

/* ---- leadership ---- */

static void a_follower_sends_nothing_and_a_leader_everything(void **state)
{
    (void)state;
    fl_push_plan_changed(&plan, &g1, true, T0);
    fl_push_plan_changed(&plan, &g2, true, T0);
    fl_push_plan_eager(&plan, &a, true, T0);
    assert_null(take(T0));
    assert_null(take(T0 + 100 * INTERVAL));
    assert_true(fl_push_plan_next_ms(&plan) == INT64_MAX);
    assert_int_equal(fl_push_plan_lag_ms(&a, T0 + 1000), 0);
    assert_true(fl_push_plan_lead(&plan, 7, T0));
    assert_int_equal(deliver(T0), 3);
    assert_int_equal(g1.epoch, 7);
    assert_int_equal(g2.seq, 2);
    assert_int_equal(deliver(T0 + 1000), 1); /* the eager one */
}

static void what_is_in_flight_when_leadership_ends_was_never_sent(void **state)
{
    (void)state;
    assert_true(fl_push_plan_lead(&plan, 7, T0));
    fl_push_plan_changed(&plan, &g1, true, T0);
    assert_ptr_equal(take(T0), &a);
    fl_push_plan_follow(&plan);
    assert_false(a.flying);
    assert_int_equal(plan.flying, 0);
    assert_null(take(T0 + 100000)); /* b waited */
    fl_push_plan_changed(&plan, &g1, false, T0 + 1);
    fl_push_plan_move(&plan, &a, &g2, T0 + 2);
    assert_null(take(T0 + 100000));
    assert_true(fl_push_plan_next_ms(&plan) == INT64_MAX);
}

static void a_leader_again_goes_on_from_its_seq_or_begins_a_higher_epoch(void **state)
{
    (void)state;
    assert_true(fl_push_plan_lead(&plan, 7, T0));
    fl_push_plan_changed(&plan, &g1, true, T0);
    assert_int_equal(deliver(T0), 2);
    int64_t seq = plan.seq;
    fl_push_plan_follow(&plan);
    assert_true(fl_push_plan_lead(&plan, 7, T0 + 1)); /* nobody else has led meanwhile */
    assert_int_equal(deliver(T0 + 1), 2);
    assert_true(plan.seq > seq);
    fl_push_plan_follow(&plan);
    assert_true(fl_push_plan_lead(&plan, 9, T0 + 2));
    assert_int_equal(deliver(T0 + 2), 2);
    assert_int_equal(plan.epoch, 9);
    assert_int_equal(plan.seq, 1);
    fl_push_plan_follow(&plan);
    assert_false(fl_push_plan_lead(&plan, 8, T0 + 3)); /* sidecars would refuse it */
    assert_int_equal(deliver(T0 + 3), 0);
    assert_true(fl_push_plan_lead(&plan, 9, T0 + 4));
    assert_true(fl_push_plan_lead(&plan, 9, T0 + 4)); /* said twice changes nothing */
    assert_int_equal(deliver(T0 + 4), 2);
}

static void a_higher_epoch_is_met_and_not_gone_above_before_the_election_raises(void **state)
{
    (void)state;
    assert_true(fl_push_plan_lead(&plan, 7, T0));
    fl_push_plan_changed(&plan, &g1, true, T0);
    assert_ptr_equal(take(T0), &a);
    assert_ptr_equal(take(T0), &b);
    told(&a, 50, 3, FL_PUSH_FAILS);
    told(&b, 40, 3, FL_PUSH_FAILS);
    assert_int_equal(plan.epoch, 7);
    assert_int_equal(plan.met_epoch, 50);
    assert_null(take(T0 + 900));
    assert_true(fl_push_plan_lead(&plan, 51, T0 + 900));
    assert_int_equal(plan.met_epoch, 0);
    assert_int_equal(deliver(T0 + 900), 2); /* at once, whatever their back-off was */
    assert_int_equal(g1.epoch, 51);
    assert_int_equal(g1.seq, 1);
}

static void an_epoch_beyond_belief_is_not_met(void **state)
{
    (void)state;
    plan.epoch_max = 1000;
    assert_true(fl_push_plan_lead(&plan, 7, T0));
    fl_push_plan_changed(&plan, &g1, true, T0);
    assert_ptr_equal(take(T0), &a);
    told(&a, 1000, 1, FL_PUSH_FAILS);
    assert_int_equal(plan.met_epoch, 0);
}

static void a_push_of_before_a_raise_lands_and_is_followed_by_the_raised_one(void **state)
{
    (void)state;
    assert_true(fl_push_plan_lead(&plan, 7, T0));
    fl_push_plan_changed(&plan, &g1, true, T0);
    assert_ptr_equal(take(T0), &a);
    assert_true(fl_push_plan_lead(&plan, 9, T0));
    assert_ptr_equal(take(T0), &b);
    (void)fl_push_plan_settle(&plan, &a, &ok, T0);
    assert_ptr_equal(take(T0), &a);
    assert_int_equal(a.sent, g1.edition);
    told(&b, 8, 1, FL_PUSH_NOTHING); /* a leader between */
    assert_ptr_equal(take(T0), &b);
    assert_int_equal(g1.epoch, 9);
}

/* ---- eager ---- */

static void an_eager_one_is_pushed_to_every_second_until_cleared(void **state)
{
    (void)state;
    fl_push_plan_changed(&plan, &g1, true, T0);
    assert_int_equal(deliver(T0), 2);
    fl_push_plan_eager(&plan, &a, true, T0);
    fl_push_plan_eager(&plan, &a, true, T0 + 500); /* said twice moves nothing */
    for (int i = 1; i <= 5; i++) {
        int64_t seq = plan.seq;
        assert_int_equal(deliver(T0 + 1000 * i - 1), 0);
        assert_int_equal(deliver(T0 + 1000 * i), 1);
        assert_int_equal(plan.seq, seq + 1);
        assert_int_equal(a.acked, g1.edition);
    }
    fl_push_plan_eager(&plan, &a, false, T0 + 5500);
    assert_int_equal(deliver(T0 + 6000), 0);
    assert_int_equal(fl_push_plan_next_ms(&plan), T0 + INTERVAL);
    assert_int_equal(deliver(T0 + INTERVAL), 2);
}

static void eager_ones_of_a_group_share_an_edition(void **state)
{
    (void)state;
    fl_push_plan_changed(&plan, &g1, true, T0);
    fl_push_plan_changed(&plan, &g2, true, T0);
    assert_int_equal(deliver(T0), 3);
    fl_push_plan_eager(&plan, &a, true, T0);
    fl_push_plan_eager(&plan, &b, true, T0 + 300);
    fl_push_plan_eager(&plan, &c, true, T0 + 600);
    uint64_t before = plan.edition;
    assert_int_equal(deliver(T0 + 1000), 3);
    assert_int_equal(plan.edition, before + 2); /* two groups */
}

static void an_eager_one_that_fails_is_tried_about_every_second(void **state)
{
    (void)state;
    int64_t now_ms = T0;
    fl_push_plan_changed(&plan, &g2, true, T0);
    assert_ptr_equal(take(T0), &c);
    (void)fl_push_plan_settle(&plan, &c, &failed, T0);
    for (int i = 0; i < 4; i++, now_ms += 60000) {
        assert_ptr_equal(take(now_ms + 60000), &c);
        (void)fl_push_plan_settle(&plan, &c, &failed, now_ms + 60000);
    }
    assert_true(c.not_before_ms - now_ms > 8000);
    fl_push_plan_eager(&plan, &c, true, now_ms); /* its gate counts from now */
    assert_null(take(now_ms + 999));
    for (int i = 0; i < 10; i++) {
        now_ms += 1500;
        assert_ptr_equal(take(now_ms), &c);
        (void)fl_push_plan_settle(&plan, &c, &failed, now_ms);
    }
}

static void who_leaves_is_eager_no_more(void **state)
{
    (void)state;
    fl_push_plan_changed(&plan, &g1, true, T0);
    fl_push_plan_eager(&plan, &a, true, T0);
    assert_int_equal(deliver(T0), 2);
    fl_push_plan_leave(&plan, &a);
    assert_int_equal(deliver(T0 + 1000), 0);
}

/* ---- refreshes ---- */

/* Runs a plan with many targets for `cycles` intervals; the longest that anybody waited, and the
 * most pushes within one tick of 10 ms. */
static void run_many(struct fl_push_target *t, int n, int64_t from_ms, int64_t until_ms,
                     int64_t *last, int64_t *ret_gap_ms, int *ret_burst)
{
    for (int64_t now_ms = from_ms; now_ms < until_ms; now_ms += 10) {
        struct fl_push_target *one;
        int burst = 0;
        while ((one = take(now_ms)) != NULL) {
            (void)fl_push_plan_settle(&plan, one, &ok, now_ms);
            int i = (int)(one - t);
            assert_in_range(i, 0, n - 1);
            *ret_gap_ms = now_ms - last[i] > *ret_gap_ms ? now_ms - last[i] : *ret_gap_ms;
            last[i] = now_ms;
            burst++;
        }
        *ret_burst = burst > *ret_burst ? burst : *ret_burst;
    }
    for (int i = 0; i < n; i++) {
        *ret_gap_ms = until_ms - last[i] > *ret_gap_ms ? until_ms - last[i] : *ret_gap_ms;
    }
}

static void many_are_refreshed_in_waves_and_nobody_waits_longer_than_the_interval(void **state)
{
    (void)state;
    static struct fl_push_target t[MANY];
    static int64_t last[MANY];
    int64_t gap_ms = 0;
    int burst = 0;
    fl_push_plan_leave(&plan, &a);
    fl_push_plan_leave(&plan, &b);
    fl_push_plan_leave(&plan, &c);
    for (int i = 0; i < MANY; i++) {
        fl_push_plan_join(&plan, i % 3 ? &g1 : &g2, &t[i], T0);
        last[i] = T0;
    }
    fl_push_plan_changed(&plan, &g1, true, T0);
    fl_push_plan_changed(&plan, &g2, true, T0);
    assert_int_equal(deliver(T0), MANY);
    uint64_t before = plan.edition;
    run_many(t, MANY, T0 + 10, T0 + 3 * INTERVAL, last, &gap_ms, &burst);
    assert_in_range(gap_ms, INTERVAL / 2, INTERVAL + 10);
    assert_in_range(burst, 1, FL_PUSH_WAVE);
    assert_in_range(plan.edition - before, 3 * 16, 3 * 19); /* 16 waves a round, few are of two */
    /* a change of one group is a refresh of it; the others wait no longer for that */
    gap_ms = burst = 0;
    fl_push_plan_changed(&plan, &g1, true, T0 + 3 * INTERVAL);
    run_many(t, MANY, T0 + 3 * INTERVAL, T0 + 5 * INTERVAL, last, &gap_ms, &burst);
    assert_in_range(gap_ms, INTERVAL / 2, INTERVAL + 10);
}

static void many_that_come_later_wait_no_longer_than_the_interval(void **state)
{
    (void)state;
    static struct fl_push_target t[MANY];
    static int64_t last[MANY];
    int64_t gap_ms = 0;
    int burst = 0;
    fl_push_plan_leave(&plan, &b);
    fl_push_plan_changed(&plan, &g1, true, T0);
    assert_int_equal(deliver(T0), 1);
    fl_push_plan_leave(&plan, &a);
    for (int i = 0; i < MANY; i++) {
        fl_push_plan_join(&plan, &g1, &t[i], T0 + i);
        last[i] = T0 + i;
    }
    run_many(t, MANY, T0 + MANY, T0 + 3 * INTERVAL, last, &gap_ms, &burst);
    assert_in_range(gap_ms, INTERVAL / 2, INTERVAL + 10);
}

static void a_shorter_interval_is_kept_from_now_on(void **state)
{
    (void)state;
    fl_push_plan_changed(&plan, &g1, true, T0);
    assert_int_equal(deliver(T0), 2);
    fl_push_plan_set_interval(&plan, 2000, T0 + 100);
    assert_int_equal(deliver(T0 + 2100), 2);
    assert_int_equal(deliver(T0 + 4100), 2);
}

static void a_change_goes_before_refreshes_that_wait(void **state)
{
    (void)state;
    plan.concurrency = 1;
    fl_push_plan_changed(&plan, &g1, true, T0);
    fl_push_plan_changed(&plan, &g2, true, T0);
    assert_int_equal(deliver(T0), 3);
    assert_ptr_equal(take(T0 + INTERVAL), &a);
    fl_push_plan_changed(&plan, &g2, true, T0 + INTERVAL);
    (void)fl_push_plan_settle(&plan, &a, &ok, T0 + INTERVAL);
    assert_ptr_equal(take(T0 + INTERVAL), &c); /* b waits only for a refresh */
}

#define ALONE(name)   cmocka_unit_test_setup(name, alone)
#define ELECTED(name) cmocka_unit_test_setup(name, elected)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ALONE(each_group_gets_its_own_and_seq_rises_over_all),
        ALONE(each_group_settles_by_itself),
        ALONE(who_changes_its_configuration_keeps_what_is_known_and_gets_a_higher_pair),
        ALONE(a_push_in_flight_lands_after_a_move_and_the_new_state_follows),
        ALONE(a_move_of_many_makes_few_editions),
        ALONE(into_a_configuration_without_a_state_nothing_is_sent_until_it_has_one),
        ALONE(who_told_a_pair_is_overtaken_without_an_edition_for_each),
        ALONE(a_raised_epoch_goes_to_the_other_groups_with_their_next_edition),
        ELECTED(a_follower_sends_nothing_and_a_leader_everything),
        ELECTED(what_is_in_flight_when_leadership_ends_was_never_sent),
        ELECTED(a_leader_again_goes_on_from_its_seq_or_begins_a_higher_epoch),
        ELECTED(a_higher_epoch_is_met_and_not_gone_above_before_the_election_raises),
        ELECTED(an_epoch_beyond_belief_is_not_met),
        ELECTED(a_push_of_before_a_raise_lands_and_is_followed_by_the_raised_one),
        ALONE(an_eager_one_is_pushed_to_every_second_until_cleared),
        ALONE(eager_ones_of_a_group_share_an_edition),
        ALONE(an_eager_one_that_fails_is_tried_about_every_second),
        ALONE(who_leaves_is_eager_no_more),
        ALONE(many_are_refreshed_in_waves_and_nobody_waits_longer_than_the_interval),
        ALONE(many_that_come_later_wait_no_longer_than_the_interval),
        ALONE(a_shorter_interval_is_kept_from_now_on),
        ALONE(a_change_goes_before_refreshes_that_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
