#include "common/io/thread.h"

#include <signal.h>
#include <unistd.h>

static void list_deaf(sigset_t *set)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigfillset(set);
    for (size_t i = 0; i < FL_COUNTOF(faults); i++) {
        sigdelset(set, faults[i]);
    }
}

int fl_thread_start(pthread_t *ret, size_t stack_bytes, void *(*run)(void *arg), void *arg)
{
    pthread_attr_t attr;
    pthread_t made;
    sigset_t deaf, before;
    int rc = pthread_attr_init(&attr);
    if (rc != 0) {
        return -rc;
    }
    rc = pthread_attr_setstacksize(&attr, stack_bytes);
    if (rc == 0) {
        list_deaf(&deaf);
        pthread_sigmask(SIG_SETMASK, &deaf, &before); /* a new thread inherits it */
        rc = pthread_create(&made, &attr, run, arg);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attr);
    if (rc == 0) {
        *ret = made;
    }
    return -rc;
}

bool fl_thread_split_descriptors(int fd)
{
#ifdef __SANITIZE_THREAD__ /* knows descriptors by number, for the whole process */
    (void)fd;
    return false;
#else
    /* not unshare(2): the usual seccomp profiles of containers forbid it */
    return close_range((unsigned)fd, (unsigned)fd, CLOSE_RANGE_UNSHARE) == 0;
#endif
}
