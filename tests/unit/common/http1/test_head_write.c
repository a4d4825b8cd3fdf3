#include "common/http1/head_write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/http1/headers.h"

static struct fl_request_head request;
static struct fl_response_head response;
static char out[4096];

static void parse_request(const char *raw)
{
    assert_int_equal(fl_request_parse(raw, strlen(raw), &request), FL_HTTP_ERR_NONE);
}

static void parse_response(const char *raw)
{
    assert_int_equal(fl_response_parse(raw, strlen(raw), FL_METHOD_GET, &response),
                     FL_HTTP_ERR_NONE);
}

static void check_copy(const char *raw, const struct fl_http_head *head, uint8_t drop, bool start,
                       const char *want, int slices)
{
    struct fl_slice list[FL_HEAD_SLICES_MAX];
    struct fl_fmt f = fl_fmt_of(out, sizeof(out));
    fl_head_copy(&f, raw, head, drop, start);
    assert_string_equal(out, want);
    assert_int_equal(fl_head_slices(raw, head, drop, start, list, FL_HEAD_SLICES_MAX), slices);
    if (slices > 1) {
        assert_int_equal(fl_head_slices(raw, head, drop, start, list, slices - 1), -1);
        assert_int_equal(fl_head_slices(raw, head, drop, start, list, slices), slices);
    }
}

static void nothing_removed_is_one_slice(void **state)
{
    const char *raw = "\r\nGET /b/k HTTP/1.1\r\nhOST: h\r\nX-A: \t1 \r\nX-B:2\r\n\r\n";
    (void)state;
    parse_request(raw);
    check_copy(raw, &request.head, FL_FIELD_HOP, true,
               "GET /b/k HTTP/1.1\r\nhOST: h\r\nX-A: \t1 \r\nX-B:2\r\n", 1);
    check_copy(raw, &request.head, FL_FIELD_HOP, false, "hOST: h\r\nX-A: \t1 \r\nX-B:2\r\n", 1);
    struct fl_slice line = fl_head_line(&request.head, 1);
    assert_memory_equal(raw + line.off, "X-A: \t1 \r\n", line.len);
    line = fl_head_line(&request.head, 2);
    assert_int_equal(line.len, 7);
}

static void removed_first_last_and_between(void **state)
{
    const char *raw =
        "POST /b/k HTTP/1.1\r\nConnection: x-hop\r\nHost: h\r\nTE: trailers\r\n"
        "X-Hop: 1\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\nUpgrade: h2c\r\n\r\n";
    (void)state;
    parse_request(raw);
    check_copy(raw, &request.head, FL_FIELD_HOP, true,
               "POST /b/k HTTP/1.1\r\nHost: h\r\nTrailer: x\r\n", 3);
    check_copy(raw, &request.head, FL_FIELD_HOP, false, "Host: h\r\nTrailer: x\r\n", 2);
    check_copy(raw, &request.head, FL_FIELD_HOP | FL_FIELD_FRAMING, true,
               "POST /b/k HTTP/1.1\r\nHost: h\r\n", 2);
    check_copy(raw, &request.head, FL_FIELD_HOP | FL_FIELD_FRAMING | FL_FIELD_END, false, "", 0);
    fl_headers_drop(&request.head, FL_HTTP_TRAILER);
    check_copy(raw, &request.head, FL_FIELD_HOP, true, "POST /b/k HTTP/1.1\r\nHost: h\r\n", 2);
}

static void white_space_before_colon_is_taken_out(void **state)
{
    const char *raw = "HTTP/1.1 200 OK\r\nX-A : 1\r\nETag \t:x\r\nContent-Length: 0\r\n\r\n";
    (void)state;
    parse_response(raw);
    check_copy(raw, &response.head, FL_FIELD_HOP, true,
               "HTTP/1.1 200 OK\r\nX-A: 1\r\nETag:x\r\nContent-Length: 0\r\n", 3);
}

/* Every second of 128 fields removed: as many slices as there can be without odd white space. */
static void many_slices(void **state)
{
    static char raw[8192];
    static struct fl_slice list[FL_HEAD_SLICES_MAX];
    struct fl_fmt f = fl_fmt_of(raw, sizeof(raw));
    (void)state;
    fl_fmt_text(&f, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < FL_HTTP_FIELDS_MAX / 2; i++) {
        fl_fmt_text(&f, "Keep-Alive: x\r\nX : y\r\n");
    }
    fl_fmt_text(&f, "\r\n");
    parse_response(raw);
    int n = fl_head_slices(raw, &response.head, FL_FIELD_HOP, true, list, FL_HEAD_SLICES_MAX);
    assert_int_equal(n, 1 + FL_HTTP_FIELDS_MAX);
    size_t total = 0;
    for (int i = 0; i < n; i++) {
        total += list[i].len;
    }
    assert_int_equal(total, 17 + 6 * FL_HTTP_FIELDS_MAX / 2);
}

static void request_lines(void **state)
{
    static const struct {
        const char *raw, *want;
        bool rewrite;
    } cases[] = {
        {"GET /b/k?x=%20 HTTP/1.1\r\nHost: h\r\n\r\n", "GET /b/k?x=%20 HTTP/1.1\r\n", false},
        {"get /b HTTP/1.0\r\n\r\n", "get /b HTTP/1.1\r\n", true},
        {"GET /b HTTP/1.4\r\nHost: h\r\n\r\n", "GET /b HTTP/1.1\r\n", true},
        {"GET http://a.b:80/k%2B HTTP/1.1\r\nHost: h\r\n\r\n",
         "GET /k%2B HTTP/1.1\r\nHost: a.b:80\r\n", true},
        {"GET HTTP://a HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n", true},
        {"GET http://a?b/c HTTP/1.1\r\nHost: h\r\n\r\n", "GET /?b/c HTTP/1.1\r\nHost: a\r\n", true},
        {"OPTIONS http://a HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: a\r\n", true},
        {"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS * HTTP/1.1\r\n", false},
    };
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        struct fl_fmt f = fl_fmt_of(out, sizeof(out));
        parse_request(cases[i].raw);
        fl_head_write_request_line(&f, cases[i].raw, &request);
        assert_string_equal(out, cases[i].want);
        assert_int_equal(request.rewrite_line, cases[i].rewrite);
    }
}

static void status_lines(void **state)
{
    static const struct {
        const char *raw, *want;
        bool rewrite;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n", false},
        {"HTTP/1.1 404 \r\n\r\n", "HTTP/1.1 404 \r\n", false},
        {"HTTP/1.1 404\r\n\r\n", "HTTP/1.1 404 \r\n", true},
        {"HTTP/1.0 200 O\tK \xe9\r\n\r\n", "HTTP/1.1 200 O\tK \xe9\r\n", true},
    };
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        struct fl_fmt f = fl_fmt_of(out, sizeof(out));
        parse_response(cases[i].raw);
        fl_head_write_status_line(&f, cases[i].raw, &response);
        assert_string_equal(out, cases[i].want);
        assert_int_equal(response.rewrite_line, cases[i].rewrite);
    }
}

static void own_fields(void **state)
{
    struct fl_fmt f = fl_fmt_of(out, sizeof(out));
    (void)state;
    fl_head_write_field(&f, "X-Fairlead-Cause", FL_SPAN("a\r\nSet-Cookie: b"));
    fl_head_write_uint(&f, "Content-Length", UINT64_MAX);
    assert_string_equal(
        out, "X-Fairlead-Cause: a??Set-Cookie: b\r\nContent-Length: 18446744073709551615\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_removed_is_one_slice),
        cmocka_unit_test(removed_first_last_and_between),
        cmocka_unit_test(white_space_before_colon_is_taken_out),
        cmocka_unit_test(many_slices),
        cmocka_unit_test(request_lines),
        cmocka_unit_test(status_lines),
        cmocka_unit_test(own_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
