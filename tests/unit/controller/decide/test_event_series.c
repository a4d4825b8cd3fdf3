#include "controller/decide/event_series.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <string.h>

#include "common/base/rng.h"

#define T0   5000
#define WALL INT64_C(1800000000000000)

static struct fl_event_series *series;
static struct fl_event_write w;

static int set_up(void **state)
{
    (void)state;
    series = fl_event_series_new(3);
    return series ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    series = fl_event_series_free(series);
    return 0;
}

static enum fl_event_said say(const char *name, const char *note, int64_t now_ms)
{
    const struct fl_event_facts f = {.api_version = "v1",
                                     .kind = "Pod",
                                     .namespace = "shop",
                                     .name = name,
                                     .uid = "u1",
                                     .type = "Warning",
                                     .reason = "BackendUnreachable",
                                     .action = "Probe",
                                     .note = note};
    return fl_event_series_say(series, &f, now_ms, WALL + now_ms * 1000);
}

static void settle(enum fl_event_result r, int64_t now_ms)
{
    fl_event_series_settle(series, w.entry, r, now_ms);
}

static void takes(bool patch, uint32_t count, int64_t now_ms)
{
    assert_true(fl_event_series_take(series, now_ms, &w));
    assert_int_equal(w.patch, patch);
    assert_int_equal(w.count, count);
}

static void takes_nothing_before(int64_t at_ms)
{
    assert_int_equal(fl_event_series_next_ms(series), at_ms);
    assert_false(fl_event_series_take(series, at_ms - 1, &w));
}

static void post(const char *name, const char *note, int64_t now_ms)
{
    assert_int_equal(say(name, note, now_ms), FL_EVENT_NEW);
    takes(false, 1, now_ms);
    settle(FL_EVENT_WRITTEN, now_ms);
}

static void a_fact_is_posted_once_and_repetitions_are_counted_and_patched(void **state)
{
    (void)state;
    assert_int_equal(say("p", "down", T0), FL_EVENT_NEW);
    takes(false, 1, T0);
    assert_string_equal(w.facts.note, "down");
    assert_string_equal(w.facts.name, "p");
    assert_int_equal(w.first_us, WALL + T0 * 1000);
    char name[300];
    (void)snprintf(name, sizeof(name), "%s", w.event_name);
    assert_true(strncmp(name, "p.", 2) == 0 && strlen(name) == 18);
    settle(FL_EVENT_WRITTEN, T0 + 10);
    assert_true(fl_event_series_next_ms(series) == INT64_MAX);
    for (int i = 1; i <= 5; i++) {
        assert_int_equal(say("p", "down", T0 + i * 1000), FL_EVENT_FOLDED);
    }
    takes_nothing_before(T0 + 10 + FL_EVENT_PATCH_MS);
    takes(true, 6, T0 + 10 + FL_EVENT_PATCH_MS);
    assert_string_equal(w.event_name, name);
    assert_int_equal(w.first_us, WALL + T0 * 1000);
    assert_int_equal(w.last_us, WALL + (T0 + 5000) * 1000);
    settle(FL_EVENT_WRITTEN, T0 + 70000);
    assert_true(fl_event_series_next_ms(series) == INT64_MAX);
    assert_int_equal(say("p", "down", T0 + 300000),
                     FL_EVENT_FOLDED); /* the next one goes at once */
    takes(true, 7, T0 + 300000);
    settle(FL_EVENT_WRITTEN, T0 + 300000);
    struct fl_event_totals t = fl_event_series_totals(series);
    assert_int_equal(t.written, 3);
    assert_int_equal(t.folded, 6);
    assert_int_equal(t.lost, 0);
}

static void another_note_object_or_reason_is_another_series(void **state)
{
    (void)state;
    post("p", "down", T0);
    post("p", "still down", T0);
    post("q", "down", T0);
    const struct fl_event_facts f = {.api_version = "v1",
                                     .kind = "Pod",
                                     .namespace = "shop",
                                     .name = "p",
                                     .uid = "u2",
                                     .type = "Warning",
                                     .reason = "BackendUnreachable",
                                     .action = "Probe",
                                     .note = "down"};
    assert_int_equal(fl_event_series_say(series, &f, T0, WALL), FL_EVENT_NEW); /* a pod made anew */
    /* where one text ends and the next begins counts */
    struct fl_event_facts g = f;
    g.namespace = "shopp";
    g.name = "";
    assert_int_equal(fl_event_series_say(series, &g, T0, WALL), FL_EVENT_NEW);
}

static void a_series_ends_after_silence(void **state)
{
    (void)state;
    post("p", "down", T0);
    char name[300];
    (void)snprintf(name, sizeof(name), "%s", w.event_name);
    assert_int_equal(say("p", "down", T0 + FL_EVENT_END_MS), FL_EVENT_FOLDED);
    takes(true, 2, T0 + FL_EVENT_END_MS);
    settle(FL_EVENT_WRITTEN, T0 + FL_EVENT_END_MS);
    assert_int_equal(say("p", "down", T0 + 2 * FL_EVENT_END_MS + 1), FL_EVENT_NEW);
    takes(false, 1, T0 + 2 * FL_EVENT_END_MS + 1);
    assert_string_not_equal(w.event_name, name);
}

static void an_object_has_a_burst_and_then_one_write_in_five_minutes(void **state)
{
    (void)state;
    char note[32];
    int64_t now = T0;
    for (int i = 0; i < 40; i++) {
        (void)snprintf(note, sizeof(note), "fact %d", i);
        assert_int_equal(say("p", note, now), i < FL_EVENT_BURST ? FL_EVENT_NEW : FL_EVENT_LOST);
    }
    assert_int_equal(say("q", "fact", now), FL_EVENT_NEW); /* another object has its own */
    assert_int_equal(fl_event_series_totals(series).lost, 15);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(say("p", "late", now + FL_EVENT_REFILL_MS - 1), FL_EVENT_LOST);
        now += FL_EVENT_REFILL_MS;
        (void)snprintf(note, sizeof(note), "later %d", i);
        assert_int_equal(say("p", note, now), FL_EVENT_NEW);
    }
}

static void a_long_series_leaves_writes_for_new_facts(void **state)
{
    (void)state;
    int patches = 0;
    int64_t now = T0;
    post("p", "down", now);
    for (; now < T0 + 3600000; now += 1000) {
        assert_int_equal(say("p", "down", now), FL_EVENT_FOLDED);
        while (fl_event_series_take(series, now, &w)) {
            assert_true(w.patch);
            patches++;
            settle(FL_EVENT_WRITTEN, now);
        }
    }
    /* one a minute until what is not kept is gone, then one in five minutes */
    assert_in_range(patches, 19 + 12 - 2, 19 + 12 + 1);
    post("p", "up", now);
    post("p", "down again", now);
}

static void four_writes_are_in_flight_at_most(void **state)
{
    (void)state;
    struct fl_event_entry *e[FL_EVENT_FLYING_MAX];
    char note[8];
    for (int i = 0; i < 10; i++) {
        (void)snprintf(note, sizeof(note), "%d", i);
        (void)say("p", note, T0 + i);
    }
    for (int i = 0; i < FL_EVENT_FLYING_MAX; i++) {
        takes(false, 1, T0 + 100);
        (void)snprintf(note, sizeof(note), "%d", i);
        assert_string_equal(w.facts.note, note); /* first come, first served */
        e[i] = w.entry;
    }
    assert_false(fl_event_series_take(series, T0 + 100, &w));
    assert_true(fl_event_series_next_ms(series) == INT64_MAX);
    fl_event_series_settle(series, e[2], FL_EVENT_WRITTEN, T0 + 200);
    takes(false, 1, T0 + 200);
    assert_false(fl_event_series_take(series, T0 + 200, &w));
}

static void what_comes_while_the_write_is_in_flight_is_patched_later(void **state)
{
    (void)state;
    assert_int_equal(say("p", "down", T0), FL_EVENT_NEW);
    takes(false, 1, T0);
    assert_int_equal(say("p", "down", T0 + 1), FL_EVENT_FOLDED);
    settle(FL_EVENT_WRITTEN, T0 + 50);
    takes_nothing_before(T0 + 50 + FL_EVENT_PATCH_MS);
    takes(true, 2, T0 + 50 + FL_EVENT_PATCH_MS);
}

static void what_comes_before_it_is_sent_is_in_it(void **state)
{
    (void)state;
    (void)say("p", "down", T0);
    (void)say("p", "down", T0 + 1);
    takes(false, 2, T0 + 2); /* a POST with a series */
    settle(FL_EVENT_WRITTEN, T0 + 2);
    assert_true(fl_event_series_next_ms(series) == INT64_MAX);
}

static void a_failed_post_is_tried_again_under_the_same_name_and_then_lost(void **state)
{
    (void)state;
    char name[300];
    (void)say("p", "down", T0);
    takes(false, 1, T0);
    (void)snprintf(name, sizeof(name), "%s", w.event_name);
    settle(FL_EVENT_TRY_AGAIN, T0);
    takes_nothing_before(T0 + 10000);
    takes(false, 1, T0 + 10000);
    assert_string_equal(w.event_name, name);
    settle(FL_EVENT_TRY_AGAIN, T0 + 10000);
    takes_nothing_before(T0 + 30000);
    takes(false, 1, T0 + 30000);
    settle(FL_EVENT_TRY_AGAIN, T0 + 30000);
    assert_true(fl_event_series_next_ms(series) == INT64_MAX);
    assert_int_equal(fl_event_series_totals(series).lost, 1);
    post("p", "down", T0 + 40000); /* a new beginning */
}

static void a_post_that_was_carried_out_unheard_is_found_by_its_name(void **state)
{
    (void)state;
    (void)say("p", "down", T0);
    takes(false, 1, T0);
    settle(FL_EVENT_TRY_AGAIN, T0);
    takes(false, 1, T0 + 10000);
    settle(FL_EVENT_EXISTS, T0 + 10000);
    assert_int_equal(say("p", "down", T0 + 80000), FL_EVENT_FOLDED);
    takes(true, 2, T0 + 80000);
}

static void a_refused_post_is_lost_at_once(void **state)
{
    (void)state;
    (void)say("p", "down", T0);
    takes(false, 1, T0);
    settle(FL_EVENT_REFUSED, T0);
    (void)say("q", "down", T0);
    takes(false, 1, T0);
    settle(FL_EVENT_GONE, T0); /* its namespace */
    assert_true(fl_event_series_next_ms(series) == INT64_MAX);
    assert_int_equal(fl_event_series_totals(series).lost, 2);
}

static void an_event_that_the_server_forgot_is_posted_anew_with_its_count(void **state)
{
    (void)state;
    char name[300];
    post("p", "down", T0);
    (void)snprintf(name, sizeof(name), "%s", w.event_name);
    (void)say("p", "down", T0 + 100000);
    takes(true, 2, T0 + 100000);
    settle(FL_EVENT_GONE, T0 + 100000);
    takes(false, 2, T0 + 100000);
    assert_string_not_equal(w.event_name, name);
    settle(FL_EVENT_WRITTEN, T0 + 100000);
    (void)say("p", "down", T0 + 200000);
    takes(true, 3, T0 + 200000);
}

static void a_failed_patch_is_made_good_by_the_next_one(void **state)
{
    (void)state;
    post("p", "down", T0);
    (void)say("p", "down", T0 + 100000);
    takes(true, 2, T0 + 100000);
    settle(FL_EVENT_TRY_AGAIN, T0 + 100000);
    (void)say("p", "down", T0 + 110000);
    takes_nothing_before(T0 + 100000 + FL_EVENT_PATCH_MS);
    takes(true, 3, T0 + 100000 + FL_EVENT_PATCH_MS);
    settle(FL_EVENT_REFUSED, T0 + 170000); /* we may not patch */
    (void)say("p", "down", T0 + 300000);
    assert_true(fl_event_series_next_ms(series) == INT64_MAX);
}

static void the_least_recently_used_series_goes_first(void **state)
{
    (void)state;
    char name[16];
    for (int i = 0; i < FL_EVENT_SERIES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "p%d", i);
        post(name, "down", T0);
    }
    assert_int_equal(say("p0", "down", T0), FL_EVENT_FOLDED); /* recent now */
    post("one-more", "down", T0);
    assert_int_equal(say("p0", "down", T0), FL_EVENT_FOLDED);
    assert_int_equal(say("p1", "down", T0), FL_EVENT_NEW); /* forgotten */
    assert_int_equal(fl_event_series_totals(series).lost, 0);
}

static void a_storm_is_bounded_and_what_it_pushes_out_is_lost(void **state)
{
    (void)state;
    char name[16];
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(name, sizeof(name), "p%d", i);
        assert_int_equal(say(name, "down", T0), FL_EVENT_NEW);
    }
    unsigned n = 0;
    while (fl_event_series_take(series, T0, &w)) {
        settle(FL_EVENT_WRITTEN, T0);
        n++;
    }
    assert_int_equal(n, FL_EVENT_SERIES_MAX);
    assert_int_equal(fl_event_series_totals(series).lost, 5000 - FL_EVENT_SERIES_MAX);
}

static void a_write_in_flight_is_not_pushed_out(void **state)
{
    (void)state;
    char name[16];
    (void)say("flying", "down", T0);
    takes(false, 1, T0);
    for (int i = 0; i < 2 * FL_EVENT_SERIES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "p%d", i);
        (void)say(name, "down", T0);
    }
    settle(FL_EVENT_WRITTEN, T0); /* with ASan: it is still there */
    assert_int_equal(say("flying", "down", T0), FL_EVENT_FOLDED);
}

/* --- texts --- */

static const char *note_of(const char *note)
{
    static int n;
    char name[16];
    (void)snprintf(name, sizeof(name), "n%d", n++);
    assert_int_equal(say(name, note, T0), FL_EVENT_NEW);
    assert_true(fl_event_series_take(series, T0, &w));
    settle(FL_EVENT_WRITTEN, T0);
    return w.facts.note;
}

static void a_note_is_cut_at_a_character(void **state)
{
    (void)state;
    char text[3000];
    memset(text, 'a', sizeof(text));
    text[1024] = '\0';
    assert_int_equal(strlen(note_of(text)), 1024);
    text[1024] = 'a';
    text[1025] = '\0';
    assert_int_equal(strlen(note_of(text)), 1024);
    memcpy(text + 1023, "\xc3\xa9z", 4); /* e acute across the limit */
    assert_int_equal(strlen(note_of(text)), 1023);
    memcpy(text + 1022, "\xc3\xa9z", 4);
    assert_int_equal(strlen(note_of(text)), 1024);
    memcpy(text + 1021, "\xf0\x9f\x9a\x80", 5); /* a rocket */
    assert_int_equal(strlen(note_of(text)), 1021);
}

static void what_is_not_utf8_is_marked(void **state)
{
    (void)state;
    assert_string_equal(note_of("a\xff\xc3z\xe2\x82"), "a??z??");
    assert_string_equal(note_of("\xed\xa0\x80 \xc0\xaf \xf4\x90\x80\x80"), "??? ?? ????");
    assert_string_equal(note_of("\xe2\x82\xac \xf0\x9f\x9a\x80"), "\xe2\x82\xac \xf0\x9f\x9a\x80");
}

static void names_of_events_are_dns_names(void **state)
{
    static const struct {
        const char *object, *begins;
    } row[] = {{"web-7f.b", "web-7f.b."}, {"Web_1", "webx1."}, {"-x-", "xx."},
               {"a..b", "a.xb."},         {"a-", "a."},        {"", ""}};
    char longest[400];
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(row); i++) {
        assert_int_equal(say(row[i].object, "x", T0), FL_EVENT_NEW);
        takes(false, 1, T0);
        size_t n = strlen(row[i].begins);
        assert_memory_equal(w.event_name, row[i].begins, n);
        assert_int_equal(strlen(w.event_name), n + 16);
        settle(FL_EVENT_WRITTEN, T0);
    }
    memset(longest, 'n', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(say(longest, "x", T0), FL_EVENT_NEW);
    takes(false, 1, T0);
    assert_int_equal(strlen(w.event_name), 253);
}

static void an_action_is_never_empty(void **state)
{
    (void)state;
    const struct fl_event_facts f = {.api_version = "v1",
                                     .kind = "Node",
                                     .namespace = "",
                                     .name = "n",
                                     .uid = "",
                                     .type = "Normal",
                                     .reason = "Seen",
                                     .action = "",
                                     .note = ""};
    assert_int_equal(fl_event_series_say(series, &f, T0, WALL), FL_EVENT_NEW);
    takes(false, 1, T0);
    assert_string_equal(w.facts.action, "Seen");
}

/* --- a naive second opinion --- */

#define OBJECTS 3
#define NOTES   4

static struct {
    int64_t bucket[OBJECTS], filled_ms; /* what is in it, in ms of refilling */
    struct {
        bool there;
        int64_t last_ms, wrote_ms;
        uint32_t count, sent;
    } s[OBJECTS][NOTES];
    unsigned posts, patches, folded, lost;
} model;

static void model_time(int64_t now_ms)
{
    for (int o = 0; o < OBJECTS; o++) {
        model.bucket[o] += now_ms - model.filled_ms;
        if (model.bucket[o] > (int64_t)FL_EVENT_BURST * FL_EVENT_REFILL_MS) {
            model.bucket[o] = (int64_t)FL_EVENT_BURST * FL_EVENT_REFILL_MS;
        }
    }
    model.filled_ms = now_ms;
}

static void model_say(int o, int n, int64_t now_ms)
{
    bool over = model.s[o][n].there && now_ms - model.s[o][n].last_ms > FL_EVENT_END_MS;
    if (model.s[o][n].there && !over) {
        model.s[o][n].count++;
        model.s[o][n].last_ms = now_ms;
        model.folded++;
    } else if (model.bucket[o] < FL_EVENT_REFILL_MS) {
        model.lost++;
    } else {
        model.bucket[o] -= FL_EVENT_REFILL_MS;
        model.s[o][n].there = true;
        model.s[o][n].count = model.s[o][n].sent = 1;
        model.s[o][n].last_ms = model.s[o][n].wrote_ms = now_ms;
        model.posts++;
    }
}

static bool is_before(int o, int n, int other_o, int other_n)
{
    int64_t a = model.s[o][n].wrote_ms, b = model.s[other_o][other_n].wrote_ms;
    return a < b || (a == b && model.s[o][n].last_ms < model.s[other_o][other_n].last_ms);
}

/* The one that was written longest ago, if there is one to patch. */
static bool model_patch(int64_t now_ms)
{
    int best_o = -1, best_n = -1;
    for (int o = 0; o < OBJECTS; o++) {
        for (int n = 0; n < NOTES; n++) {
            bool due = model.s[o][n].count > model.s[o][n].sent &&
                       now_ms >= model.s[o][n].wrote_ms + FL_EVENT_PATCH_MS &&
                       model.bucket[o] >= (int64_t)(FL_EVENT_RESERVE + 1) * FL_EVENT_REFILL_MS;
            if (due && (best_o < 0 || is_before(o, n, best_o, best_n))) {
                best_o = o;
                best_n = n;
            }
        }
    }
    if (best_o < 0) {
        return false;
    }
    model.bucket[best_o] -= FL_EVENT_REFILL_MS;
    model.s[best_o][best_n].sent = model.s[best_o][best_n].count;
    model.s[best_o][best_n].wrote_ms = now_ms;
    model.patches++;
    return true;
}

static void it_agrees_with_a_naive_model(void **state)
{
    struct fl_rng rng;
    unsigned posts = 0, patches = 0;
    int64_t now = T0;
    (void)state;
    fl_rng_seed(&rng, 99);
    model.filled_ms = now;
    for (int o = 0; o < OBJECTS; o++) {
        model.bucket[o] = (int64_t)FL_EVENT_BURST * FL_EVENT_REFILL_MS;
    }
    for (int i = 0; i < 20000; i++) {
        int o = (int)fl_rng_below(&rng, OBJECTS), n = (int)fl_rng_below(&rng, NOTES);
        char name[16], note[16];
        now += fl_rng_below(&rng, fl_rng_below(&rng, 50) == 0 ? 900000 : 60000);
        model_time(now);
        (void)snprintf(name, sizeof(name), "o%d", o);
        (void)snprintf(note, sizeof(note), "n%d", n);
        (void)say(name, note, now);
        model_say(o, n, now);
        while (model_patch(now)) {
        }
        while (fl_event_series_take(series, now, &w)) {
            posts += w.patch ? 0 : 1;
            patches += w.patch ? 1 : 0;
            settle(FL_EVENT_WRITTEN, now);
        }
        struct fl_event_totals t = fl_event_series_totals(series);
        assert_int_equal(posts, model.posts);
        assert_int_equal(t.folded, model.folded);
        assert_int_equal(t.lost, model.lost);
        assert_int_equal(patches, model.patches);
    }
    print_message("%u posts, %u patches, %u folded, %u lost\n", posts, patches, model.folded,
                  model.lost);
    assert_true(posts > 100 && patches > 100 && model.lost > 100 && model.folded > 100);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_fact_is_posted_once_and_repetitions_are_counted_and_patched),
        T(another_note_object_or_reason_is_another_series),
        T(a_series_ends_after_silence),
        T(an_object_has_a_burst_and_then_one_write_in_five_minutes),
        T(a_long_series_leaves_writes_for_new_facts),
        T(four_writes_are_in_flight_at_most),
        T(what_comes_while_the_write_is_in_flight_is_patched_later),
        T(what_comes_before_it_is_sent_is_in_it),
        T(a_failed_post_is_tried_again_under_the_same_name_and_then_lost),
        T(a_post_that_was_carried_out_unheard_is_found_by_its_name),
        T(a_refused_post_is_lost_at_once),
        T(an_event_that_the_server_forgot_is_posted_anew_with_its_count),
        T(a_failed_patch_is_made_good_by_the_next_one),
        T(the_least_recently_used_series_goes_first),
        T(a_storm_is_bounded_and_what_it_pushes_out_is_lost),
        T(a_write_in_flight_is_not_pushed_out),
        T(a_note_is_cut_at_a_character),
        T(what_is_not_utf8_is_marked),
        T(names_of_events_are_dns_names),
        T(an_action_is_never_empty),
        T(it_agrees_with_a_naive_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
