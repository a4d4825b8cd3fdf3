#include "common/io/bridge/http_guard.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include "common/base/check.h"

static void media_types(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {"application/json", true},
        {"Application/JSON; charset=utf-8", true},
        {"application/yaml", true},
        {"", false},
        {"text/plain", false}, /* a form of another page can send the next three without asking */
        {"application/x-www-form-urlencoded", false},
        {"multipart/form-data; boundary=application/json", false},
        {"text/plain; application/json", false},
        {"application/jsonx", false},
    };
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        assert_int_equal(fl_http_guard_media_type(fl_span_of(rows[i].text)), rows[i].good);
    }
}

static void hosts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool loopback, any;
    } rows[] = {
        {"127.0.0.1:8421", true, true},
        {"127.0.0.1", true, true},
        {"127.9.9.9:1", true, true},
        {"[::1]:8421", true, true},
        {"[::1]", true, true},
        {"localhost:9999", true, true}, /* a port-forward picks any port */
        {"LOCALHOST", true, true},
        {"10.0.0.7:8421", false, true},
        {"[fd00::1]:8421", false, true},
        {"evil.example:8421", false, false}, /* a name may be rebound to 127.0.0.1 */
        {"localhost.evil.example", false, false},
        {"127.0.0.1.evil.example", false, false},
        {"127.0.0.1:8421:1", false, false},
        {"127.0.0.1:99999", false, false},
        {"127.0.0.1:", false, false},
        {"unix:/run/x", false, false},
        {"", false, false},
        {":8421", false, false},
    };
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        assert_int_equal(fl_http_guard_host(fl_span_of(rows[i].text), true), rows[i].loopback);
        assert_int_equal(fl_http_guard_host(fl_span_of(rows[i].text), false), rows[i].any);
    }
}

static void origins(void **state)
{
    (void)state;
    struct fl_span host = FL_SPAN("localhost:8421");
    assert_true(fl_http_guard_origin((struct fl_span){0}, host));
    assert_true(fl_http_guard_origin(FL_SPAN("http://localhost:8421"), host));
    assert_false(fl_http_guard_origin(FL_SPAN("http://localhost:3000"), host));
    assert_false(fl_http_guard_origin(FL_SPAN("http://evil.example"), host));
    assert_false(fl_http_guard_origin(FL_SPAN("null"), host));
    assert_false(fl_http_guard_origin(FL_SPAN("http://"), (struct fl_span){0}));
    assert_false(fl_http_guard_origin(FL_SPAN("http://localhost:84210"), host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(media_types),
        cmocka_unit_test(hosts),
        cmocka_unit_test(origins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
