#include "controller/probe/cluster_prober.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fmt.h"
#include "common/base/rng.h"
#include "common/base/units.h"
#include "common/io/names.h"
#include "common/model/directives_show.h"
#include "common/probe/probe_watch.h"
#include "common/tls/tls_shelf.h"
#include "common/verdict/derive.h"
#include "common/verdict/probe_plan.h"
#include "controller/decide/probe_grid.h"

#define BEAT_MS    1000
#define STALLED_MS 1000 /* a beat or a tick that is later than this: we were stopped or starved */
#define LOOK_BEATS 5    /* TLS files */

enum { NAME_ADDRESSES_MAX = 64 }; /* that are probed of one name */

/* A peer that is written as a name. */
struct named {
    struct fl_list node;
    const char *subject, *name; /* "name:port" as in the configuration, behind the struct */
    int err;                    /* of its last look-up: EAI_* */
    bool wanted, lost;          /* lost: it gives no address */
};

struct watch {
    struct named *named;   /* whose address this is; NULL: the peer is written so */
    struct fl_verdict own; /* of an address of a name */
    struct fl_probe_watch peer;
    struct fl_cluster_prober *prober;
    int64_t interval_ms, due_ms, began_ms;
    uint64_t hash;
    bool doubted;
};

struct fl_cluster_prober {
    struct fl_cluster_prober_conf conf;
    struct fl_tls_shelf *tls;
    struct fl_rng rng;
    struct fl_probe_watches watches;
    struct fl_names *names;
    struct fl_list named;
    struct fl_timer beat;
    int64_t beat_due_ms, stalled_ms; /* when we last came back from a stall; 0: never */
    unsigned beats;
    bool lacks_terms; /* some backend's TLS files could not be used at the last sync */
    char tls_said[320];
};

/* The watch of a member of the list. */
static struct watch *of(struct fl_list *node)
{
    return fl_container_of(node, struct watch, peer.node);
}

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

/* ---- the schedule ---- */

static void begin_probe(struct watch *w)
{
    if (fl_probe_watch_begin(&w->peer)) { /* else the one in flight will do */
        w->began_ms = now_of(w->prober);
    }
}

static void plan_at(struct watch *w, int64_t at_ms)
{
    w->due_ms = at_ms;
    fl_timer_set(w->prober->conf.reactor, &w->peer.next, at_ms);
}

static void on_next(struct fl_timer *t)
{
    struct watch *w = fl_container_of(t, struct watch, peer.next);
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
    if (w->peer.unhealthy > 0) {
        /* one that hangs takes long to be found so again: sidecars must not let it expire */
        bool is_slow = now_ms - w->began_ms > w->interval_ms;
        int64_t most_ms = is_slow ? w->interval_ms / 2 : w->interval_ms;
        int64_t again_ms = now_ms + fl_probe_again_ms(w->peer.unhealthy, most_ms);
        at_ms = again_ms < at_ms ? again_ms : at_ms;
    }
    plan_at(w, at_ms);
}

static enum fl_probe_news put_row(struct fl_cluster_prober *p, const char *subject,
                                  const char *address, const struct fl_verdict *v)
{
    struct fl_verdict_table *table = p->conf.verdicts;
    const struct fl_verdict *old = fl_verdict_table_get(table, subject, address);
    bool same = old != NULL && fl_verdict_same(old, v);
    bool blocked = old != NULL && fl_verdict_blocks(old->status);
    if (v->status == FL_VERDICT_UNKNOWN) { /* our own exhaustion says nothing of the peer */
        return FL_PROBE_NEWS_AGE;
    }
    if (fl_verdict_table_set(table, subject, address, v) < 0) {
        return FL_PROBE_NEWS_AGE; /* no memory: the next probe will say it again */
    }
    bool blocks = fl_verdict_blocks(v->status) && !blocked;
    return blocks ? FL_PROBE_NEWS_BLOCKS : same ? FL_PROBE_NEWS_AGE : FL_PROBE_NEWS_CHANGED;
}

/* A name whose addresses are not all known to be bad is not bad. */
static enum fl_probe_news put_name(struct fl_cluster_prober *p, const struct named *n)
{
    struct fl_derive_peer peers[NAME_ADDRESSES_MAX];
    struct fl_derived d;
    uint32_t count = 0;
    fl_list_each (it, &p->watches.list) {
        const struct watch *w = of(it);
        if (w->named == n && w->peer.wanted && count < NAME_ADDRESSES_MAX) {
            peers[count++] = (struct fl_derive_peer){w->peer.address, &w->own, false};
        }
    }
    fl_derive_backend(peers, count, &d);
    if (n->lost) {
        fl_probe_target_unresolved(n->name, n->err, &d.verdict);
    }
    d.verdict.at_ms = now_of(p);
    d.verdict.at_unix_ms = fl_reactor_wall_ms(p->conf.reactor);
    return put_row(p, n->subject, n->name, &d.verdict);
}

static enum fl_probe_news keep_verdict(struct watch *w, const struct fl_verdict *v)
{
    if (w->named == NULL) {
        return put_row(w->prober, w->peer.backend, w->peer.address, v);
    }
    w->own = v->status != FL_VERDICT_UNKNOWN ? *v : w->own;
    return put_name(w->prober, w->named);
}

static void on_done(void *arg, const struct fl_verdict *v, bool answered)
{
    struct watch *w = fl_container_of(arg, struct watch, peer);
    struct fl_cluster_prober *p = w->prober;
    (void)answered;
    if (fl_verdict_blocks(v->status) && w->began_ms <= p->stalled_ms && !w->doubted) {
        w->doubted = true; /* its deadlines may have passed while we did not look */
        plan_at(w, now_of(p));
        return;
    }
    w->doubted = false;
    fl_probe_watch_count(&w->peer, v->status);
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

static void repeat_lost(struct fl_cluster_prober *p);

static void on_beat(struct fl_timer *t)
{
    struct fl_cluster_prober *p = fl_container_of(t, struct fl_cluster_prober, beat);
    int64_t now_ms = now_of(p);
    if (now_ms - p->beat_due_ms > STALLED_MS) {
        p->stalled_ms = now_ms;
    }
    p->beat_due_ms = now_ms + BEAT_MS;
    fl_timer_set(p->conf.reactor, &p->beat, p->beat_due_ms);
    repeat_lost(p);
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
    fl_probe_watch_close(&w->peer);
    free(w);
}

/* The slot is to differ for addresses that differ in one digit. */
static uint64_t spread(const char *key)
{
    uint64_t h = fl_show_hash(fl_span_of(key));
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
    h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

static struct watch *add(struct fl_cluster_prober *p, const char *subject, const char *address)
{
    struct watch *w = calloc(1, sizeof(*w));
    if (w == NULL ||
        fl_probe_watch_open(&w->peer, &p->watches, subject, address, on_done, on_next) < 0) {
        free(w);
        return NULL;
    }
    w->hash = spread(w->peer.key);
    w->prober = p;
    return w;
}

/* NULL where there is no TLS, or its files are not to be had: the probe then says so. */
static struct fl_tls_terms *terms_for(struct fl_cluster_prober *p, const struct fl_probe_item *item)
{
    const struct fl_backend_conf *b = &item->backend;
    struct fl_tls_problem problem = {.text = "out of memory"};
    struct fl_tls_terms *terms = NULL;
    if (!b->tls.on || fl_tls_shelf_get(p->tls, &b->tls, &problem, &terms) == 0) {
        return terms;
    }
    p->lacks_terms = true;
    if (strcmp(p->tls_said, problem.text) != 0) { /* once for the same words */
        struct fl_fmt f = fl_fmt_of(p->tls_said, sizeof(p->tls_said));
        fl_fmt_text(&f, problem.text);
        say(p, FL_LOG_WARN, "TLS of a backend cannot be set up", item->subject, problem.text);
    }
    return NULL;
}

static bool drop_row(struct fl_cluster_prober *p, const char *subject, const char *address)
{
    bool had = fl_verdict_table_get(p->conf.verdicts, subject, address) != NULL;
    fl_verdict_table_drop(p->conf.verdicts, subject, address);
    return had;
}

static bool forget_verdict(struct watch *w)
{
    if (w->named == NULL) {
        return drop_row(w->prober, w->peer.backend, w->peer.address);
    }
    w->own = (struct fl_verdict){.status = FL_VERDICT_UNKNOWN};
    return w->named->wanted && drop_row(w->prober, w->named->subject, w->named->name);
}

/* named: whose address peer's is, NULL: it is written so. 1: a verdict is gone, 0 or -ENOMEM. */
static int keep(struct fl_cluster_prober *p, const struct fl_probe_item *item,
                const struct fl_peer_conf *peer, struct named *named)
{
    const struct fl_backend_conf *b = &item->backend;
    char host[FL_PROBE_HOST_MAX], under[512]; /* a key of its own for an address of a name */
    struct fl_fmt f = fl_fmt_of(under, sizeof(under));
    struct fl_probe_target t;
    if (!fl_probe_target_of(item->routes, b, peer, host, &t)) {
        return 0;
    }
    fl_fmt_printf(&f, "%s%s%s", named != NULL ? named->name : "", named != NULL ? " " : "",
                  peer->address);
    struct fl_probe_watch *known = fl_probe_watches_find(&p->watches, item->subject, under);
    bool is_new = known == NULL;
    struct watch *w =
        is_new ? add(p, item->subject, under) : fl_container_of(known, struct watch, peer);
    if (w == NULL) {
        return -ENOMEM;
    }
    w->named = named;
    if (w->peer.wanted) { /* by another configuration already */
        return 0;
    }
    t.fingerprint = fl_probe_target_fingerprint(b, peer->address);
    t.terms = terms_for(p, item);
    bool renewed = !is_new && w->peer.terms != t.terms;
    int fresh = fl_probe_watch_define(&w->peer, &t);
    if (fresh < 0) {
        if (is_new) {
            free_watch(w);
        }
        return fresh;
    }
    bool other_pace = w->interval_ms != b->probe.interval_ms;
    w->peer.wanted = true;
    w->interval_ms = b->probe.interval_ms;
    if (is_new) {
        plan_at(w, now_of(p) + fl_probe_grid_first_ms(w->hash, w->interval_ms));
        return 0;
    }
    if (fresh != 0 || renewed) {
        fl_probe_run_cancel(w->peer.run);
        w->peer.unhealthy = 0;
        begin_probe(w);
        return fresh != 0 && forget_verdict(w);
    }
    if (other_pace && !fl_probe_watch_busy(&w->peer)) {
        plan_after_result(w);
    }
    return 0;
}

/* ---- names ---- */

static struct named *want_name(struct fl_cluster_prober *p, const char *subject, const char *name)
{
    fl_list_each (it, &p->named) {
        struct named *n = fl_container_of(it, struct named, node);
        if (strcmp(n->subject, subject) == 0 && strcmp(n->name, name) == 0) {
            n->wanted = true;
            return n;
        }
    }
    size_t subject_size = strlen(subject) + 1, name_size = strlen(name) + 1;
    struct named *n = calloc(1, sizeof(*n) + subject_size + name_size);
    if (n != NULL) {
        char *texts = (char *)(n + 1);
        memcpy(texts, subject, subject_size);
        memcpy(texts + subject_size, name, name_size);
        n->subject = texts;
        n->name = texts + subject_size;
        n->wanted = true;
        fl_list_append(&p->named, &n->node);
    }
    return n;
}

/* Each address as a peer; a name that gives none has its verdict at once. As keep. */
static int keep_name(struct fl_cluster_prober *p, const struct fl_probe_item *item,
                     const struct fl_peer_conf *peer)
{
    struct fl_span host, port_text;
    uint64_t port;
    struct fl_name_answer a = {0};
    char host_name[256], address[FL_ADDR_TEXT_MAX];
    struct fl_fmt h = fl_fmt_of(host_name, sizeof(host_name));
    if (!fl_addr_split_host(fl_span_of(peer->address), &host, &port_text) ||
        !fl_units_uint(port_text, &port) || port == 0 || port > UINT16_MAX) {
        return 0;
    }
    struct named *n = want_name(p, item->subject, peer->address);
    if (n == NULL || !fl_names_want(p->names, host, (uint16_t)port, &a)) {
        return -ENOMEM;
    }
    n->lost = a.asked && a.count == 0;
    n->err = a.err;
    if (n->lost) {
        p->conf.probed(p->conf.arg, put_name(p, n));
    }
    fl_fmt_span(&h, host);
    int gone = 0;
    for (int i = 0; gone >= 0 && i < a.count && i < NAME_ADDRESSES_MAX; i++) {
        struct fl_peer_conf one = *peer;
        struct fl_fmt f = fl_fmt_of(address, sizeof(address));
        fl_addr_print(&a.addrs[i], &f);
        one.address = address;
        one.host_name = host_name;
        int rc = keep(p, item, &one, n);
        gone = rc < 0 ? rc : gone + rc;
    }
    return gone;
}

static int keep_either(struct fl_cluster_prober *p, const struct fl_probe_item *item,
                       const struct fl_peer_conf *peer)
{
    struct fl_addr a;
    if (item->backend.probe.type == FL_PROBE_NONE || peer->down) {
        return 0;
    }
    return fl_addr_parse(fl_span_of(peer->address), &a) ? keep(p, item, peer, NULL)
                                                        : keep_name(p, item, peer);
}

static bool forget_names(struct fl_cluster_prober *p)
{
    bool gone = false;
    fl_list_each_safe (it, next, &p->named) {
        struct named *n = fl_container_of(it, struct named, node);
        if (!n->wanted) {
            gone |= drop_row(p, n->subject, n->name);
            fl_list_remove(&n->node);
            free(n);
        }
    }
    return gone;
}

static void on_names(void *arg)
{
    const struct fl_cluster_prober *p = arg;
    p->conf.tls_changed(p->conf.arg);
}

/* Nothing new is learnt of a name that stays without an address, but sidecars forget what is not
 * said again. */
static void repeat_lost(struct fl_cluster_prober *p)
{
    fl_list_each (it, &p->named) {
        const struct named *n = fl_container_of(it, struct named, node);
        if (n->lost) {
            p->conf.probed(p->conf.arg, put_name(p, n));
        }
    }
}

static bool forget_unwanted(struct fl_cluster_prober *p)
{
    bool gone = false;
    fl_list_each_safe (it, next, &p->watches.list) {
        struct watch *w = of(it);
        if (!w->peer.wanted) {
            gone |= w->named == NULL && forget_verdict(w); /* of a name the others speak */
            free_watch(w);
        }
    }
    return forget_names(p) || gone;
}

bool fl_cluster_prober_sync(struct fl_cluster_prober *p, const struct fl_probe_list *list)
{
    bool gone = false, fits = true;
    fl_probe_watches_unwant(&p->watches);
    fl_list_each (it, &p->named) {
        fl_container_of(it, struct named, node)->wanted = false;
    }
    p->lacks_terms = false;
    fl_tls_shelf_begin(p->tls);
    fl_names_begin(p->names);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct fl_probe_item *item = &list->items[i];
        for (uint32_t k = 0; k < item->peer_count; k++) {
            int rc = keep_either(p, item, &item->peers[k]);
            fits &= rc >= 0;
            gone |= rc > 0;
        }
    }
    fl_names_end(p->names);
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
    if (p == NULL || (p->tls = fl_tls_shelf_new(1)) == NULL ||
        fl_names_new(conf->reactor, on_names, p, &p->names) < 0) {
        fl_tls_shelf_free(p != NULL ? p->tls : NULL);
        free(p);
        return -ENOMEM;
    }
    fl_list_init(&p->named);
    p->conf = *conf;
    fl_rng_seed(&p->rng, conf->seed);
    fl_probe_watches_init(&p->watches, conf->reactor, conf->seed);
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
    fl_list_each_safe (it, next, &p->watches.list) {
        free_watch(of(it));
    }
    fl_list_each_safe (it, next, &p->named) {
        struct named *n = fl_container_of(it, struct named, node);
        fl_list_remove(&n->node);
        free(n);
    }
    fl_probe_watches_done(&p->watches);
    fl_names_free(p->names);
    fl_timer_remove(p->conf.reactor, &p->beat);
    fl_tls_shelf_free(p->tls);
    free(p);
    return NULL;
}

/* ---- looking and asking ---- */

uint64_t fl_cluster_prober_ask(struct fl_cluster_prober *p, const char *subject)
{
    fl_list_each (it, &p->watches.list) {
        struct watch *w = of(it);
        if (strcmp(w->peer.backend, subject) == 0) {
            begin_probe(w);
        }
    }
    return p->watches.round;
}

bool fl_cluster_prober_asked(const struct fl_cluster_prober *p, const char *subject,
                             uint64_t ticket)
{
    return fl_probe_watches_asked(&p->watches, subject, ticket);
}

bool fl_cluster_prober_probing(const struct fl_cluster_prober *p, const char *subject,
                               const char *address)
{
    const struct fl_probe_watch *w = fl_probe_watches_find(&p->watches, subject, address);
    bool busy = w != NULL && fl_probe_watch_busy(w);
    fl_list_each (it, &p->watches.list) {
        const struct watch *one = of(it);
        busy =
            busy || (one->named != NULL && strcmp(one->named->name, address) == 0 &&
                     strcmp(one->named->subject, subject) == 0 && fl_probe_watch_busy(&one->peer));
    }
    return busy;
}

bool fl_cluster_prober_counts(const struct fl_cluster_prober *p, const char *subject,
                              uint64_t ret[5])
{
    return fl_probe_watches_counts(&p->watches, subject, ret);
}
