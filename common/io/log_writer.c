#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/io/log_ring.h"
#include "common/io/log_stream.h"
#include "common/io/thread.h"

#define STACK_BYTES  ((size_t)128 * 1024)
#define NAP_MS       50
#define BATCH_BYTES  16384
#define STUCK_MS     250  /* a stream that takes nothing for so long stops holding back its rings */
#define BROKEN_MS    1000 /* before another try to write to a stream whose reader is gone */
#define DRAIN_MS     1000
#define STREAM_COUNT 2

struct fl_log_writer {
    struct fl_log_bell bell;
    struct fl_log_ring *rings;
    struct fl_log_out out[STREAM_COUNT];
    struct fl_log_out *out_of[STREAM_COUNT];
    void (*watch)(void *arg, enum fl_log_stream s, struct fl_span line);
    void *watch_arg;
    _Atomic uint64_t discarded;
    _Atomic bool stopping;
    bool running;
    pthread_t thread;
};

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000 +
           1; /* above 0, which means never here */
}

/* Two names of one pipe or terminal (2>&1) share a buffer, so that no line ends up inside another.
 */
static bool is_same_file(int a, int b)
{
    struct stat sa, sb;
    return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

int fl_log_writer_new(struct fl_log_writer **ret, int stdout_fd, int stderr_fd)
{
    struct fl_log_writer *w = calloc(1, sizeof(*w));
    if (w == NULL) {
        return -ENOMEM;
    }
    int rc = fl_log_out_init(&w->out[FL_LOG_STDOUT], stdout_fd);
    if (rc == 0) {
        rc = fl_log_out_init(&w->out[FL_LOG_STDERR], stderr_fd);
    }
    if (rc == 0) {
        w->bell.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        rc = w->bell.wake_fd < 0 ? -errno : 0;
    }
    if (rc < 0) {
        fl_log_out_done(&w->out[FL_LOG_STDOUT]);
        fl_log_out_done(&w->out[FL_LOG_STDERR]);
        free(w);
        return rc;
    }
    w->out_of[FL_LOG_STDOUT] = &w->out[FL_LOG_STDOUT];
    w->out_of[FL_LOG_STDERR] =
        &w->out[is_same_file(stdout_fd, stderr_fd) ? FL_LOG_STDOUT : FL_LOG_STDERR];
    *ret = w;
    return 0;
}

struct fl_log_ring *fl_log_ring_new(struct fl_log_writer *w, size_t bytes)
{
    FL_MUST(!w->running);
    struct fl_log_ring *ring = fl_log_ring_map(&w->bell, bytes);
    if (ring != NULL) {
        ring->next = w->rings;
        w->rings = ring;
    }
    return ring;
}

void fl_log_writer_watch(struct fl_log_writer *w,
                         void (*fn)(void *arg, enum fl_log_stream s, struct fl_span line),
                         void *arg)
{
    FL_MUST(!w->running);
    w->watch = fn;
    w->watch_arg = arg;
}

void fl_log_writer_listen(struct fl_log_writer *w, bool on)
{
    atomic_store_explicit(&w->bell.watched, on, memory_order_relaxed);
}

uint64_t fl_log_dropped(const struct fl_log_writer *w)
{
    uint64_t sum = atomic_load_explicit(&w->discarded, memory_order_relaxed);
    for (const struct fl_log_ring *ring = w->rings; ring != NULL; ring = ring->next) {
        sum += atomic_load_explicit(&ring->dropped, memory_order_relaxed);
    }
    return sum;
}

static void discard(struct fl_log_writer *w, uint64_t lines)
{
    atomic_fetch_add_explicit(&w->discarded, lines, memory_order_relaxed);
}

static bool flush(struct fl_log_writer *w, struct fl_log_out *s, int64_t now)
{
    bool all = fl_log_out_flush(s, now);
    if (s->lost_lines > 0) {
        discard(w, s->lost_lines);
        s->lost_lines = 0;
    }
    return all;
}

static bool format(struct fl_log_writer *w, struct fl_log_out *s, const struct fl_log_record *rec)
{
    if (FL_LOG_STREAM_BYTES - s->end < 2) {
        return false;
    }
    struct fl_fmt f = fl_fmt_of(s->buf + s->end, FL_LOG_STREAM_BYTES - s->end);
    rec->format(rec + 1, rec->size, &f);
    if (f.cut) {
        return false;
    }
    s->end += f.len;
    if (w->watch != NULL) {
        w->watch(w->watch_arg, (enum fl_log_stream)rec->stream, (struct fl_span){f.base, f.len});
    }
    return true;
}

enum put { PUT_DONE, PUT_DROPPED, PUT_WAIT };

/* The free end of stdout's buffer is where its line is made, and left. */
static enum put show(struct fl_log_writer *w, const struct fl_log_record *rec, int64_t now)
{
    struct fl_log_out *s = &w->out[FL_LOG_STDOUT];
    size_t end = s->end;
    bool shown = format(w, s, rec);
    if (!shown && fl_log_out_pending(s)) {
        flush(w, s, now);
        fl_log_out_compact(s);
        end = s->end;
        shown = format(w, s, rec);
    }
    s->end = end;
    return shown ? PUT_DONE : PUT_DROPPED;
}

static enum put put(struct fl_log_writer *w, const struct fl_log_record *rec, int64_t now)
{
    if (rec->stream == FL_LOG_WATCHERS) {
        return show(w, rec, now);
    }
    struct fl_log_out *s = w->out_of[rec->stream];
    if (s->how == FL_LOG_HOW_NONE || (s->broken_ms != 0 && now - s->broken_ms < BROKEN_MS)) {
        return PUT_DROPPED;
    }
    if (!s->full && !format(w, s, rec)) {
        if (s->end == 0) {
            return PUT_DROPPED; /* longer than a line may be */
        }
        flush(w, s, now);
        fl_log_out_compact(s);
        s->full = !format(w, s, rec);
        if (s->full && s->end == 0) {
            s->full = false;
            return PUT_DROPPED;
        }
    }
    if (s->full) {
        bool stuck = s->stalled_ms != 0 && now - s->stalled_ms >= STUCK_MS;
        return stuck ? PUT_DROPPED : PUT_WAIT;
    }
    if (s->end - s->begin >= BATCH_BYTES && s->stalled_ms == 0) {
        flush(w, s, now);
    }
    return PUT_DONE;
}

struct round {
    bool took, more, held_back;
};

static void drain_ring(struct fl_log_writer *w, struct fl_log_ring *ring, int64_t now,
                       struct round *round)
{
    const struct fl_log_record *rec;
    uint64_t budget = ring->cap; /* a ring that never gets empty must not keep the others waiting */
    while ((rec = fl_log_ring_peek(ring)) != NULL) {
        if (budget == 0) {
            round->more = true;
            return;
        }
        switch (put(w, rec, now)) {
        case PUT_DONE:
            break;
        case PUT_DROPPED:
            discard(w, 1);
            break;
        case PUT_WAIT:
            round->held_back = true;
            return;
        }
        uint64_t size = sizeof(*rec) + rec->size;
        budget -= size < budget ? size : budget;
        fl_log_ring_take(ring, rec);
        round->took = true;
    }
}

static struct round drain(struct fl_log_writer *w, int64_t now)
{
    struct round round = {false, false, false};
    for (struct fl_log_ring *ring = w->rings; ring != NULL; ring = ring->next) {
        drain_ring(w, ring, now, &round);
    }
    for (int i = 0; i < STREAM_COUNT; i++) {
        flush(w, &w->out[i], now);
    }
    return round;
}

void fl_log_writer_drain(struct fl_log_writer *w)
{
    FL_MUST(!w->running);
    while (drain(w, now_ms()).more) {
    }
}

static bool is_idle(struct fl_log_writer *w)
{
    for (struct fl_log_ring *ring = w->rings; ring != NULL; ring = ring->next) {
        if (!fl_log_ring_empty(ring)) {
            return false;
        }
    }
    return true;
}

/* Naps after work, so that under load a wake serves many lines; sleeps only when every ring is
 * empty. */
static void doze(struct fl_log_writer *w, struct round round, bool stopping)
{
    int timeout_ms = stopping ? 5 : NAP_MS;
    if (!stopping &&
        !round.held_back) { /* held back: no producer can help, only the reader or time */
        atomic_store(&w->bell.doze, round.took ? FL_LOG_NAP : FL_LOG_SLEEP);
        if (!round.took) {
            timeout_ms = is_idle(w) ? -1 : 0;
        }
    }
    struct pollfd fds[1 + STREAM_COUNT] = {{.fd = w->bell.wake_fd, .events = POLLIN}};
    nfds_t count = 1;
    for (int i = 0; i < STREAM_COUNT; i++) {
        if (fl_log_out_pending(&w->out[i])) {
            fds[count++] = (struct pollfd){.fd = w->out[i].fd, .events = POLLOUT};
        }
    }
    (void)poll(fds, count, timeout_ms);
    atomic_store(&w->bell.doze, FL_LOG_AWAKE);
    if (fds[0].revents != 0) {
        uint64_t wakes;
        (void)!read(w->bell.wake_fd, &wakes, sizeof(wakes));
    }
}

static void *run(void *arg)
{
    struct fl_log_writer *w = arg;
    int64_t give_up_ms = 0;
    for (;;) {
        bool stopping = atomic_load(&w->stopping);
        int64_t now = now_ms();
        struct round round = drain(w, now);
        if (stopping) {
            bool pending = fl_log_out_pending(&w->out[0]) || fl_log_out_pending(&w->out[1]);
            give_up_ms = give_up_ms == 0 ? now + DRAIN_MS : give_up_ms;
            if ((!pending && is_idle(w)) || now >= give_up_ms) {
                return NULL;
            }
        }
        if (!round.more && !(stopping && round.took)) {
            doze(w, round, stopping);
        }
    }
}

int fl_log_writer_start(struct fl_log_writer *w)
{
    FL_MUST(!w->running);
    int rc = fl_thread_start(&w->thread, STACK_BYTES, run, w);
    w->running = rc == 0;
    return rc;
}

static void run_here(struct fl_log_writer *w)
{
    sigset_t pipe_only, before;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    run(w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void fl_log_writer_stop(struct fl_log_writer *w)
{
    if (w == NULL) {
        return;
    }
    atomic_store(&w->stopping, true);
    if (w->running) {
        uint64_t one = 1;
        (void)!write(w->bell.wake_fd, &one, sizeof(one));
        struct timespec limit;
        clock_gettime(CLOCK_REALTIME, &limit);
        limit.tv_sec += 2 * DRAIN_MS / 1000;
        if (pthread_timedjoin_np(w->thread, NULL, &limit) != 0) {
            return; /* caught in a write (a terminal, a dead disk): the process ends without it */
        }
    } else {
        run_here(w);
    }
    for (struct fl_log_ring *ring = w->rings, *next; ring != NULL; ring = next) {
        next = ring->next;
        fl_log_ring_unmap(ring);
    }
    fl_log_out_done(&w->out[FL_LOG_STDOUT]);
    fl_log_out_done(&w->out[FL_LOG_STDERR]);
    close(w->bell.wake_fd);
    free(w);
}
