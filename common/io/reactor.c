#include "common/io/reactor.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/base/foresee.h"
#include "common/io/wheel.h"

#define BATCH       128
#define WALL_MAX_US 1000000

/* The event word holds index and generation instead of a pointer: what the kernel has already put
 * into the batch for an fd that a callback then closes is recognised as stale, also when the slot
 * was taken again. */
struct slot {
    struct fl_io *io; /* NULL: free */
    uint32_t generation;
    uint32_t next_or_flags; /* free: the next free slot; in use: SLOT_* */
};

enum { SLOT_LEVEL = 1, SLOT_PAUSED = 2 };
#define NO_SLOT   UINT32_MAX
#define WAKE_WORD UINT64_MAX

struct fl_reactor {
    int epoll_fd, wake_fd;
    int64_t now_us, now_ms;
    int64_t wall_offset_us, wall_read_us;
    void (*on_turn)(void *arg);
    void *on_turn_arg;
    struct slot *slots;
    uint32_t slot_count, slots_used; /* those behind slots_used were never touched */
    uint32_t free_slot;
    struct fl_list behind, later, soon;
    _Atomic bool waking, stopping;
    struct epoll_event events[BATCH];
    struct fl_wheel wheel;
};

static int64_t clock_us(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void read_clock(struct fl_reactor *r)
{
    r->now_us = clock_us(CLOCK_MONOTONIC);
    r->now_ms = r->now_us / 1000;
    if (FL_UNLIKELY(r->now_us - r->wall_read_us >= WALL_MAX_US)) {
        r->wall_offset_us = clock_us(CLOCK_REALTIME) - r->now_us;
        r->wall_read_us = r->now_us;
    }
}

int fl_reactor_new(struct fl_reactor **ret)
{
    struct fl_reactor *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return -ENOMEM;
    }
    r->free_slot = NO_SLOT;
    r->wall_read_us = -WALL_MAX_US;
    fl_list_init(&r->behind);
    fl_list_init(&r->later);
    fl_list_init(&r->soon);
    read_clock(r);
    fl_wheel_init(&r->wheel, r->now_ms);
    r->wake_fd = -1;
    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int rc = r->epoll_fd < 0 ? -errno : 0;
    if (rc == 0) {
        r->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        rc = r->wake_fd < 0 ? -errno : 0;
    }
    if (rc == 0) {
        /* edge-triggered and never read: each write is a new edge, the count needs 2^64 of them to
         * overflow */
        struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u64 = WAKE_WORD};
        rc = epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->wake_fd, &ev) < 0 ? -errno : 0;
    }
    if (rc < 0) {
        fl_reactor_free(r);
        return rc;
    }
    *ret = r;
    return 0;
}

struct fl_reactor *fl_reactor_free(struct fl_reactor *r)
{
    if (r == NULL) {
        return NULL;
    }
    if (r->wake_fd >= 0) {
        close(r->wake_fd);
    }
    if (r->epoll_fd >= 0) {
        close(r->epoll_fd);
    }
    free(r->slots);
    free(r);
    return NULL;
}

static bool grow_slots(struct fl_reactor *r)
{
    uint32_t count = r->slot_count ? r->slot_count * 2 : 64;
    struct slot *slots =
        count <= FL_IO_SLOTS_MAX ? realloc(r->slots, count * sizeof(*slots)) : NULL;
    if (slots == NULL) {
        return false;
    }
    r->slots = slots;
    r->slot_count = count;
    return true;
}

/* A free slot, or NO_SLOT: out of memory. */
static uint32_t take_slot(struct fl_reactor *r)
{
    uint32_t i = r->free_slot;
    if (i != NO_SLOT) {
        r->free_slot = r->slots[i].next_or_flags;
    } else if (r->slots_used < r->slot_count || grow_slots(r)) {
        i = r->slots_used++;
        r->slots[i] = (struct slot){0};
    }
    return i;
}

static int subscribe(struct fl_reactor *r, uint32_t i, int fd)
{
    const struct slot *s = &r->slots[i];
    uint32_t want = s->next_or_flags & SLOT_LEVEL
                        ? (uint32_t)EPOLLIN
                        : (uint32_t)EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    struct epoll_event ev = {.events = want, .data.u64 = (uint64_t)s->generation << 32 | i};
    return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static void free_slot(struct fl_reactor *r, uint32_t i)
{
    struct slot *s = &r->slots[i];
    s->io = NULL;
    s->generation++;
    s->next_or_flags = r->free_slot;
    r->free_slot = i;
}

static int add(struct fl_reactor *r, struct fl_io *io, int fd, uint32_t flags)
{
    io->fd = -1;
    uint32_t i = take_slot(r);
    if (i == NO_SLOT) {
        return -ENOMEM;
    }
    struct slot *s = &r->slots[i];
    s->io = io;
    s->next_or_flags = flags;
    int rc = subscribe(r, i, fd);
    if (rc < 0) {
        free_slot(r, i);
        return rc;
    }
    io->fd = fd;
    io->slot = i & (FL_IO_SLOTS_MAX - 1); /* as it is; the compiler cannot know */
    return 0;
}

int fl_reactor_add(struct fl_reactor *r, struct fl_io *io, int fd)
{
    return add(r, io, fd, 0);
}

int fl_reactor_add_level(struct fl_reactor *r, struct fl_io *io, int fd)
{
    return add(r, io, fd, SLOT_LEVEL);
}

static struct slot *slot_of(struct fl_reactor *r, const struct fl_io *io)
{
    FL_MUST(io->slot < r->slots_used && r->slots[io->slot].io == io);
    return &r->slots[io->slot];
}

void fl_reactor_pause(struct fl_reactor *r, struct fl_io *io, bool paused)
{
    if (io->fd < 0) {
        return;
    }
    struct slot *s = slot_of(r, io);
    FL_MUST(s->next_or_flags & SLOT_LEVEL);
    if (paused == ((s->next_or_flags & SLOT_PAUSED) != 0)) {
        return;
    }
    s->next_or_flags ^= SLOT_PAUSED;
    if (paused) {
        s->generation++; /* an event of this batch would come too late */
        FL_MUST(epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL) == 0);
    } else if (subscribe(r, io->slot, io->fd) < 0) {
        s->next_or_flags ^=
            SLOT_PAUSED; /* out of kernel memory: stays paused, the caller asks again */
    }
}

int fl_reactor_release(struct fl_reactor *r, struct fl_io *io)
{
    int fd = io->fd;
    if (fd < 0) {
        return -1;
    }
    if (!(slot_of(r, io)->next_or_flags & SLOT_PAUSED)) {
        FL_MUST(epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, fd, NULL) == 0);
    }
    free_slot(r, io->slot);
    io->fd = -1;
    return fd;
}

void fl_reactor_close(struct fl_reactor *r, struct fl_io *io)
{
    if (io->fd < 0) {
        return;
    }
    slot_of(r, io);
    free_slot(r, io->slot);
    close(io->fd); /* takes the registration with it: no fd here is ever duplicated */
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
    return (r->now_us + r->wall_offset_us) / 1000;
}

void fl_reactor_on_turn(struct fl_reactor *r, void (*fn)(void *arg), void *arg)
{
    r->on_turn = fn;
    r->on_turn_arg = arg;
}

/* From the clock of the last turn: a wait may so be too long by the time the callbacks took, never
 * too short. */
static int wait_ms(struct fl_reactor *r, int64_t max_wait_ms)
{
    if (!fl_list_empty(&r->soon) || !fl_list_empty(&r->behind) || !fl_list_empty(&r->later)) {
        return 0;
    }
    int64_t next_ms = fl_wheel_next_ms(&r->wheel);
    int64_t wait = next_ms == INT64_MAX ? -1 : next_ms > r->now_ms ? next_ms - r->now_ms : 0;
    if (max_wait_ms >= 0 && (wait < 0 || max_wait_ms < wait)) {
        wait = max_wait_ms;
    }
    return wait > INT_MAX ? INT_MAX : (int)wait;
}

/* EPOLLIN -> READ, EPOLLOUT -> WRITE, EPOLLERR -> ERROR, EPOLLHUP or EPOLLRDHUP -> HUP */
static unsigned events_of(uint32_t ev)
{
    _Static_assert((int)EPOLLIN == FL_IO_READ && (int)EPOLLERR == FL_IO_ERROR, "same bits");
    _Static_assert(EPOLLOUT >> 1 == FL_IO_WRITE, "shifts");
    _Static_assert(EPOLLHUP >> 2 == FL_IO_HUP && EPOLLRDHUP >> 11 == FL_IO_HUP, "shifts");
    return (ev & (FL_IO_READ | FL_IO_ERROR)) | (ev >> 1 & FL_IO_WRITE) |
           ((ev >> 2 | ev >> 11) & FL_IO_HUP);
}

/* The slot of event n; NULL for a wake. */
static const struct slot *event_slot(const struct fl_reactor *r, int n)
{
    uint64_t word = r->events[n].data.u64;
    return word != WAKE_WORD ? &r->slots[(uint32_t)word] : NULL;
}

/* What on_event looks at besides; io itself when that is all. */
static const void *named_by(const struct fl_io *io)
{
    const void *also = io;
    if (io->also != 0) {
        memcpy(&also, (const char *)io + io->also * sizeof also, sizeof also);
    }
    return also;
}

/* What later events need comes into the cache while the callbacks before them are in system calls:
 * the slot three events ahead, its object two, and what that names besides one. */
static void foresee(const struct fl_reactor *r, int n, int count)
{
    if (n + 3 < count && event_slot(r, n + 3) != NULL) {
        fl_foresee(event_slot(r, n + 3), 64);
    }
    if (n + 2 < count && event_slot(r, n + 2) != NULL && event_slot(r, n + 2)->io != NULL) {
        fl_foresee(event_slot(r, n + 2)->io, 192);
    }
    if (n + 1 < count && event_slot(r, n + 1) != NULL && event_slot(r, n + 1)->io != NULL) {
        fl_foresee(named_by(event_slot(r, n + 1)->io), 128);
    }
}

static void dispatch(struct fl_reactor *r, int count)
{
    for (int n = 0; n < count; n++) {
        foresee(r, n, count);
        const struct slot *s = event_slot(r, n);
        if (s != NULL && s->io != NULL &&
            s->generation == (uint32_t)(r->events[n].data.u64 >> 32)) {
            s->io->on_event(s->io, events_of(r->events[n].events));
        }
    }
}

/* Before on_turn looks at what others left for this thread: a wake that comes after this makes a
 * turn of its own. */
static void take_wake(struct fl_reactor *r)
{
    if (atomic_load_explicit(&r->waking, memory_order_relaxed)) {
        atomic_exchange(&r->waking, false);
    }
}

static void run_tasks(struct fl_list *tasks)
{
    for (struct fl_list *n; (n = fl_list_first(tasks)) != NULL;) {
        struct fl_task *t = fl_container_of(n, struct fl_task, node);
        __builtin_prefetch(n->next->next, 1);
        fl_list_remove(n);
        t->run(t);
    }
}

static void run_soon(struct fl_reactor *r)
{
    if (fl_list_empty(&r->soon)) {
        return;
    }
    struct fl_list now; /* what these ask for again belongs to the next turn */
    fl_list_push(&r->soon, &now);
    fl_list_remove(&r->soon);
    run_tasks(&now);
}

/* Later tasks free things, so nothing that is behind may be left over. */
static void run_rest(struct fl_reactor *r)
{
    do {
        run_tasks(&r->behind);
        run_tasks(&r->later);
    } while (!fl_list_empty(&r->behind));
}

void fl_reactor_turn(struct fl_reactor *r, int64_t max_wait_ms)
{
    int count = epoll_wait(r->epoll_fd, r->events, BATCH, wait_ms(r, max_wait_ms));
    FL_MUST(count >= 0 || errno == EINTR);
    read_clock(r);
    take_wake(r);
    fl_wheel_collect(&r->wheel, r->now_ms);
    if (r->on_turn != NULL) {
        r->on_turn(r->on_turn_arg);
    }
    dispatch(r, count);
    run_tasks(&r->behind);
    run_soon(r);
    run_tasks(&r->behind);
    fl_wheel_fire(&r->wheel, r->now_ms);
    run_rest(r);
}

void fl_reactor_run(struct fl_reactor *r)
{
    while (!atomic_load_explicit(&r->stopping, memory_order_relaxed)) {
        fl_reactor_turn(r, -1);
    }
}

void fl_reactor_stop(struct fl_reactor *r)
{
    atomic_store(&r->stopping, true);
    fl_reactor_wake(r);
}

void fl_reactor_wake(struct fl_reactor *r)
{
    if (!atomic_exchange(&r->waking, true)) {
        uint64_t one = 1;
        (void)!write(r->wake_fd, &one, sizeof(one));
    }
}
