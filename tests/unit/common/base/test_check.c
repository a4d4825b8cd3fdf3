#include "common/base/check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void impossible(void)
{
    FL_IMPOSSIBLE("cannot be");
}

static void broken(void)
{
    int one = 1;
    FL_MUST(one == 2);
}

static void fine(void)
{
    FL_MUST(1 == 1);
    _exit(0);
}

/* Runs fn in a child; its stderr goes to text, its wait status is returned. */
static int in_child(void (*fn)(void), char *text, size_t cap)
{
    int fds[2], status = -1;
    size_t len = 0;
    ssize_t n;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL); /* cmocka catches it */
        dup2(fds[1], STDERR_FILENO);
        fn();
        _exit(3);
    }
    close(fds[1]);
    while (len < cap - 1 && (n = read(fds[0], text + len, cap - 1 - len)) > 0) {
        len += (size_t)n;
    }
    text[len] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void a_broken_promise_aborts_and_says_where(void **state)
{
    (void)state;
    char text[8192];
    int status = in_child(broken, text, sizeof text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "test_check.c:"));
    assert_non_null(strstr(text, ": assertion failed: one == 2\n"));
    assert_non_null(strstr(text, "0x")); /* the backtrace */
}

static void the_impossible_aborts(void **state)
{
    (void)state;
    char text[8192];
    int status = in_child(impossible, text, sizeof text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, ": assertion failed: cannot be\n"));
}

static void a_kept_promise_says_nothing(void **state)
{
    (void)state;
    char text[8192];
    int status = in_child(fine, text, sizeof text);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_promise_aborts_and_says_where),
        cmocka_unit_test(the_impossible_aborts),
        cmocka_unit_test(a_kept_promise_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
