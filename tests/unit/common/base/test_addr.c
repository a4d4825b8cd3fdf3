#include "common/base/addr.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char text[FL_ADDR_TEXT_MAX];

static struct fl_addr parsed(const char *s)
{
    struct fl_addr a = {0};
    if (!fl_addr_parse(fl_span_of(s), &a)) {
        fail_msg("refused %s", s);
    }
    return a;
}

static const char *printed(struct fl_addr a)
{
    struct fl_fmt f = fl_fmt_of(text, sizeof text);
    fl_addr_print(&a, &f);
    assert_false(f.cut);
    return text;
}

static const char *printed_ip(struct fl_addr a)
{
    struct fl_fmt f = fl_fmt_of(text, sizeof text);
    fl_addr_print_ip(&a, &f);
    return text;
}

static void text_forms(void **state)
{
    (void)state;
    static const char *const same[] = {
        "10.0.0.1:9000",       "255.255.255.255:65535", "0.0.0.0:0",
        "[::1]:9000",          "[2001:db8::7]:80",      "[::]:8422",
        "[::ffff:10.0.0.1]:1", "unix:/run/x.sock",      "unix:@name"};
    for (size_t i = 0; i < FL_COUNTOF(same); i++) {
        assert_string_equal(printed(parsed(same[i])), same[i]);
    }
    assert_string_equal(printed(parsed("[2001:DB8:0:0:0:0:0:7]:80")),
                        "[2001:db8::7]:80"); /* RFC 5952 */
    assert_string_equal(printed_ip(parsed("10.0.0.1:9000")), "10.0.0.1");
    assert_string_equal(printed_ip(parsed("[::1]:9000")), "::1");
    assert_string_equal(printed_ip(parsed("unix:/run/x")), "unix:");
    assert_string_equal(printed((struct fl_addr){0}), "-");
    assert_string_equal(printed(parsed("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535")),
                        "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535");
}

static void not_an_address(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "10.0.0.1",
                                      "10.0.0.1:",
                                      ":9000",
                                      "10.0.0.1:65536",
                                      "10.0.0:1",
                                      "10.0.0.256:1",
                                      "010.0.0.1:1",
                                      "10.0.0.1 :1",
                                      "10.0.0.1:9000 ",
                                      "10.0.0.1:-1",
                                      "10.0.0.1:+1",
                                      "10.0.0.1:0x1",
                                      "10.0.0.1:000080",
                                      "minio:9000",
                                      "::1:9000",
                                      "[::1]",
                                      "[::1]:",
                                      "[::1]9000",
                                      "[::1:9000",
                                      "[10.0.0.1]:1",
                                      "[fe80::1%eth0]:1",
                                      "[]:1",
                                      "[::1]:80:90",
                                      "unix:",
                                      "0x0a000001:1",
                                      "167772161:1"};
    struct fl_addr a = {.port = 4711};
    for (size_t i = 0; i < FL_COUNTOF(bad); i++) {
        if (fl_addr_parse(fl_span_of(bad[i]), &a)) {
            fail_msg("took %s", bad[i]);
        }
    }
    assert_false(fl_addr_parse(FL_SPAN("10.0.0.1\0:80"), &a));
    assert_false(fl_addr_parse(FL_SPAN("unix:/a\0b"), &a));
    assert_false(fl_addr_parse((struct fl_span){0}, &a));
    assert_int_equal(a.port, 4711);
}

static void unix_paths_have_a_longest(void **state)
{
    (void)state;
    char path[128] = "unix:";
    memset(path + 5, 'p', 107);
    assert_string_equal(printed(parsed(path)), path);
    path[5 + 107] = 'p';
    struct fl_addr a;
    assert_false(fl_addr_parse(fl_span_of(path), &a));
}

static void equality(void **state)
{
    (void)state;
    struct fl_addr a = parsed("10.0.0.1:9000"), b = parsed("10.0.0.1:9001"),
                   c = parsed("[::1]:9000");
    struct fl_addr u = parsed("unix:/a"), w = parsed("unix:/b"), noisy = a;
    noisy.ip[9] = 1; /* beyond an IPv4 address */
    assert_true(fl_addr_eq(&a, &a));
    assert_true(fl_addr_eq(&a, &noisy));
    assert_false(fl_addr_eq(&a, &b));
    assert_false(fl_addr_eq(&a, &c));
    assert_true(fl_addr_eq(&c, &c));
    assert_false(fl_addr_eq(&u, &w));
    assert_true(fl_addr_eq(&u, &u));
    c.ip[0] = 1;
    struct fl_addr d = parsed("[::1]:9000");
    assert_false(fl_addr_eq(&c, &d));
    struct fl_addr e = parsed("[::2]:9000");
    assert_false(fl_addr_eq(&d, &e));
}

static void loopback_and_any(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool loopback, any;
    } rows[] = {{"127.0.0.1:1", true, false},  {"127.255.0.9:1", true, false},
                {"128.0.0.1:1", false, false}, {"[::1]:1", true, false},
                {"[::2]:1", false, false},     {"[::]:1", false, true},
                {"0.0.0.0:1", false, true},    {"0.0.0.1:1", false, false},
                {"unix:/x", true, false},      {"[7f00::1]:1", false, false},
                {"10.0.0.1:1", false, false}};
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        struct fl_addr a = parsed(rows[i].text);
        assert_int_equal(fl_addr_is_loopback(&a), rows[i].loopback);
        assert_int_equal(fl_addr_is_any(&a), rows[i].any);
    }
}

static void host_and_port(void **state)
{
    (void)state;
    struct fl_span host, port;
    assert_true(fl_addr_split_host(FL_SPAN("minio.storage:9000"), &host, &port));
    assert_true(fl_span_is(host, "minio.storage") && fl_span_is(port, "9000"));
    assert_true(fl_addr_split_host(FL_SPAN("minio:s3"), &host, &port));
    assert_true(fl_span_is(host, "minio") && fl_span_is(port, "s3"));
    assert_true(fl_addr_split_host(FL_SPAN("[::1]:80"), &host, &port));
    assert_true(fl_span_is(host, "::1") && fl_span_is(port, "80"));
    assert_false(fl_addr_split_host(FL_SPAN("minio"), &host, &port));
    assert_false(fl_addr_split_host(FL_SPAN("minio:"), &host, &port));
    assert_false(fl_addr_split_host(FL_SPAN(":80"), &host, &port));
    assert_false(fl_addr_split_host(FL_SPAN("::1:80"), &host, &port));
    assert_false(fl_addr_split_host(FL_SPAN("2001:db8::1:80"), &host, &port));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_forms),
        cmocka_unit_test(not_an_address),
        cmocka_unit_test(unix_paths_have_a_longest),
        cmocka_unit_test(equality),
        cmocka_unit_test(loopback_and_any),
        cmocka_unit_test(host_and_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
