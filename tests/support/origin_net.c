/* The loop side of the origin: sockets, epoll registration, wake times. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/origin.h"

#define BACKLOG 4096

int64_t fl_origin_clock_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int fl_origin_watch(struct fl_origin *o, struct fl_origin_io *io, uint32_t interest)
{
    const uint32_t registered = UINT32_C(1)
                                << 24; /* marks an fd that epoll knows, even with no interest */
    if (io->interest == (interest | registered)) {
        return 0;
    }
    struct epoll_event ev = {.events = interest, .data = {.ptr = io}};
    int op = io->interest & registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    io->interest = interest | registered;
    return epoll_ctl(o->epfd, op, io->fd, &ev) == 0 ? 0 : -errno;
}

void fl_origin_wake_at(struct fl_origin *o, struct fl_origin_io *io, int64_t at_us)
{
    io->wake_us = at_us;
    if (at_us && (!o->next_wake_us || at_us < o->next_wake_us)) {
        o->next_wake_us = at_us;
    }
}

void fl_origin_close_io(struct fl_origin *o, struct fl_origin_io *io, bool rst)
{
    if (rst) {
        struct linger hard = {1, 0};
        setsockopt(io->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    }
    close(io->fd);
    io->fd = -1;
    io->dead = true;
    io->wake_us = 0;
    fl_list_remove(&io->link);
    fl_list_append(&o->dead, &io->link);
}

/* "127.0.0.1:9001" or "[::1]:9001". */
static bool parse_addr(const char *text, struct sockaddr_storage *addr, socklen_t *len)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    if (!colon || (size_t)(colon - text) >= sizeof(host)) {
        return false;
    }
    char *end = NULL;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (end == colon + 1 || *end != '\0' || port > 65535) {
        return false;
    }
    fl_origin_buf_text_of((struct fl_span){text, (size_t)(colon - text)}, host, sizeof(host));
    memset(addr, 0, sizeof(*addr));
    size_t n = strlen(host);
    if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
        struct sockaddr_in6 *a6 = (struct sockaddr_in6 *)(void *)addr;
        host[n - 1] = '\0';
        a6->sin6_family = AF_INET6;
        a6->sin6_port = htons((uint16_t)port);
        *len = sizeof(*a6);
        return inet_pton(AF_INET6, host + 1, &a6->sin6_addr) == 1;
    }
    struct sockaddr_in *a4 = (struct sockaddr_in *)(void *)addr;
    a4->sin_family = AF_INET;
    a4->sin_port = htons((uint16_t)port);
    *len = sizeof(*a4);
    return inet_pton(AF_INET, host, &a4->sin_addr) == 1;
}

static int bound_socket(const struct sockaddr_storage *addr, socklen_t len)
{
    int one = 1;
    int fd = socket(addr->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (const struct sockaddr *)(const void *)addr, len) != 0) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

int fl_origin_bind(const char *text, struct sockaddr_storage *addr, socklen_t *len, int *ret_fd)
{
    if (!parse_addr(text, addr, len)) {
        return -EINVAL;
    }
    int fd = bound_socket(addr, *len);
    if (fd < 0) {
        return fd;
    }
    getsockname(fd, (struct sockaddr *)(void *)addr, len); /* the port that was given for 0 */
    *ret_fd = fd;
    return 0;
}

int fl_origin_listen(struct fl_origin *o)
{
    if (o->listen_fd >= 0) {
        return 0;
    }
    int fd = bound_socket(&o->listen_addr, o->listen_addr_len);
    if (fd < 0) {
        return fd;
    }
    if (o->set.rcvbuf) { /* must be set before the connection exists to bound its window */
        int bytes = (int)o->set.rcvbuf;
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    }
    if (listen(fd, BACKLOG) != 0) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    o->listen_fd = o->listen_io.fd = fd;
    o->listen_io.interest = 0;
    return fl_origin_watch(o, &o->listen_io, EPOLLIN);
}

void fl_origin_refuse(struct fl_origin *o)
{
    if (o->listen_fd >= 0) {
        close(o->listen_fd);
        o->listen_fd = o->listen_io.fd = -1;
    }
}

static void print_name(const struct sockaddr_storage *addr, struct fl_origin_buf *out)
{
    char ip[INET6_ADDRSTRLEN] = "";
    if (addr->ss_family == AF_INET6) {
        const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)(const void *)addr;
        inet_ntop(AF_INET6, &a6->sin6_addr, ip, sizeof(ip));
        fl_origin_buf_printf(out, "[%s]:%u", ip, ntohs(a6->sin6_port));
    } else {
        const struct sockaddr_in *a4 = (const struct sockaddr_in *)(const void *)addr;
        inet_ntop(AF_INET, &a4->sin_addr, ip, sizeof(ip));
        fl_origin_buf_printf(out, "%s:%u", ip, ntohs(a4->sin_port));
    }
}

void fl_origin_print_addr(int fd, struct fl_origin_buf *out)
{
    struct sockaddr_storage addr;
    socklen_t len = sizeof(addr);
    memset(&addr, 0, sizeof(addr));
    if (getsockname(fd, (struct sockaddr *)(void *)&addr, &len) == 0) {
        print_name(&addr, out);
    }
}
