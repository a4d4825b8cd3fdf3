/* push_sink - one listener that stands in the place of many sidecars, whatever their number: it
 * takes pushes at every local address, and writes down when each came, and what it said.
 * Usage: fairlead-push-sink PORT FOLDER. "ready" on stdout when it listens.
 *
 *   FOLDER/pushes   a line each: CLOCK_MONOTONIC ns of its last byte, address, number of its body
 *   FOLDER/bodies   a line for each different body, in the order of their numbers, from 0
 *
 * Nothing is verified and every push is accepted; like a sidecar it ends connections that rest. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/kit.h"

#define BATCH      256
#define ROOM_FIRST ((size_t)32 << 10)
#define IDLE_NS    (INT64_C(5000) * 1000000)
#define KNOWN_MAX  ((size_t)1 << 20) /* bodies */

struct connection {
    int fd;
    char address[INET_ADDRSTRLEN]; /* the one that was connected to */
    int64_t used_ns;
    struct connection *next, **at; /* of all; the latest use first */
    size_t got, head, want;        /* bytes so far; of the head; in all, 0: unknown yet */
    size_t cap;
    char *bytes;
};

struct known { /* a body, by its digest field */
    uint64_t digest, number;
    bool taken;
};

static struct connection *connections;
static struct known *known;
static uint64_t bodies_count;
static FILE *pushes, *bodies;

static void unlink_connection(struct connection *c)
{
    *c->at = c->next;
    if (c->next != NULL) {
        c->next->at = c->at;
    }
}

static void link_first(struct connection *c)
{
    c->next = connections;
    c->at = &connections;
    if (connections != NULL) {
        connections->at = &c->next;
    }
    connections = c;
}

static void end(struct connection *c)
{
    unlink_connection(c);
    close(c->fd);
    free(c->bytes);
    free(c);
}

/* A field of the head, which ends with a NUL: behind the colon; NULL: not there. */
static const char *field(const struct connection *c, const char *name)
{
    const char *at = strcasestr(c->bytes, name);
    return at != NULL && at < c->bytes + c->head ? at + strlen(name) : NULL;
}

static uint64_t fnv(const char *text, size_t n)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (uint8_t)text[i]) * UINT64_C(1099511628211);
    }
    return h;
}

static uint64_t number_of_body(const struct connection *c)
{
    const char *digest = field(c, "\r\ncontent-digest:");
    const char *body = c->bytes + c->head;
    size_t n = c->want - c->head;
    uint64_t key = digest != NULL ? fnv(digest, strcspn(digest, "\r")) : fnv(body, n);
    size_t at = key % KNOWN_MAX;
    while (known[at].taken && known[at].digest != key) {
        at = (at + 1) % KNOWN_MAX;
    }
    if (!known[at].taken) {
        if (bodies_count == KNOWN_MAX / 2) {
            fl_kit_die("too many bodies");
        }
        known[at] = (struct known){key, bodies_count++, true};
        if (memchr(body, '\n', n) != NULL || fwrite(body, 1, n, bodies) != n ||
            fputc('\n', bodies) < 0 || fflush(bodies) != 0) {
            fl_kit_die("a body could not be written");
        }
    }
    return known[at].number;
}

static void take_push(struct connection *c)
{
    char out[512], text[96];
    long long epoch = 0, seq = 0;
    c->used_ns = fl_kit_now_ns();
    if (sscanf(c->bytes + c->head, "{\"epoch\":%lld,\"seq\":%lld", &epoch, &seq) != 2) {
        fl_kit_die("a body that does not begin as a state");
    }
    (void)fprintf(pushes, "%" PRId64 " %s %" PRIu64 "\n", c->used_ns, c->address,
                  number_of_body(c));
    int n = snprintf(text, sizeof(text),
                     "{\"epoch\":%lld,\"seq\":%lld,\"hash\":\"0000000000000000\"", epoch, seq);
    n = snprintf(out, sizeof(out),
                 "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n"
                 "%s,\"observations\":[]}",
                 (size_t)n + strlen(",\"observations\":[]}"), text);
    c->got = c->head = c->want = 0; /* nobody pipelines */
    unlink_connection(c);
    link_first(c);
    if (send(c->fd, out, (size_t)n, MSG_NOSIGNAL) != n) {
        end(c);
    }
}

static void look_at_head(struct connection *c)
{
    const char *stop = memmem(c->bytes, c->got, "\r\n\r\n", 4);
    if (stop == NULL) {
        return;
    }
    c->head = (size_t)(stop - c->bytes) + 4;
    const char *length = field(c, "\r\ncontent-length:");
    if (length == NULL) {
        fl_kit_die("a push without Content-Length");
    }
    c->want = c->head + strtoul(length, NULL, 10);
}

static void read_from(struct connection *c)
{
    for (;;) {
        if (c->got + 1 >= c->cap || c->want + 1 > c->cap) {
            c->cap = (c->want > c->cap ? c->want : c->cap) * 2;
            c->bytes = realloc(c->bytes, c->cap);
        }
        ssize_t n = recv(c->fd, c->bytes + c->got, c->cap - 1 - c->got, 0);
        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n <= 0) {
            end(c);
            return;
        }
        c->got += (size_t)n;
        c->bytes[c->got] = '\0';
        if (c->want == 0) {
            look_at_head(c);
        }
        if (c->want > 0 && c->got >= c->want) {
            take_push(c);
            return; /* edge-triggered: the next push makes a new edge */
        }
    }
}

static void accept_from(int epoll, int listener)
{
    for (int fd; (fd = fl_kit_accept(listener)) >= 0;) {
        struct sockaddr_in here;
        socklen_t len = sizeof(here);
        struct connection *c = calloc(1, sizeof(*c));
        c->cap = ROOM_FIRST;
        c->bytes = malloc(c->cap);
        c->fd = fd;
        c->used_ns = fl_kit_now_ns();
        if (getsockname(fd, (struct sockaddr *)(void *)&here, &len) < 0 ||
            inet_ntop(AF_INET, &here.sin_addr, c->address, sizeof(c->address)) == NULL) {
            fl_kit_die("getsockname: %s", strerror(errno));
        }
        link_first(c);
        fl_kit_watch(epoll, fd, c);
    }
}

static void end_idle(void)
{
    int64_t before = fl_kit_now_ns() - IDLE_NS;
    for (struct connection *c = connections, *next; c != NULL; c = next) {
        next = c->next;
        if (c->used_ns < before && c->got == 0) {
            end(c);
        }
    }
}

static FILE *file_in(const char *folder, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "we");
    if (f == NULL) {
        fl_kit_die("%s: %s", path, strerror(errno));
    }
    return f;
}

int main(int argc, char **argv)
{
    char address[32];
    if (argc != 3) {
        fl_kit_die("usage: fairlead-push-sink PORT FOLDER");
    }
    fl_kit_prepare_process();
    known = calloc(KNOWN_MAX, sizeof(*known));
    pushes = file_in(argv[2], "pushes");
    bodies = file_in(argv[2], "bodies");
    (void)snprintf(address, sizeof(address), "0.0.0.0:%s", argv[1]);
    int epoll = fl_kit_epoll(), listener = fl_kit_listen(address);
    fl_kit_watch_listener(epoll, listener, NULL);
    (void)puts("ready");
    (void)fflush(stdout);
    for (;;) {
        struct epoll_event batch[BATCH];
        int n = epoll_wait(epoll, batch, BATCH, 20);
        for (int i = 0; i < n; i++) {
            if (batch[i].data.ptr == NULL) {
                accept_from(epoll, listener);
            } else {
                read_from(batch[i].data.ptr);
            }
        }
        if (n < BATCH) { /* no event of this batch is left for whom it ends */
            end_idle();
            (void)fflush(pushes);
        }
    }
}
