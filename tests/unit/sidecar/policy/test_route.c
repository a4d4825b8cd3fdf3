#include "sidecar/policy/route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/check.h"
#include "tests/unit/sidecar/policy/route_kit.h"

struct row {
    const char *host, *path;
    const char *route;  /* name of the policy, or "!" and the answer's token */
    const char *bucket; /* NULL: not looked at */
    const char *key;
};

static void check(const struct kit *k, const struct row *rows, size_t n)
{
    struct fl_registry *registry = fl_registry_new(3);
    struct fl_snapshot *s = kit_snapshot(registry, k);
    char *scratch = pool_must(malloc(FL_ROUTE_SCRATCH));
    for (size_t i = 0; i < n; i++) {
        struct fl_route_ask ask = {.path = fl_span_of(rows[i].path),
                                   .host = fl_span_of(rows[i].host)};
        struct fl_routed r;
        fl_route_find(s, &ask, scratch, &r);
        char got[80] = "!";
        struct fl_fmt f = {got, 0, sizeof(got), false};
        if (r.answer != FL_ANSWER_NONE) {
            fl_fmt_printf(&f, "!%s", fl_answer_row(r.answer)->token);
        } else {
            fl_fmt_text(&f, r.policy->route);
        }
        if (strcmp(got, rows[i].route) != 0 ||
            (rows[i].bucket && !fl_span_is(r.bucket, rows[i].bucket)) ||
            (rows[i].key && !fl_span_is(r.key, rows[i].key))) {
            fail_msg("host %s path %s: %s bucket '%.*s' key '%.*s'", rows[i].host, rows[i].path,
                     got, (int)r.bucket.len, r.bucket.ptr, (int)r.key.len, r.key.ptr);
        }
        assert_true((r.policy != NULL) ==
                    (r.answer == FL_ANSWER_NONE || r.answer == FL_ANSWER_BAD_ROUTE));
    }
    free(scratch);
    fl_snapshot_free(registry, s);
    fl_registry_free(registry);
}

// clang-format off
static const struct kit s3 = {
    .hosts = {"s3.internal", "eu.s3.internal", "localhost"},
    .s3 = {"a", "b"},
    .routes = {
        {.bucket = "releases", .backend = "a",
         .paths = {{.prefix = "/pay/"}, {.prefix = "/pay/now/"}, {.prefix = "/pay/now/x", .exact = true}, {.prefix = "/", .exact = true}, {.prefix = "/a b/"}, {.prefix = "/p/../q"}}},
        {.bucket = "my.dotted.bucket", .backend = "b"},
        {.bucket = "broken", .backend = "nowhere", .invalid = "backend is unknown"},
        {.bucket = "*", .backend = "b", .paths = {{.prefix = "/logs/2026/"}, {.prefix = "/tmp"}}},
    },
};

static const struct row path_style[] = {
    {"127.0.0.1:8420", "/releases/a/b", "releases", "releases", "a/b"},
    {"127.0.0.1:8420", "/releases", "releases = /", "releases", ""},
    {"127.0.0.1:8420", "/releases/", "releases = /", "releases", ""},
    {"", "/releases/k", "releases", "releases", "k"},
    {"anything.example", "/releases/k", "releases", "releases", "k"},
    {"127.0.0.1:8420", "/rele%61ses/k%2Fx", "releases", "releases", "k%2Fx"},
    {"127.0.0.1:8420", "/Releases/k", "*", "Releases", "k"}, /* case is kept */
    {"127.0.0.1:8420", "/releases//k", "releases", "releases", "/k"},
    {"127.0.0.1:8420", "/releases/./k", "releases", "releases", "./k"},
    {"127.0.0.1:8420", "/releases/../other/k", "releases", "releases", "../other/k"},
    {"127.0.0.1:8420", "/my.dotted.bucket/k", "my.dotted.bucket", "my.dotted.bucket", "k"},
    {"127.0.0.1:8420", "/rel%2Feases/k", "*", "rel/eases", "k"}, /* %2F does not split */
    {"127.0.0.1:8420", "/100%/k", "*", "100%", "k"},
    {"127.0.0.1:8420", "/%zz/k", "*", "%zz", "k"},
    {"127.0.0.1:8420", "/broken/k", "!bad_route", "broken", "k"},
    {"127.0.0.1:8420", "/", "*", "", ""}, /* no "/" route: "*" */
    {"127.0.0.1:8420", "//key", "*", "", "key"},
    {"127.0.0.1:8420", "*", "*", "", ""},
    {"127.0.0.1:8420", "", "!bad_request", "", ""},
    {"127.0.0.1:8420", "releases/k", "!bad_request", "", ""},
    {"127.0.0.1:8420", "/_/ready", "!not_found", NULL, NULL},
    {"127.0.0.1:8420", "/_/", "!not_found", NULL, NULL},
    {"127.0.0.1:8420", "/%5F/ready", "!not_found", NULL, NULL},
    {"127.0.0.1:8420", "/_", "*", "_", ""},
    {"127.0.0.1:8420", "/_a/k", "*", "_a", "k"},
    {"127.0.0.1:8420", "/releases/_/k", "releases", "releases", "_/k"},
};

static const struct row host_style[] = {
    {"releases.s3.internal", "/k", "releases", "releases", "k"},
    {"releases.s3.internal:8420", "/", "releases = /", "releases", ""},
    {"RELEASES.S3.Internal", "/k", "releases", "releases", "k"},
    {"releases.s3.internal.", "/k", "releases", "releases", "k"},
    {"releases.s3.internal", "/_/ready", "releases", "releases", "_/ready"}, /* a key like any other */
    {"my.dotted.bucket.s3.internal", "/k", "my.dotted.bucket", "my.dotted.bucket", "k"},
    {"releases.eu.s3.internal", "/k", "releases", "releases", "k"}, /* the longest base */
    {"eu.s3.internal", "/releases/k", "releases", "releases", "k"}, /* a base itself: path style */
    {"s3.internal", "/releases/k", "releases", "releases", "k"},
    {"s3.internal:80", "/", "*", "", ""},
    {".s3.internal", "/releases/k", "releases", "releases", "k"},
    {"xs3.internal", "/releases/k", "releases", "releases", "k"},
    {"logs-s3.internal", "/releases/k", "releases", "releases", "k"}, /* not below the base */
    {"localhost:8420", "/releases/k", "releases", "releases", "k"},
    {"releases.localhost", "/k", "releases", "releases", "k"},
    {"[::1]:8420", "/releases/k", "releases", "releases", "k"},
    {"unknown.s3.internal", "/k", "*", "unknown", "k"},
    {"broken.s3.internal", "/k", "!bad_route", "broken", "k"},
    {"releases.s3.internal", "//k", "releases", "releases", "/k"},
    {"releases.s3.internal", "/pay/x", "releases /pay/", "releases", "pay/x"},
    {"logs.s3.internal", "/2026/x", "* /logs/2026/", "logs", "2026/x"},
};

static const struct row s3_paths[] = {
    {"", "/releases/pay/x", "releases /pay/", NULL, NULL},
    {"", "/releases/pay/now/y", "releases /pay/now/", NULL, NULL},
    {"", "/releases/pay/now/x", "releases = /pay/now/x", NULL, NULL},
    {"", "/releases/pay/now/xx", "releases /pay/now/", NULL, NULL},
    {"", "/releases/pay", "releases", NULL, NULL},
    {"", "/releases/p%61y/x", "releases /pay/", NULL, NULL},
    {"", "/releases/pay%2Fx", "releases /pay/", NULL, NULL},
    {"", "/releases/a%20b/x", "releases /a b/", NULL, NULL},
    {"", "/releases//pay/x", "releases", NULL, NULL}, /* nothing is collapsed */
    {"", "/releases/./pay/x", "releases", NULL, NULL},
    {"", "/releases/pay/../x", "releases /pay/", NULL, NULL},
    {"", "/releases/p/../q", "releases /p/../q", NULL, NULL},
    {"", "/logs/2026/x", "* /logs/2026/", NULL, NULL},
    {"", "/tmpfiles/x", "* /tmp", NULL, NULL}, /* the whole path, as a prefix */
    {"", "//logs/2026/", "*", NULL, NULL},
};

static const struct kit web = { /* the nginx-location form */
    .http = {"web", "api"},
    .hosts = {"s3.internal"},
    .routes = {
        {.bucket = "*", .backend = "web",
         .paths = {{.prefix = "/api/", .backend = "api"}, {.prefix = "/api/v2/"}, {.prefix = "/health", .exact = true}, {.prefix = "/"}}},
        {.bucket = "static", .backend = "api", .paths = {{.prefix = "/img/"}}},
    },
};

static const struct row http_rows[] = {
    {"www", "/", "* /", "", ""},
    {"www", "/index.html", "* /", "index.html", ""},
    {"www", "/api/x", "* /api/", "api", "x"},
    {"www", "/api/v2/x", "* /api/v2/", NULL, NULL},
    {"www", "/health", "* = /health", NULL, NULL},
    {"www", "/healthy", "* /", NULL, NULL},
    {"www", "//api//x", "* /api/", "api", NULL},
    {"www", "/./api/./x", "* /api/", NULL, NULL},
    {"www", "/a/../api/x", "* /api/", NULL, NULL},
    {"www", "/a/%2e%2e/api/x", "* /api/", NULL, NULL},
    {"www", "/%2Fapi%2Fx", "* /api/", NULL, NULL},
    {"www", "/api/v2/..", "* /api/", NULL, NULL},
    {"www", "/api/v2/.", "* /api/v2/", NULL, NULL},
    {"www", "/api/..", "* /", NULL, NULL},
    {"www", "/health/..//health", "* = /health", NULL, NULL},
    {"www", "/api/%3f%23%25", "* /api/", NULL, NULL},
    {"www", "/..", "!bad_request", NULL, NULL},
    {"www", "/a/../../etc", "!bad_request", NULL, NULL},
    {"www", "/a%00b", "!bad_request", NULL, NULL},
    {"www", "/a%zz", "!bad_request", NULL, NULL},
    {"www", "/a%4", "!bad_request", NULL, NULL},
    {"www", "/static/img/x", "static /img/", "static", "img/x"},
    {"www", "/static/css/x", "static", "static", "css/x"},
    {"www", "//static/img//x", "static /img/", "static", NULL},
    {"www", "/x/../static/img/x", "static /img/", NULL, NULL},
    {"www", "/static/../api/x", "* /api/", NULL, NULL}, /* it is not the static one */
    {"www", "/_/ready", "!not_found", NULL, NULL},
    {"www", "/x/../_/ready", "!not_found", NULL, NULL},
    {"static.s3.internal", "/img/x", "static /img/", "static", "img/x"},
    {"static.s3.internal", "/x/../img/x", "static /img/", "static", NULL},
    {"other.s3.internal", "/api/x", "* /api/", "other", NULL},
};

static const struct kit mixed = {
    .s3 = {"store"},
    .http = {"web"},
    .routes = {
        {.bucket = "releases", .backend = "store"},
        {.bucket = "app", .backend = "web", .paths = {{.prefix = "/x/", .backend = "store"}}},
        {.bucket = "/", .backend = "store"},
    },
};

static const struct row mixed_rows[] = {
    {"", "/releases/../app/x", "releases", NULL, NULL}, /* bytes as S3 sees them */
    {"", "/app/../releases/x", "!no_route", "app", NULL}, /* never an s3 route by resolving */
    {"", "/./app/y", "app", "app", NULL},
    {"", "/app/x/y", "app /x/", NULL, NULL},
    {"", "/app/x//../y", "app", NULL, NULL},
    {"", "/", "/", "", ""},
    {"", "//app/x", "/", "", "app/x"}, /* the s3 service reads it as it stands */
    {"", "/other/k", "!no_route", "other", "k"},
    {"", "/other%zz/k", "!no_route", "other%zz", NULL},
    {"", "/app/%zz", "!bad_request", "app", NULL},
    {"", "/app/..", "!no_route", "app", NULL},
};
// clang-format on

static void path_style_buckets(void **state)
{
    (void)state;
    check(&s3, path_style, FL_COUNTOF(path_style));
}

static void host_style_buckets(void **state)
{
    (void)state;
    check(&s3, host_style, FL_COUNTOF(host_style));
}

static void paths_under_a_bucket(void **state)
{
    (void)state;
    check(&s3, s3_paths, FL_COUNTOF(s3_paths));
}

static void http_as_nginx_locations(void **state)
{
    (void)state;
    check(&web, http_rows, FL_COUNTOF(http_rows));
}

static void s3_and_http_side_by_side(void **state)
{
    (void)state;
    check(&mixed, mixed_rows, FL_COUNTOF(mixed_rows));
}

static void a_long_path_matches_by_its_first_bytes(void **state)
{
    (void)state;
    static char path[20000];
    struct fl_registry *registry = fl_registry_new(3);
    char *scratch = pool_must(malloc(FL_ROUTE_SCRATCH));
    for (int http = 0; http < 2; http++) {
        struct fl_snapshot *s = kit_snapshot(registry, http ? &web : &s3);
        const char *prefix = http ? "/api/" : "/releases/pay/";
        for (size_t len = FL_ROUTE_SCRATCH - 3; len < sizeof(path);
             len += len < FL_ROUTE_SCRATCH + 3 ? 1 : 7919) {
            memset(path, 'x', len);
            memcpy(path, prefix, strlen(prefix));
            struct fl_route_ask ask = {.path = {path, len}};
            struct fl_routed r;
            fl_route_find(s, &ask, scratch, &r);
            assert_string_equal(r.policy->route, http ? "* /api/" : "releases /pay/");
            memset(path, 'x', len); /* and a bucket name that never ends */
            path[0] = '/';
            fl_route_find(s, &ask, scratch, &r);
            assert_string_equal(r.policy->route, http ? "* /" : "*");
        }
        fl_snapshot_free(registry, s);
    }
    free(scratch);
    fl_registry_free(registry);
}

static void copy_sources(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"/releases/k", "releases"},
        {"releases/k", "releases"},
        {"releases%2Fk", "releases"},
        {"%2Freleases%2Fk", "releases"},
        {"rele%61ses/k?versionId=3", "releases"},
        {"releases", "releases"},
        {"", ""},
        {"/", ""},
        {"//k", ""},
    };
    struct fl_registry *registry = fl_registry_new(3);
    struct fl_snapshot *s = kit_snapshot(registry, &s3);
    char scratch[64];
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        struct fl_span bucket =
            fl_route_copy_source_bucket(fl_span_of(rows[i][0]), scratch, sizeof(scratch));
        assert_int_equal(bucket.len, strlen(rows[i][1]));
        assert_memory_equal(bucket.ptr, rows[i][1], bucket.len);
    }
    assert_string_equal(fl_route_bucket(s, FL_SPAN("releases"))->route, "releases");
    assert_string_equal(fl_route_bucket(s, FL_SPAN("else"))->route, "*");
    fl_snapshot_free(registry, s);
    s = kit_snapshot(registry, &mixed);
    assert_null(fl_route_bucket(s, FL_SPAN("else")));
    fl_snapshot_free(registry, s);
    fl_registry_free(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_style_buckets),
        cmocka_unit_test(host_style_buckets),
        cmocka_unit_test(paths_under_a_bucket),
        cmocka_unit_test(http_as_nginx_locations),
        cmocka_unit_test(s3_and_http_side_by_side),
        cmocka_unit_test(a_long_path_matches_by_its_first_bytes),
        cmocka_unit_test(copy_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
