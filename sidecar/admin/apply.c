#include "sidecar/admin/apply.h"

#include <errno.h>
#include <stdlib.h>

#include "sidecar/admin/apply_gate.h"
#include "sidecar/admin/apply_keep.h"
#include "sidecar/admin/control_inner.h"

struct fl_apply {
    struct fl_control *control;
    struct fl_apply_order order;
    struct fl_findings findings;
    struct fl_apply_gate *gate; /* NULL: nobody is asked */
    struct fl_apply_refusal *refusals;
    uint32_t refusal_count;
    uint64_t hash_before, hash_after; /* of the effective configurations, as last judged */
};

static const char *source_name(enum fl_apply_source s)
{
    return s == FL_APPLY_FROM_FILE ? "file" : "api";
}

static void free_apply(struct fl_apply *a)
{
    fl_apply_gate_free(a->gate);
    fl_config_free(a->order.fresh);
    fl_findings_done(&a->findings);
    free(a->refusals);
    free(a);
}

void fl_apply_cancel(struct fl_control *c)
{
    if (c->apply != NULL) {
        free_apply(c->apply);
        c->apply = NULL;
    }
}

/* ---- what is said of it ---- */

static void begin_line(const struct fl_apply *a, struct fl_log_line *l, enum fl_log_level level,
                       const char *msg)
{
    fl_log_begin(a->control->conf.log, l, level, msg);
    fl_log_text(l, "source", source_name(a->order.source));
}

static void end_line(const struct fl_apply *a, struct fl_log_line *l)
{
    fl_log_end(a->control->conf.log, l);
}

static void log_findings(const struct fl_apply *a)
{
    for (const struct fl_finding *one = a->findings.first; one != NULL; one = one->next) {
        char text[1280];
        struct fl_fmt out = fl_fmt_of(text, sizeof(text));
        fl_findings_print(&a->findings, one, &out);
        bool error = one->severity == FL_SEVERITY_ERROR;
        struct fl_log_line l;
        begin_line(a, &l, error ? FL_LOG_ERROR : FL_LOG_WARN,
                   error ? "config refused" : "configuration warning");
        fl_log_text(&l, "cause", text);
        end_line(a, &l);
    }
}

static void log_refusal(const struct fl_apply *a, const struct fl_apply_refusal *r)
{
    struct fl_log_line l;
    begin_line(a, &l, FL_LOG_ERROR, "config refused");
    fl_log_text(&l, "backend", r->backend);
    fl_log_text(&l, "status", fl_verdict_status_name(r->status));
    fl_log_text(&l, "code", r->cause.code);
    fl_log_text(&l, "cause", r->cause.text);
    fl_log_text(&l, "detail", r->sentence);
    end_line(a, &l);
    fl_events_add(a->control->events, fl_control_wall_ms(a->control), "config_refused", r->backend,
                  "", "%s", r->sentence);
}

static void tell_refused(const struct fl_apply *a)
{
    struct fl_control *c = a->control;
    for (uint32_t i = 0; i < a->refusal_count; i++) {
        log_refusal(a, &a->refusals[i]);
    }
    if (a->refusal_count > 0) {
        return;
    }
    const struct fl_finding *first = a->findings.first;
    while (first != NULL && first->severity != FL_SEVERITY_ERROR) {
        first = first->next;
    }
    const char *why = first != NULL ? first->text : "out of memory";
    struct fl_log_line l;
    begin_line(a, &l, FL_LOG_ERROR, "config refused");
    fl_log_text(&l, "cause", first != NULL ? "nothing was changed" : why);
    end_line(a, &l);
    fl_events_add(c->events, fl_control_wall_ms(c), "config_refused", "", "",
                  "config refused: %s (nothing was changed)", why);
}

static void tell_applied(const struct fl_apply *a)
{
    struct fl_control *c = a->control;
    char hash[32];
    struct fl_fmt h = fl_fmt_of(hash, sizeof(hash));
    fl_fmt_printf(&h, "%016llx", (unsigned long long)a->hash_after);
    struct fl_log_line l;
    begin_line(a, &l, FL_LOG_INFO, "config applied");
    if (a->order.source == FL_APPLY_FROM_FILE) {
        fl_log_text(&l, "file", c->file->file);
    }
    fl_log_text(&l, "hash", hash);
    end_line(a, &l);
    if (a->hash_after != a->hash_before) {
        fl_events_add(c->events, fl_control_wall_ms(c), "config_applied", "", "", "%s",
                      a->order.source == FL_APPLY_FROM_FILE ? "the file was read again"
                                                            : "by the admin API");
    }
}

/* Frees a. */
static void end_with(struct fl_apply *a, enum fl_apply_end end)
{
    bool applied = end == FL_APPLY_DONE;
    log_findings(a);
    if (applied) {
        tell_applied(a);
    } else {
        tell_refused(a);
    }
    const struct fl_apply_result r = {
        .end = end,
        .hash = applied ? a->hash_after : a->hash_before,
        .changed = applied && a->hash_after != a->hash_before,
        .findings = &a->findings,
        .refusals = a->refusals,
        .refusal_count = a->refusal_count,
    };
    if (a->control->apply == a) {
        a->control->apply = NULL;
    }
    if (a->order.done != NULL) {
        a->order.done(a->order.arg, &r);
    }
    free_apply(a);
}

/* ---- judging ---- */

/* What would be in force, and what is. Warnings were given by whoever loaded it, for this document
 * only. */
static struct fl_config *effective(struct fl_apply *a, const struct fl_config *file)
{
    struct fl_findings f;
    fl_findings_init(&f, "");
    struct fl_config *e = fl_control_effective(a->control, file, a->control->pushed, &f);
    for (const struct fl_finding *one = f.first; e == NULL && one != NULL; one = one->next) {
        if (one->severity == FL_SEVERITY_ERROR) {
            fl_findings_add(&a->findings, FL_SEVERITY_ERROR, one->line, "%s", one->text);
        }
    }
    fl_findings_done(&f);
    return e;
}

struct judged {
    struct fl_config *now, *next; /* effective, not expanded */
    struct fl_verify_keys *keys;  /* that the file names; NULL: as they were */
};

static void free_judged(struct judged *j)
{
    fl_config_free(j->now);
    fl_config_free(j->next);
    fl_verify_keys_free(j->keys);
}

static enum fl_apply_end judge(struct fl_apply *a, struct judged *ret)
{
    struct fl_control *c = a->control;
    *ret = (struct judged){.now = effective(a, c->file)};
    if (ret->now == NULL) {
        return FL_APPLY_NO_MEMORY;
    }
    a->hash_before = ret->now->hash;
    if (a->order.fresh == NULL) {
        return FL_APPLY_INVALID;
    }
    fl_apply_keep(c->file, a->order.fresh, &a->findings);
    if (!fl_state_settle_owners(c->file, ret->now, a->order.fresh, &a->findings)) {
        return FL_APPLY_OWNED;
    }
    ret->next = effective(a, a->order.fresh);
    if (ret->next == NULL || !fl_control_tls_check(c, ret->next, &a->findings)) {
        return a->findings.errors > 0 ? FL_APPLY_INVALID : FL_APPLY_NO_MEMORY;
    }
    a->hash_after = ret->next->hash;
    int rc = fl_push_read_keys(c, a->order.fresh, &a->findings, &ret->keys);
    return rc == 0 ? FL_APPLY_DONE : FL_APPLY_INVALID;
}

static void commit(struct fl_apply *a, struct judged *j)
{
    struct fl_control *c = a->control;
    fl_push_take_keys(c, j->keys);
    j->keys = NULL;
    fl_config_free(c->file);
    c->file = a->order.fresh;
    a->order.fresh = NULL;
    if (c->engine == NULL) {
        return;
    }
    if (a->gate != NULL) { /* whoever has just been asked is not asked again */
        fl_apply_gate_teach(a->gate, true);
    }
    fl_control_rebuild(c); /* before the answer: applied is published */
    if (a->gate != NULL) {
        fl_apply_gate_teach(a->gate, false);
        fl_prober_tell_learnt(c->prober);
    }
}

/* ---- the gate ---- */

static const char *remedy(const struct fl_verdict *v)
{
    static const struct {
        const char *step, *text;
    } by_step[] = {
        {"dns", "Fix the name, or the DNS that should know it,"},
        {"connect", "Fix the address, or start the backend,"},
        {"tls", "Fix the tls keys, or the backend's certificate,"},
        {"send", "Fix the endpoint, or the backend behind it,"},
        {"head", "Fix the endpoint, or the backend behind it,"},
    };
    if (v->status == FL_VERDICT_AUTH_REJECTED) {
        return "Fix the keys in probe.access_key_file and probe.secret_key_file";
    }
    for (size_t i = 0; i < FL_COUNTOF(by_step); i++) {
        if (strcmp(v->step, by_step[i].step) == 0) {
            return by_step[i].text;
        }
    }
    return "Fix the endpoint or the credentials";
}

static void refuse(struct fl_apply *a, const char *backend, const struct fl_verdict *v)
{
    struct fl_apply_refusal *r = &a->refusals[a->refusal_count++];
    *r = (struct fl_apply_refusal){.backend = backend, .status = v->status, .cause = v->cause};
    struct fl_fmt f = fl_fmt_of(r->sentence, sizeof(r->sentence));
    fl_fmt_text(&f, "config refused: backend '");
    fl_fmt_text(&f, backend);
    fl_fmt_text(&f, "' failed its connection probe — ");
    fl_fmt_text(&f, v->cause.text);
    fl_fmt_text(&f, ". ");
    fl_fmt_text(&f, remedy(v));
    fl_fmt_text(&f, " and re-apply (nothing was changed)");
}

static void warn(struct fl_apply *a, const struct fl_backend_conf *b, const struct fl_derived *d)
{
    const struct fl_verdict *v = &d->verdict;
    const char *text = v->status == FL_VERDICT_ERRORING ? v->cause.text
                       : d->peers_down[0] != '\0'       ? v->note
                                                        : "";
    if (v->status == FL_VERDICT_UNKNOWN && b->peer_count > 0) {
        text = "it could not be probed, for want of local resources";
    }
    if (text[0] != '\0') {
        fl_findings_add(&a->findings, FL_SEVERITY_WARNING, b->line, "backend '%s': %s", b->name,
                        text);
    }
}

static bool look_at_verdicts(struct fl_apply *a)
{
    uint32_t count = 0;
    while (fl_apply_gate_backend(a->gate, count) != NULL) {
        count++;
    }
    a->refusals = calloc(count + 1, sizeof(*a->refusals));
    for (uint32_t i = 0; a->refusals != NULL && i < count; i++) {
        const struct fl_backend_conf *b = fl_apply_gate_backend(a->gate, i);
        struct fl_derived d;
        fl_apply_gate_verdict(a->gate, i, &d);
        if (fl_verdict_blocks(d.verdict.status)) {
            refuse(a, b->name, &d.verdict);
        } else {
            warn(a, b, &d);
        }
    }
    return a->refusals != NULL;
}

/* Everybody has answered. A push may have come meanwhile: judged once more. */
static void on_gate_done(void *arg, int rc)
{
    struct fl_apply *a = arg;
    struct judged j = {0};
    enum fl_apply_end end = FL_APPLY_NO_MEMORY;
    if (rc == 0 && look_at_verdicts(a)) {
        end = a->refusal_count > 0 ? FL_APPLY_UNFIT : judge(a, &j);
    }
    if (end == FL_APPLY_DONE) {
        commit(a, &j);
    }
    free_judged(&j);
    end_with(a, end);
}

static bool is_gated(const struct fl_apply *a)
{
    return !a->order.force && a->order.fresh->boot_probe != FL_BOOT_OFF &&
           a->control->engine != NULL;
}

/* Sets control->apply when there is somebody to wait for. */
static enum fl_apply_end open_gate(struct fl_apply *a, struct judged *j)
{
    struct fl_config *next = j->next;
    j->next = NULL;
    if (fl_apply_gate_new(a->control, j->now, next, on_gate_done, a, &a->gate) < 0) {
        return FL_APPLY_NO_MEMORY;
    }
    if (fl_apply_gate_backend(a->gate, 0) != NULL) {
        a->control->apply = a;
    }
    return FL_APPLY_DONE;
}

int fl_apply(struct fl_control *c, const struct fl_apply_order *o)
{
    if (c->apply != NULL) {
        bool instead =
            o->source == FL_APPLY_FROM_FILE && c->apply->order.source == FL_APPLY_FROM_FILE;
        if (!instead) {
            return -EBUSY;
        }
        fl_apply_cancel(c);
    }
    struct fl_apply *a = calloc(1, sizeof(*a));
    if (a == NULL) {
        return -ENOMEM;
    }
    a->control = c;
    a->order = *o;
    a->findings = *o->findings;
    *o->findings = (struct fl_findings){.file = ""};
    struct judged j;
    enum fl_apply_end end = judge(a, &j);
    if (end == FL_APPLY_DONE && is_gated(a)) {
        end = open_gate(a, &j);
    }
    if (c->apply == NULL) { /* nobody is asked */
        if (end == FL_APPLY_DONE) {
            commit(a, &j);
        }
        end_with(a, end);
    }
    free_judged(&j);
    return 0;
}
