#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/io/sock.h"

static struct fl_addr addr(const char *text)
{
    struct fl_addr a;
    assert_true(fl_addr_parse(fl_span_of(text), &a));
    return a;
}

static bool has_ipv6(void)
{
    struct fl_addr a = addr("[::1]:0");
    int fd = -1;
    if (fl_sock_listen(&a, 1, &fd) < 0) {
        return false;
    }
    close(fd);
    return true;
}

static void wait_for(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};
    assert_int_equal(poll(&p, 1, 5000), 1);
}

static int accept_one(int listen_fd, struct fl_addr *ret_peer)
{
    wait_for(listen_fd, POLLIN);
    int fd = fl_sock_accept(listen_fd, ret_peer);
    assert_true(fd >= 0);
    return fd;
}

static void listen_on(const char *text, struct fl_addr *ret_at, int *ret_fd)
{
    struct fl_addr a = addr(text);
    assert_int_equal(fl_sock_listen(&a, 16, ret_fd), 0);
    assert_int_equal(fl_sock_local(*ret_fd, ret_at), 0);
}

static ssize_t send_text(int fd, const char *text)
{
    struct iovec iov = {(void *)(uintptr_t)text, strlen(text)};
    return fl_sock_sendv(fd, &iov, 1);
}

static int int_option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);
    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static void assert_nonblocking_cloexec(int fd)
{
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

/* Connect, accept, talk in both directions, half-close. */
static void converse(const struct fl_addr *to, int listen_fd, struct fl_addr *ret_peer)
{
    int client = -1;
    char buf[16];
    assert_int_equal(fl_sock_accept(listen_fd, NULL), -EAGAIN);
    assert_int_equal(fl_sock_connect(to, 3000, &client), 0);
    int server = accept_one(listen_fd, ret_peer);
    wait_for(client, POLLOUT);
    assert_int_equal(fl_sock_error(client), 0);
    assert_nonblocking_cloexec(client);
    assert_nonblocking_cloexec(server);
    assert_int_equal(fl_sock_recv(server, buf, sizeof(buf)), -EAGAIN);
    struct iovec two[2] = {{(void *)(uintptr_t) "ab", 2}, {(void *)(uintptr_t) "cde", 3}};
    assert_int_equal(fl_sock_sendv(client, two, 2), 5);
    wait_for(server, POLLIN);
    assert_int_equal(fl_sock_recv(server, buf, sizeof(buf)), 5);
    assert_memory_equal(buf, "abcde", 5);
    fl_sock_finish(client);
    wait_for(server, POLLIN);
    assert_int_equal(fl_sock_recv(server, buf, sizeof(buf)), 0);
    assert_int_equal(send_text(server, "late"), 4); /* the other direction is still open */
    wait_for(client, POLLIN);
    assert_int_equal(fl_sock_recv(client, buf, sizeof(buf)), 4);
    close(client);
    close(server);
}

static void test_v4(void **state)
{
    (void)state;
    struct fl_addr at, peer;
    int fd;
    listen_on("127.0.0.1:0", &at, &fd);
    assert_int_equal(at.family, FL_ADDR_V4);
    assert_true(at.port != 0);
    assert_nonblocking_cloexec(fd);
    converse(&at, fd, &peer);
    assert_int_equal(peer.family, FL_ADDR_V4);
    assert_true(fl_addr_is_loopback(&peer));
    assert_true(peer.port != 0);
    close(fd);
}

static void test_v6(void **state)
{
    (void)state;
    if (!has_ipv6()) {
        skip();
    }
    struct fl_addr at, peer;
    int fd;
    listen_on("[::1]:0", &at, &fd);
    converse(&at, fd, &peer);
    assert_int_equal(peer.family, FL_ADDR_V6);
    assert_true(fl_addr_is_loopback(&peer));
    close(fd);
}

static void test_dual_stack(void **state)
{
    (void)state;
    struct fl_addr at, peer;
    int fd;
    listen_on("[::]:0", &at, &fd); /* works without IPv6 too */
    struct fl_addr v4 = addr("127.0.0.1:1");
    v4.port = at.port;
    converse(&v4, fd, &peer);
    assert_int_equal(peer.family, FL_ADDR_V4); /* never as ::ffff:127.0.0.1 */
    if (has_ipv6()) {
        struct fl_addr v6 = addr("[::1]:1");
        v6.port = at.port;
        converse(&v6, fd, &peer);
        assert_int_equal(peer.family, FL_ADDR_V6);
    }
    close(fd);
}

static void test_unix(void **state)
{
    (void)state;
    char dir[] = "/tmp/test_sock.XXXXXX", text[64], path[48];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/s", dir);
    snprintf(text, sizeof(text), "unix:%s", path);
    struct fl_addr at, peer;
    int fd, second;
    listen_on(text, &at, &fd);
    assert_int_equal(at.family, FL_ADDR_UNIX);
    assert_string_equal(at.path, path);
    converse(&at, fd, &peer);
    assert_int_equal(peer.family, FL_ADDR_UNIX);
    assert_int_equal(fl_sock_listen(&at, 16, &second), -EADDRINUSE); /* somebody lives there */
    converse(&at, fd, &peer); /* and the probe has not taken his place in the queue */
    close(fd);
    assert_int_equal(fl_sock_connect(&at, 0, &second), -ECONNREFUSED);
    listen_on(text, &at, &fd); /* the stale file is replaced */
    converse(&at, fd, &peer);
    close(fd);
    assert_int_equal(unlink(path), 0);
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(fl_sock_listen(&at, 16, &second),
                     -EADDRINUSE); /* an ordinary file is not ours */
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    unlink(path);
    assert_int_equal(fl_sock_connect(&at, 0, &second), -ENOENT);
    rmdir(dir);
}

static void test_refused(void **state)
{
    (void)state;
    struct fl_addr at;
    int fd, client = -1;
    listen_on("127.0.0.1:0", &at, &fd);
    close(fd);
    int rc = fl_sock_connect(&at, 0, &client);
    if (rc == 0) { /* on loopback the refusal comes at once or with the writability */
        wait_for(client, POLLOUT);
        assert_int_equal(send_text(client, "x"), -ECONNREFUSED); /* the first send returns it */
        assert_int_equal(fl_sock_error(client), 0);              /* once */
        close(client);
    } else {
        assert_int_equal(rc, -ECONNREFUSED);
        assert_int_equal(client, -1);
    }
}

static void test_so_error(void **state)
{
    (void)state;
    struct fl_addr at;
    int fd, client = -1;
    listen_on("127.0.0.1:0", &at, &fd);
    close(fd);
    if (fl_sock_connect(&at, 0, &client) == 0) {
        wait_for(client, POLLOUT);
        assert_int_equal(fl_sock_error(client), -ECONNREFUSED);
        assert_int_equal(fl_sock_error(client), 0); /* cleared */
        close(client);
    }
    assert_int_equal(fl_sock_error(9999), -EBADF);
}

static void test_inherited_options(void **state)
{
    (void)state;
    struct fl_addr at;
    int fd, client;
    listen_on("127.0.0.1:0", &at, &fd);
    assert_int_equal(fl_sock_connect(&at, 4321, &client), 0);
    int server = accept_one(fd, NULL);
    assert_int_equal(int_option(server, IPPROTO_TCP, TCP_NODELAY), 1);
    assert_int_equal(int_option(server, IPPROTO_TCP, TCP_NOTSENT_LOWAT), 128 * 1024);
    assert_int_equal(int_option(server, SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_int_equal(int_option(server, IPPROTO_TCP, TCP_KEEPIDLE), 60);
    assert_int_equal(int_option(client, IPPROTO_TCP, TCP_NODELAY), 1);
    assert_int_equal(int_option(client, IPPROTO_TCP, TCP_USER_TIMEOUT), 4321);
    close(client);
    close(server);
    close(fd);
}

static void congestion(int fd, char *ret, socklen_t size)
{
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, ret, &size), 0);
}

static void test_nothing_is_paced_inside_a_machine(void **state)
{
    (void)state;
    struct fl_addr at;
    int fd, client, outside;
    char of_machine[16] = "", name[16] = "";
    outside = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    congestion(outside, of_machine, sizeof of_machine);
    listen_on("127.0.0.1:0", &at, &fd);
    assert_int_equal(fl_sock_connect(&at, 0, &client), 0);
    int server = accept_one(fd, NULL);
    int ours[2] = {client, server};
    for (unsigned i = 0; i < 2; i++) {
        congestion(ours[i], name, sizeof name);
        assert_string_equal(name, "reno");
        close(ours[i]);
    }
    close(fd);
    listen_on("0.0.0.0:0", &at,
              &fd); /* others may be far away: what the machine has chosen stays */
    congestion(fd, name, sizeof name);
    assert_string_equal(name, of_machine);
    close(fd);
    close(outside);
}

static void test_reset_on_close(void **state)
{
    (void)state;
    struct fl_addr at;
    int fd, client;
    char c;
    listen_on("127.0.0.1:0", &at, &fd);
    assert_int_equal(fl_sock_connect(&at, 0, &client), 0);
    int server = accept_one(fd, NULL);
    fl_sock_reset_on_close(server);
    close(server);
    wait_for(client, POLLIN);
    assert_int_equal(fl_sock_recv(client, &c, 1), -ECONNRESET);
    assert_int_equal(send_text(client, "x"), -EPIPE); /* and no SIGPIPE */
    close(client);
    close(fd);
}

static void test_full_send_buffer(void **state)
{
    (void)state;
    struct fl_addr at;
    int fd, client;
    static char junk[65536];
    listen_on("127.0.0.1:0", &at, &fd);
    assert_int_equal(fl_sock_connect(&at, 0, &client), 0);
    int server = accept_one(fd, NULL);
    struct iovec iov[2] = {{junk, sizeof(junk)}, {junk, sizeof(junk)}};
    size_t sent = 0, got = 0;
    ssize_t n;
    while ((n = fl_sock_sendv(client, iov, 2)) > 0) {
        sent += (size_t)n;
        assert_true(sent < ((size_t)1 << 30));
    }
    assert_int_equal(n, -EAGAIN);
    while (got < sent) {
        wait_for(server, POLLIN);
        n = fl_sock_recv(server, junk, sizeof(junk));
        assert_true(n > 0);
        got += (size_t)n;
    }
    assert_int_equal(fl_sock_recv(server, junk, sizeof(junk)), -EAGAIN);
    close(client);
    close(server);
    close(fd);
}

static void test_out_of_descriptors(void **state)
{
    (void)state;
    struct fl_addr at;
    int fd, client, spare[64], spares = 0, none;
    listen_on("127.0.0.1:0", &at, &fd);
    assert_int_equal(fl_sock_connect(&at, 0, &client), 0);
    wait_for(fd, POLLIN);
    struct rlimit old, tight = {(rlim_t)client + 8, (rlim_t)client + 8};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    tight.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    while (spares < 64 && (spare[spares] = dup(fd)) >= 0) {
        spares++;
    }
    int accepted = fl_sock_accept(fd, NULL), dialled = fl_sock_connect(&at, 0, &none);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    while (spares > 0) {
        close(spare[--spares]);
    }
    assert_int_equal(accepted, -EMFILE);
    assert_int_equal(dialled, -EMFILE);
    assert_true(fl_errno_is_local(-accepted));
    assert_false(fl_errno_is_local(ECONNREFUSED));
    int server = accept_one(fd, NULL); /* the connection still waits */
    close(server);
    close(client);
    close(fd);
}

static void test_bad_addresses(void **state)
{
    (void)state;
    struct fl_addr none = {.family = FL_ADDR_NONE}, foreign = addr("192.0.2.1:80");
    int fd = -1;
    assert_int_equal(fl_sock_listen(&none, 1, &fd), -EAFNOSUPPORT);
    assert_int_equal(fl_sock_connect(&none, 0, &fd), -EAFNOSUPPORT);
    assert_int_equal(fl_sock_listen(&foreign, 1, &fd), -EADDRNOTAVAIL);
    assert_int_equal(fd, -1);
    struct fl_addr at;
    int first;
    listen_on("127.0.0.1:0", &at, &first);
    assert_int_equal(fl_sock_listen(&at, 1, &fd), -EADDRINUSE);
    close(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v4),
        cmocka_unit_test(test_v6),
        cmocka_unit_test(test_dual_stack),
        cmocka_unit_test(test_unix),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_so_error),
        cmocka_unit_test(test_inherited_options),
        cmocka_unit_test(test_nothing_is_paced_inside_a_machine),
        cmocka_unit_test(test_reset_on_close),
        cmocka_unit_test(test_full_send_buffer),
        cmocka_unit_test(test_out_of_descriptors),
        cmocka_unit_test(test_bad_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
