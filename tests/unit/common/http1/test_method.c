#include "common/http1/method.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void names_are_case_sensitive_and_whole(void **state)
{
    static const char *const others[] = {"", "get", "GE", "GETS", "Put", "M-SEARCH", "PROPFIND"};
    (void)state;
    for (unsigned m = FL_METHOD_OTHER + 1; m < FL_METHOD_COUNT; m++) {
        const char *name = fl_method_name((enum fl_http_method)m);
        assert_int_equal(fl_method_of(fl_span_of(name)), m);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_int_equal(fl_method_of(fl_span_of(others[i])), FL_METHOD_OTHER);
    }
    assert_string_equal(fl_method_name(FL_METHOD_OTHER), "");
}

/* RFC 9110 sections 9.2.1 and 9.2.2; unknown methods promise nothing. */
static void safe_and_idempotent(void **state)
{
    (void)state;
    for (unsigned i = 0; i < FL_METHOD_COUNT; i++) {
        enum fl_http_method m = (enum fl_http_method)i;
        bool safe = m == FL_METHOD_GET || m == FL_METHOD_HEAD || m == FL_METHOD_OPTIONS ||
                    m == FL_METHOD_TRACE;
        assert_int_equal(fl_method_is_safe(m), safe);
        assert_int_equal(fl_method_is_idempotent(m),
                         safe || m == FL_METHOD_PUT || m == FL_METHOD_DELETE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_case_sensitive_and_whole),
        cmocka_unit_test(safe_and_idempotent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
