#include "bench/kit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int64_t fl_kit_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void fl_kit_die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vfprintf(stderr, fmt, args);
    va_end(args);
    (void)fputc('\n', stderr);
    exit(1);
}

uint64_t fl_kit_number(const char *text)
{
    char *end = NULL;
    errno = 0;
    uint64_t n = strtoull(text, &end, 10);
    unsigned shift = 0;
    if (end != text && *end != '\0') {
        shift = *end == 'k' ? 10 : *end == 'm' ? 20 : *end == 'g' ? 30 : 0;
        end += shift > 0 ? 1 : 0;
    }
    if (errno != 0 || end == text || *end != '\0' || n > (UINT64_MAX >> shift)) {
        fl_kit_die("not a number: '%s'", text);
    }
    return n << shift;
}

struct sockaddr_in fl_kit_address(const char *text)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    char host[INET_ADDRSTRLEN];
    const char *colon = strrchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : 0;
    if (len == 0 || len >= sizeof(host)) {
        fl_kit_die("not an IPv4 address:port: '%s'", text);
    }
    memcpy(host, text, len);
    host[len] = '\0';
    uint64_t port = fl_kit_number(colon + 1);
    if (inet_pton(AF_INET, host, &a.sin_addr) != 1 || port == 0 || port > 65535) {
        fl_kit_die("not an IPv4 address:port: '%s'", text);
    }
    a.sin_port = htons((uint16_t)port);
    return a;
}

static void set_flag(int fd, int level, int name)
{
    int one = 1;
    if (setsockopt(fd, level, name, &one, sizeof(one)) < 0) {
        fl_kit_die("setsockopt: %s", strerror(errno));
    }
}

int fl_kit_listen(const char *address)
{
    struct sockaddr_in a = fl_kit_address(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        fl_kit_die("socket: %s", strerror(errno));
    }
    set_flag(fd, SOL_SOCKET, SO_REUSEADDR);
    set_flag(fd, IPPROTO_TCP, TCP_NODELAY);
    if (bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 4096) < 0) {
        fl_kit_die("listen on %s: %s", address, strerror(errno));
    }
    return fd;
}

int fl_kit_dial(const struct sockaddr_in *to)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        fl_kit_die("socket: %s", strerror(errno));
    }
    set_flag(fd, IPPROTO_TCP, TCP_NODELAY);
    if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0 && errno != EINPROGRESS) {
        int err = errno;
        (void)close(fd);
        return -err;
    }
    return fd;
}

void fl_kit_unpaced(int fd)
{
    static const char plain[] = "reno";
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, plain, sizeof(plain) - 1) < 0) {
        fl_kit_die("setsockopt TCP_CONGESTION: %s", strerror(errno));
    }
}

int fl_kit_accept(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    return fd >= 0 ? fd : -errno;
}

int fl_kit_epoll(void)
{
    int ep = epoll_create1(EPOLL_CLOEXEC);
    if (ep < 0) {
        fl_kit_die("epoll_create1: %s", strerror(errno));
    }
    return ep;
}

static void watch(int epoll, int fd, void *arg, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = arg};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) < 0) {
        fl_kit_die("epoll_ctl: %s", strerror(errno));
    }
}

void fl_kit_watch_listener(int epoll, int fd, void *arg)
{
    watch(epoll, fd, arg, EPOLLIN);
}

void fl_kit_watch(int epoll, int fd, void *arg)
{
    watch(epoll, fd, arg, EPOLLIN | EPOLLOUT | EPOLLRDHUP | (uint32_t)EPOLLET);
}

void fl_kit_pattern(uint8_t *to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = i % FL_KIT_PATTERN_BYTES;
        to[i] = (uint8_t)((at * 31 + (at >> 8) * 7 + 13) & 0xff);
    }
}

void fl_kit_prepare_process(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    (void)signal(SIGPIPE, SIG_IGN);
}
