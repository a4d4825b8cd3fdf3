#include "tests/sim/relay.h"

#include <errno.h>
#include <stdlib.h>

#include "common/io/sock.h"

#define BUF_BYTES 4096

struct leg { /* one socket, and the bytes read from it that the other has not taken */
    struct fl_io io;
    struct pair *pair;
    bool readable, writable, eof, finished;
    size_t at, len;
    char buf[BUF_BYTES];
};

struct pair {
    struct relay *relay;
    struct fl_task free_task;
    struct leg leg[2]; /* client, origin */
};

static void free_pair(struct fl_task *t)
{
    free(fl_container_of(t, struct pair, free_task));
}

static void end_pair(struct pair *p, bool reset)
{
    for (int i = 0; i < 2; i++) {
        if (reset && p->leg[i].io.fd >= 0) {
            fl_sock_reset_on_close(p->leg[i].io.fd);
        }
        fl_reactor_close(p->relay->r, &p->leg[i].io);
    }
    p->relay->open--;
    fl_reactor_later(p->relay->r, &p->free_task);
}

/* Moves bytes from a to b until one of them says stop. False: broken. */
static bool copy(struct leg *a, struct leg *b)
{
    for (;;) {
        while (a->len > 0 && b->writable) {
            struct iovec iov = {a->buf + a->at, a->len};
            ssize_t n = fl_sock_sendv(b->io.fd, &iov, 1);
            if (n < 0 && n != -EAGAIN) {
                return false;
            }
            n = n < 0 ? 0 : n;
            b->writable = (size_t)n == a->len; /* a short write: an edge will come */
            a->at += (size_t)n;
            a->len -= (size_t)n;
        }
        if (a->len > 0) {
            return true;
        }
        if (a->eof && !b->finished) {
            b->finished = true;
            fl_sock_finish(b->io.fd);
        }
        if (a->eof || !a->readable) {
            return true;
        }
        ssize_t n = fl_sock_recv(a->io.fd, a->buf, BUF_BYTES);
        if (n < 0 && n != -EAGAIN) {
            return false;
        }
        a->eof = n == 0;
        a->at = 0;
        a->len = n > 0 ? (size_t)n : 0;
        if (n == -EAGAIN) {
            a->readable = false;
        }
    }
}

static void on_leg(struct fl_io *io, unsigned events)
{
    struct leg *leg = fl_container_of(io, struct leg, io);
    struct pair *p = leg->pair;
    leg->readable = leg->readable || (events & (FL_IO_READ | FL_IO_HUP | FL_IO_ERROR));
    leg->writable = leg->writable || (events & FL_IO_WRITE);
    if (!copy(&p->leg[0], &p->leg[1]) || !copy(&p->leg[1], &p->leg[0])) {
        end_pair(p, true);
    } else if (p->leg[0].finished && p->leg[1].finished) {
        end_pair(p, false);
    }
}

static void on_client(struct fl_io *io, unsigned events)
{
    struct relay *relay = fl_container_of(io, struct relay, io);
    (void)events;
    int fd = fl_sock_accept(io->fd, NULL), up = -1;
    if (fd < 0) {
        return;
    }
    struct pair *p = calloc(1, sizeof(*p));
    FL_MUST(p != NULL);
    p->relay = relay;
    fl_task_init(&p->free_task, free_pair);
    for (int i = 0; i < 2; i++) {
        p->leg[i].pair = p;
        p->leg[i].io = (struct fl_io){.fd = -1, .on_event = on_leg};
    }
    relay->open++;
    FL_MUST(fl_reactor_add(relay->r, &p->leg[0].io, fd) == 0);
    if (fl_sock_connect(&relay->to, 0, &up) < 0) {
        end_pair(p, true);
    } else {
        FL_MUST(fl_reactor_add(relay->r, &p->leg[1].io, up) == 0);
    }
}

void relay_open(struct relay *relay, struct fl_reactor *r, struct fl_addr at, struct fl_addr to)
{
    int fd = -1;
    *relay = (struct relay){.io = {.fd = -1, .on_event = on_client}, .r = r, .to = to};
    FL_MUST(fl_sock_listen(&at, 512, &fd) == 0);
    FL_MUST(fl_reactor_add_level(r, &relay->io, fd) == 0);
}

void relay_close(struct relay *relay)
{
    fl_reactor_close(relay->r, &relay->io);
}
