#include "common/verdict/remedy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/check.h"
#include "common/model/outcome.h"
#include "common/model/tls_fault.h"
#include "common/verdict/fault.h"

static const char *general(void)
{
    return fl_remedy("no such code");
}

/* Whatever the traffic or a probe can find has a line of its own, or its family's. */
static void every_fault_has_one(void **state)
{
    (void)state;
    struct fl_cause c;
    for (int o = FL_OUTCOME_OK + 1; o < FL_OUTCOME_COUNT; o++) {
        fl_fault_cause((enum fl_outcome)o, 503, 0, "10.0.0.1:9000", &c);
        if (fl_outcome_row((enum fl_outcome)o)->blames && strcmp(c.code, "connect_failed") != 0) {
            assert_true(fl_remedy(c.code) != general());
        }
    }
    for (int err = FL_TLS_FAULT_BASE + 1; err < FL_TLS_FAULT_END; err++) {
        assert_true(fl_remedy(fl_tls_fault_code(err)) != general());
    }
    static const char *const codes[] = {"connect_refused", "dns_failure",  "credentials_rejected",
                                        "clock_skew",      "wrong_region", "not_s3",
                                        "probe_keys",      "drained",      "down",
                                        "no_members",      "no_peers",     "host_unreachable"};
    for (size_t i = 0; i < FL_COUNTOF(codes); i++) {
        assert_true(fl_remedy(codes[i]) != general());
    }
}

static void the_own_line_comes_before_the_family(void **state)
{
    (void)state;
    assert_true(fl_remedy("tls_expired") != fl_remedy("tls_weak"));
    assert_true(fl_remedy("tls_weak") == fl_remedy("tls_protocol"));
    assert_true(fl_remedy("http_429") == fl_remedy("throttled"));
    assert_true(fl_remedy("http_500") == fl_remedy("http_503"));
    assert_true(fl_remedy("http_404") != fl_remedy("http_503"));
}

static void no_other_code_fits_by_its_beginning(void **state)
{
    (void)state;
    assert_true(fl_remedy("down_town") == general());
    assert_true(fl_remedy("connect_refuse") == general());
    assert_true(fl_remedy("") == general());
    assert_true(general()[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_has_one),
        cmocka_unit_test(the_own_line_comes_before_the_family),
        cmocka_unit_test(no_other_code_fits_by_its_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
