#include "common/io/bridge/mhd_bridge.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/io/sock.h"

static struct fl_reactor *reactor;
static struct fl_mhd *server;
static struct fl_addr at;
static struct fl_mhd_call *waiting;
static unsigned heads, handled;

static void echo(struct fl_mhd_call *c, void *arg)
{
    (void)arg;
    handled++;
    char text[512], value[64];
    struct fl_span q = {0};
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    fl_fmt_span(&f, fl_mhd_method(c));
    fl_fmt_char(&f, '|');
    fl_fmt_span(&f, fl_mhd_segment(c, 0));
    fl_fmt_char(&f, '|');
    fl_fmt_span(&f, fl_mhd_segment(c, 1));
    fl_fmt_char(&f, '|');
    fl_fmt_span(&f, fl_mhd_query(c, "target", 0, value, sizeof(value), &q) ? q : FL_SPAN("-"));
    fl_fmt_char(&f, '|');
    fl_fmt_span(&f, fl_mhd_query(c, "target", 1, value, sizeof(value), &q) ? q : FL_SPAN("-"));
    fl_fmt_char(&f, '|');
    fl_fmt_uint(&f, fl_mhd_body(c).len);
    fl_mhd_reply(c, 200, "text/plain", (struct fl_span){f.base, f.len});
}

static void refuse_unsigned(struct fl_mhd_call *c, void *arg)
{
    (void)arg;
    heads++;
    assert_int_equal(fl_mhd_body(c).len, 0);
    if (fl_mhd_field(c, "Signature").len == 0) {
        fl_mhd_problem(c, 401, "bad_request", "no \"signature\"");
    }
}

static void wait_for_it(struct fl_mhd_call *c, void *arg)
{
    (void)arg;
    waiting = c;
    fl_mhd_suspend(c);
}

static void write_lines(struct fl_fmt *out, void *arg)
{
    for (unsigned i = 0; i < *(unsigned *)arg; i++) {
        fl_fmt_printf(out, "%07u\n", i);
    }
}

static void big(struct fl_mhd_call *c, void *arg)
{
    (void)arg;
    unsigned lines = 100000;
    fl_mhd_reply_written(c, 200, "text/plain", write_lines, &lines);
}

/* A stream: what is in `pending` goes out, whoever asks. */
static struct fl_mhd_call *streaming;
static unsigned streams_ended;
static char pending[65536];
static size_t pending_len;

static size_t more(void *arg, char *into, size_t cap)
{
    (void)arg;
    size_t n = pending_len < cap ? pending_len : cap;
    memcpy(into, pending, n);
    memmove(pending, pending + n, pending_len - n);
    pending_len -= n;
    return n;
}

static void stream_ended(void *arg)
{
    (void)arg;
    streams_ended++;
    streaming = NULL;
}

static void stream(struct fl_mhd_call *c, void *arg)
{
    const struct fl_mhd_stream s = {more, stream_ended, arg};
    streaming = c;
    fl_mhd_reply_stream(c, "application/x-ndjson", &s);
}

static const struct fl_mhd_handler handlers[] = {
    {"GET", "/_/stream", 0, 0, NULL, stream},
    {"GET", "/_/ready", 0, 0, NULL, echo},
    {"GET", "/_/big", 0, 0, NULL, big},
    {"POST", "/_/b/*/probe", FL_MHD_MUTATES, 64, NULL, echo},
    {"POST", "/_/b/*/peers/*/drain", FL_MHD_MUTATES, 64, NULL, echo},
    {"PUT", "/_/state", 0, 200000, refuse_unsigned, echo},
    {"GET", "/_/wait", 0, 0, NULL, wait_for_it},
};

static int listener_copy = -1; /* as a second descriptor table has one */

static int start_server(unsigned max, unsigned per_ip, int64_t head_ms)
{
    struct fl_addr any;
    int fd = -1;
    if (!fl_addr_parse(FL_SPAN("127.0.0.1:0"), &any) || fl_reactor_new(&reactor) != 0 ||
        fl_sock_listen(&any, 64, &fd) != 0) {
        return -1;
    }
    const struct fl_mhd_conf conf = {handlers, FL_COUNTOF(handlers), NULL, max, per_ip, head_ms,
                                     true};
    listener_copy = dup(fd);
    int rc = fl_mhd_new(reactor, &conf, fd, &server);
    if (rc == 0) {
        fl_mhd_local(server, &at);
    }
    heads = handled = streams_ended = 0;
    streaming = NULL;
    pending_len = 0;
    waiting = NULL;
    return rc;
}

static int set_up(void **state)
{
    (void)state;
    return start_server(8, 0, 2000);
}

static int tear_down(void **state)
{
    (void)state;
    server = fl_mhd_free(server);
    reactor = fl_reactor_free(reactor);
    close(listener_copy);
    return 0;
}

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(at.port)};
    memcpy(&to.sin_addr, at.ip, 4);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void turn(int times)
{
    while (times-- > 0) {
        fl_reactor_turn(reactor, 2);
    }
}

static void say(int fd, const char *text)
{
    size_t n = strlen(text);
    assert_int_equal(send(fd, text, n, MSG_NOSIGNAL), (ssize_t)n);
}

/* Reads until the peer closes, or nothing came for `quiet` turns. */
static const char *hear(int fd, int quiet)
{
    static char text[1 << 20];
    size_t n = 0;
    for (int idle = 0; idle < quiet;) {
        fl_reactor_turn(reactor, 2);
        ssize_t got = recv(fd, text + n, sizeof(text) - 1 - n, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            break;
        }
        n += got > 0 ? (size_t)got : 0;
        idle = got > 0 ? 0 : idle + 1;
    }
    text[n] = '\0';
    return text;
}

static const char *ask(const char *request)
{
    int fd = dial();
    say(fd, request);
    const char *answer = hear(fd, 20);
    close(fd);
    turn(2);
    return answer;
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        print_error("missing: %s\nin: %s\n", part, text);
    }
    assert_non_null(strstr(text, part));
}

static void routes_and_answers(void **state)
{
    (void)state;
    const char *a =
        ask("GET /_/ready?x=1&target=/b/a%20b+c&target=%zz HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_has(a, "HTTP/1.1 200 ");
    assert_has(a, "Cache-Control: no-store");
    assert_has(a, "GET|||/b/a b+c|-|0");
    a = ask("HEAD /_/ready HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_has(a, "HTTP/1.1 200 ");
    assert_has(a, "Content-Length: ");
    assert_null(strstr(a, "HEAD|")); /* no body */
    a = ask("GET /_/nothing HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_has(a, "HTTP/1.1 404 ");
    assert_has(a, "application/problem+json");
    assert_has(a, "\"token\":\"not_found\"");
    assert_has(a, "X-Fairlead-Error: not_found");
    a = ask("DELETE /_/state HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_has(a, "HTTP/1.1 405 ");
    assert_has(a, "Allow: PUT\r\n");
    a = ask("POST /_/ready HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    assert_has(a, "Allow: GET, HEAD\r\n");
    assert_int_equal(handled, 2);
}

static void segments_are_split_before_decoding(void **state)
{
    (void)state;
    const char *tail = " HTTP/1.1\r\nHost: 127.0.0.1:1\r\nContent-Type: application/json\r\n"
                       "Content-Length: 2\r\n\r\n{}";
    char text[512];
    (void)snprintf(text, sizeof(text), "POST /_/b/a%%2Fb/peers/%%5B%%3A%%3A1%%5D:9000/drain%s",
                   tail);
    assert_has(ask(text), "POST|a/b|[::1]:9000|-|-|2");
    (void)snprintf(text, sizeof(text), "POST /_/b//probe%s", tail);
    assert_has(ask(text), "HTTP/1.1 404 ");
    (void)snprintf(text, sizeof(text), "POST /_/b/a%%00b/probe%s", tail);
    assert_has(ask(text), "HTTP/1.1 400 ");
    (void)snprintf(text, sizeof(text), "POST /_/b/a%%2/probe%s", tail);
    assert_has(ask(text), "HTTP/1.1 400 ");
    (void)snprintf(text, sizeof(text), "POST /_/b/a/probe/%s", tail);
    assert_has(ask(text), "HTTP/1.1 404 ");
}

static void mutating_calls_are_guarded(void **state)
{
    (void)state;
    const char *a =
        ask("POST /_/b/m/probe HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n");
    assert_has(a, "HTTP/1.1 415 ");
    a = ask("POST /_/b/m/probe HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\n"
            "Content-Length: 0\r\n\r\n");
    assert_has(a, "HTTP/1.1 403 ");
    a = ask("POST /_/b/m/probe HTTP/1.1\r\nHost: localhost:7\r\nOrigin: http://localhost:8\r\n"
            "Content-Type: application/json\r\nContent-Length: 0\r\n\r\n");
    assert_has(a, "HTTP/1.1 403 ");
    assert_int_equal(handled, 0);
    a = ask("POST /_/b/m/probe HTTP/1.1\r\nHost: localhost:7\r\nOrigin: http://localhost:7\r\n"
            "Content-Type: application/json\r\nContent-Length: 0\r\n\r\n");
    assert_has(a, "POST|m|");
}

static char *body_request(const char *head, size_t n)
{
    char *text = malloc(strlen(head) + n + 1);
    assert_non_null(text);
    memcpy(text, head, strlen(head));
    memset(text + strlen(head), 'x', n);
    text[strlen(head) + n] = '\0';
    return text;
}

static void bodies(void **state)
{
    (void)state;
    char *text = body_request(
        "PUT /_/state HTTP/1.1\r\nHost: x\r\nSignature: s\r\nContent-Length: 150000\r\n\r\n",
        150000);
    assert_has(ask(text), "PUT|||-|-|150000");
    free(text);
    /* too long and said so: answered without reading it */
    const char *a = ask("PUT /_/state HTTP/1.1\r\nHost: x\r\nSignature: s\r\nContent-Length: "
                        "200001\r\n\r\nx");
    assert_has(a, "HTTP/1.1 413 ");
    assert_int_equal(heads, 1); /* not even asked */
    /* too long and not said */
    text = body_request("POST /_/b/m/probe HTTP/1.1\r\nHost: [::1]\r\nContent-Type: "
                        "application/json\r\nTransfer-Encoding: chunked\r\n\r\n41\r\n",
                        65);
    int fd = dial();
    say(fd, text);
    say(fd, "\r\n0\r\n\r\n");
    a = hear(fd, 20);
    assert_has(a, "HTTP/1.1 413 ");
    assert_has(a, "payload_too_large");
    close(fd);
    free(text);
    assert_int_equal(handled, 1);
}

static void the_head_may_refuse_before_the_body(void **state)
{
    (void)state;
    /* the client waits for our word and never gets a 100 */
    const char *a = ask("PUT /_/state HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
                        "Content-Length: 150000\r\n\r\n");
    assert_has(a, "HTTP/1.1 401 ");
    assert_has(a, "no \\\"signature\\\"");
    assert_null(strstr(a, "100 Continue"));
    a = ask("PUT /_/state HTTP/1.1\r\nHost: x\r\nContent-Length: 150000\r\n\r\n");
    assert_has(a, "HTTP/1.1 401 ");
    /* a short body is read away, and the connection goes on */
    int fd = dial();
    say(fd, "PUT /_/state HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
            "GET /_/ready HTTP/1.1\r\nHost: x\r\n\r\n");
    a = hear(fd, 20);
    assert_has(a, "HTTP/1.1 401 ");
    assert_has(a, "GET|||-|-|0");
    close(fd);
    assert_int_equal(heads, 3);
    assert_int_equal(handled, 1);
    /* a field that is there twice counts as absent */
    a = ask("PUT /_/state HTTP/1.1\r\nHost: x\r\nSignature: a\r\nSignature: b\r\nContent-Length: "
            "0\r\n\r\n");
    assert_has(a, "HTTP/1.1 401 ");
}

static void long_answers(void **state)
{
    (void)state;
    int fd = dial(); /* until it is closed, however long a slow machine takes */
    say(fd, "GET /_/big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    const char *a = hear(fd, 5000);
    close(fd);
    assert_has(a, "Content-Length: 800000\r\n");
    assert_has(a, "\n0099999\n");
}

static void suspended_calls(void **state)
{
    (void)state;
    int fd = dial();
    say(fd, "GET /_/wait HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_string_equal(hear(fd, 10), "");
    assert_non_null(waiting);
    assert_has(ask("GET /_/ready HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 200 ");
    fl_mhd_reply(waiting, 200, "text/plain", FL_SPAN("later"));
    assert_has(hear(fd, 20), "\r\n\r\nlater");
    close(fd);
    /* one whose client has left is answered into the void; one that is never answered is freed
     * with the server (the leak check looks) */
    fd = dial();
    say(fd, "GET /_/wait HTTP/1.1\r\nHost: x\r\n\r\n");
    turn(5);
    close(fd);
    turn(5);
    fl_mhd_reply(waiting, 200, "text/plain", FL_SPAN("nobody"));
    turn(5);
    assert_int_equal(fl_mhd_connections(server), 0);
    fd = dial();
    say(fd, "GET /_/wait HTTP/1.1\r\nHost: x\r\n\r\n");
    turn(5);
    server = fl_mhd_free(server);
    close(fd);
}

static bool is_closed(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
}

static void the_oldest_without_a_head_gives_way(void **state)
{
    (void)state;
    int busy = dial(), fd[8];
    say(busy, "GET /_/wait HTTP/1.1\r\nHost: x\r\n\r\n"); /* the oldest, but with a whole head */
    turn(5);
    for (int i = 0; i < 7; i++) {
        fd[i] = dial();
        say(fd[i], "GET /_/re"); /* half a head each */
        turn(3);
    }
    assert_int_equal(fl_mhd_connections(server), 8);
    assert_false(is_closed(fd[0]));
    assert_has(ask("GET /_/ready HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 200 ");
    assert_true(is_closed(fd[0]));
    assert_false(is_closed(fd[1]));
    assert_false(is_closed(busy));
    fl_mhd_reply(waiting, 200, "text/plain", FL_SPAN("kept"));
    assert_has(hear(busy, 20), "kept");
    for (int i = 0; i < 7; i++) {
        close(fd[i]);
    }
    close(busy);
}

static void one_address_has_a_share(void **state)
{
    tear_down(state);
    assert_int_equal(start_server(8, 2, 2000), 0);
    int a = dial(), b = dial();
    turn(5);
    int c = dial();
    turn(5);
    assert_true(is_closed(a));
    assert_false(is_closed(b));
    assert_false(is_closed(c));
    close(a);
    close(b);
    close(c);
}

static void slow_heads_end(void **state)
{
    tear_down(state);
    assert_int_equal(start_server(8, 0, 600), 0);
    int fd = dial();
    say(fd, "GET ");
    int64_t start_ms = fl_reactor_now_ms(reactor), last_ms = start_ms;
    while (!is_closed(fd) && fl_reactor_now_ms(reactor) - start_ms < 3000) {
        if (fl_reactor_now_ms(reactor) - last_ms > 100) { /* a byte now and then does not help */
            (void)send(fd, "/", 1, MSG_NOSIGNAL);
            last_ms = fl_reactor_now_ms(reactor);
        }
        fl_reactor_turn(reactor, 5);
    }
    int64_t took_ms = fl_reactor_now_ms(reactor) - start_ms;
    assert_in_range(took_ms, 500, 1500);
    close(fd);
    turn(5);
    assert_int_equal(fl_mhd_connections(server), 0);
}

static void answers_when_descriptors_are_out(void **state)
{
    (void)state;
    struct rlimit old, low;
    int fd = dial(); /* the client's own descriptor, before they are out */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    int taken[64], n = 0;
    while (n < 64 && (taken[n] = dup(0)) >= 0) {
        n++;
    }
    say(fd, "GET /_/ready HTTP/1.1\r\nHost: x\r\n\r\n");
    char answer[32] = "";
    (void)snprintf(answer, sizeof(answer), "%.15s", hear(fd, 30));
    while (n > 0) {
        close(taken[--n]);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_string_equal(answer, "HTTP/1.1 200 OK");
    close(fd);
}

static void put(const char *text)
{
    pending_len = strlen(text);
    memcpy(pending, text, pending_len);
    fl_mhd_stream_more(streaming);
}

static void streams_go_on(void **state)
{
    (void)state;
    int fd = dial();
    say(fd, "GET /_/stream HTTP/1.1\r\nHost: x\r\n\r\n");
    const char *a = hear(fd, 10);
    assert_has(a, "HTTP/1.1 200 ");
    assert_has(a, "Transfer-Encoding: chunked");
    assert_has(a, "Content-Type: application/x-ndjson");
    assert_non_null(streaming);
    fl_mhd_stream_more(streaming); /* for nothing */
    assert_string_equal(hear(fd, 10), "");
    put("one\n");
    assert_string_equal(hear(fd, 10), "4\r\none\n\r\n");
    put("two\n");
    put("three\n"); /* in one turn: what is there then */
    assert_has(hear(fd, 10), "three\n");
    memset(pending, 'x', sizeof(pending));
    pending_len = sizeof(pending);
    fl_mhd_stream_more(streaming);
    assert_true(strlen(hear(fd, 10)) > sizeof(pending));
    put("last\n");
    fl_mhd_stream_end(streaming);
    assert_string_equal(hear(fd, 10), "5\r\nlast\n\r\n0\r\n\r\n");
    assert_int_equal(streams_ended, 1);
    say(fd, "GET /_/ready HTTP/1.1\r\nHost: x\r\n\r\n"); /* the connection lives on */
    assert_has(hear(fd, 10), "HTTP/1.1 200 ");
    close(fd);
    a = ask("HEAD /_/stream HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_has(a, "HTTP/1.1 200 ");
    assert_int_equal(streams_ended, 2);
}

static void a_stream_notices_that_its_client_has_left(void **state)
{
    (void)state;
    int fd = dial(), other = dial();
    say(fd, "GET /_/stream HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_has(hear(fd, 10), "HTTP/1.1 200 ");
    close(fd);
    for (int i = 0; i < 500 && streams_ended == 0; i++) {
        turn(2);
    }
    assert_int_equal(streams_ended, 1);
    say(other, "GET /_/stream HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_has(hear(other, 10), "HTTP/1.1 200 ");
    server = fl_mhd_free(server); /* while it waits */
    assert_int_equal(streams_ended, 2);
    assert_has(hear(other, 10), "");
    close(other);
}

/* Far longer than a request may take, with the other connections under their limits. */
static void a_stream_outlives_the_limits_of_a_request(void **state)
{
    (void)state;
    tear_down(NULL);
    assert_int_equal(start_server(8, 0, 100), 0);
    int fd = dial(), silent = dial();
    say(fd, "GET /_/stream HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_has(hear(fd, 10), "HTTP/1.1 200 ");
    int64_t end_ms = fl_reactor_now_ms(reactor) + 1500;
    while (fl_reactor_now_ms(reactor) < end_ms) {
        put("tick\n");
        assert_has(hear(fd, 20), "tick\n");
    }
    assert_int_equal(streams_ended, 0);
    char byte;
    assert_int_equal(recv(silent, &byte, 1, MSG_DONTWAIT), 0);
    close(silent);
    close(fd);
}

static void nobody_listens_once_it_is_freed(void **state)
{
    (void)state;
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(at.port),
                                   .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    close(dial());
    server = fl_mhd_free(server);
    int late = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(late, (const struct sockaddr *)&to, sizeof to), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nobody_listens_once_it_is_freed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(routes_and_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(streams_go_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stream_notices_that_its_client_has_left, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_stream_outlives_the_limits_of_a_request, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(segments_are_split_before_decoding, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mutating_calls_are_guarded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bodies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_head_may_refuse_before_the_body, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(suspended_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_oldest_without_a_head_gives_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_address_has_a_share, set_up, tear_down),
        cmocka_unit_test_setup_teardown(slow_heads_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(answers_when_descriptors_are_out, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
