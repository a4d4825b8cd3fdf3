/* The simulated reactor: fl_reactor_* and fl_timer_* as common/io/reactor.h promises them, on the
 * same timer wheel as the real one. A ready list stands for epoll's: whatever changes a socket puts
 * it there once, and its state is looked at when the turn begins. */
#include "common/io/reactor.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/sim/sim_in.h"

int fl_reactor_new(struct fl_reactor **ret)
{
    struct sim_world *w = sim_current;
    FL_MUST(w != NULL);
    struct fl_reactor *r = sim_alloc(sizeof(*r));
    r->world = w;
    r->now_us = w->now_us;
    r->now_ms = w->now_us / 1000;
    fl_list_init(&r->ready);
    fl_list_init(&r->behind);
    fl_list_init(&r->later);
    fl_list_init(&r->soon);
    fl_wheel_init(&r->wheel, r->now_ms);
    fl_list_append(&w->reactors, &r->node);
    *ret = r;
    return 0;
}

struct fl_reactor *fl_reactor_free(struct fl_reactor *r)
{
    if (r == NULL) {
        return NULL;
    }
    FL_MUST(!r->turning);
    for (unsigned i = 0; i < r->world->file_count; i++) {
        if (r->world->files[i]->reactor == r) {
            sim_unregister(r->world->files[i]);
        }
    }
    fl_list_remove(&r->node);
    free(r);
    return NULL;
}

void sim_edge(struct sim_file *f)
{
    if (f->reactor != NULL && !f->paused && !f->queued) {
        f->queued = true;
        fl_list_append(&f->reactor->ready, &f->ready);
    }
}

void sim_unregister(struct sim_file *f)
{
    fl_list_remove(&f->ready);
    f->queued = f->paused = f->level = false;
    f->generation++;
    f->reactor = NULL;
    f->io = NULL;
}

static int add(struct fl_reactor *r, struct fl_io *io, int fd, bool level)
{
    io->fd = -1;
    int err = sim_call(r->world, SIM_CALL_ADD);
    struct sim_file *f = sim_file_of(r->world, fd);
    if (err != 0 || f == NULL) {
        return err != 0 ? -err : -EBADF;
    }
    if (f->reactor != NULL) {
        return -EEXIST;
    }
    f->reactor = r;
    f->io = io;
    f->level = level;
    io->fd = fd;
    io->slot = (uint32_t)(fd - SIM_FD_BASE) & (FL_IO_SLOTS_MAX - 1);
    sim_edge(f);
    return 0;
}

int fl_reactor_add(struct fl_reactor *r, struct fl_io *io, int fd)
{
    return add(r, io, fd, false);
}

int fl_reactor_add_level(struct fl_reactor *r, struct fl_io *io, int fd)
{
    return add(r, io, fd, true);
}

static struct sim_file *file_of(struct fl_reactor *r, const struct fl_io *io)
{
    struct sim_file *f = sim_file_of(r->world, io->fd);
    FL_MUST(f != NULL && f->reactor == r && f->io == io);
    return f;
}

void fl_reactor_pause(struct fl_reactor *r, struct fl_io *io, bool paused)
{
    if (io->fd < 0) {
        return;
    }
    struct sim_file *f = file_of(r, io);
    FL_MUST(f->level);
    if (f->paused == paused) {
        return;
    }
    f->paused = paused;
    if (paused) {
        f->generation++;
        f->queued = false;
        fl_list_remove(&f->ready);
    } else {
        sim_edge(f);
    }
}

int fl_reactor_release(struct fl_reactor *r, struct fl_io *io)
{
    int fd = io->fd;
    if (fd < 0) {
        return -1;
    }
    sim_unregister(file_of(r, io));
    io->fd = -1;
    return fd;
}

void fl_reactor_close(struct fl_reactor *r, struct fl_io *io)
{
    if (io->fd < 0) {
        return;
    }
    sim_file_close(file_of(r, io));
    io->fd = -1;
}

void fl_timer_init(struct fl_timer *t, void (*on_fire)(struct fl_timer *t))
{
    *t = (struct fl_timer){.at_ms = INT64_MAX, .on_fire = on_fire};
    fl_list_init(&t->node);
}

void fl_timer_set(struct fl_reactor *r, struct fl_timer *t, int64_t at_ms)
{
    fl_wheel_set(&r->wheel, t, at_ms);
}

void fl_timer_remove(struct fl_reactor *r, struct fl_timer *t)
{
    fl_wheel_remove(&r->wheel, t);
}

void fl_reactor_behind(struct fl_reactor *r, struct fl_task *t)
{
    if (fl_list_empty(&t->node)) {
        fl_list_append(&r->behind, &t->node);
    }
}

void fl_reactor_later(struct fl_reactor *r, struct fl_task *t)
{
    if (fl_list_empty(&t->node)) {
        fl_list_append(&r->later, &t->node);
    }
}

void fl_reactor_soon(struct fl_reactor *r, struct fl_task *t)
{
    if (fl_list_empty(&t->node)) {
        fl_list_append(&r->soon, &t->node);
    }
}

int64_t fl_reactor_now_ms(const struct fl_reactor *r)
{
    return r->now_ms;
}

int64_t fl_reactor_now_us(const struct fl_reactor *r)
{
    return r->now_us;
}

int64_t fl_reactor_wall_ms(const struct fl_reactor *r)
{
    return (r->now_us + r->world->wall_offset_us) / 1000;
}

void fl_reactor_on_turn(struct fl_reactor *r, void (*fn)(void *arg), void *arg)
{
    r->on_turn = fn;
    r->on_turn_arg = arg;
}

/* --- the turn --- */

static void note_told(struct sim_file *f, unsigned events, int64_t now_us)
{
    if ((events & (FL_IO_READ | FL_IO_HUP | FL_IO_ERROR)) && f->told_read_us == 0) {
        f->told_read_us = now_us;
    }
    if ((events & FL_IO_WRITE) && f->short_sent && f->told_write_us == 0) {
        f->told_write_us = now_us;
    }
}

/* Moves the ready ones into the batch, as epoll_wait does: those that turn out to have nothing are
 * left out. */
static void harvest(struct fl_reactor *r)
{
    struct sim_world *w = r->world;
    int limit = w->shuffle ? 1 + (int)fl_rng_below(&w->rng, SIM_BATCH) : SIM_BATCH;
    struct fl_list again;
    fl_list_init(&again);
    for (struct fl_list *n; r->count < limit && (n = fl_list_first(&r->ready)) != NULL;) {
        struct sim_file *f = fl_container_of(n, struct sim_file, ready);
        fl_list_remove(n);
        f->queued = false;
        unsigned events = sim_poll(f);
        if (f->level) {
            events &= FL_IO_READ;
        }
        if (events == 0) {
            continue;
        }
        r->batch[r->count++] = (struct sim_event_hit){f, f->generation, events};
        note_told(f, events, w->now_us);
        if (f->level) {
            f->queued = true;
            fl_list_append(&again, n);
        }
    }
    for (struct fl_list *n; (n = fl_list_first(&again)) != NULL;) {
        fl_list_remove(n);
        fl_list_append(&r->ready, n);
    }
    for (int i = r->count - 1; w->shuffle && i > 0; i--) {
        int k = (int)fl_rng_below(&w->rng, (uint32_t)i + 1);
        struct sim_event_hit hit = r->batch[i];
        r->batch[i] = r->batch[k];
        r->batch[k] = hit;
    }
}

int64_t sim_reactor_next_us(struct fl_reactor *r)
{
    int64_t ms = fl_wheel_next_ms(&r->wheel);
    return ms == INT64_MAX ? INT64_MAX : ms * 1000;
}

bool sim_reactor_ready(struct fl_reactor *r)
{
    if (r->stopping) {
        return false; /* its loop would have ended */
    }
    if (r->count == 0) {
        harvest(r);
    }
    return r->count > 0 || !fl_list_empty(&r->soon) || !fl_list_empty(&r->behind) ||
           !fl_list_empty(&r->later) || r->waking || sim_reactor_next_us(r) <= r->world->now_us;
}

static void run_tasks(struct fl_list *tasks)
{
    for (struct fl_list *n; (n = fl_list_first(tasks)) != NULL;) {
        struct fl_task *t = fl_container_of(n, struct fl_task, node);
        fl_list_remove(n);
        t->run(t);
    }
}

static void run_soon(struct fl_reactor *r)
{
    if (fl_list_empty(&r->soon)) {
        return;
    }
    struct fl_list now;
    fl_list_push(&r->soon, &now);
    fl_list_remove(&r->soon);
    run_tasks(&now);
}

void sim_reactor_turn(struct fl_reactor *r)
{
    struct sim_world *w = r->world;
    r->turning = true;
    r->now_us = w->now_us;
    r->now_ms = w->now_us / 1000;
    r->waking = false;
    w->counts.turns++;
    r->turns++;
    fl_wheel_collect(&r->wheel, r->now_ms);
    if (r->on_turn != NULL) {
        r->on_turn(r->on_turn_arg);
    }
    for (int i = 0; i < r->count; i++) {
        const struct sim_event_hit *hit = &r->batch[i];
        if (hit->file->reactor == r && hit->file->generation == hit->generation) {
            w->counts.events++;
            hit->file->io->on_event(hit->file->io, hit->events);
        }
    }
    r->count = 0;
    run_tasks(&r->behind);
    run_soon(r);
    run_tasks(&r->behind);
    fl_wheel_fire(&r->wheel, r->now_ms);
    do {
        run_tasks(&r->behind);
        run_tasks(&r->later);
    } while (!fl_list_empty(&r->behind));
    w->now_us += w->turn_us;
    r->turning = false;
}

/* Drives the world until this reactor has turned; when its time is up it turns without an event, as
 * epoll_wait returns. */
void fl_reactor_turn(struct fl_reactor *r, int64_t max_wait_ms)
{
    struct sim_world *w = r->world;
    uint64_t before = r->turns;
    int64_t limit_us = max_wait_ms < 0 ? INT64_MAX : w->now_us + max_wait_ms * 1000;
    bool idle = false;
    limit_us += max_wait_ms == 0; /* a look without a sleep */
    while (sim_step(w, limit_us, &idle)) {
        if (r->turns != before) {
            return;
        }
    }
    if (idle && max_wait_ms < 0) {
        FL_IMPOSSIBLE("sim: the reactor would sleep for ever, nothing is scheduled");
    }
    (void)sim_reactor_ready(r);
    sim_reactor_turn(r);
}

static void park(struct fl_reactor *r)
{
    struct sim_world *w = r->world;
    pthread_mutex_lock(&w->lock);
    r->parked = true;
    w->parked++;
    pthread_cond_broadcast(&w->parking);
    while (!r->stopping) {
        pthread_cond_wait(&w->parking, &w->lock);
    }
    r->parked = false;
    w->parked--;
    pthread_mutex_unlock(&w->lock);
}

void sim_wait_parked(struct sim_world *w, unsigned threads)
{
    pthread_mutex_lock(&w->lock);
    while (w->parked < threads) {
        pthread_cond_wait(&w->parking, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
}

void fl_reactor_run(struct fl_reactor *r)
{
    if (!pthread_equal(pthread_self(), r->world->thread)) {
        park(r);
        return;
    }
    while (!atomic_exchange(&r->stopping, false)) {
        fl_reactor_turn(r, -1);
    }
}

void fl_reactor_stop(struct fl_reactor *r)
{
    struct sim_world *w = r->world;
    pthread_mutex_lock(&w->lock);
    r->stopping = true;
    r->waking = true;
    pthread_cond_broadcast(&w->parking);
    pthread_mutex_unlock(&w->lock);
}

void fl_reactor_wake(struct fl_reactor *r)
{
    r->waking = true;
}
