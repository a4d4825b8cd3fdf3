#include "controller/push/push_line.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>

#include "tests/unit/common/probe/peer_kit.h"

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

static struct fl_push_lines *lines;
static struct fl_push_line *line;
static unsigned replies;
static bool closes; /* the line, from within */
static struct fl_push_reply last;
static char body[256];

static void on_reply(void *arg, const struct fl_push_reply *r)
{
    assert_ptr_equal(arg, &last);
    last = *r;
    memset(body, 0, sizeof(body));
    memcpy(body, r->body.ptr != NULL ? r->body.ptr : "", r->body.len);
    replies++;
    if (closes) {
        fl_push_line_close(&line);
    }
}

static void open_to(const char *address)
{
    fl_push_line_close(&line);
    assert_int_equal(fl_push_line_open(lines, address, on_reply, &last, &line), 0);
}

static int set_up(void **state)
{
    (void)state;
    replies = 0;
    closes = false;
    peer_listen(16);
    if (fl_reactor_new(&reactor) < 0 || fl_push_lines_new(reactor, &lines) < 0) {
        return -1;
    }
    open_to(peer.text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fl_push_line_close(&line);
    lines = fl_push_lines_free(lines);
    fl_reactor_turn(reactor, 0);
    reactor = fl_reactor_free(reactor);
    peer_close();
    return 0;
}

static void push(int64_t timeout_ms)
{
    const struct fl_push_request rq = {FL_SPAN("PUT /p HTTP/1.1\r\nHost: x\r\n\r\n"),
                                       FL_SPAN("the state"), timeout_ms, sizeof(body) - 1};
    assert_false(fl_push_line_busy(line));
    assert_int_equal(fl_push_line_send(line, &rq), 0);
    assert_true(fl_push_line_busy(line));
}

static void hear(int connection)
{
    assert_string_equal(peer_hear(connection), "PUT /p HTTP/1.1\r\nHost: x\r\n\r\nthe state");
}

static void is_answered(int connection)
{
    unsigned before = replies;
    push(3000);
    hear(connection);
    peer_say(connection, OK);
    turn_until(&replies, before + 1);
    assert_int_equal(last.fault, FL_PUSH_FAULT_NONE);
    assert_int_equal(last.status, 200);
    assert_string_equal(body, "hello");
    assert_false(fl_push_line_busy(line));
}

static void one_after_another_on_one_connection(void **state)
{
    (void)state;
    is_answered(0);
    is_answered(0);
    assert_int_equal(peer.accepted, 1);
    assert_false(peer.conn[0].ended);
    fl_push_line_close(&line);
    assert_null(line);
    turn_ms(10);
    assert_true(peer.conn[0].ended);
}

static void a_kept_connection_that_ends_under_a_push_is_replaced_once(void **state)
{
    (void)state;
    is_answered(0);
    push(3000);
    hear(0);
    peer_end(0);
    hear(1);
    peer_say(1, OK);
    turn_until(&replies, 2);
    assert_int_equal(last.fault, FL_PUSH_FAULT_NONE);
    push(3000);
    hear(1);
    peer_end(1);
    hear(2);
    peer_end(2);
    turn_until(&replies, 3);
    assert_int_equal(last.fault, FL_PUSH_FAULT_ENDED);
    assert_int_equal(last.status, 0);
    assert_int_equal(peer.accepted, 3);
}

static void a_new_connection_that_ends_is_not_replaced(void **state)
{
    (void)state;
    push(3000);
    hear(0);
    peer_end(0);
    turn_until(&replies, 1);
    assert_int_equal(last.fault, FL_PUSH_FAULT_ENDED);
    turn_ms(20);
    assert_int_equal(peer.accepted, 1);
}

static void the_fault(const char *answer, bool ends, enum fl_push_fault fault, int status)
{
    unsigned before = replies;
    open_to(peer.text);
    int connection = peer.accepted;
    push(answer != NULL ? 3000 : 150);
    hear(connection);
    peer_say(connection,
             answer != NULL ? answer : "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nha");
    if (ends) {
        peer_end(connection);
    }
    turn_until(&replies, before + 1);
    assert_int_equal(last.fault, fault);
    assert_int_equal(last.status, status);
}

static void what_went_wrong_is_named(void **state)
{
    (void)state;
    char large[600];
    memset(large, 'x', sizeof(large));
    (void)snprintf(large, sizeof(large), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
                   sizeof(body));
    large[strlen(large)] = 'x';
    large[sizeof(large) - 1] = '\0';
    the_fault(large, false, FL_PUSH_FAULT_TOO_LONG, 200);
    the_fault("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", true, FL_PUSH_FAULT_ENDED, 200);
    the_fault(NULL, false, FL_PUSH_FAULT_TIMEOUT, 200);
    the_fault("SSH-2.0-dropbear\r\n", false, FL_PUSH_FAULT_NOT_HTTP, 0);
    the_fault("HTTP/1.1 503 Slow\r\nContent-Length: 0\r\n\r\n", false, FL_PUSH_FAULT_NONE, 503);
    push(3000);
    hear(4); /* on the connection of before */
    peer_say(4, OK);
    turn_until(&replies, 6);
    open_to(peer.text);
    close(peer.listen_fd);
    peer.listen_fd = -1;
    push(3000);
    turn_until(&replies, 7);
    assert_int_equal(last.fault, FL_PUSH_FAULT_CONNECT);
    assert_int_equal(last.os_errno, ECONNREFUSED);
}

static void a_silent_sidecar_costs_the_limit_and_no_more(void **state)
{
    (void)state;
    int64_t began_ms = fl_reactor_now_ms(reactor);
    push(150);
    hear(0);
    turn_until(&replies, 1);
    assert_in_range(fl_reactor_now_ms(reactor) - began_ms, 150, 1500);
    assert_int_equal(last.fault, FL_PUSH_FAULT_TIMEOUT);
    assert_int_equal(last.status, 0);
}

static void names_are_looked_up(void **state)
{
    (void)state;
    char address[32];
    (void)snprintf(address, sizeof(address), "localhost:%u", (unsigned)peer.at.port);
    open_to(address);
    is_answered(0);
    is_answered(0); /* it still stands for the same */
    open_to("no..name:8422");
    push(3000);
    turn_until(&replies, 3);
    assert_int_equal(last.fault, FL_PUSH_FAULT_RESOLVE);
    fl_push_line_close(&line);
    static const char *const bad[] = {
        "", "nowhere", "localhost:", "localhost:0", "localhost:65536", ":8422"};
    for (size_t i = 0; i < FL_COUNTOF(bad); i++) {
        assert_int_equal(fl_push_line_open(lines, bad[i], on_reply, &last, &line), -EINVAL);
        assert_null(line);
    }
}

static void closed_in_every_state(void **state)
{
    (void)state;
    push(3000); /* before it is begun */
    open_to(peer.text);
    push(3000); /* under way */
    hear(0);
    fl_push_line_close(&line);
    turn_ms(10);
    assert_true(peer.conn[0].ended);
    for (int i = 0; i < 4; i++) { /* while its name is looked up, and with its answer on the way */
        open_to("localhost:1");
        push(3000);
        turn_ms(i);
    }
    open_to(peer.text);
    closes = true;
    push(3000);
    hear(1);
    peer_say(1, OK);
    unsigned before = replies;
    turn_until(&replies, before + 1);
    assert_null(line);
    turn_ms(10);
    assert_true(peer.conn[1].ended);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(one_after_another_on_one_connection),
        TEST(a_kept_connection_that_ends_under_a_push_is_replaced_once),
        TEST(a_new_connection_that_ends_is_not_replaced),
        TEST(what_went_wrong_is_named),
        TEST(a_silent_sidecar_costs_the_limit_and_no_more),
        TEST(names_are_looked_up),
        TEST(closed_in_every_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
