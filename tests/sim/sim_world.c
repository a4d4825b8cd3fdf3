#include "tests/sim/sim_in.h"

#include <stdlib.h>

struct sim_world *sim_current;

void *sim_alloc(size_t n)
{
    void *p = calloc(1, n);
    FL_MUST(p != NULL);
    return p;
}

struct sim_path sim_path_default(void)
{
    return (struct sim_path){.send_bytes = 65536, .recv_bytes = 65536};
}

struct sim_world *sim_new(uint64_t seed)
{
    FL_MUST(sim_current == NULL);
    struct sim_world *w = sim_alloc(sizeof(*w));
    w->thread = pthread_self();
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->parking, NULL);
    w->now_us = (int64_t)SIM_START_MS * 1000;
    w->wall_offset_us = INT64_C(1796013750000000) - w->now_us;
    w->turn_us = 10;
    w->fd_limit = 1000000;
    w->next_port = 40000;
    fl_rng_seed(&w->rng, seed);
    fl_list_init(&w->reactors);
    fl_list_init(&w->listeners);
    fl_list_init(&w->links);
    fl_list_init(&w->routes);
    fl_list_init(&w->work);
    fl_list_init(&w->pool);
    sim_current = w;
    return w;
}

int64_t sim_now_ms(const struct sim_world *w)
{
    return w->now_us / 1000;
}

int64_t sim_now_us(const struct sim_world *w)
{
    return w->now_us;
}

struct fl_rng *sim_rng(struct sim_world *w)
{
    return &w->rng;
}

void sim_set_wall_ms(struct sim_world *w, int64_t wall_ms)
{
    w->wall_offset_us = wall_ms * 1000 - w->now_us;
}

void sim_set_turn_us(struct sim_world *w, int64_t us)
{
    w->turn_us = us;
}

void sim_set_shuffle(struct sim_world *w, bool on)
{
    w->shuffle = on;
}

void sim_set_fd_limit(struct sim_world *w, unsigned sockets)
{
    w->fd_limit = sockets;
}

void sim_advance(struct sim_world *w, int64_t us)
{
    w->now_us += us;
}

void sim_fault(struct sim_world *w, enum sim_call call, int err, unsigned skip, unsigned times)
{
    w->fault[call] = (struct sim_fault){err, skip, times};
}

int sim_call(struct sim_world *w, enum sim_call call)
{
    w->counts.calls[call]++;
    struct sim_fault *f = &w->fault[call];
    if (f->times == 0) {
        return 0;
    }
    if (f->skip > 0) {
        f->skip--;
        return 0;
    }
    f->times--;
    return f->err;
}

bool sim_chance(struct sim_world *w, unsigned pct)
{
    return pct > 0 && fl_rng_below(&w->rng, 100) < pct;
}

/* --- events: a heap by time, then by order of scheduling --- */

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->seq < b->seq;
}

static void push_event(struct sim_world *w, struct sim_event ev)
{
    if (w->heap_count == w->heap_cap) {
        w->heap_cap = w->heap_cap ? w->heap_cap * 2 : 256;
        w->heap = realloc(w->heap, w->heap_cap * sizeof(*w->heap));
        FL_MUST(w->heap != NULL);
    }
    if (ev.link != NULL) {
        ev.link->refs++;
    }
    ev.at_us = ev.at_us > w->now_us ? ev.at_us : w->now_us;
    ev.seq = w->seq++;
    size_t i = w->heap_count++;
    while (i > 0 && before(&ev, &w->heap[(i - 1) / 2])) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = ev;
}

void sim_schedule(struct sim_world *w, int64_t at_us, sim_event_fn *fn, void *obj, uint64_t arg,
                  struct sim_link *link)
{
    push_event(w, (struct sim_event){at_us, 0, fn, obj, arg, link, false});
}

void sim_schedule_owned(struct sim_world *w, int64_t at_us, sim_event_fn *fn, void *obj,
                        struct sim_link *link)
{
    push_event(w, (struct sim_event){at_us, 0, fn, obj, 0, link, true});
}

static struct sim_event pop_event(struct sim_world *w)
{
    struct sim_event top = w->heap[0], last = w->heap[--w->heap_count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < w->heap_count; i = child) {
        if (child + 1 < w->heap_count && before(&w->heap[child + 1], &w->heap[child])) {
            child++;
        }
        if (!before(&w->heap[child], &last)) {
            break;
        }
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = last;
    return top;
}

static bool run_due_events(struct sim_world *w)
{
    bool any = false;
    while (w->heap_count > 0 && w->heap[0].at_us <= w->now_us) {
        struct sim_event ev = pop_event(w);
        ev.fn(ev.obj, ev.arg);
        if (ev.owned) {
            free(ev.obj);
        }
        if (ev.link != NULL) {
            sim_link_unref(ev.link);
        }
        any = true;
    }
    return any;
}

static bool run_scripts(struct sim_world *w)
{
    struct fl_list now;
    if (fl_list_empty(&w->work)) {
        return false;
    }
    fl_list_push(&w->work, &now); /* what they cause for each other is for the next step */
    fl_list_remove(&w->work);
    for (struct fl_list *n; (n = fl_list_first(&now)) != NULL;) {
        fl_list_remove(n);
        sim_script_work(fl_container_of(n, struct sim_script, work));
    }
    return true;
}

static bool run_reactors(struct sim_world *w)
{
    bool any = false;
    for (struct fl_list *n = w->reactors.next; n != &w->reactors;) {
        struct fl_reactor *r = fl_container_of(n, struct fl_reactor, node);
        if (sim_reactor_ready(r)) {
            sim_reactor_turn(r);
            any = true;
        }
        n = n->next; /* a reactor is not freed from within a turn */
    }
    return any;
}

static int64_t next_us(struct sim_world *w)
{
    int64_t next = w->heap_count > 0 ? w->heap[0].at_us : INT64_MAX;
    fl_list_each (n, &w->reactors) {
        int64_t at = sim_reactor_next_us(fl_container_of(n, struct fl_reactor, node));
        next = at < next ? at : next;
    }
    return next;
}

bool sim_step(struct sim_world *w, int64_t limit_us, bool *idle)
{
    FL_MUST(!w->in_step); /* a callback must not run the world */
    FL_MUST(pthread_equal(pthread_self(), w->thread));
    *idle = false;
    if (w->now_us >= limit_us) {
        return false;
    }
    w->in_step = true;
    bool any = run_due_events(w);
    any = run_scripts(w) || any;
    any = run_reactors(w) || any;
    w->in_step = false;
    if (any) {
        return true;
    }
    int64_t next = next_us(w);
    *idle = next == INT64_MAX;
    if (next >= limit_us) {
        if (limit_us != INT64_MAX) {
            w->now_us = limit_us;
        }
        return false;
    }
    w->now_us = next;
    w->counts.idle_jumps++;
    return true;
}

static bool stopped(struct sim_world *w)
{
    bool any = false;
    fl_list_each (n, &w->reactors) {
        struct fl_reactor *r = fl_container_of(n, struct fl_reactor, node);
        if (!r->parked && atomic_exchange(&r->stopping, false)) {
            any = true;
        }
    }
    return any;
}

enum sim_why sim_run_while(struct sim_world *w, bool (*done)(void *arg), void *arg,
                           int64_t until_ms)
{
    int64_t limit_us = until_ms > INT64_MAX / 1000 ? INT64_MAX : until_ms * 1000;
    bool idle = false;
    while (done == NULL || !done(arg)) {
        if (!sim_step(w, limit_us, &idle)) {
            return limit_us == INT64_MAX ? SIM_IDLE : SIM_TIME;
        }
        if (stopped(w)) {
            return SIM_DONE;
        }
    }
    return SIM_DONE;
}

enum sim_why sim_run_until(struct sim_world *w, int64_t until_ms)
{
    return sim_run_while(w, NULL, NULL, until_ms);
}

enum sim_why sim_run_for(struct sim_world *w, int64_t ms)
{
    return sim_run_until(w, sim_now_ms(w) + ms);
}

struct call_later {
    void (*fn)(void *arg);
    void *arg;
};

static void run_call(void *obj, uint64_t arg)
{
    (void)arg;
    const struct call_later *call = obj;
    call->fn(call->arg);
}

void sim_at(struct sim_world *w, int64_t at_ms, void (*fn)(void *arg), void *arg)
{
    struct call_later *call = sim_alloc(sizeof(*call));
    *call = (struct call_later){fn, arg};
    sim_schedule_owned(w, at_ms * 1000, run_call, call, NULL);
}

struct sim_counts sim_counts(const struct sim_world *w)
{
    struct sim_counts c = w->counts;
    c.sockets_open = w->files_open;
    c.listeners_open = c.accept_waiting = c.conns_open = 0;
    fl_list_each (n, &w->listeners) {
        const struct sim_listener *l = fl_container_of(n, struct sim_listener, node);
        c.listeners_open += l->file != NULL;
        c.accept_waiting += l->queued;
    }
    fl_list_each (n, &w->links) {
        const struct sim_link *l = fl_container_of(n, struct sim_link, node);
        for (int i = 0; i < 2; i++) {
            c.conns_open += l->end[i].script != NULL && !l->end[i].gone_told;
        }
    }
    return c;
}

static unsigned report_leaks(struct sim_world *w)
{
    unsigned leaks = 0;
    for (unsigned i = 0; i < w->file_count; i++) {
        const struct sim_file *f = w->files[i];
        if (f->end == NULL && f->listener == NULL) {
            continue;
        }
        char a[FL_ADDR_TEXT_MAX], b[FL_ADDR_TEXT_MAX] = "listener";
        struct fl_fmt fa = fl_fmt_of(a, sizeof(a)), fb = {b, 0, sizeof(b), false};
        fl_addr_print(f->end ? &f->end->link->from : &f->listener->at, &fa);
        if (f->end != NULL) {
            fl_addr_print(&f->end->link->to, &fb);
        }
        fprintf(stderr, "sim: left open: fd %d, %s -> %s\n", f->fd, a, b);
        leaks++;
    }
    fl_list_each (n, &w->reactors) {
        struct fl_reactor *r = fl_container_of(n, struct fl_reactor, node);
        fprintf(stderr, "sim: left open: a reactor%s\n",
                fl_wheel_next_ms(&r->wheel) == INT64_MAX ? "" : " that holds timers");
        leaks++;
    }
    return leaks;
}

static void free_events(struct sim_world *w)
{
    for (size_t i = 0; i < w->heap_count; i++) {
        if (w->heap[i].owned) {
            free(w->heap[i].obj);
        }
    }
    free(w->heap);
}

static void free_links(struct fl_list *links)
{
    for (struct fl_list *n; (n = fl_list_first(links)) != NULL;) {
        struct sim_link *l = fl_container_of(n, struct sim_link, node);
        fl_list_remove(n);
        for (int i = 0; i < 2; i++) {
            if (l->end[i].script != NULL) {
                sim_script_drop(l->end[i].script);
            }
            sim_pipe_free(&l->pipe[i]);
        }
        free(l);
    }
}

unsigned sim_free(struct sim_world *w)
{
    unsigned leaks = report_leaks(w);
    for (struct fl_list *n; (n = fl_list_first(&w->reactors)) != NULL;) {
        fl_reactor_free(fl_container_of(n, struct fl_reactor, node));
    }
    for (struct fl_list *n; (n = fl_list_first(&w->listeners)) != NULL;) {
        sim_listener_free(fl_container_of(n, struct sim_listener, node));
    }
    for (struct fl_list *n; (n = fl_list_first(&w->routes)) != NULL;) {
        fl_list_remove(n);
        free(fl_container_of(n, struct sim_route, node));
    }
    free_links(&w->links);
    free_links(&w->pool);
    free_events(w);
    for (unsigned i = 0; i < w->file_count; i++) {
        free(w->files[i]);
    }
    free(w->files);
    FL_MUST(w->parked == 0);
    pthread_cond_destroy(&w->parking);
    pthread_mutex_destroy(&w->lock);
    free(w);
    sim_current = NULL;
    return leaks;
}
