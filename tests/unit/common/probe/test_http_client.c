#include "common/probe/http_client.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/http1/headers.h"
#include "tests/unit/common/probe/peer_kit.h"

#define GET_TEXT "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
#define OK_TEXT  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

static struct fl_http_client *client;
static unsigned answers;
static struct {
    struct fl_http_answer a;
    int status;
    char body[FL_HTTP_BODY_KEPT + 1], server[64];
} last;
static const struct fl_http_ask *ask_again; /* from within the callback */

static void answered(void *arg, const struct fl_http_answer *a)
{
    assert_ptr_equal(arg, &last);
    last.a = *a;
    last.status = a->head != NULL ? a->head->status : 0;
    last.server[0] = '\0';
    memset(last.body, 0, sizeof(last.body));
    memcpy(last.body, a->body.len ? a->body.ptr : "", a->body.len);
    if (a->head != NULL) {
        struct fl_span v = fl_headers_get(a->head_text, &a->head->head, FL_HTTP_SERVER);
        struct fl_fmt f = fl_fmt_of(last.server, sizeof(last.server));
        fl_fmt_span(&f, v);
    }
    last.a.head = NULL; /* not valid any more */
    answers++;
    if (ask_again != NULL) {
        const struct fl_http_ask *next = ask_again;
        ask_again = NULL;
        assert_int_equal(fl_http_client_ask(client, next), 0);
    }
}

static int set_up(void **state)
{
    (void)state;
    answers = 0;
    ask_again = NULL;
    peer_listen(16);
    return fl_reactor_new(&reactor) == 0 &&
                   fl_http_client_new(reactor, answered, &last, &client) == 0
               ? 0
               : -1;
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

static struct fl_http_ask get(void)
{
    return (struct fl_http_ask){.to = peer.at,
                                .method = FL_METHOD_GET,
                                .text = FL_SPAN(GET_TEXT),
                                .connect_ms = 1000,
                                .answer_ms = 1000};
}

static void send_get(void)
{
    struct fl_http_ask ask = get();
    assert_int_equal(fl_http_client_ask(client, &ask), 0);
    assert_true(fl_http_client_busy(client));
}

/* Asks, answers on connection i, and waits. */
static void exchange(int i, const char *answer)
{
    unsigned before = answers;
    send_get();
    assert_string_equal(peer_hear(i), GET_TEXT);
    peer_say(i, answer);
    turn_until(&answers, before + 1);
    assert_false(fl_http_client_busy(client));
}

static void one_connection_is_kept(void **state)
{
    (void)state;
    exchange(0, "HTTP/1.1 200 OK\r\nServer: a store\r\nContent-Length: 5\r\n\r\nhello");
    assert_int_equal(last.a.outcome, FL_OUTCOME_OK);
    assert_int_equal(last.a.step, FL_PROBE_STEP_NONE);
    assert_int_equal(last.status, 200);
    assert_string_equal(last.server, "a store");
    assert_string_equal(last.body, "hello");
    assert_false(last.a.reused);
    for (int i = 0; i < 3; i++) {
        exchange(0, OK_TEXT);
        assert_true(last.a.reused);
    }
    assert_int_equal(peer.accepted, 1);
    assert_false(peer.conn[0].ended);
}

static void a_fresh_one_when_asked_for(void **state)
{
    (void)state;
    exchange(0, OK_TEXT);
    struct fl_http_ask ask = get();
    ask.fresh = true;
    assert_int_equal(fl_http_client_ask(client, &ask), 0);
    peer_hear(1);
    turn_ms(10);
    assert_true(peer.conn[0].ended); /* the kept one is given up */
    peer_say(1, OK_TEXT);
    turn_until(&answers, 2);
    assert_false(last.a.reused);
    exchange(1, OK_TEXT);
    assert_int_equal(peer.accepted, 2);
}

static void a_kept_one_that_ends_is_not_used(void **state)
{
    (void)state;
    exchange(0, OK_TEXT);
    peer_end(0);
    turn_ms(10);
    exchange(1, OK_TEXT);
    assert_false(last.a.reused);
    peer_reset(1);
    turn_ms(10);
    exchange(2, OK_TEXT);
    peer_say(2, "HTTP/1.1 408 Request Timeout\r\n\r\n"); /* unasked */
    turn_ms(10);
    assert_true(peer.conn[2].ended);
    exchange(3, OK_TEXT);
    assert_string_equal(last.body, "hello");
}

static void what_forbids_keeping(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        OK_TEXT "HTTP/1.1 200 OK\r\n", /* more than was asked for */
    };
    for (int i = 0; i < 3; i++) {
        exchange(i, texts[i]);
        assert_int_equal(last.a.outcome, FL_OUTCOME_OK);
        assert_string_equal(last.body, "hello");
        turn_ms(10);
        assert_true(peer.conn[i].ended);
    }
    /* the answer, and the end with it */
    send_get();
    peer_hear(3);
    peer_say(3, OK_TEXT);
    peer_end(3);
    turn_until(&answers, 4);
    assert_string_equal(last.body, "hello");
    exchange(4, OK_TEXT);
    assert_false(last.a.reused);
}

static void bodies_are_unframed(void **state)
{
    (void)state;
    exchange(0, "HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n"
                "3;x=y\r\n<Co\r\n4\r\nde/>\r\n0\r\nX-Sum: 1\r\n\r\n");
    assert_int_equal(last.status, 403);
    assert_string_equal(last.body, "<Code/>");
    exchange(0, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_string_equal(last.body, "");
    assert_true(last.a.reused);
    send_get();
    peer_hear(0);
    peer_say(0, "HTTP/1.1 200 OK\r\n\r\nuntil the end");
    turn_ms(20);
    assert_int_equal(answers, 2);
    peer_end(0);
    turn_until(&answers, 3);
    assert_string_equal(last.body, "until the end");
}

static void a_head_has_no_body(void **state)
{
    (void)state;
    struct fl_http_ask ask = get();
    ask.method = FL_METHOD_HEAD;
    assert_int_equal(fl_http_client_ask(client, &ask), 0);
    peer_hear(0);
    peer_say(0, "HTTP/1.1 403 Forbidden\r\nContent-Length: 1000\r\n\r\n");
    turn_until(&answers, 1);
    assert_int_equal(last.status, 403);
    exchange(0, OK_TEXT);
    assert_true(last.a.reused);
}

static void byte_by_byte(void **state)
{
    (void)state;
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: "
                               "a\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                               "a\r\n0123456789\r\n0\r\nA: b\r\n\r\n";
    send_get();
    peer_hear(0);
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        const char one[] = {text[i], '\0'};
        peer_say(0, one);
        turn_ms(0);
    }
    turn_until(&answers, 1);
    assert_int_equal(last.status, 200);
    assert_string_equal(last.body, "0123456789");
    exchange(0, OK_TEXT);
    assert_true(last.a.reused);
}

static char *big_answer(size_t head_pad, size_t body)
{
    char *text = calloc(1, head_pad + body + 200);
    assert_non_null(text);
    int n = snprintf(text, 100, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nPad: ", body);
    memset(text + n, 'p', head_pad);
    memcpy(text + n + head_pad, "\r\n\r\n", 4);
    for (size_t i = 0; i < body; i++) {
        text[(size_t)n + head_pad + 4 + i] = (char)('a' + i % 26);
    }
    return text;
}

static void large_bodies_are_kept_in_part(void **state)
{
    (void)state;
    char *text = big_answer(10, 200000);
    exchange(0, text);
    free(text);
    assert_int_equal(last.a.body.len, FL_HTTP_BODY_KEPT);
    for (size_t i = 0; i < FL_HTTP_BODY_KEPT; i++) {
        assert_int_equal(last.body[i], 'a' + i % 26);
    }
    exchange(0, OK_TEXT); /* read to its end */
    assert_true(last.a.reused);
    text = big_answer(10, FL_HTTP_BODY_DRAINED + 100000);
    exchange(0, text);
    free(text);
    assert_int_equal(last.a.outcome, FL_OUTCOME_OK);
    exchange(1, OK_TEXT);
    assert_false(last.a.reused);
}

static void large_heads(void **state)
{
    (void)state;
    char *text = big_answer(60000, 5000);
    exchange(0, text);
    free(text);
    assert_int_equal(last.status, 200);
    assert_int_equal(last.a.body.len, FL_HTTP_BODY_KEPT);
    text = big_answer(70000, 5);
    exchange(0, text);
    free(text);
    assert_int_equal(last.a.outcome, FL_OUTCOME_INVALID_HEADER);
    assert_int_equal(last.a.error, FL_HTTP_ERR_HEAD_LARGE);
    assert_int_equal(last.a.step, FL_PROBE_STEP_HEAD);
}

static void no_answer(void **state)
{
    (void)state;
    send_get();
    peer_hear(0);
    peer_end(0);
    turn_until(&answers, 1);
    assert_int_equal(last.a.outcome, FL_OUTCOME_PREMATURE_CLOSE);
    assert_int_equal(last.a.step, FL_PROBE_STEP_HEAD);
    assert_int_equal(last.a.os_errno, 0);
    send_get();
    peer_hear(1);
    peer_say(1, "HTTP/1.1 200 OK\r\nServ");
    peer_reset(1);
    turn_until(&answers, 2);
    assert_int_equal(last.a.outcome, FL_OUTCOME_PREMATURE_CLOSE);
    assert_int_equal(last.a.os_errno, ECONNRESET);
    exchange(2, OK_TEXT);
}

static void silence(void **state)
{
    (void)state;
    struct fl_http_ask ask = get();
    ask.answer_ms = 120;
    int64_t began_ms = fl_reactor_now_ms(reactor);
    assert_int_equal(fl_http_client_ask(client, &ask), 0);
    peer_hear(0);
    peer_say(0, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 2"); /* moving is not answering */
    turn_until(&answers, 1);
    assert_in_range(fl_reactor_now_ms(reactor) - began_ms, 120, 400);
    assert_int_equal(last.a.outcome, FL_OUTCOME_READ_TIMEOUT);
    assert_int_equal(last.a.step, FL_PROBE_STEP_HEAD);
    turn_ms(10);
    assert_true(peer.conn[0].ended);
}

static void a_body_that_stalls_or_breaks_was_answered(void **state)
{
    (void)state;
    struct fl_http_ask ask = get();
    ask.answer_ms = 120;
    assert_int_equal(fl_http_client_ask(client, &ask), 0);
    peer_hear(0);
    peer_say(0, "HTTP/1.1 503 Slow\r\nContent-Length: 50\r\n\r\n<Code>SlowDown</Code>");
    turn_until(&answers, 1);
    assert_int_equal(last.a.outcome, FL_OUTCOME_OK);
    assert_int_equal(last.status, 503);
    assert_string_equal(last.body, "<Code>SlowDown</Code>");
    send_get(); /* not on that connection */
    peer_hear(1);
    peer_say(1, "HTTP/1.1 500 Bad\r\nContent-Length: 50\r\n\r\nhalf");
    peer_end(1);
    turn_until(&answers, 2);
    assert_int_equal(last.status, 500);
    assert_string_equal(last.body, "half");
    exchange(2, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    assert_int_equal(last.status, 200);
    turn_ms(10);
    assert_true(peer.conn[2].ended);
}

static void not_http(void **state)
{
    (void)state;
    static const char *const texts[] = {"SSH-2.0-OpenSSH_9.2\r\n", "\x15\x03\x01",
                                        "HTTP/1.1 20x OK\r\n\r\n",
                                        "HTTP/1.1 200 OK\nContent-Length: 0\n\n"};
    for (int i = 0; i < 4; i++) {
        exchange(i, texts[i]);
        assert_int_equal(last.a.outcome, FL_OUTCOME_INVALID_HEADER);
        assert_int_not_equal(last.a.error, FL_HTTP_ERR_NONE);
    }
    char many[1024];
    struct fl_fmt f = fl_fmt_of(many, sizeof(many));
    for (int i = 0; i < 12; i++) {
        fl_fmt_text(&f, "HTTP/1.1 100 Continue\r\n\r\n");
    }
    exchange(4, many);
    assert_int_equal(last.a.outcome, FL_OUTCOME_INVALID_HEADER);
}

static void connects_that_fail(void **state)
{
    (void)state;
    close(peer.listen_fd);
    peer.listen_fd = -1;
    send_get();
    assert_int_equal(answers, 0);
    turn_until(&answers, 1);
    assert_int_equal(last.a.outcome, FL_OUTCOME_CONNECT_FAILED);
    assert_int_equal(last.a.os_errno, ECONNREFUSED);
    assert_int_equal(last.a.step, FL_PROBE_STEP_CONNECT);
    struct fl_http_ask ask = get();
    ask.tls = true;
    assert_int_equal(fl_http_client_ask(client, &ask), 0);
    assert_int_equal(answers, 1);
    turn_until(&answers, 2);
    assert_int_equal(last.a.outcome, FL_OUTCOME_TLS_FAILED);
    assert_int_equal(last.a.step, FL_PROBE_STEP_TLS);
}

static void a_connect_alone_can_be_asked(void **state)
{
    (void)state;
    struct fl_http_ask ask = get();
    ask.text = (struct fl_span){0};
    assert_int_equal(fl_http_client_ask(client, &ask), 0);
    turn_until(&answers, 1);
    turn_ms(10);
    assert_int_equal(last.a.outcome, FL_OUTCOME_OK);
    assert_int_equal(peer.accepted, 1);
    assert_true(peer.conn[0].ended);
    assert_int_equal(peer.conn[0].len, 0);
}

static void asked_from_within(void **state)
{
    (void)state;
    struct fl_http_ask again = get();
    again.fresh = true;
    ask_again = &again;
    send_get();
    peer_hear(0);
    peer_say(0, OK_TEXT);
    turn_until(&answers, 1);
    peer_hear(1);
    peer_say(1, OK_TEXT);
    turn_until(&answers, 2);
    assert_int_equal(last.a.outcome, FL_OUTCOME_OK);
    ask_again = &again;
    send_get();
    peer_hear(1);
    peer_end(1); /* fails, and is asked again at once */
    turn_until(&answers, 3);
    assert_int_equal(last.a.outcome, FL_OUTCOME_PREMATURE_CLOSE);
    peer_hear(2);
    peer_say(2, OK_TEXT);
    turn_until(&answers, 4);
}

static void dropped_and_freed_in_flight(void **state)
{
    (void)state;
    send_get();
    fl_http_client_drop(client); /* not even begun */
    turn_ms(10);
    assert_int_equal(peer.accepted, 0);
    send_get();
    peer_hear(0);
    peer_say(0, "HTTP/1.1 200 OK\r\n");
    turn_ms(5);
    fl_http_client_drop(client);
    peer_say(0, "\r\n");
    turn_ms(20);
    assert_true(peer.conn[0].ended);
    assert_false(fl_http_client_busy(client));
    send_get();
    peer_hear(1);
    client = fl_http_client_free(client);
    peer_say(1, OK_TEXT);
    turn_ms(20);
    assert_int_equal(answers, 0);
}

static void another_address_is_another_connection(void **state)
{
    (void)state;
    exchange(0, OK_TEXT);
    int other = -1;
    struct fl_addr any;
    assert_true(fl_addr_parse(FL_SPAN("127.0.0.1:0"), &any));
    assert_int_equal(fl_sock_listen(&any, 4, &other), 0);
    struct fl_http_ask ask = get();
    assert_int_equal(fl_sock_local(other, &ask.to), 0);
    ask.answer_ms = 50;
    assert_int_equal(fl_http_client_ask(client, &ask), 0);
    turn_until(&answers, 2);
    assert_int_equal(last.a.outcome, FL_OUTCOME_READ_TIMEOUT);
    assert_true(peer.conn[0].ended);
    assert_int_equal(peer.conn[0].len, 0);
    close(other);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(one_connection_is_kept),
        TEST(a_fresh_one_when_asked_for),
        TEST(a_kept_one_that_ends_is_not_used),
        TEST(what_forbids_keeping),
        TEST(bodies_are_unframed),
        TEST(a_head_has_no_body),
        TEST(byte_by_byte),
        TEST(large_bodies_are_kept_in_part),
        TEST(large_heads),
        TEST(no_answer),
        TEST(silence),
        TEST(a_body_that_stalls_or_breaks_was_answered),
        TEST(not_http),
        TEST(connects_that_fail),
        TEST(a_connect_alone_can_be_asked),
        TEST(asked_from_within),
        TEST(dropped_and_freed_in_flight),
        TEST(another_address_is_another_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
