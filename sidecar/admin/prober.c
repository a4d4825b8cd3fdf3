#include "sidecar/admin/prober.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/rng.h"
#include "common/probe/probe_watch.h"
#include "common/verdict/probe_plan.h"

#define WANT_SPACING_MS 1000 /* between probes that data threads ask for */
#define PUSHED_KEEPS    3    /* intervals */

struct watch {
    struct fl_probe_watch peer;
    struct fl_prober *prober;
    struct fl_failed_request *failed; /* NULL: none */
    struct fl_verdict own, pushed;
    int64_t own_since_ms, pushed_since_ms, well_ms;
    int64_t pushed_until_ms; /* 0: none */
    int64_t interval_ms, fail_timeout_ms;
    int64_t opened_ms; /* when an answer last opened its quarantine; 0: never */
    int64_t wanted_ms; /* of the last probe that a failing request has, or will have; 0: none */
    bool probes, by_controller, answered_once, asked;
    bool answered; /* the last probe was, by the peer */
    bool in_turn;  /* that one was made because the interval had passed */
    bool learnt;   /* own comes from another prober, and `probed` does not know yet */
};

struct fl_prober {
    struct fl_prober_conf conf;
    struct fl_rng rng;
    struct fl_probe_watches watches;
    struct fl_prober *elder; /* whose verdicts are taken over now; NULL: nobody's */
    bool quiet;
};

/* The watch of a member of the list. */
static struct watch *of(struct fl_list *node)
{
    return fl_container_of(node, struct watch, peer.node);
}

int fl_prober_new(const struct fl_prober_conf *conf, struct fl_prober **ret)
{
    struct fl_prober *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        return -ENOMEM;
    }
    p->conf = *conf;
    fl_rng_seed(&p->rng, conf->seed);
    fl_probe_watches_init(&p->watches, conf->reactor, conf->seed);
    *ret = p;
    return 0;
}

static void free_watch(struct watch *w)
{
    fl_probe_watch_close(&w->peer);
    free(w->failed);
    free(w);
}

struct fl_prober *fl_prober_free(struct fl_prober *p)
{
    if (p == NULL) {
        return NULL;
    }
    fl_list_each_safe (it, next, &p->watches.list) {
        free_watch(of(it));
    }
    fl_probe_watches_done(&p->watches);
    free(p);
    return NULL;
}

static int64_t now_of(const struct fl_prober *p)
{
    return fl_reactor_now_ms(p->conf.reactor);
}

static struct watch *find(const struct fl_prober *p, const char *backend, const char *address)
{
    struct fl_probe_watch *peer = fl_probe_watches_find(&p->watches, backend, address);
    return peer != NULL ? fl_container_of(peer, struct watch, peer) : NULL;
}

/* ---- the schedule ---- */

static void begin_probe(struct watch *w)
{
    if (w->probes && fl_probe_watch_begin(&w->peer)) { /* else the one in flight will do */
        w->in_turn = false;
    }
}

static void on_next(struct fl_timer *t)
{
    struct watch *w = fl_container_of(t, struct watch, peer.next);
    bool in_turn = w->peer.unhealthy == 0 && w->own.status == FL_VERDICT_HEALTHY;
    begin_probe(w);
    w->in_turn = in_turn;
}

static void plan(struct watch *w, int64_t wait_ms)
{
    int64_t at_ms = now_of(w->prober) + wait_ms;
    if (at_ms < w->peer.next.at_ms) {
        fl_timer_set(w->prober->conf.reactor, &w->peer.next, at_ms);
    }
}

static void plan_after_result(struct watch *w)
{
    struct fl_prober *p = w->prober;
    if (w->own.status == FL_VERDICT_HEALTHY && w->by_controller) {
        return;
    }
    int64_t wait_ms = w->interval_ms;
    if (w->peer.unhealthy > 0) {
        wait_ms = fl_probe_again_ms(w->peer.unhealthy, wait_ms);
        if (wait_ms == w->interval_ms) { /* an outage of many: not in step for ever */
            wait_ms -= (int64_t)fl_rng_below(&p->rng, (uint32_t)(wait_ms / 10) + 1);
        }
    } else { /* a start or an outage has many in step: spread over one interval, then 0.9 … 1.1 */
        uint32_t tenth = (uint32_t)(wait_ms / 10), width = w->in_turn ? 2 * tenth : 10 * tenth;
        wait_ms += tenth ? (int64_t)tenth - (int64_t)fl_rng_below(&p->rng, width) : 0;
    }
    plan(w, wait_ms);
}

static void tell(struct watch *w, bool changed, bool answered)
{
    const struct fl_prober_conf *conf = &w->prober->conf;
    bool rested = w->opened_ms == 0 || now_of(w->prober) - w->opened_ms >= w->fail_timeout_ms;
    struct fl_failed_request *failed = w->failed;
    const struct fl_probed news = {
        .backend = w->peer.backend,
        .address = w->peer.address,
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
    struct watch *w = fl_container_of(arg, struct watch, peer);
    w->answered_once = true;
    w->answered = answered;
    w->learnt = false;
    fl_probe_watch_count(&w->peer, v->status);
    bool changed = false;
    if (v->status != FL_VERDICT_UNKNOWN) { /* our own exhaustion says nothing of the peer */
        /* what was pushed is judged anew beside a newer own one, even if that says nothing new */
        changed = !fl_verdict_same(v, &w->own) || w->pushed_until_ms > now_of(w->prober);
        w->own_since_ms = v->status != w->own.status ? v->at_ms : w->own_since_ms;
        w->well_ms = v->status == FL_VERDICT_HEALTHY ? v->at_ms : w->well_ms;
        w->own = *v;
    }
    plan_after_result(w);
    tell(w, changed, answered);
}

/* ---- the set of watches ---- */

static struct watch *add(struct fl_prober *p, const char *backend, const char *address)
{
    struct watch *w = calloc(1, sizeof(*w));
    if (w == NULL ||
        fl_probe_watch_open(&w->peer, &p->watches, backend, address, on_done, on_next) < 0) {
        free(w);
        return NULL;
    }
    w->prober = p;
    return w;
}

void fl_prober_begin(struct fl_prober *p, bool quiet)
{
    p->quiet = quiet;
    fl_probe_watches_unwant(&p->watches);
}

/* What was learnt of another definition is not evidence for this one. */
static void start_afresh(struct watch *w)
{
    fl_probe_run_cancel(w->peer.run);
    fl_timer_off(&w->peer.next);
    w->own = (struct fl_verdict){.status = FL_VERDICT_UNKNOWN};
    w->pushed_until_ms = w->well_ms = 0;
    w->peer.unhealthy = 0;
    w->answered_once = w->learnt = false;
}

void fl_prober_learn(struct fl_prober *p, struct fl_prober *other)
{
    p->elder = other;
}

static bool learn(struct watch *w)
{
    const struct fl_prober *elder = w->prober->elder;
    struct watch *from = elder != NULL ? find(elder, w->peer.backend, w->peer.address) : NULL;
    if (from == NULL || from->own.status == FL_VERDICT_UNKNOWN || from->peer.target == NULL ||
        from->peer.terms != w->peer.terms ||
        from->peer.target->fingerprint != w->peer.target->fingerprint ||
        !fl_probe_target_same(from->peer.target, w->peer.target)) {
        return false;
    }
    fl_probe_run_swap(&w->peer.run, &from->peer.run);
    w->own = from->own;
    w->own_since_ms = from->own_since_ms;
    w->well_ms = from->well_ms;
    w->answered = from->answered;
    w->answered_once = w->learnt = true;
    fl_probe_watch_count(&w->peer, w->own.status);
    plan_after_result(w);
    return true;
}

static void ask_or_learn(struct watch *w)
{
    if (!learn(w)) {
        begin_probe(w);
    }
}

void fl_prober_tell_learnt(struct fl_prober *p)
{
    fl_list_each (it, &p->watches.list) {
        struct watch *w = of(it);
        if (w->learnt) {
            w->learnt = false;
            w->asked = true;
            tell(w, false, w->answered);
        }
    }
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
    bool renewed = w->peer.terms != t.terms; /* a file has changed: what was learnt may not hold */
    int fresh = fl_probe_watch_define(&w->peer, &t);
    if (fresh < 0) {
        return fresh;
    }
    if (fresh != 0) {
        start_afresh(w);
    }
    bool did_probe = w->probes;
    bool replan = (w->by_controller && !by_controller) || w->interval_ms != b->probe.interval_ms;
    w->peer.wanted = true;
    w->probes = b->probe.type != FL_PROBE_NONE && !peer->down;
    w->by_controller = by_controller;
    w->interval_ms = b->probe.interval_ms;
    w->fail_timeout_ms = peer->fail_timeout_ms;
    if (!w->probes) {
        start_afresh(w); /* and stays so */
    } else if (is_new && p->quiet) {
        plan_after_result(w);
    } else if (fresh != 0 || renewed || !did_probe) {
        ask_or_learn(w);
    } else if (replan && !fl_probe_watch_busy(&w->peer)) {
        fl_timer_off(&w->peer.next);
        plan_after_result(w);
    }
    return 0;
}

void fl_prober_end(struct fl_prober *p)
{
    fl_list_each_safe (it, next, &p->watches.list) {
        struct watch *w = of(it);
        if (!w->peer.wanted) {
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
    bool pushed = w->pushed_until_ms > now_of(p), busy = fl_probe_watch_busy(&w->peer);
    *ret = (struct fl_watch_view){
        .own = &w->own,
        .pushed = pushed ? &w->pushed : NULL,
        .own_since_ms = w->own_since_ms,
        .pushed_since_ms = w->pushed_since_ms,
        .well_ms = w->well_ms,
        .next_ms = w->peer.next.at_ms != INT64_MAX ? w->peer.next.at_ms : 0,
        .began_ms = busy ? fl_probe_run_began_ms(w->peer.run) : 0,
        .step = busy ? fl_probe_run_step(w->peer.run) : FL_PROBE_STEP_NONE,
        .probing = busy,
        .keyed = fl_probe_run_keyed(w->peer.run),
    };
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
    bool changed = !had || !fl_verdict_same(v, &w->pushed);
    int64_t until_ms = v->at_ms + PUSHED_KEEPS * w->interval_ms;
    if (until_ms <= now_of(p)) {
        return false; /* came too old */
    }
    w->pushed_since_ms = had && v->status == w->pushed.status ? w->pushed_since_ms : v->at_ms;
    w->pushed = *v;
    w->pushed_until_ms = until_ms;
    return changed;
}

bool fl_prober_expire(struct fl_prober *p)
{
    bool any = false;
    fl_list_each (it, &p->watches.list) {
        struct watch *w = of(it);
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
    if (w == NULL || !w->probes || fl_probe_watch_busy(&w->peer)) {
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
    fl_list_each (it, &p->watches.list) {
        struct watch *w = of(it);
        if (backend == NULL || strcmp(w->peer.backend, backend) == 0) {
            w->asked = w->probes;
            begin_probe(w);
        }
    }
    return p->watches.round;
}

bool fl_prober_asked(const struct fl_prober *p, const char *backend, uint64_t ticket)
{
    return fl_probe_watches_asked(&p->watches, backend, ticket);
}

bool fl_prober_asked_openly(const struct fl_prober *p, uint64_t ticket)
{
    fl_list_each (it, &p->watches.list) {
        const struct watch *w = of(it);
        if (w->peer.round <= ticket && fl_probe_watch_busy(&w->peer) &&
            !fl_verdict_blocks(w->own.status)) {
            return true;
        }
    }
    return false;
}

unsigned fl_prober_unanswered(const struct fl_prober *p)
{
    unsigned n = 0;
    fl_list_each (it, &p->watches.list) {
        const struct watch *w = of(it);
        n += w->probes && !w->answered_once;
    }
    return n;
}

bool fl_prober_counts(const struct fl_prober *p, const char *backend, uint64_t ret[5])
{
    return fl_probe_watches_counts(&p->watches, backend, ret);
}
