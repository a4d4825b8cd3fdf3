#include "controller/decide/verdict_table.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>

static void a_verdict_belongs_to_its_backend_and_peer(void **state)
{
    (void)state;
    struct fl_verdict_table t;
    struct fl_verdict down = {.status = FL_VERDICT_UNREACHABLE, .at_ms = 5},
                      up = {.status = FL_VERDICT_HEALTHY, .at_ms = 6};
    fl_verdict_table_init(&t, 1);
    assert_null(fl_verdict_table_get(&t, "a", "10.0.0.1:9000"));
    assert_int_equal(fl_verdict_table_set(&t, "a", "10.0.0.1:9000", &down), 0);
    assert_int_equal(fl_verdict_table_set(&t, "b", "10.0.0.1:9000", &up), 0);
    assert_int_equal(fl_verdict_table_get(&t, "a", "10.0.0.1:9000")->status,
                     FL_VERDICT_UNREACHABLE);
    assert_int_equal(fl_verdict_table_get(&t, "b", "10.0.0.1:9000")->status, FL_VERDICT_HEALTHY);
    assert_null(fl_verdict_table_get(&t, "a", "10.0.0.1:900"));
    assert_int_equal(fl_verdict_table_set(&t, "a", "10.0.0.1:9000", &up), 0); /* over the old one */
    assert_int_equal(fl_verdict_table_get(&t, "a", "10.0.0.1:9000")->at_ms, 6);
    fl_verdict_table_drop(&t, "a", "10.0.0.1:9000");
    fl_verdict_table_drop(&t, "a", "10.0.0.1:9000");
    assert_null(fl_verdict_table_get(&t, "a", "10.0.0.1:9000"));
    assert_non_null(fl_verdict_table_get(&t, "b", "10.0.0.1:9000"));
    fl_verdict_table_done(&t);
}

static void many_verdicts_are_all_found_again(void **state)
{
    (void)state;
    struct fl_verdict_table t;
    char address[32];
    fl_verdict_table_init(&t, 2);
    for (int i = 0; i < 1000; i++) {
        struct fl_verdict v = {.at_ms = i};
        (void)snprintf(address, sizeof(address), "10.0.%d.%d:9000", i / 250, i % 250);
        assert_int_equal(fl_verdict_table_set(&t, "minio", address, &v), 0);
    }
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(address, sizeof(address), "10.0.%d.%d:9000", i / 250, i % 250);
        assert_int_equal(fl_verdict_table_get(&t, "minio", address)->at_ms, i);
    }
    fl_verdict_table_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verdict_belongs_to_its_backend_and_peer),
        cmocka_unit_test(many_verdicts_are_all_found_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
