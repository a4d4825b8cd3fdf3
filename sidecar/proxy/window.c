#include "sidecar/proxy/window.h"

#include "common/io/sock.h"
#include "sidecar/proxy/worker.h"

enum {
    EVIDENCE_BYTES = 8192, /* less proves nothing, and needs no window */
    /* 8 times 60 KiB are more than goes to a reader that reads nothing at all: 64 KiB to 200 KiB
     * into its receive buffer, up to 190 KiB into our send buffer. */
    PROOF = 8,
    WAIT_COSTS = 2,
};

static void hold(struct fl_worker *w, struct fl_window *win, int fd)
{
    fl_window_done(w, win);
    win->state = fl_sock_hold_window(fd, w->narrow_bytes) ? FL_WINDOW_NARROW : FL_WINDOW_FREE;
}

void fl_window_moved(struct fl_worker *w, struct fl_window *win, int fd, size_t asked, bool all)
{
    if (asked < EVIDENCE_BYTES || win->state == FL_WINDOW_FREE) {
        return;
    }
    if (win->state == FL_WINDOW_FRESH) {
        hold(w, win, fd);
    }
    int score = win->score + (all ? 1 : -WAIT_COSTS);
    win->score = (int8_t)(score > PROOF ? PROOF : score < -PROOF ? -PROOF : score);
    if (win->state == FL_WINDOW_NARROW && win->score == PROOF && w->wide_count < w->wide_limit) {
        fl_sock_free_window(fd);
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
