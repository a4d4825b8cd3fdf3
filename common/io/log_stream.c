#include "common/io/log_stream.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static enum fl_log_how how_to_write(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0) {
        return FL_LOG_HOW_NONE;
    }
    if (S_ISSOCK(st.st_mode)) {
        return FL_LOG_HOW_SOCKET;
    }
    if (S_ISFIFO(st.st_mode)) {
        return FL_LOG_HOW_NOWAIT;
    }
    return isatty(fd) ? FL_LOG_HOW_POLL : FL_LOG_HOW_PLAIN;
}

int fl_log_out_init(struct fl_log_out *s, int fd)
{
    *s = (struct fl_log_out){.fd = fd, .how = how_to_write(fd)};
    void *buf =
        mmap(NULL, FL_LOG_STREAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buf == MAP_FAILED) {
        return -ENOMEM;
    }
    s->buf = buf;
    return 0;
}

void fl_log_out_done(struct fl_log_out *s)
{
    if (s->buf != NULL) {
        munmap(s->buf, FL_LOG_STREAM_BYTES);
        s->buf = NULL;
    }
}

static ssize_t write_nowait(struct fl_log_out *s, const char *p, size_t n)
{
    struct iovec iov = {(void *)(uintptr_t)p, n};
    ssize_t rc = pwritev2(s->fd, &iov, 1, -1, RWF_NOWAIT);
    if (rc < 0 && errno != EAGAIN && errno != EINTR && errno != EPIPE) {
        s->how = FL_LOG_HOW_POLL; /* an older kernel, or a filter of system calls */
        errno = EINTR;            /* again, that way */
    }
    return rc;
}

static ssize_t write_polled(const struct fl_log_out *s, const char *p, size_t n)
{
    struct pollfd ready = {.fd = s->fd, .events = POLLOUT};
    if (poll(&ready, 1, 0) == 0) {
        errno = EAGAIN;
        return -1;
    }
    return write(s->fd, p, n < PIPE_BUF ? n : PIPE_BUF);
}

static ssize_t write_some(struct fl_log_out *s, const char *p, size_t n)
{
    switch (s->how) {
    case FL_LOG_HOW_PLAIN:
        return write(s->fd, p, n);
    case FL_LOG_HOW_SOCKET:
        return send(s->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    case FL_LOG_HOW_NOWAIT:
        return write_nowait(s, p, n);
    case FL_LOG_HOW_POLL:
        return write_polled(s, p, n);
    case FL_LOG_HOW_NONE:
        break;
    }
    errno = EBADF;
    return -1;
}

static void lose_pending(struct fl_log_out *s)
{
    for (size_t i = s->begin; i < s->end; i++) {
        s->lost_lines += s->buf[i] == '\n';
    }
    s->begin = s->end = 0;
    s->stalled_ms = 0;
    s->full = false;
}

bool fl_log_out_flush(struct fl_log_out *s, int64_t now_ms)
{
    while (s->begin < s->end) {
        ssize_t n = write_some(s, s->buf + s->begin, s->end - s->begin);
        if (n > 0) {
            s->begin += (size_t)n;
            s->stalled_ms = 0;
            s->full = false;
            s->broken_ms = 0;
        } else if (n < 0 && errno == EAGAIN) {
            if (s->stalled_ms == 0) {
                s->stalled_ms = now_ms;
            }
            return false;
        } else if (n == 0 || errno != EINTR) { /* closed by the reader, disk full … */
            lose_pending(s);
            s->broken_ms = now_ms;
        }
    }
    s->begin = s->end = 0;
    return true;
}

void fl_log_out_compact(struct fl_log_out *s)
{
    if (s->begin > 0) {
        memmove(s->buf, s->buf + s->begin, s->end - s->begin);
        s->end -= s->begin;
        s->begin = 0;
    }
}
