#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "common/base/rng.h"
#include "common/io/wheel.h"

/* The wheel reads no clock, so time is whatever the test says. */
struct entry {
    struct fl_timer t;
    int64_t want_ms;
    int fires;
};

static struct fl_wheel wheel;
static int64_t clock_ms;
static int fired;

static void on_fire(struct fl_timer *t)
{
    struct entry *e = fl_container_of(t, struct entry, t);
    assert_true(clock_ms >= e->want_ms);
    e->fires++;
    fired++;
}

static void set(struct entry *e, int64_t at_ms)
{
    e->want_ms = at_ms;
    fl_wheel_set(&wheel, &e->t, at_ms);
}

static void go_to(int64_t ms)
{
    clock_ms = ms;
    fl_wheel_collect(&wheel, ms);
    fl_wheel_fire(&wheel, ms);
}

static void start(int64_t ms)
{
    clock_ms = ms;
    fired = 0;
    fl_wheel_init(&wheel, ms);
}

static void test_exact_bounds(void **state)
{
    (void)state;
    for (int64_t at = 8001; at <= 8016; at++) {
        struct entry e = {0};
        fl_timer_init(&e.t, on_fire);
        start(8000);
        set(&e, at);
        int64_t next = fl_wheel_next_ms(&wheel);
        assert_true(next >= at && next < at + FL_WHEEL_TICK_MS);
        go_to(next - 1);
        assert_int_equal(e.fires, 0);
        go_to(next);
        assert_int_equal(e.fires, 1);
        assert_true(fl_wheel_next_ms(&wheel) == INT64_MAX);
    }
}

/* The wheel has been asked for its next look, and then something nearer is set. */
static void test_nearer_than_next(void **state)
{
    (void)state;
    struct entry far = {0}, near = {0};
    fl_timer_init(&far.t, on_fire);
    fl_timer_init(&near.t, on_fire);
    start(8000);
    set(&far, 12000);
    assert_int_equal(fl_wheel_next_ms(&wheel), 12000);
    set(&near, 9000);
    assert_int_equal(fl_wheel_next_ms(&wheel), 9000);
    go_to(9000);
    assert_int_equal(near.fires, 1);
    assert_int_equal(fl_wheel_next_ms(&wheel), 12000);
    set(&far, 9100); /* earlier: moved */
    assert_int_equal(fl_wheel_next_ms(&wheel), 9104);
    go_to(9104);
    assert_int_equal(far.fires, 1);
}

static void test_beyond_the_horizon(void **state)
{
    (void)state;
    static const int64_t span = (int64_t)FL_WHEEL_TICK_MS * FL_WHEEL_SLOTS;
    struct entry e = {0};
    fl_timer_init(&e.t, on_fire);
    start(1003);
    set(&e, 1003 + 10 * span);
    int looks = 0;
    while (e.fires == 0) {
        int64_t next = fl_wheel_next_ms(&wheel);
        assert_true(next > clock_ms && next <= clock_ms + span + FL_WHEEL_TICK_MS);
        go_to(next);
        looks++;
    }
    assert_true(clock_ms >= e.want_ms && clock_ms < e.want_ms + FL_WHEEL_TICK_MS);
    assert_in_range(looks, 10, 12); /* one look per round of the wheel */
    set(&e, INT64_MAX - 1);         /* no overflow at the far end */
    go_to(fl_wheel_next_ms(&wheel));
    assert_int_equal(e.fires, 1);
    fl_wheel_remove(&wheel, &e.t);
    assert_true(fl_wheel_next_ms(&wheel) == INT64_MAX);
}

/* A process that was stopped for longer than the wheel spans. */
static void test_long_pause(void **state)
{
    (void)state;
    struct entry e[100];
    start(5000);
    for (int i = 0; i < 100; i++) {
        e[i] = (struct entry){0};
        fl_timer_init(&e[i].t, on_fire);
        set(&e[i], 5000 + i * 97);
    }
    go_to(1000000);
    assert_int_equal(fired, 100);
    set(&e[0], 1000050);
    assert_true(fl_wheel_next_ms(&wheel) <= 1000056);
    go_to(1000056);
    assert_int_equal(fired, 101);
}

enum { MANY = 10000 };

/* Ten thousand timers set, moved, switched off and removed at random against a plain model. */
static void test_many_random(void **state)
{
    (void)state;
    struct entry *e = calloc(MANY, sizeof(*e));
    assert_non_null(e);
    struct fl_rng rng;
    fl_rng_seed(&rng, 20261130);
    start(1000000);
    for (int i = 0; i < MANY; i++) {
        fl_timer_init(&e[i].t, on_fire);
        set(&e[i], clock_ms + fl_rng_below(&rng, 60000));
    }
    for (int step = 0; step < 2000; step++) {
        for (int k = 0; k < 20; k++) {
            struct entry *x = &e[fl_rng_below(&rng, MANY)];
            int fires = x->fires;
            switch (fl_rng_below(&rng, 8)) {
            case 0:
                fl_wheel_remove(&wheel, &x->t);
                assert_int_equal(x->t.slot_ms, 0);
                break;
            case 1:
                fl_timer_off(&x->t);
                break;
            default:
                set(x, clock_ms + fl_rng_below(&rng, 30000));
            }
            assert_int_equal(x->fires, fires); /* nothing fires outside fire */
        }
        go_to(clock_ms + fl_rng_below(&rng, 60));
        int64_t next = fl_wheel_next_ms(&wheel);
        assert_true(next > clock_ms);
        if (step % 20 == 0) {
            int64_t first = INT64_MAX;
            for (int i = 0; i < MANY; i++) {
                first = e[i].t.at_ms < first ? e[i].t.at_ms : first;
            }
            assert_true(first >
                        clock_ms - FL_WHEEL_TICK_MS); /* nobody is overdue by more than a tick */
            assert_true(next < first + FL_WHEEL_TICK_MS || next <= clock_ms + FL_WHEEL_TICK_MS);
        }
    }
    assert_true(fired > MANY / 2);
    for (int64_t next; (next = fl_wheel_next_ms(&wheel)) != INT64_MAX;) {
        assert_true(next > clock_ms);
        go_to(next);
    }
    for (int i = 0; i < MANY; i++) {
        assert_true(e[i].t.at_ms == INT64_MAX);
        assert_int_equal(e[i].t.slot_ms, 0);
    }
    free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_bounds),       cmocka_unit_test(test_nearer_than_next),
        cmocka_unit_test(test_beyond_the_horizon), cmocka_unit_test(test_long_pause),
        cmocka_unit_test(test_many_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
