/* The client and the watch over TLS: certificates and server of the openssl command. */
#include "tests/unit/controller/kube/watch_kit.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "common/io/read_file.h"

static pid_t server_pid = -1;
static uint16_t server_port;

static pid_t spawn(const char *const *words)
{
    posix_spawn_file_actions_t files;
    pid_t pid = -1;
    char *argv[40] = {NULL};
    for (size_t i = 0; words[i] != NULL; i++) {
        argv[i] = strdup(words[i]);
    }
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addchdir_np(&files, kit.folder);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    assert_int_equal(posix_spawnp(&pid, argv[0], &files, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&files);
    for (size_t i = 0; argv[i] != NULL; i++) {
        free(argv[i]);
    }
    return pid;
}

static void run(const char *const *words)
{
    int status = -1;
    assert_int_equal(waitpid(spawn(words), &status, 0) >= 0, 1);
    if (status != 0) {
        fail_msg("%s %s failed", words[0], words[1]);
    }
}

#define RUN(...) run((const char *const[]){"openssl", __VA_ARGS__, NULL})
#define NEW_KEY  "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"

static void make_certificates(void)
{
    kit_write("server.ext", "subjectAltName=IP:127.0.0.1\n");
    kit_write("other.ext", "subjectAltName=DNS:other.example\n");
    kit_write("client.ext", "extendedKeyUsage=clientAuth\n");
    RUN("req", "-x509", NEW_KEY, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca", "-days",
        "2");
    RUN("req", "-x509", NEW_KEY, "-keyout", "stranger.key", "-out", "stranger.pem", "-subj",
        "/CN=stranger", "-days", "2");
    static const char *const names[] = {"server", "other", "client"};
    for (size_t i = 0; i < FL_COUNTOF(names); i++) {
        char key[32], request[32], cert[32], ext[32], subject[32];
        (void)snprintf(key, sizeof(key), "%s.key", names[i]);
        (void)snprintf(request, sizeof(request), "%s.csr", names[i]);
        (void)snprintf(cert, sizeof(cert), "%s.pem", names[i]);
        (void)snprintf(ext, sizeof(ext), "%s.ext", names[i]);
        (void)snprintf(subject, sizeof(subject), "/CN=%s", names[i]);
        RUN("req", NEW_KEY, "-keyout", key, "-out", request, "-subj", subject);
        RUN("x509", "-req", "-in", request, "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", cert, "-days", "2", "-extfile", ext);
    }
}

/* Serves files that are whole answers, one a connection. */
static void serve(const char *cert, const char *key, bool asks_for_certificate)
{
    char at[32];
    script_stop(); /* its port is free for the other */
    server_port = script.port;
    (void)snprintf(at, sizeof(at), "127.0.0.1:%u", server_port);
    const char *words[] = {"openssl", "s_server",
                           "-accept", at,
                           "-cert",   cert,
                           "-key",    key,
                           "-HTTP",   "-CAfile",
                           "ca.pem",  asks_for_certificate ? "-Verify" : NULL,
                           "1",       "-verify_return_error",
                           NULL};
    server_pid = spawn(words);
    for (int i = 0; i < 1000; i++) { /* until it listens */
        struct fl_addr to = {.family = FL_ADDR_V4, .port = server_port, .ip = {127, 0, 0, 1}};
        int fd = -1;
        assert_int_equal(fl_sock_connect(&to, 0, &fd), 0);
        script_for(20);
        int error = fl_sock_error(fd);
        close(fd);
        if (error == 0) {
            return;
        }
    }
    fail_msg("openssl s_server does not listen");
}

static void access_with(const char *cluster, const char *user)
{
    struct fl_cause cause;
    char server[64];
    kube = fl_kube_free(kube);
    access_ = fl_kube_access_free(access_);
    (void)snprintf(server, sizeof(server), "https://127.0.0.1:%u", server_port);
    kit_config(server, cluster, user);
    /* as if it had been made a minute ago: files are looked at again with the first call */
    if (kit_access(fl_reactor_now_ms(reactor) - 60000, &access_, &cause) < 0) {
        fail_msg("%s", cause.text);
    }
    assert_int_equal(fl_kube_new(reactor, &kit.log, access_, &kube), 0);
}

#define TRUSTS "      certificate-authority: ca.pem\n"

struct result {
    unsigned done;
    enum fl_curl_fault fault;
    int status, os_errno;
    char text[512], body[64];
};

static void on_done(void *arg, const struct fl_kube_answer *a)
{
    struct result *r = arg;
    r->done++;
    r->fault = a->fault;
    r->status = a->status;
    r->os_errno = a->os_errno;
    script_copy(r->text, sizeof(r->text), fl_span_of(a->text));
    script_copy(r->body, sizeof(r->body), a->body);
}

static bool is_done(void *arg)
{
    return ((struct result *)arg)->done > 0;
}

static struct result hello(void)
{
    struct result r = {0};
    struct fl_kube_call *call = NULL;
    const struct fl_kube_request q = {.verb = "get",
                                      .resource = "hello",
                                      .method = "GET",
                                      .path = "/hello",
                                      .timeout_ms = 20000,
                                      .done = on_done,
                                      .arg = &r};
    assert_int_equal(fl_kube_start(kube, &q, &call), 0);
    script_until(is_done, &r, "an answer");
    return r;
}

static int set_up_tls(void **state)
{
    (void)set_up(state);
    make_certificates();
    kit_write("hello", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    return 0;
}

static int tear_down_tls(void **state)
{
    if (server_pid > 0) {
        assert_int_equal(kill(server_pid, SIGKILL), 0);
        assert_int_equal(waitpid(server_pid, NULL, 0), server_pid);
        server_pid = -1;
    }
    return tear_down(state);
}

static void is_said(struct result r, const char *words)
{
    assert_int_equal(r.fault, FL_CURL_CONNECT);
    assert_int_equal(r.os_errno, EPROTO);
    assert_int_equal(r.status, 0);
    if (strstr(r.text, "TLS with https://127.0.0.1:") == NULL || strstr(r.text, words) == NULL) {
        fail_msg("%s is not in: %s", words, r.text);
    }
}

static void the_server_is_verified_by_authority_and_name(void **state)
{
    (void)state;
    serve("server.pem", "server.key", false);
    access_with(TRUSTS, "");
    struct result r = hello();
    assert_string_equal(r.text, "");
    assert_string_equal(r.body, "hi");
    access_with("      certificate-authority: stranger.pem\n", "");
    is_said(hello(), "SSL certificate problem");
    access_with("", ""); /* the system's */
    is_said(hello(), "SSL certificate problem");
    access_with("      insecure-skip-tls-verify: true\n", "");
    assert_string_equal(hello().body, "hi");
}

static void a_certificate_of_another_name_is_refused(void **state)
{
    (void)state;
    serve("other.pem", "other.key", false);
    access_with(TRUSTS, "");
    is_said(hello(), "127.0.0.1");
}

static void a_client_certificate_says_who_we_are(void **state)
{
    (void)state;
    serve("server.pem", "server.key", true);
    access_with(TRUSTS, "      client-certificate: client.pem\n      client-key: client.key\n");
    assert_string_equal(hello().body, "hi");
    access_with(TRUSTS, "");
    assert_int_not_equal(hello().fault, FL_CURL_NONE);
}

static char *contents(const char *name)
{
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(fl_read_file(kit_path(name), 1 << 20, &text, &len), 0);
    return text;
}

static void a_new_authority_is_trusted_from_the_next_call_on(void **state)
{
    (void)state;
    char *good = contents("ca.pem"), *wrong = contents("stranger.pem");
    serve("server.pem", "server.key", false);
    kit_write("rotating", wrong);
    access_with("      certificate-authority: rotating\n", "");
    is_said(hello(), "SSL certificate problem");
    access_with("      certificate-authority: rotating\n", "");
    kit_write("rotating", ""); /* being written: the old one stays, and that is said */
    is_said(hello(), "SSL certificate problem");
    assert_int_equal(kit_logged("the old ones stay"), 1);
    access_with(TRUSTS, "");
    kit_write("ca.pem", wrong);
    is_said(hello(), "SSL certificate problem"); /* no longer trusted */
    access_with("      certificate-authority: ca.pem\n", "");
    kit_write("ca.pem", good);
    assert_string_equal(hello().body, "hi");
    free(good);
    free(wrong);
}

static void a_watch_streams_over_tls(void **state)
{
    (void)state;
    char name[512];
    assert_int_equal(mkdir(kit_path("api"), 0700), 0);
    assert_int_equal(mkdir(kit_path("api/v1"), 0700), 0);
    (void)snprintf(name, sizeof(name),
                   "api/v1/pods?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&"
                   "resourceVersionMatch=NotOlderThan&timeoutSeconds=300&resourceVersion=");
    kit_write(name, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" EVENT("ADDED", "a", "5")
                        INITIAL_END("9") EVENT("MODIFIED", "a", "10"));
    serve("server.pem", "server.key", false);
    access_with(TRUSTS, "");
    limits.timeout_s = 300;
    open_watch();
    int64_t end_ms = fl_reactor_now_ms(reactor) + 20000;
    while (strncmp(told, "[+a]~a", 6) != 0) {
        assert_true(fl_reactor_now_ms(reactor) < end_ms);
        fl_reactor_turn(reactor, 20);
    }
    watch = fl_kube_watch_free(watch);
    assert_int_equal(unlink(kit_path(name)), 0);
    assert_int_equal(rmdir(kit_path("api/v1")), 0);
    assert_int_equal(rmdir(kit_path("api")), 0);
}

#define TEST_TLS(name) cmocka_unit_test_setup_teardown(name, set_up_tls, tear_down_tls)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_TLS(the_server_is_verified_by_authority_and_name),
        TEST_TLS(a_certificate_of_another_name_is_refused),
        TEST_TLS(a_client_certificate_says_who_we_are),
        TEST_TLS(a_new_authority_is_trusted_from_the_next_call_on),
        TEST_TLS(a_watch_streams_over_tls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
