/* log_stream - stdout or stderr behind a 64 KiB buffer, written without ever waiting for a reader
 * that is stuck. O_NONBLOCK is not set: the file description may be shared (a terminal, the pipe of
 * the container runtime). Inside of common/io; writer thread only. */
#ifndef FL_COMMON_IO_LOG_STREAM_H
#define FL_COMMON_IO_LOG_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/check.h"

#define FL_LOG_STREAM_BYTES (64 * 1024)

enum fl_log_how {
    FL_LOG_HOW_NONE,   /* not open: all is dropped */
    FL_LOG_HOW_PLAIN,  /* files and /dev/null: write() */
    FL_LOG_HOW_SOCKET, /* send() that does not wait */
    FL_LOG_HOW_NOWAIT, /* pipes, newer kernels: a write that does not wait */
    FL_LOG_HOW_POLL,   /* pipes and terminals: poll, then at most PIPE_BUF bytes, for which there is
                          room then */
};

struct fl_log_out {
    int fd;
    enum fl_log_how how;
    char *buf;
    size_t begin, end;  /* the bytes not yet written */
    int64_t stalled_ms; /* since when it has taken nothing, 0: it is not stalled */
    int64_t broken_ms;  /* when a write failed, 0: not */
    bool full;          /* the last line did not fit, and nothing was taken since */
    uint64_t lost_lines;
};

FL_MUST_USE int fl_log_out_init(struct fl_log_out *s, int fd);
void fl_log_out_done(struct fl_log_out *s);
/* Writes what the other side takes. False: bytes are left, poll for POLLOUT. */
bool fl_log_out_flush(struct fl_log_out *s, int64_t now_ms);
void fl_log_out_compact(struct fl_log_out *s); /* free room to the end of the buffer */

static inline bool fl_log_out_pending(const struct fl_log_out *s)
{
    return s->begin < s->end;
}

#endif
