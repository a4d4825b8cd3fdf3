#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <unistd.h>

#include "common/io/signals.h"

static int heard[4];
static unsigned count;

static void on_signal(void *arg, int number)
{
    assert_ptr_equal(arg, &count);
    assert_true(count < FL_COUNTOF(heard));
    heard[count++] = number;
}

static void signals_arrive_as_events_and_interrupt_nobody(void **state)
{
    (void)state;
    struct fl_reactor *r;
    struct fl_signals s;
    fl_signals_block();
    assert_int_equal(fl_reactor_new(&r), 0);
    assert_int_equal(fl_signals_open(&s, r, on_signal, &count), 0);
    assert_int_equal(raise(SIGPIPE), 0);
    fl_reactor_turn(r, 0);
    assert_int_equal(count, 0);
    assert_int_equal(raise(SIGHUP), 0);
    assert_int_equal(raise(SIGHUP), 0); /* still pending: one */
    fl_reactor_turn(r, 0);
    assert_int_equal(count, 1);
    assert_int_equal(heard[0], SIGHUP);
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(raise(SIGINT), 0);
    fl_reactor_turn(r, 0);
    assert_int_equal(count, 3);
    assert_int_equal(heard[1] + heard[2], SIGTERM + SIGINT);
    fl_reactor_close(r, &s.io);
    assert_null(fl_reactor_free(r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_arrive_as_events_and_interrupt_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
