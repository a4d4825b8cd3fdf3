/* script_kit - an HTTP server on loopback whose every byte the test decides, on the reactor of the
 * test itself. A request that is whole is given to the test's `asked`, which answers now, later, in
 * pieces, wrongly, or not at all. Included once per test binary. */
#ifndef FL_TESTS_UNIT_COMMON_IO_SCRIPT_KIT_H
#define FL_TESTS_UNIT_COMMON_IO_SCRIPT_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <cmocka.h>
#include <errno.h>

#include "common/base/addr.h"
#include "common/base/fmt.h"
#include "common/io/reactor.h"
#include "common/io/sock.h"

#define SCRIPT_HEAD_MAX 65536

struct script_conn {
    struct fl_io io;
    struct fl_list node;
    unsigned number; /* 1 … in the order of accepting */
    char in[SCRIPT_HEAD_MAX];
    size_t in_len;
    char *out; /* what the kernel did not take yet */
    size_t out_len;
    bool ends, gone;
    /* the request that is being answered */
    char method[16], target[4096], body[4096];
};

typedef void script_fn(struct script_conn *c);

static struct script {
    struct fl_reactor *reactor;
    struct fl_io listener;
    uint16_t port;
    struct fl_list conns;
    script_fn *asked;
    unsigned accepted, requests;
    char heads[64][4096]; /* of the last requests, by their number */
} script;

static inline void script_flush(struct script_conn *c)
{
    while (!c->gone && c->out_len > 0) {
        struct iovec iov = {c->out, c->out_len};
        ssize_t n = fl_sock_sendv(c->io.fd, &iov, 1);
        if (n == -EAGAIN) {
            return;
        }
        if (n < 0) {
            c->out_len = 0;
            break;
        }
        memmove(c->out, c->out + n, c->out_len - (size_t)n);
        c->out_len -= (size_t)n;
    }
    if (c->ends && !c->gone) {
        fl_reactor_close(script.reactor, &c->io);
        c->gone = true;
    }
}

static inline void script_bytes(struct script_conn *c, const void *bytes, size_t n)
{
    if (c->gone || n == 0) {
        return;
    }
    c->out = realloc(c->out, c->out_len + n);
    assert_non_null(c->out);
    memcpy(c->out + c->out_len, bytes, n);
    c->out_len += n;
    script_flush(c);
}

static inline void script_say(struct script_conn *c, const char *text)
{
    script_bytes(c, text, strlen(text));
}

/* One chunk of a chunked body. */
static inline void script_chunk(struct script_conn *c, const char *text)
{
    char size[32];
    (void)snprintf(size, sizeof(size), "%zx\r\n", strlen(text));
    script_say(c, size);
    script_say(c, text);
    script_say(c, "\r\n");
}

static inline void script_end(struct script_conn *c) /* closes when all is sent */
{
    c->ends = true;
    script_flush(c);
}

static inline void script_answer(struct script_conn *c, const char *status, const char *fields,
                                 const char *body)
{
    char head[1024];
    (void)snprintf(head, sizeof(head), "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\n\r\n", status,
                   fields, strlen(body));
    script_say(c, head);
    script_say(c, body);
}

static inline void script_copy(char *ret, size_t cap, struct fl_span from) /* cuts */
{
    struct fl_fmt f = fl_fmt_of(ret, cap);
    fl_fmt_span(&f, fl_span_first(from, cap - 1));
}

/* The value of a field of a request's head in `ret`; "" when it is not there. */
static inline const char *script_field(const char *head, const char *name, char *ret, size_t cap)
{
    size_t n = strlen(name);
    ret[0] = '\0';
    for (const char *at = strstr(head, "\r\n"); at != NULL; at = strstr(at + 2, "\r\n")) {
        if (strncasecmp(at + 2, name, n) == 0 && at[2 + n] == ':') {
            const char *end = strstr(at + 2, "\r\n");
            const char *value = at + 2 + n + 2; /* behind ": " */
            script_copy(
                ret, cap,
                (struct fl_span){value, end != NULL ? (size_t)(end - value) : strlen(value)});
        }
    }
    return ret;
}

/* Takes the request at the front of c->in when it is whole. */
static inline bool script_take(struct script_conn *c)
{
    char value[32];
    c->in[c->in_len] = '\0';
    char *end = strstr(c->in, "\r\n\r\n");
    if (end == NULL) {
        return false;
    }
    size_t head_len = (size_t)(end - c->in) + 4;
    char *head = script.heads[script.requests % FL_COUNTOF(script.heads)];
    script_copy(head, sizeof(script.heads[0]), (struct fl_span){c->in, head_len - 2});
    size_t body_len =
        (size_t)strtoul(script_field(head, "Content-Length", value, sizeof(value)), NULL, 10);
    assert_true(body_len < sizeof(c->body) && head_len + body_len < sizeof(c->in));
    if (c->in_len < head_len + body_len) {
        return false;
    }
    assert_int_equal(sscanf(c->in, "%15s %4095s", c->method, c->target), 2);
    memcpy(c->body, c->in + head_len, body_len);
    c->body[body_len] = '\0';
    c->in_len -= head_len + body_len;
    memmove(c->in, c->in + head_len + body_len, c->in_len);
    return true;
}

static inline void script_on_conn(struct fl_io *io, unsigned events)
{
    struct script_conn *c = fl_container_of(io, struct script_conn, io);
    (void)events;
    script_flush(c);
    while (!c->gone && c->in_len + 1 < sizeof(c->in)) {
        ssize_t n = fl_sock_recv(io->fd, c->in + c->in_len, sizeof(c->in) - 1 - c->in_len);
        if (n == -EAGAIN) {
            return;
        }
        if (n <= 0) {
            c->ends = true;
            c->out_len = 0;
            script_flush(c);
            return;
        }
        c->in_len += (size_t)n;
        while (!c->gone && script_take(c)) {
            script.requests++;
            script.asked(c);
        }
    }
}

static inline void script_on_listener(struct fl_io *io, unsigned events)
{
    int fd;
    (void)events;
    while ((fd = fl_sock_accept(io->fd, NULL)) >= 0) {
        struct script_conn *c = calloc(1, sizeof(*c));
        assert_non_null(c);
        c->io = (struct fl_io){.fd = -1, .on_event = script_on_conn};
        c->number = ++script.accepted;
        fl_list_append(&script.conns, &c->node);
        assert_int_equal(fl_reactor_add(script.reactor, &c->io, fd), 0);
    }
}

/* at_port 0: any. Again after script_stop with the port it had: a server that was restarted. */
static inline void script_listen(uint16_t at_port)
{
    struct fl_addr at = {.family = FL_ADDR_V4, .port = at_port, .ip = {127, 0, 0, 1}};
    int fd = -1;
    script.listener = (struct fl_io){.fd = -1, .on_event = script_on_listener};
    assert_int_equal(fl_sock_listen(&at, 64, &fd), 0);
    assert_int_equal(fl_sock_local(fd, &at), 0);
    script.port = at.port;
    assert_int_equal(fl_reactor_add_level(script.reactor, &script.listener, fd), 0);
}

static inline void script_stop(void)
{
    fl_reactor_close(script.reactor, &script.listener);
}

static inline void script_begin(struct fl_reactor *reactor, script_fn *asked)
{
    script.reactor = reactor;
    script.asked = asked;
    script.accepted = script.requests = 0;
    fl_list_init(&script.conns);
    script_listen(0);
}

static inline void script_done(void) /* the reactor is still there, and turns no more */
{
    script_stop();
    fl_list_each_safe (it, next, &script.conns) {
        struct script_conn *c = fl_container_of(it, struct script_conn, node);
        fl_reactor_close(script.reactor, &c->io);
        free(c->out);
        free(c);
    }
}

/* Turns until `what` says yes; fails after a long time. */
static inline void script_until(bool (*what)(void *arg), void *arg, const char *words)
{
    int64_t end_ms = fl_reactor_now_ms(script.reactor) + 30000;
    while (!what(arg)) {
        if (fl_reactor_now_ms(script.reactor) > end_ms) {
            fail_msg("never: %s", words);
        }
        fl_reactor_turn(script.reactor, 20);
    }
}

static inline void script_for(int64_t ms)
{
    int64_t end_ms = fl_reactor_now_ms(script.reactor) + ms;
    while (fl_reactor_now_ms(script.reactor) < end_ms) {
        fl_reactor_turn(script.reactor, 10);
    }
}

#endif
