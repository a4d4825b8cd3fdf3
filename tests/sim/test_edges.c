/* One set of expectations for two networks: built with sim-io, and (EDGES_REAL) with the kernel's
 * TCP on loopback. What passes here twice is what the simulation may be trusted with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "common/io/reactor.h"
#include "common/io/sock.h"

#ifdef EDGES_REAL
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#define QUIET_MS                                                                                   \
    60 /* loopback is as good as synchronous, but an acknowledgement may wait for 40 ms */
#else
#include "tests/sim/sim.h"
#define QUIET_MS 0
#endif

enum { R = FL_IO_READ, W = FL_IO_WRITE, H = FL_IO_HUP, E = FL_IO_ERROR };

struct side {
    struct fl_io io;
    unsigned calls, events;
};

struct pair {
    struct fl_reactor *r;
    struct side a, b; /* dialled, accepted */
    int listen_fd;
    struct fl_addr at;
};

#ifndef EDGES_REAL
static struct sim_world *world;
#endif

static void on_event(struct fl_io *io, unsigned events)
{
    struct side *s = fl_container_of(io, struct side, io);
    s->calls++;
    s->events |= events;
}

static void settle(struct pair *p)
{
    unsigned before;
    do {
        before = p->a.calls + p->b.calls;
        fl_reactor_turn(p->r, QUIET_MS);
    } while (p->a.calls + p->b.calls != before);
}

/* What the two sides have heard since the last look. */
#define expect_edges(p, for_a, for_b)                                                              \
    do {                                                                                           \
        settle(p);                                                                                 \
        assert_int_equal((p)->a.events, for_a);                                                    \
        assert_int_equal((p)->b.events, for_b);                                                    \
        (p)->a = (struct side){.io = (p)->a.io};                                                   \
        (p)->b = (struct side){.io = (p)->b.io};                                                   \
    } while (0)

static void open_listener(struct pair *p)
{
#ifndef EDGES_REAL
    world = sim_new(1);
#endif
    *p = (struct pair){.a.io = {.fd = -1, .on_event = on_event},
                       .b.io = {.fd = -1, .on_event = on_event}};
    assert_int_equal(fl_reactor_new(&p->r), 0);
    struct fl_addr any;
    assert_true(fl_addr_parse(FL_SPAN("127.0.0.1:0"), &any));
    assert_int_equal(fl_sock_listen(&any, 8, &p->listen_fd), 0);
    assert_int_equal(fl_sock_local(p->listen_fd, &p->at), 0);
}

static void open_pair(struct pair *p)
{
    int fd;
    open_listener(p);
    assert_int_equal(fl_sock_connect(&p->at, 0, &fd), 0);
    assert_int_equal(fl_reactor_add(p->r, &p->a.io, fd), 0);
    settle(p);
    fd = fl_sock_accept(p->listen_fd, NULL);
    assert_true(fd >= 0);
    assert_int_equal(fl_reactor_add(p->r, &p->b.io, fd), 0);
    expect_edges(p, W, W); /* connected; writable */
    expect_edges(p, 0, 0); /* and nothing twice */
}

static void close_pair(struct pair *p)
{
    fl_reactor_close(p->r, &p->a.io);
    fl_reactor_close(p->r, &p->b.io);
    fl_sock_close(p->listen_fd);
    fl_reactor_free(p->r);
#ifndef EDGES_REAL
    assert_int_equal(sim_free(world), 0);
#endif
}

static ssize_t say(const struct side *s, const char *text)
{
    struct iovec iov = {(void *)(uintptr_t)text, strlen(text)};
    return fl_sock_sendv(s->io.fd, &iov, 1);
}

static ssize_t hear(const struct side *s, size_t n)
{
    char buf[64];
    return fl_sock_recv(s->io.fd, buf, n);
}

/* Fewer bytes than asked for make no edge, but can be read, and are told of when fewer are asked
 * for; an end and an error are told of at once. */
static void test_wake_at(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p);
    fl_sock_wake_at(p.b.io.fd, 6);
    assert_int_equal(say(&p.a, "abc"), 3);
    expect_edges(&p, 0, 0);
    assert_int_equal(hear(&p.b, 1), 1);
    assert_int_equal(say(&p.a, "def"), 3);
    expect_edges(&p, 0, 0); /* five are there */
    assert_int_equal(say(&p.a, "g"), 1);
    expect_edges(&p, 0, R | W);
    assert_int_equal(hear(&p.b, 64), 6);
    assert_int_equal(say(&p.a, "hi"), 2);
    expect_edges(&p, 0, 0);
    fl_sock_wake_at(p.b.io.fd, 1);
    expect_edges(&p, 0, R | W); /* it looks again */
    fl_sock_wake_at(p.b.io.fd, 6);
    fl_sock_finish(p.a.io.fd);
    expect_edges(&p, W, R | W | H);
    assert_int_equal(hear(&p.b, 64), 2);
    close_pair(&p);
    open_pair(&p);
    fl_sock_wake_at(p.b.io.fd, 6);
    assert_int_equal(say(&p.a, "abc"), 3);
    fl_sock_reset_on_close(p.a.io.fd);
    fl_reactor_close(p.r, &p.a.io);
    settle(&p);
    assert_true((p.b.events & (H | E)) == (H | E));
    close_pair(&p);
}

static void test_data(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p);
    assert_int_equal(say(&p.a, "abc"), 3);
    expect_edges(&p, 0, R | W);
    expect_edges(&p, 0, 0); /* unread bytes make no second edge */
    assert_int_equal(hear(&p.b, 1), 1);
    expect_edges(&p, 0, 0); /* nor does a partial read */
    assert_int_equal(say(&p.a, "d"), 1);
    expect_edges(&p, 0, R | W); /* new bytes do */
    assert_int_equal(hear(&p.b, 64), 3);
    assert_int_equal(hear(&p.b, 64), -EAGAIN);
    assert_int_equal(say(&p.b, "xy"), 2);
    assert_int_equal(say(&p.a, "z"), 1);
    expect_edges(&p, R | W, R | W);
    close_pair(&p);
}

/* Bytes that were read before the reactor looked: the edge still comes, with what is true then. */
static void test_used_up_edge(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p);
    assert_int_equal(say(&p.a, "abc"), 3);
    while (hear(&p.b, 64) != 3) {
    }
    expect_edges(&p, 0, W);
    close_pair(&p);
}

static size_t fill(const struct side *s)
{
    static char junk[16384];
    struct iovec iov = {junk, sizeof(junk)};
    size_t sent = 0;
    ssize_t n;
    while ((n = fl_sock_sendv(s->io.fd, &iov, 1)) > 0) {
        sent += (size_t)n;
    }
    assert_int_equal(n, -EAGAIN);
    return sent;
}

static void test_write_space(void **state)
{
    (void)state;
    struct pair p;
    static char junk[65536];
    open_pair(&p);
    size_t sent = fill(&p.a), got = 0;
    settle(&p);
    sent += fill(&p.a);
    expect_edges(&p, 0, R | W);
    expect_edges(&p, 0, 0);
    while (got < sent) {
        ssize_t n = fl_sock_recv(p.b.io.fd, junk, sizeof(junk));
        if (n == -EAGAIN) {
            settle(&p);
            continue;
        }
        assert_true(n > 0);
        got += (size_t)n;
    }
    settle(&p);
    assert_int_equal(p.a.events, W);
    assert_true(p.a.calls >= 1);
    close_pair(&p);
}

static void test_fin(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p);
    fl_sock_finish(p.b.io.fd);
    expect_edges(&p, R | W | H, W); /* shutdown wakes its own side, too */
    assert_int_equal(hear(&p.a, 64), 0);
    assert_int_equal(hear(&p.a, 64), 0); /* EOF stays */
    assert_int_equal(say(&p.b, "x"), -EPIPE);
    assert_int_equal(say(&p.a, "still"), 5); /* half-closed: the other direction works */
    expect_edges(&p, 0, R | W);
    assert_int_equal(hear(&p.b, 64), 5);
    fl_sock_finish(p.a.io.fd);
    expect_edges(&p, R | W | H, R | W | H);
    assert_int_equal(hear(&p.b, 64), 0);
    close_pair(&p);
}

static void test_data_and_fin_together(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p);
    assert_int_equal(say(&p.b, "last"), 4);
    fl_sock_finish(p.b.io.fd);
    expect_edges(&p, R | W | H, W);
    assert_int_equal(hear(&p.a, 2), 2);
    expect_edges(&p, 0, 0);
    assert_int_equal(hear(&p.a, 64), 2);
    assert_int_equal(hear(&p.a, 64), 0);
    close_pair(&p);
}

static void test_reset(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p);
    assert_int_equal(say(&p.b, "abc"), 3);
    expect_edges(&p, R | W, 0);
    fl_sock_reset_on_close(p.b.io.fd);
    fl_reactor_close(p.r, &p.b.io);
    expect_edges(&p, R | W | H | E, 0);
    assert_int_equal(hear(&p.a, 64), 3); /* what had arrived can still be read */
    assert_int_equal(hear(&p.a, 64), -ECONNRESET);
    assert_int_equal(hear(&p.a, 64), 0);
    assert_int_equal(say(&p.a, "x"), -EPIPE);
    close_pair(&p);
}

static void test_reset_seen_by_send(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p);
    fl_sock_reset_on_close(p.b.io.fd);
    fl_reactor_close(p.r, &p.b.io);
    expect_edges(&p, R | W | H | E, 0);
    assert_int_equal(say(&p.a, "x"), -ECONNRESET);
    assert_int_equal(say(&p.a, "x"), -EPIPE);
    close_pair(&p);
}

/* close() with bytes unread is an RST. */
static void test_close_with_unread(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p);
    assert_int_equal(say(&p.a, "abc"), 3);
    expect_edges(&p, 0, R | W);
    fl_reactor_close(p.r, &p.b.io);
    expect_edges(&p, R | W | H | E, 0);
    assert_int_equal(fl_sock_error(p.a.io.fd), -ECONNRESET);
    assert_int_equal(fl_sock_error(p.a.io.fd), 0);
    close_pair(&p);
}

/* The stale-reuse race: the other side has closed in good order, we send, an RST comes back. */
static void test_send_after_their_close(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p);
    fl_reactor_close(p.r, &p.b.io);
    expect_edges(&p, R | W | H, 0);
    assert_int_equal(say(&p.a, "GET"), 3);
    expect_edges(&p, R | W | H | E, 0);
    assert_int_equal(say(&p.a, "x"), -EPIPE);
    close_pair(&p);
}

static void test_send_crosses_their_close(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p);
    assert_int_equal(say(&p.b, "answer"), 6);
    fl_reactor_close(p.r, &p.b.io);
    assert_int_equal(say(&p.a, "GET"), 3);
    expect_edges(&p, R | W | H | E, 0);
    assert_int_equal(hear(&p.a, 64), 6); /* the early answer is not lost */
    assert_int_equal(hear(&p.a, 64),
                     0); /* FIN was there before the error, so recv says only that */
    assert_int_equal(say(&p.a, "x"), -EPIPE);
    close_pair(&p);
}

static void test_refused(void **state)
{
    (void)state;
    struct pair p;
    int fd;
    open_listener(&p);
    fl_sock_close(p.listen_fd);
    assert_int_equal(fl_sock_connect(&p.at, 0, &fd), 0);
    assert_int_equal(fl_reactor_add(p.r, &p.a.io, fd), 0);
    expect_edges(&p, R | W | H | E, 0);
    assert_int_equal(say(&p.a, "x"), -ECONNREFUSED);
    assert_int_equal(say(&p.a, "x"), -EPIPE);
    assert_int_equal(hear(&p.a, 1), 0);
    p.listen_fd = -1;
    close_pair(&p);
}

static void test_refused_seen_by_recv(void **state)
{
    (void)state;
    struct pair p;
    int fd;
    open_listener(&p);
    fl_sock_close(p.listen_fd);
    assert_int_equal(fl_sock_connect(&p.at, 0, &fd), 0);
    assert_int_equal(fl_reactor_add(p.r, &p.a.io, fd), 0);
    expect_edges(&p, R | W | H | E, 0);
    assert_int_equal(hear(&p.a, 1), -ECONNREFUSED);
    assert_int_equal(fl_sock_error(p.a.io.fd), 0);
    p.listen_fd = -1;
    close_pair(&p);
}

static void test_release_and_add(void **state)
{
    (void)state;
    struct pair p;
    open_pair(&p);
    int fd = fl_reactor_release(p.r, &p.b.io);
    assert_int_equal(say(&p.a, "abc"), 3);
    expect_edges(&p, 0, 0);
    assert_int_equal(fl_reactor_add(p.r, &p.b.io, fd), 0);
    expect_edges(&p, 0, R | W); /* what is there at add is an edge */
    close_pair(&p);
}

/* A listener that is closed resets who waits to be accepted. */
static void test_listener_closed_with_waiting(void **state)
{
    (void)state;
    struct pair p;
    int fd;
    open_listener(&p);
    assert_int_equal(fl_sock_connect(&p.at, 0, &fd), 0);
    assert_int_equal(fl_reactor_add(p.r, &p.a.io, fd), 0);
    expect_edges(&p, W, 0);
    fl_sock_close(p.listen_fd);
    expect_edges(&p, R | W | H | E, 0);
    assert_int_equal(hear(&p.a, 1), -ECONNRESET);
    p.listen_fd = -1;
    close_pair(&p);
}

/* A connection that is reset while it waits is accepted all the same, and then fails. */
static void test_accept_of_a_reset_one(void **state)
{
    (void)state;
    struct pair p;
    int fd;
    open_listener(&p);
    assert_int_equal(fl_sock_connect(&p.at, 0, &fd), 0);
    assert_int_equal(fl_reactor_add(p.r, &p.a.io, fd), 0);
    expect_edges(&p, W, 0);
    assert_int_equal(say(&p.a, "abc"), 3);
    fl_sock_reset_on_close(p.a.io.fd);
    fl_reactor_close(p.r, &p.a.io);
    settle(&p);
    fd = fl_sock_accept(p.listen_fd, NULL);
    assert_true(fd >= 0);
    assert_int_equal(fl_reactor_add(p.r, &p.b.io, fd), 0);
    expect_edges(&p, 0, R | W | H | E);
    assert_int_equal(hear(&p.b, 64), 3);
    assert_int_equal(hear(&p.b, 64), -ECONNRESET);
    close_pair(&p);
}

static void test_listener_level(void **state)
{
    (void)state;
    struct pair p;
    struct side l = {.io = {.fd = -1, .on_event = on_event}};
    int fd;
    open_listener(&p);
    assert_int_equal(fl_reactor_add_level(p.r, &l.io, p.listen_fd), 0);
    assert_int_equal(fl_sock_connect(&p.at, 0, &fd), 0);
    fl_reactor_turn(p.r, 100);
    fl_reactor_turn(p.r, 100);
    assert_int_equal(l.calls, 2);
    assert_int_equal(l.events, R);
    fl_reactor_pause(p.r, &l.io, true);
    fl_reactor_turn(p.r, 0);
    assert_int_equal(l.calls, 2);
    fl_reactor_pause(p.r, &l.io, false);
    fl_reactor_turn(p.r, 100);
    assert_int_equal(l.calls, 3);
    int got = fl_sock_accept(p.listen_fd, NULL);
    assert_true(got >= 0);
    assert_int_equal(fl_sock_accept(p.listen_fd, NULL), -EAGAIN);
    fl_reactor_turn(p.r, 0);
    assert_int_equal(l.calls, 3);
    fl_sock_close(got);
    fl_sock_close(fd);
    p.listen_fd = -1;
    fl_reactor_close(p.r, &l.io);
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data),
        cmocka_unit_test(test_wake_at),
        cmocka_unit_test(test_used_up_edge),
        cmocka_unit_test(test_write_space),
        cmocka_unit_test(test_fin),
        cmocka_unit_test(test_data_and_fin_together),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_reset_seen_by_send),
        cmocka_unit_test(test_close_with_unread),
        cmocka_unit_test(test_send_after_their_close),
        cmocka_unit_test(test_send_crosses_their_close),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_seen_by_recv),
        cmocka_unit_test(test_release_and_add),
        cmocka_unit_test(test_listener_closed_with_waiting),
        cmocka_unit_test(test_accept_of_a_reset_one),
        cmocka_unit_test(test_listener_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
