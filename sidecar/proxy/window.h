/* window - how much the kernel may hold of what one side has sent and the other has not taken yet.
 * A receive buffer grows by itself with what is read from it (on loopback at once to 2 MiB), and it
 * stays full when the reader behind us then turns out to be slow: fifty such downloads are more
 * than the memory of a small container. So a source begins narrow, and is let go when enough of it
 * went on without waiting; one whose reader is slow (below some 600 KiB/s) is narrowed again. That
 * is three setsockopt in the life of a connection that moves large bodies fast, and none where
 * bodies are small. Own data thread only. */
#ifndef FL_SIDECAR_PROXY_WINDOW_H
#define FL_SIDECAR_PROXY_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fl_worker;

enum { FL_NARROW_BYTES = 131072, FL_NARROW_SMALL_BYTES = 65536 }; /* the second: little memory */

enum fl_window_state {
    FL_WINDOW_FRESH,  /* as the kernel made it: 64 KiB, until more than that is read */
    FL_WINDOW_NARROW, /* held */
    FL_WINDOW_WIDE,   /* larger, and grows by itself where memory is not short; counted */
    FL_WINDOW_FREE,   /* a kernel that could not let go again (before 5.15): not held at all */
};

struct fl_window {             /* zeroed: FRESH; each client has one */
    uint32_t waiting_since_ms; /* the clock's lower half; 0: nothing waits */
    int32_t lead_bytes; /* what was taken, beyond what a slow reader would have; < 0: it is slow */
    uint8_t state;
};

/* Of what was read from fd, `asked` bytes were to go on, and `left` did not. */
void fl_window_moved(struct fl_worker *w, struct fl_window *win, int fd, size_t asked, size_t left);
/* Its connection closes. */
void fl_window_done(struct fl_worker *w, struct fl_window *win);
/* Little at a time is enough for whoever takes it. */
static inline bool fl_window_is_slow(const struct fl_window *win)
{
    return win->state == FL_WINDOW_NARROW && win->lead_bytes < 0;
}

#endif
