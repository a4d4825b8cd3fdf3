#include "common/http1/http_error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The contract's statuses for client faults (section 5), and a text that needs no escaping. */
static void every_error_has_a_status_and_a_text(void **state)
{
    static const int allowed[] = {400, 414, 417, 431, 501, 505};
    (void)state;
    assert_int_equal(fl_http_error_status(FL_HTTP_ERR_NONE), 0);
    for (unsigned e = 1; e < FL_HTTP_ERR_COUNT; e++) {
        const char *text = fl_http_error_text((enum fl_http_error)e);
        unsigned found = 0;
        for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
            found += fl_http_error_status((enum fl_http_error)e) == allowed[i];
        }
        assert_int_equal(found, 1);
        assert_in_range(strlen(text), 8, 60);
        assert_int_equal(
            strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-. "),
            strlen(text));
    }
}

static void every_text_is_unique(void **state)
{
    (void)state;
    for (unsigned a = 0; a < FL_HTTP_ERR_COUNT; a++) {
        for (unsigned b = a + 1; b < FL_HTTP_ERR_COUNT; b++) {
            assert_string_not_equal(fl_http_error_text((enum fl_http_error)a),
                                    fl_http_error_text((enum fl_http_error)b));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_has_a_status_and_a_text),
        cmocka_unit_test(every_text_is_unique),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
