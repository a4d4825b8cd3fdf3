#include "tests/unit/controller/decide/lease_kit.h"

/* --- candidates --- */

static void a_released_lease_is_taken_at_once_one_epoch_higher(void **state)
{
    (void)state;
    takes(FL_LEASE_GET, T0);
    assert_int_equal(call.timeout_ms, FL_LEASE_CALL_MS);
    answer_with(record("", 7, 5), T0 + 10);
    takes(FL_LEASE_PUT, T0 + 10);
    assert_string_equal(call.record.holder, "me_1");
    assert_int_equal(call.record.transitions, 8);
    assert_int_equal(call.record.duration_s, 15);
    assert_int_equal(call.record.renew_us, WALL + (T0 + 10) * 1000);
    assert_int_equal(call.record.acquire_us, call.record.renew_us);
    assert_int_equal(epoch(T0 + 10), 0);
    written(T0 + 20);
    assert_int_equal(epoch(T0 + 20), 8);
    (void)waits(T0 + 20, 1990, 1990); /* 2 s after it was sent */
}

static void a_held_lease_is_left_alone_until_it_was_unchanged_for_its_own_duration(void **state)
{
    (void)state;
    struct fl_lease_record r = record("other", 3, WALL - 1000000000); /* looks long expired */
    int64_t now = T0, seen;
    r.duration_s = 40;
    takes(FL_LEASE_GET, now);
    answer_with(r, now += 100);
    for (seen = now; now < seen + 30000;) {
        now = waits(now, 2000, 4400);
        takes(FL_LEASE_GET, now);
        answer_with(r, now);
    }
    r.renew_us++; /* it lives */
    now = waits(now, 2000, 4400);
    takes(FL_LEASE_GET, now);
    answer_with(r, now);
    for (seen = now; now < seen + 40000;) {
        now = waits(now, 0, 4400);
        takes(FL_LEASE_GET, now);
        answer_with(r, now);
    }
    assert_in_range(now, seen + 40000, seen + 40200); /* not a whole retry later */
    takes(FL_LEASE_PUT, now);
    assert_int_equal(call.record.transitions, 4);
}

static void a_record_without_times_or_duration_is_held_like_any_other(void **state)
{
    (void)state; /* ray #63773: read as the epoch of 1970 it would be free */
    struct fl_lease_record r = record("other", 3, 0);
    int64_t now = T0;
    r.duration_s = 0;
    takes(FL_LEASE_GET, now);
    answer_with(r, now);
    while (now < T0 + 15000) {
        now = waits(now, 0, 4400);
        takes(FL_LEASE_GET, now);
        answer_with(r, now);
    }
    takes(FL_LEASE_PUT, now);
}

static void a_future_renew_time_holds_it_no_longer(void **state)
{
    (void)state; /* client-go #448, the other way round */
    struct fl_lease_record r = record("other", 3, WALL + INT64_C(86400000000));
    takes(FL_LEASE_GET, T0);
    answer_with(r, T0);
    assert_true(take(T0 + 15000));
    answer_with(r, T0 + 15000);
    takes(FL_LEASE_PUT, T0 + 15000);
}

static void an_own_record_of_a_lost_answer_is_taken_at_once_with_a_new_epoch(void **state)
{
    (void)state;
    takes(FL_LEASE_GET, T0);
    answer_with(record("", 7, 0), T0);
    takes(FL_LEASE_PUT, T0);
    struct fl_lease_record lost = call.record;
    answer(FL_LEASE_FAILED, T0 + 3000);
    assert_int_equal(epoch(T0 + 3000), 0);
    int64_t now = waits(T0 + 3000, 2000, 4400);
    takes(FL_LEASE_GET, now);
    (void)snprintf(lost.uid, sizeof(lost.uid), "u1");
    answer_with(lost, now);
    takes(FL_LEASE_PUT, now);
    assert_int_equal(call.record.transitions, 9);
}

static void who_loses_the_race_looks_who_won(void **state)
{
    (void)state;
    takes(FL_LEASE_GET, T0);
    answer_with(record("", 7, 0), T0);
    takes(FL_LEASE_PUT, T0);
    answer(FL_LEASE_CONFLICT, T0);
    takes(FL_LEASE_GET, T0);
    answer_with(record("other", 8, 1), T0);
    (void)waits(T0, 2000, 4400);
    assert_int_equal(epoch(T0), 0);
}

static void an_answer_that_comes_after_the_term_makes_no_leader(void **state)
{
    (void)state; /* the process was paused */
    takes(FL_LEASE_GET, T0);
    answer_with(record("", 7, 0), T0);
    takes(FL_LEASE_PUT, T0);
    written(T0 + 10000);
    assert_int_equal(epoch(T0 + 10000), 0);
    takes(FL_LEASE_PUT, T0 + 10000);
    assert_int_equal(call.record.transitions, 9);
    written(T0 + 10001);
    assert_int_equal(epoch(T0 + 10001), 9);
}

static void a_server_that_asks_for_time_gets_it_within_reason(void **state)
{
    (void)state;
    takes(FL_LEASE_GET, T0);
    fl_lease_answered(&l, FL_LEASE_FAILED, NULL, 7000, T0);
    (void)waits(T0, 7000, 7000);
    takes(FL_LEASE_GET, T0 + 7000);
    fl_lease_answered(&l, FL_LEASE_FAILED, NULL, 3600000, T0 + 7000);
    (void)waits(T0 + 7000, 15000, 15000);
}

/* --- a Lease that is not there --- */

static void without_a_usable_version_a_new_lease_is_taken_after_its_duration(void **state)
{
    (void)state;
    int64_t now = T0;
    takes(FL_LEASE_GET, now);
    answer(FL_LEASE_GONE, now);
    takes(FL_LEASE_POST, now);
    assert_string_equal(call.record.holder, "");
    assert_int_equal(call.record.transitions, 0);
    assert_int_equal(call.record.duration_s, 15);
    struct fl_lease_record made = call.record;
    written(now);
    (void)snprintf(made.uid, sizeof(made.uid), "u1");
    while (now < T0 + 15000) {
        now = waits(now, 0, 4400);
        takes(FL_LEASE_GET, now);
        answer_with(made, now);
    }
    assert_in_range(now, T0 + 15000, T0 + 15200);
    takes(FL_LEASE_PUT, now);
    assert_int_equal(call.record.transitions, 1);
    written(now);
    assert_int_equal(epoch(now), 1);
}

static void a_new_lease_that_is_another_one_starts_the_wait_again(void **state)
{
    (void)state;
    takes(FL_LEASE_GET, T0);
    answer_with(record("", 0, 0), T0);
    struct fl_lease_record again = record("", 0, 0); /* deleted and made between two looks */
    (void)snprintf(again.uid, sizeof(again.uid), "u2");
    int64_t now = waits(T0, 2000, 4400);
    takes(FL_LEASE_GET, now);
    answer_with(again, now);
    assert_true(take(T0 + 15000));
    answer_with(again, T0 + 15000);
    assert_false(take(now + 14999));
}

static void a_lease_that_another_one_made_meanwhile_is_read(void **state)
{
    (void)state;
    takes(FL_LEASE_GET, T0);
    answer(FL_LEASE_GONE, T0);
    takes(FL_LEASE_POST, T0);
    answer(FL_LEASE_CONFLICT, T0);
    takes(FL_LEASE_GET, T0);
}

static void a_missing_namespace_is_asked_for_at_the_usual_pace(void **state)
{
    (void)state;
    takes(FL_LEASE_GET, T0);
    answer(FL_LEASE_GONE, T0);
    takes(FL_LEASE_POST, T0);
    answer(FL_LEASE_GONE, T0);
    (void)waits(T0, 2000, 4400);
}

static void a_new_lease_starts_above_its_version(void **state)
{
    (void)state;
    takes(FL_LEASE_GET, T0);
    answer(FL_LEASE_GONE, T0);
    takes(FL_LEASE_POST, T0);
    assert_string_equal(call.record.holder, "");
    version = 48213;
    written(T0);
    takes(FL_LEASE_PUT, T0); /* nobody can lead with as high an epoch */
    assert_int_equal(call.record.transitions, 48214);
    version = 48214;
    written(T0);
    assert_int_equal(epoch(T0), 48214);
}

static void a_version_that_does_not_fit_counts_as_none(void **state)
{
    (void)state;
    version = (int64_t)FL_LEASE_RAISE_MAX + 1;
    takes(FL_LEASE_GET, T0);
    answer_with(record("", 0, 0), T0);
    (void)waits(T0, 2000, 4400);
    assert_true(take(T0 + 15000));
    answer_with(record("", 0, 0), T0 + 15000);
    takes(FL_LEASE_PUT, T0 + 15000);
    assert_int_equal(call.record.transitions, 1);
}

static void the_version_of_a_lease_that_had_holders_does_not_count(void **state)
{
    (void)state;
    version = 48213;
    takes(FL_LEASE_GET, T0);
    answer_with(record("", 7, 0), T0);
    takes(FL_LEASE_PUT, T0);
    assert_int_equal(call.record.transitions, 8);
}

static void a_new_lease_does_not_start_below_an_epoch_that_was_seen(void **state)
{
    (void)state;
    takes(FL_LEASE_GET, T0);
    answer_with(record("", 41, 1), T0);
    takes(FL_LEASE_PUT, T0);
    answer(FL_LEASE_GONE, T0);
    takes(FL_LEASE_POST, T0);
    version = 5; /* from a backup, say */
    written(T0);
    takes(FL_LEASE_PUT, T0);
    assert_int_equal(call.record.transitions, 42);
}

static void who_saw_it_held_lets_the_leader_make_a_deleted_lease_anew(void **state)
{
    (void)state;
    int64_t now = T0;
    version = 100;
    takes(FL_LEASE_GET, now);
    answer_with(record("other", 41, 1), now);
    while (now < T0 + 15000) {
        now = waits(now, 0, 4400);
        takes(FL_LEASE_GET, now);
        answer(FL_LEASE_GONE, now);
    }
    assert_int_equal(now, T0 + 15000);
    takes(FL_LEASE_POST, now);
    version = 120;
    written(now);
    takes(FL_LEASE_PUT, now);
    assert_int_equal(call.record.transitions, 121);
}

static void a_new_lease_of_another_candidate_does_not_free_one_that_was_held(void **state)
{
    (void)state;
    int64_t now = T0;
    version = 100;
    takes(FL_LEASE_GET, now);
    answer_with(record("other", 41, 1), now);
    while (now < T0 + 15000) {
        now = waits(now, 0, 4400);
        takes(FL_LEASE_GET, now);
        answer_with(record("", 0, 0), now);
    }
    takes(FL_LEASE_PUT, now);
    assert_int_equal(call.record.transitions, 101);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_released_lease_is_taken_at_once_one_epoch_higher),
        T(a_held_lease_is_left_alone_until_it_was_unchanged_for_its_own_duration),
        T(a_record_without_times_or_duration_is_held_like_any_other),
        T(a_future_renew_time_holds_it_no_longer),
        T(an_own_record_of_a_lost_answer_is_taken_at_once_with_a_new_epoch),
        T(who_loses_the_race_looks_who_won),
        T(an_answer_that_comes_after_the_term_makes_no_leader),
        T(a_server_that_asks_for_time_gets_it_within_reason),
        T(without_a_usable_version_a_new_lease_is_taken_after_its_duration),
        T(a_new_lease_that_is_another_one_starts_the_wait_again),
        T(a_lease_that_another_one_made_meanwhile_is_read),
        T(a_missing_namespace_is_asked_for_at_the_usual_pace),
        T(a_new_lease_starts_above_its_version),
        T(a_version_that_does_not_fit_counts_as_none),
        T(the_version_of_a_lease_that_had_holders_does_not_count),
        T(who_saw_it_held_lets_the_leader_make_a_deleted_lease_anew),
        T(a_new_lease_of_another_candidate_does_not_free_one_that_was_held),
        T(a_new_lease_does_not_start_below_an_epoch_that_was_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
