#include "common/http1/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void valid(void **state)
{
    static const char *const hosts[] = {
        "a",
        "s3.local",
        "s3.local:1",
        "s3.local:65535",
        "10.0.0.1:9000",
        "[::1]",
        "[::]:80",
        "my_bucket.x",
        "b%41",
        "a-b.c~d",
        "s3.local:00080",
        "[2001:db8::1.2.3.4]:1",
        "sub!$&'()*+;=delims",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        if (!fl_host_is_valid(fl_span_of(hosts[i]))) {
            fail_msg("refused: %s", hosts[i]);
        }
    }
}

static void invalid(void **state)
{
    static const char *const hosts[] = {
        "",
        ":80",
        "s3.local:",
        "s3.local:65536",
        "s3.local:123456",
        "a:b",
        "a:1:2",
        "u@s3.local",
        "s3.local/x",
        "a,b",
        "a b",
        "a\tb",
        "[::1",
        "[::1]x",
        "[::1]:",
        "[]",
        "[:]",
        "[g::1]",
        "[::1%25eth0]",
        "[v1.x]",
        "b%4",
        "b%",
        "b%zz",
        "caf\xc3\xa9",
        "a?b",
        "a#b",
        "a\\b",
        "\"a\"",
        "<a>",
        "a:+1",
        "s3.local:80:",
        "[0000:0000:0000:0000:0000:0000:0000:0000:0000:00:0]",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        if (fl_host_is_valid(fl_span_of(hosts[i]))) {
            fail_msg("taken: %s", hosts[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid),
        cmocka_unit_test(invalid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
