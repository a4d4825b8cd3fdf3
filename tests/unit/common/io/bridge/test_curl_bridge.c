#include "common/io/bridge/curl_bridge.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/fmt.h"
#include "common/io/bridge/mhd_bridge.h"
#include "common/io/sock.h"

/* Both ends on one reactor: a libmicrohttpd server, or a plain socket whose bytes the test decides.
 */
static struct fl_reactor *reactor;
static struct fl_mhd *server;
static struct fl_curl *curl;
static char base[64], url[128];
static int plain_fd = -1;
static unsigned handled;

struct result {
    unsigned done;
    enum fl_curl_fault fault;
    int status, os_errno;
    char body[256], text[256];
    size_t len;
};

static void echo(struct fl_mhd_call *c, void *arg)
{
    char text[512];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    (void)arg;
    handled++;
    fl_fmt_span(&f, fl_mhd_method(c));
    fl_fmt_char(&f, '|');
    fl_fmt_span(&f, fl_mhd_field(c, "X-One"));
    fl_fmt_char(&f, '|');
    fl_fmt_span(&f, fl_mhd_field(c, "Expect"));
    fl_fmt_char(&f, '|');
    fl_fmt_uint(&f, fl_mhd_body(c).len);
    fl_mhd_reply(c, 200, "text/plain", (struct fl_span){f.base, f.len});
}

static void hang(struct fl_mhd_call *c, void *arg)
{
    (void)arg;
    fl_mhd_suspend(c);
}

static void redirect(struct fl_mhd_call *c, void *arg)
{
    (void)arg;
    fl_mhd_add_field(c, "Location", "/echo");
    fl_mhd_reply(c, 302, "text/plain", FL_SPAN("there"));
}

static void flood(struct fl_mhd_call *c, void *arg)
{
    static char much[100000];
    (void)arg;
    fl_mhd_reply_static(c, 200, "text/plain", (struct fl_span){much, sizeof(much)});
}

static const struct fl_mhd_handler handlers[] = {
    {"PUT", "/echo", 0, 2000000, NULL, echo}, {"GET", "/echo", 0, 0, NULL, echo},
    {"GET", "/hang", 0, 0, NULL, hang},       {"GET", "/redirect", 0, 0, NULL, redirect},
    {"GET", "/flood", 0, 0, NULL, flood},
};

static int listen_somewhere(uint16_t *ret_port)
{
    struct fl_addr at;
    int fd = -1;
    assert_true(fl_addr_parse(FL_SPAN("127.0.0.1:0"), &at));
    assert_int_equal(fl_sock_listen(&at, 64, &fd), 0);
    assert_int_equal(fl_sock_local(fd, &at), 0);
    *ret_port = at.port;
    return fd;
}

static int set_up(void **state)
{
    const struct fl_mhd_conf conf = {.handlers = handlers,
                                     .handler_count = FL_COUNTOF(handlers),
                                     .max_connections = 64,
                                     .head_ms = 5000};
    uint16_t port = 0;
    (void)state;
    handled = 0;
    assert_int_equal(fl_reactor_new(&reactor), 0);
    int fd = listen_somewhere(&port);
    (void)snprintf(base, sizeof(base), "http://127.0.0.1:%u", port);
    assert_int_equal(fl_mhd_new(reactor, &conf, fd, &server), 0);
    assert_int_equal(fl_curl_new(reactor, &curl), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    curl = fl_curl_free(curl);
    server = fl_mhd_free(server);
    fl_reactor_turn(reactor, 0);
    reactor = fl_reactor_free(reactor);
    if (plain_fd >= 0) {
        close(plain_fd);
        plain_fd = -1;
    }
    return 0;
}

static void on_done(void *arg, const struct fl_curl_answer *a)
{
    struct result *r = arg;
    r->done++;
    r->fault = a->fault;
    r->status = a->status;
    r->os_errno = a->os_errno;
    r->len = a->body.len;
    struct fl_fmt body = fl_fmt_of(r->body, sizeof(r->body)),
                  text = fl_fmt_of(r->text, sizeof(r->text));
    fl_fmt_span(&body, fl_span_first(a->body, sizeof(r->body) - 1));
    fl_fmt_text(&text, a->text);
}

static struct fl_curl_conf conf_of(const char *method, const char *path, struct result *r)
{
    (void)snprintf(url, sizeof(url), "%s%s", base, path);
    return (struct fl_curl_conf){.method = method,
                                 .url = url,
                                 .timeout_ms = 20000,
                                 .answer_max_bytes = 65536,
                                 .done = on_done,
                                 .arg = r};
}

static void run_until(const unsigned *count, unsigned want)
{
    int64_t end_ms = fl_reactor_now_ms(reactor) + 30000;
    while (*count < want && fl_reactor_now_ms(reactor) < end_ms) {
        fl_reactor_turn(reactor, 100);
    }
    assert_int_equal(*count, want);
}

static void call(const struct fl_curl_conf *conf, struct result *r)
{
    struct fl_curl_call *k = NULL;
    assert_int_equal(fl_curl_start(curl, conf, &k), 0);
    assert_int_equal(r->done, 0); /* never from within start */
    run_until(&r->done, 1);
}

static void method_fields_and_body_arrive_and_the_answer_comes_back(void **state)
{
    (void)state;
    static const char *const fields[] = {"X-One: two", "Content-Type: application/json", NULL};
    static char body[1000000];
    struct result r = {0};
    struct fl_curl_conf conf = conf_of("PUT", "/echo", &r);
    conf.fields = fields;
    conf.body = (struct fl_span){body, sizeof(body)};
    call(&conf, &r);
    assert_int_equal(r.fault, FL_CURL_NONE);
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "PUT|two||1000000"); /* and no Expect, which would cost a second */
    assert_string_equal(r.text, "");
}

static void a_get_has_no_body_and_a_404_is_an_answer(void **state)
{
    (void)state;
    struct result r = {0}, none = {0};
    struct fl_curl_conf conf = conf_of("GET", "/echo", &r);
    call(&conf, &r);
    assert_string_equal(r.body, "GET|||0");
    conf = conf_of("GET", "/nothing", &none);
    call(&conf, &none);
    assert_int_equal(none.fault, FL_CURL_NONE);
    assert_int_equal(none.status, 404);
}

static void a_redirect_is_not_followed(void **state)
{
    (void)state;
    struct result r = {0};
    struct fl_curl_conf conf = conf_of("GET", "/redirect", &r);
    call(&conf, &r);
    assert_int_equal(r.status, 302);
    assert_int_equal(handled, 0);
}

static void the_environments_proxy_is_not_asked(void **state)
{
    (void)state;
    struct result r = {0};
    struct fl_curl_conf conf = conf_of("GET", "/echo", &r);
    assert_int_equal(setenv("http_proxy", "http://127.0.0.1:9", 1), 0);
    call(&conf, &r);
    assert_int_equal(unsetenv("http_proxy"), 0);
    assert_int_equal(r.status, 200);
}

static void an_answer_that_is_too_long_is_cut_off(void **state)
{
    (void)state;
    struct result r = {0};
    struct fl_curl_conf conf = conf_of("GET", "/flood", &r);
    call(&conf, &r);
    assert_int_equal(r.fault, FL_CURL_TOO_LONG);
    assert_true(r.len <= 65536);
    r = (struct result){0};
    conf = conf_of("GET", "/flood", &r);
    conf.answer_max_bytes = 100000; /* just fits */
    call(&conf, &r);
    assert_int_equal(r.fault, FL_CURL_NONE);
    assert_int_equal(r.len, 100000);
}

static void silence_ends_at_the_time_limit(void **state)
{
    (void)state;
    struct result r = {0};
    struct fl_curl_conf conf = conf_of("GET", "/hang", &r);
    conf.timeout_ms = 150;
    int64_t began_ms = fl_reactor_now_ms(reactor);
    call(&conf, &r);
    assert_int_equal(r.fault, FL_CURL_TIMEOUT);
    assert_int_equal(r.status, 0);
    assert_in_range(fl_reactor_now_ms(reactor) - began_ms, 140, 1500);
}

static void a_refused_connect_has_its_errno(void **state)
{
    (void)state;
    struct result r = {0};
    uint16_t port = 0;
    struct fl_curl_conf conf = conf_of("GET", "/", &r);
    close(listen_somewhere(&port)); /* nobody listens there now */
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/", port);
    call(&conf, &r);
    assert_int_equal(r.fault, FL_CURL_CONNECT);
    assert_int_equal(r.os_errno, ECONNREFUSED);
    assert_true(r.text[0] != '\0');
}

/* ---- bytes of our own ---- */

static const char *script;

static void *serve_script(void *arg)
{
    char buf[4096];
    int fd = accept(plain_fd, NULL, NULL);
    (void)arg;
    (void)recv(fd, buf, sizeof(buf), 0);
    (void)send(fd, script, strlen(script), MSG_NOSIGNAL);
    close(fd);
    return NULL;
}

static enum fl_curl_fault fault_after(const char *bytes, struct result *r)
{
    pthread_t thread;
    uint16_t port = 0;
    struct fl_curl_conf conf = conf_of("GET", "/", r);
    *r = (struct result){0};
    script = bytes;
    plain_fd = listen_somewhere(&port);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/", port);
    assert_int_equal(fcntl(plain_fd, F_SETFL, 0), 0); /* the thread may wait */
    assert_int_equal(pthread_create(&thread, NULL, serve_script, NULL), 0);
    call(&conf, r);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(plain_fd);
    plain_fd = -1;
    return r->fault;
}

static void broken_answers_are_told_apart(void **state)
{
    (void)state;
    struct result r;
    assert_int_equal(fault_after("", &r), FL_CURL_ENDED);
    assert_int_equal(fault_after("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", &r),
                     FL_CURL_ENDED);
    assert_int_equal(r.status, 200); /* and yet no good answer */
    assert_int_equal(fault_after("SSH-2.0-OpenSSH_9.2\r\n", &r), FL_CURL_NOT_HTTP);
    assert_int_equal(fault_after("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", &r),
                     FL_CURL_NONE);
    assert_string_equal(r.body, "abc");
}

static void only_http_is_spoken(void **state)
{
    (void)state;
    struct result r = {0};
    struct fl_curl_conf conf = conf_of("GET", "/", &r);
    conf.url = "file:///etc/passwd";
    call(&conf, &r);
    assert_int_equal(r.len, 0);
    assert_int_not_equal(r.fault, FL_CURL_NONE);
}

/* ---- many, and ends ---- */

static void many_calls_run_at_once(void **state)
{
    (void)state;
    struct result r = {0};
    struct fl_curl_call *k = NULL;
    for (int i = 0; i < 40; i++) {
        struct fl_curl_conf conf = conf_of("GET", "/echo", &r);
        assert_int_equal(fl_curl_start(curl, &conf, &k), 0);
    }
    run_until(&r.done, 40);
    assert_int_equal(handled, 40);
}

static void a_cancelled_call_is_never_answered(void **state)
{
    (void)state;
    struct result gone = {0}, r = {0};
    struct fl_curl_call *k = NULL;
    for (int turns = 0; turns < 6; turns++) { /* before, while and after it connects */
        struct fl_curl_conf conf = conf_of("GET", "/echo", &gone);
        assert_int_equal(fl_curl_start(curl, &conf, &k), 0);
        for (int i = 0; i < turns && gone.done == 0; i++) {
            fl_reactor_turn(reactor, 0);
        }
        if (gone.done == 0) {
            fl_curl_cancel(&k);
            assert_null(k);
        }
        gone.done = 0;
        struct fl_curl_conf next = conf_of("GET", "/echo", &r);
        call(&next, &r);
        assert_int_equal(gone.done, 0);
        r.done = 0;
    }
    k = NULL;
    fl_curl_cancel(&k); /* harmless */
}

struct chain {
    struct result r;
    unsigned left, *done;
};

static void call_again(void *arg, const struct fl_curl_answer *a)
{
    struct chain *c = arg;
    struct fl_curl_call *k = NULL;
    assert_int_equal(a->status, 200);
    if (--c->left == 0) {
        ++*c->done;
        return;
    }
    struct fl_curl_conf conf = conf_of("GET", "/echo", &c->r);
    conf.done = call_again;
    conf.arg = c;
    assert_int_equal(fl_curl_start(curl, &conf, &k), 0);
}

static void done_may_start_the_next_call(void **state)
{
    (void)state;
    unsigned done = 0;
    struct chain c = {.left = 10, .done = &done};
    struct fl_curl_call *k = NULL;
    struct fl_curl_conf conf = conf_of("GET", "/echo", &c.r);
    conf.done = call_again;
    conf.arg = &c;
    assert_int_equal(fl_curl_start(curl, &conf, &k), 0);
    run_until(&done, 1);
    assert_int_equal(handled, 10);
}

static void what_is_under_way_goes_with_its_owner(void **state)
{
    (void)state;
    struct result r = {0};
    struct fl_curl_call *k = NULL;
    for (int i = 0; i < 3; i++) {
        struct fl_curl_conf conf = conf_of("GET", i ? "/hang" : "/echo", &r);
        assert_int_equal(fl_curl_start(curl, &conf, &k), 0);
        fl_reactor_turn(reactor, 10);
    }
    unsigned done = r.done;
    curl = fl_curl_free(curl);
    for (int i = 0; i < 5; i++) {
        fl_reactor_turn(reactor, 5);
    }
    assert_int_equal(r.done, done);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(method_fields_and_body_arrive_and_the_answer_comes_back),
        TEST(a_get_has_no_body_and_a_404_is_an_answer),
        TEST(a_redirect_is_not_followed),
        TEST(the_environments_proxy_is_not_asked),
        TEST(an_answer_that_is_too_long_is_cut_off),
        TEST(silence_ends_at_the_time_limit),
        TEST(a_refused_connect_has_its_errno),
        TEST(broken_answers_are_told_apart),
        TEST(only_http_is_spoken),
        TEST(many_calls_run_at_once),
        TEST(a_cancelled_call_is_never_answered),
        TEST(done_may_start_the_next_call),
        TEST(what_is_under_way_goes_with_its_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
