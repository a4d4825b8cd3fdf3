#include "controller/push/fanout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/state_json.h"
#include "common/io/bridge/curl_bridge.h"
#include "common/sign/message_signature.h"
#include "controller/decide/compose.h"
#include "controller/push/fanout_inner.h"

#define PUSH_PATH        "/_/api/push/v1/state"
#define CONTENT_TYPE     "application/json"
#define ANSWER_MAX_BYTES ((size_t)1 << 20)
#define FIELD_MAX        256

struct fl_fanout {
    struct fl_fanout_conf conf;
    struct fl_curl *curl;
    struct fl_push_plan plan;
    struct fl_timer timer;
    int64_t timeout_ms;
    struct fl_state *state;     /* the newest */
    int64_t aged_at_ms;         /* when the ages of its verdicts were right */
    struct fl_edition *edition; /* the last one made */
    struct fl_sidecar **sidecars;
    uint32_t count;
    uint64_t totals[FL_PUSH_RESULT_COUNT];
};

static void drive(struct fl_fanout *f);

static int64_t now_of(const struct fl_fanout *f)
{
    return fl_reactor_now_ms(f->conf.reactor);
}

/* ---- one push ---- */

/* The body for the plan's newest edition; NULL: no memory. */
static struct fl_edition *current_edition(struct fl_fanout *f)
{
    const struct fl_push_plan *p = &f->plan;
    if (f->edition != NULL && f->edition->number == p->edition) {
        return f->edition;
    }
    int64_t passed_ms = now_of(f) - f->aged_at_ms;
    f->aged_at_ms += passed_ms;
    for (uint32_t i = 0; i < f->state->backend_count; i++) {
        struct fl_state_backend *b = &f->state->backends[i];
        for (uint32_t k = 0; k < b->verdict_count; k++) {
            b->verdicts[k].age_ms += passed_ms;
        }
    }
    struct fl_edition *made = fl_edition_new(f->state, p->edition, p->epoch, p->seq);
    if (made != NULL) {
        fl_edition_give(&f->edition);
        f->edition = made;
    }
    return made;
}

static void ended(struct fl_sidecar *s, const struct fl_push_judgement *j)
{
    struct fl_fanout *f = s->owner;
    int64_t now_ms = now_of(f);
    int64_t sent_epoch = s->edition != NULL ? s->edition->epoch : 0;
    f->totals[j->report.result]++;
    if (j->report.result == FL_PUSH_OK) {
        s->acked_epoch = s->edition->epoch;
        s->acked_seq = s->edition->seq;
        s->acked_unix_ms = fl_reactor_wall_ms(f->conf.reactor);
        s->observations = j->answer.observations;
        s->observation_count = j->answer.count;
    }
    fl_edition_give(&s->edition);
    enum fl_push_lesson lesson = fl_push_plan_settle(&f->plan, &s->target, &j->report, now_ms);
    fl_fanout_say(f->conf.log, s, j, lesson, sent_epoch, now_ms);
}

static void on_done(void *arg, const struct fl_curl_answer *a)
{
    struct fl_sidecar *s = arg;
    struct fl_push_judgement j;
    struct fl_arena arena;
    s->call = NULL;
    fl_arena_init(&arena, FL_SIDECAR_ANSWER_MAX_BYTES);
    fl_push_judge(a, s->address, s->edition->hash, &arena, &j);
    if (j.report.result == FL_PUSH_OK) { /* what was observed stays while a sidecar is away */
        fl_arena_done(&s->arena);
        s->arena = arena;
    } else {
        fl_arena_done(&arena);
    }
    ended(s, &j);
    drive(s->owner);
}

/* 0 or -errno; the answer comes to on_done. */
static int start(struct fl_sidecar *s)
{
    struct fl_fanout *f = s->owner;
    struct fl_sig_fields sig;
    char id[FIELD_MAX], digest[FIELD_MAX], input[FIELD_MAX], signature[FIELD_MAX];
    const char *fields[] = {"Content-Type: " CONTENT_TYPE, id, digest, input, signature, NULL};
    const struct fl_sig_request rq = {FL_SPAN("PUT"), FL_SPAN(PUSH_PATH), FL_SPAN(CONTENT_TYPE),
                                      fl_span_of(s->id)};
    int rc = fl_message_sign_digest(f->conf.key, &rq, s->edition->digest,
                                    fl_reactor_wall_ms(f->conf.reactor) / 1000, &sig);
    if (rc < 0) {
        return rc;
    }
    const struct {
        char *to;
        const char *name, *value;
    } all[] = {{id, "Fairlead-Sidecar", s->id},
               {digest, "Content-Digest", sig.content_digest},
               {input, "Signature-Input", sig.signature_input},
               {signature, "Signature", sig.signature}};
    for (size_t i = 0; i < FL_COUNTOF(all); i++) {
        struct fl_fmt to = fl_fmt_of(all[i].to, FIELD_MAX);
        fl_fmt_printf(&to, "%s: %s", all[i].name, all[i].value);
        FL_MUST(!to.cut); /* an id is at most 128 bytes */
    }
    const struct fl_curl_conf conf = {.method = "PUT",
                                      .url = s->url,
                                      .fields = fields,
                                      .body = s->edition->body,
                                      .timeout_ms = f->timeout_ms,
                                      .answer_max_bytes = ANSWER_MAX_BYTES,
                                      .done = on_done,
                                      .arg = s};
    return fl_curl_start(f->curl, &conf, &s->call);
}

static void send_newest(struct fl_fanout *f, struct fl_sidecar *s)
{
    struct fl_edition *e = current_edition(f);
    int rc = -ENOMEM;
    if (e != NULL) {
        s->edition = fl_edition_take(e);
        rc = start(s);
    }
    if (rc < 0) {
        struct fl_push_judgement j = {.report.result = FL_PUSH_FAILED, .hint = ""};
        fl_cause_set(&j.cause, fl_cause_errno_code(-rc), "push to %s could not be started (%s)",
                     s->address, fl_cause_errno_text(-rc));
        ended(s, &j);
    }
}

static void drive(struct fl_fanout *f)
{
    struct fl_push_target *t;
    fl_push_plan_run(&f->plan, now_of(f));
    while ((t = fl_push_plan_take(&f->plan)) != NULL) {
        send_newest(f, fl_container_of(t, struct fl_sidecar, target));
    }
    int64_t next_ms = fl_push_plan_next_ms(&f->plan);
    if (next_ms == INT64_MAX) {
        fl_timer_off(&f->timer);
    } else {
        fl_timer_set(f->conf.reactor, &f->timer, next_ms);
    }
}

static void on_timer(struct fl_timer *t)
{
    drive(fl_container_of(t, struct fl_fanout, timer));
}

/* ---- what to push ---- */

/* Does this verdict, which takes a peer out, come so much later than the one before (its probe took
 * long) that sidecars would let that expire before the next refresh? */
static bool is_overdue(const struct fl_fanout *f, const struct fl_state_verdict *old,
                       const struct fl_state_verdict *fresh)
{
    int64_t old_age_ms = old->age_ms + now_of(f) - f->aged_at_ms;
    return fl_verdict_blocks(fresh->status) && fresh->age_ms < old_age_ms &&
           old_age_ms > f->plan.interval_ms + f->plan.interval_ms / 2;
}

/* a: the one so far. */
static bool same_verdicts(const struct fl_fanout *f, const struct fl_state *a,
                          const struct fl_state *b)
{
    for (uint32_t i = 0; i < a->backend_count; i++) { /* the same backends: their hash is one */
        const struct fl_state_backend *x = &a->backends[i], *y = &b->backends[i];
        if (x->verdict_count != y->verdict_count) {
            return false;
        }
        for (uint32_t k = 0; k < x->verdict_count; k++) {
            const struct fl_state_verdict *v = &x->verdicts[k], *w = &y->verdicts[k];
            if (strcmp(v->address, w->address) != 0 || v->status != w->status ||
                strcmp(v->cause.code, w->cause.code) != 0 || is_overdue(f, v, w)) {
                return false;
            }
        }
    }
    return true;
}

void fl_fanout_offer(struct fl_fanout *f, struct fl_state *s, bool at_once)
{
    s->hash = fl_state_json_hash(s);
    bool same = f->state != NULL && s->hash == f->state->hash && same_verdicts(f, f->state, s);
    bool urgent = at_once || fl_compose_takes_away(f->state, s);
    fl_state_free(f->state);
    f->state = s;
    f->aged_at_ms = now_of(f);
    if (!same) {
        fl_push_plan_changed(&f->plan, urgent, now_of(f));
    }
    drive(f);
}

const struct fl_state *fl_fanout_state(const struct fl_fanout *f)
{
    return f->state;
}

/* ---- whom to push to ---- */

static void free_sidecar(struct fl_sidecar *s)
{
    fl_curl_cancel(&s->call);
    fl_push_plan_leave(&s->owner->plan, &s->target);
    fl_edition_give(&s->edition);
    fl_arena_done(&s->arena);
    free(s);
}

static const char *put(struct fl_fmt *f, const char *prefix, const char *text, const char *suffix)
{
    const char *at = f->base + f->len;
    fl_fmt_text(f, prefix);
    fl_fmt_text(f, text);
    fl_fmt_text(f, suffix);
    f->len++; /* the NUL stays */
    return at;
}

static struct fl_sidecar *new_sidecar(struct fl_fanout *f, const struct fl_sidecar_conf *c)
{
    size_t cap = 2 * strlen(c->address) + strlen(c->id) + sizeof("http://" PUSH_PATH) + 3;
    struct fl_sidecar *s = calloc(1, sizeof(*s) + cap);
    if (s == NULL) {
        return NULL;
    }
    struct fl_fmt text = fl_fmt_of(s->text, cap);
    s->address = put(&text, "", c->address, "");
    s->id = put(&text, "", c->id, "");
    s->url = put(&text, "http://", c->address, PUSH_PATH);
    FL_MUST(!text.cut);
    s->owner = f;
    s->hint = "";
    fl_arena_init(&s->arena, FL_SIDECAR_ANSWER_MAX_BYTES);
    fl_push_plan_join(&f->plan, &s->target, now_of(f));
    return s;
}

static struct fl_sidecar *find_sidecar(const struct fl_fanout *f, const struct fl_sidecar_conf *c)
{
    for (uint32_t i = 0; i < f->count; i++) {
        struct fl_sidecar *s = f->sidecars[i];
        if (!s->kept && strcmp(s->address, c->address) == 0 && strcmp(s->id, c->id) == 0) {
            return s;
        }
    }
    return NULL;
}

static int take_sidecars(struct fl_fanout *f, const struct fl_controller_config *c)
{
    struct fl_sidecar **fresh = calloc((size_t)c->sidecar_count + 1, sizeof(struct fl_sidecar *));
    uint32_t count = 0;
    int rc = fresh != NULL ? 0 : -ENOMEM;
    for (uint32_t i = 0; fresh != NULL && i < c->sidecar_count; i++) {
        struct fl_sidecar *s = find_sidecar(f, &c->sidecars[i]);
        s = s != NULL ? s : new_sidecar(f, &c->sidecars[i]);
        if (s == NULL) {
            rc = -ENOMEM;
            continue;
        }
        s->kept = true;
        fresh[count++] = s;
    }
    if (fresh == NULL) {
        return rc;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        if (!f->sidecars[i]->kept) {
            free_sidecar(f->sidecars[i]);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        fresh[i]->kept = false;
    }
    free(f->sidecars);
    f->sidecars = fresh;
    f->count = count;
    return rc;
}

void fl_fanout_set_key(struct fl_fanout *f, const struct fl_sign_key *key)
{
    f->conf.key = key;
}

/* A backend that is probed more often than the others sets the pace: its verdicts expire after
 * three of its own intervals. */
static int64_t refresh_ms(const struct fl_controller_config *c)
{
    int64_t least_ms = c->probe_defaults.interval_ms;
    for (uint32_t i = 0; i < c->cluster->backend_count; i++) {
        const struct fl_probe_conf *q = &c->cluster->backends[i].probe;
        if (q->type != FL_PROBE_NONE && q->interval_ms < least_ms) {
            least_ms = q->interval_ms;
        }
    }
    return least_ms;
}

int fl_fanout_configure(struct fl_fanout *f, const struct fl_controller_config *c)
{
    FL_MUST(f->conf.key != NULL || c->sidecar_count == 0);
    f->plan.interval_ms = refresh_ms(c);
    f->plan.settle_ms = c->push.settle_ms;
    f->plan.concurrency = c->push.concurrency;
    f->timeout_ms = c->push.timeout_ms;
    return take_sidecars(f, c);
}

/* ---- life ---- */

int fl_fanout_new(const struct fl_fanout_conf *conf, struct fl_fanout **ret)
{
    struct fl_fanout *f = calloc(1, sizeof(*f));
    if (f == NULL) {
        return -ENOMEM;
    }
    f->conf = *conf;
    fl_push_plan_init(&f->plan, conf->epoch, conf->seed);
    fl_timer_init(&f->timer, on_timer);
    int rc = fl_curl_new(conf->reactor, &f->curl);
    if (rc < 0) {
        free(f);
        return rc;
    }
    *ret = f;
    return 0;
}

struct fl_fanout *fl_fanout_free(struct fl_fanout *f)
{
    if (f != NULL) {
        for (uint32_t i = 0; i < f->count; i++) {
            free_sidecar(f->sidecars[i]);
        }
        free(f->sidecars);
        fl_timer_remove(f->conf.reactor, &f->timer);
        fl_curl_free(f->curl);
        fl_edition_give(&f->edition);
        fl_state_free(f->state);
        free(f);
    }
    return NULL;
}

/* ---- what is known ---- */

uint32_t fl_fanout_count(const struct fl_fanout *f)
{
    return f->count;
}

void fl_fanout_view(const struct fl_fanout *f, uint32_t i, struct fl_fanout_view *ret)
{
    FL_MUST(i < f->count);
    const struct fl_sidecar *s = f->sidecars[i];
    *ret = (struct fl_fanout_view){
        .address = s->address,
        .id = s->id,
        .acked_epoch = s->acked_epoch,
        .acked_seq = s->acked_seq,
        .acked_unix_ms = s->acked_unix_ms,
        .lag_ms = fl_push_plan_lag_ms(&s->target, now_of(f)),
        .failures = s->target.failures,
        .error = &s->error,
        .hint = s->hint,
        .observations = s->observations,
        .observation_count = s->observation_count,
    };
}

uint64_t fl_fanout_total(const struct fl_fanout *f, enum fl_push_result r)
{
    FL_MUST((unsigned)r < FL_PUSH_RESULT_COUNT);
    return f->totals[r];
}
