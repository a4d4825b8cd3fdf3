#include "common/probe/probe_target.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <stdlib.h>

static struct fl_backend_conf backend(void)
{
    return (struct fl_backend_conf){
        .name = "minio",
        .service = {"", "", ""},
        .tls = {false, "", "", "", "", true},
        .probe = {.type = FL_PROBE_S3,
                  .host = "",
                  .path = "/",
                  .expect = "200-399",
                  .bucket = "",
                  .region = "us-east-1",
                  .access_key_file = "",
                  .secret_key_file = "",
                  .timeout_ms = 30000},
    };
}

static const char *host_name, *tls_name = "(none)"; /* that the peer was found by; wanted */

static const char *host_of(const struct fl_backend_conf *b, const char *address)
{
    static char host[FL_PROBE_HOST_MAX];
    const struct fl_config c = {.file = ""};
    struct fl_probe_target t;
    const struct fl_peer_conf peer = {.address = address, .host_name = host_name};
    assert_true(fl_probe_target_of(&c, b, &peer, host, &t));
    assert_string_equal(t.tls_name ? t.tls_name : "(none)", tls_name);
    assert_ptr_equal(t.host, host);
    return host;
}

static void the_host_that_is_sent(void **state)
{
    (void)state;
    struct fl_backend_conf b = backend();
    assert_string_equal(host_of(&b, "10.0.0.1:9000"), ""); /* the address */
    host_name = tls_name = "s3.example";
    assert_string_equal(host_of(&b, "10.0.0.1:9000"), "s3.example:9000");
    b.service = (struct fl_service_ref){"storage", "minio", "80"};
    assert_string_equal(host_of(&b, "10.0.0.1:9000"), "minio.storage.svc:80");
    b.service.port = "s3";
    assert_string_equal(host_of(&b, "10.0.0.1:9000"), "minio.storage.svc:9000");
    b.tls.server_name = tls_name = "minio.example";
    assert_string_equal(host_of(&b, "10.0.0.1:9000"), "minio.storage.svc:9000"); /* tls is off */
    b.tls.on = true;
    assert_string_equal(host_of(&b, "10.0.0.1:9000"), "minio.example");
    b.probe.host = "s3.example:443";
    assert_string_equal(host_of(&b, "[::1]:9000"), "s3.example:443");
    char host[FL_PROBE_HOST_MAX];
    const struct fl_config c = {.file = ""};
    struct fl_probe_target t;
    const struct fl_peer_conf peer = {.address = "minio.example:9000"};
    assert_false(fl_probe_target_of(&c, &b, &peer, host, &t));
}

static void the_bucket_that_is_asked_for(void **state)
{
    (void)state;
    struct fl_backend_conf b = backend();
    struct fl_path_conf to_b = {.prefix = "/p/", .backend = "minio"},
                        elsewhere = {.prefix = "/q/", .backend = ""};
    struct fl_route_conf routes[] = {
        {.bucket = "*", .backend = "minio"},
        {.bucket = "/", .backend = "minio"},
        {.bucket = "others", .backend = "aws", .paths = &elsewhere, .path_count = 1},
        {.bucket = "half", .backend = "aws", .paths = &to_b, .path_count = 1},
        {.bucket = "releases", .backend = "minio"},
        {.bucket = "second", .backend = "minio"},
    };
    struct fl_config c = {.file = "", .routes = routes, .route_count = 6};
    assert_string_equal(fl_probe_target_bucket(&c, &b), "releases");
    c.route_count = 4;
    assert_string_equal(fl_probe_target_bucket(&c, &b), "half");
    c.route_count = 3;
    assert_string_equal(fl_probe_target_bucket(&c, &b), "");
    b.probe.bucket = "canary";
    c.route_count = 6;
    assert_string_equal(fl_probe_target_bucket(&c, &b), "canary");
}

static void copies_stand_alone(void **state)
{
    (void)state;
    const struct fl_probe_target bare = {.type = FL_PROBE_TCP, .fingerprint = 7};
    struct fl_probe_target *copy = fl_probe_target_copy(&bare);
    assert_non_null(copy);
    assert_string_equal(copy->host, "");
    assert_string_equal(copy->secret_key_file, "");
    assert_int_equal(copy->fingerprint, 7);
    assert_true(fl_probe_target_same(&bare, copy));
    free(copy);
    char texts[8][8] = {"host", "path", "expect", "bucket", "region", "access", "secret", "name"};
    struct fl_probe_target t = {.type = FL_PROBE_S3,
                                .timeout_ms = 1,
                                .host = texts[0],
                                .path = texts[1],
                                .expect = texts[2],
                                .bucket = texts[3],
                                .region = texts[4],
                                .access_key_file = texts[5],
                                .secret_key_file = texts[6],
                                .tls_name = texts[7]};
    copy = fl_probe_target_copy(&t);
    assert_non_null(copy);
    for (int i = 0; i < 8; i++) { /* each of them is compared, and none is shared */
        assert_true(fl_probe_target_same(&t, copy));
        texts[i][0] = 'X';
        assert_false(fl_probe_target_same(&t, copy));
        texts[i][0] = "hpebrasn"[i];
    }
    t.fingerprint = 9; /* the caller's business */
    assert_true(fl_probe_target_same(&t, copy));
    t.timeout_ms = 2;
    assert_false(fl_probe_target_same(&t, copy));
    t.timeout_ms = 1;
    t.tls = true;
    assert_false(fl_probe_target_same(&t, copy));
    t.tls = false;
    t.terms = (struct fl_tls_terms *)(void *)texts; /* only compared */
    assert_false(fl_probe_target_same(&t, copy));
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_that_is_sent),
        cmocka_unit_test(the_bucket_that_is_asked_for),
        cmocka_unit_test(copies_stand_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
