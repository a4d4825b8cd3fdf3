#include "sidecar/admin/backends.h"

#include <stdlib.h>

#include "sidecar/admin/diagnosis.h"
#include "sidecar/admin/view.h"

#define ALL "*" /* no backend has this name */
/* A hang is decided after twice probe.timeout: people do not wait for that. */
#define ALL_WAIT_MS 5000
/* One that is blocked already: a good answer of it would be here by then, and its silence is no
 * news. */
#define KNOWN_WAIT_MS 1000

static const char *source_name(enum fl_verdict_source s)
{
    switch (s) {
    case FL_VERDICT_OWN:
        return "own";
    case FL_VERDICT_PUSHED:
        return "controller";
    case FL_VERDICT_NONE:
        break;
    }
    return "none";
}

static void put_verdict(struct fl_json *j, const struct fl_verdict *v)
{
    fl_json_text(j, "status", fl_verdict_status_name(v->status));
    fl_json_text(j, "code", v->cause.code);
    fl_json_text(j, "cause", v->cause.text);
    fl_json_text(j, "note", v->note);
    fl_json_text(j, "step", v->step);
    fl_json_time(j, "probed_at", v->at_unix_ms);
    fl_json_int(j, "duration_ms", v->duration_ms);
    fl_json_text(j, "source", source_name(v->source));
}

/* A probe that finds what was known already makes no new snapshot: its time is with the prober. */
static void refresh(const struct fl_control *c, const struct fl_snap_backend *b, uint32_t i,
                    struct fl_verdict *v)
{
    struct fl_watch_view w;
    if (v->source == FL_VERDICT_OWN &&
        fl_prober_look(c->prober, b->conf->name, b->peers[i].peer->address, &w) &&
        w.own->at_ms > v->at_ms) {
        v->at_ms = w.own->at_ms;
        v->at_unix_ms = w.own->at_unix_ms;
        v->duration_ms = w.own->duration_ms;
    }
}

/* "unreachable from the controller, reachable from this pod"; of a backend: its first peer's that
 * has one. */
static void put_other_view(const struct fl_control *c, struct fl_json *j,
                           const struct fl_snap_backend *b, uint32_t first, uint32_t count)
{
    struct fl_merged m = {.other_view = ""};
    for (uint32_t i = first; i < first + count && m.other_view[0] == '\0'; i++) {
        (void)fl_control_merge(c, b->conf, b->peers[i].peer->address, &m);
    }
    fl_json_text(j, "other_view", m.other_view);
}

static void put_figures(const struct fl_control *c, struct fl_json *j, struct fl_snap_peer *p)
{
    uint64_t requests = 0, failures = 0, peak = 0;
    for (unsigned i = 0; i < c->conf.threads; i++) {
        const struct fl_peer_line *line = &p->peer->lines[i];
        requests += atomic_load_explicit(&line->requests, memory_order_relaxed);
        failures += atomic_load_explicit(&line->failures, memory_order_relaxed);
        peak += atomic_load_explicit(&line->peak, memory_order_relaxed);
    }
    fl_json_uint(j, "in_flight", fl_peer_in_flight(p->peer, c->conf.threads));
    fl_json_uint(j, "in_flight_peak", peak);
    fl_json_uint(j, "weight", p->conf->weight);
    fl_json_uint(j, "requests", requests);
    fl_json_uint(j, "failures", failures);
    struct fl_cause cause = {.code = ""};
    enum fl_outcome o =
        (enum fl_outcome)atomic_load_explicit(&p->peer->last_outcome, memory_order_relaxed);
    if (o != FL_OUTCOME_OK) {
        fl_backend_attempt_cause(o, 0,
                                 atomic_load_explicit(&p->peer->last_errno, memory_order_relaxed),
                                 p->peer->address, &cause);
    }
    fl_json_text(j, "last_cause", cause.text);
}

static void put_peer(const struct fl_control *c, struct fl_json *j, const struct fl_snap_backend *b,
                     uint32_t i)
{
    struct fl_snap_peer *p = &b->peers[i];
    int64_t until_ms = 0, now_ms = fl_control_now_ms(c);
    const char *state = fl_view_peer_state(b, i, now_ms, &until_ms);
    fl_json_open(j, NULL, '{');
    fl_json_text(j, "address", p->peer->address);
    fl_json_text(j, "tier", fl_view_tier(p->conf->tier));
    fl_json_text(j, "state", state);
    fl_json_open(j, "verdict", '{');
    struct fl_verdict v = p->verdict;
    refresh(c, b, i, &v);
    put_verdict(j, &v);
    put_other_view(c, j, b, i, 1);
    fl_json_close(j, '}');
    struct fl_watch_view w;
    bool watched = fl_prober_look(c->prober, b->conf->name, p->peer->address, &w);
    fl_json_bool(j, "probing", watched && w.probing);
    fl_json_uint(j, "fails", fl_peer_health_fails(&p->peer->health, &p->health, now_ms));
    fl_json_int(j, "window_ms", p->health.fail_timeout_ms);
    fl_json_time(j, "quarantined_until", fl_view_unix_ms(c, until_ms));
    fl_json_bool(j, "trial", strcmp(state, "trial") == 0);
    put_figures(c, j, p);
    fl_json_close(j, '}');
}

/* Names that give no address: peers for people only. */
static void put_unresolved(struct fl_json *j, const struct fl_backend_conf *b)
{
    for (uint32_t i = 0; i < b->peer_count; i++) {
        struct fl_addr a;
        if (fl_addr_parse(fl_span_of(b->peers[i].address), &a)) {
            continue;
        }
        fl_json_open(j, NULL, '{');
        fl_json_text(j, "address", b->peers[i].address);
        fl_json_text(j, "tier", fl_view_tier(b->peers[i].tier));
        fl_json_text(j, "state", "unresolved");
        fl_json_close(j, '}');
    }
}

static void put_buckets(const struct fl_control *c, struct fl_json *j,
                        const struct fl_snap_backend *b)
{
    fl_json_open(j, "buckets", '[');
    for (uint32_t i = 0; i < c->current->route_count; i++) {
        const struct fl_snap_route *r = &c->current->routes[i];
        if (fl_view_routed(r, b)) {
            fl_json_text(j, NULL, r->conf->bucket);
        }
    }
    fl_json_close(j, ']');
}

static bool put_backend(const struct fl_control *c, struct fl_json *j,
                        const struct fl_snap_backend *b)
{
    struct fl_verdict v;
    fl_control_backend_verdict(c, b, &v);
    for (uint32_t i = 0; i < b->peer_count; i++) {
        refresh(c, b, i, &v); /* as fresh as its freshest peer */
    }
    fl_json_open(j, NULL, '{');
    fl_json_text(j, "name", b->conf->name);
    fl_json_text(j, "protocol", b->conf->protocol == FL_PROTOCOL_S3 ? "s3" : "http");
    fl_json_text(j, "owner", b->conf->owner == FL_OWNER_CONTROLLER ? "controller" : "file");
    fl_json_open(j, "verdict", '{');
    put_verdict(j, &v);
    fl_json_time(j, "since", fl_control_since_unix_ms(c, b->conf->name));
    fl_json_text(j, "peers_down", b->peers_down);
    put_other_view(c, j, b, 0, b->peer_count);
    fl_json_close(j, '}');
    fl_json_bool(j, "blocked", b->gated);
    fl_json_bool(j, "on_backup", fl_view_on_backup(b, fl_control_now_ms(c)));
    fl_json_open(j, "peers", '[');
    for (uint32_t i = 0; i < b->peer_count; i++) {
        put_peer(c, j, b, i);
    }
    put_unresolved(j, b->conf);
    fl_json_close(j, ']');
    put_buckets(c, j, b);
    bool wrong = fl_diagnosis_put(c, j, b);
    fl_json_close(j, '}');
    return wrong;
}

/* One line for people: nothing to read must not look like all is well, nor the other way round. */
static void put_summary(const struct fl_control *c, struct fl_json *j, uint32_t wrong)
{
    char text[160];
    struct fl_fmt t = fl_fmt_of(text, sizeof(text));
    uint32_t all = c->current->backend_count, unknown = 0;
    for (uint32_t i = 0; i < all; i++) {
        struct fl_verdict v;
        fl_control_backend_verdict(c, &c->current->backends[i], &v);
        unknown += v.status == FL_VERDICT_UNKNOWN;
    }
    if (wrong > 0) {
        fl_fmt_printf(&t, "something is wrong with %u of %u backends", wrong, all);
    } else if (unknown > 0) {
        fl_fmt_printf(
            &t, "nothing is known to be wrong with any of %u backends, but no probe says so of %u",
            all, unknown);
    } else {
        fl_fmt_printf(&t, "all is well: nothing is wrong with any of %u backends", all);
    }
    fl_json_text(j, "summary", text);
}

static void write_list(struct fl_fmt *out, void *arg)
{
    const struct fl_control *c = arg;
    struct fl_json j = {out, false};
    fl_json_open(&j, NULL, '{');
    fl_json_uint(&j, "health_version", c->health_version);
    fl_json_open(&j, "backends", '[');
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < c->current->backend_count; i++) {
        wrong += put_backend(c, &j, &c->current->backends[i]);
    }
    fl_json_close(&j, ']');
    put_summary(c, &j, wrong);
    fl_json_close(&j, '}');
    fl_fmt_char(out, '\n');
}

void fl_backends_list(struct fl_mhd_call *call, void *arg)
{
    fl_mhd_reply_written(call, 200, "application/json", write_list, arg);
}

/* ---- Test connection ---- */

struct one {
    const struct fl_control *c;
    const struct fl_snap_backend *b;
};

static void write_one(struct fl_fmt *out, void *arg)
{
    const struct one *one = arg;
    struct fl_json j = {out, false};
    (void)put_backend(one->c, &j, one->b);
    fl_fmt_char(out, '\n');
}

static void unknown_backend(struct fl_mhd_call *call)
{
    fl_mhd_problem(call, 404, "not_found", "no backend of this name");
}

static void answer_probe(struct fl_control *c, struct fl_mhd_call *call, const char *backend)
{
    if (strcmp(backend, ALL) == 0) {
        fl_backends_list(call, c);
        return;
    }
    struct one one = {c, fl_control_find(c, backend)};
    if (one.b == NULL) {
        unknown_backend(call); /* gone while it was probed */
        return;
    }
    fl_mhd_reply_written(call, 200, "application/json", write_one, &one);
}

static bool is_over(const struct fl_control *c, const struct fl_probe_wait *w)
{
    bool all = strcmp(w->backend, ALL) == 0;
    int64_t now_ms = fl_control_now_ms(c);
    if (now_ms >= w->until_ms) {
        return true;
    }
    return now_ms >= w->known_ms ? !fl_prober_asked_openly(c->prober, w->ticket)
                                 : !fl_prober_asked(c->prober, all ? NULL : w->backend, w->ticket);
}

void fl_backends_answer_waits(struct fl_control *c)
{
    int64_t now_ms = fl_control_now_ms(c), due_ms = INT64_MAX;
    fl_list_each_safe (it, next, &c->waits) {
        struct fl_probe_wait *w = fl_container_of(it, struct fl_probe_wait, node);
        if (!is_over(c, w)) {
            int64_t at_ms = now_ms < w->known_ms ? w->known_ms : w->until_ms;
            due_ms = at_ms < due_ms ? at_ms : due_ms;
            continue;
        }
        if (!fl_list_empty(&c->rebuild.node)) { /* the result is not yet in the snapshot */
            continue;
        }
        fl_list_remove(&w->node);
        answer_probe(c, w->call, w->backend);
        free(w);
    }
    if (due_ms != INT64_MAX) {
        fl_timer_set(c->conf.reactor, &c->due, due_ms);
    }
}

void fl_backends_due(struct fl_timer *t)
{
    fl_backends_answer_waits(fl_container_of(t, struct fl_control, due));
}

void fl_backends_probe(struct fl_mhd_call *call, void *arg)
{
    struct fl_control *c = arg;
    struct fl_span name = fl_mhd_segment(call, 0); /* NUL-terminated by the bridge */
    bool all = fl_span_is(name, ALL);
    if (!all && fl_control_find(c, name.ptr) == NULL) {
        unknown_backend(call);
        return;
    }
    struct fl_probe_wait *w = calloc(1, sizeof(*w) + name.len + 1);
    if (w == NULL) {
        fl_mhd_problem(call, 503, "local_resource", "out of memory");
        return;
    }
    memcpy(w->backend, name.ptr, name.len);
    w->call = call;
    w->until_ms = all ? fl_control_now_ms(c) + ALL_WAIT_MS : INT64_MAX;
    w->known_ms = all ? fl_control_now_ms(c) + KNOWN_WAIT_MS : INT64_MAX;
    w->ticket = fl_prober_ask(c->prober, all ? NULL : w->backend);
    if (is_over(c, w)) { /* nothing is probed there */
        answer_probe(c, call, w->backend);
        free(w);
        return;
    }
    fl_list_append(&c->waits, &w->node);
    fl_mhd_suspend(call);
    fl_backends_answer_waits(c); /* sets the timer */
}

/* ---- drain ---- */

static struct fl_peer *peer_of(const struct fl_snap_backend *b, struct fl_span address)
{
    for (uint32_t i = 0; i < b->peer_count; i++) {
        if (fl_span_is(address, b->peers[i].peer->address)) {
            return b->peers[i].peer;
        }
    }
    return NULL;
}

static void set_drained(struct fl_mhd_call *call, struct fl_control *c, bool drained)
{
    const struct fl_snap_backend *b = fl_control_find(c, fl_mhd_segment(call, 0).ptr);
    if (b == NULL) {
        unknown_backend(call);
        return;
    }
    struct fl_peer *p = peer_of(b, fl_mhd_segment(call, 1));
    if (p == NULL) {
        fl_mhd_problem(call, 404, "not_found", "no peer of this address");
        return;
    }
    /* the switch is the control thread's: data threads only read it */
    bool was = atomic_exchange_explicit(&p->drained, drained, memory_order_relaxed);
    if (was != drained) {
        fl_events_add(c->events, fl_control_wall_ms(c), drained ? "peer_drained" : "peer_undrained",
                      b->conf->name, p->address, "by the admin API");
        c->health_version++;
        fl_control_rebuild(c); /* data threads look for idle connections when they adopt it */
    }
    struct one one = {c, fl_control_find(c, fl_mhd_segment(call, 0).ptr)};
    fl_mhd_reply_written(call, 200, "application/json", write_one, &one);
}

void fl_backends_drain(struct fl_mhd_call *call, void *arg)
{
    set_drained(call, arg, true);
}

void fl_backends_undrain(struct fl_mhd_call *call, void *arg)
{
    set_drained(call, arg, false);
}
