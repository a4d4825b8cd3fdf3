#include "common/verdict/fault.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/check.h"
#include "common/model/tls_fault.h"

static const struct {
    enum fl_outcome o;
    int status, os_errno;
    const char *code, *text;
} rows[] = {
    {FL_OUTCOME_OK, 200, 0, "", ""},
    {FL_OUTCOME_CONNECT_FAILED, 0, ECONNREFUSED, "connect_refused",
     "connect to 10.0.0.1:9000 failed (Connection refused)"},
    {FL_OUTCOME_CONNECT_FAILED, 0, EHOSTUNREACH, "host_unreachable",
     "connect to 10.0.0.1:9000 failed (No route to host)"},
    {FL_OUTCOME_CONNECT_FAILED, 0, 0, "connect_failed", "connect to 10.0.0.1:9000 failed"},
    {FL_OUTCOME_CONNECT_TIMEOUT, 0, 0, "connect_timeout", "connect to 10.0.0.1:9000 timed out"},
    {FL_OUTCOME_TLS_FAILED, 0, 0, "tls_failure", "TLS handshake with 10.0.0.1:9000 failed"},
    {FL_OUTCOME_TLS_FAILED, 0, ECONNRESET, "tls_failure",
     "TLS handshake with 10.0.0.1:9000 failed (Connection reset by peer)"},
    {FL_OUTCOME_TLS_FAILED, 0, FL_TLS_EXPIRED, "tls_expired",
     "TLS handshake with 10.0.0.1:9000 failed (certificate has expired)"},
    {FL_OUTCOME_TLS_FAILED, 0, FL_TLS_TIMEOUT, "tls_timeout",
     "TLS handshake with 10.0.0.1:9000 failed (handshake timed out)"},
    {FL_OUTCOME_SEND_TIMEOUT, 0, 0, "send_timeout",
     "sending the request to 10.0.0.1:9000 timed out"},
    {FL_OUTCOME_READ_TIMEOUT, 0, 0, "no_answer",
     "10.0.0.1:9000 accepts connections but does not answer"},
    {FL_OUTCOME_PREMATURE_CLOSE, 0, 0, "premature_close",
     "10.0.0.1:9000 closed the connection without an answer"},
    {FL_OUTCOME_PREMATURE_CLOSE, 0, ECONNRESET, "premature_close",
     "10.0.0.1:9000 closed the connection without an answer (Connection reset by peer)"},
    {FL_OUTCOME_INVALID_HEADER, 0, 0, "invalid_header",
     "the answer of 10.0.0.1:9000 is not valid HTTP"},
    {FL_OUTCOME_HTTP_STATUS, 503, 0, "http_503", "10.0.0.1:9000 answered with status 503"},
    {FL_OUTCOME_THROTTLED, 503, 0, "throttled", "10.0.0.1:9000 asks to slow down"},
    {FL_OUTCOME_TRUNCATED, 200, 0, "truncated",
     "10.0.0.1:9000 ended the answer before it was complete"},
    {FL_OUTCOME_STALLED, 200, 0, "stalled", "10.0.0.1:9000 stopped in the middle of the answer"},
    {FL_OUTCOME_STALE_REUSE, 0, 0, "stale_reuse",
     "a kept connection to 10.0.0.1:9000 ended under the request"},
    {FL_OUTCOME_CLIENT_ABORT, 0, 0, "client_abort", "the client left"},
    {FL_OUTCOME_CLIENT_TIMEOUT, 0, 0, "client_timeout", "the client was too slow"},
    {FL_OUTCOME_CLIENT_BAD, 0, 0, "client_bad", "the client broke the protocol"},
    {FL_OUTCOME_LOCAL_RESOURCE, 0, EMFILE, "local_resource",
     "the sidecar is out of a local resource (Too many open files)"},
    {FL_OUTCOME_CLIPPED, 0, 0, "clipped",
     "next_upstream_timeout passed before 10.0.0.1:9000 answered"},
    {FL_OUTCOME_DEADLINE, 0, 0, "deadline", "the deadline passed before 10.0.0.1:9000 answered"},
    {FL_OUTCOME_DEADLINE_BLAMED, 0, 0, "deadline",
     "the deadline passed before 10.0.0.1:9000 answered"},
};

static void every_outcome_has_its_sentence(void **state)
{
    (void)state;
    bool seen[FL_OUTCOME_COUNT] = {false};
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        struct fl_cause c;
        fl_fault_cause(rows[i].o, rows[i].status, rows[i].os_errno, "10.0.0.1:9000", &c);
        assert_string_equal(c.code, rows[i].code);
        assert_string_equal(c.text, rows[i].text);
        seen[rows[i].o] = true;
    }
    for (unsigned o = 0; o < FL_OUTCOME_COUNT; o++) {
        if (!seen[o]) {
            fail_msg("no row for %s", fl_outcome_row((enum fl_outcome)o)->token);
        }
    }
}

static void odd_input_stays_in_bounds(void **state)
{
    (void)state;
    char address[400];
    memset(address, 'a', sizeof(address) - 1);
    address[sizeof(address) - 1] = '\0';
    for (unsigned o = 0; o < FL_OUTCOME_COUNT; o++) {
        struct fl_cause c;
        fl_fault_cause((enum fl_outcome)o, 99999, 99999, address, &c);
        assert_true(strlen(c.text) < sizeof(c.text) && strlen(c.code) < sizeof(c.code));
        fl_fault_cause((enum fl_outcome)o, -1, -1, "x\n\xff", &c);
        for (const char *p = c.text; *p; p++) {
            assert_true(*p >= 0x20 && *p < 0x7f);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_outcome_has_its_sentence),
        cmocka_unit_test(odd_input_stays_in_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
