/* The simulated network itself: scripts, time, faults, and what it finds wrong. That its edges are
 * epoll's: test_edges.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/io/reactor.h"
#include "common/io/sock.h"
#include "tests/sim/relay.h"
#include "tests/sim/sim.h"

enum { R = FL_IO_READ, W = FL_IO_WRITE, H = FL_IO_HUP, E = FL_IO_ERROR };

#define ORIGIN "10.0.0.1:9000"
#define CLIENT "10.9.9.9:5555"
#define FRONT  "127.0.0.1:9000"

static struct sim_world *w;
static struct fl_reactor *r;

struct side {
    struct fl_io io;
    unsigned calls, events;
    int64_t at_us;
};

static void on_event(struct fl_io *io, unsigned events)
{
    struct side *s = fl_container_of(io, struct side, io);
    s->calls++;
    s->events |= events;
    s->at_us = fl_reactor_now_us(r);
}

static int setup(void **state)
{
    (void)state;
    w = sim_new(20261130);
    return fl_reactor_new(&r);
}

static int teardown(void **state)
{
    (void)state;
    fl_reactor_free(r);
    assert_int_equal(sim_free(w), 0); /* every test leaves nothing open */
    return 0;
}

static struct fl_addr addr(const char *text)
{
    struct fl_addr a;
    assert_true(fl_addr_parse(fl_span_of(text), &a));
    return a;
}

static void dial(struct side *s, const char *to, int user_timeout_ms)
{
    struct fl_addr a = addr(to);
    int fd = -1;
    *s = (struct side){.io = {.fd = -1, .on_event = on_event}};
    assert_int_equal(fl_sock_connect(&a, user_timeout_ms, &fd), 0);
    assert_true(fd >= SIM_FD_BASE);
    assert_int_equal(fl_reactor_add(r, &s->io, fd), 0);
}

static unsigned heard(struct side *s)
{
    unsigned events = s->events;
    s->events = 0;
    return events;
}

static ssize_t say(const struct side *s, const char *text)
{
    struct iovec iov = {(void *)(uintptr_t)text, strlen(text)};
    return fl_sock_sendv(s->io.fd, &iov, 1);
}

static ssize_t hear(const struct side *s, char *into, size_t n)
{
    ssize_t got = fl_sock_recv(s->io.fd, into, n);
    if (got >= 0 && (size_t)got < n) {
        into[got] = '\0';
    }
    return got;
}

/* --- a script that notes what happens to it --- */

struct note {
    char text[256];
    size_t len;
    int opens, eofs, sents, closes, err;
    struct sim_conn *c;
    int64_t open_us, close_us;
};

static void note_open(struct sim_conn *c)
{
    struct note *n = c->arg;
    n->opens++;
    n->c = c;
    n->open_us = sim_now_us(c->world);
}

static void note_data(struct sim_conn *c, const char *bytes, size_t len)
{
    struct note *n = c->arg;
    for (size_t i = 0; i < len && n->len + 1 < sizeof(n->text); i++) {
        n->text[n->len++] = bytes[i];
    }
}

static void note_eof(struct sim_conn *c)
{
    ((struct note *)c->arg)->eofs++;
}

static void note_sent(struct sim_conn *c)
{
    ((struct note *)c->arg)->sents++;
}

static void note_close(struct sim_conn *c, int err)
{
    struct note *n = c->arg;
    n->closes++;
    n->err = err;
    n->c = NULL;
    n->close_us = sim_now_us(c->world);
}

static const struct sim_endpoint noter = {note_open, note_data, note_eof, note_sent, note_close};

static void test_talk(void **state)
{
    (void)state;
    struct note n = {0};
    struct side s;
    char text[64];
    sim_listen(w, ORIGIN, &noter, &n);
    dial(&s, ORIGIN, 0);
    assert_int_equal(sim_run_for(w, 1), SIM_TIME);
    assert_int_equal(heard(&s), W);
    assert_int_equal(n.opens, 1);
    assert_int_equal(say(&s, "hello"), 5);
    sim_run_for(w, 1);
    assert_string_equal(n.text, "hello");
    sim_send_text(n.c, "good ");
    sim_send_text(n.c, "day");
    sim_finish(n.c);
    sim_run_for(w, 1);
    assert_int_equal(n.sents, 1);
    assert_int_equal(heard(&s), R | W | H);
    assert_int_equal(hear(&s, text, sizeof(text)), 8);
    assert_string_equal(text, "good day");
    assert_int_equal(hear(&s, text, sizeof(text)), 0);
    fl_reactor_close(r, &s.io);
    assert_int_equal(sim_run_until(w, INT64_MAX), SIM_IDLE);
    assert_int_equal(n.eofs, 1);
    assert_int_equal(n.closes, 1);
    assert_int_equal(n.err, 0);
    struct sim_counts c = sim_counts(w);
    assert_int_equal(c.sockets_open, 0);
    assert_int_equal(c.conns_open, 0);
    assert_int_equal(c.bytes_sent, 5);
    assert_int_equal(c.bytes_received, 8);
    assert_int_equal(c.calls[SIM_CALL_RECV], 2);
}

static void test_latency_and_connect_in_progress(void **state)
{
    (void)state;
    struct note n = {0};
    struct side s;
    struct sim_path far = sim_path_default();
    char text[8];
    far.latency_us = 25000;
    sim_listen(w, ORIGIN, &noter, &n);
    sim_set_path(w, ORIGIN, &far);
    int64_t start = sim_now_us(w);
    dial(&s, ORIGIN, 0);
    sim_run_for(w, 40);
    assert_int_equal(s.calls, 0); /* under way: no edge, */
    assert_int_equal(say(&s, "x"), -EAGAIN);
    assert_int_equal(hear(&s, text, 1), -EAGAIN);
    assert_int_equal(fl_sock_error(s.io.fd), 0); /* and no error */
    sim_run_for(w, 20);
    assert_int_equal(heard(&s), W);
    assert_int_equal(s.at_us, start + 50000);
    assert_int_equal(n.open_us, start + 25000);
    int64_t sent = sim_now_us(w);
    assert_int_equal(say(&s, "ping"), 4);
    sim_run_for(w, 24);
    assert_int_equal(n.len, 0);
    sim_run_for(w, 2);
    assert_int_equal(n.len, 4);
    sim_send_text(n.c, "pong");
    sim_run_for(w, 100);
    assert_int_equal(heard(&s), R | W);
    assert_in_range(s.at_us, sent + 50000, sent + 52000);
    fl_reactor_close(r, &s.io);
    sim_close(n.c);
    sim_run_until(w, INT64_MAX);
}

static void test_connect_outcomes(void **state)
{
    (void)state;
    struct side s;
    struct sim_path path = sim_path_default();
    struct fl_addr a = addr(ORIGIN);
    int fd = -1;
    path.latency_us = 1000;
    path.connect = SIM_REFUSE;
    sim_set_path(w, ORIGIN, &path);
    int64_t start = sim_now_us(w);
    dial(&s, ORIGIN, 0);
    sim_run_for(w, 10);
    assert_int_equal(heard(&s), R | W | H | E);
    assert_int_equal(s.at_us, start + 2000);
    assert_int_equal(say(&s, "x"), -ECONNREFUSED);
    fl_reactor_close(r, &s.io);

    path.connect = SIM_UNREACHABLE;
    sim_set_path(w, ORIGIN, &path);
    assert_int_equal(fl_sock_connect(&a, 0, &fd), -EHOSTUNREACH);
    assert_int_equal(fd, -1);

    path.connect = SIM_BLACKHOLE;
    sim_set_path(w, ORIGIN, &path);
    start = sim_now_us(w);
    dial(&s, ORIGIN, 0);
    sim_run_for(w, 120000);
    assert_int_equal(s.calls, 0);
    sim_run_for(w, 10000);
    assert_int_equal(heard(&s), R | W | H | E);
    assert_int_equal(s.at_us, start + 127000000);
    assert_int_equal(fl_sock_error(s.io.fd), -ETIMEDOUT);
    fl_reactor_close(r, &s.io);
    start = sim_now_us(w);
    dial(&s, ORIGIN, 3000);
    sim_run_for(w, 10000);
    assert_int_equal(s.at_us, start + 3000000);
    fl_reactor_close(r, &s.io);
    dial(&s, ORIGIN, 3000);
    fl_reactor_close(r, &s.io); /* given up by the code under test */

    dial(&s, "10.0.0.2:1", 0); /* nobody listens there */
    sim_run_for(w, 10);
    assert_int_equal(heard(&s), R | W | H | E);
    fl_reactor_close(r, &s.io);
    a = addr("unix:/nowhere");
    assert_int_equal(fl_sock_connect(&a, 0, &fd), -ECONNREFUSED);
}

static void test_resets(void **state)
{
    (void)state;
    struct note n = {0};
    struct side s;
    char text[64];
    sim_listen(w, ORIGIN, &noter, &n);

    dial(&s, ORIGIN, 0);
    sim_run_for(w, 1);
    sim_reset_after(n.c, 5); /* in the middle of an upload */
    assert_int_equal(say(&s, "123456789"), 9);
    sim_run_for(w, 1);
    assert_string_equal(n.text, "12345");
    assert_int_equal(n.closes, 1);
    assert_int_equal(say(&s, "x"), -ECONNRESET);
    fl_reactor_close(r, &s.io);

    dial(&s, ORIGIN, 0);
    sim_run_for(w, 1);
    heard(&s);
    sim_send_text(n.c, "half an answ");
    sim_reset_when_sent(n.c);
    sim_run_for(w, 1);
    assert_int_equal(heard(&s), R | W | H | E);
    assert_int_equal(hear(&s, text, sizeof(text)), 12);
    assert_int_equal(hear(&s, text, sizeof(text)), -ECONNRESET);
    fl_reactor_close(r, &s.io);

    dial(&s, ORIGIN, 0);
    sim_run_for(w, 1);
    assert_int_equal(n.closes, 2);
    fl_sock_reset_on_close(s.io.fd); /* the other way round */
    fl_reactor_close(r, &s.io);
    sim_run_for(w, 1);
    assert_int_equal(n.closes, 3);
    assert_int_equal(n.err, ECONNRESET);
}

static void finish_late(struct sim_conn *c)
{
    sim_close(c);
}

/* An idle connection that the origin closes after a while: silence, then one edge. */
static void test_late_fin_on_idle(void **state)
{
    (void)state;
    struct note n = {0};
    struct side s;
    sim_listen(w, ORIGIN, &noter, &n);
    dial(&s, ORIGIN, 0);
    sim_run_for(w, 1);
    heard(&s);
    sim_conn_after(n.c, 60000, finish_late);
    int64_t start = sim_now_ms(w);
    sim_run_for(w, 59000);
    assert_int_equal(heard(&s), 0);
    sim_run_for(w, 2000);
    assert_int_equal(heard(&s), R | W | H);
    assert_int_equal(s.at_us / 1000, start + 60000);
    assert_int_equal(say(&s, "GET"), 3); /* too late: nobody is there */
    sim_run_for(w, 1);
    assert_int_equal(heard(&s), R | W | H | E);
    assert_int_equal(fl_sock_error(s.io.fd), -EPIPE);
    fl_reactor_close(r, &s.io);
}

static void test_back_pressure(void **state)
{
    (void)state;
    struct note n = {0};
    struct side s;
    struct sim_path narrow = sim_path_default();
    narrow.send_bytes = 1000;
    narrow.recv_bytes = 500;
    sim_listen(w, ORIGIN, &noter, &n);
    sim_set_path(w, ORIGIN, &narrow);
    dial(&s, ORIGIN, 0);
    sim_run_for(w, 1);
    heard(&s);
    sim_hold(n.c, true); /* a reader that does not read */
    static char junk[4000];
    struct iovec iov = {junk, sizeof(junk)};
    assert_int_equal(fl_sock_sendv(s.io.fd, &iov, 1), 1000);
    assert_int_equal(fl_sock_sendv(s.io.fd, &iov, 1), 500);
    assert_int_equal(fl_sock_sendv(s.io.fd, &iov, 1), -EAGAIN);
    sim_run_for(w, 1000);
    assert_int_equal(heard(&s), 0);
    sim_hold(n.c, false);
    sim_run_for(w, 1);
    assert_int_equal(heard(&s), W);
    assert_int_equal(n.c->got_bytes, 1500);

    sim_send_fill(n.c, 5000); /* and the other direction */
    sim_run_for(w, 1000);
    assert_int_equal(heard(&s), R | W);
    assert_int_equal(sim_unsent(n.c), 3500);
    uint64_t got = 0;
    char byte[700];
    for (ssize_t k; got < 5000; got += (uint64_t)k) {
        k = fl_sock_recv(s.io.fd, byte, sizeof(byte));
        if (k == -EAGAIN) {
            k = 0;
            sim_run_for(w, 1);
            continue;
        }
        assert_true(k > 0);
        for (ssize_t i = 0; i < k; i++) {
            assert_int_equal(byte[i], sim_fill_at(got + (uint64_t)i));
        }
    }
    fl_reactor_close(r, &s.io);
    sim_close(n.c);
    sim_run_until(w, INT64_MAX);
}

static void test_cut_cable(void **state)
{
    (void)state;
    struct note n = {0};
    struct side s;
    sim_listen(w, ORIGIN, &noter, &n);
    dial(&s, ORIGIN, 5000);
    sim_run_for(w, 1);
    heard(&s);
    sim_cut(n.c);
    sim_send_text(n.c, "lost");
    sim_run_for(w, 100000);
    assert_int_equal(heard(&s), 0); /* silence is no error */
    int64_t start = sim_now_us(w);
    assert_int_equal(say(&s, "anybody?"), 8);
    sim_run_for(w, 100000);
    assert_int_equal(heard(&s), R | W | H | E);
    assert_int_equal(s.at_us, start + 5000000);
    assert_int_equal(fl_sock_error(s.io.fd), -ETIMEDOUT);
    assert_int_equal(n.len, 0);
    fl_reactor_close(r, &s.io);
    sim_reset(n.c);
    sim_run_until(w, INT64_MAX);
    assert_int_equal(n.closes, 1);
}

/* --- listeners of the code under test --- */

static void test_scripted_clients(void **state)
{
    (void)state;
    struct note n[3] = {{.len = 0}};
    struct fl_addr a = addr("[::]:9000"), peer;
    struct side l = {.io = {.fd = -1, .on_event = on_event}};
    int fd, second;
    sim_dial(w, CLIENT, FRONT, NULL, &noter, &n[0]);
    sim_run_for(w, 1);
    assert_int_equal(n[0].closes, 1);
    assert_int_equal(n[0].err, ECONNREFUSED);
    assert_int_equal(fl_sock_listen(&a, 1, &fd), 0);
    assert_int_equal(fl_sock_listen(&a, 1, &second), -EADDRINUSE);
    assert_int_equal(fl_reactor_add_level(r, &l.io, fd), 0);
    sim_dial(w, CLIENT, FRONT, NULL, &noter, &n[1]);
    sim_dial(w, CLIENT, FRONT, NULL, &noter, &n[2]); /* the backlog is one */
    sim_run_for(w, 1);
    assert_int_equal(n[1].opens, 1); /* established, though not accepted */
    assert_int_equal(n[2].opens, 0);
    assert_int_equal(sim_counts(w).accept_waiting, 1);
    sim_set_fd_limit(w, 1);
    assert_int_equal(fl_sock_accept(fd, &peer), -EMFILE);
    assert_int_equal(fl_sock_connect(&a, 0, &second), -EMFILE);
    sim_set_fd_limit(w, 100);
    sim_fault(w, SIM_CALL_ACCEPT, ECONNABORTED, 0, 1);
    assert_int_equal(fl_sock_accept(fd, &peer), -ECONNABORTED);
    int got = fl_sock_accept(fd, &peer);
    assert_true(got >= 0);
    struct fl_addr want = addr(CLIENT);
    assert_true(fl_addr_eq(&peer, &want));
    assert_int_equal(fl_sock_accept(fd, NULL), -EAGAIN);
    sim_run_for(w, 1500); /* the dropped SYN comes again */
    assert_int_equal(n[2].opens, 1);
    second = fl_sock_accept(fd, NULL);
    assert_true(second >= 0);
    fl_sock_close(got);
    fl_sock_close(second);
    fl_reactor_close(r, &l.io);
    sim_close(n[1].c);
    sim_close(n[2].c);
    sim_run_until(w, INT64_MAX);
}

/* --- time --- */

struct alarm {
    struct fl_timer t;
    int64_t fired_ms;
};

static void alarm_fire(struct fl_timer *t)
{
    fl_container_of(t, struct alarm, t)->fired_ms = fl_reactor_now_ms(r);
}

static void count_call(void *arg)
{
    ++*(int *)arg;
}

static bool is_done(void *arg)
{
    return *(int *)arg >= 3;
}

static void test_time(void **state)
{
    (void)state;
    struct alarm day = {.fired_ms = 0};
    int calls = 0, turns = 0;
    fl_reactor_on_turn(r, count_call, &turns);
    assert_int_equal(fl_reactor_now_ms(r), SIM_START_MS);
    assert_int_equal(sim_run_until(w, INT64_MAX), SIM_IDLE);
    assert_int_equal(sim_now_ms(w), SIM_START_MS); /* idle: time stands still */
    fl_timer_init(&day.t, alarm_fire);
    fl_timer_set(r, &day.t, SIM_START_MS + 86400000);
    assert_int_equal(sim_run_until(w, INT64_MAX), SIM_IDLE); /* a day passes at once */
    assert_in_range(day.fired_ms, SIM_START_MS + 86400000, SIM_START_MS + 86400008);
    assert_true(turns < 12000); /* one look per round of the wheel */
    sim_set_wall_ms(w, INT64_C(1800000000000));
    fl_reactor_turn(r, 0);
    int64_t ahead = fl_reactor_wall_ms(r) - INT64_C(1800000000000);
    assert_true(ahead == 0 || ahead == 1);
    int64_t now = sim_now_ms(w);
    for (int i = 1; i <= 5; i++) {
        sim_at(w, now + i * 100, count_call, &calls);
    }
    assert_int_equal(sim_run_while(w, is_done, &calls, INT64_MAX), SIM_DONE);
    assert_int_equal(sim_now_ms(w), now + 300);
    assert_int_equal(sim_run_until(w, now + 450), SIM_TIME);
    assert_int_equal(calls, 4);
    fl_reactor_turn(r, 10); /* by hand: times out */
    assert_in_range(fl_reactor_now_ms(r), now + 460, now + 461);
    fl_reactor_wake(r);
    fl_reactor_turn(r, 100000);
    assert_in_range(fl_reactor_now_ms(r), now + 460, now + 461);
    fl_reactor_stop(r);
    assert_int_equal(sim_run_until(w, INT64_MAX), SIM_DONE);
    fl_reactor_stop(r);
    fl_reactor_run(r);
    sim_run_until(w, INT64_MAX); /* the fifth call is not lost */
    assert_int_equal(calls, 5);
}

/* --- threads of the code under test --- */

struct worker {
    struct fl_reactor *r;
    struct relay relay;
    pthread_t thread;
    int turns;
};

static void *worker_main(void *arg)
{
    struct worker *k = arg;
    fl_reactor_on_turn(k->r, count_call, &k->turns);
    fl_reactor_run(k->r);
    return NULL;
}

/* Two data threads with a listener each: they are parked, and their turns are made here. */
static void test_parked_threads(void **state)
{
    (void)state;
    struct worker k[2];
    struct note origin[2] = {{.len = 0}}, client[2] = {{.len = 0}};
    static const char *const front[2] = {"127.0.0.1:9001", "127.0.0.1:9002"};
    static const char *const back[2] = {"10.0.0.1:1", "10.0.0.1:2"};
    for (int i = 0; i < 2; i++) {
        k[i] = (struct worker){.turns = 0};
        assert_int_equal(fl_reactor_new(&k[i].r), 0);
        sim_listen(w, back[i], &noter, &origin[i]);
        relay_open(&k[i].relay, k[i].r, addr(front[i]), addr(back[i]));
        assert_int_equal(pthread_create(&k[i].thread, NULL, worker_main, &k[i]), 0);
    }
    sim_wait_parked(w, 2);
    for (int i = 0; i < 2; i++) {
        sim_dial(w, CLIENT, front[i], NULL, &noter, &client[i]);
    }
    sim_run_for(w, 10);
    for (int i = 0; i < 2; i++) {
        sim_send_text(client[i].c, front[i]);
        sim_finish(client[i].c);
    }
    sim_run_for(w, 10);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(origin[i].text, front[i]);
        sim_finish(origin[i].c);
        assert_in_range(k[i].turns, 2, 20);
    }
    sim_run_for(w, 10);
    for (int i = 0; i < 2; i++) {
        fl_reactor_stop(k[i].r);
        pthread_join(k[i].thread, NULL);
        relay_close(&k[i].relay);
        fl_reactor_free(k[i].r);
        assert_int_equal(client[i].closes, 1);
    }
}

/* --- what it finds --- */

static void test_finds_leaks(void **state)
{
    (void)state;
    w = sim_new(1);
    struct fl_reactor *second;
    struct side s;
    struct note n = {0};
    sim_listen(w, ORIGIN, &noter, &n);
    assert_int_equal(fl_reactor_new(&r), 0);
    assert_int_equal(fl_reactor_new(&second), 0);
    dial(&s, ORIGIN, 0);
    sim_run_for(w, 1);
    sim_at(w, sim_now_ms(w) + 1000, count_call, NULL); /* never comes, and is no leak */
    sim_send_text(n.c, "unread");
    fl_reactor_free(second);
    fprintf(stderr, "(two lines of leaks are expected here)\n");
    assert_int_equal(sim_free(w), 2);
}

static void test_finds_stuck(void **state)
{
    (void)state;
    struct note n = {0};
    struct side s;
    char text[8];
    sim_listen(w, ORIGIN, &noter, &n);
    dial(&s, ORIGIN, 0);
    sim_run_for(w, 1);
    assert_int_equal(sim_stuck(w, 0, NULL).unread, 0);
    sim_send_text(n.c, "0123456789");
    sim_run_for(w, 100);
    assert_int_equal(sim_stuck(w, 200, NULL).unread, 0); /* not yet that old */
    sim_run_for(w, 1000);
    assert_int_equal(sim_stuck(w, 200, NULL).unread, 1); /* told, and nothing done */
    assert_int_equal(hear(&s, text, 4), 4);
    sim_run_for(w, 1000);
    assert_int_equal(sim_stuck(w, 200, NULL).unread, 0);
    assert_int_equal(sim_stuck(w, 200, NULL).half_read, 1);
    assert_int_equal(hear(&s, text, 8), 6);
    assert_int_equal(sim_stuck(w, 0, NULL).half_read, 0);

    static char junk[200000];
    struct iovec iov = {junk, sizeof(junk)};
    sim_hold(n.c, true);
    while (fl_sock_sendv(s.io.fd, &iov, 1) > 0) {
    }
    sim_run_for(w, 1000);
    assert_int_equal(sim_stuck(w, 200, NULL).unsent, 0); /* there is no room: not its fault */
    sim_hold(n.c, false);
    sim_run_for(w, 1000);
    assert_int_equal(sim_stuck(w, 200, NULL).unsent, 1);
    assert_int_equal(say(&s, "rest"), 4);
    assert_int_equal(sim_stuck(w, 0, NULL).unsent, 0);
    fl_reactor_close(r, &s.io);
    sim_close(n.c);
    sim_run_until(w, INT64_MAX);
}

static void test_faults(void **state)
{
    (void)state;
    struct note n = {0};
    struct side s;
    struct fl_addr a = addr(ORIGIN);
    char text[8];
    int fd;
    sim_listen(w, ORIGIN, &noter, &n);
    sim_fault(w, SIM_CALL_CONNECT, EADDRNOTAVAIL, 1, 2); /* the second and third */
    dial(&s, ORIGIN, 0);
    assert_int_equal(fl_sock_connect(&a, 0, &fd), -EADDRNOTAVAIL);
    assert_int_equal(fl_sock_connect(&a, 0, &fd), -EADDRNOTAVAIL);
    assert_true(fl_errno_is_local(EADDRNOTAVAIL));
    assert_int_equal(fl_sock_connect(&a, 0, &fd), 0);
    sim_fault(w, SIM_CALL_ADD, ENOMEM, 0, 1);
    struct side t = {.io = {.fd = 3, .on_event = on_event}};
    assert_int_equal(fl_reactor_add(r, &t.io, fd), -ENOMEM);
    assert_int_equal(t.io.fd, -1);
    fl_sock_close(fd);
    sim_fault(w, SIM_CALL_RECV, ENOBUFS, 0, 1);
    sim_fault(w, SIM_CALL_SEND, ENOBUFS, 0, 1);
    sim_run_for(w, 1);
    assert_int_equal(hear(&s, text, 8), -ENOBUFS);
    assert_int_equal(say(&s, "x"), -ENOBUFS);
    assert_int_equal(say(&s, "x"), 1);
    fl_reactor_close(r, &s.io);
    sim_run_until(w, INT64_MAX);
}

/* --- a small proxy over it: many connections, every kind of trouble, checked byte by byte --- */

enum { CALLERS = 60, UPLOAD = 30000, DOWNLOAD = 50000 };

struct caller {
    uint64_t got;
    bool closed;
    int err;
};

static void check_fill(struct sim_conn *c, const char *bytes, size_t n, uint64_t before)
{
    (void)c;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != sim_fill_at(before + i)) {
            fail_msg("byte %llu is wrong", (unsigned long long)(before + i));
        }
    }
}

static void caller_open(struct sim_conn *c)
{
    sim_send_fill(c, UPLOAD);
    sim_finish(c);
}

static void caller_data(struct sim_conn *c, const char *bytes, size_t n)
{
    struct caller *k = c->arg;
    check_fill(c, bytes, n, k->got);
    k->got += n;
}

static void caller_close(struct sim_conn *c, int err)
{
    struct caller *k = c->arg;
    k->closed = true;
    k->err = err;
}

static const struct sim_endpoint caller_ep = {caller_open, caller_data, NULL, NULL, caller_close};

static void origin_data(struct sim_conn *c, const char *bytes, size_t n)
{
    check_fill(c, bytes, n, c->got_bytes - n);
    if (c->got_bytes == UPLOAD) {
        sim_send_fill(c, DOWNLOAD);
        sim_finish(c);
    }
}

static const struct sim_endpoint origin_ep = {.on_data = origin_data};

static struct sim_counts relay_run(uint64_t seed, struct sim_path path, bool shuffle,
                                   int64_t *ret_us)
{
    static struct caller callers[CALLERS];
    memset(callers, 0, sizeof(callers));
    w = sim_new(seed);
    assert_int_equal(fl_reactor_new(&r), 0);
    sim_set_shuffle(w, shuffle);
    sim_listen(w, ORIGIN, &origin_ep, NULL);
    sim_set_path(w, ORIGIN, &path);
    struct relay relay;
    relay_open(&relay, r, addr(FRONT), addr(ORIGIN));
    for (int i = 0; i < CALLERS; i++) {
        sim_dial(w, CLIENT, FRONT, &path, &caller_ep, &callers[i]);
    }
    assert_int_equal(sim_run_until(w, INT64_MAX), SIM_IDLE);
    for (int i = 0; i < CALLERS; i++) {
        assert_true(callers[i].closed);
        assert_int_equal(callers[i].err, 0);
        assert_int_equal(callers[i].got, DOWNLOAD);
    }
    struct sim_stuck stuck = sim_stuck(w, 0, stderr);
    assert_int_equal(stuck.unread + stuck.half_read + stuck.unsent, 0);
    struct sim_counts c = sim_counts(w);
    assert_int_equal(c.sockets_open, 1); /* the listener */
    assert_int_equal(c.conns_open, 0);
    *ret_us = sim_now_us(w);
    relay_close(&relay);
    fl_reactor_free(r);
    assert_int_equal(sim_free(w), 0);
    return c;
}

static void test_relay_soak(void **state)
{
    (void)state;
    int64_t us, again_us;
    struct sim_path path = sim_path_default();
    relay_run(1, path, false, &us);
    for (uint64_t seed = 1; seed <= 6; seed++) {
        path.latency_us = (int64_t)(seed % 3) * 700;
        path.send_bytes = 500 + 4000 * (uint32_t)seed;
        path.recv_bytes = 20000 / (uint32_t)seed;
        path.fragment_pct = 30;
        path.short_write_pct = 30;
        struct sim_counts a = relay_run(seed, path, true, &us);
        struct sim_counts b = relay_run(seed, path, true, &again_us);
        assert_int_equal(us, again_us); /* the same seed is the same run, to the last call */
        assert_memory_equal(&a, &b, sizeof(a));
        b = relay_run(seed + 100, path, true, &again_us);
        assert_memory_not_equal(&a, &b, sizeof(a));
    }
}

/* --- speed: keep-alive exchanges through the same proxy --- */

enum { SPEED_CLIENTS = 16, SPEED_EXCHANGES = 1000 };

static void ask(struct sim_conn *c)
{
    static const char request[120] = "GET";
    sim_send(c, request, sizeof(request));
}

static void speed_answer(struct sim_conn *c, const char *bytes, size_t n)
{
    (void)bytes;
    uint64_t before = (c->got_bytes - n) / 1200, after = c->got_bytes / 1200;
    if (after == before) {
        return;
    }
    if (after == SPEED_EXCHANGES) {
        sim_close(c);
    } else {
        ask(c);
    }
}

static void speed_serve(struct sim_conn *c, const char *bytes, size_t n)
{
    static const char response[1200] = "HTTP";
    (void)bytes;
    if (c->got_bytes / 120 != (c->got_bytes - n) / 120) {
        sim_send(c, response, sizeof(response));
    }
}

static void test_speed(void **state)
{
    (void)state;
    static const struct sim_endpoint client_ep = {.on_open = ask, .on_data = speed_answer};
    static const struct sim_endpoint server_ep = {.on_data = speed_serve};
    struct relay relay;
    struct timespec from, to;
    sim_listen(w, ORIGIN, &server_ep, NULL);
    relay_open(&relay, r, addr(FRONT), addr(ORIGIN));
    for (int i = 0; i < SPEED_CLIENTS; i++) {
        sim_dial(w, CLIENT, FRONT, NULL, &client_ep, NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &from);
    assert_int_equal(sim_run_until(w, INT64_MAX), SIM_IDLE);
    clock_gettime(CLOCK_MONOTONIC, &to);
    double s = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
    struct sim_counts c = sim_counts(w);
    assert_int_equal(c.bytes_received, SPEED_CLIENTS * SPEED_EXCHANGES * 1320);
    fprintf(stderr, "%.0f exchanges a second, %.1f events each\n",
            SPEED_CLIENTS * SPEED_EXCHANGES / s,
            (double)c.events / (SPEED_CLIENTS * SPEED_EXCHANGES));
    relay_close(&relay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_talk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_latency_and_connect_in_progress, setup, teardown),
        cmocka_unit_test_setup_teardown(test_connect_outcomes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_resets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_late_fin_on_idle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_back_pressure, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_cable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_scripted_clients, setup, teardown),
        cmocka_unit_test_setup_teardown(test_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parked_threads, setup, teardown),
        cmocka_unit_test(test_finds_leaks),
        cmocka_unit_test_setup_teardown(test_finds_stuck, setup, teardown),
        cmocka_unit_test_setup_teardown(test_faults, setup, teardown),
        cmocka_unit_test(test_relay_soak),
        cmocka_unit_test_setup_teardown(test_speed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
