/* Scripted connections. What a script asks for is only noted; sim_script_work, between the turns,
 * does it in order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim_in.h"

#define FILL_PIECE 4096

struct sim_script *sim_script_new(struct sim_end *e, const struct sim_endpoint *ep, void *arg)
{
    struct sim_link *l = e->link;
    struct sim_script *s = sim_alloc(sizeof(*s));
    bool dialled = e == &l->end[0];
    s->pub = (struct sim_conn){.ep = ep,
                               .world = l->world,
                               .arg = arg,
                               .local = dialled ? l->from : l->to,
                               .remote = dialled ? l->to : l->from};
    s->end = e;
    s->reset_after = UINT64_MAX;
    fl_list_init(&s->work);
    return s;
}

void sim_script_wake(struct sim_script *s)
{
    if (fl_list_empty(&s->work)) {
        fl_list_append(&s->pub.world->work, &s->work);
    }
}

static void free_script(struct sim_script *s)
{
    fl_list_remove(&s->work);
    for (struct sim_chunk *c = s->first, *next; c != NULL; c = next) {
        next = c->next;
        free(c);
    }
    free(s);
}

void sim_script_drop(struct sim_script *s)
{
    free_script(s);
}

struct sim_conn *sim_dial(struct sim_world *w, const char *from, const char *to,
                          const struct sim_path *path, const struct sim_endpoint *ep, void *arg)
{
    struct fl_addr a, b;
    FL_MUST(fl_addr_parse(fl_span_of(from), &a) && fl_addr_parse(fl_span_of(to), &b));
    struct sim_path way = path ? *path : sim_path_default();
    if (way.connect == SIM_UNREACHABLE) {
        way.connect = SIM_REFUSE;
    }
    struct sim_link *l = sim_link_new(w, &way, &a, &b);
    l->end[0].script = sim_script_new(&l->end[0], ep, arg);
    sim_link_connect(l);
    return &l->end[0].script->pub;
}

/* --- what a script may ask for --- */

static struct sim_script *of(struct sim_conn *c)
{
    return (struct sim_script *)c; /* pub is its first member */
}

static void queue_chunk(struct sim_script *s, struct sim_chunk *c)
{
    c->next = NULL;
    if (s->last != NULL) {
        s->last->next = c;
    } else {
        s->first = c;
    }
    s->last = c;
    s->unsent += c->n;
    s->sent_owed = true;
    sim_script_wake(s);
}

void sim_send(struct sim_conn *c, const void *bytes, size_t n)
{
    struct sim_script *s = of(c);
    if (n == 0 || s->finish || s->closing || s->resetting) {
        return;
    }
    struct sim_chunk *chunk = sim_alloc(sizeof(*chunk) + n);
    chunk->n = n;
    memcpy(chunk->bytes, bytes, n);
    queue_chunk(s, chunk);
}

void sim_send_text(struct sim_conn *c, const char *text)
{
    sim_send(c, text, strlen(text));
}

void sim_send_fill(struct sim_conn *c, uint64_t n)
{
    struct sim_script *s = of(c);
    if (n == 0 || s->finish || s->closing || s->resetting) {
        return;
    }
    struct sim_chunk *chunk = sim_alloc(sizeof(*chunk));
    chunk->n = n;
    chunk->fill = true;
    queue_chunk(s, chunk);
}

void sim_finish(struct sim_conn *c)
{
    of(c)->finish = true;
    sim_script_wake(of(c));
}

void sim_close(struct sim_conn *c)
{
    of(c)->closing = true;
    sim_script_wake(of(c));
}

void sim_reset(struct sim_conn *c)
{
    of(c)->resetting = true;
    sim_script_wake(of(c));
}

void sim_reset_when_sent(struct sim_conn *c)
{
    of(c)->reset_when_sent = true;
    sim_script_wake(of(c));
}

void sim_reset_after(struct sim_conn *c, uint64_t got_bytes)
{
    of(c)->reset_after = got_bytes;
    sim_script_wake(of(c));
}

void sim_hold(struct sim_conn *c, bool held)
{
    of(c)->held = held;
    sim_script_wake(of(c));
}

uint64_t sim_unsent(const struct sim_conn *c)
{
    return ((const struct sim_script *)c)->unsent;
}

struct conn_call {
    struct sim_end *end;
    const struct sim_script *script;
    void (*fn)(struct sim_conn *c);
};

static void run_conn_call(void *obj, uint64_t arg)
{
    const struct conn_call *call = obj;
    (void)arg;
    if (call->end->script ==
        call->script) { /* the link is held, so another script cannot have come */
        call->fn(&call->end->script->pub);
    }
}

void sim_conn_at(struct sim_conn *c, int64_t at_ms, void (*fn)(struct sim_conn *c))
{
    struct conn_call *call = sim_alloc(sizeof(*call));
    *call = (struct conn_call){of(c)->end, of(c), fn};
    sim_schedule_owned(c->world, at_ms * 1000, run_conn_call, call, of(c)->end->link);
}

void sim_conn_after(struct sim_conn *c, int64_t ms, void (*fn)(struct sim_conn *c))
{
    sim_conn_at(c, sim_now_ms(c->world) + ms, fn);
}

/* --- doing it --- */

static void tell_close(struct sim_script *s, int err, bool reset)
{
    struct sim_end *e = s->end;
    e->gone_told = true;
    if (s->pub.ep->on_close != NULL) {
        s->pub.ep->on_close(&s->pub, err);
    }
    e->script = NULL;
    free_script(s);
    sim_end_close(e, reset);
}

static void read_arrived(struct sim_script *s)
{
    struct sim_end *e = s->end;
    size_t n;
    const char *p;
    while (!s->held && !s->resetting && (p = sim_end_peek(e, &n), n > 0)) {
        uint64_t got = s->pub.got_bytes, left = s->reset_after > got ? s->reset_after - got : 0;
        n = n < left ? n : (size_t)left;
        s->pub.got_bytes += n;
        if (s->pub.got_bytes >= s->reset_after) {
            s->resetting = true;
        }
        if (n > 0 && s->pub.ep->on_data != NULL) {
            s->pub.ep->on_data(&s->pub, p, n);
        }
        sim_end_consume(e, n);
    }
    if (e->in->fin_arrived && e->in->read == e->in->arrived && !s->eof_told && !s->resetting) {
        s->eof_told = true;
        if (s->pub.ep->on_eof != NULL) {
            s->pub.ep->on_eof(&s->pub);
        } else {
            s->finish = true;
        }
    }
}

static size_t send_chunk(struct sim_script *s, struct sim_chunk *c)
{
    uint64_t left = c->n - c->done;
    if (!c->fill) {
        return sim_end_send(s->end, c->bytes + c->done, (size_t)left);
    }
    char piece[FILL_PIECE];
    size_t room = sim_end_room(s->end), n = left < FILL_PIECE ? (size_t)left : FILL_PIECE;
    n = n < room || room == 0
            ? n
            : room; /* made no longer than it fits; without room it is asked for */
    for (size_t i = 0; i < n; i++) {
        piece[i] = sim_fill_at(c->done + i);
    }
    return sim_end_send(s->end, piece, n);
}

static void send_queued(struct sim_script *s)
{
    while (s->first != NULL) {
        struct sim_chunk *c = s->first;
        size_t n = send_chunk(s, c);
        if (n == 0) {
            return; /* woken when there is room */
        }
        c->done += n;
        s->unsent -= n;
        s->pub.sent_bytes += n;
        if (c->done == c->n) {
            s->first = c->next;
            s->last = s->first ? s->last : NULL;
            free(c);
        }
    }
    if (s->sent_owed) {
        s->sent_owed = false;
        if (s->pub.ep->on_sent != NULL) {
            s->pub.ep->on_sent(&s->pub);
        }
    }
}

void sim_script_work(struct sim_script *s)
{
    struct sim_end *e = s->end;
    if (!s->opened && e->state == SIM_OPEN) {
        s->opened = true;
        if (s->pub.ep->on_open != NULL) {
            s->pub.ep->on_open(&s->pub);
        }
    }
    if (s->opened) {
        read_arrived(s);
    }
    if (e->dead) {
        tell_close(s, e->err, false);
        return;
    }
    if (s->resetting || (s->closing && !s->opened)) {
        tell_close(s, 0, true);
        return;
    }
    if (!s->opened) {
        return;
    }
    send_queued(s);
    if (s->first != NULL || e->choked) {
        return;
    }
    if (s->reset_when_sent && sim_end_launched(e)) {
        tell_close(s, 0, true);
    } else if (s->closing) {
        tell_close(s, 0, false);
    } else if (s->finish) {
        sim_end_finish(e);
        if (s->eof_told) {
            tell_close(s, 0, false);
        }
    }
}
