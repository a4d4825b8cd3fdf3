#include "common/base/span.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void empty_spans_are_equal_whatever_they_point_to(void **state)
{
    (void)state;
    struct fl_span zero = {0};
    assert_true(fl_span_eq(zero, FL_SPAN("")));
    assert_true(fl_span_eq(zero, fl_span_of(NULL)));
    assert_true(fl_span_starts(zero, zero));
    assert_int_equal(fl_span_find(zero, 'x'), -1);
    assert_int_equal(fl_span_from(zero, 7).len, 0);
    assert_int_equal(fl_span_trim(zero).len, 0);
    assert_true(fl_span_ieq(zero, FL_SPAN("")));
}

static void comparison_minds_length_and_case(void **state)
{
    (void)state;
    assert_true(fl_span_is(FL_SPAN("bucket"), "bucket"));
    assert_false(fl_span_is(FL_SPAN("bucket"), "bucke"));
    assert_false(fl_span_is(FL_SPAN("bucke"), "bucket"));
    assert_false(fl_span_is(FL_SPAN("Bucket"), "bucket"));
    assert_true(fl_span_ieq(FL_SPAN("Content-LENGTH"), FL_SPAN("content-length")));
    assert_false(fl_span_ieq(FL_SPAN("[x"), FL_SPAN("{x"))); /* differ by 0x20 but are no letters */
    assert_false(fl_span_ieq(FL_SPAN("@"), FL_SPAN("`")));
    assert_false(fl_span_eq(FL_SPAN("a\0b"), FL_SPAN("a\0c")));
}

static void cutting_is_clipped(void **state)
{
    (void)state;
    struct fl_span s = FL_SPAN("/bucket/key");
    assert_true(fl_span_is(fl_span_from(s, 8), "key"));
    assert_true(fl_span_is(fl_span_from(s, 11), ""));
    assert_true(fl_span_is(fl_span_from(s, SIZE_MAX), ""));
    assert_true(fl_span_is(fl_span_first(s, 7), "/bucket"));
    assert_true(fl_span_eq(fl_span_first(s, SIZE_MAX), s));
    assert_true(fl_span_starts(s, FL_SPAN("/bucket/")));
    assert_false(fl_span_starts(FL_SPAN("/buck"), FL_SPAN("/bucket")));
    assert_int_equal(fl_span_find(s, '/'), 0);
    assert_int_equal(fl_span_find(s, 'y'), 10);
    assert_int_equal(fl_span_find(fl_span_first(s, 10), 'y'), -1);
}

static void trim_takes_space_and_tab_only(void **state)
{
    (void)state;
    assert_true(fl_span_is(fl_span_trim(FL_SPAN(" \t a b\t ")), "a b"));
    assert_true(fl_span_is(fl_span_trim(FL_SPAN("\t \t")), ""));
    assert_true(fl_span_is(fl_span_trim(FL_SPAN("\ra\n")), "\ra\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_spans_are_equal_whatever_they_point_to),
        cmocka_unit_test(comparison_minds_length_and_case),
        cmocka_unit_test(cutting_is_clipped),
        cmocka_unit_test(trim_takes_space_and_tab_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
