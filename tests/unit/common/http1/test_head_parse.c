#include "common/http1/head_parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/fmt.h"
#include "common/base/rng.h"
#include "common/http1/headers.h"
#include "tests/fuzz/common/http1/head_oracle.h"

static struct fl_request_head q;
static struct fl_response_head a;

/* Finds the end and parses, as the proxy does; incomplete is START_LINE here. */
static enum fl_http_error request(const char *raw, size_t len)
{
    size_t scan = 0;
    oracle_at_once(raw, len, NULL);
    ptrdiff_t n = fl_head_end(raw, len, &scan);
    return n > 0    ? fl_request_parse(raw, (size_t)n, &q)
           : n == 0 ? FL_HTTP_ERR_START_LINE
                    : (enum fl_http_error) - n;
}

static void expect_request(const char *raw, enum fl_http_error want)
{
    enum fl_http_error error = request(raw, strlen(raw));
    if (error != want) {
        fail_msg("%s: %s", raw, fl_http_error_text(error));
    }
}

#define REQ(fields) "GET /b/k HTTP/1.1\r\nHost: h\r\n" fields "\r\n"

static void request_lines(void **state)
{
    static const struct {
        const char *raw;
        enum fl_http_error error;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", FL_HTTP_ERR_NONE},
        {"GET / HTTP/1.9\r\nHost: h\r\n\r\n", FL_HTTP_ERR_NONE},
        {"GET / HTTP/1.0\r\n\r\n", FL_HTTP_ERR_NONE},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF / HTTP/1.1\r\nHost: h\r\n\r\n", FL_HTTP_ERR_NONE},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\nHost: h\r\n\r\n",
         FL_HTTP_ERR_METHOD_LONG},
        {" GET / HTTP/1.1\r\n\r\n", FL_HTTP_ERR_METHOD},
        {"GET\t/ HTTP/1.1\r\n\r\n", FL_HTTP_ERR_METHOD},
        {"GET\r\n\r\n", FL_HTTP_ERR_METHOD},
        {"GET \r\n\r\n", FL_HTTP_ERR_TARGET},
        {"GET  / HTTP/1.1\r\n\r\n", FL_HTTP_ERR_TARGET},
        {"GET /a\\b HTTP/1.1\r\n\r\n", FL_HTTP_ERR_TARGET},
        {"GET /a\x7f HTTP/1.1\r\n\r\n", FL_HTTP_ERR_TARGET},
        {"GET /caf\xc3\xa9 HTTP/1.1\r\n\r\n", FL_HTTP_ERR_TARGET},
        {"GET /a\tHTTP/1.1\r\n\r\n", FL_HTTP_ERR_TARGET},
        {"GET /a  HTTP/1.1\r\n\r\n", FL_HTTP_ERR_VERSION},
        {"GET /a b HTTP/1.1\r\n\r\n", FL_HTTP_ERR_VERSION},
        {"GET /a HTTP/1.1\t\r\n\r\n", FL_HTTP_ERR_START_LINE},
        {"GET /a\r\n\r\n", FL_HTTP_ERR_START_LINE},
        {"GET / HTTP/0.9\r\n\r\n", FL_HTTP_ERR_VERSION},
        {"GET / HTTP/1\r\n\r\n", FL_HTTP_ERR_VERSION},
        {"GET / HTTP/1.\r\n\r\n", FL_HTTP_ERR_VERSION},
        {"GET / HTTP/2.0\r\n\r\n", FL_HTTP_ERR_VERSION_MAJOR},
        {"GET / HTTP/9.1\r\n\r\n", FL_HTTP_ERR_VERSION_MAJOR},
        {"TRACE / HTTP/1.1\r\nHost: h\r\n\r\n", FL_HTTP_ERR_METHOD_REFUSED},
        {"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n", FL_HTTP_ERR_METHOD_REFUSED},
        {"OPTIONS ** HTTP/1.1\r\nHost: h\r\n\r\n", FL_HTTP_ERR_TARGET},
        {"OPTIONS http:// HTTP/1.1\r\nHost: h\r\n\r\n", FL_HTTP_ERR_HOST},
        {"GET http:///b HTTP/1.1\r\nHost: h\r\n\r\n", FL_HTTP_ERR_HOST},
        {"GET http:/h/b HTTP/1.1\r\nHost: h\r\n\r\n", FL_HTTP_ERR_TARGET},
        {"GET https://h/b HTTP/1.1\r\nHost: h\r\n\r\n", FL_HTTP_ERR_SCHEME},
        {"GET ://h/b HTTP/1.1\r\nHost: h\r\n\r\n", FL_HTTP_ERR_TARGET},
        {"GET h:80 HTTP/1.1\r\nHost: h\r\n\r\n", FL_HTTP_ERR_TARGET},
        {"GET http://h/b HTTP/1.1\r\n\r\n", FL_HTTP_ERR_HOST_MISSING},
        {"GET http://h/b HTTP/1.1\r\nHost: a b\r\n\r\n", FL_HTTP_ERR_HOST},
    };
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        expect_request(cases[i].raw, cases[i].error);
    }
}

/* What these lines are worth in requests; the same table serves trailers elsewhere. */
static void request_fields(void **state)
{
    static const struct {
        const char *raw;
        enum fl_http_error error;
    } cases[] = {
        {REQ("X: a\x01z\r\n"), FL_HTTP_ERR_CONTROL},
        {REQ("X: a\x7fz\r\n"), FL_HTTP_ERR_FIELD_VALUE},
        {REQ("X\r\n"), FL_HTTP_ERR_FIELD_COLON},
        {REQ("X \r\n"), FL_HTTP_ERR_FIELD_NAME},
        {REQ("X : 1\r\n"), FL_HTTP_ERR_FIELD_SPACE},
        {REQ("X\t: 1\r\n"), FL_HTTP_ERR_FIELD_SPACE},
        {REQ(" X: 1\r\n"), FL_HTTP_ERR_FIELD_FOLD},
        {REQ(": 1\r\n"), FL_HTTP_ERR_FIELD_NAME},
        {REQ("X(: 1\r\n"), FL_HTTP_ERR_FIELD_NAME},
        {REQ("Content-Length: \r\n"), FL_HTTP_ERR_LENGTH},
        {REQ("Content-Length: 9223372036854775808\r\n"), FL_HTTP_ERR_LENGTH},
        {REQ("Content-Length: 99999999999999999999\r\n"), FL_HTTP_ERR_LENGTH},
        {REQ("Content-Length: 1 \x85\r\n"), FL_HTTP_ERR_LENGTH},
        {REQ("Content-Length: 1\r\nX: 1\r\nContent-Length: 1\r\n"), FL_HTTP_ERR_LENGTH_TWICE},
        {REQ("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), FL_HTTP_ERR_LENGTH_AND_CODING},
        {REQ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
         FL_HTTP_ERR_CODING_TWICE},
        {REQ("Transfer-Encoding: gzip;q=\"1\", chunked\r\n"), FL_HTTP_ERR_CODING_UNKNOWN},
        {REQ("Transfer-Encoding: chunked;q=1\r\n"), FL_HTTP_ERR_CODING},
        {REQ("Transfer-Encoding: chunked, gzip, chunked\r\n"), FL_HTTP_ERR_CODING},
        {REQ("Transfer-Encoding: \"chunked\"\r\n"), FL_HTTP_ERR_CODING},
        {REQ("Transfer-Encoding: chunked chunked\r\n"), FL_HTTP_ERR_CODING},
        {REQ("Connection: close; x\r\n"), FL_HTTP_ERR_CONNECTION},
        {REQ("Connection: transfer-encoding\r\n"), FL_HTTP_ERR_CONNECTION_NAMES},
        {REQ("Connection: X-AMZ-Date\r\n"), FL_HTTP_ERR_CONNECTION_NAMES},
        {REQ("Connection: close\r\nConnection: if-none-match\r\n"), FL_HTTP_ERR_CONNECTION_NAMES},
        {REQ("Connection: Cookie\r\n"), FL_HTTP_ERR_CONNECTION_NAMES},
        {REQ("Connection: Range\r\n"), FL_HTTP_ERR_CONNECTION_NAMES},
        {REQ("Connection: Authorization\r\n"), FL_HTTP_ERR_CONNECTION_NAMES},
        {REQ("Connection: Date\r\n"), FL_HTTP_ERR_CONNECTION_NAMES},
        {REQ("Expect: 100-continue;x\r\n"), FL_HTTP_ERR_EXPECT},
        {REQ("Expect:\r\n"), FL_HTTP_ERR_EXPECT},
        {REQ("Expect: 100-continue\r\nExpect: x\r\n"), FL_HTTP_ERR_EXPECT},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", FL_HTTP_ERR_HOST},
        {"GET / HTTP/1.1\r\nHost: h\r\nX: 1\r\nHost: h\r\n\r\n", FL_HTTP_ERR_HOST_TWICE},
        {"GET / HTTP/1.0\r\nHost: h\r\nHost: i\r\n\r\n", FL_HTTP_ERR_HOST_TWICE},
        {"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", FL_HTTP_ERR_CODING_OLD},
        {"OPTIONS / HTTP/1.1\r\nHost: h\r\nMax-Forwards: x\r\n\r\n", FL_HTTP_ERR_MAX_FORWARDS},
        {"OPTIONS / HTTP/1.1\r\nHost: h\r\nMax-Forwards: 1\r\nMax-Forwards: 1\r\n\r\n",
         FL_HTTP_ERR_MAX_FORWARDS},
        {REQ("Max-Forwards: x\r\n"), FL_HTTP_ERR_NONE},
        {REQ("X: caf\xc3\xa9 \xff\r\n"), FL_HTTP_ERR_NONE},
        {REQ("X:\ta\tb\t \r\n"), FL_HTTP_ERR_NONE},
    };
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        expect_request(cases[i].raw, cases[i].error);
    }
    assert_int_equal(request("GET / HTTP/1.1\r\nX: \0\r\n\r\n", 25), FL_HTTP_ERR_CONTROL);
}

static void offsets_and_values(void **state)
{
    const char *raw = "\r\n\r\nPUT /b/k?x HTTP/1.1\r\nhost:  s3.local:80 \t\r\nX-E:\r\nX-F: \r\n"
                      "Content-Length: 0012\r\n\r\nbody";
    (void)state;
    expect_request(raw, FL_HTTP_ERR_NONE);
    assert_int_equal(q.method, FL_METHOD_PUT);
    assert_int_equal(q.method_len, 3);
    assert_int_equal(q.head.start_off, 4);
    assert_int_equal(q.head.length, strlen(raw) - 4);
    assert_int_equal(q.head.count, 4);
    assert_memory_equal(raw + q.target_off, "/b/k?x HTTP", 11);
    assert_int_equal(q.target_len, 6);
    assert_int_equal(q.path_off, q.target_off);
    assert_memory_equal(raw + q.host_off, "s3.local:80", q.host_len);
    assert_int_equal(q.host_len, 11);
    assert_int_equal(q.head.fields[1].value_len, 0);
    assert_int_equal(q.head.fields[2].value_len, 0);
    assert_int_equal(q.framing, FL_FRAMING_LENGTH);
    assert_true(q.content_length == 12);
    assert_true(q.rewrite_length);
    assert_true(q.head.fields[3].flags & FL_FIELD_HOP);
    assert_false(q.rewrite_line);
    assert_int_equal(q.max_forwards, -1);
}

static void content_lengths(void **state)
{
    (void)state;
    expect_request(REQ("Content-Length: 9223372036854775807\r\n"), FL_HTTP_ERR_NONE);
    assert_true(q.content_length == INT64_MAX);
    assert_false(q.rewrite_length);
    expect_request(REQ("Content-Length: 0\r\n"), FL_HTTP_ERR_NONE);
    assert_int_equal(q.framing, FL_FRAMING_LENGTH);
    assert_false(q.rewrite_length);
    expect_request(REQ("Content-Length: 00\r\n"), FL_HTTP_ERR_NONE);
    assert_true(q.rewrite_length);
    expect_request(REQ("Content-Length: 00000000000000000000000000000000000000007\r\n"),
                   FL_HTTP_ERR_NONE);
    assert_true(q.content_length == 7);
    expect_request(REQ(""), FL_HTTP_ERR_NONE);
    assert_int_equal(q.framing, FL_FRAMING_NONE);
    expect_request(REQ("Content_Length: 5\r\nTransfer_Encoding: chunked\r\n"), FL_HTTP_ERR_NONE);
    assert_int_equal(q.framing, FL_FRAMING_NONE);
    assert_true(q.head.fields[1].flags & FL_FIELD_HOP);
    assert_true(q.head.fields[2].flags & FL_FIELD_HOP);
}

static void persistence(void **state)
{
    static const struct {
        const char *minor, *connection;
        bool keep;
    } cases[] = {
        {"1", "", true},
        {"1", "Connection: close\r\n", false},
        {"1", "Connection: keep-alive\r\nConnection: CLOSE\r\n", false},
        {"1", "Connection: x-close, ,\r\n", true},
        {"0", "", false},
        {"0", "Connection: Keep-Alive\r\n", true},
        {"0", "Connection: keep-alive, close\r\n", false},
        {"0", "Proxy-Connection: keep-alive\r\nKeep-Alive: 5\r\n", false},
    };
    char raw[256];
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        struct fl_fmt f = fl_fmt_of(raw, sizeof(raw));
        fl_fmt_printf(&f, "GET / HTTP/1.%s\r\nHost: h\r\n%s\r\n", cases[i].minor,
                      cases[i].connection);
        expect_request(raw, FL_HTTP_ERR_NONE);
        assert_int_equal(q.keep_alive, cases[i].keep);
        f = fl_fmt_of(raw, sizeof(raw));
        fl_fmt_printf(&f, "HTTP/1.%s 200 OK\r\nContent-Length: 0\r\n%s\r\n", cases[i].minor,
                      cases[i].connection);
        assert_int_equal(fl_response_parse(raw, f.len, FL_METHOD_GET, &a), FL_HTTP_ERR_NONE);
        assert_int_equal(a.keep_alive, cases[i].keep);
    }
}

static void hop_by_hop_fields(void **state)
{
    static const char hop[] = "01011111";
    (void)state;
    expect_request("GET / HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nX-Aa: 1\r\nx-a: 2\r\n"
                   "Connection: X-A, keep-alive\r\nKeep-Alive: 1\r\nProxy-Connection: x\r\n"
                   "TE: trailers\r\n\r\n",
                   FL_HTTP_ERR_NONE);
    assert_int_equal(q.head.count, sizeof(hop) - 1);
    for (unsigned i = 0; i < q.head.count; i++) {
        assert_int_equal(q.head.fields[i].flags & FL_FIELD_HOP, hop[i] - '0');
    }
    expect_request(REQ("Content-Type: x\r\nConnection: content-type\r\n"), FL_HTTP_ERR_NONE);
    assert_true(q.head.fields[1].flags & FL_FIELD_HOP);
}

static void expectations(void **state)
{
    (void)state;
    expect_request(REQ("Expect: 100-Continue\r\nExpect: 100-continue, 100-continue\r\n"),
                   FL_HTTP_ERR_NONE);
    assert_true(q.expect_continue);
    assert_false(q.head.fields[1].flags & FL_FIELD_HOP);
    expect_request(REQ(""), FL_HTTP_ERR_NONE);
    assert_false(q.expect_continue);
    expect_request("PUT / HTTP/1.0\r\nExpect: nonsense\r\nContent-Length: 1\r\n\r\n",
                   FL_HTTP_ERR_NONE);
    assert_false(q.expect_continue);
    assert_true(q.head.fields[0].flags & FL_FIELD_HOP);
}

static void target_forms(void **state)
{
    static const struct {
        const char *line, *host, *path;
        enum fl_target_form form;
        bool rewrite;
    } cases[] = {
        {"GET //b", "h", "//b", FL_TARGET_ORIGIN, false},
        {"OPTIONS *", "h", "*", FL_TARGET_ASTERISK, false},
        {"OPTIONS http://a:1", "a:1", "", FL_TARGET_ASTERISK, true},
        {"OPTIONS http://a:1/", "a:1", "/", FL_TARGET_ABSOLUTE, true},
        {"GET HtTp://[::1]:9/x?y", "[::1]:9", "/x?y", FL_TARGET_ABSOLUTE, true},
        {"GET http://a", "a", "", FL_TARGET_ABSOLUTE, true},
        {"GET http://a?b=c", "a", "?b=c", FL_TARGET_ABSOLUTE, true},
    };
    char raw[256];
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        struct fl_fmt f = fl_fmt_of(raw, sizeof(raw));
        fl_fmt_printf(&f, "%s HTTP/1.1\r\nHost: h\r\n\r\n", cases[i].line);
        expect_request(raw, FL_HTTP_ERR_NONE);
        assert_int_equal(q.form, cases[i].form);
        assert_int_equal(q.rewrite_line, cases[i].rewrite);
        assert_int_equal(q.host_len, strlen(cases[i].host));
        assert_memory_equal(raw + q.host_off, cases[i].host, q.host_len);
        assert_int_equal(q.path_len, strlen(cases[i].path));
        assert_memory_equal(raw + q.path_off, cases[i].path, q.path_len);
        assert_int_equal((q.head.fields[0].flags & FL_FIELD_HOP) != 0, cases[i].rewrite);
    }
    expect_request("GET / HTTP/1.0\r\n\r\n", FL_HTTP_ERR_NONE);
    assert_int_equal(q.host_len, 0);
}

static void max_forwards(void **state)
{
    (void)state;
    expect_request("OPTIONS / HTTP/1.1\r\nHost: h\r\nMax-Forwards: 007\r\n\r\n", FL_HTTP_ERR_NONE);
    assert_int_equal(q.max_forwards, 7);
    assert_true(q.head.fields[1].flags & FL_FIELD_HOP);
    expect_request(REQ("Max-Forwards: 7\r\n"), FL_HTTP_ERR_NONE);
    assert_int_equal(q.max_forwards, -1);
    assert_false(q.head.fields[1].flags & FL_FIELD_HOP);
}

static void limits(void **state)
{
    static char raw[2 * FL_HTTP_HEAD_MAX];
    (void)state;
    for (int over = 0; over < 2; over++) { /* fields */
        struct fl_fmt f = fl_fmt_of(raw, sizeof(raw));
        fl_fmt_text(&f, "GET / HTTP/1.1\r\nHost: h\r\n");
        for (int i = 1; i < FL_HTTP_FIELDS_MAX + over; i++) {
            fl_fmt_text(&f, "a:b\r\n");
        }
        fl_fmt_text(&f, "\r\n");
        expect_request(raw, over ? FL_HTTP_ERR_FIELDS_MANY : FL_HTTP_ERR_NONE);
    }
    for (int over = 0; over < 2; over++) { /* connection options */
        struct fl_fmt f = fl_fmt_of(raw, sizeof(raw));
        fl_fmt_text(&f, "GET / HTTP/1.1\r\nHost: h\r\nConnection: a");
        for (int i = 1; i < FL_HTTP_OPTIONS_MAX + over; i++) {
            fl_fmt_text(&f, ",a");
        }
        fl_fmt_text(&f, "\r\n\r\n");
        expect_request(raw, over ? FL_HTTP_ERR_CONNECTION_MANY : FL_HTTP_ERR_NONE);
    }
    for (int over = 0; over < 2; over++) { /* target */
        struct fl_fmt f = fl_fmt_of(raw, sizeof(raw));
        fl_fmt_text(&f, "GET /");
        memset(raw + f.len, 'a', FL_HTTP_TARGET_MAX - 1 + (size_t)over);
        f.len += FL_HTTP_TARGET_MAX - 1 + (size_t)over;
        fl_fmt_text(&f, " HTTP/1.1\r\nHost: h\r\n\r\n");
        expect_request(raw, over ? FL_HTTP_ERR_TARGET_LONG : FL_HTTP_ERR_NONE);
        assert_true(over || q.target_len == FL_HTTP_TARGET_MAX);
    }
    for (size_t over = 0; over < 2; over++) { /* the whole head */
        struct fl_fmt f = fl_fmt_of(raw, sizeof(raw));
        fl_fmt_text(&f, "GET / HTTP/1.1\r\nHost: h\r\nX: ");
        memset(raw + f.len, 'a', FL_HTTP_HEAD_MAX - 4 + over - f.len);
        f.len = FL_HTTP_HEAD_MAX - 4 + over;
        fl_fmt_text(&f, "\r\n\r\n");
        expect_request(raw, over ? FL_HTTP_ERR_HEAD_LARGE : FL_HTTP_ERR_NONE);
        size_t scan = 0;
        ptrdiff_t n = fl_head_end(raw, FL_HTTP_HEAD_MAX - 1, &scan);
        assert_int_equal(n, 0);
        n = fl_head_end(raw, FL_HTTP_HEAD_MAX, &scan);
        assert_int_equal(n, over ? -FL_HTTP_ERR_HEAD_LARGE : FL_HTTP_HEAD_MAX);
        assert_int_equal(fl_request_parse(raw, f.len, &q),
                         over ? FL_HTTP_ERR_HEAD_LARGE : FL_HTTP_ERR_NONE);
    }
}

static void overflow(void **state)
{
    (void)state;
    assert_int_equal(fl_head_overflow("GET /aaa", 8), FL_HTTP_ERR_TARGET_LONG);
    assert_int_equal(fl_head_overflow("\r\n\r\nGET /aaa", 12), FL_HTTP_ERR_TARGET_LONG);
    assert_int_equal(fl_head_overflow("GET / HTTP/1.1\r\nX", 17), FL_HTTP_ERR_HEAD_LARGE);
    assert_int_equal(fl_head_overflow("", 0), FL_HTTP_ERR_TARGET_LONG);
}

static void leading_empty_lines(void **state)
{
    char raw[128];
    (void)state;
    for (unsigned lines = 0; lines <= FL_HTTP_LEADING_CRLF_MAX + 1; lines++) {
        struct fl_fmt f = fl_fmt_of(raw, sizeof(raw));
        for (unsigned i = 0; i < lines; i++) {
            fl_fmt_text(&f, "\r\n");
        }
        fl_fmt_text(&f, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        bool over = lines > FL_HTTP_LEADING_CRLF_MAX;
        expect_request(raw, over ? FL_HTTP_ERR_LEADING_CRLF : FL_HTTP_ERR_NONE);
        assert_int_equal(fl_response_parse(raw, f.len, FL_METHOD_GET, &a), FL_HTTP_ERR_NOT_HTTP);
    }
    assert_int_equal(fl_request_parse("\r\n\r\n\r\n", 6, &q), FL_HTTP_ERR_START_LINE);
    assert_int_equal(fl_request_parse("\r\n\r\n", 4, &q), FL_HTTP_ERR_START_LINE);
}

/* Faults that must be answered at once: no end of the head ever comes. */
static void early_refusal(void **state)
{
    static const struct {
        const char *raw;
        enum fl_http_error error;
    } cases[] = {
        {"GET / HTTP/1.1\nHost: h\n\n", FL_HTTP_ERR_BARE_LF},
        {"\nGET", FL_HTTP_ERR_BARE_LF},
        {"GET / HTTP/1.1\r\nHost: h\r\n\n", FL_HTTP_ERR_BARE_LF},
        {"GET / HTTP/1.1\rHost: h\r", FL_HTTP_ERR_BARE_CR},
        {"\rG", FL_HTTP_ERR_BARE_CR},
        {"\r\n\rG", FL_HTTP_ERR_BARE_CR},
        {"GET / HTTP/1.1\r\n\rZ", FL_HTTP_ERR_BARE_CR},
        {"GET / HTTP/1.1\r\r", FL_HTTP_ERR_BARE_CR},
        {"\x16\x03\x01", FL_HTTP_ERR_CONTROL},
        {"GET /\x1b", FL_HTTP_ERR_CONTROL},
    };
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        size_t scan = 0;
        ptrdiff_t n = fl_head_end(cases[i].raw, strlen(cases[i].raw), &scan);
        assert_int_equal(n, -(ptrdiff_t)cases[i].error);
    }
}

/* What fl_head_end promises, the slow way. */
static ptrdiff_t plain_end(const char *p, size_t len)
{
    size_t start = 0;
    while (start + 1 < len && start < 16 && p[start] == '\r' && p[start + 1] == '\n') {
        start += 2;
    }
    if (start == 16 && start < len && p[16] == '\r') {
        return -FL_HTTP_ERR_LEADING_CRLF;
    }
    for (size_t i = start; i < len; i++) {
        if (p[i] == '\r' && i + 1 == len) {
            return 0;
        }
        if (p[i] == '\r' && p[i + 1] == '\n') {
            i++;
            if (i >= start + 4 && p[i - 2] == '\n') {
                return (ptrdiff_t)i + 1;
            }
        } else if (p[i] == '\r') {
            return -FL_HTTP_ERR_BARE_CR;
        } else if (p[i] == '\n') {
            return -FL_HTTP_ERR_BARE_LF;
        } else if ((unsigned char)p[i] < 32 && p[i] != '\t') {
            return -FL_HTTP_ERR_CONTROL;
        }
    }
    return 0;
}

/* Random text with line ends everywhere, whole and in random pieces, against the slow way. */
static void end_agrees_with_the_slow_way(void **state)
{
    static const char *const parts[] = {
        "\r\n",    "\r\n", "\r\n",     "GET / HTTP/1.1",
        "Host: h", "\t",   "\xe9\xff", "x",
        "\r\n\r",  "\r",   "\n",       "a long value that is more than sixteen bytes",
    };
    struct fl_rng rng;
    (void)state;
    fl_rng_seed(&rng, 7);
    for (int round = 0; round < 20000; round++) {
        char raw[512];
        struct fl_fmt f = fl_fmt_of(raw, sizeof(raw));
        uint32_t count = 1 + fl_rng_below(&rng, 16);
        uint32_t kinds = fl_rng_below(&rng, 4) ? 8 : FL_COUNTOF(parts);
        for (uint32_t i = 0; i < count; i++) {
            fl_fmt_text(&f, parts[fl_rng_below(&rng, kinds)]);
            fl_fmt_text(&f, fl_rng_below(&rng, 2) ? "y" : "");
        }
        ptrdiff_t want = plain_end(raw, f.len);
        size_t scan = 0;
        assert_int_equal(fl_head_end(raw, f.len, &scan), want);
        scan = 0;
        ptrdiff_t got = 0;
        for (size_t have = 0; got == 0 && have < f.len;) {
            have += 1 + fl_rng_below(&rng, 70);
            have = have < f.len ? have : f.len;
            char *exact = malloc(have); /* so that reading past the end is seen */
            assert_non_null(exact);
            memcpy(exact, raw, have);
            got = fl_head_end(exact, have, &scan);
            free(exact);
        }
        assert_int_equal(got, want);
    }
}

/* The end at every place of a block, with enough behind it to be skipped over, from every resume.
 */
static void end_at_every_place(void **state)
{
    char raw[512];
    (void)state;
    for (int pad = 0; pad < 140; pad++) {
        struct fl_fmt f = fl_fmt_of(raw, sizeof(raw));
        fl_fmt_printf(&f, "GET /%0*d HTTP/1.1\r\n\r\n", pad, 0);
        size_t want = f.len;
        fl_fmt_printf(&f, "%0*d", 200, 0);
        for (size_t have = 0; have < want; have++) {
            size_t scan = 0;
            assert_int_equal(fl_head_end(raw, have, &scan), 0);
            assert_int_equal(fl_head_end(raw, f.len, &scan), want);
        }
    }
}

/* The parser does not lean on fl_head_end for what is wrong with a line. */
static void parser_alone(void **state)
{
    static const struct {
        const char *raw;
        enum fl_http_error error;
    } cases[] = {
        {REQ("X: a\rb\r\n"), FL_HTTP_ERR_BARE_CR},
        {REQ("X: a\nb\r\n"), FL_HTTP_ERR_BARE_LF},
        {REQ("X: a\x01\r\n"), FL_HTTP_ERR_FIELD_VALUE},
        {REQ("X\n: a\r\n"), FL_HTTP_ERR_BARE_LF},
        {REQ("X\r: a\r\n"), FL_HTTP_ERR_BARE_CR},
        {"GET / HTTP/1.1\nHost: h\r\n\r\n", FL_HTTP_ERR_START_LINE},
        {"GET / HTTP/1.1\rHost: h\r\n\r\n", FL_HTTP_ERR_START_LINE},
        {"GET /\n HTTP/1.1\r\nHost: h\r\n\r\n", FL_HTTP_ERR_TARGET},
        {"GET / HTTP/1.1\r\n\rHost: h\r\n\r\n", FL_HTTP_ERR_BARE_CR},
    };
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        assert_int_equal(fl_request_parse(cases[i].raw, strlen(cases[i].raw), &q), cases[i].error);
    }
}

/* 1.2 to 1.9 are 1.1 (RFC 9110 section 2.5), so their messages may be chunked and persist. */
static void later_minor_versions(void **state)
{
    (void)state;
    expect_request("GET / HTTP/1.9\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
                   FL_HTTP_ERR_NONE);
    assert_int_equal(q.minor, 1);
    assert_true(q.keep_alive);
    assert_true(q.rewrite_line);
}

/* Any length but the one that fl_head_end gave is refused, not misread. */
static void wrong_length(void **state)
{
    const char *raw = "GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n";
    (void)state;
    for (size_t len = 0; len <= strlen(raw); len++) {
        enum fl_http_error error = fl_request_parse(raw, len, &q);
        assert_int_equal(error == FL_HTTP_ERR_NONE, len == 27);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_lines),      cmocka_unit_test(request_fields),
        cmocka_unit_test(offsets_and_values), cmocka_unit_test(content_lengths),
        cmocka_unit_test(persistence),        cmocka_unit_test(hop_by_hop_fields),
        cmocka_unit_test(expectations),       cmocka_unit_test(target_forms),
        cmocka_unit_test(max_forwards),       cmocka_unit_test(limits),
        cmocka_unit_test(overflow),           cmocka_unit_test(leading_empty_lines),
        cmocka_unit_test(early_refusal),      cmocka_unit_test(end_agrees_with_the_slow_way),
        cmocka_unit_test(wrong_length),       cmocka_unit_test(end_at_every_place),
        cmocka_unit_test(parser_alone),       cmocka_unit_test(later_minor_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
