#include "common/probe/probe_answer.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include "common/base/check.h"
#include "common/base/fmt.h"

#define LIST FL_PROBE_REQUEST_LIST_BUCKETS
#define HEAD FL_PROBE_REQUEST_HEAD_BUCKET
#define GET  FL_PROBE_REQUEST_GET

struct row {
    enum fl_probe_request request;
    const char *head, *body;
    int status;
    bool foreign;
    const char *code, *detail;
};

static void read_answer(const struct row *r, struct fl_probe_result *ret)
{
    char text[2048];
    struct fl_response_head head;
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    fl_fmt_printf(&f, "HTTP/1.1 %s\r\n\r\n", r->head);
    enum fl_http_method m = r->request == HEAD ? FL_METHOD_HEAD : FL_METHOD_GET;
    assert_int_equal(fl_response_parse(text, f.len, m, &head), FL_HTTP_ERR_NONE);
    /* Mon, 30 Nov 2026 04:42:31 GMT */
    const struct fl_probe_answer a = {r->request, &head, text, fl_span_of(r->body), 1796013751999};
    *ret = (struct fl_probe_result){.code = "old", .detail = "old", .foreign = true};
    fl_probe_answer_read(&a, ret);
}

static void check(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct fl_probe_result got;
        read_answer(&rows[i], &got);
        if (got.status != rows[i].status || got.foreign != rows[i].foreign ||
            strcmp(got.code, rows[i].code) != 0 || strcmp(got.detail, rows[i].detail) != 0) {
            fail_msg("row %zu: %d %s '%s' '%s'", i, got.status, got.foreign ? "foreign" : "s3",
                     got.code, got.detail);
        }
    }
}

#define ERROR(code) "<?xml version=\"1.0\"?>\n<Error><Code>" code "</Code><Message>m</Message>"

// clang-format off
static const struct row codes[] = {
    {LIST, "403 Forbidden\r\nContent-Type: application/xml", ERROR("InvalidAccessKeyId"), 403, false, "InvalidAccessKeyId", ""},
    {LIST, "503 x\r\nContent-Type: text/plain", ERROR("SlowDown"), 503, false, "SlowDown", ""},       /* versitygw */
    {LIST, "403 x", "<Error><Code> AccessDenied\t</Code>", 403, false, "AccessDenied", ""},
    {HEAD, "403 x\r\nx-minio-error-code: SignatureDoesNotMatch", "", 403, false, "SignatureDoesNotMatch", ""},
    {HEAD, "403 x", "", 403, false, "", ""},
    {LIST, "403 x", "<Error><Code>Acc", 403, false, "", "<Error><Code>Acc"},                           /* cut */
    {LIST, "403 x", "<Code></Code>", 403, false, "", "<Code></Code>"},
    {LIST, "403 x", "<Error><Code>a<b</Code>", 403, false, "a", ""},
    {LIST, "403 x", "<Error><Code>no code at all</Code>", 403, false, "", "<Error><Code>no code at all</Code>"},
    {LIST, "200 OK", "<?xml?><ListAllMyBucketsResult><Code>x</Code>", 200, false, "", ""},             /* a success has none */
    {LIST, "502 x\r\nContent-Type: text/html", "<html><title>502 Bad", 502, false, "", "<html><title>502 Bad"}, /* a proxy in front */
    {LIST, "500 x", "line one\r\nline two", 500, false, "", "line one"},
    {LIST, "500 x", "a very long first line that goes on and on and on and on", 500, false, "", "a very long first line that goes on and on and o"},
    {LIST, "500 x", "\xc3\xa9t\xc3\xa9", 500, false, "", ""}, /* signed char: not printable ASCII, nothing is shown */
    {GET, "403 x\r\nx-minio-error-code: AccessDenied\r\nContent-Type: text/html", "<html>", 403, false, "", ""}, /* an http probe */
};

static const struct row places[] = {
    {HEAD, "301 x\r\nx-amz-bucket-region: eu-west-1\r\nLocation: http://elsewhere/", "", 301, false, "", "eu-west-1"},
    {LIST, "400 x", ERROR("AuthorizationHeaderMalformed") "<Region>eu-central-1</Region>", 400, false, "AuthorizationHeaderMalformed", "eu-central-1"},
    {LIST, "400 x", ERROR("AuthorizationHeaderMalformed"), 400, false, "AuthorizationHeaderMalformed", ""},
    {LIST, "307 x\r\nLocation: https://b.s3.example/", ERROR("TemporaryRedirect") "<Endpoint>b.s3-eu.example</Endpoint>", 307, false, "TemporaryRedirect", "b.s3-eu.example"},
    {HEAD, "307 x\r\nLocation: https://b.s3.example/", "", 307, false, "", "https://b.s3.example/"},
};

static const struct row clocks[] = {
    {LIST, "403 x\r\nDate: Mon, 30 Nov 2026 04:58:31 GMT", ERROR("RequestTimeTooSkewed"), 403, false, "RequestTimeTooSkewed", "the store's clock is 960 s ahead of ours"},
    {LIST, "403 x\r\nDate: Mon, 30 Nov 2026 03:42:31 GMT", ERROR("RequestExpired"), 403, false, "RequestExpired", "the store's clock is 3600 s behind ours"},
    {LIST, "403 x\r\nDate: yesterday", ERROR("RequestTimeTooSkewed"), 403, false, "RequestTimeTooSkewed", "the store does not tell its time"},
    {LIST, "403 x", ERROR("RequestTimeTooSkewed"), 403, false, "RequestTimeTooSkewed", "the store does not tell its time"},
};

static const struct row strangers[] = {
    {HEAD, "404 x\r\nContent-Type: text/html; charset=utf-8", "", 404, true, "", ""},
    {HEAD, "404 x\r\nContent-Type: text/html\r\nX-Amz-Request-Id: 1", "", 404, false, "", ""},
    {HEAD, "200 x\r\nContent-Type: application/json", "", 200, true, "", ""},
    {HEAD, "200 x", "", 200, false, "", ""},                                     /* bare, as s3s-fs sends it */
    {LIST, "200 x", "\xef\xbb\xbf\n <!DOCTYPE HTML><p>", 200, true, "", "<!DOCTYPE HTML><p>"},
    {LIST, "403 x", "<HTML>\nno", 403, true, "", "<HTML>"},
    {LIST, "200 x", "it works", 200, true, "", "it works"},
    {LIST, "200 x", "", 200, false, "", ""},
    {LIST, "200 x\r\nContent-Type: text/html", "<?xml?><ListAllMyBucketsResult/>", 200, false, "", ""},
    {LIST, "403 x", "forbidden", 403, false, "", "forbidden"},                   /* proves nothing */
    {LIST, "404 x\r\nContent-Type: application/json", "{\"error\":1}", 404, true, "", "{\"error\":1}"},
    {LIST, "404 x\r\nContent-Type: text/html", ERROR("NoSuchBucket"), 404, false, "NoSuchBucket", ""},
};
// clang-format on

static void codes_are_found(void **state)
{
    (void)state;
    check(codes, FL_COUNTOF(codes));
}

static void places_are_told(void **state)
{
    (void)state;
    check(places, FL_COUNTOF(places));
}

static void clocks_are_compared(void **state)
{
    (void)state;
    check(clocks, FL_COUNTOF(clocks));
}

static void strangers_are_recognised(void **state)
{
    (void)state;
    check(strangers, FL_COUNTOF(strangers));
}

static void what_is_too_long_is_cut(void **state)
{
    (void)state;
    char body[600];
    struct fl_fmt f = fl_fmt_of(body, sizeof(body));
    fl_fmt_text(&f, "<Code>");
    for (int i = 0; i < 200; i++) {
        fl_fmt_char(&f, 'c');
    }
    fl_fmt_text(&f, "</Code>");
    const struct row r = {LIST, "403 x", body, 0, false, "", ""};
    struct fl_probe_result got;
    read_answer(&r, &got);
    assert_int_equal(strlen(got.code), sizeof(got.code) - 1);
}

static void dates(void **state)
{
    (void)state;
    int64_t at = -1;
    static const struct {
        const char *text;
        int64_t unix_s;
    } good[] = {{"Thu, 01 Jan 1970 00:00:00 GMT", 0},
                {"Fri, 24 May 2013 00:00:00 GMT", 1369353600},
                {"Thu, 29 Feb 2024 23:59:59 GMT", 1709251199},
                {"Sun, 31 Dec 2000 12:00:00 GMT", 978264000},
                {"Wed, 31 Dec 1969 23:59:59 GMT", -1}};
    for (size_t i = 0; i < FL_COUNTOF(good); i++) {
        assert_true(fl_probe_answer_date(fl_span_of(good[i].text), &at));
        assert_int_equal(at, good[i].unix_s);
    }
    static const char *const bad[] = {"",
                                      "Fri, 24 May 2013 00:00:00 UTC",
                                      "Fri, 24 Mai 2013 00:00:00 GMT",
                                      "Friday, 24-May-13 00:00:00 GMT",
                                      "Fri May 24 00:00:00 2013 GMT.",
                                      "Fri, 24 May 2013 24:00:00 GMT",
                                      "Fri, 2x May 2013 00:00:00 GMT",
                                      "Fri, 24 May 2013 00:00:00 GMT ",
                                      "Fri, 24 ayJ 2013 00:00:00 GMT"};
    for (size_t i = 0; i < FL_COUNTOF(bad); i++) {
        assert_false(fl_probe_answer_date(fl_span_of(bad[i]), &at));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_found),         cmocka_unit_test(places_are_told),
        cmocka_unit_test(clocks_are_compared),     cmocka_unit_test(strangers_are_recognised),
        cmocka_unit_test(what_is_too_long_is_cut), cmocka_unit_test(dates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
