#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>

#include "common/io/thread.h"

#define STACK_BYTES ((size_t)160 * 1024)

struct seen {
    sigset_t blocked;
    size_t stack_bytes;
};

static void *look(void *arg)
{
    struct seen *s = arg;
    pthread_attr_t attr;
    pthread_sigmask(SIG_BLOCK, NULL, &s->blocked);
    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        pthread_attr_getstacksize(&attr, &s->stack_bytes);
        pthread_attr_destroy(&attr);
    }
    return s;
}

static void it_hears_faults_only_and_its_stack_is_small(void **state)
{
    (void)state;
    struct seen s = {.stack_bytes = 0};
    sigset_t before, after;
    pthread_t thread;
    void *ret;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    assert_int_equal(fl_thread_start(&thread, STACK_BYTES, look, &s), 0);
    assert_int_equal(pthread_join(thread, &ret), 0);
    assert_ptr_equal(ret, &s);
    assert_in_range(s.stack_bytes, STACK_BYTES, 2 * STACK_BYTES); /* sanitizers add to it */
    static const int deaf[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGCHLD, SIGUSR1};
    for (size_t i = 0; i < FL_COUNTOF(deaf); i++) {
        assert_int_equal(sigismember(&s.blocked, deaf[i]), 1);
    }
    assert_int_equal(sigismember(&s.blocked, SIGSEGV), 0);
    assert_int_equal(sigismember(&s.blocked, SIGABRT), 0);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    for (int number = 1; number < SIGRTMIN; number++) {
        assert_int_equal(sigismember(&before, number), sigismember(&after, number));
    }
}

static void a_stack_that_cannot_be_is_refused(void **state)
{
    (void)state;
    struct seen s;
    pthread_t thread;
    assert_int_equal(fl_thread_start(&thread, 1, look, &s), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_hears_faults_only_and_its_stack_is_small),
        cmocka_unit_test(a_stack_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
