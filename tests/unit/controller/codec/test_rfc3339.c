#include "controller/codec/rfc3339.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "common/base/check.h"
#include "common/base/fmt.h"

static void times_as_kubernetes_writes_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-11-30T09:21:47Z", 1796030507000},
        {"2026-11-30T09:21:47.5Z", 1796030507500},
        {"2026-11-30T09:21:47.123456789Z", 1796030507123},
        {"2026-11-30T10:21:47+01:00", 1796030507000},
        {"2026-11-29T21:51:47.000001-11:30", 1796030507000},
        {"2000-02-29T00:00:00z", 951782400000},
        {"1969-12-31t23:59:59.999Z", -1},
        {"9999-12-31T23:59:59Z", 253402300799000},
    };
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        int64_t ms = 42;
        assert_true(fl_rfc3339_parse(fl_span_of(rows[i].text), &ms));
        assert_int_equal(ms, rows[i].ms);
    }
}

static void all_that_fmt_prints_is_read_back(void **state)
{
    (void)state;
    for (int64_t ms = -62135596800000; ms < 253402300799999; ms += 86399999LL * 7 + 12345) {
        char text[40];
        struct fl_fmt f = fl_fmt_of(text, sizeof(text));
        int64_t again = 0;
        fl_fmt_rfc3339(&f, ms);
        assert_true(fl_rfc3339_parse((struct fl_span){f.base, f.len}, &again));
        assert_int_equal(again, ms);
    }
}

static void other_texts_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "2026",
        "2026-11-30",
        "2026-11-30T09:21:47",
        "2026-11-30 09:21:47Z",
        "2026-13-30T09:21:47Z",
        "2026-00-30T09:21:47Z",
        "2026-11-31T09:21:47Z",
        "2026-02-29T09:21:47Z",
        "1900-02-29T00:00:00Z",
        "2026-11-30T24:21:47Z",
        "2026-11-30T09:60:47Z",
        "2026-11-30T09:21:61Z",
        "2026-11-30T09:21:47.Z",
        "2026-11-30T09:21:47Zx",
        "2026-11-30T09:21:47+1:00",
        "2026-11-30T09:21:47+01",
        "2026-11-30T09:21:47+24:00",
        "2026-11-30T09:21:47+01:60",
        "0000-01-01T00:00:00Z",
        "-026-11-30T09:21:47Z",
        "2026-11-3xT09:21:47Z",
    };
    for (size_t i = 0; i < FL_COUNTOF(texts); i++) {
        int64_t ms = 42;
        if (fl_rfc3339_parse(fl_span_of(texts[i]), &ms)) {
            fail_msg("taken: %s", texts[i]);
        }
        assert_int_equal(ms, 42);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_as_kubernetes_writes_them),
        cmocka_unit_test(all_that_fmt_prints_is_read_back),
        cmocka_unit_test(other_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
