#include "sidecar/admin/diagnosis.h"

#include "common/verdict/fault.h"
#include "common/verdict/remedy.h"
#include "sidecar/admin/view.h"

#define WAITS_MS 2000 /* a probe that waits longer is worth a word */
#define SHOWN    4    /* addresses */

enum fact { FINE, SAID, WAITING, FAILING, ERRING, OUT, GATED }; /* the worst last */

struct finding {
    const struct fl_control *c;
    const struct fl_snap_backend *b;
    int64_t now_ms;
    const char *name; /* NULL: nothing is wrong */
    struct fl_cause cause;
    struct fl_verdict verdict; /* derived */
    struct fl_watch_view w;    /* of the peer that stands for the others; own NULL: there is none */
    enum fact fact;            /* its */
    uint32_t shown[SHOWN], bad, total, usable;
    int64_t since_ms, failed_ms; /* of that peer: first sign; last failed request, 0 = none */
    int64_t release_ms;          /* the first end of a quarantine, 0 = none */
};

/* ---- what one peer is ---- */

/* The last request there failed, and that was after the last probe, or just now: a good probe does
 * not make the requests good. */
static bool failing_now(const struct finding *f, const struct fl_snap_peer *p,
                        const struct fl_watch_view *w)
{
    int64_t failed_ms = atomic_load_explicit(&p->peer->last_fail_ms, memory_order_relaxed);
    return failed_ms > fl_peer_last_answer_ms(p->peer) &&
           (w->own == NULL || failed_ms > w->own->at_ms ||
            f->now_ms - failed_ms < p->health.fail_timeout_ms);
}

static enum fact fact_of(struct finding *f, uint32_t i, const struct fl_watch_view *w)
{
    const struct fl_snap_peer *p = &f->b->peers[i];
    int64_t until_ms = 0;
    bool live = strcmp(fl_view_peer_state(f->b, i, f->now_ms, &until_ms), "live") == 0;
    f->usable += live;
    if (p->gated) {
        return GATED;
    }
    if (!live) {
        bool first = until_ms != 0 && (f->release_ms == 0 || until_ms < f->release_ms);
        f->release_ms = first ? until_ms : f->release_ms;
        return OUT;
    }
    if (p->verdict.status == FL_VERDICT_ERRORING) {
        return ERRING;
    }
    if (failing_now(f, p, w)) {
        return FAILING;
    }
    if (w->probing && f->now_ms - w->began_ms >= WAITS_MS) {
        return WAITING;
    }
    return fl_verdict_blocks(p->verdict.status) ? SAID : FINE;
}

/* Not a cause of section 5: nothing is decided yet. The code is the one that it would get. */
static void waiting_cause(const struct fl_watch_view *w, const char *address, struct fl_cause *ret)
{
    if (w->step == FL_PROBE_STEP_CONNECT) {
        fl_cause_set(ret, "connect_timeout", "%s has not accepted the connection yet", address);
    } else if (w->step == FL_PROBE_STEP_TLS) {
        fl_cause_set(ret, "tls_timeout", "%s has not finished the TLS handshake yet", address);
    } else {
        fl_cause_set(ret, "no_answer", "%s accepts connections but has not answered yet", address);
    }
}

static void cause_of(const struct fl_snap_peer *p, enum fact fact, const struct fl_watch_view *w,
                     struct fl_cause *ret)
{
    if (fact == WAITING) {
        waiting_cause(w, p->peer->address, ret);
    } else if (fact == OUT || fact == FAILING) {
        fl_backend_peer_cause(p->peer, ret);
        if (atomic_load_explicit(&p->peer->drained, memory_order_relaxed)) {
            fl_cause_set(ret, "drained", "%s is drained", p->peer->address);
        }
    } else {
        *ret = p->verdict.cause;
    }
}

/* The first sign of it: a probe's, or a request's behind the last good one. */
static int64_t since_of(const struct fl_snap_peer *p, enum fact fact, const struct fl_watch_view *w)
{
    int64_t failing_ms = atomic_load_explicit(&p->peer->failing_since_ms, memory_order_relaxed);
    int64_t probe_ms = 0;
    if (fact == WAITING) {
        return w->began_ms;
    }
    if (fact == GATED || fact == ERRING || fact == SAID) {
        probe_ms = p->verdict.source == FL_VERDICT_PUSHED ? w->pushed_since_ms : w->own_since_ms;
    }
    bool earlier = failing_ms > w->well_ms && failing_ms >= fl_peer_last_answer_ms(p->peer);
    return probe_ms == 0 || (earlier && failing_ms < probe_ms) ? failing_ms : probe_ms;
}

/* ---- what the backend is ---- */

static void stand_for(struct finding *f, uint32_t i, enum fact fact, const struct fl_watch_view *w)
{
    const struct fl_snap_peer *p = &f->b->peers[i];
    f->fact = fact;
    f->w = *w;
    f->since_ms = since_of(p, fact, w);
    f->failed_ms = atomic_load_explicit(&p->peer->last_fail_ms, memory_order_relaxed);
    cause_of(p, fact, w, &f->cause);
}

static void look_at_peers(struct finding *f)
{
    const char *first = NULL;
    for (uint32_t i = 0; i < f->b->peer_count; i++) {
        const char *address = f->b->peers[i].peer->address;
        if (f->b->peers[i].conf->down) {
            continue;
        }
        struct fl_watch_view w = {.own = NULL};
        (void)fl_prober_look(f->c->prober, f->b->conf->name, address, &w);
        enum fact fact = fact_of(f, i, &w);
        f->total++;
        if (fact == FINE) {
            continue;
        }
        if (f->bad < SHOWN) {
            f->shown[f->bad] = i;
        }
        f->bad++;
        if (first == NULL || fact > f->fact || (fact == f->fact && strcmp(address, first) < 0)) {
            stand_for(f, i, fact, &w);
            first = address;
        }
    }
}

static void name_it(struct finding *f)
{
    static const char *const names[] = {
        [SAID] = "controller only",  [WAITING] = "no answer yet", [FAILING] = "requests fail",
        [ERRING] = "peers erroring", [OUT] = "peers out",         [GATED] = "peers out",
    };
    if (f->b->gated || (f->total == 0 && fl_verdict_blocks(f->verdict.status))) {
        f->name = "blocked";
        f->cause = f->verdict.cause;
    } else if (f->usable == 0) {
        f->name = "no peer usable";
        fl_backend_cause(f->b, &f->cause);
    } else if (f->verdict.status == FL_VERDICT_ERRORING) {
        f->name = "erroring";
        f->cause = f->verdict.cause;
    } else {
        f->name = f->bad > 0 ? names[f->fact] : NULL;
    }
}

static void find(const struct fl_control *c, const struct fl_snap_backend *b, struct finding *f)
{
    *f = (struct finding){.c = c, .b = b, .now_ms = fl_control_now_ms(c)};
    fl_control_backend_verdict(c, b, &f->verdict);
    look_at_peers(f);
    name_it(f);
}

/* ---- sentences ---- */

static void put_secs(struct fl_fmt *f, int64_t ms)
{
    ms = ms > 0 ? ms : 0;
    fl_fmt_printf(f, "%lld.%lld s", (long long)(ms / 1000), (long long)(ms % 1000 / 100));
}

static void write_peers(const struct finding *f, struct fl_fmt *t)
{
    if (f->b->peer_count == 0) {
        for (uint32_t i = 0; i < f->b->conf->peer_count && i < SHOWN; i++) {
            fl_fmt_printf(t, "%s%s", i > 0 ? ", " : "", f->b->conf->peers[i].address);
        }
        fl_fmt_text(t, f->b->conf->peer_count > 0 ? " (a name that gives no address)" : "none");
        return;
    }
    for (uint32_t i = 0; i < f->bad && i < SHOWN; i++) {
        fl_fmt_printf(t, "%s%s", i > 0 ? ", " : "", f->b->peers[f->shown[i]].peer->address);
    }
    fl_fmt_printf(t, "%s(%u of %u)",
                  f->bad > SHOWN ? ", ... "
                  : f->bad > 0   ? " "
                                 : "",
                  f->bad, f->total);
}

static void write_evidence(const struct finding *f, struct fl_fmt *t)
{
    const struct fl_watch_view *w = &f->w;
    bool pushed = f->verdict.source == FL_VERDICT_PUSHED;
    if (w->own == NULL || f->b->peer_count == 0) {
        fl_fmt_text(t, "from this pod");
    } else if (strcmp(f->cause.code, "drained") == 0) {
        fl_fmt_text(t, "an operator's order to this sidecar");
    } else if (f->fact == WAITING) {
        fl_fmt_text(t, "by a probe of this pod that has waited for ");
        put_secs(t, f->now_ms - w->began_ms);
    } else if (f->fact == OUT || f->fact == FAILING) {
        fl_fmt_text(t, "by requests of this pod, the last ");
        put_secs(t, f->now_ms - f->failed_ms);
        fl_fmt_text(t, " ago; by its own probe, ");
        put_secs(t, f->now_ms - w->own->at_ms);
        fl_fmt_printf(t, " ago: %s", fl_verdict_status_name(w->own->status));
    } else if (f->fact == SAID || (pushed && f->fact == GATED)) {
        fl_fmt_text(t, "by the controller, and not by this pod");
    } else {
        fl_fmt_text(t, "by this pod's own probe, ");
        put_secs(t, f->now_ms - w->own->at_ms);
        fl_fmt_text(t, " ago");
    }
}

/* Is it this pod, its node, or everybody? */
static void write_vantage(const struct finding *f, struct fl_fmt *t)
{
    const struct fl_verdict *pushed = f->w.pushed, *own = f->w.own;
    if (strcmp(f->cause.code, "drained") == 0) {
        return;
    }
    if (pushed == NULL || own == NULL || f->b->peer_count == 0) {
        fl_fmt_text(t, "; no second view: the controller has said nothing of it");
        return;
    }
    fl_fmt_text(t, "; the controller, ");
    put_secs(t, f->now_ms - pushed->at_ms);
    fl_fmt_printf(t, " ago: %s", fl_verdict_status_name(pushed->status));
    bool bad = pushed->status != FL_VERDICT_HEALTHY;
    if (pushed->at_ms < f->since_ms) {
        fl_fmt_text(t, ", which was before this: ask it again before you compare");
    } else if (f->fact == SAID || (bad && own->status == FL_VERDICT_HEALTHY)) {
        fl_fmt_text(t, "; it is the controller's network, or its key");
    } else if (bad) {
        fl_fmt_text(t, ", too: it is the store's side, for the whole cluster");
    } else if (own->status != FL_VERDICT_HEALTHY) {
        fl_fmt_text(t, ": it is this pod or its node (several backends at once: its node)");
    }
}

static void write_traffic(const struct finding *f, struct fl_fmt *t)
{
    if (strcmp(f->name, "blocked") == 0) {
        fl_fmt_text(t, "every request gets 503 backend_unavailable at once, its body unread");
    } else if (f->usable == 0 && f->b->peer_count == 0 && !f->b->has_members) {
        fl_fmt_text(t, "every request gets 503 no_membership at once");
    } else if (f->usable == 0) {
        fl_fmt_text(t, "every request gets 503 no_live_upstream at once");
        fl_fmt_text(t, f->release_ms > f->now_ms ? ", until one may try a peer again"
                       : f->release_ms > 0       ? "; one may try a peer now"
                                                 : "");
    } else if (strcmp(f->name, "erroring") == 0) {
        fl_fmt_text(t, "goes on: clients get the store's own answers");
    } else if (f->fact == GATED || f->fact == OUT) {
        fl_fmt_printf(t, "goes to the other %u of %u peers%s", f->usable, f->total,
                      fl_view_on_backup(f->b, f->now_ms) ? ", which are backups" : "");
    } else if (f->fact == SAID) {
        fl_fmt_text(t, "goes on");
    } else {
        fl_fmt_text(t, "goes on: each request is tried there, and waits or fails as it may");
    }
}

static void write_next(const struct finding *f, struct fl_fmt *t)
{
    bool probes = f->b->conf->probe.type != FL_PROBE_NONE && f->w.own != NULL;
    if (f->b->peer_count == 0) {
        fl_fmt_text(t, f->b->conf->peer_count > 0 ? "the name is looked up again within 30 s"
                                                  : "the next push may bring members");
        return;
    }
    if (f->release_ms > f->now_ms) {
        fl_fmt_text(t, "one request tries a peer again in ");
        put_secs(t, f->release_ms - f->now_ms);
        fl_fmt_text(t, probes ? "; " : "");
    }
    if (probes && f->w.probing) {
        fl_fmt_text(t, "it is being asked now, and judged after two tries of at most ");
        put_secs(t, f->b->conf->probe.timeout_ms);
    } else if (probes && f->w.next_ms != 0) {
        fl_fmt_text(t, "asked again in ");
        put_secs(t, f->w.next_ms - f->now_ms);
        fl_fmt_text(t, ", at least every ");
        put_secs(t, f->b->conf->probe.interval_ms);
        fl_fmt_text(t, "; the first good answer ends it");
    } else if (probes) {
        fl_fmt_text(t, "the controller asks it; this pod does when a request fails");
    } else if (f->release_ms == 0) {
        fl_fmt_text(t, "nothing by itself");
    }
}

static void put_sentence(const struct finding *f, struct fl_json *j, const char *key,
                         void (*write)(const struct finding *f, struct fl_fmt *t))
{
    char text[768];
    struct fl_fmt t = fl_fmt_of(text, sizeof(text));
    write(f, &t);
    fl_json_text(j, key, text);
}

static void write_seen(const struct finding *f, struct fl_fmt *t)
{
    write_evidence(f, t);
    write_vantage(f, t);
}

static void write_buckets(const struct finding *f, struct fl_fmt *t)
{
    const struct fl_snapshot *s = f->c->current;
    for (uint32_t i = 0; i < s->route_count; i++) {
        const char *bucket = s->routes[i].conf->bucket;
        if (!fl_view_routed(&s->routes[i], f->b)) {
            continue;
        }
        if (t->len + strlen(bucket) + 40 > t->cap) {
            fl_fmt_text(t, ", and more");
            return;
        }
        fl_fmt_printf(t, "%s%s%s", t->len > 0 ? ", " : "", bucket,
                      strcmp(bucket, "*") == 0 ? " (every bucket without a route of its own)" : "");
    }
}

void fl_diagnosis_put(const struct fl_control *c, struct fl_json *j,
                      const struct fl_snap_backend *b)
{
    struct finding f;
    find(c, b, &f);
    if (f.name == NULL) {
        fl_json_null(j, "diagnosis");
        return;
    }
    int64_t since_unix_ms = b->peer_count > 0 ? fl_view_unix_ms(c, f.since_ms)
                                              : fl_control_since_unix_ms(c, b->conf->name);
    fl_json_open(j, "diagnosis", '{');
    fl_json_text(j, "backend", b->conf->name);
    put_sentence(&f, j, "buckets", write_buckets);
    fl_json_text(j, "finding", f.name);
    put_sentence(&f, j, "peers", write_peers);
    fl_json_text(j, "code", f.cause.code);
    fl_json_text(j, "cause", f.cause.text);
    fl_json_text(j, "note", f.verdict.status == FL_VERDICT_ERRORING ? f.verdict.note : "");
    fl_json_time(j, "since", since_unix_ms);
    fl_json_time(j, "last_well", fl_view_unix_ms(c, f.w.well_ms));
    put_sentence(&f, j, "seen", write_seen);
    put_sentence(&f, j, "traffic", write_traffic);
    put_sentence(&f, j, "next", write_next);
    fl_json_text(j, "remedy", fl_remedy(f.cause.code));
    fl_json_close(j, '}');
}
