#include "common/http1/trailer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void check(enum fl_trailer_kind want, const char *const *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (fl_trailer_judge(fl_span_of(lines[i])) != want) {
            fail_msg("wrong: %s", lines[i]);
        }
    }
}

static void allowed(void **state)
{
    static const char *const lines[] = {
        "X-Checksum: abc",
        "x-amz-checksum-crc32:NhCmhg==",
        "x-amz-trailer-signature:aa",
        "X-Amz-Meta-Note: later",
        "Content-MD5: x",
        "Server-Timing: a;dur=1",
        "X:",
        "grpc-status: 0",
    };
    (void)state;
    check(FL_TRAILER_ALLOWED, lines, sizeof(lines) / sizeof(lines[0]));
}

static void denied(void **state)
{
    static const char *const lines[] = {
        "Host: evil",
        "Content-Length: 5",
        "transfer-encoding: chunked",
        "Trailer: x",
        "Connection: close",
        "Authorization: x",
        "Cookie: a=b",
        "X-Forwarded-For: 6.6.6.6",
        "Forwarded: for=x",
        "Set-Cookie: a",
        "x-amz-copy-source: /a/b",
        "x-amz-security-token: t",
        "x-amz-acl: public-read",
        "If-None-Match: *",
        "Content-Type: text/html",
        "Content-Encoding: gzip",
        "Range: bytes=0-1",
        "Expect: x",
        "TE: trailers",
        "Location: /",
        "X-Request-Id: 1",
        "Content_Length: 5",
        "Proxy-Authorization: x",
        "X-Fairlead-Error: x",
        "Max-Forwards: 1",
        "Cache-Control: x",
        "WWW-Authenticate: x",
        "Date: x",
        "ETag: \"x\"",
    };
    (void)state;
    check(FL_TRAILER_DENIED, lines, sizeof(lines) / sizeof(lines[0]));
}

static void malformed(void **state)
{
    static const char *const lines[] = {
        ": v",    "X",      "X : y",   "X\t: y",         " X: y",
        "\tX: y", "X Y: z", "X(a): b", "caf\xc3\xa9: x", "GET / HTTP/1.1",
    };
    (void)state;
    check(FL_TRAILER_MALFORMED, lines, sizeof(lines) / sizeof(lines[0]));
}

/* A line that is all name, with nothing behind it to look at. */
static void all_name(void **state)
{
    char *line = malloc(3);
    (void)state;
    assert_non_null(line);
    memcpy(line, "X-Y", 3);
    assert_int_equal(fl_trailer_judge((struct fl_span){line, 3}), FL_TRAILER_MALFORMED);
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allowed),
        cmocka_unit_test(denied),
        cmocka_unit_test(malformed),
        cmocka_unit_test(all_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
