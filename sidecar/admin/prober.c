#include "sidecar/admin/prober.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/list.h"
#include "common/base/rng.h"
#include "common/base/smap.h"
#include "common/probe/probe_run.h"
#include "common/verdict/probe_plan.h"

#define WANT_SPACING_MS 1000 /* between probes that data threads ask for */
#define PUSHED_KEEPS    3    /* intervals */

struct watch {
    struct fl_list node;
    struct fl_prober *prober;
    struct counts *counts;
    struct fl_probe_run *run;
    struct fl_timer next;
    struct fl_probe_target *target;   /* NULL until kept */
    struct fl_tls_terms *terms;       /* held for the target */
    struct fl_failed_request *failed; /* NULL: none */
    struct fl_verdict own, pushed;
    int64_t pushed_until_ms; /* 0: none */
    int64_t interval_ms, fail_timeout_ms;
    int64_t opened_ms;  /* when an answer last opened its quarantine; 0: never */
    int64_t wanted_ms;  /* of the last probe that a failing request has, or will have; 0: none */
    uint64_t round;     /* of the probe in flight */
    unsigned unhealthy; /* results in a row that were not healthy */
    bool wanted, probes, by_controller, answered_once, asked;
    char *backend; /* address stands behind it */
    char *address;
    char key[]; /* "backend\naddress" */
};

struct counts { /* outlives membership: counters must not fall */
    uint64_t by_status[5];
    char backend[];
};

struct fl_prober {
    struct fl_prober_conf conf;
    struct fl_rng rng;
    struct fl_list watches;
    struct fl_smap by_key, by_backend; /* watches; counts */
    uint64_t round;
    bool quiet;
};

int fl_prober_new(const struct fl_prober_conf *conf, struct fl_prober **ret)
{
    struct fl_prober *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        return -ENOMEM;
    }
    p->conf = *conf;
    fl_rng_seed(&p->rng, conf->seed);
    fl_list_init(&p->watches);
    fl_smap_init(&p->by_key, conf->seed);
    fl_smap_init(&p->by_backend, conf->seed);
    *ret = p;
    return 0;
}

static void free_watch(struct watch *w)
{
    (void)fl_smap_remove(&w->prober->by_key, fl_span_of(w->key));
    fl_timer_remove(w->prober->conf.reactor, &w->next);
    fl_probe_run_free(w->run);
    fl_list_remove(&w->node);
    fl_tls_terms_give(w->terms);
    free(w->target);
    free(w->failed);
    free(w->backend);
    free(w);
}

struct fl_prober *fl_prober_free(struct fl_prober *p)
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
    free(p);
    return NULL;
}

static int64_t now_of(const struct fl_prober *p)
{
    return fl_reactor_now_ms(p->conf.reactor);
}

static struct watch *find(const struct fl_prober *p, const char *backend, const char *address)
{
    char key[512];
    struct fl_fmt f = fl_fmt_of(key, sizeof(key));
    fl_fmt_text(&f, backend);
    fl_fmt_char(&f, '\n');
    fl_fmt_text(&f, address);
    return f.cut ? NULL : fl_smap_get(&p->by_key, (struct fl_span){f.base, f.len});
}

/* ---- the schedule ---- */

static void begin_probe(struct watch *w)
{
    struct fl_prober *p = w->prober;
    if (!w->probes || fl_probe_run_busy(w->run)) {
        return;
    }
    fl_timer_off(&w->next);
    w->round = ++p->round;
    (void)fl_probe_run_start(w->run, w->target); /* not busy: it starts */
}

static void on_next(struct fl_timer *t)
{
    begin_probe(fl_container_of(t, struct watch, next));
}

static void plan(struct watch *w, int64_t wait_ms)
{
    int64_t at_ms = now_of(w->prober) + wait_ms;
    if (at_ms < w->next.at_ms) {
        fl_timer_set(w->prober->conf.reactor, &w->next, at_ms);
    }
}

static void plan_after_result(struct watch *w)
{
    struct fl_prober *p = w->prober;
    if (w->own.status == FL_VERDICT_HEALTHY && w->by_controller) {
        return;
    }
    int64_t wait_ms = w->interval_ms;
    if (w->unhealthy > 0) {
        wait_ms = fl_probe_again_ms(w->unhealthy, wait_ms);
    } else { /* 0.9 … 1.1 of the interval, so that peers do not stay in step */
        uint32_t tenth = (uint32_t)(wait_ms / 10);
        wait_ms += tenth ? (int64_t)fl_rng_below(&p->rng, 2 * tenth) - tenth : 0;
    }
    plan(w, wait_ms);
}

static bool same_verdict(const struct fl_verdict *a, const struct fl_verdict *b)
{
    return a->status == b->status && strcmp(a->cause.code, b->cause.code) == 0 &&
           strcmp(a->cause.text, b->cause.text) == 0 && strcmp(a->note, b->note) == 0;
}

static void tell(struct watch *w, bool changed, bool answered)
{
    const struct fl_prober_conf *conf = &w->prober->conf;
    bool rested = w->opened_ms == 0 || now_of(w->prober) - w->opened_ms >= w->fail_timeout_ms;
    struct fl_failed_request *failed = w->failed;
    const struct fl_probed news = {
        .backend = w->backend,
        .address = w->address,
        .verdict = &w->own,
        .changed = changed,
        .opens = answered && w->own.status == FL_VERDICT_HEALTHY && (w->asked || rested),
        .failed = answered && !fl_verdict_blocks(w->own.status) ? failed : NULL,
    };
    w->asked = false;
    w->failed = NULL;
    conf->probed(conf->arg, &news);
    free(failed);
}

static void on_done(void *arg, const struct fl_verdict *v, bool answered)
{
    struct watch *w = arg;
    bool healthy = v->status == FL_VERDICT_HEALTHY;
    w->unhealthy = healthy ? 0 : w->unhealthy + (w->unhealthy < 100);
    w->answered_once = true;
    w->counts->by_status[v->status]++;
    bool changed = false;
    if (v->status != FL_VERDICT_UNKNOWN) { /* our own exhaustion says nothing of the peer */
        changed = !same_verdict(v, &w->own);
        w->own = *v;
    }
    plan_after_result(w);
    tell(w, changed, answered);
}

/* ---- the set of watches ---- */

static struct counts *counts_of(struct fl_prober *p, const char *backend)
{
    struct counts *c = fl_smap_get(&p->by_backend, fl_span_of(backend));
    if (c == NULL) {
        size_t n = strlen(backend) + 1;
        c = calloc(1, sizeof(*c) + n);
        if (c != NULL) {
            memcpy(c->backend, backend, n);
            if (fl_smap_put(&p->by_backend, (struct fl_span){c->backend, n - 1}, c) < 0) {
                free(c);
                c = NULL;
            }
        }
    }
    return c;
}

static struct watch *add(struct fl_prober *p, const char *backend, const char *address)
{
    size_t nb = strlen(backend), na = strlen(address);
    struct counts *counts = counts_of(p, backend);
    struct watch *w = counts != NULL ? calloc(1, sizeof(*w) + nb + na + 2) : NULL;
    char *names = w != NULL ? malloc(nb + na + 2) : NULL;
    if (names == NULL || fl_probe_run_new(p->conf.reactor, on_done, w, &w->run) < 0) {
        free(names);
        free(w);
        return NULL;
    }
    memcpy(names, backend, nb + 1);
    memcpy(names + nb + 1, address, na + 1);
    memcpy(w->key, names, nb + na + 2);
    w->key[nb] = '\n';
    w->backend = names;
    w->address = names + nb + 1;
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

void fl_prober_begin(struct fl_prober *p, bool quiet)
{
    p->quiet = quiet;
    fl_list_each (it, &p->watches) {
        fl_container_of(it, struct watch, node)->wanted = false;
    }
}

/* What was learnt of another definition is not evidence for this one. */
static void start_afresh(struct watch *w)
{
    fl_probe_run_cancel(w->run);
    fl_timer_off(&w->next);
    w->own = (struct fl_verdict){.status = FL_VERDICT_UNKNOWN};
    w->pushed_until_ms = 0;
    w->unhealthy = 0;
    w->answered_once = false;
}

/* 0: as it was, 1: another definition, or -ENOMEM. A bucket that is only routed here is none of
 * the definition: the next probe asks for it. */
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

/* NULL where there is no TLS, or its files are not to be had: the probe then says so. */
static struct fl_tls_terms *terms_for(struct fl_prober *p, const struct fl_backend_conf *b)
{
    struct fl_tls_problem problem;
    struct fl_tls_terms *terms = NULL;
    if (!b->tls.on || p->conf.tls == NULL ||
        fl_tls_shelf_get(p->conf.tls, &b->tls, &problem, &terms) < 0) {
        return NULL;
    }
    return terms;
}

int fl_prober_keep(struct fl_prober *p, const struct fl_config *c, const struct fl_backend_conf *b,
                   const struct fl_peer_conf *peer, bool by_controller)
{
    char host[FL_PROBE_HOST_MAX];
    struct fl_probe_target t;
    if (!fl_probe_target_of(c, b, peer, host, &t)) {
        return 0;
    }
    struct watch *w = find(p, b->name, peer->address);
    bool is_new = w == NULL;
    if (is_new && (w = add(p, b->name, peer->address)) == NULL) {
        return -ENOMEM;
    }
    t.fingerprint = fl_probe_target_fingerprint(b, peer->address);
    t.terms = terms_for(p, b);
    bool renewed = w->terms != t.terms; /* a file has changed: what was learnt may not hold */
    int fresh = define(w, &t);
    if (fresh < 0) {
        return fresh;
    }
    if (fresh != 0) {
        start_afresh(w);
    }
    bool did_probe = w->probes;
    bool replan = (w->by_controller && !by_controller) || w->interval_ms != b->probe.interval_ms;
    w->wanted = true;
    w->probes = b->probe.type != FL_PROBE_NONE && !peer->down;
    w->by_controller = by_controller;
    w->interval_ms = b->probe.interval_ms;
    w->fail_timeout_ms = peer->fail_timeout_ms;
    if (!w->probes) {
        start_afresh(w); /* and stays so */
    } else if (is_new && p->quiet) {
        plan_after_result(w);
    } else if (fresh != 0 || renewed || !did_probe) {
        begin_probe(w);
    } else if (replan && !fl_probe_run_busy(w->run)) {
        fl_timer_off(&w->next);
        plan_after_result(w);
    }
    return 0;
}

void fl_prober_end(struct fl_prober *p)
{
    fl_list_each_safe (it, next, &p->watches) {
        struct watch *w = fl_container_of(it, struct watch, node);
        if (!w->wanted) {
            free_watch(w);
        }
    }
}

/* ---- looking and asking ---- */

bool fl_prober_look(const struct fl_prober *p, const char *backend, const char *address,
                    struct fl_watch_view *ret)
{
    const struct watch *w = find(p, backend, address);
    if (w == NULL) {
        return false;
    }
    bool pushed = w->pushed_until_ms > now_of(p);
    *ret = (struct fl_watch_view){&w->own, pushed ? &w->pushed : NULL, fl_probe_run_busy(w->run),
                                  fl_probe_run_keyed(w->run)};
    return true;
}

bool fl_prober_pushed(struct fl_prober *p, const char *backend, const char *address,
                      const struct fl_verdict *v)
{
    struct watch *w = find(p, backend, address);
    if (w == NULL || !w->probes) {
        return false;
    }
    bool had = w->pushed_until_ms > now_of(p);
    bool changed = !had || !same_verdict(v, &w->pushed);
    int64_t until_ms = v->at_ms + PUSHED_KEEPS * w->interval_ms;
    if (until_ms <= now_of(p)) {
        return false; /* came too old */
    }
    w->pushed = *v;
    w->pushed_until_ms = until_ms;
    return changed;
}

bool fl_prober_expire(struct fl_prober *p)
{
    bool any = false;
    fl_list_each (it, &p->watches) {
        struct watch *w = fl_container_of(it, struct watch, node);
        if (w->pushed_until_ms != 0 && w->pushed_until_ms <= now_of(p)) {
            w->pushed_until_ms = 0;
            any = true;
        }
    }
    return any;
}

void fl_prober_want(struct fl_prober *p, const char *backend, const char *address)
{
    struct watch *w = find(p, backend, address);
    if (w == NULL || !w->probes || fl_probe_run_busy(w->run)) {
        return;
    }
    int64_t since_ms = now_of(p) - w->wanted_ms;
    if (w->wanted_ms == 0 || since_ms >= WANT_SPACING_MS) {
        w->wanted_ms = now_of(p);
        begin_probe(w);
    } else { /* that one, when it is yet to come */
        w->wanted_ms += since_ms >= 0 ? WANT_SPACING_MS : 0;
        plan(w, w->wanted_ms - now_of(p));
    }
}

void fl_prober_remember(struct fl_prober *p, const char *backend, const char *address,
                        const struct fl_failed_request *rq)
{
    struct watch *w = find(p, backend, address);
    if (w != NULL && w->probes && w->failed == NULL && (w->failed = malloc(sizeof(*rq))) != NULL) {
        *w->failed = *rq;
    }
}

void fl_prober_opened(struct fl_prober *p, const char *backend, const char *address)
{
    struct watch *w = find(p, backend, address);
    if (w != NULL) {
        w->opened_ms = now_of(p);
    }
}

uint64_t fl_prober_ask(struct fl_prober *p, const char *backend)
{
    fl_list_each (it, &p->watches) {
        struct watch *w = fl_container_of(it, struct watch, node);
        if (strcmp(w->backend, backend) == 0) {
            w->asked = w->probes;
            begin_probe(w);
        }
    }
    return p->round;
}

bool fl_prober_asked(const struct fl_prober *p, const char *backend, uint64_t ticket)
{
    fl_list_each (it, &p->watches) {
        const struct watch *w = fl_container_of(it, struct watch, node);
        if (w->round <= ticket && fl_probe_run_busy(w->run) && strcmp(w->backend, backend) == 0) {
            return true;
        }
    }
    return false;
}

unsigned fl_prober_unanswered(const struct fl_prober *p)
{
    unsigned n = 0;
    fl_list_each (it, &p->watches) {
        const struct watch *w = fl_container_of(it, struct watch, node);
        n += w->probes && !w->answered_once;
    }
    return n;
}

bool fl_prober_counts(const struct fl_prober *p, const char *backend, uint64_t ret[5])
{
    const struct counts *c = fl_smap_get(&p->by_backend, fl_span_of(backend));
    if (c != NULL) {
        memcpy(ret, c->by_status, sizeof(c->by_status));
    }
    return c != NULL;
}
