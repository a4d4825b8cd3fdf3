/* backends: the controller's verdict of each peer beside what the sidecars see of it */
#include <stdlib.h>
#include <string.h>

#include "common/base/json.h"
#include "controller/admin/pages.h"
#include "controller/decide/backend_verdict.h"

#define TALLY_BYTES_MAX ((size_t)64 << 20)
#define KEY_MAX         (FL_SUBJECT_MAX + 300)

/* What all sidecars say of one peer. */
struct tally {
    uint32_t reached, failing;
    uint64_t requests, failures;
    const struct fl_observation *bad; /* one that does not reach it, and whose that is */
    const char *bad_sidecar;
};

struct tallies {
    struct fl_arena arena;
    struct fl_smap map; /* "subject\naddress" -> struct tally */
};

struct page {
    const struct fl_admin_view *v;
    struct tallies *t;
    const char *name; /* of the one that is shown; NULL: all */
};

static struct fl_span key_of(const char *backend, const char *address, char text[KEY_MAX])
{
    struct fl_fmt f = fl_fmt_of(text, KEY_MAX);
    fl_fmt_text(&f, backend);
    fl_fmt_char(&f, '\n');
    fl_fmt_text(&f, address);
    return (struct fl_span){f.base, f.len};
}

static struct tally *tally_of(struct tallies *t, const char *subject,
                              const struct fl_observation *o)
{
    char text[KEY_MAX];
    struct fl_span key = key_of(subject, o->peer, text);
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

static void count_sidecar(const struct fl_admin_view *v, struct tallies *t,
                          const struct fl_fanout_view *s)
{
    for (uint32_t i = 0; i < s->observation_count; i++) {
        const struct fl_observation *o = &s->observations[i];
        char subject[FL_SUBJECT_MAX];
        fl_delivery_subject(v->delivery, s->configuration, o->backend, subject);
        struct tally *one = tally_of(t, subject, o);
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

static void put_verdict(struct fl_json *j, const struct fl_verdict *v, const char *other_view)
{
    static const struct fl_verdict never;
    v = v != NULL ? v : &never;
    fl_json_open(j, "verdict", '{');
    fl_json_text(j, "status", fl_verdict_status_name(v->status));
    fl_json_text(j, "code", v->cause.code);
    fl_json_text(j, "cause", v->cause.text);
    fl_json_text(j, "note", v->note);
    fl_json_text(j, "step", v->step);
    fl_json_time(j, "probed_at", v->at_unix_ms);
    fl_json_int(j, "duration_ms", v->duration_ms);
    fl_json_text(j, "other_view", other_view);
    fl_json_close(j, '}');
}

static void put_sidecars_view(struct fl_json *j, const struct tally *t)
{
    static const struct tally none;
    t = t != NULL ? t : &none;
    fl_json_open(j, "sidecars", '{');
    fl_json_int(j, "reached", t->reached);
    fl_json_int(j, "failing", t->failing);
    fl_json_int(j, "requests", (int64_t)t->requests);
    fl_json_int(j, "failures", (int64_t)t->failures);
    fl_json_text(j, "code", t->bad != NULL ? t->bad->cause.code : "");
    fl_json_text(j, "cause", t->bad != NULL ? t->bad->cause.text : "");
    fl_json_text(j, "seen_by", t->bad != NULL ? t->bad_sidecar : "");
    fl_json_close(j, '}');
}

/* Of one peer; "" while the controller and the pods agree. */
static const char *other_view(const struct page *page, const char *backend, const char *address,
                              char view[96])
{
    char text[KEY_MAX];
    const struct tally *t = fl_smap_get(&page->t->map, key_of(backend, address, text));
    fl_backend_verdict_other_view(fl_verdict_table_get(page->v->verdicts, backend, address),
                                  t != NULL ? t->reached : 0, t != NULL ? t->failing : 0, view);
    return view;
}

static const char *first_other_view(const struct page *page, const struct fl_delivery_backend *d,
                                    char view[96])
{
    view[0] = '\0';
    for (uint32_t i = 0; i < d->b->conf.peer_count && view[0] == '\0'; i++) {
        (void)other_view(page, d->subject, d->b->conf.peers[i].address, view);
    }
    return view;
}

static void put_peer(struct fl_json *j, const struct page *page, const char *backend,
                     const struct fl_peer_conf *peer)
{
    static const char *const tiers[] = {"primary", "last_resort", "backup"};
    char text[KEY_MAX], view[96];
    fl_json_open(j, NULL, '{');
    fl_json_text(j, "address", peer->address);
    fl_json_text(j, "tier", tiers[peer->tier]);
    fl_json_text(j, "zone", peer->zone);
    fl_json_int(j, "weight", peer->weight);
    fl_json_bool(j, "down", peer->down);
    const struct fl_verdict *v = fl_verdict_table_get(page->v->verdicts, backend, peer->address);
    const struct tally *t = fl_smap_get(&page->t->map, key_of(backend, peer->address, text));
    put_verdict(j, v, other_view(page, backend, peer->address, view));
    fl_json_bool(j, "probing", fl_cluster_prober_probing(page->v->prober, backend, peer->address));
    put_sidecars_view(j, t);
    fl_json_close(j, '}');
}

static void put_backend(struct fl_json *j, const struct page *page,
                        const struct fl_delivery_backend *d)
{
    const struct fl_state_backend *b = d->b;
    const struct fl_service_ref *ref = &b->conf.service;
    char view[96];
    fl_json_open(j, NULL, '{');
    fl_json_text(j, "name", d->subject);
    fl_json_text(j, "definition",
                 d->namespace[0] != '\0' ? "annotation"
                 : b->owns               ? "controller"
                                         : "sidecar");
    fl_json_text(j, "namespace", d->namespace);
    fl_json_open(j, "service", '{');
    fl_json_text(j, "namespace", ref->namespace);
    fl_json_text(j, "name", ref->name);
    fl_json_text(j, "port", ref->port);
    fl_json_close(j, '}');
    fl_json_text(j, "membership", b->has_peers ? "ready" : "waiting");
    struct fl_derived derived;
    fl_backend_verdict(page->v->verdicts, d->subject, b, &derived);
    put_verdict(j, &derived.verdict, first_other_view(page, d, view));
    fl_json_open(j, "buckets", '[');
    for (uint32_t i = 0; i < d->state->route_count; i++) {
        if (strcmp(d->state->routes[i].backend, b->name) == 0) {
            fl_json_text(j, NULL, d->state->routes[i].bucket);
        }
    }
    fl_json_close(j, ']');
    fl_json_open(j, "peers", '[');
    for (uint32_t i = 0; i < b->conf.peer_count; i++) {
        put_peer(j, page, d->subject, &b->conf.peers[i]);
    }
    fl_json_close(j, ']');
    fl_json_close(j, '}');
}

static void write_backends(struct fl_fmt *out, void *arg)
{
    const struct page *page = arg;
    struct fl_json j = {out, false};
    struct fl_delivery_backend one;
    size_t at = 0;
    fl_json_open(&j, NULL, '{');
    fl_json_open(&j, "backends", '[');
    while (fl_delivery_next(page->v->delivery, &at, &one)) {
        put_backend(&j, page, &one);
    }
    fl_json_close(&j, ']');
    fl_json_close(&j, '}');
    fl_fmt_char(out, '\n');
}

static void reply(struct fl_mhd_call *call, const struct fl_admin_view *v, fl_mhd_write_fn *write,
                  const char *name)
{
    struct tallies t;
    struct page page = {v, &t, name};
    fl_arena_init(&t.arena, TALLY_BYTES_MAX);
    /* sidecars choose these names: not the same seed each time */
    fl_smap_init(&t.map, (uint64_t)v->now_ms);
    for (uint32_t i = 0; i < fl_fanout_count(v->fanout); i++) {
        struct fl_fanout_view s;
        fl_fanout_view(v->fanout, i, &s);
        count_sidecar(v, &t, &s);
    }
    fl_mhd_reply_written(call, 200, "application/json", write, &page);
    fl_smap_done(&t.map);
    fl_arena_done(&t.arena);
}

void fl_pages_backends(struct fl_mhd_call *call, void *arg)
{
    struct fl_admin_view v = fl_pages_look(arg);
    reply(call, &v, write_backends, NULL);
}

/* ---- one ---- */

bool fl_pages_find(const struct fl_admin_view *v, const char *name, struct fl_delivery_backend *ret)
{
    size_t at = 0;
    while (fl_delivery_next(v->delivery, &at, ret)) {
        if (strcmp(ret->subject, name) == 0) {
            return true;
        }
    }
    return false;
}

static void write_one(struct fl_fmt *out, void *arg)
{
    const struct page *page = arg;
    struct fl_json j = {out, false};
    struct fl_delivery_backend one;
    if (fl_pages_find(page->v, page->name, &one)) {
        put_backend(&j, page, &one);
    }
    fl_fmt_char(out, '\n');
}

void fl_pages_backend(struct fl_mhd_call *call, const struct fl_admin_view *v, const char *name)
{
    struct fl_delivery_backend one;
    if (!fl_pages_find(v, name, &one)) {
        fl_mhd_problem(call, 404, "not_found", "no backend of this name");
        return;
    }
    reply(call, v, write_one, name);
}
