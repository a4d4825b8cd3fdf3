#include "bench/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/kit.h"

enum { RECEIVE_BYTES = 262144 };

static uint8_t incoming[RECEIVE_BYTES];

void fl_client_init(struct fl_client *c, const struct fl_client_plan *plan,
                    struct fl_client_tally *tally, void (*on_done)(struct fl_client *c))
{
    memset(c, 0, sizeof(*c));
    c->plan = plan;
    c->tally = tally;
    c->on_done = on_done;
    c->fd = -1;
}

bool fl_client_connect(struct fl_client *c)
{
    if (c->fd >= 0) {
        return true;
    }
    int fd = fl_kit_dial(&c->plan->to);
    if (fd < 0) {
        return false;
    }
    if (c->plan->receive_buffer > 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &c->plan->receive_buffer,
                         sizeof(c->plan->receive_buffer));
    }
    c->fd = fd;
    c->readable = c->ended = false;
    c->tally->connects++;
    fl_kit_watch(c->plan->epoll, fd, c);
    return true;
}

void fl_client_close(struct fl_client *c)
{
    if (c->fd >= 0) {
        (void)close(c->fd);
        c->fd = -1;
    }
}

static void finish(struct fl_client *c, enum fl_client_fault fault)
{
    if (fault == FL_CLIENT_OK) {
        fl_hist_add(&c->tally->latency, (uint64_t)(fl_kit_now_ns() - c->start_ns) / 1000);
        c->tally->answers++;
    } else {
        c->tally->faults[fault]++;
    }
    if ((fault != FL_CLIENT_OK && fault != FL_CLIENT_STATUS) || c->close_after ||
        c->plan->new_connections) {
        fl_client_close(c);
    }
    c->busy = false;
    c->on_done(c);
}

static bool expected(const struct fl_client_plan *plan, unsigned status)
{
    for (size_t i = 0; i < 4 && plan->expect[i] != 0; i++) {
        if (plan->expect[i] == status) {
            return true;
        }
    }
    return false;
}

static void answered(struct fl_client *c)
{
    c->tally->status[c->status]++;
    finish(c, expected(c->plan, c->status) ? FL_CLIENT_OK : FL_CLIENT_STATUS);
}

static void push(struct fl_client *c)
{
    const struct fl_client_plan *plan = c->plan;
    while (c->sent < plan->request_bytes) {
        ssize_t n =
            send(c->fd, plan->request + c->sent, plan->request_bytes - c->sent, MSG_NOSIGNAL);
        if (n < 0) {
            /* An early answer may be waiting although the other side no longer reads: let the read
             * decide. */
            if (errno != EAGAIN && c->sent == 0) {
                finish(c, FL_CLIENT_CONNECT);
            }
            return;
        }
        c->sent += (size_t)n;
    }
}

void fl_client_start(struct fl_client *c, int64_t start_ns)
{
    c->busy = true;
    c->start_ns = start_ns;
    c->sent = c->head_bytes = 0;
    c->status = 0;
    c->got_bytes = c->close_after = false;
    if (!fl_client_connect(c)) {
        finish(c, FL_CLIENT_CONNECT);
        return;
    }
    push(c);
}

/* The value of a header in the head, or NULL. */
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

/* Reads status and framing out of c->head, a string. */
static enum fl_client_fault read_head(struct fl_client *c)
{
    if (strncmp(c->head, "HTTP/1.", 7) != 0 || strlen(c->head) < 12) {
        return FL_CLIENT_FRAMING;
    }
    unsigned long status = strtoul(c->head + 9, NULL, 10);
    const char *length = header(c->head, "content-length");
    const char *connection = header(c->head, "connection");
    if (status < 100 || status > 599) {
        return FL_CLIENT_FRAMING;
    }
    c->status = (unsigned)status;
    c->close_after =
        c->head[7] == '0' || (connection != NULL && strncasecmp(connection, "close", 5) == 0);
    c->body_at = 0;
    c->body_left = length != NULL ? strtoull(length, NULL, 10) : 0;
    bool without = c->plan->is_head || status == 204 || status == 304;
    if (length == NULL && !without && status >= 200) {
        return FL_CLIENT_FRAMING; /* nothing in this benchmark sends chunked or until-close answers
                                   */
    }
    if (status / 100 == 2 && c->plan->body_bytes != UINT64_MAX && !without &&
        c->body_left != c->plan->body_bytes) {
        return FL_CLIENT_BODY;
    }
    if (without) {
        c->body_left = 0;
    }
    return FL_CLIENT_OK;
}

static bool body_is_right(struct fl_client *c, const uint8_t *data, size_t n)
{
    static uint8_t pattern[FL_KIT_PATTERN_BYTES];
    if (pattern[0] == 0) {
        fl_kit_pattern(pattern, sizeof(pattern));
    }
    for (size_t done = 0; done < n;) {
        size_t at = (size_t)((c->body_at + done) % FL_KIT_PATTERN_BYTES);
        size_t len = n - done < FL_KIT_PATTERN_BYTES - at ? n - done : FL_KIT_PATTERN_BYTES - at;
        if (memcmp(data + done, pattern + at, len) != 0) {
            return false;
        }
        done += len;
    }
    return true;
}

static void take_body(struct fl_client *c, const uint8_t *data, size_t n)
{
    if (n > c->body_left) {
        finish(c, FL_CLIENT_BODY);
        return;
    }
    if (c->plan->verify && c->status / 100 == 2 && !body_is_right(c, data, n)) {
        finish(c, FL_CLIENT_BODY);
        return;
    }
    c->tally->bytes += n;
    c->body_at += n;
    c->body_left -= n;
    if (c->body_left == 0) {
        answered(c);
    }
}

/* Bytes before the head is complete: collects them, and passes on what follows the head. */
static void take_head(struct fl_client *c, const uint8_t *data, size_t n)
{
    size_t room = sizeof(c->head) - 1 - c->head_bytes;
    size_t take = n < room ? n : room;
    size_t before = c->head_bytes;
    memcpy(c->head + before, data, take);
    c->head_bytes += take;
    const char *end = memmem(c->head, c->head_bytes, "\r\n\r\n", 4);
    if (end == NULL) {
        if (take < n) {
            finish(c, FL_CLIENT_FRAMING);
        }
        return;
    }
    size_t head = (size_t)(end - c->head) + 4;
    size_t used = head - before; /* of data */
    c->head[head - 2] = '\0';
    enum fl_client_fault fault = read_head(c);
    if (fault != FL_CLIENT_OK) {
        finish(c, fault);
        return;
    }
    c->head_bytes = 0;
    if (c->status < 200) {
        c->status = 0; /* 100: the final head follows */
        if (used < n) {
            take_head(c, data + used, n - used);
        }
        return;
    }
    take_body(c, data + used, n - used);
}

static void pull(struct fl_client *c)
{
    uint64_t allowance = c->plan->read_at_most > 0 ? c->plan->read_at_most : UINT64_MAX;
    while (c->fd >= 0 && c->readable && allowance > 0) {
        size_t want = allowance < sizeof(incoming) ? (size_t)allowance : sizeof(incoming);
        ssize_t n = recv(c->fd, incoming, want, 0);
        if (n < 0 && errno == EAGAIN) {
            c->readable = false;
            return;
        }
        if (n <= 0) {
            if (!c->busy) {
                fl_client_close(c);
            } else {
                finish(c, c->sent == 0 ? FL_CLIENT_CONNECT : FL_CLIENT_CLOSED);
            }
            return;
        }
        allowance -= (uint64_t)n;
        c->readable = (size_t)n == want || c->ended;
        c->got_bytes = true;
        if (!c->busy) {
            fl_client_close(c); /* nobody asked: an answer too long or a second one */
            c->tally->faults[FL_CLIENT_FRAMING]++;
        } else if (c->status == 0) {
            take_head(c, incoming, (size_t)n);
        } else {
            take_body(c, incoming, (size_t)n);
        }
    }
}

void fl_client_event(struct fl_client *c, uint32_t events)
{
    if (c->fd < 0) {
        return;
    }
    c->ended = c->ended || (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    if ((events & EPOLLOUT) != 0 && c->busy && c->sent < c->plan->request_bytes) {
        push(c);
    }
    if (c->fd >= 0 && (c->ended || (events & EPOLLIN) != 0)) {
        c->readable = true;
        if (c->plan->read_at_most == 0 || !c->busy) {
            pull(c);
        }
    }
}

void fl_client_read_more(struct fl_client *c)
{
    if (c->fd >= 0) {
        pull(c);
    }
}

void fl_client_expire(struct fl_client *c)
{
    if (c->busy) {
        finish(c, FL_CLIENT_TIMEOUT);
    }
}
