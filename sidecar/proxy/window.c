#include "sidecar/proxy/window.h"

#include "common/io/sock.h"
#include "sidecar/proxy/worker.h"

enum {
    EVIDENCE_BYTES = 8192, /* below, no window is needed */
    /* More than goes to a reader that reads nothing at all: 64 KiB to 200 KiB into its receive
     * buffer, up to 190 KiB into our send buffer. */
    PROOF_BYTES = 480 * 1024,
    /* What a slow reader takes. A wait is not measured finer than a socket that is full becomes
     * writable again: when half of its 128 KiB have left. */
    SLOW_BYTES_PER_MS = 655,
    WIDE_BYTES = 4 * FL_NARROW_BYTES, /* as far as net.core.rmem_max allows */
};

static void hold(struct fl_worker *w, struct fl_window *win, int fd)
{
    fl_window_done(w, win);
    win->state = fl_sock_hold_window(fd, w->narrow_bytes) ? FL_WINDOW_NARROW : FL_WINDOW_FREE;
}

static void lead(struct fl_window *win, int64_t bytes)
{
    int64_t now = win->lead_bytes + bytes;
    win->lead_bytes = (int32_t)(now > PROOF_BYTES    ? PROOF_BYTES
                                : now < -PROOF_BYTES ? -PROOF_BYTES
                                                     : now);
}

void fl_window_moved(struct fl_worker *w, struct fl_window *win, int fd, size_t asked, size_t left)
{
    if (asked == 0 || win->state == FL_WINDOW_FREE) {
        return;
    }
    uint32_t now_ms = (uint32_t)fl_worker_now_ms(w);
    if (left == asked) {
        win->waiting_since_ms = win->waiting_since_ms != 0 ? win->waiting_since_ms : now_ms;
        return;
    }
    if (win->state == FL_WINDOW_FRESH) {
        if (asked < EVIDENCE_BYTES) {
            return;
        }
        hold(w, win, fd);
    }
    if (win->waiting_since_ms != 0) {
        uint32_t waited_ms = now_ms - win->waiting_since_ms;
        lead(win, -(int64_t)waited_ms * SLOW_BYTES_PER_MS);
    }
    lead(win, (int64_t)(asked - left));
    win->waiting_since_ms = left > 0 ? now_ms : 0;
    if (win->state == FL_WINDOW_NARROW && win->lead_bytes == PROOF_BYTES &&
        w->wide_count < w->wide_limit) {
        fl_sock_widen_window(fd, WIDE_BYTES, w->wide_grows);
        win->state = FL_WINDOW_WIDE;
        w->wide_count++;
    } else if (win->state == FL_WINDOW_WIDE && win->lead_bytes == -PROOF_BYTES) {
        hold(w, win, fd);
    }
}

void fl_window_done(struct fl_worker *w, struct fl_window *win)
{
    w->wide_count -= win->state == FL_WINDOW_WIDE ? 1 : 0;
    win->state = FL_WINDOW_FRESH;
}
