#include "common/io/signals.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static void list_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
}

void fl_signals_block(void)
{
    sigset_t set;
    list_signals(&set);
    FL_MUST(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    FL_MUST(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
}

static void on_event(struct fl_io *io, unsigned events)
{
    (void)events;
    struct fl_signals *s = fl_container_of(io, struct fl_signals, io);
    struct signalfd_siginfo info;
    while (read(io->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        s->on_signal(s->arg, (int)info.ssi_signo);
    }
}

int fl_signals_open(struct fl_signals *s, struct fl_reactor *r,
                    void (*on_signal)(void *arg, int number), void *arg)
{
    sigset_t set;
    list_signals(&set);
    *s = (struct fl_signals){
        .io = {.fd = -1, .on_event = on_event}, .on_signal = on_signal, .arg = arg};
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    int rc = fl_reactor_add_level(r, &s->io, fd);
    if (rc < 0) {
        close(fd);
    }
    return rc;
}
