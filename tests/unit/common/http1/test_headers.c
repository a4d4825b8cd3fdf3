#include "common/http1/headers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static const char raw[] = "HTTP/1.1 200 OK\r\nDate: d1\r\nX-A: 1\r\nconnection: close, X-B ,\r\n"
                          "x-a: 2\r\nDate: d2\r\nConnection: X-C\r\n\r\n";
static struct fl_response_head response;

static int setup(void **state)
{
    (void)state;
    return fl_response_parse(raw, sizeof(raw) - 1, FL_METHOD_GET, &response) == FL_HTTP_ERR_NONE
               ? 0
               : -1;
}

static void finding(void **state)
{
    const struct fl_http_head *h = &response.head;
    (void)state;
    assert_true(fl_span_is(fl_headers_get(raw, h, FL_HTTP_DATE), "d1"));
    assert_int_equal(fl_headers_get(raw, h, FL_HTTP_SERVER).len, 0);
    assert_null(fl_headers_find(h, FL_HTTP_OTHER));
    assert_ptr_equal(fl_headers_find_name(raw, h, FL_SPAN("X-a")), &h->fields[1]);
    assert_null(fl_headers_find_name(raw, h, FL_SPAN("X-")));
}

static void connection_names(void **state)
{
    const struct fl_http_head *h = &response.head;
    (void)state;
    assert_true(fl_headers_connection_names(raw, h, FL_SPAN("x-b")));
    assert_true(fl_headers_connection_names(raw, h, FL_SPAN("x-C")));
    assert_false(fl_headers_connection_names(raw, h, FL_SPAN("x-a")));
}

static void dropping_all_of_one_id(void **state)
{
    (void)state;
    fl_headers_drop(&response.head, FL_HTTP_DATE);
    assert_true(response.head.fields[0].flags & FL_FIELD_HOP);
    assert_true(response.head.fields[4].flags & FL_FIELD_HOP);
    assert_false(response.head.fields[1].flags & FL_FIELD_HOP);
}

static void keep_alive_timeout(void **state)
{
    static const struct {
        const char *value;
        int64_t ms;
    } cases[] = {
        {"timeout=5", 5000}, {"max=100, Timeout = 20", 20000},
        {"timeout=0", 0},    {"timeout", -1},
        {"timeout=", -1},    {"timeout=-1", -1},
        {"timeout=5s", -1},  {"timeout=9999999999", -1},
        {"max=5", -1},       {"", -1},
    };
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        char text[128];
        int n = snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nKeep-Alive: %s\r\n\r\n",
                         cases[i].value);
        assert_int_equal(fl_response_parse(text, (size_t)n, FL_METHOD_GET, &response), 0);
        assert_int_equal(fl_headers_keep_alive_ms(text, &response.head), cases[i].ms);
    }
    assert_int_equal(fl_response_parse(raw, sizeof(raw) - 1, FL_METHOD_GET, &response), 0);
    assert_int_equal(fl_headers_keep_alive_ms(raw, &response.head), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(finding, setup),
        cmocka_unit_test_setup(connection_names, setup),
        cmocka_unit_test_setup(dropping_all_of_one_id, setup),
        cmocka_unit_test(keep_alive_timeout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
