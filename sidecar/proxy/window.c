#include "sidecar/proxy/window.h"

#include "common/io/sock.h"
#include "sidecar/proxy/worker.h"

enum {
    EVIDENCE_BYTES = 8192, /* less proves nothing, and needs no window */
    /* 8 times 60 KiB are more than goes to a reader that reads nothing at all: 64 KiB to 200 KiB
     * into its receive buffer, up to 190 KiB into our send buffer. */
    PROOF = 8,
    /* What a wait costs one point for. A socket is writable again when half of the 128 KiB that it
     * takes have left: 64 KiB in 100 ms. */
    WAIT_MS = 100,
    WIDE_BYTES = 4 * FL_NARROW_BYTES, /* as far as net.core.rmem_max allows */
};

static void hold(struct fl_worker *w, struct fl_window *win, int fd)
{
    fl_window_done(w, win);
    win->state = fl_sock_hold_window(fd, w->narrow_bytes) ? FL_WINDOW_NARROW : FL_WINDOW_FREE;
}

static void score(struct fl_window *win, int64_t points)
{
    int64_t now = win->score + points;
    win->score = (int8_t)(now > PROOF ? PROOF : now < -PROOF ? -PROOF : now);
}

void fl_window_moved(struct fl_worker *w, struct fl_window *win, int fd, size_t asked, size_t left)
{
    bool waited = win->waiting_since_ms != 0;
    if (win->state == FL_WINDOW_FREE || (asked < EVIDENCE_BYTES && !waited)) {
        return;
    }
    if (win->state == FL_WINDOW_FRESH) {
        hold(w, win, fd);
    }
    int64_t now_ms = fl_worker_now_ms(w);
    if (waited && left < asked) {
        score(win, -((now_ms - win->waiting_since_ms) / WAIT_MS));
    } else if (left == 0) {
        score(win, 1);
    }
    if (left == 0 || left < asked || !waited) {
        win->waiting_since_ms = left > 0 ? now_ms : 0;
    }
    if (win->state == FL_WINDOW_NARROW && win->score == PROOF && w->wide_count < w->wide_limit) {
        fl_sock_widen_window(fd, WIDE_BYTES, w->wide_grows);
        win->state = FL_WINDOW_WIDE;
        w->wide_count++;
    } else if (win->state == FL_WINDOW_WIDE && win->score == -PROOF) {
        hold(w, win, fd);
    }
}

void fl_window_done(struct fl_worker *w, struct fl_window *win)
{
    w->wide_count -= win->state == FL_WINDOW_WIDE ? 1 : 0;
    win->state = FL_WINDOW_FRESH;
}
