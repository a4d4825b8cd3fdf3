#include "common/base/hist.h"

#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct fl_hist hist;

static void buckets_are_dense_and_ordered(void **state)
{
    (void)state;
    unsigned last = 0;
    for (uint64_t us = 0; us < 300000; us++) {
        unsigned i = fl_hist_index(us);
        assert_true(i == last || i == last + 1); /* no gap, no step back */
        last = i;
    }
    assert_int_equal(fl_hist_index(15), 15);
    assert_int_equal(fl_hist_index(16), 16);
    assert_int_equal(fl_hist_index(31), 31);
    assert_int_equal(fl_hist_index(32), 32);
    assert_int_equal(fl_hist_index(33), 32);
    assert_int_equal(fl_hist_index(UINT64_MAX), FL_HIST_BUCKETS - 1);
    assert_true(fl_hist_index(128000000) <
                FL_HIST_BUCKETS - 1); /* over two minutes are still told apart */
}

static void below_counts_whole_buckets(void **state)
{
    (void)state;
    memset(&hist, 0, sizeof hist);
    fl_hist_add(&hist, 0);
    fl_hist_add(&hist, 10);
    fl_hist_add(&hist, 32); /* bucket 32..33 */
    fl_hist_add(&hist, 33);
    fl_hist_add(&hist, 1000000);
    fl_hist_add(&hist, UINT64_MAX / 2);
    assert_int_equal(hist.count, 6);
    assert_int_equal(fl_hist_below(&hist, 0), 1);
    assert_int_equal(fl_hist_below(&hist, 9), 1);
    assert_int_equal(fl_hist_below(&hist, 10), 2);
    assert_int_equal(fl_hist_below(&hist, 32), 2); /* the bucket reaches to 33 */
    assert_int_equal(fl_hist_below(&hist, 33), 4);
    assert_int_equal(fl_hist_below(&hist, 1100000), 5);
    assert_int_equal(fl_hist_below(&hist, UINT64_MAX - 1),
                     5); /* the last bucket has no upper bound */
    assert_int_equal(fl_hist_below(&hist, UINT64_MAX), 6);
}

static void the_error_is_at_most_one_sixteenth(void **state)
{
    (void)state;
    for (uint64_t us = 1; us < 200000000; us += us / 7 + 1) {
        memset(&hist, 0, sizeof hist);
        fl_hist_add(&hist, us);
        assert_int_equal(fl_hist_below(&hist, us + us / 16), 1);
        assert_int_equal(fl_hist_below(&hist, us - 1), 0);
        assert_int_equal(hist.sum_us, us);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_are_dense_and_ordered),
        cmocka_unit_test(below_counts_whole_buckets),
        cmocka_unit_test(the_error_is_at_most_one_sixteenth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
