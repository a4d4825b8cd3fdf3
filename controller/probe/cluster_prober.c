#include "controller/probe/cluster_prober.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fmt.h"
#include "common/base/list.h"
#include "common/base/rng.h"
#include "common/base/smap.h"
#include "common/model/directives_scope.h"
#include "common/model/directives_show.h"
#include "common/model/directives_table.h"
#include "common/probe/probe_run.h"
#include "common/tls/tls_shelf.h"
#include "common/verdict/probe_plan.h"
#include "controller/decide/compose.h"
#include "controller/decide/probe_grid.h"

#define BEAT_MS    1000
#define STALLED_MS 1000 /* a beat or a tick that is later than this: we were stopped or starved */
#define LOOK_BEATS 5    /* TLS files */
#define KEY_MAX    600  /* a backend's name, an address */

struct counts { /* outlives membership: counters must not fall */
    uint64_t by_status[5];
    char backend[];
};

struct watch {
    struct fl_list node;
    struct fl_cluster_prober *prober;
    struct counts *counts;
    struct fl_probe_run *run;
    struct fl_timer next;
    struct fl_probe_target *target; /* NULL until kept */
    struct fl_tls_terms *terms;     /* held for the target */
    int64_t interval_ms, due_ms, began_ms;
    uint64_t hash, round;
    unsigned unhealthy; /* results in a row that were not healthy */
    bool wanted, doubted;
    const char *address; /* within key */
    char key[];          /* "backend\naddress" */
};

struct fl_cluster_prober {
    struct fl_cluster_prober_conf conf;
    struct fl_tls_shelf *tls;
    struct fl_rng rng;
    struct fl_list watches;
    struct fl_smap by_key, by_backend; /* watches; counts */
    struct fl_timer beat;
    int64_t beat_due_ms, stalled_ms; /* when we last came back from a stall; 0: never */
    uint64_t round;
    unsigned beats;
    bool lacks_terms; /* some backend's TLS files could not be used at the last sync */
    char tls_said[320];
};

static int64_t now_of(const struct fl_cluster_prober *p)
{
    return fl_reactor_now_ms(p->conf.reactor);
}

static void say(const struct fl_cluster_prober *p, enum fl_log_level level, const char *msg,
                const char *backend, const char *cause)
{
    struct fl_log_line l;
    fl_log_begin(p->conf.log, &l, level, msg);
    if (backend[0] != '\0') {
        fl_log_text(&l, "backend", backend);
    }
    fl_log_text(&l, "cause", cause);
    fl_log_end(p->conf.log, &l);
}

static struct watch *find(const struct fl_cluster_prober *p, const char *backend,
                          const char *address)
{
    char key[KEY_MAX];
    struct fl_fmt f = fl_fmt_of(key, sizeof(key));
    fl_fmt_printf(&f, "%s\n%s", backend, address);
    return f.cut ? NULL : fl_smap_get(&p->by_key, (struct fl_span){f.base, f.len});
}

static const char *backend_of(const struct watch *w)
{
    return w->counts->backend;
}

/* ---- the schedule ---- */

static void begin_probe(struct watch *w)
{
    struct fl_cluster_prober *p = w->prober;
    if (fl_probe_run_busy(w->run)) {
        return;
    }
    fl_timer_off(&w->next);
    w->round = ++p->round;
    w->began_ms = now_of(p);
    (void)fl_probe_run_start(w->run, w->target); /* not busy: it starts */
}

static void plan_at(struct watch *w, int64_t at_ms)
{
    w->due_ms = at_ms;
    fl_timer_set(w->prober->conf.reactor, &w->next, at_ms);
}

static void on_next(struct fl_timer *t)
{
    struct watch *w = fl_container_of(t, struct watch, next);
    int64_t now_ms = now_of(w->prober), late_ms = now_ms - w->due_ms;
    if (late_ms > STALLED_MS) {
        plan_at(w, now_ms + fl_probe_grid_late_ms(w->hash, w->interval_ms, late_ms));
    } else {
        begin_probe(w);
    }
}

static void plan_after_result(struct watch *w)
{
    struct fl_cluster_prober *p = w->prober;
    int64_t now_ms = now_of(p);
    int64_t at_ms = fl_probe_grid_next_ms(w->hash, w->interval_ms, w->began_ms, now_ms, &p->rng);
    if (w->unhealthy > 0) {
        /* one that hangs takes long to be found so again: sidecars must not let it expire */
        bool is_slow = now_ms - w->began_ms > w->interval_ms;
        int64_t most_ms = is_slow ? w->interval_ms / 2 : w->interval_ms;
        int64_t again_ms = now_ms + fl_probe_again_ms(w->unhealthy, most_ms);
        at_ms = again_ms < at_ms ? again_ms : at_ms;
    }
    plan_at(w, at_ms);
}

static bool same_verdict(const struct fl_verdict *a, const struct fl_verdict *b)
{
    return a->status == b->status && strcmp(a->cause.code, b->cause.code) == 0 &&
           strcmp(a->cause.text, b->cause.text) == 0 && strcmp(a->note, b->note) == 0;
}

static enum fl_probe_news keep_verdict(struct watch *w, const struct fl_verdict *v)
{
    struct fl_verdict_table *table = w->prober->conf.verdicts;
    const struct fl_verdict *old = fl_verdict_table_get(table, backend_of(w), w->address);
    bool same = old != NULL && same_verdict(old, v);
    bool blocked = old != NULL && fl_verdict_blocks(old->status);
    if (v->status == FL_VERDICT_UNKNOWN) { /* our own exhaustion says nothing of the peer */
        return FL_PROBE_NEWS_AGE;
    }
    if (fl_verdict_table_set(table, backend_of(w), w->address, v) < 0) {
        return FL_PROBE_NEWS_AGE; /* no memory: the next probe will say it again */
    }
    bool blocks = fl_verdict_blocks(v->status) && !blocked;
    return blocks ? FL_PROBE_NEWS_BLOCKS : same ? FL_PROBE_NEWS_AGE : FL_PROBE_NEWS_CHANGED;
}

static void on_done(void *arg, const struct fl_verdict *v, bool answered)
{
    struct watch *w = arg;
    struct fl_cluster_prober *p = w->prober;
    (void)answered;
    if (fl_verdict_blocks(v->status) && w->began_ms <= p->stalled_ms && !w->doubted) {
        w->doubted = true; /* its deadlines may have passed while we did not look */
        plan_at(w, now_of(p));
        return;
    }
    w->doubted = false;
    w->unhealthy = v->status == FL_VERDICT_HEALTHY ? 0 : w->unhealthy + (w->unhealthy < 100);
    w->counts->by_status[v->status]++;
    enum fl_probe_news news = keep_verdict(w, v);
    plan_after_result(w);
    p->conf.probed(p->conf.arg, news);
}

static void on_file(void *arg, const char *file, const struct fl_tls_problem *problem)
{
    const struct fl_cluster_prober *p = arg;
    bool good = problem == NULL;
    say(p, good ? FL_LOG_INFO : FL_LOG_WARN,
        good ? "changed TLS file taken over" : "changed TLS file refused, the old one goes on", "",
        good ? file : problem->text);
}

static void on_beat(struct fl_timer *t)
{
    struct fl_cluster_prober *p = fl_container_of(t, struct fl_cluster_prober, beat);
    int64_t now_ms = now_of(p);
    if (now_ms - p->beat_due_ms > STALLED_MS) {
        p->stalled_ms = now_ms;
    }
    p->beat_due_ms = now_ms + BEAT_MS;
    fl_timer_set(p->conf.reactor, &p->beat, p->beat_due_ms);
    if (++p->beats % LOOK_BEATS == 0) { /* a changed file that is bad leaves the old terms */
        bool renewed = fl_tls_shelf_look(p->tls, on_file, p);
        if (renewed || p->lacks_terms) {
            p->conf.tls_changed(p->conf.arg);
        }
    }
}

/* ---- the set of watches ---- */

static void free_watch(struct watch *w)
{
    struct fl_cluster_prober *p = w->prober;
    (void)fl_smap_remove(&p->by_key, fl_span_of(w->key));
    fl_timer_remove(p->conf.reactor, &w->next);
    fl_probe_run_free(w->run);
    fl_list_remove(&w->node);
    fl_tls_terms_give(w->terms);
    free(w->target);
    free(w);
}

static struct counts *counts_of(struct fl_cluster_prober *p, const char *backend)
{
    struct counts *c = fl_smap_get(&p->by_backend, fl_span_of(backend));
    if (c != NULL) {
        return c;
    }
    size_t n = strlen(backend) + 1;
    c = calloc(1, sizeof(*c) + n);
    if (c == NULL) {
        return NULL;
    }
    memcpy(c->backend, backend, n);
    if (fl_smap_put(&p->by_backend, (struct fl_span){c->backend, n - 1}, c) < 0) {
        free(c);
        return NULL;
    }
    return c;
}

/* The slot is to differ for addresses that differ in one digit. */
static uint64_t spread(const char *key)
{
    uint64_t h = fl_show_hash(fl_span_of(key));
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

static struct watch *add(struct fl_cluster_prober *p, const char *backend, const char *address)
{
    size_t nb = strlen(backend), na = strlen(address);
    struct counts *counts = counts_of(p, backend);
    struct watch *w = counts != NULL ? calloc(1, sizeof(*w) + nb + na + 2) : NULL;
    if (w == NULL || fl_probe_run_new(p->conf.reactor, on_done, w, &w->run) < 0) {
        free(w);
        return NULL;
    }
    memcpy(w->key, backend, nb);
    w->key[nb] = '\n';
    memcpy(w->key + nb + 1, address, na + 1);
    w->address = w->key + nb + 1;
    w->hash = spread(w->key);
    w->prober = p;
    w->counts = counts;
    fl_timer_init(&w->next, on_next);
    fl_list_append(&p->watches, &w->node);
    if (fl_smap_put(&p->by_key, fl_span_of(w->key), w) < 0) {
        free_watch(w);
        return NULL;
    }
    return w;
}

/* NULL where there is no TLS, or its files are not to be had: the probe then says so. */
static struct fl_tls_terms *terms_for(struct fl_cluster_prober *p, const struct fl_backend_conf *b)
{
    struct fl_tls_problem problem = {.text = "out of memory"};
    struct fl_tls_terms *terms = NULL;
    if (!b->tls.on || fl_tls_shelf_get(p->tls, &b->tls, &problem, &terms) == 0) {
        return terms;
    }
    p->lacks_terms = true;
    if (strcmp(p->tls_said, problem.text) != 0) { /* once for the same words */
        struct fl_fmt f = fl_fmt_of(p->tls_said, sizeof(p->tls_said));
        fl_fmt_text(&f, problem.text);
        say(p, FL_LOG_WARN, "TLS of a backend cannot be set up", b->name, problem.text);
    }
    return NULL;
}

/* 0: as it was, 1: another definition, or -ENOMEM. */
static int define(struct watch *w, const struct fl_probe_target *t)
{
    bool other = w->target == NULL || w->target->fingerprint != t->fingerprint;
    if (!other && fl_probe_target_same(w->target, t)) {
        return 0;
    }
    struct fl_probe_target *copy = fl_probe_target_copy(t);
    if (copy == NULL) {
        return -ENOMEM;
    }
    free(w->target);
    w->target = copy;
    (void)fl_tls_terms_take(t->terms);
    fl_tls_terms_give(w->terms);
    w->terms = t->terms;
    return other;
}

static bool forget_verdict(struct watch *w)
{
    struct fl_verdict_table *t = w->prober->conf.verdicts;
    bool had = fl_verdict_table_get(t, backend_of(w), w->address) != NULL;
    fl_verdict_table_drop(t, backend_of(w), w->address);
    return had;
}

/* 1: a verdict is gone, 0 or -ENOMEM. */
static int keep(struct fl_cluster_prober *p, const struct fl_config *c,
                const struct fl_backend_conf *b, const struct fl_peer_conf *peer)
{
    char host[FL_PROBE_HOST_MAX];
    struct fl_probe_target t;
    if (b->probe.type == FL_PROBE_NONE || peer->down || !fl_probe_target_of(c, b, peer, host, &t)) {
        return 0;
    }
    struct watch *w = find(p, b->name, peer->address);
    bool is_new = w == NULL;
    if (is_new && (w = add(p, b->name, peer->address)) == NULL) {
        return -ENOMEM;
    }
    t.fingerprint = fl_probe_target_fingerprint(b, peer->address);
    t.terms = terms_for(p, b);
    bool renewed = !is_new && w->terms != t.terms;
    int fresh = define(w, &t);
    if (fresh < 0) {
        if (is_new) {
            free_watch(w);
        }
        return fresh;
    }
    bool other_pace = w->interval_ms != b->probe.interval_ms;
    w->wanted = true;
    w->interval_ms = b->probe.interval_ms;
    if (is_new) {
        plan_at(w, now_of(p) + fl_probe_grid_first_ms(w->hash, w->interval_ms));
        return 0;
    }
    if (fresh != 0 || renewed) {
        fl_probe_run_cancel(w->run);
        w->unhealthy = 0;
        begin_probe(w);
        return fresh != 0 && forget_verdict(w);
    }
    if (other_pace && !fl_probe_run_busy(w->run)) {
        plan_after_result(w);
    }
    return 0;
}

/* As this process probes it. */
static struct fl_backend_conf probed_as(const struct fl_config *c, const struct fl_backend_conf *b)
{
    struct fl_backend_conf as = *b;
    uint64_t type_bit = UINT64_C(1) << fl_directive_bit(fl_scope_find(FL_SCOPE_PROBE, "type"));
    if (!fl_compose_owns(c, b) && (b->probe.set & type_bit) == 0) {
        as.probe.type = FL_PROBE_TCP;
    }
    return as;
}

static const struct fl_state_backend *find_backend(const struct fl_state *s, const char *name)
{
    for (uint32_t i = 0; i < s->backend_count; i++) {
        if (strcmp(s->backends[i].name, name) == 0) {
            return &s->backends[i];
        }
    }
    return NULL;
}

static bool forget_unwanted(struct fl_cluster_prober *p)
{
    bool gone = false;
    fl_list_each_safe (it, next, &p->watches) {
        struct watch *w = fl_container_of(it, struct watch, node);
        if (!w->wanted) {
            gone |= forget_verdict(w);
            free_watch(w);
        }
    }
    return gone;
}

bool fl_cluster_prober_sync(struct fl_cluster_prober *p, const struct fl_controller_config *c,
                            const struct fl_state *state)
{
    const struct fl_config *cluster = c->cluster;
    bool gone = false, fits = true;
    fl_list_each (it, &p->watches) {
        fl_container_of(it, struct watch, node)->wanted = false;
    }
    p->lacks_terms = false;
    fl_tls_shelf_begin(p->tls);
    for (uint32_t i = 0; i < cluster->backend_count; i++) {
        struct fl_backend_conf b = probed_as(cluster, &cluster->backends[i]);
        const struct fl_state_backend *members = find_backend(state, b.name);
        for (uint32_t k = 0; members != NULL && k < members->conf.peer_count; k++) {
            int rc = keep(p, cluster, &b, &members->conf.peers[k]);
            fits &= rc >= 0;
            gone |= rc > 0;
        }
    }
    fl_tls_shelf_end(p->tls);
    if (!fits) {
        say(p, FL_LOG_ERROR, "some peers are not probed", "", "out of memory");
    }
    return forget_unwanted(p) || gone;
}

/* ---- life ---- */

int fl_cluster_prober_new(const struct fl_cluster_prober_conf *conf, struct fl_cluster_prober **ret)
{
    struct fl_cluster_prober *p = calloc(1, sizeof(*p));
    if (p == NULL || (p->tls = fl_tls_shelf_new(1)) == NULL) {
        free(p);
        return -ENOMEM;
    }
    p->conf = *conf;
    fl_rng_seed(&p->rng, conf->seed);
    fl_list_init(&p->watches);
    fl_smap_init(&p->by_key, conf->seed);
    fl_smap_init(&p->by_backend, conf->seed);
    fl_timer_init(&p->beat, on_beat);
    p->beat_due_ms = now_of(p) + BEAT_MS;
    fl_timer_set(conf->reactor, &p->beat, p->beat_due_ms);
    *ret = p;
    return 0;
}

struct fl_cluster_prober *fl_cluster_prober_free(struct fl_cluster_prober *p)
{
    if (p == NULL) {
        return NULL;
    }
    fl_list_each_safe (it, next, &p->watches) {
        free_watch(fl_container_of(it, struct watch, node));
    }
    size_t at = 0;
    for (struct counts *c; (c = fl_smap_next(&p->by_backend, &at, NULL)) != NULL;) {
        free(c);
    }
    fl_smap_done(&p->by_key);
    fl_smap_done(&p->by_backend);
    fl_timer_remove(p->conf.reactor, &p->beat);
    fl_tls_shelf_free(p->tls);
    free(p);
    return NULL;
}

/* ---- looking and asking ---- */

static bool is_of(const struct watch *w, const char *backend)
{
    return strcmp(backend_of(w), backend) == 0;
}

uint64_t fl_cluster_prober_ask(struct fl_cluster_prober *p, const char *backend)
{
    fl_list_each (it, &p->watches) {
        struct watch *w = fl_container_of(it, struct watch, node);
        if (is_of(w, backend)) {
            begin_probe(w);
        }
    }
    return p->round;
}

bool fl_cluster_prober_asked(const struct fl_cluster_prober *p, const char *backend,
                             uint64_t ticket)
{
    fl_list_each (it, &p->watches) {
        const struct watch *w = fl_container_of(it, struct watch, node);
        if (w->round <= ticket && fl_probe_run_busy(w->run) && is_of(w, backend)) {
            return true;
        }
    }
    return false;
}

bool fl_cluster_prober_probing(const struct fl_cluster_prober *p, const char *backend,
                               const char *address)
{
    const struct watch *w = find(p, backend, address);
    return w != NULL && fl_probe_run_busy(w->run);
}

bool fl_cluster_prober_counts(const struct fl_cluster_prober *p, const char *backend,
                              uint64_t ret[5])
{
    const struct counts *c = fl_smap_get(&p->by_backend, fl_span_of(backend));
    if (c != NULL) {
        memcpy(ret, c->by_status, sizeof(c->by_status));
    }
    return c != NULL;
}
