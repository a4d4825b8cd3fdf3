#include "bench/push_receivers.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/kit.h"

#define BATCH      256
#define HEAD_MAX   4096
#define ANSWER_MAX ((size_t)1 << 20)

struct peer { /* a listener, or a connection to one */
    bool listens;
    int fd;
    uint32_t receiver;
    int64_t used_ns;
    struct peer *next, **at; /* of connections, oldest use last */
    size_t got, head, want;  /* bytes so far; of the head with its blank line; in all. 0: unknown */
    size_t cap;
    char *bytes;
};

static struct fl_receivers *shared;
static struct peer *connections;
static char answer[ANSWER_MAX];
static int epoll_fd;

void fl_receivers_address(const struct fl_receivers *r, uint32_t i, char *text, size_t cap)
{
    uint32_t n = i + 1;
    (void)snprintf(text, cap, "127.%u.%u.%u:%u", 1 + n / 62500, n / 250 % 250, 1 + n % 250,
                   (unsigned)r->port);
}

static void link_first(struct peer *p)
{
    p->next = connections;
    p->at = &connections;
    if (connections != NULL) {
        connections->at = &p->next;
    }
    connections = p;
}

static void unlink_peer(struct peer *p)
{
    *p->at = p->next;
    if (p->next != NULL) {
        p->next->at = p->at;
    }
}

static void end(struct peer *p)
{
    unlink_peer(p);
    close(p->fd);
    free(p->bytes);
    free(p);
}

static void answer_to(struct peer *p)
{
    static char pair[64], head[128];
    static size_t fixed; /* observations are the same in every answer */
    char *body = answer + sizeof(head) + sizeof(pair);
    if (fixed == 0) {
        size_t cap = ANSWER_MAX - sizeof(head) - sizeof(pair);
        fixed = (size_t)snprintf(body, cap, ",\"hash\":\"0000000000000000\",\"observations\":[");
        for (uint32_t i = 0; i < shared->observations && fixed < cap - 512; i++) {
            fixed += (size_t)snprintf(
                body + fixed, cap - fixed,
                "%s{\"backend\":\"service-00\",\"peer\":\"10.0.%u.%u:9000\",\"code\":\"healthy\","
                "\"cause\":\"\",\"since\":1796031525000,\"failures\":0,"
                "\"requests\":%u}",
                i ? "," : "", i / 250, 1 + i % 250, 1000 + i);
        }
        fixed += (size_t)snprintf(body + fixed, cap - fixed, "]}");
    }
    long long epoch = 0, seq = 0;
    if (sscanf(p->bytes + p->head, "{\"epoch\":%lld,\"seq\":%lld", &epoch, &seq) != 2) {
        fl_kit_die("a body that does not begin as a state");
    }
    int m = snprintf(pair, sizeof(pair), "{\"epoch\":%lld,\"seq\":%lld", epoch, seq);
    int n =
        snprintf(head, sizeof(head),
                 "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                 (size_t)m + fixed);
    char *at = body - n - m;
    memcpy(at, head, (size_t)n);
    memcpy(at + n, pair, (size_t)m);
    size_t len = (size_t)n + (size_t)m + fixed;
    if (send(p->fd, at, len, MSG_NOSIGNAL) != (ssize_t)len) {
        end(p); /* far below any send buffer: the other side is gone */
    }
}

static void take_push(struct peer *p)
{
    const char *body = p->bytes + p->head;
    const char *mark =
        memmem(body, p->want - p->head, FL_RECEIVERS_MARK, sizeof(FL_RECEIVERS_MARK) - 1);
    unsigned hi = 0, lo = 0;
    if (mark != NULL && sscanf(mark, FL_RECEIVERS_MARK "%u.%u", &hi, &lo) == 2 &&
        hi * 250 + lo < shared->changes) {
        int64_t *to = &shared->arrived_ns[(size_t)(hi * 250 + lo) * shared->count + p->receiver];
        *to = *to ? *to : fl_kit_now_ns();
    }
    shared->pushes++;
    shared->bytes += p->want;
    p->used_ns = fl_kit_now_ns();
    unlink_peer(p);
    link_first(p);
    p->got -= p->want; /* nobody pipelines */
    p->want = 0;
    answer_to(p);
}

static void look_at_head(struct peer *p)
{
    const char *stop = memmem(p->bytes, p->got, "\r\n\r\n", 4);
    if (stop == NULL) {
        return;
    }
    *(char *)(uintptr_t)stop = '\0';
    const char *length = strcasestr(p->bytes, "\r\ncontent-length:");
    *(char *)(uintptr_t)stop = '\r';
    if (length == NULL) {
        fl_kit_die("a push without Content-Length");
    }
    p->head = (size_t)(stop - p->bytes) + 4;
    p->want = p->head + strtoul(length + 17, NULL, 10);
    if (p->want + 1 > p->cap) {
        p->cap = p->want + 1;
        p->bytes = realloc(p->bytes, p->cap);
    }
}

static void read_from(struct peer *p)
{
    for (;;) {
        ssize_t n = recv(p->fd, p->bytes + p->got, p->cap - 1 - p->got, 0);
        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n <= 0) {
            end(p);
            return;
        }
        p->got += (size_t)n;
        p->bytes[p->got] = '\0';
        if (p->want == 0) {
            look_at_head(p);
        }
        if (p->want > 0 && p->got >= p->want) {
            take_push(p);
            return; /* edge-triggered: the next request makes a new edge */
        }
    }
}

static void accept_from(const struct peer *listener)
{
    for (int fd; (fd = fl_kit_accept(listener->fd)) >= 0;) {
        struct peer *p = calloc(1, sizeof(*p));
        p->cap = HEAD_MAX * 8;
        p->bytes = malloc(p->cap);
        p->fd = fd;
        p->receiver = listener->receiver;
        p->used_ns = fl_kit_now_ns();
        link_first(p);
        shared->connections++;
        fl_kit_watch(epoll_fd, fd, p);
    }
}

static void end_idle(void)
{
    int64_t before = fl_kit_now_ns() - shared->idle_ms * 1000000;
    for (struct peer *p = connections, *next; p != NULL; p = next) {
        next = p->next;
        if (p->used_ns < before && p->got == 0) {
            end(p);
        }
    }
}

static _Noreturn void serve(int ready)
{
    struct epoll_event batch[BATCH];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    epoll_fd = fl_kit_epoll();
    for (uint32_t i = 0; i < shared->count; i++) {
        char text[64];
        struct peer *p = calloc(1, sizeof(*p));
        fl_receivers_address(shared, i, text, sizeof(text));
        p->listens = true;
        p->receiver = i;
        p->fd = fl_kit_listen(text);
        fl_kit_watch_listener(epoll_fd, p->fd, p);
    }
    (void)!write(ready, "", 1);
    for (;;) {
        int n = epoll_wait(epoll_fd, batch, BATCH, 500);
        for (int i = 0; i < n; i++) {
            struct peer *p = batch[i].data.ptr;
            if (p->listens) {
                accept_from(p);
            } else {
                read_from(p);
            }
        }
        if (n < BATCH) { /* no event of this batch is left for whom it ends */
            end_idle();
        }
    }
}

pid_t fl_receivers_start(struct fl_receivers *r)
{
    int ready[2];
    char byte;
    shared = r;
    if (pipe(ready) < 0) {
        fl_kit_die("pipe: %s", strerror(errno));
    }
    pid_t child = fork();
    if (child < 0) {
        fl_kit_die("fork: %s", strerror(errno));
    }
    if (child == 0) {
        close(ready[0]);
        serve(ready[1]);
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1) {
        fl_kit_die("the receivers did not start");
    }
    close(ready[0]);
    return child;
}
