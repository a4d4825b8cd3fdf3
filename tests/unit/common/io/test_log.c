#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/rng.h"
#include "common/io/log.h"
#include "common/io/log_ring.h"
#include "common/io/log_stream.h"

static int64_t real_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* --- event lines --- */

static int64_t fixed_wall(void *arg)
{
    (void)arg;
    return INT64_C(1796013751123);
}

struct bench {
    struct fl_log_writer *w;
    struct fl_log_ring *ring;
    struct fl_log log;
    int out[2], err[2]; /* pipes: [0] is ours */
};

static void bench_open(struct bench *b, size_t ring_bytes)
{
    assert_int_equal(pipe2(b->out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(b->err, O_CLOEXEC), 0);
    assert_int_equal(fl_log_writer_new(&b->w, b->out[1], b->err[1]), 0);
    b->ring = fl_log_ring_new(b->w, ring_bytes);
    assert_non_null(b->ring);
    b->log = (struct fl_log){.ring = b->ring, .level = FL_LOG_INFO, .wall_ms = fixed_wall};
}

static void bench_close(struct bench *b)
{
    for (int i = 0; i < 2; i++) {
        close(b->out[i]);
        close(b->err[i]);
    }
}

/* Everything that is in the pipe until the text is long enough or 3 s have passed. */
static size_t read_some(int fd, char *into, size_t cap, size_t want)
{
    size_t got = 0;
    int64_t until = real_ms() + 3000;
    while (got < want && got < cap - 1 && real_ms() < until) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 50) > 0) {
            ssize_t n = read(fd, into + got, cap - 1 - got);
            if (n <= 0) {
                break;
            }
            got += (size_t)n;
        }
    }
    into[got] = '\0';
    return got;
}

static void test_event_line(void **state)
{
    (void)state;
    struct bench b;
    struct fl_log_line l;
    char text[4096];
    bench_open(&b, 16384);
    fl_log_begin(&b.log, &l, FL_LOG_WARN, "upstream \"x\"\n");
    fl_log_text(&l, "peer", "10.0.0.1:9000");
    fl_log_str(&l, "cause", FL_SPAN("a\tb"));
    fl_log_int(&l, "fails", -3);
    fl_log_secs(&l, "downtime", 1234567);
    fl_log_text(&l, "none", NULL);
    fl_log_end(&b.log, &l);
    fl_log_begin(&b.log, &l, FL_LOG_DEBUG, "filtered");
    assert_false(l.on);
    fl_log_int(&l, "n", 1); /* touches nothing */
    fl_log_end(&b.log, &l);
    fl_log_writer_stop(b.w); /* never started: stop writes what is there */
    static const char want[] =
        "{\"ts\":\"2026-11-30T04:42:31.123Z\",\"level\":\"warn\",\"msg\":\"upstream \\\"x\\\"\\n\","
        "\"peer\":\"10.0.0.1:9000\",\"cause\":\"a\\tb\",\"fails\":-3,\"downtime\":1.235,\"none\":"
        "\"\"}\n";
    read_some(b.err[0], text, sizeof(text), sizeof(want) - 1);
    assert_string_equal(text, want);
    bench_close(&b);
}

static void test_event_line_too_long(void **state)
{
    (void)state;
    struct bench b;
    struct fl_log_line l;
    char text[8192], big[5000];
    for (size_t i = 0; i + 1 < sizeof(big); i += 2) {
        memcpy(big + i, "\xc3\xa9", 2); /* é: a cut must not break it */
    }
    bench_open(&b, 16384);
    fl_log_begin(&b.log, &l, FL_LOG_ERROR, "m");
    fl_log_str(&l, "big", (struct fl_span){big, sizeof(big)});
    for (int i = 0; i < 200; i++) {
        fl_log_int(&l, "n", i);
    }
    fl_log_end(&b.log, &l);
    fl_log_writer_stop(b.w);
    size_t n = read_some(b.err[0], text, sizeof(text), 1500);
    assert_in_range(n, 1000, sizeof(l.text));
    assert_non_null(strstr(text, "\xc3\xa9...\",\"n\":0,"));
    assert_memory_equal(text + n - 13, ",\"cut\":true}\n", 13);
    assert_null(strstr(text, "\\u00")); /* no half sequence */
    bench_close(&b);
}

static void test_level_names(void **state)
{
    (void)state;
    assert_string_equal(fl_log_level_name(FL_LOG_ERROR), "error");
    assert_string_equal(fl_log_level_name(FL_LOG_WARN), "warn");
    assert_string_equal(fl_log_level_name(FL_LOG_INFO), "info");
    assert_string_equal(fl_log_level_name(FL_LOG_DEBUG), "debug");
}

static void test_straight_to_stderr(void **state)
{
    (void)state;
    int p[2], saved = dup(STDERR_FILENO);
    char text[512];
    assert_int_equal(pipe(p), 0);
    dup2(p[1], STDERR_FILENO);
    struct fl_log log = {.level = FL_LOG_INFO};
    struct fl_log_line l;
    fl_log_begin(&log, &l, FL_LOG_INFO, "boot");
    fl_log_end(&log, &l);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(p[1]);
    read_some(p[0], text, sizeof(text), sizeof(text) - 1);
    assert_non_null(strstr(text, "\"level\":\"info\",\"msg\":\"boot\"}\n"));
    close(p[0]);
}

/* --- the ring --- */

static void no_format(const void *record, size_t len, struct fl_fmt *out)
{
    (void)record;
    (void)len;
    (void)out;
}

static uint64_t bell_rings(int fd)
{
    uint64_t n = 0;
    (void)!read(fd, &n, sizeof(n));
    return n;
}

static void put_record(struct fl_log_ring *ring, size_t size)
{
    void *p = fl_log_reserve(ring, FL_LOG_STDOUT, no_format, size);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 8, 0);
    memset(p, 0x5a, size);
    fl_log_commit(ring, size);
}

static void test_bell(void **state)
{
    (void)state;
    struct fl_log_bell bell = {.wake_fd = eventfd(0, EFD_NONBLOCK)};
    struct fl_log_ring *ring = fl_log_ring_map(&bell, 4096);
    put_record(ring, 100);
    assert_int_equal(bell_rings(bell.wake_fd), 0); /* awake */
    bell.doze = FL_LOG_SLEEP;
    put_record(ring, 100);
    put_record(ring, 100);
    assert_int_equal(bell_rings(bell.wake_fd), 1); /* once, not once a record */
    assert_int_equal(bell.doze, FL_LOG_AWAKE);
    bell.doze = FL_LOG_NAP;
    while (ring->head <= 2048 - 200) {
        put_record(ring, 100);
    }
    assert_int_equal(bell_rings(bell.wake_fd), 0);
    put_record(ring, 200);
    put_record(ring, 200);
    assert_int_equal(bell_rings(bell.wake_fd), 1); /* half full */
    fl_log_ring_unmap(ring);
    close(bell.wake_fd);
}

static void test_full_ring_drops(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 4096);
    int taken = 0;
    void *p;
    while ((p = fl_log_reserve(b.ring, FL_LOG_STDOUT, no_format, 48)) != NULL) {
        fl_log_commit(b.ring, 48);
        taken++;
        assert_true(taken < 1000);
    }
    assert_int_equal(taken, 4096 / 64);
    assert_int_equal(fl_log_dropped(b.w), 1);
    assert_null(fl_log_reserve(b.ring, FL_LOG_STDOUT, no_format, 1));
    assert_null(fl_log_reserve(b.ring, FL_LOG_STDOUT, no_format, SIZE_MAX));
    assert_null(fl_log_reserve(b.ring, FL_LOG_STDOUT, no_format, 4096));
    assert_int_equal(fl_log_dropped(b.w), 4);
    fl_log_writer_stop(b.w);
    bench_close(&b);
}

/* A record that is reserved and not committed leaves no trace; commit shortens. */
static void test_reserve_without_commit(void **state)
{
    (void)state;
    struct fl_log_bell bell = {.wake_fd = -1};
    struct fl_log_ring *ring = fl_log_ring_map(&bell, 4096);
    assert_non_null(fl_log_reserve(ring, FL_LOG_STDOUT, no_format, 500));
    assert_true(fl_log_ring_empty(ring));
    char *p = fl_log_reserve(ring, FL_LOG_STDERR, no_format, 500);
    memcpy(p, "abc", 3);
    fl_log_commit(ring, 3);
    const struct fl_log_record *rec = fl_log_ring_peek(ring);
    assert_non_null(rec);
    assert_int_equal(rec->size, 3);
    assert_int_equal(rec->stream, FL_LOG_STDERR);
    assert_memory_equal(rec + 1, "abc", 3);
    fl_log_ring_take(ring, rec);
    assert_null(fl_log_ring_peek(ring));
    assert_int_equal(ring->tail, 24);
    fl_log_ring_unmap(ring);
}

/* At low rates only the first page of the ring is touched. */
static void test_idle_ring_stays_small(void **state)
{
    (void)state;
    struct fl_log_bell bell = {.wake_fd = -1};
    struct fl_log_ring *ring = fl_log_ring_map(&bell, 65536);
    for (int i = 0; i < 10000; i++) {
        put_record(ring, (size_t)(i * 37 % 600));
        const struct fl_log_record *rec = fl_log_ring_peek(ring);
        assert_non_null(rec);
        assert_in_range((const unsigned char *)rec - ring->base, 0, 4095);
        fl_log_ring_take(ring, rec);
    }
    fl_log_ring_unmap(ring);
}

/* … which does not use up the rest of it: from every offset a burst finds the whole ring. */
static void test_burst_after_a_pause(void **state)
{
    (void)state;
    struct fl_log_bell bell = {.wake_fd = -1};
    struct fl_log_ring *ring = fl_log_ring_map(&bell, 65536);
    for (unsigned pause = 1; pause < 40; pause++) {
        for (unsigned i = 0; i < pause; i++) {
            put_record(ring, 200);
            fl_log_ring_take(ring, fl_log_ring_peek(ring));
        }
        for (unsigned i = 0; i < 7; i++) { /* 7 of 8000 bytes, without a look of the writer */
            put_record(ring, 8000);
        }
        assert_int_equal(atomic_load(&ring->dropped), 0);
        for (unsigned i = 0; i < 7; i++) {
            const struct fl_log_record *rec = fl_log_ring_peek(ring);
            assert_non_null(rec);
            assert_int_equal(rec->size, 8000);
            fl_log_ring_take(ring, rec);
        }
        assert_null(fl_log_ring_peek(ring));
        assert_true(fl_log_ring_empty(ring));
    }
    fl_log_ring_unmap(ring);
}

enum { RACE_RECORDS = 200000 };

static void *race_producer(void *arg)
{
    struct fl_log_ring *ring = arg;
    struct fl_rng rng;
    fl_rng_seed(&rng, 7);
    for (uint32_t i = 0; i < RACE_RECORDS;) {
        size_t size = 4 + fl_rng_below(&rng, 300);
        unsigned char *p;
        while ((p = fl_log_reserve(ring, FL_LOG_STDOUT, no_format, size)) == NULL) {
            sched_yield();
        }
        memset(p, (int)(i & 0xff), size);
        memcpy(p, &i, 4);
        fl_log_commit(ring, size);
        i++;
    }
    return NULL;
}

/* Two threads, every wrap position: each record arrives once, in order and whole. */
static void test_ring_race(void **state)
{
    (void)state;
    struct fl_log_bell bell = {.wake_fd = -1};
    struct fl_log_ring *ring = fl_log_ring_map(&bell, 8192);
    pthread_t th;
    assert_int_equal(pthread_create(&th, NULL, race_producer, ring), 0);
    struct fl_rng rng;
    fl_rng_seed(&rng, 7);
    for (uint32_t i = 0; i < RACE_RECORDS; i++) {
        const struct fl_log_record *rec;
        while ((rec = fl_log_ring_peek(ring)) == NULL) {
            sched_yield();
        }
        uint32_t id;
        const unsigned char *p = (const unsigned char *)(rec + 1);
        memcpy(&id, p, 4);
        assert_int_equal(id, i);
        assert_int_equal(rec->size, 4 + fl_rng_below(&rng, 300));
        for (uint32_t k = 4; k < rec->size; k++) {
            if (p[k] != (i & 0xff)) {
                fail_msg("record %u is damaged at %u", i, k);
            }
        }
        fl_log_ring_take(ring, rec);
    }
    pthread_join(th, NULL);
    assert_true(fl_log_ring_empty(ring));
    fl_log_ring_unmap(ring);
}

/* --- the writer --- */

struct access {
    uint32_t n;
    uint32_t pad;
};

static void format_access(const void *record, size_t len, struct fl_fmt *out)
{
    const struct access *a = record;
    assert_int_equal(len, sizeof(*a));
    fl_fmt_text(out, "line ");
    fl_fmt_uint(out, a->n);
    for (uint32_t i = 0; i < a->pad; i++) {
        fl_fmt_char(out, '.');
    }
    fl_fmt_char(out, '\n');
}

static bool log_access(struct fl_log_ring *ring, enum fl_log_stream to, uint32_t n, uint32_t pad)
{
    struct access *a = fl_log_reserve(ring, to, format_access, sizeof(*a));
    if (a != NULL) {
        *a = (struct access){n, pad};
        fl_log_commit(ring, sizeof(*a));
    }
    return a != NULL;
}

struct reader {
    int fd;
    uint32_t lines, last;
    bool in_order, whole;
};

static void *read_lines(void *arg)
{
    struct reader *rd = arg;
    FILE *f = fdopen(dup(rd->fd), "r");
    char line[4096];
    rd->in_order = rd->whole = true;
    while (fgets(line, sizeof(line), f) != NULL) {
        unsigned n = 0;
        if (sscanf(line, "line %u", &n) != 1 || strchr(line, '\n') == NULL) {
            rd->whole = false;
        }
        if (rd->lines > 0 && n <= rd->last) {
            rd->in_order = false;
        }
        rd->last = n;
        rd->lines++;
    }
    fclose(f);
    return NULL;
}

static void watch_line(void *arg, enum fl_log_stream s, struct fl_span line)
{
    uint32_t *count = arg;
    count[s]++;
    assert_true(line.len > 0 && line.ptr[line.len - 1] == '\n');
}

static void test_order_and_drain(void **state)
{
    (void)state;
    struct bench b;
    uint32_t watched[2] = {0, 0};
    bench_open(&b, 65536);
    fl_log_writer_watch(b.w, watch_line, watched);
    assert_int_equal(fl_log_writer_start(b.w), 0);
    struct reader rd = {.fd = b.out[0]};
    pthread_t th;
    assert_int_equal(pthread_create(&th, NULL, read_lines, &rd), 0);
    uint32_t taken = 0;
    for (uint32_t n = 1; n <= 50000; n++) {
        taken += log_access(b.ring, FL_LOG_STDOUT, n, n % 200);
    }
    uint64_t dropped = fl_log_dropped(b.w);
    assert_int_equal(taken + dropped, 50000);
    fl_log_writer_stop(b.w); /* drains */
    close(b.out[1]);
    pthread_join(th, NULL);
    assert_int_equal(rd.lines, taken);
    assert_int_equal(watched[FL_LOG_STDOUT], taken);
    assert_true(rd.in_order);
    assert_true(rd.whole);
    b.out[1] = dup(b.out[0]);
    bench_close(&b);
}

/* A lone line is not held back by batching, and nothing wakes up afterwards without a reason. */
static void test_lone_line_is_prompt(void **state)
{
    (void)state;
    struct bench b;
    char text[64];
    bench_open(&b, 65536);
    assert_int_equal(fl_log_writer_start(b.w), 0);
    usleep(120000); /* it sleeps now */
    int64_t before = real_ms();
    assert_true(log_access(b.ring, FL_LOG_STDERR, 1, 0));
    read_some(b.err[0], text, sizeof(text), 7);
    assert_string_equal(text, "line 1\n");
    assert_true(real_ms() - before < 1000);
    fl_log_writer_stop(b.w);
    bench_close(&b);
}

static void test_stuck_stdout(void **state)
{
    (void)state;
    struct bench b;
    char text[4096];
    bench_open(&b, 65536); /* one ring for both: the worse case */
    assert_int_equal(fl_log_writer_start(b.w), 0);
    int64_t slowest = 0;
    int64_t until = real_ms() + 700;
    uint32_t n = 0;
    while (real_ms() < until) {
        int64_t before = real_ms();
        for (int i = 0; i < 1000; i++) {
            log_access(b.ring, FL_LOG_STDOUT, ++n, 100);
        }
        int64_t took = real_ms() - before;
        slowest = took > slowest ? took : slowest;
        usleep(1000);
    }
    assert_true(fl_log_dropped(b.w) > 0);
    assert_true(slowest < 200); /* a wait for the reader would never end */
    usleep(100000);             /* room in the ring again, since stdout is given up by now */
    assert_true(log_access(b.ring, FL_LOG_STDERR, 1, 0));
    read_some(b.err[0], text, sizeof(text), 7);
    assert_string_equal(text, "line 1\n");

    struct reader rd = {.fd = b.out[0]}; /* the reader comes back */
    pthread_t th;
    assert_int_equal(pthread_create(&th, NULL, read_lines, &rd), 0);
    usleep(200000);
    assert_true(log_access(b.ring, FL_LOG_STDOUT, ++n, 0));
    fl_log_writer_stop(b.w);
    close(b.out[1]);
    pthread_join(th, NULL);
    assert_true(rd.whole);
    assert_true(rd.in_order);
    assert_int_equal(rd.last, n);
    b.out[1] = dup(b.out[0]);
    bench_close(&b);
}

static void test_stop_with_stuck_stdout(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, 262144);
    assert_int_equal(fl_log_writer_start(b.w), 0);
    for (uint32_t n = 1; n < 4000; n++) {
        log_access(b.ring, FL_LOG_STDOUT, n, 200);
    }
    int64_t before = real_ms();
    fl_log_writer_stop(b.w);
    assert_true(real_ms() - before < 2500);
    bench_close(&b);
}

static void test_closed_stdout(void **state)
{
    (void)state;
    struct bench b;
    char text[64];
    bench_open(&b, 65536);
    close(b.out[0]);
    assert_int_equal(fl_log_writer_start(b.w), 0);
    for (uint32_t n = 1; n <= 100; n++) {
        assert_true(log_access(b.ring, FL_LOG_STDOUT, n, 0)); /* no SIGPIPE either */
    }
    assert_true(log_access(b.ring, FL_LOG_STDERR, 9, 0));
    read_some(b.err[0], text, sizeof(text), 7);
    assert_string_equal(text, "line 9\n");
    assert_int_equal(fl_log_dropped(b.w), 100);
    fl_log_writer_stop(b.w);
    b.out[0] = dup(b.out[1]);
    bench_close(&b);
}

/* Descriptors that are not open at all, and a file: what a shell makes of >&- and >file. */
static void test_other_kinds(void **state)
{
    (void)state;
    struct fl_log_writer *w;
    char path[] = "/tmp/test_log.XXXXXX", text[128] = "";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(fl_log_writer_new(&w, 9999, fd), 0);
    struct fl_log_ring *ring = fl_log_ring_new(w, 4096);
    assert_true(log_access(ring, FL_LOG_STDOUT, 1, 0));
    assert_true(log_access(ring, FL_LOG_STDERR, 2, 0));
    assert_true(log_access(ring, FL_LOG_STDERR, 3, 70000)); /* longer than a line may be */
    assert_true(log_access(ring, FL_LOG_STDERR, 4, 0));
    assert_int_equal(fl_log_writer_start(w), 0);
    int64_t until = real_ms() + 3000;
    while (fl_log_dropped(w) < 2 && real_ms() < until) {
        usleep(1000);
    }
    assert_int_equal(fl_log_dropped(w), 2);
    fl_log_writer_stop(w);
    assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
    assert_string_equal(text, "line 2\nline 4\n");
    close(fd);
    unlink(path);
    fl_log_writer_stop(NULL);
}

/* Without the thread, as a simulation wants it: the watcher has the lines when drain returns. */
static void test_drain_by_hand(void **state)
{
    (void)state;
    struct fl_log_writer *w;
    uint32_t watched[2] = {0, 0};
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_int_equal(fl_log_writer_new(&w, null, null), 0);
    struct fl_log_ring *ring = fl_log_ring_new(w, 4096);
    fl_log_writer_watch(w, watch_line, watched);
    for (uint32_t n = 1; n <= 1000; n++) {
        assert_true(log_access(ring, n % 2 ? FL_LOG_STDOUT : FL_LOG_STDERR, n, 0));
        fl_log_writer_drain(w);
        assert_int_equal(watched[0] + watched[1], n);
    }
    fl_log_writer_stop(w);
    close(null);
}

/* What is only for watchers is shown in its place and written nowhere. */
static void test_lines_for_watchers_only(void **state)
{
    (void)state;
    struct fl_log_writer *w;
    int p[2];
    uint32_t watched[3] = {0};
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_int_equal(fl_log_writer_new(&w, p[1], p[1]), 0);
    struct fl_log_ring *ring = fl_log_ring_new(w, 1 << 20);
    fl_log_writer_watch(w, watch_line, watched);
    assert_false(fl_log_watched(ring));
    fl_log_writer_listen(w, true);
    assert_true(fl_log_watched(ring));
    for (uint32_t n = 1; n <= 3000; n++) { /* more than the buffer of stdout holds */
        assert_true(log_access(ring, n % 3 ? FL_LOG_WATCHERS : FL_LOG_STDOUT, n, n % 200));
    }
    struct reader rd = {.fd = p[0]};
    pthread_t th;
    assert_int_equal(pthread_create(&th, NULL, read_lines, &rd), 0);
    assert_int_equal(fl_log_writer_start(w), 0);
    fl_log_writer_listen(w, false);
    assert_false(fl_log_watched(ring));
    fl_log_writer_stop(w);
    close(p[1]);
    pthread_join(th, NULL);
    assert_int_equal(rd.lines, 1000);
    assert_true(rd.whole);
    assert_true(rd.in_order);
    assert_int_equal(watched[FL_LOG_STDOUT], 1000);
    assert_int_equal(watched[FL_LOG_WATCHERS], 2000);
    close(p[0]);
}

/* stdout and stderr on one pipe: lines of both, none inside another. */
static void test_one_pipe_for_both(void **state)
{
    (void)state;
    struct fl_log_writer *w;
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    int copy = dup(p[1]);
    assert_int_equal(fl_log_writer_new(&w, p[1], copy), 0);
    struct fl_log_ring *ring = fl_log_ring_new(w, 1 << 20);
    for (uint32_t n = 1; n <= 5000; n++) {
        assert_true(log_access(ring, n % 3 ? FL_LOG_STDOUT : FL_LOG_STDERR, n, n % 400));
    }
    struct reader rd = {.fd = p[0]};
    pthread_t th;
    assert_int_equal(pthread_create(&th, NULL, read_lines, &rd), 0);
    assert_int_equal(fl_log_writer_start(w), 0);
    fl_log_writer_stop(w);
    close(p[1]);
    close(copy);
    pthread_join(th, NULL);
    assert_int_equal(rd.lines, 5000);
    assert_true(rd.whole);
    assert_true(rd.in_order);
    close(p[0]);
}

/* Each way of writing, on something that gets full: it says so instead of waiting, and goes on
 * where it stopped. */
static void check_out(int write_fd, int read_fd, enum fl_log_how want, enum fl_log_how force)
{
    struct fl_log_out s;
    assert_int_equal(fl_log_out_init(&s, write_fd), 0);
    assert_int_equal(s.how, want);
    s.how = force;
    size_t total = 0, got = 0, seen_stall = 0;
    for (int round = 0; round < 40; round++) {
        size_t room = FL_LOG_STREAM_BYTES - s.end;
        for (size_t i = 0; i < room; i++) {
            s.buf[s.end + i] = (char)('a' + (total + i) % 26);
        }
        s.end += room;
        total += room;
        while (!fl_log_out_flush(&s, 1000 + round)) {
            seen_stall++;
            assert_in_range(s.stalled_ms, 1000, 1000 + round);
            char buf[5000];
            ssize_t n = read(read_fd, buf, sizeof(buf));
            assert_true(n > 0);
            for (ssize_t i = 0; i < n; i++) {
                assert_int_equal(buf[i], (char)('a' + (got + (size_t)i) % 26));
            }
            got += (size_t)n;
        }
        assert_int_equal(s.stalled_ms, 0);
        assert_false(fl_log_out_pending(&s));
    }
    assert_true(seen_stall > 0);
    fl_log_out_done(&s);
}

static void test_ways_of_writing(void **state)
{
    (void)state;
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    check_out(p[1], p[0], FL_LOG_HOW_NOWAIT, FL_LOG_HOW_NOWAIT);
    close(p[0]);
    close(p[1]);
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    check_out(p[1], p[0], FL_LOG_HOW_NOWAIT, FL_LOG_HOW_POLL); /* as on an older kernel */
    close(p[0]);
    close(p[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p), 0);
    check_out(p[1], p[0], FL_LOG_HOW_SOCKET, FL_LOG_HOW_SOCKET);
    close(p[0]);
    close(p[1]);
}

static void test_terminal(void **state)
{
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0) {
        skip();
    }
    char name[128], text[64];
    assert_int_equal(ptsname_r(master, name, sizeof(name)), 0);
    int tty = open(name, O_RDWR | O_NOCTTY);
    assert_true(tty >= 0);
    struct fl_log_out s;
    assert_int_equal(fl_log_out_init(&s, tty), 0);
    assert_int_equal(s.how, FL_LOG_HOW_POLL);
    memcpy(s.buf, "hello\n", 6);
    s.end = 6;
    assert_true(fl_log_out_flush(&s, 1));
    assert_true(read(master, text, sizeof(text)) >= 6);
    assert_memory_equal(text, "hello", 5);
    assert_false(fcntl(tty, F_GETFL) & O_NONBLOCK);
    fl_log_out_done(&s);
    close(tty);
    close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event_line),
        cmocka_unit_test(test_event_line_too_long),
        cmocka_unit_test(test_level_names),
        cmocka_unit_test(test_straight_to_stderr),
        cmocka_unit_test(test_bell),
        cmocka_unit_test(test_full_ring_drops),
        cmocka_unit_test(test_reserve_without_commit),
        cmocka_unit_test(test_idle_ring_stays_small),
        cmocka_unit_test(test_burst_after_a_pause),
        cmocka_unit_test(test_ring_race),
        cmocka_unit_test(test_order_and_drain),
        cmocka_unit_test(test_lone_line_is_prompt),
        cmocka_unit_test(test_stuck_stdout),
        cmocka_unit_test(test_stop_with_stuck_stdout),
        cmocka_unit_test(test_closed_stdout),
        cmocka_unit_test(test_other_kinds),
        cmocka_unit_test(test_drain_by_hand),
        cmocka_unit_test(test_lines_for_watchers_only),
        cmocka_unit_test(test_one_pipe_for_both),
        cmocka_unit_test(test_ways_of_writing),
        cmocka_unit_test(test_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
