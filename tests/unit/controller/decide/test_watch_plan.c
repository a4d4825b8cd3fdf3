#include "controller/decide/watch_plan.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <string.h>

#include "common/base/check.h"

#define STREAM FL_WATCH_DO_STREAM
#define LIST   FL_WATCH_DO_LIST
#define WATCH  FL_WATCH_DO_WATCH
#define WAIT   FL_WATCH_DO_WAIT
#define LONG   60000

static struct fl_watch_plan plan;
static int64_t now_ms;

static int set_up(void **state)
{
    (void)state;
    now_ms = 1000000;
    fl_watch_plan_init(&plan, 7);
    return 0;
}

static void ended(enum fl_watch_end how, uint64_t events, int64_t lasted_ms)
{
    now_ms += lasted_ms;
    fl_watch_plan_ended(&plan, how, events, lasted_ms, 0, now_ms);
}

#define assert_step(step_, version_)                                                               \
    do {                                                                                           \
        assert_int_equal(plan.step, step_);                                                        \
        assert_string_equal(plan.version, version_);                                               \
    } while (0)

/* It waits at least this long and at most twice that, and then does what is said. */
static void waits(int64_t least_ms, enum fl_watch_step step, const char *version)
{
    assert_int_equal(plan.step, WAIT);
    assert_in_range(plan.until_ms - now_ms, least_ms, 2 * least_ms - 1);
    now_ms = plan.until_ms - 1;
    fl_watch_plan_run(&plan, now_ms);
    assert_int_equal(plan.step, WAIT);
    now_ms++;
    fl_watch_plan_run(&plan, now_ms);
    assert_step(step, version);
}

/* Watching from `version`, after a streamed list. */
static void watching(const char *version)
{
    assert_int_equal(plan.step, STREAM);
    fl_watch_plan_listed(&plan, version, true);
}

static void without_streams(void)
{
    ended(FL_WATCH_NO_STREAMING, 0, 5);
}

/* ---- the usual way ---- */

static void it_begins_with_a_streamed_list_without_a_version(void **state)
{
    (void)state;
    assert_step(STREAM, "");
    assert_in_range(plan.timeout_s, 300, 600);
    assert_false(plan.synced);
}

static void the_stream_goes_on_as_a_watch_when_its_list_is_whole(void **state)
{
    (void)state;
    fl_watch_plan_listed(&plan, "100", true);
    assert_step(STREAM, "");
    assert_true(plan.synced);
    fl_watch_plan_heard(&plan, "120");
    ended(FL_WATCH_CLOSED, 5, LONG);
    assert_step(WATCH, "120");
}

static void versions_of_the_initial_events_are_not_kept(void **state)
{
    (void)state;
    fl_watch_plan_heard(&plan, "90");
    assert_string_equal(plan.last, "");
    ended(FL_WATCH_CUT, 7, 300);
    waits(800, STREAM, "");
}

static void the_time_limit_is_drawn_anew_for_each_watch(void **state)
{
    (void)state;
    int lowest = 1000, highest = 0;
    watching("1");
    for (int i = 0; i < 500; i++) {
        ended(FL_WATCH_CLOSED, 1, LONG);
        lowest = plan.timeout_s < lowest ? plan.timeout_s : lowest;
        highest = plan.timeout_s > highest ? plan.timeout_s : highest;
    }
    assert_in_range(lowest, 300, 310);
    assert_in_range(highest, 590, 600);
}

static void a_version_that_cannot_be_one_is_not_kept(void **state)
{
    (void)state;
    watching("5");
    fl_watch_plan_heard(&plan, "");
    fl_watch_plan_heard(
        &plan, "1234567890123456789012345678901234567890123456789012345678901234"); /* 64 */
    assert_string_equal(plan.last, "5");
    assert_false(fl_watch_plan_takes(""));
    assert_true(
        fl_watch_plan_takes("123456789012345678901234567890123456789012345678901234567890123"));
}

/* ---- rows: 410 ---- */

static void an_expired_watch_lists_not_older_than_the_last_version(void **state)
{
    (void)state;
    watching("100");
    fl_watch_plan_heard(&plan, "105");
    ended(FL_WATCH_EXPIRED, 0, 20);
    assert_step(STREAM, "105");
    watching("200");
    ended(FL_WATCH_CLOSED, 1, FL_WATCH_STEADY_MS - 1);
    assert_step(WATCH, "200");
    ended(FL_WATCH_EXPIRED, 0, 20); /* nothing was heard since the last list */
    waits(800, STREAM, "200");
    watching("300");
    fl_watch_plan_heard(&plan, "301");
    ended(FL_WATCH_EXPIRED, 1, 20);
    assert_step(STREAM, "301");
}

/* As after each restart of the API server, also for a resource that is quiet. */
static void an_expired_watch_after_a_steady_one_lists_at_once_whatever_the_back_off(void **state)
{
    (void)state;
    watching("100");
    ended(FL_WATCH_EXPIRED, 0, 20);
    watching("200");
    ended(FL_WATCH_CUT, 0, FL_WATCH_STEADY_MS);
    assert_step(WATCH, "200");
    for (int i = 0; i < 5; i++) {
        ended(FL_WATCH_THROTTLED, 0, 1);
        waits(800 << i, WATCH, "200");
    }
    ended(FL_WATCH_EXPIRED, 0, 20);
    assert_step(STREAM, "200");
}

static void an_expired_list_is_asked_for_without_a_version(void **state)
{
    (void)state;
    watching("100");
    ended(FL_WATCH_EXPIRED, 0, 20);
    assert_step(STREAM, "100");
    ended(FL_WATCH_EXPIRED, 0, 20);
    assert_step(STREAM, "");
    ended(FL_WATCH_EXPIRED, 0, 20); /* that makes no sense: no loop of it */
    waits(800, STREAM, "");
    watching("300");
    ended(FL_WATCH_EXPIRED, 0, 20);
    waits(1600, STREAM, "300"); /* a version again, since a list was whole */
}

static void the_same_for_plain_lists(void **state)
{
    (void)state;
    without_streams();
    fl_watch_plan_listed(&plan, "100", false);
    assert_step(WATCH, "100");
    ended(FL_WATCH_EXPIRED, 0, 20);
    assert_step(LIST, "100");
    ended(FL_WATCH_EXPIRED, 0, 20);
    assert_step(LIST, "");
    ended(FL_WATCH_EXPIRED, 0, 20); /* the rest of a paged list is gone: from its start */
    waits(800, LIST, "");
}

/* ---- rows: a server that is behind ---- */

static void a_list_with_too_large_a_version_is_asked_for_without(void **state)
{
    (void)state;
    watching("100");
    ended(FL_WATCH_EXPIRED, 0, 20);
    ended(FL_WATCH_TOO_LARGE, 0, 3000);
    assert_step(STREAM, "");
    ended(FL_WATCH_TOO_LARGE, 0, 3000);
    waits(800, STREAM, "");
}

static void a_watch_with_too_large_a_version_lists_without_after_a_pause(void **state)
{
    (void)state;
    watching("100");
    ended(FL_WATCH_TOO_LARGE, 0, 3000);
    waits(800, STREAM, "");
}

/* ---- rows: the same again ---- */

static void trouble_of_the_way_keeps_version_and_step(void **state)
{
    (void)state;
    static const enum fl_watch_end ends[] = {FL_WATCH_THROTTLED, FL_WATCH_UNAUTHORIZED,
                                             FL_WATCH_FORBIDDEN, FL_WATCH_SERVER_ERROR};
    for (size_t i = 0; i < FL_COUNTOF(ends); i++) {
        set_up(NULL);
        ended(ends[i], 0, 10); /* a first list */
        waits(800, STREAM, "");
        watching("100");
        fl_watch_plan_heard(&plan, "101");
        ended(ends[i], 0, LONG);
        waits(1600, WATCH, "101");
        ended(ends[i], 0, 10);
        waits(3200, WATCH, "101");
    }
}

static void the_first_plain_list_comes_from_the_cache_and_stays_so(void **state)
{
    (void)state;
    without_streams();
    assert_step(LIST, "0");
    ended(FL_WATCH_UNREACHABLE, 0, 10);
    waits(800, LIST, "0");
    ended(FL_WATCH_CUT, 100, 10);
    waits(1600, LIST, "0");
    ended(FL_WATCH_STALLED, 0, 10);
    waits(3200, LIST, "0");
}

static void a_server_that_was_away_is_listed_anew(void **state)
{
    (void)state;
    watching("100");
    ended(FL_WATCH_CUT, 1, LONG); /* as its process ends; another may take over at once */
    assert_step(WATCH, "100");
    ended(FL_WATCH_UNREACHABLE, 0, 1);
    waits(800, STREAM, "100");
    ended(FL_WATCH_FORBIDDEN, 0, 1); /* it does not know the roles yet */
    waits(1600, STREAM, "100");
    ended(FL_WATCH_TOO_LARGE, 0, 3000); /* and has the data of a backup */
    assert_step(STREAM, "");
    watching("60");
    ended(FL_WATCH_CLOSED, 0, LONG);
    assert_step(WATCH, "60");
}

static void a_wait_ends_when_there_is_reason_to_hope(void **state)
{
    (void)state;
    watching("8");
    fl_watch_plan_hurry(&plan, now_ms); /* it does not wait */
    assert_step(STREAM, "");
    for (int i = 0; i < 6; i++) {
        ended(FL_WATCH_FORBIDDEN, 0, 10);
        waits(800 << i, WATCH, "8");
    }
    ended(FL_WATCH_FORBIDDEN, 0, 10);
    fl_watch_plan_hurry(&plan, now_ms + 1);
    fl_watch_plan_run(&plan, now_ms);
    assert_int_equal(plan.step, WAIT);
    fl_watch_plan_run(&plan, now_ms + 1);
    assert_step(WATCH, "8");
}

static void errors_of_the_server_make_a_list_due_at_last(void **state)
{
    (void)state;
    static const int64_t least[] = {800, 1600, 3200, 6400};
    watching("8");
    for (size_t i = 0; i < FL_COUNTOF(least); i++) {
        ended(FL_WATCH_SERVER_ERROR, 0, 10);
        waits(least[i], WATCH, "8");
    }
    ended(FL_WATCH_SERVER_ERROR, 0, 10);
    waits(12800, STREAM, "8");
}

static void an_event_in_between_begins_that_count_anew(void **state)
{
    (void)state;
    watching("8");
    for (int i = 0; i < 12; i++) {
        ended(FL_WATCH_SERVER_ERROR, i == 3 || i == 7 || i == 11, 200000);
        waits(800, WATCH, "8");
    }
}

/* ---- rows: ends ---- */

static void a_clean_end_is_watched_on_at_once(void **state)
{
    (void)state;
    watching("100");
    ended(FL_WATCH_CLOSED, 0, FL_WATCH_SHORT_MS); /* quiet, but not short */
    assert_step(WATCH, "100");
    fl_watch_plan_heard(&plan, "101");
    ended(FL_WATCH_CLOSED, 1, 5); /* short, but not quiet */
    assert_step(WATCH, "101");
    assert_int_equal(plan.ends[FL_WATCH_CLOSED], 2);
}

static void short_watches_back_off_and_the_third_lists(void **state)
{
    (void)state;
    watching("100");
    ended(FL_WATCH_CLOSED, 0, FL_WATCH_SHORT_MS - 1);
    waits(800, WATCH, "100");
    ended(FL_WATCH_SHORT, 0, 3);
    waits(1600, WATCH, "100");
    ended(FL_WATCH_CLOSED, 0, 3);
    waits(3200, STREAM, "100");
    watching("200");
    ended(FL_WATCH_SHORT, 0, 3);
    waits(6400, WATCH, "200"); /* counted from the list on */
    assert_int_equal(plan.ends[FL_WATCH_SHORT], 4);
    assert_int_equal(plan.ends[FL_WATCH_CLOSED], 0);
}

static void a_watch_of_use_in_between_forgives_the_short_ones(void **state)
{
    (void)state;
    watching("100");
    for (int i = 0; i < 4; i++) {
        ended(FL_WATCH_SHORT, 0, 3);
        now_ms = plan.until_ms;
        fl_watch_plan_run(&plan, now_ms);
        assert_step(WATCH, "100");
        ended(FL_WATCH_CLOSED, 0, LONG);
        assert_step(WATCH, "100");
    }
}

static void hasty_ends_with_events_are_a_habit_from_the_sixth_on(void **state)
{
    (void)state;
    watching("100");
    for (int i = 0; i < 5; i++) {
        ended(FL_WATCH_CLOSED, 1, 5);
        assert_step(WATCH, "100");
    }
    ended(FL_WATCH_CLOSED, 1, 5);
    waits(800, WATCH, "100");
}

static void a_cut_is_watched_on_at_once_when_it_was_of_use(void **state)
{
    (void)state;
    watching("100");
    ended(FL_WATCH_CUT, 0, LONG);
    assert_step(WATCH, "100");
    ended(FL_WATCH_CUT, 1, 5);
    assert_step(WATCH, "100");
    for (int i = 0; i < 3; i++) { /* and never a reason to list */
        ended(FL_WATCH_CUT, 0, 5);
        waits(800 << i, WATCH, "100");
    }
}

static void a_stalled_watch_is_watched_anew_not_listed(void **state)
{
    (void)state;
    watching("100");
    ended(FL_WATCH_STALLED, 0, FL_WATCH_STALL_MS);
    assert_step(WATCH, "100");
    ended(FL_WATCH_STALLED, 3, 400000);
    assert_step(WATCH, "100");
}

/* A version that the server is silent about (its store was put back) would be watched for ever. */
static void the_third_silent_stall_in_a_row_lists(void **state)
{
    (void)state;
    watching("100");
    ended(FL_WATCH_STALLED, 0, FL_WATCH_STALL_MS);
    ended(FL_WATCH_STALLED, 1, FL_WATCH_STALL_MS); /* not silent */
    ended(FL_WATCH_STALLED, 0, FL_WATCH_STALL_MS);
    ended(FL_WATCH_STALLED, 0, FL_WATCH_STALL_MS);
    assert_step(WATCH, "100");
    ended(FL_WATCH_STALLED, 0, FL_WATCH_STALL_MS);
    waits(800, STREAM, "100");
    ended(FL_WATCH_TOO_LARGE, 0, 3000);
    assert_step(STREAM, "");
}

static void what_is_not_the_api_is_listed_anew(void **state)
{
    (void)state;
    watching("100");
    ended(FL_WATCH_BROKEN, 3, LONG);
    waits(800, STREAM, "100");
    ended(FL_WATCH_BROKEN, 3, LONG);
    waits(1600, STREAM, "100");
    watching("101");
    ended(FL_WATCH_NO_STREAMING, 0, 10); /* some other 4xx to what was a stream: cannot be */
    waits(3200, STREAM, "101");
    assert_false(plan.no_streaming);
}

/* ---- rows: no streams ---- */

static void a_server_without_streams_is_remembered(void **state)
{
    (void)state;
    without_streams();
    assert_step(LIST, "0");
    fl_watch_plan_listed(&plan, "50", false);
    assert_step(WATCH, "50");
    for (int i = 0; i < 3; i++) {
        ended(FL_WATCH_EXPIRED, 0, LONG);
        if (plan.step == WAIT) {
            now_ms = plan.until_ms;
            fl_watch_plan_run(&plan, now_ms);
        }
        assert_step(LIST, "50");
        fl_watch_plan_listed(&plan, "50", false);
    }
}

static void a_plain_list_that_is_not_liked_is_tried_without_a_version(void **state)
{
    (void)state;
    without_streams();
    ended(FL_WATCH_NO_STREAMING, 0, 5);
    waits(800, LIST, "");
}

static void streams_that_never_get_whole_make_way_for_one_plain_list(void **state)
{
    (void)state;
    ended(FL_WATCH_STALLED, 10, FL_WATCH_STALL_MS);
    waits(800, STREAM, "");
    ended(FL_WATCH_CLOSED, 0, 500000);
    waits(800, STREAM, "");
    ended(FL_WATCH_CUT, 10, 5);
    waits(1600, LIST, "0");
    fl_watch_plan_listed(&plan, "7", false);
    assert_step(WATCH, "7");
    ended(FL_WATCH_EXPIRED, 0, 5);
    assert_step(STREAM, "7"); /* not for good */
}

/* ---- pauses ---- */

static void the_back_off_doubles_to_its_cap_with_jitter(void **state)
{
    (void)state;
    static const int64_t least[] = {800, 1600, 3200, 6400, 12800, 25600, 30000, 30000, 30000};
    watching("100");
    for (size_t i = 0; i < FL_COUNTOF(least); i++) {
        ended(FL_WATCH_FORBIDDEN, 0, 1);
        waits(least[i], WATCH, "100");
    }
}

static void two_minutes_without_a_pause_begin_it_anew(void **state)
{
    (void)state;
    watching("100");
    ended(FL_WATCH_THROTTLED, 0, 1);
    waits(800, WATCH, "100");
    ended(FL_WATCH_THROTTLED, 0, FL_WATCH_BACKOFF_RESET_MS - 1);
    waits(1600, WATCH, "100");
    ended(FL_WATCH_THROTTLED, 0, FL_WATCH_BACKOFF_RESET_MS);
    waits(800, WATCH, "100");
}

static void what_the_server_asks_for_is_kept_and_trembles(void **state)
{
    (void)state;
    int64_t lowest = INT64_MAX, highest = 0;
    for (uint64_t seed = 1; seed < 400; seed++) {
        fl_watch_plan_init(&plan, seed);
        fl_watch_plan_ended(&plan, FL_WATCH_THROTTLED, 0, 5, 7000, now_ms);
        int64_t waited_ms = plan.until_ms - now_ms;
        lowest = waited_ms < lowest ? waited_ms : lowest;
        highest = waited_ms > highest ? waited_ms : highest;
    }
    assert_in_range(lowest, 7000, 7050);
    assert_in_range(highest, 7750, 7799);
    fl_watch_plan_init(&plan, 7);
    fl_watch_plan_ended(&plan, FL_WATCH_SERVER_ERROR, 0, 5, 100, now_ms); /* never less than ours */
    assert_in_range(plan.until_ms - now_ms, 800, 1599);
    fl_watch_plan_init(&plan, 7);
    fl_watch_plan_ended(&plan, FL_WATCH_SERVER_ERROR, 0, 5, INT64_MAX, now_ms);
    assert_in_range(plan.until_ms - now_ms, 300000, 300799);
}

/* ---- random histories ---- */

struct history {
    struct fl_rng rng;
    char given[FL_WATCH_VERSION_MAX]; /* the last version that the server said */
    uint64_t revision, requests;
    bool whole, no_streaming, listed_once;
};

static void server_says(struct history *h, char ret[FL_WATCH_VERSION_MAX])
{
    h->revision += 1 + fl_rng_below(&h->rng, 5);
    (void)snprintf(ret, FL_WATCH_VERSION_MAX, "%llu", (unsigned long long)h->revision);
}

/* Is it right to do this now? */
static void check_step(const struct history *h)
{
    switch (plan.step) {
    case FL_WATCH_DO_WATCH:
        assert_true(h->listed_once);
        assert_string_equal(plan.version, h->given);
        break;
    case FL_WATCH_DO_LIST:
        assert_true(plan.version[0] == '\0' || strcmp(plan.version, h->given) == 0 ||
                    (strcmp(plan.version, "0") == 0 && !h->listed_once));
        break;
    case FL_WATCH_DO_STREAM:
        assert_false(h->no_streaming);
        assert_true(plan.version[0] == '\0' || strcmp(plan.version, h->given) == 0);
        break;
    case FL_WATCH_DO_WAIT:
        fail_msg("waits after its time");
    }
    assert_in_range(plan.timeout_s, 300, 600);
}

static uint64_t bring_events(struct history *h)
{
    uint64_t events = fl_rng_below(&h->rng, 3) == 0 ? fl_rng_below(&h->rng, 4) : 0;
    char version[FL_WATCH_VERSION_MAX];
    if (plan.step != FL_WATCH_DO_WATCH && fl_rng_below(&h->rng, 2) == 0) {
        bool streamed = plan.step == FL_WATCH_DO_STREAM;
        server_says(h, version);
        fl_watch_plan_listed(&plan, version, streamed);
        memcpy(h->given, version, sizeof(version));
        h->listed_once = true;
        h->whole = streamed;
        if (!streamed) {
            check_step(h);
        }
    }
    for (uint64_t i = 0; i < events; i++) {
        bool counts = plan.step == FL_WATCH_DO_WATCH || h->whole;
        server_says(h, version);
        fl_watch_plan_heard(&plan, version);
        if (counts) {
            memcpy(h->given, version, sizeof(version));
        }
    }
    return events;
}

static void check_end(const struct history *h, enum fl_watch_end how, bool watched, uint64_t events,
                      int64_t lasted_ms, int64_t retry_ms)
{
    int64_t waits_ms = plan.step == WAIT ? plan.until_ms - now_ms : 0;
    bool well = how == FL_WATCH_CLOSED && (events > 0 || lasted_ms >= FL_WATCH_SHORT_MS);
    enum fl_watch_step next = plan.step == WAIT ? plan.after_wait : plan.step;
    if (watched && (well || how == FL_WATCH_THROTTLED || how == FL_WATCH_UNAUTHORIZED ||
                    how == FL_WATCH_FORBIDDEN || how == FL_WATCH_CUT)) {
        assert_int_equal(next, WATCH); /* never a list because of those */
    }
    if (how == FL_WATCH_THROTTLED || how == FL_WATCH_UNREACHABLE || how == FL_WATCH_UNAUTHORIZED ||
        how == FL_WATCH_FORBIDDEN) {
        assert_true(waits_ms >= 800);
    }
    if (how == FL_WATCH_UNREACHABLE) {
        assert_int_not_equal(next, WATCH);
    }
    if (waits_ms > 0) {
        assert_true(waits_ms >= retry_ms);
        assert_true(waits_ms < (retry_ms > 30000 ? retry_ms : 30000) + 30000);
    }
    if (!h->listed_once) {
        assert_int_not_equal(next, WATCH);
    }
}

static void one_history(uint64_t seed)
{
    struct history h = {.revision = seed};
    fl_rng_seed(&h.rng, seed);
    fl_watch_plan_init(&plan, seed * 31 + 1);
    int64_t began_ms = now_ms, lasted_all_ms = 0;
    bool kind = fl_rng_below(&h.rng, 2) == 0; /* a server where things take time */
    for (int i = 0; i < 300; i++) {
        check_step(&h);
        h.whole = false;
        h.requests++;
        uint64_t events = bring_events(&h);
        int64_t lasted_ms = kind && fl_rng_below(&h.rng, 2) ? fl_rng_below(&h.rng, 400000)
                                                            : fl_rng_below(&h.rng, 30);
        int64_t retry_ms = fl_rng_below(&h.rng, 4) ? 0 : fl_rng_below(&h.rng, 100) * 1000;
        enum fl_watch_end how =
            (enum fl_watch_end)fl_rng_below(&h.rng, (uint32_t)FL_WATCH_END_COUNT);
        bool watched = plan.step == WATCH || h.whole;
        h.no_streaming |= how == FL_WATCH_NO_STREAMING && plan.step == STREAM && !h.whole;
        now_ms += lasted_ms;
        lasted_all_ms += lasted_ms;
        fl_watch_plan_ended(&plan, how, events, lasted_ms, retry_ms, now_ms);
        check_end(&h, how, watched, events, lasted_ms, retry_ms);
        if (plan.step == WAIT) {
            now_ms = plan.until_ms;
            fl_watch_plan_run(&plan, now_ms);
        }
    }
    /* it is never a flood: whatever comes, waits are the rule when things end at once */
    assert_true(now_ms - began_ms - lasted_all_ms > 300 * 800 / 4);
}

static void random_histories_keep_the_rules(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        one_history(seed);
    }
}

/* The worst a server can do is always the same at once: how often is it asked in ten minutes? */
static void no_end_whatsoever_makes_a_flood(void **state)
{
    (void)state;
    for (int how = 0; how < FL_WATCH_END_COUNT; how++) {
        for (uint64_t events = 0; events < 2; events++) {
            for (int lists = 0; lists < 2; lists++) {
                unsigned requests = 0;
                set_up(NULL);
                for (int64_t end_ms = now_ms + 600000; now_ms < end_ms; requests++) {
                    assert_true(requests < 300);
                    if (lists && plan.step != WATCH) {
                        fl_watch_plan_listed(&plan, "5", plan.step == STREAM);
                    }
                    ended((enum fl_watch_end)how, events, 1);
                    if (plan.step == WAIT) {
                        now_ms = plan.until_ms;
                        fl_watch_plan_run(&plan, now_ms);
                    }
                }
            }
        }
    }
}

static void every_end_has_its_token(void **state)
{
    (void)state;
    assert_string_equal(fl_watch_end_token(FL_WATCH_CLOSED), "closed");
    assert_string_equal(fl_watch_end_token(FL_WATCH_BROKEN), "broken");
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_begins_with_a_streamed_list_without_a_version),
        TEST(the_stream_goes_on_as_a_watch_when_its_list_is_whole),
        TEST(versions_of_the_initial_events_are_not_kept),
        TEST(the_time_limit_is_drawn_anew_for_each_watch),
        TEST(a_version_that_cannot_be_one_is_not_kept),
        TEST(an_expired_watch_lists_not_older_than_the_last_version),
        TEST(an_expired_watch_after_a_steady_one_lists_at_once_whatever_the_back_off),
        TEST(an_expired_list_is_asked_for_without_a_version),
        TEST(the_same_for_plain_lists),
        TEST(a_list_with_too_large_a_version_is_asked_for_without),
        TEST(a_watch_with_too_large_a_version_lists_without_after_a_pause),
        TEST(trouble_of_the_way_keeps_version_and_step),
        TEST(the_first_plain_list_comes_from_the_cache_and_stays_so),
        TEST(a_server_that_was_away_is_listed_anew),
        TEST(a_wait_ends_when_there_is_reason_to_hope),
        TEST(errors_of_the_server_make_a_list_due_at_last),
        TEST(an_event_in_between_begins_that_count_anew),
        TEST(a_clean_end_is_watched_on_at_once),
        TEST(short_watches_back_off_and_the_third_lists),
        TEST(a_watch_of_use_in_between_forgives_the_short_ones),
        TEST(hasty_ends_with_events_are_a_habit_from_the_sixth_on),
        TEST(a_cut_is_watched_on_at_once_when_it_was_of_use),
        TEST(a_stalled_watch_is_watched_anew_not_listed),
        TEST(the_third_silent_stall_in_a_row_lists),
        TEST(what_is_not_the_api_is_listed_anew),
        TEST(a_server_without_streams_is_remembered),
        TEST(a_plain_list_that_is_not_liked_is_tried_without_a_version),
        TEST(streams_that_never_get_whole_make_way_for_one_plain_list),
        TEST(the_back_off_doubles_to_its_cap_with_jitter),
        TEST(two_minutes_without_a_pause_begin_it_anew),
        TEST(what_the_server_asks_for_is_kept_and_trembles),
        TEST(random_histories_keep_the_rules),
        TEST(no_end_whatsoever_makes_a_flood),
        TEST(every_end_has_its_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
