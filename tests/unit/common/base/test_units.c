#include "common/base/units.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char text[64];

static int64_t ms(const char *s) /* -1: refused */
{
    int64_t v = -77;
    bool ok = fl_units_duration_ms(fl_span_of(s), &v);
    assert_true(ok || v == -77);
    return ok ? v : -1;
}

static void durations(void **state)
{
    (void)state;
    assert_int_equal(ms("250ms"), 250);
    assert_int_equal(ms("10s"), 10000);
    assert_int_equal(ms("5m"), 300000);
    assert_int_equal(ms("24h"), 86400000);
    assert_int_equal(ms("0"), 0);
    assert_int_equal(ms("0s"), 0);
    assert_true(ms("9223372036854775807ms") == INT64_MAX);
    static const char *const bad[] = {"",
                                      "10",
                                      "s",
                                      "ms",
                                      "-1s",
                                      "+1s",
                                      "1.5s",
                                      "1 s",
                                      " 1s",
                                      "1s ",
                                      "1S",
                                      "1sec",
                                      "1s1s",
                                      "1d",
                                      "00",
                                      "0x1",
                                      "1e3s",
                                      "10s0",
                                      "µs",
                                      "１s",
                                      "9223372036854775808ms",
                                      "18446744073709551616ms",
                                      "2562047788016h"};
    for (size_t i = 0; i < FL_COUNTOF(bad); i++) {
        if (ms(bad[i]) != -1) {
            fail_msg("accepted %s", bad[i]);
        }
    }
    assert_true(ms("2562047788015h") == 2562047788015 * 3600000);
}

static void sizes(void **state)
{
    (void)state;
    uint64_t v = 0;
    assert_true(fl_units_size_bytes(FL_SPAN("64KiB"), &v) && v == 65536);
    assert_true(fl_units_size_bytes(FL_SPAN("1MiB"), &v) && v == 1048576);
    assert_true(fl_units_size_bytes(FL_SPAN("3GiB"), &v) && v == 3221225472);
    assert_true(fl_units_size_bytes(FL_SPAN("512"), &v) && v == 512);
    assert_true(fl_units_size_bytes(FL_SPAN("17179869183GiB"), &v) &&
                v == 17179869183u * (1ull << 30));
    v = 5;
    static const char *const bad[] = {"",      "KiB", "1KB", "1kib",           "1K",
                                      "1 KiB", "1B",  "-1",  "17179869184GiB", "0x10"};
    for (size_t i = 0; i < FL_COUNTOF(bad); i++) {
        if (fl_units_size_bytes(fl_span_of(bad[i]), &v)) {
            fail_msg("accepted %s", bad[i]);
        }
    }
    assert_int_equal(v, 5);
}

static void numbers_ratios_multiples(void **state)
{
    (void)state;
    uint64_t v = 0;
    uint32_t small = 7;
    assert_true(fl_units_uint(FL_SPAN("18446744073709551615"), &v) && v == UINT64_MAX);
    assert_true(fl_units_uint(FL_SPAN("007"), &v) && v == 7);
    assert_false(fl_units_uint(FL_SPAN("18446744073709551616"), &v));
    assert_false(fl_units_uint(FL_SPAN("99999999999999999999"), &v));
    assert_false(fl_units_uint(FL_SPAN("1\0"), &v));
    assert_false(fl_units_uint(FL_SPAN(""), &v));
    assert_false(fl_units_uint((struct fl_span){0}, &v));
    assert_false(fl_units_percent(FL_SPAN("101%"), &small));
    assert_false(fl_units_percent(FL_SPAN("%"), &small));
    assert_false(fl_units_percent(FL_SPAN("20"), &small));
    assert_false(fl_units_percent((struct fl_span){0}, &small));
    assert_false(fl_units_percent(FL_SPAN("18446744073709551617%"), &small));
    assert_false(fl_units_multiple(FL_SPAN("4294967296x"), &small));
    assert_false(fl_units_multiple(FL_SPAN("8X"), &small));
    assert_int_equal(small, 7);
    assert_true(fl_units_percent(FL_SPAN("20%"), &small) && small == 20);
    assert_true(fl_units_percent(FL_SPAN("100%"), &small) && small == 100);
    assert_true(fl_units_multiple(FL_SPAN("8x"), &small) && small == 8);
}

static const char *duration_text(int64_t v)
{
    struct fl_fmt f = fl_fmt_of(text, sizeof text);
    fl_units_print_duration(&f, v);
    return text;
}

static const char *size_text(uint64_t v)
{
    struct fl_fmt f = fl_fmt_of(text, sizeof text);
    fl_units_print_size(&f, v);
    return text;
}

static void printing_uses_the_largest_exact_unit(void **state)
{
    (void)state;
    assert_string_equal(duration_text(0), "0s");
    assert_string_equal(duration_text(250), "250ms");
    assert_string_equal(duration_text(10000), "10s");
    assert_string_equal(duration_text(90000), "90s");
    assert_string_equal(duration_text(300000), "5m");
    assert_string_equal(duration_text(7200000), "2h");
    assert_string_equal(duration_text(-1500), "-1500ms");
    assert_string_equal(duration_text(INT64_MIN), "-9223372036854775808ms");
    assert_string_equal(size_text(0), "0");
    assert_string_equal(size_text(1000), "1000");
    assert_string_equal(size_text(65536), "64KiB");
    assert_string_equal(size_text(1536 * 1024), "1536KiB");
    assert_string_equal(size_text(1ull << 40), "1024GiB");
    assert_string_equal(size_text(UINT64_MAX), "18446744073709551615");

    struct fl_fmt f = fl_fmt_of(text, 4);
    fl_units_print_duration(&f, 100000); /* never "100" without its unit */
    assert_string_equal(text, "");
    assert_true(f.cut);
}

static void printed_values_parse_back(void **state)
{
    (void)state;
    for (int64_t v = 0; v < 8000000; v += 1237) {
        assert_true(ms(duration_text(v)) == v);
        uint64_t bytes = 0;
        assert_true(fl_units_size_bytes(fl_span_of(size_text((uint64_t)v * 512)), &bytes));
        assert_true(bytes == (uint64_t)v * 512);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations),
        cmocka_unit_test(sizes),
        cmocka_unit_test(numbers_ratios_multiples),
        cmocka_unit_test(printing_uses_the_largest_exact_unit),
        cmocka_unit_test(printed_values_parse_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
