#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/base/json.h"

static char text[512];
static struct fl_fmt out;
static struct fl_json j;

static int begin(void **state)
{
    (void)state;
    out = fl_fmt_of(text, sizeof(text));
    j = (struct fl_json){&out, false};
    return 0;
}

static void commas_stand_between_values_only(void **state)
{
    (void)state;
    fl_json_open(&j, NULL, '{');
    fl_json_open(&j, "empty", '[');
    fl_json_close(&j, ']');
    fl_json_open(&j, "list", '[');
    fl_json_int(&j, NULL, -1);
    fl_json_open(&j, NULL, '{');
    fl_json_close(&j, '}');
    fl_json_open(&j, NULL, '{');
    fl_json_bool(&j, "no", false);
    fl_json_bool(&j, "yes", true);
    fl_json_close(&j, '}');
    fl_json_text(&j, NULL, "");
    fl_json_close(&j, ']');
    fl_json_uint(&j, "last", UINT64_MAX);
    fl_json_close(&j, '}');
    assert_string_equal(text, "{\"empty\":[],\"list\":[-1,{},{\"no\":false,\"yes\":true},\"\"],"
                              "\"last\":18446744073709551615}");
}

static void keys_and_texts_are_escaped(void **state)
{
    (void)state;
    fl_json_open(&j, NULL, '{');
    fl_json_text(&j, "a\"b", "c\\d\n");
    fl_json_span(&j, "part", fl_span_first(fl_span_of("\"xyz"), 2));
    fl_json_close(&j, '}');
    assert_string_equal(text, "{\"a\\\"b\":\"c\\\\d\\n\",\"part\":\"\\\"x\"}");
}

static void times_and_seconds(void **state)
{
    (void)state;
    fl_json_open(&j, NULL, '[');
    fl_json_secs(&j, NULL, 1234);
    fl_json_time(&j, NULL, 0);
    fl_json_time(&j, NULL, -5);
    fl_json_time(&j, NULL, 1);
    fl_json_close(&j, ']');
    assert_string_equal(text, "[1.234,null,null,\"1970-01-01T00:00:00.001Z\"]");
}

static void one_that_does_not_fit_is_known_as_such(void **state)
{
    (void)state;
    char small[8];
    out = fl_fmt_of(small, sizeof(small));
    fl_json_text(&j, "key", "value");
    fl_json_text(&j, "key", "value");
    assert_true(out.cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(commas_stand_between_values_only, begin),
        cmocka_unit_test_setup(keys_and_texts_are_escaped, begin),
        cmocka_unit_test_setup(times_and_seconds, begin),
        cmocka_unit_test_setup(one_that_does_not_fit_is_known_as_such, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
