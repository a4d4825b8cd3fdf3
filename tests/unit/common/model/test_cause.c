#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "common/model/cause.h"
#include "common/model/verdict.h"

static void texts_are_cut_and_printable(void **state)
{
    struct fl_cause c;
    char longer[400];
    (void)state;
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    fl_cause_set(&c, "connect_refused", "connect to %s failed (%s)", "10.0.1.10:9000",
                 fl_cause_errno_text(ECONNREFUSED));
    assert_string_equal(c.code, "connect_refused");
    assert_string_equal(c.text, "connect to 10.0.1.10:9000 failed (Connection refused)");
    fl_cause_set(&c, longer, "%s", longer);
    assert_int_equal(strlen(c.code), sizeof(c.code) - 1);
    assert_int_equal(strlen(c.text), sizeof(c.text) - 1);
    fl_cause_set(&c, "a\nb", "tab\t\x1b[31m \xc3\xa9 \x7f end");
    assert_string_equal(c.code, "a?b");
    assert_string_equal(c.text, "tab??[31m ?? ? end");
    fl_cause_set(&c, "kept", "first: %s", c.text); /* its own text as an argument */
    assert_string_equal(c.text, "first: tab??[31m ?? ? end");
}

static void errno_has_a_stable_code(void **state)
{
    (void)state;
    assert_string_equal(fl_cause_errno_code(ECONNREFUSED), "connect_refused");
    assert_string_equal(fl_cause_errno_code(ECONNRESET), "reset");
    assert_string_equal(fl_cause_errno_code(EHOSTUNREACH), "host_unreachable");
    assert_string_equal(fl_cause_errno_code(EMFILE), "no_descriptors");
    assert_string_equal(fl_cause_errno_code(123456), "os_error");
    assert_string_equal(fl_cause_errno_code(0), "os_error");
    assert_string_equal(fl_cause_errno_text(ETIMEDOUT), "Connection timed out");
    assert_string_equal(fl_cause_errno_text(123456), "Unknown system error");
    for (int err = 1; err < 140; err++) {
        struct fl_cause c;
        fl_cause_set(&c, fl_cause_errno_code(err), "%s", fl_cause_errno_text(err));
        assert_true(c.code[0] && c.text[0]);
        assert_null(strchr(c.text, '?'));
    }
}

static void verdict_words(void **state)
{
    static const char *const words[] = {"healthy", "unreachable", "auth-rejected", "erroring",
                                        "unknown"};
    static const bool blocks[] = {false, true, true, false, false};
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(words); i++) {
        enum fl_verdict_status s;
        assert_true(fl_verdict_status_parse(fl_span_of(words[i]), &s));
        assert_string_equal(fl_verdict_status_name(s), words[i]);
        assert_int_equal(fl_verdict_blocks(s), blocks[i]);
    }
    enum fl_verdict_status s = FL_VERDICT_ERRORING;
    assert_false(fl_verdict_status_parse(FL_SPAN("Healthy"), &s));
    assert_false(fl_verdict_status_parse(FL_SPAN("auth_rejected"), &s));
    assert_false(fl_verdict_status_parse(FL_SPAN(""), &s));
    assert_int_equal(s, FL_VERDICT_ERRORING);
}

static void a_verdict_is_the_same_by_what_it_says(void **state)
{
    (void)state;
    struct fl_verdict a = {.status = FL_VERDICT_ERRORING, .at_ms = 1, .duration_ms = 2}, b;
    fl_cause_set(&a.cause, "http_500", "answered 500");
    b = a;
    b.at_ms = b.at_unix_ms = b.duration_ms = 99;
    b.source = FL_VERDICT_PUSHED;
    assert_true(fl_verdict_same(&a, &b));
    b.note[0] = 'x';
    assert_false(fl_verdict_same(&a, &b));
    b = a;
    b.status = FL_VERDICT_UNREACHABLE;
    assert_false(fl_verdict_same(&a, &b));
    b = a;
    fl_cause_set(&b.cause, "http_500", "answered 500 twice");
    assert_false(fl_verdict_same(&a, &b));
    fl_cause_set(&b.cause, "http_501", "answered 500");
    assert_false(fl_verdict_same(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_cut_and_printable),
        cmocka_unit_test(errno_has_a_stable_code),
        cmocka_unit_test(verdict_words),
        cmocka_unit_test(a_verdict_is_the_same_by_what_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
