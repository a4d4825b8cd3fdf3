#include "common/probe/probe_request.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <string.h>

#include "common/http1/head_parse.h"

static const struct fl_probe_target target = {.type = FL_PROBE_S3,
                                              .path = "/minio/health?x=%20",
                                              .bucket = "examplebucket",
                                              .region = "us-east-1"};
static const struct fl_probe_keys none = {.access_key = ""},
                                  example = {.access_key = "AKIAIOSFODNN7EXAMPLE",
                                             .secret_key =
                                                 "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
static char text[FL_PROBE_REQUEST_MAX];

static int write_one(const struct fl_probe_target *t, const char *host,
                     const struct fl_probe_keys *k, enum fl_probe_request what)
{
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    return fl_probe_request_write(t, host, k, what, 1369353600123, &f);
}

static void anonymous(void **state)
{
    (void)state;
    assert_int_equal(write_one(&target, "h:9000", &none, FL_PROBE_REQUEST_GET), 0);
    assert_string_equal(text, "GET /minio/health?x=%20 HTTP/1.1\r\nHost: h:9000\r\n"
                              "User-Agent: fairlead-probe\r\n\r\n");
    assert_int_equal(write_one(&target, "h", &none, FL_PROBE_REQUEST_HEAD_BUCKET), 0);
    assert_string_equal(
        text, "HEAD /examplebucket HTTP/1.1\r\nHost: h\r\nUser-Agent: fairlead-probe\r\n\r\n");
    assert_int_equal(write_one(&target, "h", &none, FL_PROBE_REQUEST_LIST_BUCKETS), 0);
    assert_string_equal(text, "GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: fairlead-probe\r\n\r\n");
}

/* The signature was made by another program from the same request. */
static void with_keys(void **state)
{
    (void)state;
    assert_int_equal(write_one(&target, "s3.example:9000", &example, FL_PROBE_REQUEST_HEAD_BUCKET),
                     0);
    assert_string_equal(
        text,
        "HEAD /examplebucket HTTP/1.1\r\nHost: s3.example:9000\r\nUser-Agent: fairlead-probe\r\n"
        "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\r\n"
        "x-amz-date: 20130524T000000Z\r\n"
        "Authorization: AWS4-HMAC-SHA256 "
        "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
        "Signature=5c0e06c676bb5c723636837028c45acff7587721d4d481242831ef581c840991\r\n\r\n");
    /* an http probe sends none to anybody */
    assert_int_equal(write_one(&target, "h", &example, FL_PROBE_REQUEST_GET), 0);
    assert_null(strstr(text, "Authorization"));
}

static void nothing_breaks_the_head(void **state)
{
    (void)state;
    struct fl_probe_target t = target;
    t.path = "/a b\r\nX: y\xc3\xa9\x7f";
    t.bucket = "a/../b c\r\n";
    assert_int_equal(write_one(&t, "h\r\nX: y", &none, FL_PROBE_REQUEST_GET), 0);
    assert_string_equal(text, "GET /a%20b%0D%0AX:%20y%C3%A9%7F HTTP/1.1\r\nHost: h??X: y\r\n"
                              "User-Agent: fairlead-probe\r\n\r\n");
    assert_int_equal(write_one(&t, "h", &none, FL_PROBE_REQUEST_HEAD_BUCKET), 0);
    assert_true(strncmp(text, "HEAD /a%2F..%2Fb%20c%0D%0A HTTP/1.1\r\n", 37) == 0);
    struct fl_request_head head;
    assert_int_equal(fl_request_parse(text, strlen(text), &head), FL_HTTP_ERR_NONE);
}

static void what_does_not_fit_is_not_sent(void **state)
{
    (void)state;
    static char path[5000];
    memset(path, '/', sizeof(path) - 1);
    struct fl_probe_target t = target;
    t.path = path;
    assert_int_equal(write_one(&t, "h", &none, FL_PROBE_REQUEST_GET), -EINVAL);
    path[1000] = '\0';
    assert_int_equal(write_one(&t, "h", &none, FL_PROBE_REQUEST_GET), 0);
    struct fl_fmt f = fl_fmt_of(text, 100);
    assert_int_equal(fl_probe_request_write(&t, "h", &none, FL_PROBE_REQUEST_GET, 0, &f), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(anonymous),
        cmocka_unit_test(with_keys),
        cmocka_unit_test(nothing_breaks_the_head),
        cmocka_unit_test(what_does_not_fit_is_not_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
