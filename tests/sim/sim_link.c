/* A connection: handshake, bytes on their way, FIN, RST. Without latency everything happens within
 * the call, as on loopback; with latency it becomes an event. Order is kept per direction. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim_in.h"

#define SYN_RETRY_US      1000000
#define SYN_TIMEOUT_US    INT64_C(127000000)
#define RESEND_TIMEOUT_US INT64_C(924000000)
#define FRAGMENT_GAP_US   200
#define POOLED_RING_BYTES 65536

struct sim_link *sim_link_new(struct sim_world *w, const struct sim_path *path,
                              const struct fl_addr *from, const struct fl_addr *to)
{
    struct fl_list *n = fl_list_first(&w->pool);
    struct sim_link *l = n ? fl_container_of(n, struct sim_link, node) : sim_alloc(sizeof(*l));
    if (n != NULL) {
        fl_list_remove(n);
    }
    *l =
        (struct sim_link){.world = w,
                          .refs = 1,
                          .path = *path,
                          .from = *from,
                          .to = *to,
                          .pipe = {{.ring = l->pipe[0].ring, .ring_bytes = l->pipe[0].ring_bytes},
                                   {.ring = l->pipe[1].ring, .ring_bytes = l->pipe[1].ring_bytes}}};
    for (int i = 0; i < 2; i++) {
        l->end[i].link = l;
        l->end[i].peer = &l->end[1 - i];
        l->end[i].out = &l->pipe[i];
        l->end[i].in = &l->pipe[1 - i];
    }
    l->end[1].state = SIM_CLOSED; /* not there yet */
    fl_list_init(&l->waiting);
    fl_list_append(&w->links, &l->node);
    return l;
}

void sim_pipe_free(struct sim_pipe *p)
{
    free(p->ring);
    p->ring = NULL;
    p->ring_bytes = 0;
}

void sim_link_unref(struct sim_link *l)
{
    if (--l->refs > 0) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        if (l->pipe[i].ring_bytes > POOLED_RING_BYTES) {
            sim_pipe_free(&l->pipe[i]);
        }
    }
    fl_list_remove(&l->node);
    fl_list_push(&l->world->pool, &l->node);
}

void sim_end_notify(struct sim_end *e)
{
    if (e->state == SIM_CLOSED) {
        return;
    }
    if (e->script != NULL) {
        sim_script_wake(e->script);
    } else if (e->file != NULL) {
        sim_edge(e->file);
    }
}

/* Now, or as an event behind everything that is under way to the same end. */
static void travel(struct sim_end *to, int64_t extra_us, sim_event_fn *fn, uint64_t arg)
{
    struct sim_world *w = to->link->world;
    int64_t at = w->now_us + to->link->path.latency_us + extra_us;
    if (at < to->in->last_us) {
        at = to->in->last_us;
    }
    to->in->last_us = at;
    if (to->in->under_way++ == 0 && at == w->now_us) {
        fn(to, arg);
    } else {
        sim_schedule(w, at, fn, to, arg, to->link);
    }
}

/* First thing in whatever travelled. False: the cable is cut, it has not arrived. */
static bool arrive(struct sim_end *e)
{
    e->in->under_way--;
    return !e->link->cut;
}

static void give_up(void *obj, uint64_t connecting)
{
    struct sim_end *e = obj;
    bool waits = connecting ? e->state == SIM_CONNECTING : e->out->sent > e->out->acked;
    if (e->state != SIM_CLOSED && !e->dead && waits) {
        e->dead = true;
        e->err = ETIMEDOUT;
        sim_end_notify(e);
    }
}

static void give_up_after(struct sim_end *e, int64_t default_us)
{
    bool connecting = e->state == SIM_CONNECTING;
    int64_t us = e->user_timeout_ms > 0 ? (int64_t)e->user_timeout_ms * 1000 : default_us;
    sim_schedule(e->link->world, e->link->world->now_us + us, give_up, e, connecting, e->link);
}

static void on_room(void *obj, uint64_t acked)
{
    struct sim_end *e = obj;
    if (acked > e->out->acked) {
        e->out->acked = acked;
    }
    if (e->nospace && !e->dead && sim_writable(e)) {
        e->nospace = false;
        sim_end_notify(e);
    }
}

static void on_unchoke(void *obj, uint64_t arg)
{
    struct sim_end *e = obj;
    (void)arg;
    e->choked = false;
    on_room(e, 0);
}

static void on_rst(void *obj, uint64_t err)
{
    struct sim_end *e = obj;
    bool over = e->in->fin_arrived && e->out->fin_arrived;
    if (!arrive(e) || e->dead || over) {
        return;
    }
    e->dead = true;
    if (e->state != SIM_CLOSED) {
        e->err = err ? (int)err : e->in->fin_arrived ? EPIPE : ECONNRESET;
        sim_end_notify(e);
    }
}

static void on_bytes(void *obj, uint64_t upto)
{
    struct sim_end *e = obj;
    if (!arrive(e) || e->dead) {
        return;
    }
    e->in->arrived = upto;
    if (e->state == SIM_CLOSED) { /* nobody is there to read it */
        e->in->read = upto;
        e->dead = true;
        travel(e->peer, 0, on_rst, 0);
        return;
    }
    if (e->file == NULL || sim_end_wakes(e)) {
        sim_end_notify(e);
    }
    int64_t latency_us = e->link->path.latency_us;
    if (latency_us == 0) {
        on_room(e->peer, upto);
    } else {
        sim_schedule(e->link->world, e->link->world->now_us + latency_us, on_room, e->peer, upto,
                     e->link);
    }
}

static void on_fin_acked(void *obj, uint64_t arg)
{
    struct sim_end *e = obj;
    (void)arg;
    if (!arrive(e)) {
        return;
    }
    sim_end_notify(e); /* FIN_WAIT1 to FIN_WAIT2 wakes who polls, too */
}

static void on_fin(void *obj, uint64_t arg)
{
    struct sim_end *e = obj;
    (void)arg;
    if (!arrive(e) || e->dead) {
        return;
    }
    e->in->fin_arrived = true;
    sim_end_notify(e);
    travel(e->peer, 0, on_fin_acked, 0);
}

/* In one piece, or in a few with pauses: each is an edge for the receiver. */
static void launch_bytes(struct sim_end *to, uint64_t upto, int64_t extra_us)
{
    struct sim_pipe *p = to->in;
    struct sim_world *w = to->link->world;
    if (sim_chance(w, to->link->path.fragment_pct)) {
        for (int i = 0; i < 4 && upto - p->launched > 1; i++) {
            uint64_t rest = upto - p->launched;
            p->launched += 1 + fl_rng_below(&w->rng, (uint32_t)(rest - 1));
            travel(to, extra_us, on_bytes, p->launched);
            extra_us += 1 + fl_rng_below(&w->rng, FRAGMENT_GAP_US);
        }
    }
    p->launched = upto;
    travel(to, extra_us, on_bytes, upto);
}

static void launch(struct sim_end *to, int64_t extra_us)
{
    struct sim_pipe *p = to->in;
    struct sim_end *from = to->peer;
    if (to->link->cut || from->dead) {
        return;
    }
    uint64_t window = p->read + to->link->path.recv_bytes;
    uint64_t upto = p->sent < window ? p->sent : window;
    if (upto > p->launched) {
        launch_bytes(to, upto, extra_us);
    }
    if (p->fin_queued && !p->fin_launched && p->launched == p->sent) {
        p->fin_launched = true;
        travel(to, extra_us, on_fin, 0);
    }
    if (from->script != NULL && from->script->reset_when_sent && p->launched == p->sent) {
        sim_script_wake(from->script);
    }
}

bool sim_end_launched(const struct sim_end *e)
{
    return e->out->launched == e->out->sent;
}

/* --- bytes --- */

static void make_room(struct sim_pipe *p, uint64_t n)
{
    uint64_t need = p->sent - p->read + n;
    if (need <= p->ring_bytes) {
        return;
    }
    uint32_t bytes = p->ring_bytes ? p->ring_bytes : 4096;
    while (bytes < need) {
        bytes *= 2;
    }
    char *ring = sim_alloc(bytes);
    for (uint64_t i = p->read;
         i < p->sent;) { /* run by run, to the same positions modulo the new size */
        uint64_t run = p->ring_bytes - (i & (p->ring_bytes - 1));
        run = run < p->sent - i ? run : p->sent - i;
        uint64_t room = bytes - (i & (bytes - 1));
        run = run < room ? run : room;
        memcpy(ring + (i & (bytes - 1)), p->ring + (i & (p->ring_bytes - 1)), run);
        i += run;
    }
    free(p->ring);
    p->ring = ring;
    p->ring_bytes = bytes;
}

size_t sim_end_room(const struct sim_end *e)
{
    uint64_t used = e->out->sent - e->out->acked;
    return e->choked || used >= e->link->path.send_bytes ? 0 : e->link->path.send_bytes - used;
}

size_t sim_end_send(struct sim_end *e, const char *bytes, size_t n)
{
    struct sim_world *w = e->link->world;
    struct sim_pipe *p = e->out;
    size_t room = sim_end_room(e), take = n < room ? n : room;
    if (take > 1 && sim_chance(w, e->link->path.short_write_pct)) {
        take = 1 + fl_rng_below(&w->rng, (uint32_t)(take - 1));
        e->choked = true;
        sim_schedule(w, w->now_us + 1 + fl_rng_below(&w->rng, FRAGMENT_GAP_US), on_unchoke, e, 0,
                     e->link);
    }
    e->nospace = e->nospace || take < n;
    if (take == 0) {
        return 0;
    }
    make_room(p, take);
    uint64_t at = p->sent & (p->ring_bytes - 1), first = p->ring_bytes - at;
    first = first < take ? first : take;
    memcpy(p->ring + at, bytes, first);
    memcpy(p->ring, bytes + first, take - first);
    bool was_acked = p->sent == p->acked;
    p->sent += take;
    if (e->link->cut && was_acked) {
        give_up_after(e, RESEND_TIMEOUT_US);
    }
    launch(e->peer, 0);
    return take;
}

const char *sim_end_peek(const struct sim_end *e, size_t *n)
{
    const struct sim_pipe *p = e->in;
    uint64_t len = p->arrived - p->read, at = p->read & (p->ring_bytes - 1);
    *n = len < p->ring_bytes - at ? len : p->ring_bytes - at;
    return len > 0 ? p->ring + at : NULL; /* no ring before the first byte */
}

void sim_end_consume(struct sim_end *e, size_t n)
{
    e->in->read += n;
    if (e->in->launched < e->in->sent || (e->in->fin_queued && !e->in->fin_launched)) {
        launch(e, e->link->path.latency_us); /* the news of the window travels first */
    }
}

/* --- ends --- */

void sim_end_finish(struct sim_end *e)
{
    if (e->snd_shut || e->dead || e->state == SIM_CONNECTING) {
        return;
    }
    e->snd_shut = true;
    e->out->fin_queued = true;
    launch(e->peer, 0);
    sim_end_notify(e); /* shutdown(2) wakes who polls */
}

/* As close(2): with bytes unread, or on demand, it is an RST and the send queue is lost. */
void sim_end_close(struct sim_end *e, bool reset)
{
    if (e->state == SIM_CLOSED) {
        return;
    }
    bool connecting = e->state == SIM_CONNECTING, unread = e->in->arrived > e->in->read;
    e->file = NULL;
    if (!connecting && !e->dead) {
        if (reset || unread) {
            e->out->sent = e->out->launched;
            e->state = SIM_CLOSED;
            e->dead = true;
            travel(e->peer, 0, on_rst, 0);
        } else {
            sim_end_finish(e);
        }
    }
    e->state = SIM_CLOSED;
    e->in->read = e->in->arrived;
    sim_link_unref(e->link);
}

static void on_established(void *obj, uint64_t arg)
{
    struct sim_end *e = obj;
    (void)arg;
    if (!arrive(e) || e->dead) {
        return;
    }
    if (e->state == SIM_CLOSED) { /* it has given up meanwhile */
        travel(e->peer, 0, on_rst, 0);
        return;
    }
    e->state = SIM_OPEN;
    sim_end_notify(e);
}

static void on_syn(void *obj, uint64_t tries)
{
    struct sim_end *e = obj; /* the end that does not exist yet */
    struct sim_link *l = e->link;
    struct sim_world *w = l->world;
    if (!arrive(e) || l->end[0].state == SIM_CLOSED) {
        return;
    }
    struct sim_listener *at = sim_find_listener(w, &l->to);
    if (at == NULL) {
        travel(&l->end[0], 0, on_rst, ECONNREFUSED);
        return;
    }
    if (at->file != NULL &&
        at->queued >= at->backlog) { /* dropped; sent again, for as long as that lasts */
        e->in->under_way++;
        sim_schedule(w, w->now_us + SYN_RETRY_US, on_syn, e, tries + 1, l);
        if (tries == 0) {
            give_up_after(&l->end[0], SYN_TIMEOUT_US);
        }
        return;
    }
    l->refs++;
    e->state = SIM_OPEN;
    if (at->file != NULL) {
        e->app = true;
        l->waiting_at = at;
        at->queued++;
        fl_list_append(&at->queue, &l->waiting);
        sim_edge(at->file);
    } else {
        e->script = sim_script_new(e, at->ep, at->arg);
        sim_script_wake(e->script);
    }
    travel(&l->end[0], 0, on_established, 0);
}

void sim_link_connect(struct sim_link *l)
{
    switch (l->path.connect) {
    case SIM_ACCEPT:
        travel(&l->end[1], 0, on_syn, 0);
        break;
    case SIM_REFUSE:
        travel(&l->end[0], l->path.latency_us, on_rst, ECONNREFUSED);
        break;
    case SIM_BLACKHOLE:
        give_up_after(&l->end[0], SYN_TIMEOUT_US);
        break;
    case SIM_UNREACHABLE:
        FL_IMPOSSIBLE("an error of connect itself");
    }
}

void sim_cut(struct sim_conn *c)
{
    struct sim_link *l = ((struct sim_script *)c)->end->link;
    l->cut = true;
    for (int i = 0; i < 2; i++) {
        if (l->end[i].app && l->end[i].out->sent > l->end[i].out->acked) {
            give_up_after(&l->end[i], RESEND_TIMEOUT_US);
        }
    }
}
