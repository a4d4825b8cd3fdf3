#include "common/sign/s3_sign.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>

struct vector {
    const char *name, *method, *path, *query;
    struct {
        const char *name, *value;
    } fields[6];
    const char *payload, *signed_names, *signature;
};

#define HOST                                                                                       \
    {                                                                                              \
        "host", "example.amazonaws.com"                                                            \
    }
#define DATE                                                                                       \
    {                                                                                              \
        "x-amz-date", "20150830T123600Z"                                                           \
    }
#define UNRESERVED "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/* The published test suite: AKIDEXAMPLE, 30 August 2015, service "service". */
// clang-format off
static const struct vector suite[] = {
    {"get-vanilla", "GET", "/", "", {HOST, DATE}, FL_S3_EMPTY_PAYLOAD, "host;x-amz-date",
     "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
    {"post-vanilla", "POST", "/", "", {HOST, DATE}, FL_S3_EMPTY_PAYLOAD, "host;x-amz-date",
     "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
    {"get-vanilla-empty-query-key", "GET", "/", "Param1=value1", {HOST, DATE}, FL_S3_EMPTY_PAYLOAD, "host;x-amz-date",
     "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
    {"get-vanilla-query-order-key-case", "GET", "/", "Param2=value2&Param1=value1", {HOST, DATE}, FL_S3_EMPTY_PAYLOAD, "host;x-amz-date",
     "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
    {"get-vanilla-query-order-value", "GET", "/", "Param1=value2&Param1=value1", {HOST, DATE}, FL_S3_EMPTY_PAYLOAD, "host;x-amz-date",
     "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694"},
    {"get-vanilla-query-unreserved", "GET", "/", UNRESERVED "=" UNRESERVED, {HOST, DATE}, FL_S3_EMPTY_PAYLOAD, "host;x-amz-date",
     "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
    {"get-unreserved", "GET", "/" UNRESERVED, "", {HOST, DATE}, FL_S3_EMPTY_PAYLOAD, "host;x-amz-date",
     "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
    {"get-utf8", "GET", "/%E1%88%B4", "", {HOST, DATE}, FL_S3_EMPTY_PAYLOAD, "host;x-amz-date",
     "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
    {"get-vanilla-utf8-query", "GET", "/", "%E1%88%B4=bar", {HOST, DATE}, FL_S3_EMPTY_PAYLOAD, "host;x-amz-date",
     "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
    {"get-header-value-trim", "GET", "/", "", {HOST, {"my-header1", " value1"}, {"my-header2", " \"a   b   c\""}, DATE},
     FL_S3_EMPTY_PAYLOAD, "host;my-header1;my-header2;x-amz-date",
     "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
    {"post-header-value-case", "POST", "/", "", {HOST, {"my-header1", "VALUE1"}, DATE}, FL_S3_EMPTY_PAYLOAD,
     "host;my-header1;x-amz-date", "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d"},
};

#define BUCKET   {"host", "examplebucket.s3.amazonaws.com"}
#define S3_DATE  {"x-amz-date", "20130524T000000Z"}
#define S3_EMPTY {"x-amz-content-sha256", FL_S3_EMPTY_PAYLOAD}
#define WELCOME  "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072" /* SHA-256 of "Welcome to Amazon S3." */

/* The four examples of the S3 API Reference: AKIAIOSFODNN7EXAMPLE, 24 May 2013. */
static const struct vector s3_examples[] = {
    {"GET Object", "GET", "/test.txt", "", {BUCKET, {"range", "bytes=0-9"}, S3_EMPTY, S3_DATE}, FL_S3_EMPTY_PAYLOAD,
     "host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
    {"PUT Object", "PUT", "/test%24file.text", "", {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, BUCKET,
     {"x-amz-content-sha256", WELCOME}, S3_DATE, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}}, WELCOME,
     "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
    {"GET Bucket Lifecycle", "GET", "/", "lifecycle", {BUCKET, S3_EMPTY, S3_DATE}, FL_S3_EMPTY_PAYLOAD,
     "host;x-amz-content-sha256;x-amz-date", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
    {"Get Bucket", "GET", "/", "prefix=J&max-keys=2", {BUCKET, S3_EMPTY, S3_DATE}, FL_S3_EMPTY_PAYLOAD,
     "host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
};
// clang-format on

static void check(const struct vector *v, const struct fl_s3_keys *keys,
                  const struct fl_s3_scope *scope, int64_t unix_s)
{
    struct fl_s3_field fields[FL_COUNTOF(v->fields)];
    struct fl_s3_request rq = {.method = v->method,
                               .path = fl_span_of(v->path),
                               .query = fl_span_of(v->query),
                               .fields = fields,
                               .payload = v->payload};
    while (rq.field_count < FL_COUNTOF(v->fields) && v->fields[rq.field_count].name != NULL) {
        fields[rq.field_count] = (struct fl_s3_field){v->fields[rq.field_count].name,
                                                      fl_span_of(v->fields[rq.field_count].value)};
        rq.field_count++;
    }
    char date[FL_S3_DATE_TEXT], got[1024], want[1024];
    struct fl_fmt g = fl_fmt_of(got, sizeof(got)), w = fl_fmt_of(want, sizeof(want));
    fl_s3_sign_date(unix_s, date);
    assert_int_equal(fl_s3_sign(keys, scope, &rq, date, &g), 0);
    fl_fmt_printf(&w,
                  "AWS4-HMAC-SHA256 Credential=%s/%.8s/us-east-1/%s/aws4_request, "
                  "SignedHeaders=%s, Signature=%s",
                  keys->access_key, date, scope->service, v->signed_names, v->signature);
    if (strcmp(got, want) != 0) {
        fail_msg("%s:\n got %s\nwant %s", v->name, got, want);
    }
}

static void the_published_suite(void **state)
{
    (void)state;
    const struct fl_s3_keys keys = {"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"};
    const struct fl_s3_scope scope = {"us-east-1", "service"};
    for (size_t i = 0; i < FL_COUNTOF(suite); i++) {
        check(&suite[i], &keys, &scope, 1440938160);
    }
}

static void the_examples_of_s3(void **state)
{
    (void)state;
    const struct fl_s3_keys keys = {"AKIAIOSFODNN7EXAMPLE",
                                    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
    const struct fl_s3_scope scope = {"us-east-1", "s3"};
    for (size_t i = 0; i < FL_COUNTOF(s3_examples); i++) {
        check(&s3_examples[i], &keys, &scope, 1369353600);
    }
}

static void the_canonical_request_of_the_suite(void **state)
{
    (void)state;
    char text[512];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    const struct fl_s3_field fields[] = {{"host", FL_SPAN("example.amazonaws.com")},
                                         {"x-amz-date", FL_SPAN("20150830T123600Z")}};
    const struct fl_s3_request rq = {"GET",  FL_SPAN(""), FL_SPAN("b&a=2&a=1&&c="),
                                     fields, 2,           FL_S3_UNSIGNED_PAYLOAD};
    assert_int_equal(fl_s3_sign_canonical(&rq, &f), 0);
    assert_string_equal(text, "GET\n/\na=1&a=2&b=&c=\nhost:example.amazonaws.com\n"
                              "x-amz-date:20150830T123600Z\n\nhost;x-amz-date\nUNSIGNED-PAYLOAD");
}

static void escapes(void **state)
{
    (void)state;
    char text[128];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    fl_s3_sign_escape(&f, FL_SPAN("/a b/\xc3\xa9+%~"), true);
    assert_string_equal(text, "/a%20b/%C3%A9%2B%25~");
    f = fl_fmt_of(text, sizeof(text));
    fl_s3_sign_escape(&f, FL_SPAN("a/b"), false);
    assert_string_equal(text, "a%2Fb");
}

static void dates(void **state)
{
    (void)state;
    char text[FL_S3_DATE_TEXT];
    fl_s3_sign_date(0, text);
    assert_string_equal(text, "19700101T000000Z");
    fl_s3_sign_date(1709251199, text); /* a leap day, its last second */
    assert_string_equal(text, "20240229T235959Z");
}

/* What does not fit is refused, not cut: a cut request would be signed wrongly. */
static void too_long(void **state)
{
    (void)state;
    static char secret[FL_S3_SECRET_MAX + 2], path[10000], region[300], query[200];
    memset(secret, 's', FL_S3_SECRET_MAX + 1);
    memset(path, 'p', sizeof(path) - 1);
    memset(region, 'r', sizeof(region) - 1);
    const char *date = "20130524T000000Z";
    struct fl_s3_keys keys = {"AK", "SK"};
    struct fl_s3_scope scope = {"us-east-1", "s3"};
    struct fl_s3_request rq = {.method = "GET", .path = FL_SPAN("/"), .payload = ""};
    char text[256];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    assert_int_equal(fl_s3_sign(&keys, &scope, &rq, date, &f), 0);
    f = fl_fmt_of(text, 150);
    assert_int_equal(fl_s3_sign(&keys, &scope, &rq, date, &f), -EINVAL);
    f = fl_fmt_of(text, sizeof(text));
    keys.secret_key = secret;
    assert_int_equal(fl_s3_sign(&keys, &scope, &rq, date, &f), -EINVAL);
    secret[FL_S3_SECRET_MAX] = '\0';
    assert_int_equal(fl_s3_sign(&keys, &scope, &rq, date, &f), 0);
    f = fl_fmt_of(text, sizeof(text));
    rq.path = fl_span_of(path);
    assert_int_equal(fl_s3_sign(&keys, &scope, &rq, date, &f), -EINVAL);
    rq.path = FL_SPAN("/");
    scope.region = region;
    assert_int_equal(fl_s3_sign(&keys, &scope, &rq, date, &f), -EINVAL);
    scope.region = "us-east-1";
    struct fl_fmt q = fl_fmt_of(query, sizeof(query));
    for (int i = 0; i < FL_S3_QUERY_MAX; i++) {
        fl_fmt_text(&q, "a=1&");
    }
    rq.query = (struct fl_span){q.base, q.len};
    assert_int_equal(fl_s3_sign(&keys, &scope, &rq, date, &f), 0);
    f = fl_fmt_of(text, sizeof(text));
    fl_fmt_text(&q, "a=1");
    rq.query = (struct fl_span){q.base, q.len};
    assert_int_equal(fl_s3_sign(&keys, &scope, &rq, date, &f), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_suite),
        cmocka_unit_test(the_examples_of_s3),
        cmocka_unit_test(the_canonical_request_of_the_suite),
        cmocka_unit_test(escapes),
        cmocka_unit_test(dates),
        cmocka_unit_test(too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
