#include "sidecar/policy/tally.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/base/check.h"

static void latencies_fall_into_their_bucket(void **state)
{
    (void)state;
    static const struct {
        int64_t us;
        unsigned bucket;
    } rows[] = {
        {-5, 0},        {0, 0},          {5000, 0},       {5001, 1},
        {10000, 1},     {500000, 6},     {1000001, 8},    {60000000, 12},
        {60000001, 13}, {120000000, 13}, {120000001, 14}, {INT64_MAX / 2, 14},
    };
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        struct fl_latency l = {0};
        fl_latency_add(&l, rows[i].us);
        for (unsigned b = 0; b <= FL_LATENCY_BOUNDS; b++) {
            assert_int_equal(l.le[b], b == rows[i].bucket);
        }
        assert_int_equal(l.sum_us, rows[i].us < 0 ? 0 : (uint64_t)rows[i].us);
    }
    for (unsigned b = 1; b < FL_LATENCY_BOUNDS; b++) {
        assert_true(fl_latency_bounds_ms[b] > fl_latency_bounds_ms[b - 1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(latencies_fall_into_their_bucket)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
