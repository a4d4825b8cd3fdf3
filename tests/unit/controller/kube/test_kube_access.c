#include "controller/kube/kube_access.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <stdlib.h>

#include "common/base/base64.h"
#include "common/io/read_file.h"
#include "tests/unit/controller/kube/access_kit.h"

/* Certificates in form only: base64 of a SEQUENCE. */
#define CA_ONE "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n"
#define CA_TWO "-----BEGIN CERTIFICATE-----\nMAMC\nAQI=\n-----END CERTIFICATE-----\n" CA_ONE

static struct fl_kube_access *it;
static struct fl_cause cause;

static int set_up(void **state)
{
    (void)state;
    kit_begin();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    it = fl_kube_access_free(it);
    kit_end();
    return 0;
}

static int pod(const char *host)
{
    const struct fl_kube_where where = {
        .service_host = host, .service_port = "443", .account_dir = kit.folder};
    return fl_kube_access_new(&where, &kit.log, 1000, &it, &cause);
}

static void account(void)
{
    kit_write("token", "first.token-1\n");
    kit_write("ca.crt", CA_ONE);
    kit_write("namespace", "fairlead\n");
}

static void holds(const char *path, const char *want)
{
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(fl_read_file(path, 1 << 20, &text, &len), 0);
    assert_string_equal(text, want);
    free(text);
}

/* ---- in a pod ---- */

static void a_pod_has_all_it_needs_in_its_mount(void **state)
{
    (void)state;
    account();
    assert_int_equal(pod("10.96.0.1"), 0);
    assert_string_equal(fl_kube_access_server(it), "https://10.96.0.1:443");
    assert_string_equal(fl_kube_access_namespace(it), "fairlead");
    assert_string_equal(fl_kube_access_bearer(it, 1000, false), "Bearer first.token-1");
    assert_string_equal(fl_kube_access_cert_file(it), "");
    assert_string_equal(fl_kube_access_key_file(it), "");
    assert_true(fl_kube_access_verify(it));
    holds(fl_kube_access_ca_file(it), CA_ONE);
    assert_false(fl_kube_access_ca_changed(it, 1000));
}

static void an_address_of_ipv6_is_put_in_brackets(void **state)
{
    (void)state;
    account();
    assert_int_equal(pod("fd00:10:96::1"), 0);
    assert_string_equal(fl_kube_access_server(it), "https://[fd00:10:96::1]:443");
}

static void what_is_missing_is_named_with_the_remedy(void **state)
{
    (void)state;
    assert_int_equal(pod("10.96.0.1"), -ENOENT);
    assert_non_null(strstr(cause.text, "/token: No such file"));
    assert_non_null(strstr(cause.text, "automountServiceAccountToken"));
    kit_write("token", "\n");
    assert_int_equal(pod("10.96.0.1"), -EINVAL);
    assert_non_null(strstr(cause.text, "it is empty, or no token"));
    kit_write("token", "t");
    assert_int_equal(pod("10.96.0.1"), -ENOENT);
    assert_non_null(strstr(cause.text, "/ca.crt: No such file"));
    kit_write("ca.crt", "no certificate");
    assert_int_equal(pod("10.96.0.1"), -EBADMSG);
    kit_write("ca.crt", CA_ONE);
    assert_int_equal(pod("10.96.0.1"), 0); /* a namespace may be missing */
    assert_string_equal(fl_kube_access_namespace(it), "");
}

static void without_a_pod_and_without_a_config_both_are_named(void **state)
{
    (void)state;
    const struct fl_kube_where nowhere = {.service_host = "", .kubeconfig = NULL};
    assert_int_equal(fl_kube_access_new(&nowhere, &kit.log, 0, &it, &cause), -ENOENT);
    assert_string_equal(cause.code, "kube_access");
    assert_non_null(strstr(cause.text, "KUBERNETES_SERVICE_HOST"));
    assert_non_null(strstr(cause.text, "KUBECONFIG"));
}

static void a_token_with_bytes_that_would_split_the_head_is_none(void **state)
{
    (void)state;
    account();
    kit_write("token", "a\r\nX-Evil: 1");
    assert_int_equal(pod("10.96.0.1"), -EINVAL);
    kit_write("token", "a b");
    assert_int_equal(pod("10.96.0.1"), -EINVAL);
}

/* ---- rotation ---- */

static void the_token_is_read_again_once_a_minute_and_on_demand(void **state)
{
    (void)state;
    account();
    assert_int_equal(pod("10.96.0.1"), 0);
    kit_write("token", "second");
    assert_string_equal(fl_kube_access_bearer(it, 60999, false), "Bearer first.token-1");
    assert_string_equal(fl_kube_access_bearer(it, 61000, false), "Bearer second");
    kit_write("token", "third");
    assert_string_equal(fl_kube_access_bearer(it, 62000, false), "Bearer second");
    assert_string_equal(fl_kube_access_bearer(it, 62000, true), "Bearer third");
    kit_write("token", "fourth"); /* the minute counts from the last look */
    assert_string_equal(fl_kube_access_bearer(it, 121999, false), "Bearer third");
    assert_string_equal(fl_kube_access_bearer(it, 122000, false), "Bearer fourth");
}

static void when_it_cannot_be_read_the_old_one_stays_and_that_is_said_once(void **state)
{
    (void)state;
    account();
    assert_int_equal(pod("10.96.0.1"), 0);
    assert_int_equal(unlink(kit_path("token")), 0);
    for (int i = 1; i < 5; i++) {
        assert_string_equal(fl_kube_access_bearer(it, 60000 * i + 1000, false),
                            "Bearer first.token-1");
    }
    kit_write("token", "");
    assert_string_equal(fl_kube_access_bearer(it, 999000, true), "Bearer first.token-1");
    assert_int_equal(kit_logged("the old one stays"), 1);
    kit_write("token", "new");
    assert_string_equal(fl_kube_access_bearer(it, 999000, true), "Bearer new");
    kit_write("token", "");
    assert_string_equal(fl_kube_access_bearer(it, 999000, true), "Bearer new");
    assert_int_equal(kit_logged("the old one stays"), 2);
}

static void a_new_authority_is_noticed_once_and_has_another_path(void **state)
{
    (void)state;
    char before[64];
    account();
    assert_int_equal(pod("10.96.0.1"), 0);
    (void)snprintf(before, sizeof(before), "%s", fl_kube_access_ca_file(it));
    kit_write("ca.crt", CA_TWO);
    assert_false(fl_kube_access_ca_changed(it, 60999));
    assert_true(fl_kube_access_ca_changed(it, 61000));
    assert_false(fl_kube_access_ca_changed(it, 61000));
    assert_false(fl_kube_access_ca_changed(it, 961000)); /* looked at, and the same */
    assert_string_not_equal(fl_kube_access_ca_file(it), before);
    holds(fl_kube_access_ca_file(it), CA_TWO);
    kit_write("ca.crt", CA_ONE);
    assert_false(fl_kube_access_ca_changed(it, 961001));
    fl_kube_access_ca_doubted(it);
    assert_true(fl_kube_access_ca_changed(it, 961002));
    kit_write("ca.crt", CA_TWO);
    assert_false(fl_kube_access_ca_changed(it, 961003)); /* doubted once, looked at once */
    fl_kube_access_ca_doubted(it);
    assert_true(fl_kube_access_ca_changed(it, 961004));
}

static void an_empty_or_half_written_authority_is_ignored(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "-----BEGIN CERTIFICATE-----\nMAMC",
                                      "-----BEGIN CERTIFICATE-----\nMAMCA\n"
                                      "-----END CERTIFICATE-----\n",
                                      CA_ONE "-----BEGIN CERTIFICATE-----\nMA"};
    int64_t now_ms = 1000;
    account();
    assert_int_equal(pod("10.96.0.1"), 0);
    for (size_t i = 0; i < FL_COUNTOF(bad); i++) {
        kit_write("ca.crt", bad[i]);
        now_ms += 60000;
        assert_false(fl_kube_access_ca_changed(it, now_ms));
        holds(fl_kube_access_ca_file(it), CA_ONE);
    }
    assert_int_equal(kit_logged("the old ones stay"), 1);
    kit_write("ca.crt", CA_TWO);
    assert_true(fl_kube_access_ca_changed(it, now_ms + 60000));
}

/* ---- a kubeconfig ---- */

static void a_config_says_where_and_who_by_its_current_context(void **state)
{
    (void)state;
    kit_config("https://k.example:6443/prefix/", "", "      token: abc\n");
    assert_int_equal(kit_access(0, &it, &cause), 0);
    assert_string_equal(fl_kube_access_server(it), "https://k.example:6443/prefix");
    assert_string_equal(fl_kube_access_namespace(it), "shop");
    assert_string_equal(fl_kube_access_bearer(it, 0, true), "Bearer abc");
    assert_string_equal(fl_kube_access_ca_file(it), "");
    assert_true(fl_kube_access_verify(it));
    assert_false(fl_kube_access_ca_changed(it, 100000));
}

static void files_are_found_from_its_folder_and_read_again(void **state)
{
    (void)state;
    kit_write("mytoken", "one");
    kit_write("my-ca", CA_ONE);
    kit_write("my-cert", "cert");
    kit_write("my-key", "key");
    kit_config("https://k.example", "      certificate-authority: my-ca\n",
               "      tokenFile: mytoken\n      token: old\n      client-certificate: my-cert\n"
               "      client-key: my-key\n");
    assert_int_equal(kit_access(0, &it, &cause), 0);
    assert_string_equal(fl_kube_access_bearer(it, 0, false), "Bearer one");
    kit_write("mytoken", "two");
    assert_string_equal(fl_kube_access_bearer(it, 60000, false), "Bearer two");
    kit_write("my-ca", CA_TWO);
    assert_true(fl_kube_access_ca_changed(it, 60000));
    assert_string_equal(fl_kube_access_cert_file(it), kit_path("my-cert"));
    assert_string_equal(fl_kube_access_key_file(it), kit_path("my-key"));
}

static void what_it_holds_itself_wins_and_is_kept_in_memory(void **state)
{
    (void)state;
    char text[512], cluster[1024];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    fl_base64_encode(&f, CA_ONE, sizeof(CA_ONE) - 1);
    (void)snprintf(cluster, sizeof(cluster),
                   "      certificate-authority: missing\n      certificate-authority-data: %s\n",
                   text);
    kit_config("https://k.example", cluster,
               "      client-certificate-data: Y2VydA==\n      client-key-data: a2V5\n");
    assert_int_equal(kit_access(0, &it, &cause), 0);
    holds(fl_kube_access_ca_file(it), CA_ONE);
    holds(fl_kube_access_cert_file(it), "cert");
    holds(fl_kube_access_key_file(it), "key");
    assert_true(strncmp(fl_kube_access_key_file(it), "/proc/self/fd/", 14) == 0);
    assert_string_equal(fl_kube_access_bearer(it, 0, true), "");
}

static void verification_may_be_off(void **state)
{
    (void)state;
    kit_config("https://k.example", "      insecure-skip-tls-verify: true\n", "");
    assert_int_equal(kit_access(0, &it, &cause), 0);
    assert_false(fl_kube_access_verify(it));
}

static void what_we_cannot_do_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *cluster, *user, *words;
    } bad[] = {
        {"", "      exec: {command: aws}\n", "exec is not supported"},
        {"", "      auth-provider: {name: gcp}\n", "auth-provider is not supported"},
        {"", "      username: u\n      password: p\n", "username is not supported"},
        {"", "      as: somebody\n", "as is not supported"},
        {"      proxy-url: http://p\n", "", "proxy-url is not supported"},
        {"      tls-server-name: n\n", "", "tls-server-name is not supported"},
        {"      certificate-authority: gone\n", "", "/gone: No such file"},
        {"      certificate-authority-data: '*'\n", "", "certificate-authority-data is not base64"},
        {"      certificate-authority-data: Y2E=\n", "", "holds no whole PEM certificates"},
        {"", "      client-key: gone\n", "/gone: No such file"},
        {"", "      tokenFile: gone\n", "/gone: No such file"},
        {"", "      token: 'a b'\n", "the token of KUBECONFIG is none"},
    };
    for (size_t i = 0; i < FL_COUNTOF(bad); i++) {
        kit_config("https://k.example", bad[i].cluster, bad[i].user);
        assert_true(kit_access(0, &it, &cause) < 0);
        if (strstr(cause.text, bad[i].words) == NULL) {
            fail_msg("%s is not in: %s", bad[i].words, cause.text);
        }
    }
}

static void a_server_is_http_or_https(void **state)
{
    (void)state;
    static const char *const bad[] = {"''",          "k.example",   "ftp://k",      "https://",
                                      "https://u@k", "https://k?x", "unix:///run/k"};
    for (size_t i = 0; i < FL_COUNTOF(bad); i++) {
        kit_config(bad[i], "", "");
        assert_int_equal(kit_access(0, &it, &cause), -EINVAL);
        assert_non_null(strstr(cause.text, "is no http(s)://"));
    }
}

static void a_token_leaves_the_machine_by_tls_only(void **state)
{
    (void)state;
    static const char *const near[] = {"http://127.0.0.1:8080", "http://localhost:1",
                                       "http://[::1]:2"};
    kit_config("http://10.0.0.1:8080", "", "      token: t\n");
    assert_int_equal(kit_access(0, &it, &cause), -EINVAL);
    assert_non_null(strstr(cause.text, "is not https"));
    kit_config("http://localhost.example:8080", "", "      token: t\n");
    assert_int_equal(kit_access(0, &it, &cause), -EINVAL);
    for (size_t i = 0; i < FL_COUNTOF(near); i++) {
        kit_config(near[i], "", "      token: t\n");
        assert_int_equal(kit_access(0, &it, &cause), 0);
        it = fl_kube_access_free(it);
    }
    kit_config("http://10.0.0.1:8080", "", "");
    assert_int_equal(kit_access(0, &it, &cause), 0);
}

static void a_config_that_is_none_is_refused(void **state)
{
    (void)state;
    kit_write("config", "clusters: [");
    assert_int_equal(kit_access(0, &it, &cause), -EINVAL);
    assert_non_null(strstr(cause.text, "config: not YAML as wanted"));
    kit_write("config", "kind: Config\n");
    assert_int_equal(kit_access(0, &it, &cause), -EINVAL);
    assert_non_null(strstr(cause.text, "no current-context"));
    kit_write("config", "current-context: x\n");
    assert_int_equal(kit_access(0, &it, &cause), -ENOENT);
    assert_non_null(strstr(cause.text, "no context named 'x'"));
    kit_write("config", "current-context: x\ncontexts: [{name: x, context: {cluster: y}}]\n");
    assert_int_equal(kit_access(0, &it, &cause), -ENOENT);
    assert_non_null(strstr(cause.text, "no cluster named 'y'"));
    const struct fl_kube_where two = {.kubeconfig = "/nowhere/a:/nowhere/b"};
    assert_int_equal(fl_kube_access_new(&two, &kit.log, 0, &it, &cause), -ENOENT);
    assert_non_null(strstr(cause.text, "one path is wanted"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_pod_has_all_it_needs_in_its_mount),
        TEST(an_address_of_ipv6_is_put_in_brackets),
        TEST(what_is_missing_is_named_with_the_remedy),
        TEST(without_a_pod_and_without_a_config_both_are_named),
        TEST(a_token_with_bytes_that_would_split_the_head_is_none),
        TEST(the_token_is_read_again_once_a_minute_and_on_demand),
        TEST(when_it_cannot_be_read_the_old_one_stays_and_that_is_said_once),
        TEST(a_new_authority_is_noticed_once_and_has_another_path),
        TEST(an_empty_or_half_written_authority_is_ignored),
        TEST(a_config_says_where_and_who_by_its_current_context),
        TEST(files_are_found_from_its_folder_and_read_again),
        TEST(what_it_holds_itself_wins_and_is_kept_in_memory),
        TEST(verification_may_be_off),
        TEST(what_we_cannot_do_is_refused_by_name),
        TEST(a_server_is_http_or_https),
        TEST(a_token_leaves_the_machine_by_tls_only),
        TEST(a_config_that_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
