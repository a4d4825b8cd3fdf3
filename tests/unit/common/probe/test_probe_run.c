#include "common/probe/probe_run.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/io/sock.h"

static struct fl_reactor *reactor;
static struct fl_probe_run *run;
static struct fl_verdict last;
static unsigned done_count;

static void done(void *arg, const struct fl_verdict *v, bool answered)
{
    (void)arg;
    assert_false(answered); /* a connect proves no answer */
    last = *v;
    done_count++;
}

static int set_up(void **state)
{
    (void)state;
    done_count = 0;
    return fl_reactor_new(&reactor) == 0 && fl_probe_run_new(reactor, done, NULL, &run) == 0 ? 0
                                                                                             : -1;
}

static int tear_down(void **state)
{
    (void)state;
    run = fl_probe_run_free(run);
    fl_reactor_turn(reactor, 0);
    reactor = fl_reactor_free(reactor);
    return 0;
}

static int open_listener(int backlog, struct fl_addr *ret)
{
    int fd = -1;
    struct fl_addr any;
    assert_true(fl_addr_parse(FL_SPAN("127.0.0.1:0"), &any));
    assert_int_equal(fl_sock_listen(&any, backlog, &fd), 0);
    assert_int_equal(fl_sock_local(fd, ret), 0);
    return fd;
}

static void wait_done(unsigned count, int64_t limit_ms)
{
    int64_t end_ms = fl_reactor_now_ms(reactor) + limit_ms;
    while (done_count < count && fl_reactor_now_ms(reactor) < end_ms) {
        fl_reactor_turn(reactor, 20);
    }
    assert_int_equal(done_count, count);
}

static struct fl_probe_target target(const struct fl_addr *a, int64_t timeout_ms)
{
    return (struct fl_probe_target){
        .addr = *a, .type = FL_PROBE_TCP, .timeout_ms = timeout_ms, .fingerprint = 42};
}

static void a_listener_is_healthy(void **state)
{
    (void)state;
    struct fl_addr a;
    int fd = open_listener(8, &a);
    struct fl_probe_target t = target(&a, 1000);
    assert_true(fl_probe_run_start(run, &t));
    assert_true(fl_probe_run_busy(run));
    assert_false(fl_probe_run_start(run, &t)); /* single flight */
    assert_int_equal(done_count, 0);           /* never from within start */
    wait_done(1, 2000);
    assert_int_equal(last.status, FL_VERDICT_HEALTHY);
    assert_int_equal(last.source, FL_VERDICT_OWN);
    assert_int_equal(last.fingerprint, 42);
    assert_true(last.at_ms > 0 && last.at_unix_ms > 0);
    assert_string_equal(last.step, "");
    assert_string_equal(last.cause.code, "");
    assert_false(fl_probe_run_busy(run));
    assert_true(fl_probe_run_start(run, &t)); /* and again */
    wait_done(2, 2000);
    close(fd);
}

static void a_closed_port_is_unreachable(void **state)
{
    (void)state;
    struct fl_addr a;
    close(open_listener(8, &a)); /* nobody listens there now */
    struct fl_probe_target t = target(&a, 1000);
    assert_true(fl_probe_run_start(run, &t));
    wait_done(1, 2000);
    assert_int_equal(last.status, FL_VERDICT_UNREACHABLE);
    assert_string_equal(last.step, "connect");
    assert_string_equal(last.cause.code, "connect_refused");
    assert_non_null(strstr(last.cause.text, "127.0.0.1:"));
    assert_non_null(strstr(last.cause.text, "Connection refused"));
}

/* A listener whose queue is full drops SYNs, as a hung host does. */
static void silence_ends_after_two_timeouts(void **state)
{
    (void)state;
    struct fl_addr a;
    int fd = open_listener(0, &a), fill[8];
    for (int i = 0; i < 8; i++) {
        assert_int_equal(fl_sock_connect(&a, 0, &fill[i]), 0);
    }
    struct fl_probe_target t = target(&a, 150);
    assert_true(fl_probe_run_start(run, &t));
    wait_done(1, 3000);
    assert_int_equal(last.status, FL_VERDICT_UNREACHABLE);
    assert_string_equal(last.cause.code, "connect_timeout");
    assert_in_range(last.duration_ms, 300, 1000); /* two attempts */
    for (int i = 0; i < 8; i++) {
        close(fill[i]);
    }
    close(fd);
}

static void the_second_attempt_counts(void **state)
{
    (void)state;
    struct fl_addr a;
    int fd = open_listener(0, &a), fill[8];
    for (int i = 0; i < 8; i++) {
        assert_int_equal(fl_sock_connect(&a, 0, &fill[i]), 0);
    }
    struct fl_probe_target t = target(&a, 1200); /* SYN again after 1 s; the first attempt waits */
    assert_true(fl_probe_run_start(run, &t));
    for (int i = 0; i < 5; i++) {
        fl_reactor_turn(reactor, 10);
    }
    close(fd); /* first attempt: silent, then refused; second: there is a listener again */
    assert_int_equal(done_count, 0);
    struct fl_addr same = a;
    int again = -1;
    assert_int_equal(fl_sock_listen(&same, 64, &again), 0);
    wait_done(1, 5000);
    assert_int_equal(last.status, FL_VERDICT_HEALTHY);
    for (int i = 0; i < 8; i++) {
        close(fill[i]);
    }
    close(again);
}

static void our_own_exhaustion_is_no_verdict(void **state)
{
    (void)state;
    struct fl_addr a;
    int fd = open_listener(8, &a);
    struct rlimit old, low;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = 0; /* no further descriptor */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    struct fl_probe_target t = target(&a, 1000);
    assert_true(fl_probe_run_start(run, &t));
    wait_done(1, 1000);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(last.status, FL_VERDICT_UNKNOWN);
    close(fd);
}

static void a_cancelled_probe_says_nothing(void **state)
{
    (void)state;
    struct fl_addr a;
    int fd = open_listener(8, &a);
    struct fl_probe_target t = target(&a, 1000);
    assert_true(fl_probe_run_start(run, &t));
    fl_probe_run_cancel(run);
    for (int i = 0; i < 5; i++) {
        fl_reactor_turn(reactor, 5);
    }
    assert_true(fl_probe_run_start(run, &t));
    fl_reactor_turn(reactor, 5);
    run = fl_probe_run_free(run); /* in flight */
    for (int i = 0; i < 5; i++) {
        fl_reactor_turn(reactor, 5);
    }
    assert_int_equal(done_count, 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_listener_is_healthy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_closed_port_is_unreachable, set_up, tear_down),
        cmocka_unit_test_setup_teardown(silence_ends_after_two_timeouts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_second_attempt_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(our_own_exhaustion_is_no_verdict, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cancelled_probe_says_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
