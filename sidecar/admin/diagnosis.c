#include "sidecar/admin/diagnosis.h"

#include "common/verdict/fault.h"
#include "common/verdict/remedy.h"
#include "sidecar/admin/view.h"

#define WAITS_MS 2000 /* a probe that waits longer is worth a word */
#define SHOWN    4    /* addresses */
#define AT_ONCE  1000 /* two times as close as this are one, for people */

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
    struct fl_cause why[SHOWN];  /* of each that is shown */
    bool differ;                 /* not all that are bad have the same code */
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

static bool is_bad(const struct fl_verdict *v)
{
    return v != NULL && (fl_verdict_blocks(v->status) || v->status == FL_VERDICT_ERRORING);
}

/* The controller says so, and not of a fault that ended: a probe from here found it well since. */
static bool seen_there(const struct fl_watch_view *w)
{
    return is_bad(w->pushed) && w->pushed->at_ms >= w->well_ms;
}

/* The first sign from here: a probe's, or a request's behind the last good one. */
static int64_t own_since_of(const struct fl_snap_peer *p, enum fact fact,
                            const struct fl_watch_view *w)
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

static int64_t since_of(const struct fl_snap_peer *p, enum fact fact, const struct fl_watch_view *w)
{
    int64_t own_ms = own_since_of(p, fact, w);
    bool earlier = seen_there(w) && w->pushed_since_ms > w->well_ms && w->pushed_since_ms < own_ms;
    return earlier ? w->pushed_since_ms : own_ms;
}

/* ---- what the backend is ---- */

static void stand_for(struct finding *f, uint32_t i, enum fact fact, const struct fl_watch_view *w,
                      const struct fl_cause *cause)
{
    const struct fl_snap_peer *p = &f->b->peers[i];
    f->fact = fact;
    f->w = *w;
    f->since_ms = since_of(p, fact, w);
    f->failed_ms = atomic_load_explicit(&p->peer->last_fail_ms, memory_order_relaxed);
    f->cause = *cause;
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
        struct fl_cause cause;
        cause_of(&f->b->peers[i], fact, &w, &cause);
        f->differ |= first != NULL && strcmp(cause.code, f->cause.code) != 0;
        if (f->bad < SHOWN) {
            f->shown[f->bad] = i;
            f->why[f->bad] = cause;
        }
        f->bad++;
        if (first == NULL || fact > f->fact || (fact == f->fact && strcmp(address, first) < 0)) {
            stand_for(f, i, fact, &w, &cause);
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
        fl_fmt_printf(t, "%s%s%s%s", i > 0 ? ", " : "", f->b->peers[f->shown[i]].peer->address,
                      f->differ ? " " : "", f->differ ? f->why[i].code : "");
    }
    fl_fmt_printf(t, "%s(%u of %u%s)",
                  f->bad > SHOWN ? ", ... "
                  : f->bad > 0   ? " "
                                 : "",
                  f->bad, f->total, f->bad > 1 && !f->differ ? ", all the same" : "");
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
        fl_fmt_printf(t, " ago: %s%s", fl_verdict_status_name(w->own->status),
                      w->own->at_ms < f->since_ms ? ", which was before this" : "");
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
        fl_fmt_text(t, "; no second view: the controller has sent no verdict of it");
        return;
    }
    bool here = is_bad(own) || f->fact == WAITING || f->fact == FAILING || f->fact == OUT;
    bool both = here && seen_there(&f->w);
    bool same = pushed->cause.code[0] == '\0' || strcmp(pushed->cause.code, f->cause.code) == 0;
    fl_fmt_printf(t, "; the controller%s, ",
                  !both  ? ""
                  : same ? " sees it, too"
                         : " sees another fault");
    put_secs(t, f->now_ms - pushed->at_ms);
    fl_fmt_printf(t, " ago: %s", fl_verdict_status_name(pushed->status));
    if (both && same) {
        fl_fmt_text(t, ": it is the store's side, for the whole cluster");
    } else if (both) {
        fl_fmt_printf(t, " (%s)", pushed->cause.code);
    } else if (seen_there(&f->w)) {
        fl_fmt_text(t, "; it is the controller's network, or its key");
    } else if (pushed->at_ms < f->since_ms) {
        fl_fmt_text(t, ", which was before this: ask it again before you compare");
    } else if (own->status != FL_VERDICT_HEALTHY) {
        fl_fmt_text(t, ": it is this pod or its node (several backends at once: its node)");
    }
}

/* What the answers are, as far as a probe tells. */
static void write_answers(const struct finding *f, struct fl_fmt *t)
{
    const char *code = f->cause.code;
    fl_fmt_text(t, "goes on: clients get the store's own answers");
    if (strncmp(code, "http_", 5) == 0) {
        fl_fmt_printf(t, ", as the probe did: status %s", code + 5);
    } else if (strcmp(code, "clock_skew") == 0) {
        fl_fmt_text(t, "; who signs by a clock like this pod's is refused as the probe was");
    } else if (strcmp(code, "wrong_region") == 0) {
        fl_fmt_text(t, "; who signs for the probe's region is refused as it was");
    } else if (strcmp(code, "not_s3") == 0) {
        fl_fmt_text(t, "; what answers there is no S3 store");
    }
}

static int64_t longer(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The longest deadline and read timeout of the routes to it; a deadline of 0: one has none. */
static void limits_of(const struct finding *f, int64_t *deadline_ms, int64_t *read_ms)
{
    const struct fl_snapshot *s = f->c->current;
    bool none = false;
    *deadline_ms = *read_ms = 0;
    for (uint32_t i = 0; i < s->route_count; i++) {
        for (uint32_t k = 0; k <= s->routes[i].path_count; k++) {
            const struct fl_snap_policy *p =
                k == 0 ? &s->routes[i].policy : &s->routes[i].paths[k - 1].policy;
            if (p->backend == f->b && p->conf != NULL) {
                none |= p->conf->deadline_ms == 0;
                *deadline_ms = longer(*deadline_ms, p->conf->deadline_ms);
                *read_ms = longer(*read_ms, p->conf->read_timeout_ms);
            }
        }
    }
    *deadline_ms = none ? 0 : *deadline_ms;
}

static bool makes_wait(const char *code)
{
    static const char *const codes[] = {"no_answer",   "send_timeout", "connect_timeout",
                                        "tls_timeout", "stalled",      "deadline"};
    for (size_t i = 0; i < FL_COUNTOF(codes); i++) {
        if (strcmp(codes[i], code) == 0) {
            return true;
        }
    }
    return false;
}

static void write_tries(const struct finding *f, struct fl_fmt *t)
{
    int64_t deadline_ms, read_ms;
    limits_of(f, &deadline_ms, &read_ms);
    fl_fmt_text(t, "goes on: each request is tried there, ");
    if (!makes_wait(f->cause.code)) {
        fl_fmt_text(t, "and may fail like the last");
    } else if (deadline_ms > 0) {
        fl_fmt_text(t, "and its client waits for at most ");
        put_secs(t, deadline_ms);
        fl_fmt_text(t, " (deadline; longer for uploads and copies), then gets an error");
    } else {
        fl_fmt_text(t, "and waits for at most ");
        put_secs(t, read_ms);
        fl_fmt_text(t, " a try (read_timeout; there is no deadline)");
    }
}

static void write_traffic(const struct finding *f, struct fl_fmt *t)
{
    if (strcmp(f->name, "blocked") == 0) {
        fl_fmt_text(t, "every request gets 503 backend_unavailable at once, its body unread");
        if (strcmp(f->cause.code, "credentials_rejected") == 0) {
            fl_fmt_text(t, "; only the probe's keys are known to be wrong: clients sign with their "
                           "own, which were not tried");
        }
    } else if (f->usable == 0 && f->b->peer_count == 0 && !f->b->has_members) {
        fl_fmt_text(t, "every request gets 503 no_membership at once");
    } else if (f->usable == 0) {
        fl_fmt_text(t, "every request gets 503 no_live_upstream at once");
        fl_fmt_text(t, f->release_ms > f->now_ms ? ", until one may try a peer again"
                       : f->release_ms > 0       ? "; one may try a peer now"
                                                 : "");
    } else if (strcmp(f->name, "erroring") == 0) {
        write_answers(f, t);
    } else if (f->fact == GATED || f->fact == OUT) {
        fl_fmt_printf(t, "goes to the other %u of %u peers%s", f->usable, f->total,
                      fl_view_on_backup(f->b, f->now_ms) ? ", which are backups" : "");
    } else if (f->fact == SAID) {
        fl_fmt_text(t, "goes on");
    } else {
        write_tries(f, t);
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
        fl_fmt_text(t, "it is being asked now, for ");
        put_secs(t, f->now_ms - f->w.began_ms);
        fl_fmt_text(t, " so far; two tries of at most ");
        put_secs(t, f->b->conf->probe.timeout_ms);
        fl_fmt_text(t, f->b->gated ? " each; the first good answer ends it"
                                   : " each without an answer, and this peer is taken out; without "
                                     "any other, every request gets 503 at once");
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

static int64_t since_unix_ms(const struct finding *f)
{
    return f->b->peer_count > 0 ? fl_view_unix_ms(f->c, f->since_ms)
                                : fl_control_since_unix_ms(f->c, f->b->conf->name);
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

enum { TO_SECS = 8, TO_MS = 12 };

static void put_clock(struct fl_fmt *f, int64_t unix_ms, int width)
{
    char text[40];
    struct fl_fmt t = fl_fmt_of(text, sizeof(text));
    fl_fmt_rfc3339(&t, unix_ms);
    fl_fmt_printf(f, "%.*s", width, text + strlen("2026-11-30T"));
}

/* A probe that finds it says when it looked, not when it began. */
static void write_began(const struct finding *f, struct fl_fmt *t)
{
    int64_t since_ms = since_unix_ms(f), well_ms = fl_view_unix_ms(f->c, f->w.well_ms);
    if (since_ms <= 0) {
        fl_fmt_text(t, "not known");
    } else if (well_ms == 0) {
        put_clock(t, since_ms, TO_MS);
        fl_fmt_text(
            t,
            " UTC or earlier: no probe of this process has found it well as it is configured now");
    } else if (since_ms - well_ms <= AT_ONCE) {
        put_clock(t, since_ms, TO_MS);
        fl_fmt_text(t, " UTC");
    } else {
        fl_fmt_text(t, "between ");
        put_clock(t, well_ms, TO_MS);
        fl_fmt_text(t, " (last well) and ");
        put_clock(t, since_ms, TO_MS);
        fl_fmt_text(t, " UTC (first noticed)");
    }
}

static void write_note(const struct finding *f, struct fl_fmt *t)
{
    static const char wants[] = " expected=";
    const char *found = strstr(f->cause.text, wants);
    if (strcmp(f->cause.code, "wrong_region") == 0 && found != NULL) {
        int n = (int)strcspn(found + strlen(wants), ")");
        fl_fmt_printf(t, "the store expects %.*s", n, found + strlen(wants));
    } else if (f->verdict.status == FL_VERDICT_ERRORING) {
        fl_fmt_text(t, f->verdict.note);
    }
}

/* What is learnt of another definition is forgotten: it was well as it is configured now. */
static void write_remedy(const struct finding *f, struct fl_fmt *t)
{
    const char *code = f->cause.code;
    if (f->w.well_ms != 0 && strcmp(code, "drained") != 0 && strcmp(code, "tls_expired") != 0) {
        fl_fmt_text(t, "it was well at ");
        put_clock(t, fl_view_unix_ms(f->c, f->w.well_ms), TO_SECS);
        fl_fmt_text(t, " UTC as it is configured now, so look for what changed; ");
    }
    fl_fmt_text(t, fl_remedy(code));
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

bool fl_diagnosis_put(const struct fl_control *c, struct fl_json *j,
                      const struct fl_snap_backend *b)
{
    struct finding f;
    find(c, b, &f);
    if (f.name == NULL) {
        fl_json_null(j, "diagnosis");
        return false;
    }
    fl_json_open(j, "diagnosis", '{');
    fl_json_text(j, "backend", b->conf->name);
    put_sentence(&f, j, "buckets", write_buckets);
    fl_json_text(j, "finding", f.name);
    put_sentence(&f, j, "peers", write_peers);
    fl_json_text(j, "code", f.cause.code);
    fl_json_text(j, "cause", f.cause.text);
    put_sentence(&f, j, "note", write_note);
    put_sentence(&f, j, "began", write_began);
    fl_json_time(j, "since", since_unix_ms(&f));
    fl_json_time(j, "last_well", fl_view_unix_ms(c, f.w.well_ms));
    put_sentence(&f, j, "seen", write_seen);
    put_sentence(&f, j, "traffic", write_traffic);
    put_sentence(&f, j, "next", write_next);
    put_sentence(&f, j, "remedy", write_remedy);
    fl_json_close(j, '}');
    return true;
}
