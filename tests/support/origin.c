/* fairlead-origin: options, start, loop, orderly stop. See origin.h. */
#include "tests/support/origin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tests/support/origin_conn.h"
#include "tests/support/origin_control.h"
#include "tests/support/origin_ledger.h"
#include "tests/support/origin_rule.h"
#include "tests/support/origin_store.h"

#define EVENTS_MAX     256
#define ACCEPTS_A_TURN 64
#define STOP_MAX_US    10000000
#define STOP_LOOK_US   50000

static const char usage[] =
    "usage: fairlead-origin --listen ADDRESS:PORT [--name NAME] [--control ADDRESS:PORT] "
    "[--behaviour RULE]…\n"
    "                       [--set NAME=VALUE]… [--ledger ENTRIES | --no-ledger] [--journal FILE]\n"
    "A scriptable HTTP/1.1 origin: by default a small in-memory object store. Port 0 picks a free "
    "one. The first line on\n"
    "stdout is a JSON object with the addresses. Rules: tests/support/origin_rule.h; control "
    "port:\n"
    "tests/support/origin_control.c. The journal gets a line for each request before it is "
    "answered, and outlives a\n"
    "kill: microseconds, status, method, target. SIGTERM: finishes what is in flight, closes idle "
    "connections, "
    "exits 0.\n";

struct options {
    const char *listen, *control;
    size_t ledger;
};

static void accept_all(struct fl_origin *o, struct fl_origin_io *io, bool control)
{
    for (int i = 0; i < ACCEPTS_A_TURN && io->fd >= 0; i++) {
        struct sockaddr_storage addr;
        socklen_t len = sizeof(addr);
        int one = 1;
        int fd =
            accept4(io->fd, (struct sockaddr *)(void *)&addr, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (control) {
            fl_origin_control_accept(o, fd);
            continue;
        }
        if (o->set.sndbuf) {
            int bytes = (int)o->set.sndbuf;
            setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
        }
        char peer[64] = "";
        if (addr.ss_family == AF_INET) {
            const struct sockaddr_in *a4 = (const struct sockaddr_in *)(const void *)&addr;
            char ip[INET_ADDRSTRLEN] = "";
            inet_ntop(AF_INET, &a4->sin_addr, ip, sizeof(ip));
            snprintf(peer, sizeof(peer), "%s:%u", ip, ntohs(a4->sin_port));
        }
        fl_origin_conn_accept(o, fd, peer);
    }
}

static void listener_ready(struct fl_origin *o, struct fl_origin_io *io, uint32_t events)
{
    (void)events;
    accept_all(o, io, io == &o->control_io);
}

static void signal_ready(struct fl_origin *o, struct fl_origin_io *io, uint32_t events)
{
    (void)events;
    struct signalfd_siginfo info;
    if (read(io->fd, &info, sizeof(info)) == (ssize_t)sizeof(info) && !o->stopping) {
        o->stopping = true;
        o->stop_us = o->now_us + STOP_MAX_US;
        fl_origin_refuse(o);
    }
}

static void wake_due(struct fl_origin *o)
{
    if (!o->next_wake_us || o->now_us < o->next_wake_us) {
        return;
    }
    o->next_wake_us = 0;
    fl_list_each_safe (it, next, &o->ios) {
        struct fl_origin_io *io = fl_container_of(it, struct fl_origin_io, link);
        if (io->wake_us && o->now_us >= io->wake_us) {
            io->wake_us = 0;
            io->wake(o, io);
        } else {
            fl_origin_wake_at(o, io, io->wake_us);
        }
    }
}

static void release_dead(struct fl_origin *o)
{
    fl_list_each_safe (it, next, &o->dead) {
        struct fl_origin_io *io = fl_container_of(it, struct fl_origin_io, link);
        fl_list_remove(it);
        io->release(io);
    }
}

static int wait_ms(const struct fl_origin *o)
{
    int64_t until = o->next_wake_us;
    if (o->stopping && (!until || until > o->now_us + STOP_LOOK_US)) {
        until = o->now_us + STOP_LOOK_US;
    }
    if (!until) {
        return -1;
    }
    int64_t left = fl_origin_clock_us();
    left = until > left ? until - left : 0;
    return (int)((left + 999) / 1000);
}

static bool stopped(struct fl_origin *o)
{
    if (!o->stopping) {
        return false;
    }
    fl_origin_conn_stop_idle(o);
    release_dead(o);
    return o->stats.open == 0 || o->now_us >= o->stop_us;
}

static void loop(struct fl_origin *o)
{
    struct epoll_event events[EVENTS_MAX];
    while (!stopped(o)) {
        int n = epoll_wait(o->epfd, events, EVENTS_MAX, wait_ms(o));
        o->now_us = fl_origin_clock_us();
        for (int i = 0; i < n; i++) {
            struct fl_origin_io *io = events[i].data.ptr;
            if (!io->dead) {
                io->ready(o, io, events[i].events);
            }
        }
        wake_due(o);
        release_dead(o);
    }
}

static int fail(const char *what, int rc)
{
    fprintf(stderr, "fairlead-origin: %s: %s\n", what, strerror(-rc));
    return 1;
}

static int start(struct fl_origin *o, const struct options *opt)
{
    struct sockaddr_storage addr;
    socklen_t len;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    o->epfd = epoll_create1(EPOLL_CLOEXEC);
    o->signal_io = (struct fl_origin_io){.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC),
                                         .ready = signal_ready};
    o->listen_io = (struct fl_origin_io){.fd = -1, .ready = listener_ready};
    o->control_io = (struct fl_origin_io){.fd = -1, .ready = listener_ready};
    fl_origin_watch(o, &o->signal_io, EPOLLIN);
    int rc = fl_origin_bind(opt->listen, &o->listen_addr, &o->listen_addr_len, &o->holder_fd);
    rc = rc == 0 ? fl_origin_listen(o) : rc;
    if (rc != 0) {
        return fail(opt->listen, rc);
    }
    if (opt->control) {
        rc = fl_origin_bind(opt->control, &addr, &len, &o->control_io.fd);
        if (rc == 0 && listen(o->control_io.fd, 128) != 0) {
            rc = -errno;
        }
        if (rc != 0) {
            return fail(opt->control, rc);
        }
        fl_origin_watch(o, &o->control_io, EPOLLIN);
    }
    return 0;
}

static void announce(const struct fl_origin *o)
{
    struct fl_origin_buf out = {NULL, 0, 0};
    fl_origin_buf_printf(&out, "{\"name\":\"%s\",\"pid\":%d,\"listen\":\"", o->name, (int)getpid());
    fl_origin_print_addr(o->holder_fd, &out);
    fl_origin_buf_text(&out, "\",\"control\":\"");
    if (o->control_io.fd >= 0) {
        fl_origin_print_addr(o->control_io.fd, &out);
    }
    fl_origin_buf_text(&out, "\"}\n");
    fwrite(out.base, 1, out.len, stdout);
    fflush(stdout);
    fl_origin_buf_done(&out);
}

/* One option with its value; false when it is unknown or wrong. */
static bool take_option(struct fl_origin *o, struct options *opt, const char *name,
                        const char *value)
{
    char error[200] = "";
    if (strcmp(name, "--listen") == 0) {
        opt->listen = value;
    } else if (strcmp(name, "--control") == 0) {
        opt->control = value;
    } else if (strcmp(name, "--name") == 0) {
        o->name = value;
    } else if (strcmp(name, "--ledger") == 0) {
        opt->ledger = (size_t)strtoull(value, NULL, 10);
    } else if (strcmp(name, "--journal") == 0) {
        o->journal_fd = open(value, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (o->journal_fd < 0) {
            fprintf(stderr, "fairlead-origin: %s: %s\n", value, strerror(errno));
            return false;
        }
    } else if (strcmp(name, "--behaviour") == 0) {
        if (!fl_origin_rule_add_lines(o, fl_span_of(value), false, error, sizeof(error))) {
            fprintf(stderr, "fairlead-origin: %s\n", error);
            return false;
        }
    } else if (strcmp(name, "--set") == 0) {
        return fl_origin_control_set(o, fl_span_of(value));
    } else {
        return false;
    }
    return true;
}

static bool take_options(struct fl_origin *o, struct options *opt, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--no-ledger") == 0) {
            opt->ledger = 0;
        } else if (i + 1 >= argc || !take_option(o, opt, argv[i], argv[i + 1])) {
            return false;
        } else {
            i++;
        }
    }
    return opt->listen != NULL;
}

static void clean_up(struct fl_origin *o)
{
    fl_list_each_safe (it, next, &o->ios) {
        fl_origin_close_io(o, fl_container_of(it, struct fl_origin_io, link), false);
    }
    release_dead(o);
    fl_origin_rule_clear(o);
    o->ledger = fl_origin_ledger_free(o->ledger);
    o->store = fl_origin_store_free(o->store);
}

int main(int argc, char **argv)
{
    static struct fl_origin origin = {
        .name = "origin", .listen_fd = -1, .holder_fd = -1, .journal_fd = -1, .random = 42};
    struct fl_origin *o = &origin;
    struct options opt = {.ledger = 20000};
    o->set =
        (struct fl_origin_settings){.missing = 404, .store = 1, .store_max = (int64_t)256 << 20};
    fl_list_init(&o->ios);
    fl_list_init(&o->dead);
    fl_list_init(&o->rules);
    if (!take_options(o, &opt, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    o->store = fl_origin_store_new();
    o->ledger = opt.ledger ? fl_origin_ledger_new(opt.ledger) : NULL;
    o->now_us = fl_origin_clock_us();
    if (!o->store || start(o, &opt) != 0) {
        return 1;
    }
    announce(o);
    loop(o);
    clean_up(o);
    return 0;
}
