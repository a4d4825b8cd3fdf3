#include "controller/decide/probe_grid.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#define INTERVAL 30000
#define PEERS    800
#define T0       1234567

static struct fl_rng rng;

static int start(void **state)
{
    (void)state;
    fl_rng_seed(&rng, 7);
    return 0;
}

static uint64_t hash_of(unsigned i)
{
    struct fl_rng r;
    fl_rng_seed(&r, i + 1);
    return fl_rng_next(&r);
}

static void a_new_peer_is_asked_within_five_seconds_or_the_interval(void **state)
{
    (void)state;
    unsigned late = 0;
    for (unsigned i = 0; i < PEERS; i++) {
        assert_in_range(fl_probe_grid_first_ms(hash_of(i), INTERVAL), 0, 4999);
        assert_in_range(fl_probe_grid_first_ms(hash_of(i), 100), 0, 99);
        late += fl_probe_grid_first_ms(hash_of(i), INTERVAL) >= 2500;
    }
    assert_in_range(late, PEERS * 4 / 10, PEERS * 6 / 10);
    assert_int_equal(fl_probe_grid_first_ms(hash_of(1), 0), 0);
}

/* All asked at one moment: each tenth of the interval gets its share nevertheless, for ever. */
static void slots_are_spread_evenly_however_it_began(void **state)
{
    (void)state;
    static int64_t at[PEERS];
    unsigned tenths[10] = {0};
    for (unsigned i = 0; i < PEERS; i++) {
        at[i] = T0;
        for (int round = 0; round < 20; round++) {
            int64_t began = at[i], ended = began + 5;
            at[i] = fl_probe_grid_next_ms(hash_of(i), INTERVAL, began, ended, &rng);
            int64_t gap = at[i] - began;
            int64_t tenth = INTERVAL / 10;
            assert_in_range(gap, round == 0 ? INTERVAL / 2 - tenth : INTERVAL - tenth,
                            round == 0 ? INTERVAL * 3 / 2 + tenth : INTERVAL + tenth);
        }
        tenths[at[i] % INTERVAL * 10 / INTERVAL]++;
    }
    for (int k = 0; k < 10; k++) {
        assert_in_range(tenths[k], PEERS / 20, PEERS * 3 / 20);
    }
}

static void a_slot_that_a_long_probe_has_missed_is_left_out(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PEERS; i++) {
        int64_t ended = T0 + 2 * INTERVAL + 7;
        int64_t at = fl_probe_grid_next_ms(hash_of(i), INTERVAL, T0, ended, &rng);
        assert_in_range(at, ended, ended + INTERVAL + INTERVAL / 20);
    }
}

static void small_and_odd_numbers_do_no_harm(void **state)
{
    (void)state;
    assert_int_equal(fl_probe_grid_next_ms(5, 0, 10, 10, &rng), 11);
    assert_int_equal(fl_probe_grid_next_ms(5, 1, 10, 10, &rng), 11);
    assert_in_range(fl_probe_grid_next_ms(UINT64_MAX, INTERVAL, 1, 1, &rng), 1, 2 * INTERVAL);
    assert_int_equal(fl_probe_grid_late_ms(5, 1, 100), 0);
}

static void what_is_overdue_is_spread_over_the_delay_but_half_an_interval_at_most(void **state)
{
    (void)state;
    unsigned second_half = 0;
    for (unsigned i = 0; i < PEERS; i++) {
        assert_in_range(fl_probe_grid_late_ms(hash_of(i), INTERVAL, 2000), 0, 1999);
        int64_t wait = fl_probe_grid_late_ms(hash_of(i), INTERVAL, 60000);
        assert_in_range(wait, 0, INTERVAL / 2 - 1);
        second_half += wait >= INTERVAL / 4;
    }
    assert_in_range(second_half, PEERS * 4 / 10, PEERS * 6 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_new_peer_is_asked_within_five_seconds_or_the_interval, start),
        cmocka_unit_test_setup(slots_are_spread_evenly_however_it_began, start),
        cmocka_unit_test_setup(a_slot_that_a_long_probe_has_missed_is_left_out, start),
        cmocka_unit_test_setup(small_and_odd_numbers_do_no_harm, start),
        cmocka_unit_test_setup(
            what_is_overdue_is_spread_over_the_delay_but_half_an_interval_at_most, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
