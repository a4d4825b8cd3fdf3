/* what pushes ask of the client beyond what probes do: bodies, whole answers, one limit for all */
#include "common/probe/http_client.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/common/probe/peer_kit.h"

#define PUT_TEXT "PUT / HTTP/1.1\r\nHost: x\r\n\r\n"
#define HELLO    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

static struct fl_http_client *client;
static unsigned answers;
static bool frees; /* the client, from within the callback */
static struct fl_http_answer last;
static char body[65536]; /* of it */

static void answered(void *arg, const struct fl_http_answer *a)
{
    (void)arg;
    last = *a;
    memset(body, 0, sizeof(body));
    memcpy(body, a->body.ptr != NULL ? a->body.ptr : "", a->body.len);
    answers++;
    if (frees) {
        client = fl_http_client_free(client);
    }
}

static int set_up(void **state)
{
    (void)state;
    answers = 0;
    frees = false;
    peer_listen(16);
    return fl_reactor_new(&reactor) < 0 || fl_http_client_new(reactor, answered, NULL, &client) < 0;
}

static int tear_down(void **state)
{
    (void)state;
    client = fl_http_client_free(client);
    fl_reactor_turn(reactor, 0);
    reactor = fl_reactor_free(reactor);
    peer_close();
    return 0;
}

static struct fl_http_ask put(void)
{
    return (struct fl_http_ask){.to = peer.at,
                                .method = FL_METHOD_PUT,
                                .text = FL_SPAN(PUT_TEXT),
                                .connect_ms = 2000,
                                .answer_ms = 2000};
}

static void send_put(const struct fl_http_ask *ask, int connection)
{
    assert_int_equal(fl_http_client_ask(client, ask), 0);
    peer_hear(connection);
}

/* Asks, is answered so on this connection (which then ends if it is to), and waits. */
static void exchange(int connection, const char *answer, bool ends)
{
    const struct fl_http_ask ask = put();
    unsigned before = answers;
    send_put(&ask, connection);
    peer_say(connection, answer);
    if (ends) {
        peer_end(connection);
    }
    turn_until(&answers, before + 1);
    assert_int_equal(last.outcome, FL_OUTCOME_OK);
    assert_false(last.late);
}

static void an_answer_is_whole_or_not(void **state)
{
    (void)state;
    exchange(0, HELLO, false);
    assert_true(last.whole);
    exchange(0,
             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
             "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
             false);
    assert_string_equal(body, "abc");
    assert_true(last.whole);
    exchange(0, "HTTP/1.1 204 None\r\n\r\n", false);
    assert_true(last.whole);
    exchange(0, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", true);
    assert_string_equal(body, "half");
    assert_false(last.whole);
    exchange(1, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", true);
    assert_string_equal(body, "half");
    assert_false(last.whole);
    exchange(2, "HTTP/1.0 200 OK\r\n\r\nuntil the end", true);
    assert_string_equal(body, "until the end");
    assert_true(last.whole);
}

static void as_much_is_kept_as_was_asked_for(void **state)
{
    (void)state;
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 30000\r\n\r\n";
    static char answer[sizeof(head) + 30000];
    static const size_t keeps[] = {30000, 40000, 29999, 1};
    memcpy(answer, head, sizeof(head));
    for (size_t i = 0; i < 30000; i++) {
        answer[sizeof(head) - 1 + i] = (char)('a' + i % 23);
    }
    for (size_t i = 0; i < FL_COUNTOF(keeps); i++) {
        struct fl_http_ask ask = put();
        size_t kept = keeps[i] < 30000 ? keeps[i] : 30000;
        ask.keep = keeps[i];
        send_put(&ask, 0);
        peer_say(0, answer);
        turn_until(&answers, (unsigned)i + 1);
        assert_int_equal(last.body.len, kept);
        assert_memory_equal(body, answer + sizeof(head) - 1, kept);
        assert_int_equal(last.whole, kept == 30000);
        assert_int_equal(last.reused, i > 0); /* it is read to its end in any case */
    }
}

/* So large that it goes out in many pieces. */
static void a_body_follows_the_text(void **state)
{
    (void)state;
    const size_t all = (size_t)3 << 20;
    char *sent = malloc(all), *got = calloc(1, all + sizeof(PUT_TEXT));
    struct fl_http_ask ask = put();
    size_t len = 0;
    for (size_t i = 0; i < all; i++) {
        sent[i] = (char)('a' + i % 23);
    }
    ask.body = (struct fl_span){sent, all};
    assert_int_equal(fl_http_client_ask(client, &ask), 0);
    while (peer.accepted == 0) {
        fl_reactor_turn(reactor, 1);
        int fd = fl_sock_accept(peer.listen_fd, NULL);
        if (fd >= 0) {
            peer.conn[peer.accepted++].fd = fd;
        }
    }
    while (len < all + sizeof(PUT_TEXT) - 1) {
        fl_reactor_turn(reactor, 1);
        ssize_t n = fl_sock_recv(peer.conn[0].fd, got + len, all + sizeof(PUT_TEXT) - len);
        assert_true(n > 0 || n == -EAGAIN);
        len += n > 0 ? (size_t)n : 0;
    }
    assert_memory_equal(got, PUT_TEXT, sizeof(PUT_TEXT) - 1);
    assert_memory_equal(got + sizeof(PUT_TEXT) - 1, sent, all);
    peer_say(0, HELLO);
    turn_until(&answers, 1);
    assert_string_equal(body, "hello");
    free(sent);
    free(got);
}

static void one_limit_for_all_of_it(void **state)
{
    (void)state;
    struct fl_http_ask ask = put();
    ask.total_ms = 150;
    int64_t began_ms = fl_reactor_now_ms(reactor);
    send_put(&ask, 0);
    peer_say(0, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    turn_until(&answers, 1);
    assert_in_range(fl_reactor_now_ms(reactor) - began_ms, 150, 1500);
    assert_int_equal(last.outcome, FL_OUTCOME_OK);
    assert_true(last.late && !last.whole);
    began_ms = fl_reactor_now_ms(reactor);
    send_put(&ask, 1);
    turn_until(&answers, 2);
    assert_in_range(fl_reactor_now_ms(reactor) - began_ms, 150, 1500);
    assert_int_equal(last.outcome, FL_OUTCOME_READ_TIMEOUT);
}

static void freed_from_within(void **state)
{
    (void)state;
    frees = true;
    exchange(0, HELLO, false);
    assert_null(client);
    turn_ms(10);
    assert_true(peer.conn[0].ended);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_answer_is_whole_or_not), TEST(as_much_is_kept_as_was_asked_for),
        TEST(a_body_follows_the_text),   TEST(one_limit_for_all_of_it),
        TEST(freed_from_within),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
