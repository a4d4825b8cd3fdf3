/* relay - the floor of the benchmark: the least a proxy between two sockets can do, so no proxy can
 * cost less. One thread; each client connection is paired with one upstream connection (a pooled
 * one when there is one); bytes go recv, send, recv, send without looking at them. Registered once,
 * edge-triggered, short-read rule, no epoll_ctl later; unpaced, as Fairlead on loopback. With
 * --splice, a direction that has filled a read goes on by splice(2) until the other side speaks.
 *
 * Since it does not parse, it cannot know whether an upstream connection is between two answers. It
 * takes the client leaving after the upstream spoke last as a sign of that, which holds for the
 * load generator of this benchmark. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/kit.h"

enum { BATCH = 256, PIPE_BYTES = 1 << 20, STREAM_FROM_BYTES = 16384 };

struct side {
    int fd; /* -1: closed */
    bool is_listener;
    bool is_upstream, readable, ended, spoke_last, streaming;
    struct side *other; /* NULL: an idle pooled upstream */
    struct side *next;  /* in the pool, or in the list of the dead */
    struct side *next_queued;
    bool queued;
    uint8_t *pending; /* bytes from the other side that did not fit into fd; buffer_bytes long */
    size_t pending_at, pending_bytes;
    int pipe[2]; /* bytes from the other side; -1: none yet */
    size_t in_pipe;
};

static int epoll;
static struct sockaddr_in upstream_address;
static size_t buffer_bytes = 61440;
static bool use_splice;
static uint8_t *buffer;
static struct side *pool;
static uint64_t
    turn_chunks; /* moves of one direction in a row before the others get their turn; 0: no limit */
static struct side *queue; /* directions whose turn was over */
static struct side *dead;  /* freed at the end of a batch, which may hold more events for them */

static struct side *side_new(int fd, bool is_upstream)
{
    struct side *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        fl_kit_die("out of memory");
    }
    s->fd = fd;
    s->is_upstream = is_upstream;
    s->pipe[0] = s->pipe[1] = -1;
    fl_kit_watch(epoll, fd, s);
    return s;
}

static void side_close(struct side *s)
{
    if (s->fd < 0) {
        return;
    }
    (void)close(s->fd);
    s->fd = -1;
    if (s->pipe[0] >= 0) {
        (void)close(s->pipe[0]);
        (void)close(s->pipe[1]);
    }
    free(s->pending);
    s->pending = NULL;
    s->next = dead;
    dead = s;
}

static void pool_remove(struct side *s)
{
    for (struct side **p = &pool; *p != NULL; p = &(*p)->next) {
        if (*p == s) {
            *p = s->next;
            return;
        }
    }
}

/* Ends the pair; keeps the upstream when the client left between two answers. */
static void pair_end(struct side *s)
{
    struct side *up = s->is_upstream ? s : s->other;
    struct side *client = s->is_upstream ? s->other : s;
    bool keep = s == client && up->spoke_last && up->pending_bytes == 0 && up->in_pipe == 0 &&
                client->pending_bytes == 0 && client->in_pipe == 0;
    up->other = NULL;
    side_close(client);
    if (keep) {
        up->next = pool;
        pool = up;
    } else {
        side_close(up);
    }
}

/* false: the pair is broken. */
static bool flush(struct side *to)
{
    while (to->pending_bytes > 0) {
        ssize_t n = send(to->fd, to->pending + to->pending_at, to->pending_bytes, MSG_NOSIGNAL);
        if (n < 0) {
            return errno == EAGAIN;
        }
        to->pending_at += (size_t)n;
        to->pending_bytes -= (size_t)n;
    }
    while (to->in_pipe > 0) {
        ssize_t n =
            splice(to->pipe[0], NULL, to->fd, NULL, to->in_pipe, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (n < 0) {
            return errno == EAGAIN;
        }
        to->in_pipe -= (size_t)n;
    }
    return true;
}

static bool forward(struct side *to, size_t bytes)
{
    ssize_t n = send(to->fd, buffer, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) {
        return false;
    }
    size_t sent = n > 0 ? (size_t)n : 0;
    if (sent < bytes) {
        if (to->pending == NULL && (to->pending = malloc(buffer_bytes)) == NULL) {
            fl_kit_die("out of memory");
        }
        memcpy(to->pending, buffer + sent, bytes - sent);
        to->pending_at = 0;
        to->pending_bytes = bytes - sent;
    }
    return true;
}

/* One splice into the pipe of `to`. Bytes moved, 0 at the end of the stream, -errno. */
static ssize_t splice_in(struct side *from, struct side *to)
{
    if (to->pipe[0] < 0) {
        if (pipe2(to->pipe, O_NONBLOCK | O_CLOEXEC) < 0) {
            return -errno;
        }
        (void)fcntl(to->pipe[1], F_SETPIPE_SZ, PIPE_BYTES);
    }
    ssize_t n =
        splice(from->fd, NULL, to->pipe[1], NULL, PIPE_BYTES, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n > 0) {
        to->in_pipe += (size_t)n;
    }
    return n >= 0 ? n : -errno;
}

/* Moves what there is from `from` to its other side; `more`: an edge said that there is something.
 */
static void pump(struct side *from, bool more)
{
    struct side *to = from->other;
    from->readable = from->readable || more;
    for (uint64_t chunks = 1;; chunks++) {
        if (!flush(to)) {
            pair_end(from);
            return;
        }
        if (!from->readable || to->pending_bytes > 0 || to->in_pipe > 0) {
            return; /* the write edge of `to` comes back here */
        }
        if (turn_chunks > 0 && chunks > turn_chunks) {
            if (!from->queued) {
                from->queued = true;
                from->next_queued = queue;
                queue = from;
            }
            return;
        }
        bool spliced = from->streaming;
        ssize_t n = spliced ? splice_in(from, to) : recv(from->fd, buffer, buffer_bytes, 0);
        if (n <= 0) {
            int err = spliced ? (int)-n : errno;
            if (n == 0 || err != EAGAIN) {
                pair_end(from);
                return;
            }
            from->readable = false;
            return;
        }
        from->spoke_last = true;
        to->spoke_last = false;
        to->streaming = false;
        if (!spliced) {
            from->readable = (size_t)n == buffer_bytes || from->ended;
            from->streaming = use_splice && n >= STREAM_FROM_BYTES;
            if (!forward(to, (size_t)n)) {
                pair_end(from);
                return;
            }
        }
    }
}

static void accept_all(struct side *listener)
{
    int fd;
    while ((fd = fl_kit_accept(listener->fd)) >= 0) {
        struct side *up = pool;
        if (up != NULL) {
            pool = up->next;
        } else {
            int ufd = fl_kit_dial(&upstream_address);
            if (ufd < 0) {
                (void)close(fd);
                continue;
            }
            fl_kit_unpaced(ufd);
            up = side_new(ufd, true);
        }
        struct side *client = side_new(fd, false);
        up->next = NULL;
        client->other = up;
        up->other = client;
    }
}

static void on_event(struct side *s, uint32_t events)
{
    if (s->is_listener) {
        accept_all(s);
        return;
    }
    if (s->fd < 0) {
        return;
    }
    if (s->other == NULL) {
        if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
            pool_remove(s);
            side_close(s);
        }
        return;
    }
    /* A short read clears readable, and no further edge would tell of the end that RDHUP announced
     * with the bytes. */
    s->ended = s->ended || (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    if ((events & EPOLLOUT) != 0 && (s->pending_bytes > 0 || s->in_pipe > 0)) {
        pump(s->other, false);
    }
    if (s->fd >= 0 && s->other != NULL && (s->ended || (events & EPOLLIN) != 0)) {
        pump(s, true);
    }
}

static void run_queue(void)
{
    struct side *s = queue;
    queue = NULL;
    while (s != NULL) {
        struct side *next = s->next_queued;
        s->queued = false;
        if (s->fd >= 0 && s->other != NULL) {
            pump(s, false);
        }
        s = next;
    }
}

static void usage(void)
{
    fl_kit_die("usage: bench-relay --listen IP:PORT --to IP:PORT [--buffer BYTES] [--turn CHUNKS] "
               "[--splice]");
}

int main(int argc, char **argv)
{
    const char *listen_on = NULL;
    const char *to = NULL;
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--splice") == 0) {
            use_splice = true;
        } else if (strcmp(argv[i], "--listen") == 0 && more) {
            listen_on = argv[++i];
        } else if (strcmp(argv[i], "--to") == 0 && more) {
            to = argv[++i];
        } else if (strcmp(argv[i], "--buffer") == 0 && more) {
            buffer_bytes = (size_t)fl_kit_number(argv[++i]);
        } else if (strcmp(argv[i], "--turn") == 0 && more) {
            turn_chunks = fl_kit_number(argv[++i]);
        } else {
            usage();
        }
    }
    if (listen_on == NULL || to == NULL || buffer_bytes < 4096 || buffer_bytes > (64 << 20)) {
        usage();
    }
    fl_kit_prepare_process();
    upstream_address = fl_kit_address(to);
    buffer = malloc(buffer_bytes);
    if (buffer == NULL) {
        fl_kit_die("out of memory");
    }
    epoll = fl_kit_epoll();
    struct side listener = {.fd = fl_kit_listen(listen_on), .is_listener = true};
    fl_kit_unpaced(listener.fd);
    fl_kit_watch_listener(epoll, listener.fd, &listener);
    for (;;) {
        struct epoll_event events[BATCH];
        int n = epoll_wait(epoll, events, BATCH, queue != NULL ? 0 : -1);
        for (int i = 0; i < n; i++) {
            on_event(events[i].data.ptr, events[i].events);
        }
        run_queue();
        while (dead != NULL) {
            struct side *next = dead->next;
            free(dead);
            dead = next;
        }
    }
}
