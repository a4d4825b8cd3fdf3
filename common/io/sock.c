#include "common/io/sock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define NOTSENT_LOWAT_BYTES (128 * 1024)

union any_address {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_un un;
};

static socklen_t to_os(const struct fl_addr *a, union any_address *ret)
{
    memset(ret, 0, sizeof(*ret));
    switch (a->family) {
    case FL_ADDR_V4:
        ret->in.sin_family = AF_INET;
        ret->in.sin_port = htons(a->port);
        memcpy(&ret->in.sin_addr, a->ip, 4);
        return sizeof(ret->in);
    case FL_ADDR_V6:
        ret->in6.sin6_family = AF_INET6;
        ret->in6.sin6_port = htons(a->port);
        memcpy(&ret->in6.sin6_addr, a->ip, 16);
        return sizeof(ret->in6);
    case FL_ADDR_UNIX:
        ret->un.sun_family = AF_UNIX;
        _Static_assert(sizeof(ret->un.sun_path) == sizeof(a->path), "same limit");
        memcpy(ret->un.sun_path, a->path, sizeof(a->path));
        return sizeof(ret->un);
    case FL_ADDR_NONE:
        break;
    }
    return 0;
}

static void from_os(const union any_address *os, socklen_t len, struct fl_addr *ret)
{
    memset(ret, 0, sizeof(*ret));
    switch (os->sa.sa_family) {
    case AF_INET:
        ret->family = FL_ADDR_V4;
        ret->port = ntohs(os->in.sin_port);
        memcpy(ret->ip, &os->in.sin_addr, 4);
        break;
    case AF_INET6:
        ret->port = ntohs(os->in6.sin6_port);
        if (IN6_IS_ADDR_V4MAPPED(&os->in6.sin6_addr)) { /* a v4 client of a dual-stack listener */
            ret->family = FL_ADDR_V4;
            memcpy(ret->ip, os->in6.sin6_addr.s6_addr + 12, 4);
        } else {
            ret->family = FL_ADDR_V6;
            memcpy(ret->ip, &os->in6.sin6_addr, 16);
        }
        break;
    case AF_UNIX: {
        ret->family = FL_ADDR_UNIX;
        size_t n = len > offsetof(struct sockaddr_un, sun_path)
                       ? len - offsetof(struct sockaddr_un, sun_path)
                       : 0;
        memcpy(ret->path, os->un.sun_path, n < sizeof(ret->path) ? n : sizeof(ret->path) - 1);
        break;
    }
    default:
        break;
    }
}

static void set_int(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value,
                     sizeof(value)); /* tuning only: a socket without it still works */
}

/* Everything that an accepted socket copies from its listener, which saves the calls per
 * connection. */
static void set_inherited(int fd)
{
    set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, NOTSENT_LOWAT_BYTES);
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, 60);
    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, 15);
    set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

/* BBR, where the machine has it as its default, paces: a timer and its interrupt for each 64 KiB,
 * and waits in between. Inside a machine there is no path to measure. reno is in every kernel and
 * allowed to everybody. */
static void set_unpaced(int fd)
{
    static const char plain[] = "reno";
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, plain, sizeof plain - 1);
}

static int new_socket(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

/* A socket file that nobody listens on is left over from a process that was killed. Asked with a
 * datagram socket: a living listener is then EPROTOTYPE, and finds no dead connection in its queue.
 */
static bool unlink_if_stale(const union any_address *os, socklen_t len)
{
    struct stat st;
    if (lstat(os->un.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode)) {
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    bool refused = connect(fd, &os->sa, len) < 0 && errno == ECONNREFUSED;
    close(fd);
    return refused && unlink(os->un.sun_path) == 0;
}

static int bind_and_listen(int fd, const struct fl_addr *at, int backlog)
{
    union any_address os;
    socklen_t len = to_os(at, &os);
    int rc = bind(fd, &os.sa, len) < 0 ? -errno : 0;
    if (rc == -EADDRINUSE && at->family == FL_ADDR_UNIX && unlink_if_stale(&os, len)) {
        rc = bind(fd, &os.sa, len) < 0 ? -errno : 0;
    }
    if (rc == 0) {
        rc = listen(fd, backlog) < 0 ? -errno : 0;
    }
    return rc;
}

static int listen_at(const struct fl_addr *at, int backlog, int *ret_fd)
{
    union any_address os;
    if (to_os(at, &os) == 0) {
        return -EAFNOSUPPORT;
    }
    int fd = new_socket(os.sa.sa_family);
    if (fd < 0) {
        return fd;
    }
    if (at->family != FL_ADDR_UNIX) {
        set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        set_inherited(fd);
        if (fl_addr_is_loopback(at)) {
            set_unpaced(fd);
        }
    }
    if (at->family == FL_ADDR_V6) {
        set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, !fl_addr_is_any(at));
    }
    int rc = bind_and_listen(fd, at, backlog);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    *ret_fd = fd;
    return 0;
}

int fl_sock_listen(const struct fl_addr *at, int backlog, int *ret_fd)
{
    int rc = listen_at(at, backlog, ret_fd);
    if ((rc == -EAFNOSUPPORT || rc == -EADDRNOTAVAIL) && at->family == FL_ADDR_V6 &&
        fl_addr_is_any(at)) {
        struct fl_addr v4 = {.family = FL_ADDR_V4, .port = at->port};
        rc = listen_at(&v4, backlog, ret_fd);
    }
    return rc;
}

int fl_sock_local(int fd, struct fl_addr *ret)
{
    union any_address os = {0};
    socklen_t len = sizeof(os);
    if (getsockname(fd, &os.sa, &len) < 0) {
        return -errno;
    }
    from_os(&os, len, ret);
    return 0;
}

int fl_sock_accept(int listen_fd, struct fl_addr *ret_peer)
{
    union any_address os;
    socklen_t len = sizeof(os);
    int fd;
    do {
        fd = accept4(listen_fd, ret_peer ? &os.sa : NULL, ret_peer ? &len : NULL,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        return -errno;
    }
    if (ret_peer != NULL) {
        from_os(&os, len, ret_peer);
    }
    return fd;
}

int fl_sock_connect(const struct fl_addr *to, int user_timeout_ms, int *ret_fd)
{
    union any_address os;
    socklen_t len = to_os(to, &os);
    if (len == 0) {
        return -EAFNOSUPPORT;
    }
    int fd = new_socket(os.sa.sa_family);
    if (fd < 0) {
        return fd;
    }
    if (to->family != FL_ADDR_UNIX) {
        set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
        set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, NOTSENT_LOWAT_BYTES);
        if (user_timeout_ms > 0) {
            set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, user_timeout_ms);
        }
        if (fl_addr_is_loopback(to)) {
            set_unpaced(fd);
        }
    }
    /* an interrupted connect goes on by itself (connect(2)), as one under way does */
    if (connect(fd, &os.sa, len) < 0 && errno != EINPROGRESS && errno != EINTR) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    *ret_fd = fd;
    return 0;
}

int fl_sock_error(int fd)
{
    int err = 0;
    socklen_t len = sizeof(err);
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0 ? -errno : -err;
}

/* recv and send are points where a thread may be cancelled, and in a process of several threads the
 * C library pays for that in every call. Nobody is cancelled here, so the kernel is asked directly;
 * sanitizers want to see the library's. */
#ifdef FL_SANITIZED
static ssize_t receive(int fd, void *into, size_t n)
{
    return recv(fd, into, n, 0);
}

static ssize_t give(int fd, const void *bytes, size_t n)
{
    return send(fd, bytes, n, MSG_NOSIGNAL);
}
#else
static ssize_t receive(int fd, void *into, size_t n)
{
    return syscall(SYS_recvfrom, fd, into, n, 0, NULL, NULL);
}

static ssize_t give(int fd, const void *bytes, size_t n)
{
    return syscall(SYS_sendto, fd, bytes, n, MSG_NOSIGNAL, NULL, 0);
}
#endif

ssize_t fl_sock_recv(int fd, void *into, size_t n)
{
    ssize_t got;
    do {
        got = receive(fd, into, n);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

ssize_t fl_sock_sendv(int fd, const struct iovec *iov, int count)
{
    ssize_t sent;
    if (count == 1) { /* the usual case, and the cheaper call */
        do {
            sent = give(fd, iov->iov_base, iov->iov_len);
        } while (sent < 0 && errno == EINTR);
        return sent < 0 ? -errno : sent;
    }
    struct msghdr msg = {
        .msg_iov = (struct iovec *)(uintptr_t)iov, /* the kernel only reads it */
        .msg_iovlen = count < IOV_MAX ? (size_t)count : IOV_MAX,
    };
    do {
        sent = sendmsg(fd, &msg, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

int fl_sock_pipe(size_t bytes, int *ret_from, int *ret_into)
{
    int fd[2];
    if (pipe2(fd, O_NONBLOCK | O_CLOEXEC) < 0) {
        return -errno;
    }
    (void)fcntl(fd[1], F_SETPIPE_SZ, (int)bytes); /* over the user's limit: it stays smaller */
    *ret_from = fd[0];
    *ret_into = fd[1];
    return 0;
}

ssize_t fl_sock_splice(int from, int into, size_t n)
{
    ssize_t moved;
    do {
        moved = splice(from, NULL, into, NULL, n, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    } while (moved < 0 && errno == EINTR);
    return moved < 0 ? -errno : moved;
}

void fl_sock_close(int fd)
{
    (void)close(fd);
}

bool fl_sock_hold_window(int fd, int bytes)
{
    int none = 0;
    if (setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &none, sizeof none) < 0) {
        return false;
    }
    set_int(fd, SOL_SOCKET, SO_RCVBUF, bytes); /* also locks it */
    return true;
}

void fl_sock_widen_window(int fd, int bytes, bool grows)
{
    set_int(fd, SOL_SOCKET, SO_RCVBUF, bytes);
    set_int(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, bytes); /* still that of the buffer it had */
    if (grows) {
        set_int(fd, SOL_SOCKET, SO_BUF_LOCK, 0);
    }
}

void fl_sock_wake_at(int fd, int bytes)
{
    set_int(fd, SOL_SOCKET, SO_RCVLOWAT, bytes > 0 ? bytes : 1);
}

void fl_sock_finish(int fd)
{
    (void)shutdown(fd, SHUT_WR);
}

void fl_sock_reset_on_close(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

bool fl_errno_is_local(int err)
{
    return err == EMFILE || err == ENFILE || err == EADDRNOTAVAIL || err == ENOBUFS ||
           err == ENOMEM;
}
