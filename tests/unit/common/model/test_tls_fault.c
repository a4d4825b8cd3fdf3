#include "common/model/tls_fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/model/cause.h"

/* Every one has a code that fits a cause and printable text, and is found through the errno words.
 */
static void every_fault_has_words(void **state)
{
    (void)state;
    for (int f = FL_TLS_FAULT_BASE + 1; f < FL_TLS_FAULT_END; f++) {
        struct fl_cause c;
        const char *code = fl_tls_fault_code(f), *text = fl_tls_fault_text(f);
        assert_true(fl_tls_fault_is(f));
        assert_non_null(code);
        assert_int_equal(strncmp(code, "tls_", 4), 0);
        assert_true(strlen(code) < sizeof c.code);
        for (const char *p = text; *p; p++) {
            assert_in_range((unsigned char)*p, 0x20, 0x7e);
        }
        assert_ptr_equal(fl_cause_errno_text(f), text);
        assert_ptr_equal(fl_cause_errno_code(f), code);
    }
}

static void errnos_are_none(void **state)
{
    (void)state;
    static const int others[] = {0, 1, 104, 4095, FL_TLS_FAULT_BASE, FL_TLS_FAULT_END, -5001};
    for (size_t i = 0; i < FL_COUNTOF(others); i++) {
        assert_false(fl_tls_fault_is(others[i]));
        assert_null(fl_tls_fault_code(others[i]));
        assert_null(fl_tls_fault_text(others[i]));
        assert_false(fl_tls_fault_is_refusal(others[i]));
    }
    assert_string_equal(fl_cause_errno_code(FL_TLS_FAULT_END), "os_error");
}

/* What the field searches its logs for stays as OpenSSL says it. */
static void well_known_words(void **state)
{
    (void)state;
    assert_string_equal(fl_tls_fault_text(FL_TLS_EXPIRED), "certificate has expired");
    assert_string_equal(fl_tls_fault_text(FL_TLS_HOSTNAME_MISMATCH), "hostname mismatch");
    assert_string_equal(fl_tls_fault_text(FL_TLS_SELF_SIGNED), "self-signed certificate");
    assert_string_equal(fl_tls_fault_text(FL_TLS_UNKNOWN_ISSUER),
                        "unable to get local issuer certificate");
    assert_int_equal(strncmp(fl_tls_fault_text(FL_TLS_WRONG_VERSION), "wrong version number", 20),
                     0);
}

static void only_words_about_the_client_are_refusals(void **state)
{
    (void)state;
    assert_true(fl_tls_fault_is_refusal(FL_TLS_ALERT_WANTS_CERT));
    assert_true(fl_tls_fault_is_refusal(FL_TLS_ALERT_UNKNOWN_CA));
    assert_false(fl_tls_fault_is_refusal(FL_TLS_ALERT_INTERNAL));
    assert_false(fl_tls_fault_is_refusal(FL_TLS_ALERT_RECORD));
    assert_false(fl_tls_fault_is_refusal(FL_TLS_CUT));
    assert_false(fl_tls_fault_is_refusal(FL_TLS_EXPIRED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_has_words),
        cmocka_unit_test(errnos_are_none),
        cmocka_unit_test(well_known_words),
        cmocka_unit_test(only_words_about_the_client_are_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
