#include "controller/push/fanout.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <time.h>

#include "tests/unit/controller/push/fanout_bed.h"

#define EPOCH 1700000000

static int64_t met;
static unsigned met_calls, unreachable, recovered;
static char news_name[64], news_hint[256];

static void on_met(void *arg, int64_t higher)
{
    (void)arg;
    met = higher;
    met_calls++;
}

static void on_news(void *arg, enum fl_fanout_news what, const struct fl_fanout_view *who)
{
    (void)arg;
    unreachable += what == FL_FANOUT_UNREACHABLE;
    recovered += what == FL_FANOUT_RECOVERED;
    (void)snprintf(news_name, sizeof(news_name), "%s/%s", who->namespace, who->name);
    (void)snprintf(news_hint, sizeof(news_hint), "%s|%s", who->error->code, who->hint);
}

static int set_up(void **state)
{
    (void)state;
    met = 0;
    met_calls = unreachable = recovered = 0;
    open_bed(&(struct fl_fanout_conf){.epoch = EPOCH, .news = on_news});
    set_key(old_private);
    return 0;
}

static int set_up_elected(void **state)
{
    (void)state;
    met = 0;
    met_calls = unreachable = recovered = 0;
    open_bed(&(struct fl_fanout_conf){.elected = true, .epoch_met = on_met, .news = on_news});
    set_key(old_private);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_bed();
    return 0;
}

/* The back-off of a failed push is over. */
static void hurry(unsigned i)
{
    for (uint32_t k = 0; k < fanout->count; k++) {
        if (strcmp(fanout->sidecars[k]->address, listeners[i].address) == 0) {
            fanout->sidecars[k]->target.not_before_ms = 1;
            fanout->plan.wake_at_ms = 1;
            fl_fanout_drive_later(fanout);
        }
    }
}

/* ---- configurations ---- */

static void each_sidecar_gets_the_state_of_its_configuration_in_the_same_bytes(void **state)
{
    (void)state;
    put(0, "red");
    put(1, "red");
    put(2, "blue");
    put(3, "green");
    offer("red", "10.0.0.1", false);
    offer("blue", "10.0.0.2", false);
    UNTIL(view_of(0).acked_seq && view_of(1).acked_seq && view_of(2).acked_seq);
    rest(50);
    assert_true(has(0, "10.0.0.1") && has(2, "10.0.0.2"));
    assert_string_equal(listeners[0].body, listeners[1].body);
    assert_string_equal(listeners[0].id, "uid-0"); /* signed for each */
    assert_string_equal(listeners[1].id, "uid-1");
    assert_int_equal(listeners[3].pushes, 0); /* nothing is known of green */
    assert_int_equal(listeners[0].epoch, EPOCH);
    assert_int_not_equal(listeners[0].seq, listeners[2].seq);
    offer("blue", "10.0.0.3", true);
    UNTIL(has(2, "10.0.0.3"));
    rest(50);
    assert_int_equal(listeners[0].pushes, 1); /* a change of blue is none of red */
    struct fl_fanout_view v;
    fl_fanout_view(fanout, 2, &v);
    assert_string_equal(v.configuration, "blue");
    assert_string_equal(v.namespace, "shop");
    assert_int_equal(v.observation_count, 1);
    assert_string_equal(v.observations[0].peer, "10.0.0.1:1");
    assert_int_equal(v.observations[0].requests, 2);
}

static void a_sidecar_that_changes_its_configuration_keeps_what_is_known_of_it(void **state)
{
    (void)state;
    put(0, "red");
    put(1, "blue");
    offer("blue", "10.0.0.2", false);
    offer("red", "10.0.0.1", false);
    UNTIL(view_of(0).acked_seq && view_of(1).acked_seq);
    int64_t seq = view_of(0).acked_seq;
    put(0, "blue");
    assert_int_equal(view_of(0).acked_seq, seq);
    UNTIL(view_of(0).acked_seq > seq);
    assert_true(has(0, "10.0.0.2"));
    assert_null(fl_fanout_state(fanout, "red")); /* with its last target it went */
    assert_non_null(fl_fanout_state(fanout, "blue"));
    rest(50);
    assert_int_equal(listeners[1].pushes, 1);
}

static void
a_configuration_goes_with_its_last_target_or_by_a_list_that_does_not_name_it(void **state)
{
    (void)state;
    struct fl_fanout_target list[] = {target_of(0, "red"), target_of(1, "blue")};
    uint32_t targets = 0;
    size_t at = 0;
    offer("red", "10.0.0.1", false); /* before any target */
    offer("unused", "10.0.0.9", false);
    offer("", "10.0.0.8", false);
    assert_int_equal(fl_fanout_set_targets(fanout, list, 2), 0);
    assert_non_null(fl_fanout_state(fanout, "red"));
    assert_null(fl_fanout_state(fanout, "unused"));
    assert_non_null(fl_fanout_state(fanout, "")); /* always there */
    list[0].configuration = "blue";               /* red moves away and comes back in one list */
    list[1].configuration = "red";
    assert_int_equal(fl_fanout_set_targets(fanout, list, 2), 0);
    assert_non_null(fl_fanout_state(fanout, "red"));
    assert_true(fl_fanout_remove_target(fanout, list[1].address, list[1].id));
    assert_null(fl_fanout_state(fanout, "red"));
    assert_false(fl_fanout_remove_target(fanout, list[1].address, list[1].id));
    int seen = 0;
    for (const char *key; (key = fl_fanout_configuration(fanout, &at, &targets)) != NULL; seen++) {
        assert_int_equal(targets, strcmp(key, "blue") == 0);
    }
    assert_int_equal(seen, 2); /* "" and blue */
}

/* ---- targets ---- */

static void a_list_keeps_its_order_and_what_is_known_of_those_who_stay(void **state)
{
    (void)state;
    struct fl_fanout_target list[] = {target_of(0, ""), target_of(1, ""), target_of(2, ""),
                                      target_of(1, "")};
    struct fl_fanout_view v;
    assert_int_equal(fl_fanout_set_targets(fanout, list, 4), 0);
    assert_int_equal(fl_fanout_count(fanout), 3); /* one was named twice */
    offer("", "10.0.0.1", false);
    UNTIL(view_of(0).acked_seq && view_of(1).acked_seq && view_of(2).acked_seq);
    const struct fl_fanout_target next[] = {target_of(3, ""), target_of(2, ""), target_of(0, "")};
    assert_int_equal(fl_fanout_set_targets(fanout, next, 3), 0);
    for (uint32_t i = 0; i < 3; i++) {
        fl_fanout_glance(fanout, i, &v);
        assert_string_equal(v.address, next[i].address);
        assert_true((v.acked_seq > 0) == (i > 0));
    }
    UNTIL(view_of(3).acked_seq);
    rest(50);
    assert_int_equal(listeners[0].pushes, 1);
    assert_int_equal(listeners[1].pushes, 1);
}

static void it_hurries_while_a_change_waits_for_a_place(void **state)
{
    (void)state;
    fanout->plan.concurrency = 1;
    listeners[0].script = SILENT;
    put(0, "x");
    put(1, "x");
    offer("x", "10.0.0.1", true);
    UNTIL(listeners[0].pushes == 1);
    assert_true(fl_fanout_hurries(fanout));
    const struct fl_fanout_target t = target_of(0, "x");
    assert_true(fl_fanout_remove_target(fanout, t.address, t.id));
    UNTIL(has(1, "10.0.0.1"));
    assert_false(fl_fanout_hurries(fanout));
}

static void who_goes_while_pushed_to_is_broken_off(void **state)
{
    (void)state;
    listeners[0].script = SILENT;
    put(0, "");
    offer("", "10.0.0.1", false);
    UNTIL(listeners[0].pushes == 1);
    assert_true(fl_fanout_remove_target(fanout, listeners[0].address, "uid-0"));
    UNTIL(listeners[0].open == 0);
    assert_int_equal(fl_fanout_total(fanout, FL_PUSH_FAILED), 0);
}

static int64_t cpu_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* By comparing each with each it would be 25 million comparisons a time. */
static void a_list_of_five_thousand_is_cheap(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    static struct fl_fanout_target list[MANY + 1];
    static char texts[MANY + 1][2][48];
    for (int i = 0; i <= MANY; i++) {
        (void)snprintf(texts[i][0], sizeof(texts[i][0]), "10.%d.%d.1:8422", i / 250, i % 250);
        (void)snprintf(texts[i][1], sizeof(texts[i][1]), "5f0c7a52-41d1-4d3c-9a57-%012d", i);
        list[i] = (struct fl_fanout_target){texts[i][0], texts[i][1], "", "", "", "one", false};
    }
    assert_int_equal(fl_fanout_set_targets(fanout, list, MANY), 0);
    int64_t before = cpu_ms();
    for (int i = 0; i < 10; i++) { /* one comes, one goes */
        assert_int_equal(fl_fanout_set_targets(fanout, list, MANY + 1), 0);
        assert_int_equal(fl_fanout_set_targets(fanout, list + 1, MANY), 0);
    }
    assert_in_range(cpu_ms() - before, 0, 2000);
    before = cpu_ms();
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(fl_fanout_put_target(fanout, &list[0]), 0);
        assert_true(fl_fanout_remove_target(fanout, list[0].address, list[0].id));
    }
    assert_in_range(cpu_ms() - before, 0, 500);
    assert_int_equal(fl_fanout_set_targets(fanout, list, 0), 0);
    assert_int_equal(fl_fanout_count(fanout), 0);
}

/* ---- leadership ---- */

static void what_is_offered_in_the_turn_in_which_leadership_ends_does_not_leave(void **state)
{
    (void)state;
    put(0, "");
    fl_fanout_lead(fanout, 7);
    offer("", "10.0.0.1", true);
    fl_fanout_follow(fanout);
    rest(100);
    assert_int_equal(listeners[0].connections, 0);
    fl_fanout_lead(fanout, 8); /* once more, a turn later: the push has begun */
    offer("", "10.0.0.2", true);
    turn();
    fl_fanout_follow(fanout);
    rest(100);
    assert_int_equal(listeners[0].pushes, 0);
    assert_false(fl_fanout_leads(fanout));
}

static void what_is_in_flight_is_broken_off_when_leadership_ends(void **state)
{
    (void)state;
    listeners[0].script = SILENT;
    put(0, "");
    fl_fanout_lead(fanout, 7);
    offer("", "10.0.0.1", true);
    UNTIL(listeners[0].pushes == 1);
    fl_fanout_follow(fanout);
    UNTIL(listeners[0].open == 0);
    offer("", "10.0.0.2", true); /* a follower keeps it for the day it leads */
    rest(100);
    assert_int_equal(listeners[0].pushes, 1);
    listeners[0].script = TAKES;
    fl_fanout_lead(fanout, 9);
    UNTIL(view_of(0).acked_epoch == 9);
    assert_true(has(0, "10.0.0.2"));
}

static void a_new_leader_pushes_everything_anew_under_its_epoch(void **state)
{
    (void)state;
    put(0, "red");
    put(1, "blue");
    offer("red", "10.0.0.1", true);
    offer("blue", "10.0.0.2", true);
    rest(50);
    assert_int_equal(listeners[0].pushes + listeners[1].pushes, 0);
    fl_fanout_lead(fanout, 7);
    UNTIL(view_of(0).acked_epoch == 7 && view_of(1).acked_epoch == 7);
    fl_fanout_lead(fanout, 9); /* the Lease was raised */
    UNTIL(view_of(0).acked_epoch == 9 && view_of(1).acked_epoch == 9);
    assert_int_equal(fl_fanout_epoch(fanout), 9);
    rest(50);
    assert_int_equal(listeners[0].pushes, 2);
}

static void a_higher_epoch_is_told_once_and_not_invented_above(void **state)
{
    (void)state;
    listeners[0].script = listeners[1].script = CONFLICTS;
    listeners[0].told_epoch = listeners[1].told_epoch = 50;
    put(0, "");
    put(1, "");
    fl_fanout_lead(fanout, 7);
    offer("", "10.0.0.1", true);
    UNTIL(fl_fanout_total(fanout, FL_PUSH_CONFLICT) == 2);
    assert_int_equal(met, 50);
    assert_int_equal(met_calls, 1);
    assert_int_equal(fl_fanout_epoch(fanout), 7);
    rest(100);
    assert_int_equal(listeners[0].pushes,
                     1); /* until the Lease is raised, or the back-off is over */
    listeners[0].script = listeners[1].script = TAKES;
    fl_fanout_lead(fanout, 51);
    UNTIL(view_of(0).acked_epoch == 51 && view_of(1).acked_epoch == 51);
    fl_fanout_follow(fanout);
    fl_fanout_lead(fanout, 20); /* a Lease that was made anew counts from the start */
    assert_int_equal(met_calls, 1);
    rest(50);
    assert_int_equal(met_calls, 2);
    assert_int_equal(met, 51);
    assert_int_equal(listeners[0].pushes, 2);
}

/* ---- news ---- */

static void the_third_failure_and_the_recovery_are_told_once(void **state)
{
    (void)state;
    listeners[0].script = REFUSES;
    put(0, "");
    offer("", "10.0.0.1", true);
    for (unsigned i = 1; i <= 4; i++) {
        UNTIL(view_of(0).failures == i);
        assert_int_equal(unreachable, i >= 3);
        hurry(0);
    }
    assert_string_equal(news_name, "shop/web");
    assert_string_equal(news_hint, "http_500|");
    listeners[0].script = TAKES;
    UNTIL((hurry(0), view_of(0).failures == 0));
    assert_int_equal(recovered, 1);
    int64_t seq = view_of(0).acked_seq;
    offer("", "10.0.0.2", true);
    UNTIL(view_of(0).acked_seq > seq);
    assert_int_equal(unreachable, 1);
    assert_int_equal(recovered, 1);
}

static void a_failure_below_http_has_a_hint(void **state)
{
    (void)state;
    fl_reactor_close(reactor, &listeners[0].io); /* nobody listens */
    put(0, "");
    offer("", "10.0.0.1", true);
    for (unsigned i = 1; i <= 3; i++) {
        UNTIL(view_of(0).failures == i);
        hurry(0);
    }
    assert_int_equal(unreachable, 1);
    assert_non_null(strstr(news_hint, "connect_refused|does the sidecar run"));
}

/* ---- keys ---- */

static void knows(unsigned i, const char *pem)
{
    listeners[i].checks = true;
    listeners[i].keys = fl_verify_keys_new();
    assert_int_equal(fl_verify_keys_add_pem(listeners[i].keys, fl_span_of(pem)), 1);
}

static bool knows_only_new(unsigned i)
{
    struct fl_sign_key *k = key_of(new_private);
    bool only = fl_verify_keys_count(listeners[i].keys) == 1 &&
                strcmp(fl_verify_keys_id(listeners[i].keys, 0), fl_sign_key_id(k)) == 0;
    fl_sign_key_free(k);
    return only;
}

static void a_new_key_is_taught_by_the_old_one_and_then_replaces_it(void **state)
{
    (void)state;
    knows(0, old_public);
    knows(1, old_public);
    put(0, "red");
    put(1, "blue");
    offer("red", "10.0.0.1", true);
    offer("blue", "10.0.0.2", true);
    UNTIL(view_of(0).acked_seq && view_of(1).acked_seq);
    assert_null(strstr(listeners[0].body, "\"keys\"")); /* none without need */
    set_key(old_private);                               /* the same again is no change */
    rest(50);
    assert_int_equal(listeners[0].pushes, 1);
    set_key(new_private);
    UNTIL(knows_only_new(0) && knows_only_new(1));
    assert_int_equal(fl_fanout_total(fanout, FL_PUSH_REFUSED), 0); /* nobody was lost on the way */
    offer("red", "10.0.0.3", true);
    UNTIL(has(0, "10.0.0.3"));
}

static void who_was_away_is_taught_when_it_returns(void **state)
{
    (void)state;
    knows(0, old_public);
    knows(1, old_public);
    put(0, "");
    put(1, "");
    offer("", "10.0.0.1", true);
    UNTIL(view_of(0).acked_seq && view_of(1).acked_seq);
    listeners[1].script = REFUSES;
    offer("", "10.0.0.2", true);
    UNTIL(view_of(1).failures == 1);
    set_key(new_private);
    UNTIL(knows_only_new(0)); /* one that does not answer holds nobody up */
    listeners[1].script = TAKES;
    UNTIL((hurry(1), knows_only_new(1)));
    UNTIL(view_of(1).failures == 0);
}

static void a_sidecar_that_lost_the_new_key_is_reached_by_the_old_one(void **state)
{
    (void)state;
    knows(0, old_public);
    put(0, "");
    offer("", "10.0.0.1", true);
    UNTIL(view_of(0).acked_seq);
    set_key(new_private);
    UNTIL(knows_only_new(0));
    fl_verify_keys_free(listeners[0].keys); /* started again without its state file */
    knows(0, old_public);
    offer("", "10.0.0.2", true);
    UNTIL(view_of(0).failures == 1);
    UNTIL((hurry(0), knows_only_new(0)));
    UNTIL(view_of(0).failures == 0);
}

static void teaching_ends_after_three_intervals(void **state)
{
    (void)state;
    knows(0, old_public);
    put(0, "");
    put(1, "");
    offer("", "10.0.0.1", true);
    UNTIL(view_of(0).acked_seq && view_of(1).acked_seq);
    configure(200);
    listeners[1].script = SILENT; /* in flight, so neither reached nor failed */
    set_key(new_private);
    UNTIL(knows_only_new(0));
    assert_false(fanout->ring.teaching);
    assert_int_equal(view_of(1).failures, 0);
}

static void without_a_key_nothing_is_sent(void **state)
{
    (void)state;
    close_bed();
    open_bed(&(struct fl_fanout_conf){.epoch = EPOCH});
    put(0, "");
    offer("", "10.0.0.1", true);
    rest(50);
    assert_int_equal(listeners[0].connections, 0);
    assert_string_equal(fl_fanout_keyid(fanout), "");
    knows(0, new_public);
    set_key(new_private);
    UNTIL(view_of(0).acked_seq);
}

#define TEST(name)    cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define ELECTED(name) cmocka_unit_test_setup_teardown(name, set_up_elected, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_sidecar_gets_the_state_of_its_configuration_in_the_same_bytes),
        TEST(a_sidecar_that_changes_its_configuration_keeps_what_is_known_of_it),
        TEST(a_configuration_goes_with_its_last_target_or_by_a_list_that_does_not_name_it),
        TEST(a_list_keeps_its_order_and_what_is_known_of_those_who_stay),
        TEST(it_hurries_while_a_change_waits_for_a_place),
        TEST(who_goes_while_pushed_to_is_broken_off),
        ELECTED(a_list_of_five_thousand_is_cheap),
        ELECTED(what_is_offered_in_the_turn_in_which_leadership_ends_does_not_leave),
        ELECTED(what_is_in_flight_is_broken_off_when_leadership_ends),
        ELECTED(a_new_leader_pushes_everything_anew_under_its_epoch),
        ELECTED(a_higher_epoch_is_told_once_and_not_invented_above),
        TEST(the_third_failure_and_the_recovery_are_told_once),
        TEST(a_failure_below_http_has_a_hint),
        TEST(a_new_key_is_taught_by_the_old_one_and_then_replaces_it),
        TEST(who_was_away_is_taught_when_it_returns),
        TEST(a_sidecar_that_lost_the_new_key_is_reached_by_the_old_one),
        TEST(teaching_ends_after_three_intervals),
        TEST(without_a_key_nothing_is_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
