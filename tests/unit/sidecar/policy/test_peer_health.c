#include "sidecar/policy/peer_health.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "common/base/check.h"
#include "tests/unit/sidecar/policy/health_model.h"

enum op { ASK, FAIL, OK, ABORT };

struct moment {
    int64_t at_ms;
    enum op op;
    bool offered;     /* is the peer offered to this request? */
    bool quarantines; /* FAIL: the line "upstream server temporarily disabled" */
    int64_t until_ms;
};

#define T0 1000000

/* Each request comes, uses the peer if it is offered, and ends at once. */
static void play(const struct fl_health_policy *p, const struct moment *line, size_t n)
{
    struct fl_peer_health h;
    fl_peer_health_init(&h);
    for (size_t i = 0; i < n; i++) {
        int64_t now = T0 + line[i].at_ms, until = 0;
        struct fl_health_ticket t = {0};
        bool offered = fl_peer_health_take_trial(&h, now, &t);
        if (!offered && fl_peer_health_gate(&h, now, &until) == FL_HEALTH_LIVE) {
            t = fl_peer_health_ticket(&h);
            offered = true;
        }
        if (offered != line[i].offered) {
            fail_msg("moment %zu (%lld ms): offered %d", i, (long long)line[i].at_ms, offered);
        }
        if (!offered) {
            continue;
        }
        static const enum fl_health_result results[] = {[ASK] = FL_HEALTH_NEUTRAL,
                                                        [FAIL] = FL_HEALTH_FAILED,
                                                        [OK] = FL_HEALTH_OK,
                                                        [ABORT] = FL_HEALTH_NEUTRAL};
        struct fl_health_change c =
            fl_peer_health_settle(&h, p, &t, results[line[i].op], now, NULL);
        assert_int_equal(c.what == FL_HEALTH_DISABLED, line[i].quarantines);
        if (line[i].quarantines) {
            assert_int_equal(c.until_ms, T0 + line[i].until_ms);
        }
    }
}

/* Lesson 5.3 section 3 and its exercise 2: a dead port asked every 3 s for 30 s; two upstreams are
 * seen at 0, 12, 24. */
static void lesson_5_3_quarantine_timeline(void **state)
{
    (void)state;
    const struct fl_health_policy p = {
        .max_fails = 1, .fail_timeout_ms = 10000, .quarantine_max = 1};
    const struct moment every_3s[] = {
        {0, FAIL, true, true, 10000},     {3000, FAIL, false, false, 0},
        {6000, FAIL, false, false, 0},    {9000, FAIL, false, false, 0},
        {12000, FAIL, true, true, 22000}, {15000, FAIL, false, false, 0},
        {18000, FAIL, false, false, 0},   {21000, FAIL, false, false, 0},
        {24000, FAIL, true, true, 34000}, {27000, FAIL, false, false, 0},
        {30000, FAIL, false, false, 0},
    };
    play(&p, every_3s, FL_COUNTOF(every_3s));
    const struct moment edges[] = {
        {0, FAIL, true, true, 10000},     {9999, ASK, false, false, 0},
        {10000, FAIL, true, true, 20000}, {19999, ASK, false, false, 0},
        {20000, OK, true, false, 0},      {20001, ASK, true, false, 0},
        {20002, FAIL, true, true, 30002}, {30001, ASK, false, false, 0},
        {30002, ABORT, true, false, 0},   {30003, ABORT, true, false, 0},
        {30004, FAIL, true, true, 40004},
    };
    play(&p, edges, FL_COUNTOF(edges));
}

/* Q2 of the lesson: max_fails=3 fail_timeout=30s on a peer that dies instantly, its first 90
 * seconds. */
static void lesson_5_3_question_2(void **state)
{
    (void)state;
    const struct fl_health_policy p = {
        .max_fails = 3, .fail_timeout_ms = 30000, .quarantine_max = 1};
    const struct moment line[] = {
        {0, FAIL, true, false, 0},       {1000, FAIL, true, false, 0},
        {2000, FAIL, true, true, 32000}, {3000, FAIL, false, false, 0},
        {31999, FAIL, false, false, 0},  {32000, FAIL, true, true, 62000},
        {61000, FAIL, false, false, 0},  {62000, FAIL, true, true, 92000},
        {90000, FAIL, false, false, 0},
    };
    play(&p, line, FL_COUNTOF(line));
}

/* Part 049 section 8: failures at T+0, T+3, T+8 with max_fails=3 fail_timeout=10s, out from T+8 to
 * T+18. */
static void part_049_window_timeline(void **state)
{
    (void)state;
    const struct fl_health_policy p = {
        .max_fails = 3, .fail_timeout_ms = 10000, .quarantine_max = 1};
    const struct moment line[] = {
        {0, FAIL, true, false, 0},        {3000, FAIL, true, false, 0},
        {8000, FAIL, true, true, 18000},  {8001, ASK, false, false, 0},
        {17999, ASK, false, false, 0},    {18000, OK, true, false, 0},
        {18001, FAIL, true, false, 0},    {18002, FAIL, true, false, 0},
        {18003, FAIL, true, true, 28003},
    };
    play(&p, line, FL_COUNTOF(line));
}

/* nginx's counter would trip at 18 s (0, 9, 18: no quiet gap); a true window does not. Nor does a
 * success between failures clear the count. */
static void the_window_is_true(void **state)
{
    (void)state;
    const struct fl_health_policy p = {
        .max_fails = 3, .fail_timeout_ms = 10000, .quarantine_max = 1};
    const struct moment quiet[] = {
        {0, FAIL, true, false, 0},
        {9000, FAIL, true, false, 0},
        {18000, FAIL, true, false, 0},
        {18999, FAIL, true, true, 28999},
    };
    play(&p, quiet, FL_COUNTOF(quiet));
    const struct moment edge[] = {
        {0, FAIL, true, false, 0},
        {5000, FAIL, true, false, 0},
        {10000, FAIL, true, false, 0},
        {14999, FAIL, true, true, 24999},
    };
    play(&p, edge, FL_COUNTOF(edge));
    const struct moment between[] = {
        {0, FAIL, true, false, 0}, {1, OK, true, false, 0},      {2, FAIL, true, false, 0},
        {3, OK, true, false, 0},   {4, FAIL, true, true, 10004},
    };
    play(&p, between, FL_COUNTOF(between));
}

static void max_fails_0_is_off_and_32_is_the_most(void **state)
{
    (void)state;
    struct fl_peer_health h;
    fl_peer_health_init(&h);
    struct fl_health_policy p = {.max_fails = 0, .fail_timeout_ms = 10000, .quarantine_max = 1};
    struct fl_health_ticket t = fl_peer_health_ticket(&h);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(fl_peer_health_settle(&h, &p, &t, FL_HEALTH_FAILED, T0 + i, NULL).what,
                         FL_HEALTH_SAME);
    }
    assert_int_equal(fl_peer_health_fails(&h, &p, T0 + 100), 0);
    p.max_fails = 32;
    for (int i = 0; i < 31; i++) {
        assert_int_equal(fl_peer_health_settle(&h, &p, &t, FL_HEALTH_FAILED, T0 + i, NULL).what,
                         FL_HEALTH_SAME);
    }
    struct fl_health_change c = fl_peer_health_settle(&h, &p, &t, FL_HEALTH_FAILED, T0 + 31, NULL);
    assert_int_equal(c.what, FL_HEALTH_DISABLED);
    assert_int_equal(c.fails, 32);
    assert_int_equal(fl_peer_health_fails(&h, &p, T0 + 31 + 9999), 1);
    assert_int_equal(fl_peer_health_fails(&h, &p, T0 + 31 + 10000), 0);
}

/* A new configuration keeps the state and judges it by its own numbers. */
static void a_reload_keeps_the_state(void **state)
{
    (void)state;
    struct fl_peer_health h;
    fl_peer_health_init(&h);
    struct fl_health_policy p = {.max_fails = 5, .fail_timeout_ms = 10000, .quarantine_max = 1};
    struct fl_health_ticket t = fl_peer_health_ticket(&h), trial;
    for (int i = 0; i < 3; i++) {
        fl_peer_health_settle(&h, &p, &t, FL_HEALTH_FAILED, T0 + i, NULL);
    }
    p.max_fails = 2;
    struct fl_health_change c = fl_peer_health_settle(&h, &p, &t, FL_HEALTH_FAILED, T0 + 3, NULL);
    assert_int_equal(c.what, FL_HEALTH_DISABLED);
    assert_int_equal(c.fails, 4);
    assert_true(fl_peer_health_take_trial(&h, T0 + 10003, &trial));
    p.max_fails =
        0; /* switched off while the trial is out: it ends without a word, nothing hangs */
    assert_int_equal(fl_peer_health_settle(&h, &p, &trial, FL_HEALTH_FAILED, T0 + 10004, NULL).what,
                     FL_HEALTH_SAME);
    int64_t until;
    assert_int_equal(fl_peer_health_gate(&h, T0 + 10004, &until), FL_HEALTH_PROBATION);
}

static void an_abandoned_trial_keeps_its_date(void **state)
{
    (void)state;
    struct fl_peer_health h;
    fl_peer_health_init(&h);
    const struct fl_health_policy p = {
        .max_fails = 1, .fail_timeout_ms = 1000, .quarantine_max = 1};
    struct fl_health_ticket t = fl_peer_health_ticket(&h);
    fl_peer_health_settle(&h, &p, &t, FL_HEALTH_FAILED, T0, NULL);
    assert_true(fl_peer_health_take_trial(&h, T0 + 1000, &t));
    int64_t until = 0;
    assert_int_equal(fl_peer_health_gate(&h, T0 + 1500, &until), FL_HEALTH_TRIAL_OUT);
    fl_peer_health_settle(&h, &p, &t, FL_HEALTH_NEUTRAL, T0 + 1500, NULL);
    assert_int_equal(fl_peer_health_gate(&h, T0 + 1500, &until), FL_HEALTH_PROBATION);
    assert_int_equal(until, T0 + 1000);
    assert_true(fl_peer_health_take_trial(&h, T0 + 1500, &t));
}

/* The head came, the peer is back; then the body breaks: an ordinary failure, counted from zero. */
static void a_broken_body_after_the_trial_is_an_ordinary_failure(void **state)
{
    (void)state;
    struct fl_peer_health h;
    fl_peer_health_init(&h);
    const struct fl_health_policy p = {
        .max_fails = 2, .fail_timeout_ms = 1000, .quarantine_max = 1};
    struct fl_health_ticket t = fl_peer_health_ticket(&h);
    fl_peer_health_settle(&h, &p, &t, FL_HEALTH_FAILED, T0, NULL);
    fl_peer_health_settle(&h, &p, &t, FL_HEALTH_FAILED, T0, NULL);
    assert_true(fl_peer_health_take_trial(&h, T0 + 1000, &t));
    assert_int_equal(fl_peer_health_answered(&h, &t, T0 + 1001).what, FL_HEALTH_READMITTED);
    assert_int_equal(fl_peer_health_answered(&h, &t, T0 + 1002).what, FL_HEALTH_SAME);
    assert_int_equal(fl_peer_health_fails(&h, &p, T0 + 1002), 0);
    assert_int_equal(fl_peer_health_settle(&h, &p, &t, FL_HEALTH_FAILED, T0 + 1003, NULL).what,
                     FL_HEALTH_SAME);
    assert_int_equal(fl_peer_health_fails(&h, &p, T0 + 1003), 1);
    t = fl_peer_health_ticket(&h);
    assert_int_equal(fl_peer_health_settle(&h, &p, &t, FL_HEALTH_FAILED, T0 + 1004, NULL).what,
                     FL_HEALTH_DISABLED);
}

/* Stragglers: 20 requests in flight when the peer dies. One line is logged; the others extend
 * nothing, do not end the trial, and do not hit the peer after it came back. */
static void failures_of_an_older_generation_change_nothing(void **state)
{
    (void)state;
    struct fl_peer_health h;
    fl_peer_health_init(&h);
    const struct fl_health_policy p = {
        .max_fails = 1, .fail_timeout_ms = 10000, .quarantine_max = 1};
    struct fl_health_ticket old[20], trial;
    for (int i = 0; i < 20; i++) {
        old[i] = fl_peer_health_ticket(&h);
    }
    int64_t until = 0;
    assert_int_equal(fl_peer_health_settle(&h, &p, &old[0], FL_HEALTH_FAILED, T0, NULL).what,
                     FL_HEALTH_DISABLED);
    for (int i = 1; i < 8; i++) {
        assert_int_equal(
            fl_peer_health_settle(&h, &p, &old[i], FL_HEALTH_FAILED, T0 + 5000, NULL).what,
            FL_HEALTH_SAME);
    }
    assert_int_equal(fl_peer_health_gate(&h, T0 + 9999, &until), FL_HEALTH_QUARANTINED);
    assert_int_equal(until, T0 + 10000);
    assert_true(fl_peer_health_take_trial(&h, T0 + 10000, &trial));
    for (int i = 8; i < 14; i++) {
        assert_int_equal(
            fl_peer_health_settle(&h, &p, &old[i], FL_HEALTH_FAILED, T0 + 10001, NULL).what,
            FL_HEALTH_SAME);
    }
    assert_int_equal(fl_peer_health_gate(&h, T0 + 10001, &until), FL_HEALTH_TRIAL_OUT);
    assert_int_equal(fl_peer_health_answered(&h, &trial, T0 + 10002).what, FL_HEALTH_READMITTED);
    for (int i = 14; i < 20; i++) {
        assert_int_equal(
            fl_peer_health_settle(&h, &p, &old[i], FL_HEALTH_FAILED, T0 + 10003, NULL).what,
            FL_HEALTH_SAME);
    }
    assert_int_equal(fl_peer_health_gate(&h, T0 + 10003, &until), FL_HEALTH_LIVE);
}

static void twenty_at_probation_give_one_trial(void **state)
{
    (void)state;
    struct fl_peer_health h;
    fl_peer_health_init(&h);
    const struct fl_health_policy p = {
        .max_fails = 1, .fail_timeout_ms = 10000, .quarantine_max = 1};
    struct fl_health_ticket t = fl_peer_health_ticket(&h);
    fl_peer_health_settle(&h, &p, &t, FL_HEALTH_FAILED, T0, NULL);
    int won = 0;
    for (int i = 0; i < 20; i++) {
        won += fl_peer_health_take_trial(&h, T0 + 10000, &t);
    }
    assert_int_equal(won, 1);
}

static void doubling_is_opted_into_and_jitter_is_added(void **state)
{
    (void)state;
    struct fl_rng rng;
    fl_rng_seed(&rng, 7);
    const struct fl_health_policy p = {
        .max_fails = 1, .fail_timeout_ms = 10000, .quarantine_max = 8};
    const int64_t base[] = {10000, 20000, 40000, 80000, 80000, 80000};
    bool jittered = false;
    for (int round = 0; round < 200; round++) {
        struct fl_peer_health h;
        fl_peer_health_init(&h);
        struct fl_health_ticket t = fl_peer_health_ticket(&h);
        int64_t now = T0;
        for (size_t i = 0; i < FL_COUNTOF(base); i++) {
            struct fl_health_change c =
                fl_peer_health_settle(&h, &p, &t, FL_HEALTH_FAILED, now, &rng);
            assert_int_equal(c.what, FL_HEALTH_DISABLED);
            assert_in_range(c.until_ms - now, base[i], i ? base[i] + base[i] / 10 : base[i]);
            jittered |= c.until_ms - now != base[i];
            now = c.until_ms;
            assert_true(fl_peer_health_take_trial(&h, now, &t));
        }
        assert_int_equal(fl_peer_health_answered(&h, &t, now).what, FL_HEALTH_READMITTED);
        struct fl_health_change c = fl_peer_health_settle(&h, &p, &t, FL_HEALTH_FAILED, now, &rng);
        assert_int_equal(c.until_ms - now, 10000); /* a success forgives the doubling too */
    }
    assert_true(jittered);
}

static void a_green_probe_opens_a_quarantine(void **state)
{
    (void)state;
    struct fl_peer_health h;
    fl_peer_health_init(&h);
    const struct fl_health_policy p = {
        .max_fails = 1, .fail_timeout_ms = 10000, .quarantine_max = 1};
    struct fl_health_ticket t = fl_peer_health_ticket(&h);
    assert_false(fl_peer_health_open(&h, T0)); /* nothing to open */
    fl_peer_health_settle(&h, &p, &t, FL_HEALTH_FAILED, T0, NULL);
    assert_true(fl_peer_health_open(&h, T0 + 100));
    assert_false(fl_peer_health_open(&h, T0 + 101));
    assert_true(fl_peer_health_take_trial(&h, T0 + 101, &t));
    assert_false(fl_peer_health_open(&h, T0 + 102));
    assert_int_equal(fl_peer_health_settle(&h, &p, &t, FL_HEALTH_FAILED, T0 + 103, NULL).until_ms,
                     T0 + 10103);
}

/* The generation is 20 bits: a wrap must neither spill into the state nor lose a trial. */
static void a_million_quarantines(void **state)
{
    (void)state;
    struct fl_peer_health h;
    fl_peer_health_init(&h);
    const struct fl_health_policy p = {.max_fails = 1, .fail_timeout_ms = 100, .quarantine_max = 1};
    struct fl_health_ticket t = fl_peer_health_ticket(&h);
    int64_t now = T0;
    for (int i = 0; i < 1100000; i++) {
        if (fl_peer_health_settle(&h, &p, &t, FL_HEALTH_FAILED, now, NULL).what !=
            FL_HEALTH_DISABLED) {
            fail_msg("quarantine %d was lost", i);
        }
        now += 100;
        if (!fl_peer_health_take_trial(&h, now, &t)) {
            fail_msg("trial %d was lost", i);
        }
    }
}

static void a_naive_model_agrees(void **state)
{
    (void)state;
    struct fl_rng rng;
    fl_rng_seed(&rng, 20260922);
    for (unsigned round = 0; round < 1000; round++) {
        struct model m;
        model_init(&m,
                   (struct fl_health_policy){.max_fails = fl_rng_below(&rng, 8)
                                                              ? 1 + fl_rng_below(&rng, 6)
                                                              : fl_rng_below(&rng, 33),
                                             .fail_timeout_ms = 100 + fl_rng_below(&rng, 2000),
                                             .quarantine_max = 1 + fl_rng_below(&rng, 8)},
                   fl_rng_next(&rng));
        for (unsigned i = 0; i < 1000; i++) {
            model_step(&m, (uint32_t)(fl_rng_next(&rng) >> 32));
        }
        model_done(&m);
    }
}

struct hammer {
    struct fl_peer_health health;
    struct fl_health_policy policy;
    _Atomic int64_t now_ms;
    _Atomic uint32_t trials_out, trials, disabled, readmitted, overlaps;
};

#define HAMMER_WINDOWS 400

static void note_change(struct hammer *x, struct fl_health_change c)
{
    x->disabled += c.what == FL_HEALTH_DISABLED;
    x->readmitted += c.what == FL_HEALTH_READMITTED;
}

static void *hammer_run(void *arg)
{
    struct hammer *x = arg;
    struct fl_rng rng;
    fl_rng_seed(&rng, (uint64_t)(uintptr_t)&rng);
    for (int64_t now; (now = x->now_ms) < T0 + HAMMER_WINDOWS * 100;) {
        struct fl_health_ticket t;
        if (fl_peer_health_take_trial(&x->health, now, &t)) {
            x->overlaps += atomic_fetch_add(&x->trials_out, 1) != 0;
            x->trials++;
            x->now_ms += 20;
            atomic_fetch_sub(&x->trials_out, 1);
            uint32_t how = fl_rng_below(&rng, 3);
            note_change(x, fl_peer_health_settle(&x->health, &x->policy, &t,
                                                 how == 0   ? FL_HEALTH_OK
                                                 : how == 1 ? FL_HEALTH_NEUTRAL
                                                            : FL_HEALTH_FAILED,
                                                 now, &rng));
            continue;
        }
        int64_t until = 0;
        if (fl_peer_health_gate(&x->health, now, &until) == FL_HEALTH_LIVE) {
            t = fl_peer_health_ticket(&x->health);
            note_change(
                x, fl_peer_health_settle(&x->health, &x->policy, &t, FL_HEALTH_FAILED, now, &rng));
        } else {
            x->now_ms += 1;
        }
    }
    return NULL;
}

static void four_threads_win_one_trial_at_a_time(void **state)
{
    (void)state;
    static struct hammer x;
    fl_peer_health_init(&x.health);
    x.policy =
        (struct fl_health_policy){.max_fails = 2, .fail_timeout_ms = 100, .quarantine_max = 1};
    x.now_ms = T0;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, hammer_run, &x), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(x.overlaps, 0);
    assert_int_equal(x.trials_out, 0);
    assert_true(x.trials > 50);
    /* every quarantine is one line in the log: between two of them lies a trial that failed or a
     * readmission */
    assert_true(x.disabled <= x.trials + 1);
    assert_true(x.disabled > 20 && x.readmitted > 5);
}

/* Four threads rush at the very moment of probation: exactly one trial per window. */
struct rush {
    struct fl_peer_health health;
    pthread_barrier_t barrier;
    _Atomic uint32_t won;
    struct fl_health_ticket ticket;
};

static void *rush_run(void *arg)
{
    struct rush *x = arg;
    for (int i = 0; i < 300; i++) {
        pthread_barrier_wait(&x->barrier);
        struct fl_health_ticket t;
        if (fl_peer_health_take_trial(&x->health, T0 + (i + 1) * 100, &t)) {
            x->won++;
            x->ticket = t;
        }
        pthread_barrier_wait(&x->barrier);
    }
    return NULL;
}

static void a_rush_wins_exactly_one_trial_per_window(void **state)
{
    (void)state;
    static struct rush x;
    fl_peer_health_init(&x.health);
    pthread_barrier_init(&x.barrier, NULL, 5);
    const struct fl_health_policy p = {.max_fails = 1, .fail_timeout_ms = 100, .quarantine_max = 1};
    struct fl_health_ticket t = fl_peer_health_ticket(&x.health);
    fl_peer_health_settle(&x.health, &p, &t, FL_HEALTH_FAILED, T0, NULL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, rush_run, &x), 0);
    }
    for (int i = 0; i < 300; i++) {
        x.won = 0;
        pthread_barrier_wait(&x.barrier);
        pthread_barrier_wait(&x.barrier);
        assert_int_equal(x.won, 1);
        assert_int_equal(fl_peer_health_settle(&x.health, &p, &x.ticket, FL_HEALTH_FAILED,
                                               T0 + (i + 1) * 100, NULL)
                             .what,
                         FL_HEALTH_DISABLED);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_barrier_destroy(&x.barrier);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lesson_5_3_quarantine_timeline),
        cmocka_unit_test(lesson_5_3_question_2),
        cmocka_unit_test(part_049_window_timeline),
        cmocka_unit_test(the_window_is_true),
        cmocka_unit_test(max_fails_0_is_off_and_32_is_the_most),
        cmocka_unit_test(a_reload_keeps_the_state),
        cmocka_unit_test(an_abandoned_trial_keeps_its_date),
        cmocka_unit_test(a_broken_body_after_the_trial_is_an_ordinary_failure),
        cmocka_unit_test(failures_of_an_older_generation_change_nothing),
        cmocka_unit_test(twenty_at_probation_give_one_trial),
        cmocka_unit_test(doubling_is_opted_into_and_jitter_is_added),
        cmocka_unit_test(a_green_probe_opens_a_quarantine),
        cmocka_unit_test(a_million_quarantines),
        cmocka_unit_test(a_naive_model_agrees),
        cmocka_unit_test(four_threads_win_one_trial_at_a_time),
        cmocka_unit_test(a_rush_wins_exactly_one_trial_per_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
