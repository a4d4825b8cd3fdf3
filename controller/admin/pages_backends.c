/* backends: the controller's verdict of each peer beside what the sidecars see of it */
#include <stdlib.h>
#include <string.h>

#include "controller/admin/page.h"
#include "controller/admin/pages.h"

#define TALLY_BYTES_MAX ((size_t)64 << 20)
#define KEY_MAX         600

/* What all sidecars say of one peer. */
struct tally {
    uint32_t reached, failing;
    uint64_t requests, failures;
    const struct fl_observation *bad; /* one that does not reach it, and whose that is */
    const char *bad_sidecar;
};

struct tallies {
    struct fl_arena arena;
    struct fl_smap map; /* "backend\naddress" -> struct tally */
};

struct page {
    const struct fl_admin_view *v;
    struct tallies *t;
};

static struct fl_span key_of(const char *backend, const char *address, char text[KEY_MAX])
{
    struct fl_fmt f = fl_fmt_of(text, KEY_MAX);
    fl_fmt_text(&f, backend);
    fl_fmt_char(&f, '\n');
    fl_fmt_text(&f, address);
    return (struct fl_span){f.base, f.len};
}

static struct tally *tally_of(struct tallies *t, const struct fl_observation *o)
{
    char text[KEY_MAX];
    struct fl_span key = key_of(o->backend, o->peer, text);
    struct tally *one = fl_smap_get(&t->map, key);
    if (one != NULL) {
        return one;
    }
    const char *kept = fl_arena_text(&t->arena, key);
    one = fl_arena_alloc(&t->arena, sizeof(*one));
    if (kept == NULL || one == NULL || fl_smap_put(&t->map, fl_span_of(kept), one) < 0) {
        return NULL; /* out of memory: this peer is shown without the sidecars' view */
    }
    return one;
}

static void count_sidecar(struct tallies *t, const struct fl_fanout_view *s)
{
    for (uint32_t i = 0; i < s->observation_count; i++) {
        const struct fl_observation *o = &s->observations[i];
        struct tally *one = tally_of(t, o);
        if (one == NULL) {
            return;
        }
        one->requests += o->requests;
        one->failures += o->failures;
        if (strcmp(o->cause.code, "healthy") == 0) {
            one->reached++;
        } else if (o->cause.code[0] != '\0' && strcmp(o->cause.code, "unknown") != 0) {
            one->failing++;
            one->bad = one->bad != NULL ? one->bad : o;
            one->bad_sidecar = one->bad_sidecar != NULL ? one->bad_sidecar : s->address;
        }
    }
}

static void put_controller_view(struct fl_page *p, const struct fl_admin_view *v,
                                const char *backend, const char *address)
{
    static const struct fl_verdict never;
    const struct fl_verdict *found = fl_verdict_table_get(v->verdicts, backend, address);
    const struct fl_verdict *verdict = found != NULL ? found : &never;
    fl_page_open(p, "verdict", '{');
    fl_page_text(p, "status", fl_verdict_status_name(verdict->status));
    fl_page_text(p, "code", verdict->cause.code);
    fl_page_text(p, "cause", verdict->cause.text);
    fl_page_text(p, "step", verdict->step);
    fl_page_time(p, "probed_at", verdict->at_unix_ms);
    fl_page_close(p, '}');
}

static void put_sidecars_view(struct fl_page *p, const struct tally *t)
{
    static const struct tally none;
    t = t != NULL ? t : &none;
    fl_page_open(p, "sidecars", '{');
    fl_page_int(p, "reached", t->reached);
    fl_page_int(p, "failing", t->failing);
    fl_page_int(p, "requests", (int64_t)t->requests);
    fl_page_int(p, "failures", (int64_t)t->failures);
    fl_page_text(p, "code", t->bad != NULL ? t->bad->cause.code : "");
    fl_page_text(p, "cause", t->bad != NULL ? t->bad->cause.text : "");
    fl_page_text(p, "seen_by", t->bad != NULL ? t->bad_sidecar : "");
    fl_page_close(p, '}');
}

static void put_peer(struct fl_page *p, const struct page *page, const char *backend,
                     const struct fl_peer_conf *peer)
{
    static const char *const tiers[] = {"primary", "last_resort", "backup"};
    char text[KEY_MAX];
    fl_page_open(p, NULL, '{');
    fl_page_text(p, "address", peer->address);
    fl_page_text(p, "tier", tiers[peer->tier]);
    fl_page_text(p, "zone", peer->zone);
    fl_page_int(p, "weight", peer->weight);
    fl_page_bool(p, "down", peer->down);
    put_controller_view(p, page->v, backend, peer->address);
    put_sidecars_view(p, fl_smap_get(&page->t->map, key_of(backend, peer->address, text)));
    fl_page_close(p, '}');
}

static void put_backend(struct fl_page *p, const struct page *page, const struct fl_state *state,
                        const struct fl_state_backend *b)
{
    const struct fl_service_ref *ref = &b->conf.service;
    fl_page_open(p, NULL, '{');
    fl_page_text(p, "name", b->name);
    fl_page_text(p, "definition", b->owns ? "controller" : "sidecar");
    fl_page_open(p, "service", '{');
    fl_page_text(p, "namespace", ref->namespace);
    fl_page_text(p, "name", ref->name);
    fl_page_text(p, "port", ref->port);
    fl_page_close(p, '}');
    fl_page_text(p, "membership", b->has_peers ? "ready" : "waiting");
    fl_page_open(p, "buckets", '[');
    for (uint32_t i = 0; i < state->route_count; i++) {
        if (strcmp(state->routes[i].backend, b->name) == 0) {
            fl_page_text(p, NULL, state->routes[i].bucket);
        }
    }
    fl_page_close(p, ']');
    fl_page_open(p, "peers", '[');
    for (uint32_t i = 0; i < b->conf.peer_count; i++) {
        put_peer(p, page, b->name, &b->conf.peers[i]);
    }
    fl_page_close(p, ']');
    fl_page_close(p, '}');
}

static void write_backends(struct fl_fmt *out, void *arg)
{
    const struct page *page = arg;
    const struct fl_state *state = fl_fanout_state(page->v->fanout);
    struct fl_page p = {out, false};
    fl_page_open(&p, NULL, '{');
    fl_page_open(&p, "backends", '[');
    for (uint32_t i = 0; state != NULL && i < state->backend_count; i++) {
        put_backend(&p, page, state, &state->backends[i]);
    }
    fl_page_close(&p, ']');
    fl_page_close(&p, '}');
    fl_fmt_char(out, '\n');
}

void fl_pages_backends(struct fl_mhd_call *call, void *arg)
{
    struct fl_admin_view v = fl_pages_look(arg);
    struct tallies t;
    struct page page = {&v, &t};
    fl_arena_init(&t.arena, TALLY_BYTES_MAX);
    fl_smap_init(&t.map,
                 (uint64_t)v.now_ms); /* sidecars choose these names: not the same each time */
    for (uint32_t i = 0; i < fl_fanout_count(v.fanout); i++) {
        struct fl_fanout_view s;
        fl_fanout_view(v.fanout, i, &s);
        count_sidecar(&t, &s);
    }
    fl_mhd_reply_written(call, 200, "application/json", write_backends, &page);
    fl_smap_done(&t.map);
    fl_arena_done(&t.arena);
}
