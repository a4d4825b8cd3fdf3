/* reactor - one epoll turn after another: descriptors, deadlines, deferred tasks and one clock
 * value per turn. It knows nothing of connections. Chosen at link time: the real one, or
 * tests/sim's scripted network with virtual time.
 *
 * Life time: whatever holds a struct fl_io, fl_timer or fl_task may be freed only at the end of the
 * turn in which it was closed, removed or run (fl_reactor_later is the place), since one batch may
 * hold several events for one object. Everything is called from the reactor's own thread, except
 * fl_reactor_wake and fl_reactor_stop. */
#ifndef FL_COMMON_IO_REACTOR_H
#define FL_COMMON_IO_REACTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/list.h"

struct fl_reactor;

enum {                  /* events */
       FL_IO_READ = 1,  /* bytes or EOF may be there */
       FL_IO_WRITE = 2, /* room to write; also: a connect has ended */
       FL_IO_HUP =
           4, /* the other side has finished sending (RDHUP) or the connection is gone (HUP) */
       FL_IO_ERROR = 8, /* an error is pending: the next call on the fd returns it */
};

#define FL_IO_SLOTS_MAX (UINT32_C(1) << 24)

struct fl_io {
    int fd;             /* -1 when closed; set by add, cleared by close */
    uint32_t slot : 24; /* the reactor's */
    /* So many pointers behind the beginning of this lies one to what on_event looks at besides, so
     * that it can be asked for ahead; 0: there is none. */
    uint32_t also : 8;
    void (*on_event)(struct fl_io *io, unsigned events);
};

FL_MUST_USE int fl_reactor_new(struct fl_reactor **ret);
struct fl_reactor *fl_reactor_free(struct fl_reactor *r); /* accepts NULL, returns NULL */

/* Registers once, edge-triggered, for IN|OUT|RDHUP; no further epoll_ctl for the life of the fd. 0
 * or -errno. */
FL_MUST_USE int fl_reactor_add(struct fl_reactor *r, struct fl_io *io, int fd);
/* Level-triggered IN, for listeners and nested pollables; pause takes it out of the interest set
 * without closing. */
FL_MUST_USE int fl_reactor_add_level(struct fl_reactor *r, struct fl_io *io, int fd);
void fl_reactor_pause(struct fl_reactor *r, struct fl_io *io, bool paused);
/* Closes the fd and forgets it: later events of this batch do not reach io. Harmless when already
 * closed. */
void fl_reactor_close(struct fl_reactor *r, struct fl_io *io);
/* As close, but hands the still open fd back, unregistered. */
int fl_reactor_release(struct fl_reactor *r, struct fl_io *io);

/* Deadlines: a coarse wheel (8 ms). Setting later than before, or off, is one store; the wheel
 * looks again when it fires. */
struct fl_timer {
    int64_t at_ms;   /* INT64_MAX: off */
    int64_t slot_ms; /* where the wheel holds it; 0 when not held */
    struct fl_list node;
    void (*on_fire)(struct fl_timer *t);
};

void fl_timer_init(struct fl_timer *t, void (*on_fire)(struct fl_timer *t));
void fl_timer_set(struct fl_reactor *r, struct fl_timer *t,
                  int64_t at_ms); /* never fires before at_ms */
static inline void fl_timer_off(struct fl_timer *t)
{
    t->at_ms = INT64_MAX;
}
void fl_timer_remove(struct fl_reactor *r, struct fl_timer *t); /* before the memory goes */

struct fl_task {
    struct fl_list node; /* init with fl_list_init, or fl_task_init */
    void (*run)(struct fl_task *t);
};

static inline void fl_task_init(struct fl_task *t, void (*run)(struct fl_task *t))
{
    fl_list_init(&t->node);
    t->run = run;
}
/* Once, however often asked. Behind the events: when all of this turn were handed out and before
 * deadlines fire; one asked for meanwhile, or by a deadline, runs in this turn too. So what many
 * events brought can be taken in first, and worked on afterwards with one piece of code at a time.
 * Soon: when the others have had their turn, at the latest in the next one, which then does not
 * sleep; before deadlines fire too: what waits for nothing but its turn is never late, however long
 * the thread stood still. Later: at the end of this turn. */
void fl_reactor_behind(struct fl_reactor *r, struct fl_task *t);
void fl_reactor_later(struct fl_reactor *r, struct fl_task *t);
void fl_reactor_soon(struct fl_reactor *r, struct fl_task *t);

/* Constant within a turn. ms and us are monotonic and start above 0; wall is for log lines and
 * dates only. */
int64_t fl_reactor_now_ms(const struct fl_reactor *r);
int64_t fl_reactor_now_us(const struct fl_reactor *r);
int64_t fl_reactor_wall_ms(const struct fl_reactor *r);

/* Called at the top of every turn, after the clock was read; and after a wake. */
void fl_reactor_on_turn(struct fl_reactor *r, void (*fn)(void *arg), void *arg);
void fl_reactor_turn(struct fl_reactor *r,
                     int64_t max_wait_ms);  /* one turn; -1 = no limit of its own */
void fl_reactor_run(struct fl_reactor *r);  /* turns until stopped */
void fl_reactor_stop(struct fl_reactor *r); /* any thread */
void fl_reactor_wake(struct fl_reactor *r); /* any thread: makes a sleeping reactor turn */

#endif
