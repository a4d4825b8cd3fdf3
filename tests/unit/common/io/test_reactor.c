#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/io/reactor.h"

struct peer {
    struct fl_io io;
    struct fl_reactor *r;
    int other; /* the far end of the pair */
    int calls;
    unsigned seen; /* of the last call */
    unsigned ever;
    void (*act)(struct peer *p);
    struct peer *victim;
};

static void peer_event(struct fl_io *io, unsigned events)
{
    struct peer *p = fl_container_of(io, struct peer, io);
    p->calls++;
    p->seen = events;
    p->ever |= events;
    if (p->act != NULL) {
        p->act(p);
    }
}

static void peer_open(struct peer *p, struct fl_reactor *r)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    *p = (struct peer){.io = {.fd = -1, .on_event = peer_event}, .r = r, .other = fds[1]};
    assert_int_equal(fl_reactor_add(r, &p->io, fds[0]), 0);
    assert_int_equal(p->io.fd, fds[0]);
}

static void peer_done(struct peer *p)
{
    fl_reactor_close(p->r, &p->io);
    close(p->other);
}

static int setup(void **state)
{
    struct fl_reactor *r = NULL;
    assert_int_equal(fl_reactor_new(&r), 0);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    assert_null(fl_reactor_free(*state));
    return 0;
}

static int64_t real_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* --- descriptors --- */

static void test_edges(void **state)
{
    struct fl_reactor *r = *state;
    struct peer p;
    peer_open(&p, r);
    fl_reactor_turn(r, 0);
    assert_int_equal(p.calls, 1); /* a new socket is writable */
    assert_int_equal(p.seen, FL_IO_WRITE);
    fl_reactor_turn(r, 0);
    assert_int_equal(p.calls, 1); /* and says so once */

    assert_int_equal(write(p.other, "abc", 3), 3);
    fl_reactor_turn(r, 100);
    assert_int_equal(p.calls, 2);
    assert_int_equal(p.seen, FL_IO_READ | FL_IO_WRITE);
    fl_reactor_turn(r, 0);
    assert_int_equal(p.calls, 2); /* unread bytes make no second edge */

    assert_int_equal(write(p.other, "d", 1), 1);
    fl_reactor_turn(r, 100);
    assert_int_equal(p.calls, 3); /* new ones do */

    assert_int_equal(shutdown(p.other, SHUT_WR), 0);
    fl_reactor_turn(r, 100);
    assert_int_equal(p.calls, 4);
    assert_true(p.seen & FL_IO_HUP);
    assert_true(p.seen & FL_IO_READ);
    peer_done(&p);
}

static void test_write_space(void **state)
{
    struct fl_reactor *r = *state;
    struct peer p;
    peer_open(&p, r);
    fl_reactor_turn(r, 0);
    static char junk[65536];
    while (write(p.io.fd, junk, sizeof(junk)) > 0) {
    }
    assert_int_equal(errno, EAGAIN);
    fl_reactor_turn(r, 0);
    assert_int_equal(p.calls, 1);
    while (read(p.other, junk, sizeof(junk)) > 0) {
    }
    fl_reactor_turn(r, 100);
    assert_int_equal(p.calls, 2);
    assert_int_equal(p.seen, FL_IO_WRITE);
    peer_done(&p);
}

static void test_hup_and_error(void **state)
{
    struct fl_reactor *r = *state;
    struct peer p;
    peer_open(&p, r);
    fl_reactor_turn(r, 0);
    assert_int_equal(write(p.io.fd, "x", 1), 1); /* unread at close: ECONNRESET on our side */
    close(p.other);
    p.other = -1;
    fl_reactor_turn(r, 100);
    assert_true(p.seen & FL_IO_HUP);
    assert_true(p.seen & FL_IO_ERROR);
    peer_done(&p);
}

static void close_victim(struct peer *p)
{
    if (p->victim != NULL) {
        fl_reactor_close(p->r, &p->victim->io);
    }
}

/* Both have an event in one batch, and the first callback closes the other: that one must hear
 * nothing. */
static void test_close_within_batch(void **state)
{
    struct fl_reactor *r = *state;
    struct peer a, b;
    peer_open(&a, r);
    peer_open(&b, r);
    fl_reactor_turn(r, 0);
    a.calls = b.calls = 0;
    a.victim = &b;
    b.victim = &a;
    a.act = b.act = close_victim;
    assert_int_equal(write(a.other, "x", 1), 1);
    assert_int_equal(write(b.other, "x", 1), 1);
    fl_reactor_turn(r, 100);
    assert_int_equal(a.calls + b.calls, 1);
    assert_int_equal(a.io.fd < 0, b.io.fd >= 0);
    peer_done(&a);
    peer_done(&b);
}

static struct peer reborn;

static void close_victim_and_open(struct peer *p)
{
    if (p->victim->io.fd < 0 || reborn.r != NULL) {
        return;
    }
    uint32_t slot = p->victim->io.slot;
    int fd = p->victim->io.fd;
    fl_reactor_close(p->r, &p->victim->io);
    peer_open(&reborn, p->r);
    assert_int_equal(reborn.io.slot, slot); /* the trap is set: same slot, */
    assert_int_equal(reborn.io.fd, fd);     /* and even the same number of the descriptor */
}

/* As above, and the slot is taken again at once: the stale event must not reach the newcomer. */
static void test_generation(void **state)
{
    struct fl_reactor *r = *state;
    struct peer a, b;
    reborn = (struct peer){0};
    peer_open(&a, r);
    peer_open(&b, r);
    fl_reactor_turn(r, 0);
    a.victim = &b;
    b.victim = &a;
    a.act = b.act = close_victim_and_open;
    assert_int_equal(write(a.other, "x", 1), 1);
    assert_int_equal(write(b.other, "x", 1), 1);
    fl_reactor_turn(r, 100);
    assert_non_null(reborn.r);
    assert_int_equal(reborn.calls, 0);
    fl_reactor_turn(r, 0);
    assert_int_equal(reborn.calls, 1);
    assert_int_equal(reborn.seen, FL_IO_WRITE);
    peer_done(&reborn);
    peer_done(&a);
    peer_done(&b);
}

static void test_release(void **state)
{
    struct fl_reactor *r = *state;
    struct peer p;
    peer_open(&p, r);
    fl_reactor_turn(r, 0);
    int fd = fl_reactor_release(r, &p.io);
    assert_true(fd >= 0);
    assert_int_equal(p.io.fd, -1);
    assert_int_equal(write(p.other, "x", 1), 1);
    fl_reactor_turn(r, 0);
    assert_int_equal(p.calls, 1);
    assert_int_equal(fl_reactor_add(r, &p.io, fd), 0); /* what is there at add is an edge */
    fl_reactor_turn(r, 0);
    assert_int_equal(p.calls, 2);
    assert_int_equal(p.seen, FL_IO_READ | FL_IO_WRITE);
    peer_done(&p);
    fl_reactor_close(r, &p.io); /* harmless */
}

static void test_level_and_pause(void **state)
{
    struct fl_reactor *r = *state;
    struct peer p = {.io = {.fd = -1, .on_event = peer_event}, .r = r};
    p.other = eventfd(1, EFD_NONBLOCK);
    assert_true(p.other >= 0);
    assert_int_equal(fl_reactor_add_level(r, &p.io, p.other), 0);
    fl_reactor_turn(r, 0);
    fl_reactor_turn(r, 0);
    assert_int_equal(p.calls, 2); /* until somebody reads */
    fl_reactor_pause(r, &p.io, true);
    fl_reactor_pause(r, &p.io, true);
    fl_reactor_turn(r, 0);
    assert_int_equal(p.calls, 2);
    fl_reactor_pause(r, &p.io, false);
    fl_reactor_turn(r, 0);
    assert_int_equal(p.calls, 3);
    fl_reactor_pause(r, &p.io, true);
    fl_reactor_close(r, &p.io); /* while paused */
    fl_reactor_pause(r, &p.io, false);
    fl_reactor_turn(r, 0);
    assert_int_equal(p.calls, 3);
}

static void pause_victim(struct peer *p)
{
    fl_reactor_pause(p->r, &p->victim->io, true);
}

static void test_pause_within_batch(void **state)
{
    struct fl_reactor *r = *state;
    struct peer a = {.io = {.fd = -1, .on_event = peer_event}, .r = r, .act = pause_victim};
    struct peer b = a;
    a.victim = &b;
    b.victim = &a;
    assert_int_equal(fl_reactor_add_level(r, &a.io, eventfd(1, EFD_NONBLOCK)), 0);
    assert_int_equal(fl_reactor_add_level(r, &b.io, eventfd(1, EFD_NONBLOCK)), 0);
    fl_reactor_turn(r, 0);
    assert_int_equal(a.calls + b.calls, 1);
    fl_reactor_close(r, &a.io);
    fl_reactor_close(r, &b.io);
}

static void test_add_errors(void **state)
{
    struct fl_reactor *r = *state;
    struct peer p = {.io = {.fd = 7, .on_event = peer_event}, .r = r};
    assert_int_equal(fl_reactor_add(r, &p.io, 9999), -EBADF);
    assert_int_equal(p.io.fd, -1);
    peer_open(&p, r); /* the slot was given back */
    assert_int_equal(p.io.slot, 0);
    peer_done(&p);
}

static void test_many_descriptors(void **state)
{
    struct fl_reactor *r = *state;
    enum { N = 300 }; /* more than one batch and several growths of the table */
    struct peer *p = calloc(N, sizeof(*p));
    assert_non_null(p);
    for (int i = 0; i < N; i++) {
        peer_open(&p[i], r);
    }
    for (int turns = 0; turns < 4; turns++) {
        fl_reactor_turn(r, 0);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(p[i].calls, 1);
        assert_int_equal(write(p[i].other, "x", 1), 1);
    }
    for (int turns = 0; turns < 4; turns++) {
        fl_reactor_turn(r, 0);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(p[i].calls, 2);
        peer_done(&p[i]);
    }
    free(p);
}

/* --- timers --- */

struct alarm {
    struct fl_timer t;
    struct fl_reactor *r;
    int64_t want_ms, fired_ms;
    int fires, order;
    void (*act)(struct alarm *a);
    struct alarm *victim;
};

static int fired_total;

static void alarm_fire(struct fl_timer *t)
{
    struct alarm *a = fl_container_of(t, struct alarm, t);
    assert_int_equal(t->at_ms, INT64_MAX); /* off when it fires */
    a->fired_ms = fl_reactor_now_ms(a->r);
    a->fires++;
    a->order = fired_total++;
    assert_true(a->fired_ms >= a->want_ms);
    if (a->act != NULL) {
        a->act(a);
    }
}

static void alarm_init(struct alarm *a, struct fl_reactor *r)
{
    *a = (struct alarm){.r = r};
    fl_timer_init(&a->t, alarm_fire);
}

static void alarm_set(struct alarm *a, int64_t at_ms)
{
    a->want_ms = at_ms;
    fl_timer_set(a->r, &a->t, at_ms);
}

static void turn_until(struct fl_reactor *r, int64_t until_ms)
{
    while (fl_reactor_now_ms(r) < until_ms) {
        fl_reactor_turn(r, until_ms - fl_reactor_now_ms(r));
    }
}

static void test_timer_order(void **state)
{
    struct fl_reactor *r = *state;
    struct alarm a[5];
    int64_t now = fl_reactor_now_ms(r);
    static const int64_t after[5] = {61, 17, 40, 90, 3};
    for (int i = 0; i < 5; i++) {
        alarm_init(&a[i], r);
        alarm_set(&a[i], now + after[i]);
    }
    fired_total = 0;
    turn_until(r, now + 120);
    static const int order[5] = {3, 1, 2, 4, 0};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(a[i].fires, 1);
        assert_int_equal(a[i].order, order[i]);
        assert_true(a[i].fired_ms < a[i].want_ms + 60); /* loose: the machine is shared */
    }
}

static void test_timer_later_off_earlier(void **state)
{
    struct fl_reactor *r = *state;
    struct alarm later, off, earlier, removed;
    alarm_init(&later, r);
    alarm_init(&off, r);
    alarm_init(&earlier, r);
    alarm_init(&removed, r);
    int64_t now = fl_reactor_now_ms(r);
    alarm_set(&later, now + 20);
    alarm_set(&off, now + 20);
    alarm_set(&removed, now + 20);
    alarm_set(&earlier, now + 1000);
    int64_t held = later.t.slot_ms;
    alarm_set(&later, now + 400);            /* wide margins: the machine is shared */
    assert_int_equal(later.t.slot_ms, held); /* one store: the wheel still holds the old place */
    fl_timer_off(&off.t);
    fl_timer_remove(r, &removed.t);
    assert_int_equal(removed.t.slot_ms, 0);
    fl_timer_remove(r, &removed.t); /* harmless */
    alarm_set(&earlier, now + 30);
    assert_true(earlier.t.slot_ms <= now + 38);
    turn_until(r, now + 60);
    assert_int_equal(earlier.fires, 1);
    assert_int_equal(later.fires, 0);
    assert_true(later.t.slot_ms >= now + 400); /* re-slotted when its old slot came */
    assert_int_equal(off.t.slot_ms, 0);        /* and the one that was off is let go */
    turn_until(r, now + 420);
    assert_int_equal(later.fires, 1);
    assert_int_equal(off.fires, 0);
    assert_int_equal(removed.fires, 0);
    alarm_set(&off, now); /* in the past: at the next tick, not never */
    turn_until(r, fl_reactor_now_ms(r) + 30);
    assert_int_equal(off.fires, 1);
    fl_timer_set(r, &off.t, INT64_MAX);
    assert_int_equal(off.t.slot_ms, 0);
}

static void rearm_in_past(struct alarm *a)
{
    if (a->fires < 3) {
        fl_timer_set(a->r, &a->t, fl_reactor_now_ms(a->r));
    }
}

static void remove_victim(struct alarm *a)
{
    fl_timer_remove(a->r, &a->victim->t);
}

static void postpone_victim(struct alarm *a)
{
    a->victim->act = NULL;
    alarm_set(a->victim, fl_reactor_now_ms(a->r) + 300);
}

static void test_timer_from_callbacks(void **state)
{
    struct fl_reactor *r = *state;
    struct alarm again, a, b, c, d;
    alarm_init(&again, r);
    again.act = rearm_in_past;
    alarm_init(&a, r);
    alarm_init(&b, r);
    alarm_init(&c, r);
    alarm_init(&d, r);
    a.victim = &b;
    b.victim = &a;
    a.act = b.act = remove_victim; /* same slot: the one that fires first removes the other */
    c.victim = &d;
    d.victim = &c;
    c.act = d.act = postpone_victim;
    int64_t now = fl_reactor_now_ms(r);
    alarm_set(&again, now + 5);
    alarm_set(&a, now + 16);
    alarm_set(&b, now + 16);
    alarm_set(&c, now + 16);
    alarm_set(&d, now + 16);
    turn_until(r, now + 30);
    assert_int_equal(a.fires + b.fires, 1);
    assert_int_equal(c.fires + d.fires, 1);
    turn_until(r, fl_reactor_now_ms(r) + 350);
    assert_int_equal(again.fires, 3);
    assert_int_equal(c.fires + d.fires, 2);
}

static void test_timer_removed_slot_lets_sleep(void **state)
{
    struct fl_reactor *r = *state;
    struct alarm a;
    alarm_init(&a, r);
    alarm_set(&a, fl_reactor_now_ms(r) + 10);
    fl_timer_remove(r, &a.t);
    int64_t before = real_ms();
    fl_reactor_turn(r, 60); /* nothing held: the turn lasts its whole limit */
    assert_true(real_ms() - before >= 59);
}

/* --- tasks, clock, wake --- */

struct job {
    struct fl_task task;
    struct fl_reactor *r;
    int runs, want;
    bool soon;
};

static void job_run(struct fl_task *t)
{
    struct job *j = fl_container_of(t, struct job, task);
    if (++j->runs < j->want) {
        (j->soon ? fl_reactor_soon : fl_reactor_later)(j->r, t);
    }
}

static void test_tasks(void **state)
{
    struct fl_reactor *r = *state;
    struct job later = {.r = r, .want = 3}, soon = {.r = r, .want = 3, .soon = true};
    fl_task_init(&later.task, job_run);
    fl_task_init(&soon.task, job_run);
    fl_reactor_later(r, &later.task);
    fl_reactor_later(r, &later.task);
    fl_reactor_soon(r, &soon.task);
    fl_reactor_soon(r, &soon.task);
    int64_t before = real_ms();
    fl_reactor_turn(r, 5000);
    assert_int_equal(later.runs,
                     3);            /* what is asked for at the end of a turn still belongs to it */
    assert_int_equal(soon.runs, 1); /* the next turn is another one */
    fl_reactor_turn(r, 5000);
    fl_reactor_turn(r, 5000);
    assert_int_equal(soon.runs, 3);
    assert_true(real_ms() - before < 4000); /* none of them slept */
}

/* Notes in which order events, tasks and deadlines come. */
struct order {
    struct fl_reactor *r;
    struct fl_io io[2];
    struct fl_task behind[3], later; /* one for each event; the last is asked for by a deadline */
    struct fl_task soon, behind_soon;
    struct fl_timer timer;
    char seen[16];
    unsigned count;
};

static struct order *noted;

static void note(char what)
{
    assert_true(noted->count < sizeof noted->seen - 1);
    noted->seen[noted->count++] = what;
}

static void order_event(struct fl_io *io, unsigned events)
{
    assert_true((events & FL_IO_WRITE) != 0);
    note('e');
    fl_reactor_later(noted->r, &noted->later);
    fl_reactor_behind(noted->r, &noted->behind[io - noted->io]);
}

static void order_behind(struct fl_task *t)
{
    bool again = t == &noted->behind[0] && memchr(noted->seen, 'b', noted->count) == NULL;
    note('b');
    if (again) { /* what is asked for meanwhile still comes before deadlines */
        fl_reactor_behind(noted->r, t);
    }
}

static void order_soon(struct fl_task *t)
{
    (void)t;
    note('s');
    fl_reactor_behind(noted->r, &noted->behind_soon);
}

static void order_later(struct fl_task *t)
{
    (void)t;
    note('l');
}

static void order_fire(struct fl_timer *t)
{
    (void)t;
    note('t');
    fl_reactor_behind(noted->r, &noted->behind[2]);
}

/* What waits for nothing but its turn has that before deadlines fire, and what it asks for too. */
static void test_behind_and_soon_before_deadlines(void **state)
{
    struct order o = {.r = *state};
    noted = &o;
    fl_timer_init(&o.timer, order_fire);
    fl_task_init(&o.later, order_later);
    fl_task_init(&o.soon, order_soon);
    fl_task_init(&o.behind_soon, order_behind);
    for (unsigned i = 0; i < 3; i++) {
        fl_task_init(&o.behind[i], order_behind);
    }
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    for (unsigned i = 0; i < 2; i++) {
        o.io[i].on_event = order_event;
        assert_int_equal(fl_reactor_add(o.r, &o.io[i], pair[i]), 0);
    }
    fl_timer_set(o.r, &o.timer, fl_reactor_now_ms(o.r) + 1);
    fl_reactor_soon(o.r, &o.soon);
    usleep(20000);
    fl_reactor_turn(o.r, 0);
    assert_string_equal(o.seen, "eebbbsbtbl");
    fl_reactor_close(o.r, &o.io[0]);
    fl_reactor_close(o.r, &o.io[1]);
    fl_timer_remove(o.r, &o.timer);
}

static void test_clock(void **state)
{
    struct fl_reactor *r = *state;
    int64_t us = fl_reactor_now_us(r), wall = fl_reactor_wall_ms(r);
    assert_true(us > 0);
    assert_int_equal(fl_reactor_now_ms(r), us / 1000);
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    int64_t real = (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
    assert_true(real - wall < 2000 && wall - real < 2000);
    usleep(3000);
    assert_int_equal(fl_reactor_now_us(r), us); /* constant within a turn */
    fl_reactor_turn(r, 0);
    assert_true(fl_reactor_now_us(r) >= us + 3000);
}

static void count_turn(void *arg)
{
    ++*(int *)arg;
}

static void *wake_it(void *arg)
{
    usleep(20000);
    fl_reactor_wake(arg);
    fl_reactor_wake(arg);
    return NULL;
}

static void *stop_it(void *arg)
{
    usleep(20000);
    fl_reactor_stop(arg);
    return NULL;
}

static void test_wake_and_stop(void **state)
{
    struct fl_reactor *r = *state;
    int turns = 0;
    fl_reactor_on_turn(r, count_turn, &turns);
    pthread_t th;
    assert_int_equal(pthread_create(&th, NULL, wake_it, r), 0);
    int64_t before = real_ms();
    fl_reactor_turn(r, -1); /* no timers: sleeps until woken */
    assert_true(real_ms() - before >= 15);
    assert_int_equal(turns, 1);
    pthread_join(th, NULL);
    fl_reactor_turn(r, 0);
    before = real_ms();
    fl_reactor_turn(r, 30); /* a wake is spent: no spinning */
    assert_true(real_ms() - before >= 29);
    fl_reactor_wake(r); /* from inside, before the sleep */
    before = real_ms();
    fl_reactor_turn(r, 5000);
    assert_true(real_ms() - before < 4000);
    assert_int_equal(pthread_create(&th, NULL, stop_it, r), 0);
    fl_reactor_run(r);
    pthread_join(th, NULL);
}

struct post {
    struct fl_reactor *r;
    _Atomic int posted;
    int seen, bound;
};

static void *poster(void *arg)
{
    struct post *p = arg;
    for (int i = 0; i < p->bound; i++) {
        p->posted++;
        fl_reactor_wake(p->r);
    }
    return NULL;
}

static void take_posts(void *arg)
{
    struct post *p = arg;
    p->seen = p->posted;
}

/* No wake is lost: after each, on_turn sees what was left before it. A lost one would leave the
 * turn sleeping. */
static void test_wake_race(void **state)
{
    struct fl_reactor *r = *state;
    struct post p = {.r = r, .bound = 20000};
    fl_reactor_on_turn(r, take_posts, &p);
    pthread_t th;
    assert_int_equal(pthread_create(&th, NULL, poster, &p), 0);
    int64_t before = real_ms();
    while (p.seen < p.bound) {
        fl_reactor_turn(r, 20000);
        assert_true(real_ms() - before < 20000);
    }
    pthread_join(th, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_edges, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write_space, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hup_and_error, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close_within_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_generation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_release, setup, teardown),
        cmocka_unit_test_setup_teardown(test_level_and_pause, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pause_within_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_add_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_descriptors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timer_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timer_later_off_earlier, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timer_from_callbacks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timer_removed_slot_lets_sleep, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tasks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_behind_and_soon_before_deadlines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clock, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wake_and_stop, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wake_race, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
