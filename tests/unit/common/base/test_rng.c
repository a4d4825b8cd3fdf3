#include "common/base/rng.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_seed_repeats_and_zero_is_no_trap(void **state)
{
    (void)state;
    struct fl_rng a, b, zero;
    fl_rng_seed(&a, 42);
    fl_rng_seed(&b, 42);
    fl_rng_seed(&zero, 0);
    for (int i = 0; i < 1000; i++) {
        assert_true(fl_rng_next(&a) == fl_rng_next(&b));
        assert_true(fl_rng_next(&zero) != 0);
    }
    fl_rng_seed(&a, 1);
    fl_rng_seed(&b, 2);
    assert_true(fl_rng_next(&a) != fl_rng_next(&b));
}

static void below_stays_below_and_is_even(void **state)
{
    (void)state;
    struct fl_rng r;
    unsigned seen[10] = {0};
    fl_rng_seed(&r, 7);
    for (int i = 0; i < 100000; i++) {
        uint32_t v = fl_rng_below(&r, 10);
        assert_true(v < 10);
        seen[v]++;
        assert_int_equal(fl_rng_below(&r, 1), 0);
        assert_true(fl_rng_below(&r, UINT32_MAX) < UINT32_MAX);
    }
    for (int i = 0; i < 10; i++) {
        assert_in_range(seen[i], 9500, 10500); /* 5 sigma is about 480 */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_repeats_and_zero_is_no_trap),
        cmocka_unit_test(below_stays_below_and_is_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
