/* log - lines leave through one writer thread. Each producing thread owns a ring (single producer,
 * single consumer); a full ring drops the record and counts, so no producer ever waits for stdout
 * or stderr.
 *
 * Two kinds of record: binary ones with their formatter (access log: formatted by the writer
 * thread), and event lines, formatted by the producer (rare). Rings are made before the writer
 * starts and live until it has stopped.
 *
 * Order is kept per ring. A ring that mixes both streams waits up to 0.25 s for one of them when it
 * takes nothing, then drops that stream's lines; with a ring per thread and stream neither ever
 * waits for the other. Lines leave at once when the writer was asleep, else within 50 ms. A record
 * takes its size + 16 bytes of the ring, rounded up to 8. */
#ifndef FL_COMMON_IO_LOG_H
#define FL_COMMON_IO_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/fmt.h"
#include "common/base/span.h"

enum fl_log_level { FL_LOG_ERROR, FL_LOG_WARN, FL_LOG_INFO, FL_LOG_DEBUG };
/* WATCHERS: written nowhere, only shown to who watches. */
enum fl_log_stream { FL_LOG_STDOUT, FL_LOG_STDERR, FL_LOG_WATCHERS };

struct fl_log_ring;
struct fl_log_writer;

/* Formats one record, newline included, into out (cap 64 KiB). Runs in the writer thread: touches
 * only the record. */
typedef void fl_log_format_fn(const void *record, size_t len, struct fl_fmt *out);

FL_MUST_USE int fl_log_writer_new(struct fl_log_writer **ret, int stdout_fd, int stderr_fd);
struct fl_log_ring *fl_log_ring_new(struct fl_log_writer *w,
                                    size_t bytes); /* before start; NULL = no memory */
FL_MUST_USE int fl_log_writer_start(struct fl_log_writer *w);
/* Instead of start, for tests that want their lines now: formats and writes what is there, in the
 * calling thread. */
void fl_log_writer_drain(struct fl_log_writer *w);
void fl_log_writer_stop(struct fl_log_writer *w); /* accepts NULL; drains the rings for at most 1 s,
                                                     joins, frees rings and writer */
uint64_t fl_log_dropped(const struct fl_log_writer *w); /* over all rings; any thread */

/* Producer side: a place of `size` bytes for a record (aligned to 8), or NULL (full: dropped and
 * counted). Commit may shorten it; a place that is not committed is forgotten with the next
 * reserve. */
void *fl_log_reserve(struct fl_log_ring *ring, enum fl_log_stream to, fl_log_format_fn *format,
                     size_t size);
void fl_log_commit(struct fl_log_ring *ring, size_t size);

/* An optional watcher of lines (the tap of the admin API), set before start: called in the writer
 * thread with each finished line, so it must be cheap while nobody listens. Lines that are dropped
 * are not shown. */
void fl_log_writer_watch(struct fl_log_writer *w,
                         void (*fn)(void *arg, enum fl_log_stream s, struct fl_span line),
                         void *arg);

/* Does anybody look right now? Then producers make records for FL_LOG_WATCHERS, too, of what is not
 * to be written. Any thread. */
void fl_log_writer_listen(struct fl_log_writer *w, bool on);
bool fl_log_watched(const struct fl_log_ring *ring);

/* Event lines: one JSON object: {"ts":…,"level":…,"msg":…, fields}. Nothing is built when the level
 * is filtered. */
struct fl_log {
    struct fl_log_ring
        *ring; /* NULL: straight to stderr (before the writer runs, command-line tools) */
    enum fl_log_level level;       /* the least severe that is written */
    int64_t (*wall_ms)(void *arg); /* NULL: the real clock */
    void *wall_arg;
};

struct fl_log_line {
    struct fl_fmt f;
    bool on;
    char text[2048];
};

void fl_log_begin(const struct fl_log *log, struct fl_log_line *l, enum fl_log_level level,
                  const char *msg);
void fl_log_str(struct fl_log_line *l, const char *key, struct fl_span value);
void fl_log_text(struct fl_log_line *l, const char *key, const char *value);
void fl_log_int(struct fl_log_line *l, const char *key, int64_t value);
void fl_log_secs(struct fl_log_line *l, const char *key,
                 int64_t us); /* number, seconds, ms resolution */
void fl_log_end(const struct fl_log *log, struct fl_log_line *l);
const char *fl_log_level_name(enum fl_log_level level); /* error warn info debug */

#endif
