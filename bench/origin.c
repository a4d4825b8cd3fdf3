/* origin - the server behind the proxies: an epoll responder with prepared answers, so that it is
 * never what is measured. GET and HEAD of /b/0 /b/1k /b/16k /b/1m /b/64m; PUT and POST take a body
 * (Content-Length or chunked), throw it away and answer 200; anything else is 404. Keep-alive,
 * pipelining, Expect: 100-continue. Bodies are the pattern of kit.h. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/kit.h"

enum { BATCH = 256, HEAD_BYTES = 16384, INCOMING_BYTES = 262144, LISTENERS = 64 };

struct answer {
    const char *path;
    size_t body_bytes, head_bytes;
    uint8_t *wire; /* head and body; made at the first request */
};

static struct answer answers[] = {
    {.path = "/b/0"},
    {.path = "/b/1k", .body_bytes = 1024},
    {.path = "/b/16k", .body_bytes = 16384},
    {.path = "/b/1m", .body_bytes = 1 << 20},
    {.path = "/b/64m", .body_bytes = 64 << 20},
};

enum chunk_state { CHUNK_SIZE, CHUNK_DATA, CHUNK_DATA_END, CHUNK_TRAILER };

struct conn {
    int fd; /* -1: closed, freed at the end of the batch */
    bool is_listener, readable, ended, close_after, taking_body, chunked;
    enum chunk_state chunk_state;
    uint64_t body_left; /* of the body, or of the chunk */
    size_t line_bytes;  /* of the current chunk or trailer line */
    const uint8_t *out;
    size_t out_left;
    struct conn *next; /* in the list of the dead */
    size_t head_bytes;
    char head[HEAD_BYTES + 1];
};

static int epoll;
static uint8_t incoming[INCOMING_BYTES];
static struct conn *dead;

static const char put_answer[] =
    "HTTP/1.1 200 OK\r\nServer: origin\r\nETag: \"9b2cf535f27731c974343645a3985328\"\r\n"
    "X-Amz-Request-Id: 17D4E1B2C3A4F506\r\nContent-Length: 0\r\n\r\n";
static const char missing_answer[] =
    "HTTP/1.1 404 Not Found\r\nServer: origin\r\nContent-Length: 0\r\n\r\n";
static const char bad_answer[] =
    "HTTP/1.1 400 Bad Request\r\nServer: origin\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
static const char continue_answer[] = "HTTP/1.1 100 Continue\r\n\r\n";

static void conn_close(struct conn *c)
{
    if (c->fd >= 0) {
        (void)close(c->fd);
        c->fd = -1;
        c->next = dead;
        dead = c;
    }
}

/* Sends what is left of the answer; false: it did not all go, or the connection is closed. */
static bool flush(struct conn *c)
{
    while (c->out_left > 0) {
        ssize_t n = send(c->fd, c->out, c->out_left, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno != EAGAIN) {
                conn_close(c);
            }
            return false;
        }
        c->out += n;
        c->out_left -= (size_t)n;
    }
    if (c->close_after) {
        conn_close(c);
        return false;
    }
    return true;
}

static bool reply(struct conn *c, const void *bytes, size_t n)
{
    c->out = bytes;
    c->out_left = n;
    return flush(c);
}

static struct answer *answer_for(const char *path, size_t n)
{
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct answer *a = &answers[i];
        if (strlen(a->path) != n || memcmp(a->path, path, n) != 0) {
            continue;
        }
        if (a->wire == NULL) {
            a->wire = malloc(1024 + a->body_bytes);
            if (a->wire == NULL) {
                fl_kit_die("out of memory");
            }
            a->head_bytes = (size_t)snprintf(
                (char *)a->wire, 1024,
                "HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
                "Content-Type: application/octet-stream\r\nLast-Modified: Wed, 31 Dec 2025 "
                "23:00:00 GMT\r\n"
                "ETag: \"9b2cf535f27731c974343645a3985328\"\r\nAccept-Ranges: bytes\r\nVary: "
                "Origin\r\n"
                "X-Amz-Request-Id: 17D4E1B2C3A4F506\r\nX-Amz-Id-2: "
                "dd9025bab4ad464b049177c95eb6ebf374d3b3fd1af9\r\n"
                "Strict-Transport-Security: max-age=31536000; includeSubDomains\r\n"
                "X-Content-Type-Options: nosniff\r\nX-Xss-Protection: 1; "
                "mode=block\r\nContent-Length: %zu\r\n\r\n",
                a->body_bytes);
            fl_kit_pattern(a->wire + a->head_bytes, a->body_bytes);
        }
        return a;
    }
    return NULL;
}

/* The value of a header in a head that is a string, or NULL. */
static const char *header(const char *head, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, n) == 0 && line[n] == ':') {
            return line + n + 1 + strspn(line + n + 1, " \t");
        }
    }
    return NULL;
}

/* Answers the request in `head`, a string, or starts to take its body. false: stop reading for now.
 */
static bool on_request(struct conn *c, const char *head)
{
    const char *connection = header(head, "connection");
    const char *path = strchr(head, ' ');
    size_t path_bytes = path != NULL ? strcspn(path + 1, " ?\r") : 0;
    c->close_after = connection != NULL && strncasecmp(connection, "close", 5) == 0;
    if (path == NULL) {
        c->close_after = true;
        return reply(c, bad_answer, sizeof(bad_answer) - 1);
    }
    path++;
    if (strncmp(head, "PUT ", 4) == 0 || strncmp(head, "POST ", 5) == 0) {
        const char *length = header(head, "content-length");
        const char *coding = header(head, "transfer-encoding");
        c->taking_body = true;
        c->chunked = coding != NULL && strncasecmp(coding, "chunked", 7) == 0;
        c->chunk_state = CHUNK_SIZE;
        c->line_bytes = 0;
        c->body_left = !c->chunked && length != NULL ? strtoull(length, NULL, 10) : 0;
        /* close_after waits for the final answer, hence send and not reply; 25 bytes always fit */
        if (header(head, "expect") != NULL &&
            send(c->fd, continue_answer, sizeof(continue_answer) - 1, MSG_NOSIGNAL) < 0) {
            conn_close(c);
            return false;
        }
        return true;
    }
    struct answer *a = answer_for(path, path_bytes);
    if (a == NULL) {
        return reply(c, missing_answer, sizeof(missing_answer) - 1);
    }
    return reply(c, a->wire,
                 strncmp(head, "HEAD ", 5) == 0 ? a->head_bytes : a->head_bytes + a->body_bytes);
}

static bool hex_digit(uint8_t byte, uint64_t *size)
{
    unsigned v;
    if (byte >= '0' && byte <= '9') {
        v = byte - (unsigned)'0';
    } else if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f') {
        v = (byte | 0x20u) - (unsigned)'a' + 10;
    } else {
        return false;
    }
    *size = *size * 16 + v;
    return true;
}

/* Takes bytes of a chunked body; how many it used. body_left is the size of the chunk. */
static size_t take_chunked(struct conn *c, const uint8_t *data, size_t n)
{
    size_t at = 0;
    while (at < n && c->taking_body) {
        if (c->chunk_state == CHUNK_DATA) {
            size_t len = n - at < c->body_left ? n - at : (size_t)c->body_left;
            c->body_left -= len;
            at += len;
            if (c->body_left == 0) {
                c->chunk_state = CHUNK_DATA_END;
            }
            continue;
        }
        uint8_t byte = data[at++];
        if (byte == '\n' && c->chunk_state == CHUNK_SIZE) {
            c->chunk_state = c->body_left > 0 ? CHUNK_DATA : CHUNK_TRAILER;
            c->line_bytes = 0;
        } else if (byte == '\n' && c->chunk_state == CHUNK_DATA_END) {
            c->chunk_state = CHUNK_SIZE;
        } else if (byte == '\n' && c->chunk_state == CHUNK_TRAILER) {
            c->taking_body = c->line_bytes > 0;
            c->line_bytes = 0;
        } else if (c->chunk_state == CHUNK_SIZE) {
            (void)hex_digit(byte, &c->body_left); /* proxies send no extensions */
        } else if (byte != '\r') {
            c->line_bytes++;
        }
    }
    return at;
}

/* Takes bytes of the body; how many it used. */
static size_t take_body(struct conn *c, const uint8_t *data, size_t n)
{
    if (c->chunked) {
        return take_chunked(c, data, n);
    }
    size_t len = n < c->body_left ? n : (size_t)c->body_left;
    c->body_left -= len;
    c->taking_body = c->body_left > 0;
    return len;
}

/* Serves what c->head holds; leaves an incomplete head there. */
static void serve(struct conn *c)
{
    size_t at = 0;
    while (c->fd >= 0 && c->out_left == 0) {
        if (c->taking_body) {
            at += take_body(c, (const uint8_t *)c->head + at, c->head_bytes - at);
            if (c->taking_body || !reply(c, put_answer, sizeof(put_answer) - 1)) {
                break;
            }
        }
        char *start = c->head + at;
        char *end = memmem(start, c->head_bytes - at, "\r\n\r\n", 4);
        if (end == NULL) {
            break;
        }
        at = (size_t)(end - c->head) + 4;
        end[2] = '\0';
        if (!on_request(c, start)) {
            break;
        }
    }
    memmove(c->head, c->head + at, c->head_bytes - at);
    c->head_bytes -= at;
    if (c->head_bytes == HEAD_BYTES && c->out_left == 0 && !c->taking_body) {
        c->close_after = true;
        (void)reply(c, bad_answer, sizeof(bad_answer) - 1);
    }
}

static void pull(struct conn *c)
{
    while (c->fd >= 0 && c->readable && c->out_left == 0) {
        bool straight = c->taking_body && c->head_bytes == 0;
        void *to = straight ? (void *)incoming : (void *)(c->head + c->head_bytes);
        size_t room = straight ? sizeof(incoming) : HEAD_BYTES - c->head_bytes;
        ssize_t n = recv(c->fd, to, room, 0);
        if (n < 0 && errno == EAGAIN) {
            c->readable = false;
            return;
        }
        if (n <= 0) {
            conn_close(c);
            return;
        }
        c->readable = (size_t)n == room || c->ended;
        if (!straight) {
            c->head_bytes += (size_t)n;
            serve(c);
            continue;
        }
        size_t used = take_body(c, incoming, (size_t)n);
        if (!c->taking_body) {
            c->head_bytes = (size_t)n - used; /* pipelined: at most one head's worth is kept */
            if (c->head_bytes > HEAD_BYTES) {
                fl_kit_die("more than %d bytes pipelined behind a body", HEAD_BYTES);
            }
            memcpy(c->head, incoming + used, c->head_bytes);
            if (reply(c, put_answer, sizeof(put_answer) - 1)) {
                serve(c);
            }
        }
    }
}

static void accept_all(struct conn *listener)
{
    int fd;
    while ((fd = fl_kit_accept(listener->fd)) >= 0) {
        struct conn *c = malloc(sizeof(*c));
        if (c == NULL) {
            fl_kit_die("out of memory");
        }
        memset(c, 0, offsetof(struct conn, head));
        c->fd = fd;
        fl_kit_watch(epoll, fd, c);
    }
}

static void on_event(struct conn *c, uint32_t events)
{
    if (c->is_listener) {
        accept_all(c);
        return;
    }
    if (c->fd < 0) {
        return;
    }
    c->ended = c->ended || (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    c->readable = c->readable || c->ended || (events & EPOLLIN) != 0;
    if (c->out_left > 0 && (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0 && flush(c)) {
        serve(c);
    }
    pull(c);
}

int main(int argc, char **argv)
{
    static struct conn listeners[LISTENERS];
    size_t count = 0;
    fl_kit_prepare_process();
    epoll = fl_kit_epoll();
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--listen") != 0 || i + 1 >= argc || count == LISTENERS) {
            fl_kit_die("usage: bench-origin --listen IP:PORT [--listen IP:PORT ...]");
        }
        struct conn *l = &listeners[count++];
        l->is_listener = true;
        l->fd = fl_kit_listen(argv[++i]);
        fl_kit_watch_listener(epoll, l->fd, l);
    }
    if (count == 0) {
        fl_kit_die("usage: bench-origin --listen IP:PORT [--listen IP:PORT ...]");
    }
    for (;;) {
        struct epoll_event events[BATCH];
        int n = epoll_wait(epoll, events, BATCH, -1);
        for (int i = 0; i < n; i++) {
            on_event(events[i].data.ptr, events[i].events);
        }
        while (dead != NULL) {
            struct conn *next = dead->next;
            free(dead);
            dead = next;
        }
    }
}
