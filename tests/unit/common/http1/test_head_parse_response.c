/* Responses; requests and what both share are in test_head_parse.c. */
#include "common/http1/head_parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/fmt.h"
#include "tests/fuzz/common/http1/head_oracle.h"

static struct fl_response_head a;

static enum fl_http_error response(const char *raw, enum fl_http_method method)
{
    size_t scan = 0;
    oracle_at_once(raw, strlen(raw), &method);
    ptrdiff_t n = fl_head_end(raw, strlen(raw), &scan);
    return n > 0    ? fl_response_parse(raw, (size_t)n, method, &a)
           : n == 0 ? FL_HTTP_ERR_START_LINE
                    : (enum fl_http_error) - n;
}

static void expect_response(const char *raw, enum fl_http_error want)
{
    enum fl_http_error error = response(raw, FL_METHOD_GET);
    if (error != want) {
        fail_msg("%s: %s", raw, fl_http_error_text(error));
    }
}

#define RSP(fields) "HTTP/1.1 200 OK\r\n" fields "\r\n"

static void status_lines(void **state)
{
    static const struct {
        const char *raw;
        enum fl_http_error error;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\n\r\n", FL_HTTP_ERR_NONE},
        {"HTTP/1.1 599\r\n\r\n", FL_HTTP_ERR_NONE},
        {"HTTP/1.9 100 \r\n\r\n", FL_HTTP_ERR_NONE},
        {"HTTP/1.1 600 X\r\n\r\n", FL_HTTP_ERR_STATUS},
        {"HTTP/1.1 099 X\r\n\r\n", FL_HTTP_ERR_STATUS},
        {"HTTP/1.1 20 OK\r\n\r\n", FL_HTTP_ERR_STATUS},
        {"HTTP/1.1 2000 OK\r\n\r\n", FL_HTTP_ERR_STATUS},
        {"HTTP/1.1  200 OK\r\n\r\n", FL_HTTP_ERR_STATUS},
        {"HTTP/1.1\t200 OK\r\n\r\n", FL_HTTP_ERR_STATUS},
        {"HTTP/1.1 200\tOK\r\n\r\n", FL_HTTP_ERR_STATUS},
        {"HTTP/1.1 \r\n\r\n", FL_HTTP_ERR_STATUS},
        {"HTTP/1.1\r\n\r\n", FL_HTTP_ERR_STATUS},
        {"HTTP/1.\r\n\r\n", FL_HTTP_ERR_VERSION},
        {"HTTP/1.x 200 OK\r\n\r\n", FL_HTTP_ERR_VERSION},
        {"HTTP/2 200 OK\r\n\r\n", FL_HTTP_ERR_NOT_HTTP},
        {"http/1.1 200 OK\r\n\r\n", FL_HTTP_ERR_NOT_HTTP},
        {"HTTP/1.1 200 O\x7fK\r\n\r\n", FL_HTTP_ERR_START_LINE},
        {"HTTP/1.1 101 Switching\r\n\r\n", FL_HTTP_ERR_SWITCHING},
        {RSP("X : 1\r\n"), FL_HTTP_ERR_NONE},
        {RSP("Content-Length : 1\r\n"), FL_HTTP_ERR_FIELD_SPACE},
        {RSP("Transfer-Encoding\t: chunked\r\n"), FL_HTTP_ERR_FIELD_SPACE},
        {RSP("Connection : close\r\n"), FL_HTTP_ERR_FIELD_SPACE},
        {RSP("X A: 1\r\n"), FL_HTTP_ERR_FIELD_NAME},
        {RSP("X: 1\r\n y\r\n"), FL_HTTP_ERR_FIELD_FOLD},
        {RSP("Connection: set cookie\r\n"), FL_HTTP_ERR_CONNECTION},
        {RSP("Transfer-Encoding: gzip, chunked\r\n"), FL_HTTP_ERR_CODING_UNKNOWN},
        {RSP("Expect: x\r\nHost: a\r\nHost: b\r\n"), FL_HTTP_ERR_NONE},
    };
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        expect_response(cases[i].raw, cases[i].error);
    }
    expect_response("HTTP/1.1 404 Not There\r\n\r\n", FL_HTTP_ERR_NONE);
    assert_int_equal(a.status, 404);
    assert_int_equal(a.reason_off, 13);
    assert_int_equal(a.reason_len, 9);
}

/* RFC 9112 section 6.3 from the client's side of the table. */
static void response_framing(void **state)
{
    static const struct {
        const char *status, *fields;
        enum fl_http_method method;
        enum fl_http_framing framing;
        uint64_t length;
        bool keep, dropped; /* dropped: the first field does not go on */
    } cases[] = {
        {"200", "Content-Length: 5\r\n", FL_METHOD_GET, FL_FRAMING_LENGTH, 5, true, false},
        {"200", "Content-Length: 05\r\n", FL_METHOD_GET, FL_FRAMING_LENGTH, 5, true, true},
        {"200", "X: 1\r\n", FL_METHOD_GET, FL_FRAMING_UNTIL_CLOSE, 0, false, false},
        {"200", "Transfer-Encoding: Chunked\r\n", FL_METHOD_GET, FL_FRAMING_CHUNKED, 0, true, true},
        {"200", "Content-Length: 5\r\n", FL_METHOD_HEAD, FL_FRAMING_NONE, 5, true, false},
        {"200", "X: 1\r\n", FL_METHOD_HEAD, FL_FRAMING_NONE, 0, true, false},
        {"200", "Transfer-Encoding: chunked\r\n", FL_METHOD_HEAD, FL_FRAMING_NONE, 0, true, true},
        {"304", "Content-Length: 5\r\n", FL_METHOD_GET, FL_FRAMING_NONE, 5, true, false},
        {"204", "X: 1\r\n", FL_METHOD_DELETE, FL_FRAMING_NONE, 0, true, false},
        {"204", "Content-Length: 0\r\n", FL_METHOD_DELETE, FL_FRAMING_NONE, 0, true, true},
        {"204", "Content-Length: 5\r\n", FL_METHOD_DELETE, FL_FRAMING_NONE, 0, false, true},
        {"204", "Transfer-Encoding: chunked\r\n", FL_METHOD_GET, FL_FRAMING_NONE, 0, false, true},
        {"100", "Content-Length: 5\r\n", FL_METHOD_PUT, FL_FRAMING_NONE, 0, false, true},
        {"103", "Link: x\r\n", FL_METHOD_GET, FL_FRAMING_NONE, 0, true, false},
        {"205", "Content-Length: 0\r\n", FL_METHOD_GET, FL_FRAMING_LENGTH, 0, true, false},
    };
    char raw[256];
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        struct fl_fmt f = fl_fmt_of(raw, sizeof(raw));
        fl_fmt_printf(&f, "HTTP/1.1 %s X\r\n%s\r\n", cases[i].status, cases[i].fields);
        assert_int_equal(response(raw, cases[i].method), FL_HTTP_ERR_NONE);
        assert_int_equal(a.framing, cases[i].framing);
        assert_true(a.content_length == cases[i].length);
        assert_int_equal(a.keep_alive, cases[i].keep);
        assert_int_equal((a.head.fields[0].flags & FL_FIELD_HOP) != 0, cases[i].dropped);
    }
    expect_response("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                    FL_HTTP_ERR_CODING_OLD);
}

static void sniffing(void **state)
{
    static const char whole[] = "HTTP/1.1 200 OK\r\n";
    (void)state;
    for (size_t n = 0; n < sizeof(whole); n++) {
        assert_int_equal(fl_response_sniff(whole, n), FL_HTTP_ERR_NONE);
    }
    assert_int_equal(fl_response_sniff("SSH-2.0", 1), FL_HTTP_ERR_NOT_HTTP);
    assert_int_equal(fl_response_sniff("\x15\x03\x03", 3), FL_HTTP_ERR_NOT_HTTP);
    assert_int_equal(fl_response_sniff("HTTP/2", 6), FL_HTTP_ERR_NOT_HTTP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_lines),
        cmocka_unit_test(response_framing),
        cmocka_unit_test(sniffing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
