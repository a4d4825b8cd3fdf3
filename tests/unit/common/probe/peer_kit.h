/* peer_kit - the other side of a probe: a listener in the test's own thread, whose connections the
 * test reads and answers by hand between the reactor's turns. Include once per binary, after
 * cmocka. */
#ifndef FL_TESTS_PROBE_PEER_KIT_H
#define FL_TESTS_PROBE_PEER_KIT_H

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/io/reactor.h"
#include "common/io/sock.h"

#define PEER_CONNECTIONS 8

static struct peer {
    int listen_fd, accepted;
    struct fl_addr at;
    char text[FL_ADDR_TEXT_MAX];
    struct {
        int fd;     /* -1: closed by us */
        bool ended; /* the other side has closed */
        char got[16384];
        size_t len;
    } conn[PEER_CONNECTIONS];
} peer;

static struct fl_reactor *reactor;

static void peer_listen(int backlog)
{
    struct fl_addr any;
    memset(&peer, 0, sizeof(peer));
    assert_true(fl_addr_parse(FL_SPAN("127.0.0.1:0"), &any));
    assert_int_equal(fl_sock_listen(&any, backlog, &peer.listen_fd), 0);
    assert_int_equal(fl_sock_local(peer.listen_fd, &peer.at), 0);
    struct fl_fmt f = fl_fmt_of(peer.text, sizeof(peer.text));
    fl_addr_print(&peer.at, &f);
}

static void peer_end(int i)
{
    if (peer.conn[i].fd >= 0) {
        close(peer.conn[i].fd);
        peer.conn[i].fd = -1;
    }
}

static inline void peer_reset(int i)
{
    fl_sock_reset_on_close(peer.conn[i].fd);
    peer_end(i);
}

static void peer_close(void)
{
    for (int i = 0; i < peer.accepted; i++) {
        peer_end(i);
    }
    if (peer.listen_fd >= 0) {
        close(peer.listen_fd);
    }
    peer.listen_fd = -1;
}

static void peer_step(void)
{
    int fd;
    while (peer.listen_fd >= 0 && (fd = fl_sock_accept(peer.listen_fd, NULL)) >= 0) {
        assert_in_range(peer.accepted, 0, PEER_CONNECTIONS - 1);
        peer.conn[peer.accepted++].fd = fd;
    }
    for (int i = 0; i < peer.accepted; i++) {
        size_t room = sizeof(peer.conn[i].got) - 1 - peer.conn[i].len;
        ssize_t n = peer.conn[i].fd >= 0 && room > 0
                        ? fl_sock_recv(peer.conn[i].fd, peer.conn[i].got + peer.conn[i].len, room)
                        : -EAGAIN;
        peer.conn[i].len += n > 0 ? (size_t)n : 0;
        peer.conn[i].ended |= n == 0 || (n < 0 && n != -EAGAIN);
    }
}

static void turn_ms(int64_t ms)
{
    int64_t end_ms = fl_reactor_now_ms(reactor) + ms;
    do {
        fl_reactor_turn(reactor, 1);
        peer_step();
    } while (fl_reactor_now_ms(reactor) < end_ms);
}

/* Turns until *flag is at least that, at most 3 s. */
static void turn_until(const unsigned *count, unsigned want)
{
    int64_t end_ms = fl_reactor_now_ms(reactor) + 3000;
    while (*count < want && fl_reactor_now_ms(reactor) < end_ms) {
        fl_reactor_turn(reactor, 1);
        peer_step();
    }
    assert_int_equal(*count, want);
}

/* Until connection i has sent a whole head; it is then forgotten, returned as text. */
static inline const char *peer_hear(int i)
{
    static char head[16384];
    int64_t end_ms = fl_reactor_now_ms(reactor) + 3000;
    while (peer.accepted <= i || strstr(peer.conn[i].got, "\r\n\r\n") == NULL) {
        assert_true(fl_reactor_now_ms(reactor) < end_ms);
        fl_reactor_turn(reactor, 1);
        peer_step();
    }
    memcpy(head, peer.conn[i].got, sizeof(head));
    memset(peer.conn[i].got, 0, sizeof(peer.conn[i].got));
    peer.conn[i].len = 0;
    return head;
}

static inline void peer_say(int i, const char *text)
{
    const char *at = text, *end = text + strlen(text);
    while (at < end) {
        struct iovec iov = {(char *)(uintptr_t)at, (size_t)(end - at)};
        ssize_t n = fl_sock_sendv(peer.conn[i].fd, &iov, 1);
        if (n == -EAGAIN) {
            fl_reactor_turn(reactor, 1);
            continue;
        }
        if (n < 0) { /* closed by the other side, as some tests want it */
            return;
        }
        at += n;
    }
}

#endif
