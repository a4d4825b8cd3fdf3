#include "tests/unit/controller/decide/lease_kit.h"

/* --- leaders --- */

static void a_leader_renews_with_its_epoch_and_the_time_it_acquired(void **state)
{
    (void)state;
    lead();
    int64_t acquired = call.record.acquire_us;
    for (int64_t now = T0 + 2000; now < T0 + 100000; now += 2000) {
        assert_int_equal(fl_lease_next_ms(&l), now);
        takes(FL_LEASE_PUT, now);
        assert_int_equal(call.record.transitions, 8);
        assert_int_equal(call.record.acquire_us, acquired);
        assert_int_equal(call.record.renew_us, WALL + now * 1000);
        written(now + 700);
        assert_int_equal(epoch(now + 700), 8);
    }
}

static void without_success_a_term_ends_ten_seconds_after_the_last_write_was_sent(void **state)
{
    (void)state; /* noobaa #9765: calls end within the deadline */
    lead();
    int64_t now = T0 + 2000;
    while (take(now)) {
        assert_in_range(call.timeout_ms, 1, FL_LEASE_CALL_MS);
        assert_true(now + call.timeout_ms <= T0 + FL_LEASE_RENEW_MS);
        assert_int_equal(epoch(now), 8);
        answer(FL_LEASE_FAILED, now += call.timeout_ms);
        if (now == T0 + FL_LEASE_RENEW_MS) {
            break;
        }
        now = fl_lease_next_ms(&l) > now ? fl_lease_next_ms(&l) : now;
    }
    assert_int_equal(now, T0 + FL_LEASE_RENEW_MS);
    assert_int_equal(epoch(now), 0);
    now = fl_lease_next_ms(&l) > now ? fl_lease_next_ms(&l) : now;
    takes(FL_LEASE_GET, now); /* a candidate like any other */
    answer_with(record("me_1", 8, 1), now);
    takes(FL_LEASE_PUT, now);
    assert_int_equal(call.record.transitions, 9); /* the same process, another term */
    written(now);
    assert_int_equal(epoch(now), 9);
}

static void a_renewal_whose_answer_was_lost_is_found_and_renewed_again(void **state)
{
    (void)state;
    lead();
    takes(FL_LEASE_PUT, T0 + 2000);
    struct fl_lease_record r = call.record;
    answer(FL_LEASE_FAILED, T0 + 5000);
    takes(FL_LEASE_GET, T0 + 5000);
    answer_with(r, T0 + 5010);
    assert_int_equal(epoch(T0 + 9999), 8);
    assert_int_equal(epoch(T0 + 10000), 0); /* reading it is no proof that it counts from now */
    takes(FL_LEASE_PUT, T0 + 5010);
    written(T0 + 5020);
    assert_int_equal(epoch(T0 + 15009), 8);
    assert_int_equal(epoch(T0 + 15010), 0);
}

static void failures_that_come_fast_do_not_make_it_busy(void **state)
{
    (void)state;
    lead();
    int calls = 0;
    for (int64_t now = T0 + 2000; now < T0 + 9990;) {
        calls += 2;
        takes(FL_LEASE_PUT, now);
        answer(FL_LEASE_FAILED, now);
        takes(FL_LEASE_GET, now);
        answer(FL_LEASE_FAILED, now);
        now = waits(now, 2000, 2000);
    }
    assert_int_equal(calls, 8);
}

static void a_late_renewal_belongs_to_no_term(void **state)
{
    (void)state;
    lead();
    takes(FL_LEASE_PUT, T0 + 2000);
    written(T0 + 30000); /* paused for 28 s; the renewal did arrive */
    assert_int_equal(epoch(T0 + 30000), 0);
    takes(FL_LEASE_PUT, T0 + 30000);
    assert_int_equal(call.record.transitions, 9);
}

static void a_renewal_of_a_term_that_is_over_does_not_bring_it_back(void **state)
{
    (void)state;
    lead();
    takes(FL_LEASE_PUT, T0 + 9500);
    assert_int_equal(call.timeout_ms, 500);
    written(T0 + 10100); /* in time for others, but somebody was told already that it is over */
    assert_int_equal(epoch(T0 + 10100), 0);
    takes(FL_LEASE_PUT, T0 + 10100);
    assert_int_equal(call.record.transitions, 9);
}

static void who_was_paused_knows_by_the_clock_alone(void **state)
{
    (void)state;
    lead();
    assert_int_equal(epoch(T0 + 9999), 8);
    assert_int_equal(epoch(T0 + 30000), 0); /* before any call of run */
    takes(FL_LEASE_GET, T0 + 30000);
}

static void a_strange_holder_ends_the_term_at_once(void **state)
{
    (void)state;
    lead();
    takes(FL_LEASE_PUT, T0 + 2000);
    answer(FL_LEASE_CONFLICT, T0 + 2000);
    assert_int_equal(epoch(T0 + 2000), 8);
    takes(FL_LEASE_GET, T0 + 2000);
    answer_with(record("somebody", 8, 1), T0 + 2010);
    assert_int_equal(epoch(T0 + 2010), 0);
    int64_t now = waits(T0 + 2010, 2000, 4400);
    takes(FL_LEASE_GET, now);
    answer_with(record("somebody", 8, 1), now);
    assert_true(take(T0 + 17010));
    answer_with(record("somebody", 8, 1), T0 + 17010);
    takes(FL_LEASE_PUT, T0 + 17010);
    assert_int_equal(call.record.transitions, 9);
}

static void a_holder_that_was_emptied_by_hand_lets_others_go_first(void **state)
{
    (void)state;
    lead();
    takes(FL_LEASE_PUT, T0 + 2000);
    answer(FL_LEASE_CONFLICT, T0 + 2000);
    takes(FL_LEASE_GET, T0 + 2000);
    answer_with(record("", 8, 1), T0 + 2000);
    assert_int_equal(epoch(T0 + 2000), 0);
    (void)waits(T0 + 2000, 2000, 4400);
}

static void a_conflict_over_a_label_is_only_a_newer_version(void **state)
{
    (void)state;
    lead();
    struct fl_lease_record r = call.record;
    takes(FL_LEASE_PUT, T0 + 2000);
    answer(FL_LEASE_CONFLICT, T0 + 2000);
    takes(FL_LEASE_GET, T0 + 2000);
    answer_with(r, T0 + 2000);
    takes(FL_LEASE_PUT, T0 + 2000);
    written(T0 + 2000);
    assert_int_equal(epoch(T0 + 2000), 8);
}

/* Answers that contradict each other, as a broken proxy gives them, for 20 s. */
static int calls_of_a_broken_server(int64_t from_ms)
{
    int calls = 0;
    int64_t now = from_ms;
    while (now < from_ms + 20000) {
        if (!take(now)) {
            now = fl_lease_next_ms(&l) > now ? fl_lease_next_ms(&l) : now + 1;
            continue;
        }
        calls++;
        if (call.step == FL_LEASE_GET) {
            answer_with(record("me_1", 8, 1), now);
        } else {
            answer(FL_LEASE_CONFLICT, now);
        }
    }
    return calls;
}

static void a_server_that_contradicts_itself_is_not_asked_without_end(void **state)
{
    (void)state;
    lead();
    assert_in_range(calls_of_a_broken_server(T0 + 2000), 20, 11 * FL_LEASE_ROUND_MAX);
    assert_int_equal(epoch(T0 + 22000), 0);
    int calls = 0;
    for (takes(FL_LEASE_GET, T0 + 30000); calls < 100; calls++) {
        answer(call.step == FL_LEASE_GET ? FL_LEASE_GONE : FL_LEASE_CONFLICT, T0 + 30000);
        if (!take(T0 + 30000)) {
            break;
        }
    }
    assert_true(calls <= FL_LEASE_ROUND_MAX);
}

static void a_lease_deleted_under_its_leader_is_made_anew_with_the_same_epoch(void **state)
{
    (void)state;
    lead();
    int64_t acquired = call.record.acquire_us;
    takes(FL_LEASE_PUT, T0 + 2000);
    answer(FL_LEASE_GONE, T0 + 2000);
    takes(FL_LEASE_POST, T0 + 2000);
    assert_string_equal(call.record.holder, "me_1");
    assert_int_equal(call.record.transitions, 8);
    assert_int_equal(call.record.acquire_us, acquired);
    written(T0 + 2010);
    assert_int_equal(epoch(T0 + 11999), 8);
    assert_int_equal(epoch(T0 + 12000), 0);
}

static void a_lease_deleted_under_its_leader_and_made_by_another_ends_the_term(void **state)
{
    (void)state;
    lead();
    takes(FL_LEASE_PUT, T0 + 2000);
    answer(FL_LEASE_GONE, T0 + 2000);
    takes(FL_LEASE_POST, T0 + 2000);
    answer(FL_LEASE_CONFLICT, T0 + 2000);
    takes(FL_LEASE_GET, T0 + 2000);
    answer_with(record("", 0, 0), T0 + 2000);
    assert_int_equal(epoch(T0 + 2000), 0);
    assert_true(take(T0 + 17000));
    answer_with(record("", 0, 0), T0 + 17000);
    takes(FL_LEASE_PUT, T0 + 17000);
    assert_int_equal(call.record.transitions, 9); /* not below the one it had */
}

static void a_deleted_lease_that_cannot_be_made_is_asked_for_again(void **state)
{
    (void)state;
    lead();
    takes(FL_LEASE_PUT, T0 + 2000);
    answer(FL_LEASE_GONE, T0 + 2000);
    takes(FL_LEASE_POST, T0 + 2000);
    answer(FL_LEASE_FAILED, T0 + 2500); /* perhaps it was made */
    assert_int_equal(waits(T0 + 2500, 1500, 1500), T0 + 4000);
    takes(FL_LEASE_GET, T0 + 4000);
    answer_with(record("me_1", 8, 1), T0 + 4000);
    takes(FL_LEASE_PUT, T0 + 4000);
    assert_int_equal(call.record.transitions, 8);
}

/* --- epochs --- */

static void a_leader_told_of_a_higher_epoch_goes_above_it_at_once(void **state)
{
    (void)state;
    lead();
    assert_true(fl_lease_raise(&l, 1800000000, T0 + 100)); /* of a time without a cluster */
    assert_int_equal(epoch(T0 + 100), 8);
    takes(FL_LEASE_PUT, T0 + 100);
    assert_int_equal(call.record.transitions, 1800000001);
    assert_true(fl_lease_raise(&l, 1800000005, T0 + 110)); /* another one, meanwhile */
    written(T0 + 120);
    assert_int_equal(epoch(T0 + 120), 1800000001);
    takes(FL_LEASE_PUT, T0 + 120);
    assert_int_equal(call.record.transitions, 1800000006);
    written(T0 + 130);
    assert_int_equal(epoch(T0 + 130), 1800000006);
    (void)waits(T0 + 130, 1990, 1990);
}

static void a_raise_whose_answer_was_lost_is_never_taken_back(void **state)
{
    (void)state;
    lead();
    assert_true(fl_lease_raise(&l, 20, T0 + 100));
    takes(FL_LEASE_PUT, T0 + 100);
    struct fl_lease_record r = call.record;
    answer(FL_LEASE_FAILED, T0 + 200);
    assert_int_equal(epoch(T0 + 200), 8);
    takes(FL_LEASE_GET, T0 + 200);
    answer_with(r, T0 + 200);
    takes(FL_LEASE_PUT, T0 + 200);
    assert_int_equal(call.record.transitions, 22);
}

static void what_is_told_twice_or_is_lower_changes_nothing(void **state)
{
    (void)state;
    lead();
    assert_true(fl_lease_raise(&l, 8, T0 + 100));
    assert_true(fl_lease_raise(&l, 3, T0 + 100));
    assert_int_equal(waits(T0 + 100, 1900, 1900), T0 + 2000);
}

static void nonsense_is_not_followed(void **state)
{
    (void)state;
    lead();
    assert_false(fl_lease_raise(&l, INT32_MAX, T0 + 100));
    assert_false(fl_lease_raise(&l, INT64_MAX, T0 + 100));
    assert_false(fl_lease_raise(&l, 0, T0 + 100));
    assert_false(fl_lease_raise(&l, -5, T0 + 100));
    assert_int_equal(waits(T0 + 100, 1900, 1900), T0 + 2000);
}

static void a_candidate_told_of_an_epoch_starts_above_it(void **state)
{
    (void)state;
    takes(FL_LEASE_GET, T0);
    assert_true(fl_lease_raise(&l, 99, T0));
    answer_with(record("", 7, 0), T0);
    takes(FL_LEASE_PUT, T0);
    assert_int_equal(call.record.transitions, 100);
}

static void transitions_lowered_by_hand_are_lifted_again(void **state)
{
    (void)state;
    lead();
    takes(FL_LEASE_PUT, T0 + 2000);
    answer(FL_LEASE_CONFLICT, T0 + 2000);
    takes(FL_LEASE_GET, T0 + 2000);
    answer_with(record("me_1", 0, 1), T0 + 2000);
    takes(FL_LEASE_PUT, T0 + 2000);
    assert_int_equal(call.record.transitions, 8);
}

static void negative_transitions_count_as_none(void **state)
{
    (void)state;
    takes(FL_LEASE_GET, T0);
    answer_with(record("", -3, 0), T0); /* as a new one */
    (void)waits(T0, 2000, 4400);
    assert_true(take(T0 + 15000));
    answer_with(record("", -3, 0), T0 + 15000);
    takes(FL_LEASE_PUT, T0 + 15000);
    assert_int_equal(call.record.transitions, 1);
}

static void the_end_of_the_int32_is_the_end(void **state)
{
    (void)state;
    takes(FL_LEASE_GET, T0);
    answer_with(record("", INT32_MAX - 1, 0), T0);
    takes(FL_LEASE_PUT, T0);
    assert_int_equal(call.record.transitions, INT32_MAX);
    written(T0);
    assert_int_equal(epoch(T0), INT32_MAX);
    takes(FL_LEASE_PUT, T0 + 2000); /* this term goes on */
    assert_int_equal(call.record.transitions, INT32_MAX);
    written(T0 + 2000);
    assert_true(fl_lease_spent(&l));
    assert_false(fl_lease_raise(&l, INT32_MAX, T0 + 2001));
    takes(FL_LEASE_GET, T0 + 20000); /* and no other one begins */
    answer_with(record("me_1", INT32_MAX, 1), T0 + 20000);
    (void)waits(T0 + 20000, 2000, 4400);
    assert_int_equal(epoch(T0 + 20000), 0);
}

static void a_leader_whose_transitions_are_spent_by_hand_stops(void **state)
{
    (void)state;
    lead();
    takes(FL_LEASE_PUT, T0 + 2000);
    answer(FL_LEASE_CONFLICT, T0 + 2000);
    takes(FL_LEASE_GET, T0 + 2000);
    answer_with(record("me_1", INT32_MAX, 1), T0 + 2000);
    assert_int_equal(epoch(T0 + 2000), 0);
    (void)waits(T0 + 2000, 2000, 4400);
}

/* --- clocks --- */

static void a_stopped_wall_clock_still_shows_life(void **state)
{
    (void)state;
    lead();
    int64_t last = call.record.renew_us;
    for (int64_t now = T0 + 2000; now < T0 + 20000; now += 2000) {
        assert_true(fl_lease_take(&l, now, WALL, &call));
        assert_true(call.record.renew_us != last); /* others see a change */
        last = call.record.renew_us;
        written(now);
        assert_int_equal(epoch(now), 8);
    }
}

/* --- the end --- */

static void a_leader_gives_back_what_it_has_and_leads_no_more_before_it_does(void **state)
{
    (void)state;
    lead();
    fl_lease_release(&l, T0 + 500);
    assert_int_equal(epoch(T0 + 500), 0);
    takes(FL_LEASE_PUT, T0 + 500);
    assert_int_equal(call.timeout_ms, FL_LEASE_RELEASE_MS);
    assert_string_equal(call.record.holder, "");
    assert_int_equal(call.record.duration_s, 1);
    assert_int_equal(call.record.transitions, 8);
    written(T0 + 510);
    assert_int_equal(l.step, FL_LEASE_END);
    assert_false(take(T0 + 20000));
    assert_true(fl_lease_next_ms(&l) == INT64_MAX);
}

static void a_candidate_has_nothing_to_give_back(void **state)
{
    (void)state;
    takes(FL_LEASE_GET, T0);
    answer_with(record("other", 7, 1), T0);
    fl_lease_release(&l, T0 + 500);
    assert_int_equal(l.step, FL_LEASE_END);
}

static void a_release_waits_for_the_write_that_is_under_way(void **state)
{
    (void)state;
    takes(FL_LEASE_GET, T0);
    answer_with(record("", 7, 0), T0);
    takes(FL_LEASE_PUT, T0);
    fl_lease_release(&l, T0 + 10);
    assert_false(take(T0 + 10));
    written(T0 + 20); /* we have it, and never led */
    assert_int_equal(epoch(T0 + 20), 0);
    takes(FL_LEASE_PUT, T0 + 20);
    assert_string_equal(call.record.holder, "");
    assert_int_equal(call.record.transitions, 8);
    answer(FL_LEASE_CONFLICT, T0 + 30);
    takes(FL_LEASE_GET, T0 + 30);
    answer_with(record("me_1", 8, 2), T0 + 40);
    takes(FL_LEASE_PUT, T0 + 40);
    answer(FL_LEASE_FAILED, T0 + 50);
    takes(FL_LEASE_GET, T0 + 50);
    answer_with(record("", 8, 3), T0 + 60); /* it had been carried out */
    assert_int_equal(l.step, FL_LEASE_END);
}

static void a_release_ends_in_time_whatever_happens(void **state)
{
    (void)state;
    lead();
    fl_lease_release(&l, T0 + 500);
    int64_t now = T0 + 500;
    int calls = 0;
    while (l.step != FL_LEASE_END) {
        if (take(now)) {
            assert_true(now + call.timeout_ms <= T0 + 2500);
            answer(FL_LEASE_FAILED, now += 20);
            calls++;
        } else {
            now = fl_lease_next_ms(&l);
            fl_lease_run(&l, now);
        }
    }
    assert_in_range(now, T0 + 2400, T0 + 2520);
    assert_in_range(calls, 5, 20);
}

static void a_release_with_a_call_that_hangs_ends_too(void **state)
{
    (void)state;
    lead();
    takes(FL_LEASE_PUT, T0 + 2000);
    fl_lease_release(&l, T0 + 2100);
    assert_int_equal(fl_lease_next_ms(&l), T0 + 4100);
    fl_lease_run(&l, T0 + 4100);
    assert_int_equal(l.step, FL_LEASE_END);
    written(T0 + 4200); /* too late to matter */
    assert_int_equal(l.step, FL_LEASE_END);
    assert_int_equal(epoch(T0 + 4200), 0);
}

static void a_deleted_lease_needs_no_release(void **state)
{
    (void)state;
    lead();
    fl_lease_release(&l, T0 + 500);
    takes(FL_LEASE_PUT, T0 + 500);
    answer(FL_LEASE_GONE, T0 + 500);
    assert_int_equal(l.step, FL_LEASE_END);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(without_success_a_term_ends_ten_seconds_after_the_last_write_was_sent),
        T(a_leader_renews_with_its_epoch_and_the_time_it_acquired),
        T(a_renewal_whose_answer_was_lost_is_found_and_renewed_again),
        T(failures_that_come_fast_do_not_make_it_busy),
        T(a_late_renewal_belongs_to_no_term),
        T(a_renewal_of_a_term_that_is_over_does_not_bring_it_back),
        T(who_was_paused_knows_by_the_clock_alone),
        T(a_strange_holder_ends_the_term_at_once),
        T(a_holder_that_was_emptied_by_hand_lets_others_go_first),
        T(a_conflict_over_a_label_is_only_a_newer_version),
        T(a_server_that_contradicts_itself_is_not_asked_without_end),
        T(a_lease_deleted_under_its_leader_is_made_anew_with_the_same_epoch),
        T(a_lease_deleted_under_its_leader_and_made_by_another_ends_the_term),
        T(a_deleted_lease_that_cannot_be_made_is_asked_for_again),
        T(a_leader_told_of_a_higher_epoch_goes_above_it_at_once),
        T(a_raise_whose_answer_was_lost_is_never_taken_back),
        T(what_is_told_twice_or_is_lower_changes_nothing),
        T(nonsense_is_not_followed),
        T(a_candidate_told_of_an_epoch_starts_above_it),
        T(transitions_lowered_by_hand_are_lifted_again),
        T(negative_transitions_count_as_none),
        T(the_end_of_the_int32_is_the_end),
        T(a_leader_whose_transitions_are_spent_by_hand_stops),
        T(a_stopped_wall_clock_still_shows_life),
        T(a_leader_gives_back_what_it_has_and_leads_no_more_before_it_does),
        T(a_candidate_has_nothing_to_give_back),
        T(a_release_waits_for_the_write_that_is_under_way),
        T(a_release_ends_in_time_whatever_happens),
        T(a_release_with_a_call_that_hangs_ends_too),
        T(a_deleted_lease_needs_no_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
