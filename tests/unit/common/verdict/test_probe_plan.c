#include "common/verdict/probe_plan.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

static void an_unhealthy_peer_is_asked_again_ever_later_but_within_the_interval(void **state)
{
    (void)state;
    static const int64_t want_ms[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000};
    for (unsigned i = 0; i < sizeof(want_ms) / sizeof(want_ms[0]); i++) {
        assert_int_equal(fl_probe_again_ms(i + 1, 30000), want_ms[i]);
    }
    assert_int_equal(fl_probe_again_ms(1, 300), 300);
    assert_int_equal(fl_probe_again_ms(0, 30000), 1000);
    assert_int_equal(fl_probe_again_ms(UINT32_MAX, INT64_MAX), INT64_C(1000) << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unhealthy_peer_is_asked_again_ever_later_but_within_the_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
