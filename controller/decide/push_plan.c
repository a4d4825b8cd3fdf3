#include "controller/decide/push_plan.h"

static const char *const tokens[] = {
#define X(id, token) token,
    FL_PUSH_RESULTS(X)
#undef X
};

const char *fl_push_result_token(enum fl_push_result r)
{
    FL_MUST((unsigned)r < FL_PUSH_RESULT_COUNT);
    return tokens[r];
}

void fl_push_plan_init(struct fl_push_plan *p, int64_t epoch, uint64_t seed)
{
    *p = (struct fl_push_plan){
        .interval_ms = 30000,
        .settle_ms = 50,
        .concurrency = 1,
        .epoch = epoch,
        .settle_at_ms = INT64_MAX,
        .refresh_at_ms = INT64_MAX,
        .wake_at_ms = INT64_MAX,
    };
    fl_list_init(&p->targets);
    fl_list_init(&p->ready);
    fl_list_init(&p->ready_ailing);
    fl_rng_seed(&p->rng, seed);
}

static struct fl_push_target *target_of(struct fl_list *node)
{
    return fl_container_of(node, struct fl_push_target, node);
}

/* Ready to be sent to, or when to look again. */
static void consider(struct fl_push_plan *p, struct fl_push_target *t, int64_t now_ms)
{
    if (t->flying || t->acked >= t->need || !fl_list_empty(&t->ready)) {
        return;
    }
    if (now_ms >= t->not_before_ms) {
        fl_list_append(t->failures > 0 ? &p->ready_ailing : &p->ready, &t->ready);
    } else if (t->not_before_ms < p->wake_at_ms) {
        p->wake_at_ms = t->not_before_ms;
    }
}

static void make_edition(struct fl_push_plan *p)
{
    p->edition++;
    p->seq++;
}

/* A new edition that everybody needs. */
static void publish(struct fl_push_plan *p, int64_t now_ms)
{
    make_edition(p);
    p->settle_at_ms = INT64_MAX;
    p->refresh_at_ms = now_ms + p->interval_ms;
    fl_list_each (it, &p->targets) {
        target_of(it)->need = p->edition;
        consider(p, target_of(it), now_ms);
    }
}

/* A new edition that only t needs, at once. */
static void resend(struct fl_push_plan *p, struct fl_push_target *t)
{
    make_edition(p);
    t->need = p->edition;
}

void fl_push_plan_join(struct fl_push_plan *p, struct fl_push_target *t, int64_t now_ms)
{
    *t = (struct fl_push_target){.need = p->edition, .lacks_since_ms = p->edition ? now_ms : 0};
    fl_list_init(&t->ready);
    fl_list_append(&p->targets, &t->node);
    consider(p, t, now_ms);
}

static void land(struct fl_push_plan *p, struct fl_push_target *t)
{
    p->flying -= t->flying ? 1 : 0;
    p->flying_ailing -= t->flies_ailing ? 1 : 0;
    t->flying = t->flies_ailing = false;
}

void fl_push_plan_leave(struct fl_push_plan *p, struct fl_push_target *t)
{
    land(p, t);
    fl_list_remove(&t->ready);
    fl_list_remove(&t->node);
}

void fl_push_plan_changed(struct fl_push_plan *p, bool urgent, int64_t now_ms)
{
    fl_list_each (it, &p->targets) {
        struct fl_push_target *t = target_of(it);
        t->lacks_since_ms = t->lacks_since_ms ? t->lacks_since_ms : now_ms;
        if (t->flying && t->newer_since_ms == 0) {
            t->newer_since_ms = now_ms;
        }
    }
    if (urgent || p->edition == 0 || p->settle_ms == 0) {
        publish(p, now_ms);
    } else if (p->settle_at_ms == INT64_MAX) { /* later changes do not move it */
        p->changed_at_ms = now_ms;
        p->settle_at_ms = now_ms + p->settle_ms;
    }
}

void fl_push_plan_run(struct fl_push_plan *p, int64_t now_ms)
{
    if (now_ms >= p->settle_at_ms || now_ms >= p->refresh_at_ms) {
        publish(p, now_ms);
    }
    if (now_ms >= p->wake_at_ms) {
        p->wake_at_ms = INT64_MAX;
        fl_list_each (it, &p->targets) {
            consider(p, target_of(it), now_ms);
        }
    }
}

static struct fl_list *next_ready(const struct fl_push_plan *p)
{
    unsigned quarter = p->concurrency / 4 > 0 ? p->concurrency / 4 : 1;
    struct fl_list *n = fl_list_first(&p->ready);
    if (p->flying >= p->concurrency) {
        return NULL;
    }
    return n != NULL || p->flying_ailing >= quarter ? n : fl_list_first(&p->ready_ailing);
}

struct fl_push_target *fl_push_plan_take(struct fl_push_plan *p)
{
    struct fl_list *n = next_ready(p);
    if (n == NULL) {
        return NULL;
    }
    struct fl_push_target *t = fl_container_of(n, struct fl_push_target, ready);
    fl_list_remove(n);
    FL_MUST(!t->flying && p->edition > 0);
    t->flying = true;
    t->flies_ailing = t->failures > 0;
    t->sent = p->edition;
    /* what waits to settle may not be in what is sent now */
    t->newer_since_ms = p->settle_at_ms == INT64_MAX ? 0 : p->changed_at_ms;
    p->flying++;
    p->flying_ailing += t->flies_ailing ? 1 : 0;
    return t;
}

/* 1, 2, 4 … s and up to half of that on top, at most 30 s; then 22.5 to 30 s. */
static int64_t back_off(struct fl_push_plan *p, unsigned failures)
{
    int64_t ms = FL_PUSH_BACKOFF_MIN_MS;
    for (unsigned i = 1; i < failures && ms < FL_PUSH_BACKOFF_MAX_MS; i++) {
        ms *= 2;
    }
    if (ms >= FL_PUSH_BACKOFF_MAX_MS) {
        return FL_PUSH_BACKOFF_MAX_MS - fl_rng_below(&p->rng, FL_PUSH_BACKOFF_MAX_MS / 4);
    }
    ms += fl_rng_below(&p->rng, (uint32_t)(ms / 2));
    return ms < FL_PUSH_BACKOFF_MAX_MS ? ms : FL_PUSH_BACKOFF_MAX_MS;
}

static enum fl_push_lesson fail(struct fl_push_plan *p, struct fl_push_target *t, int64_t now_ms)
{
    t->failures++;
    t->conflicts = 0;
    t->not_before_ms = now_ms + back_off(p, t->failures);
    return t->failures == 1                           ? FL_PUSH_FAILS
           : t->failures == FL_PUSH_UNREACHABLE_AFTER ? FL_PUSH_UNREACHABLE
                                                      : FL_PUSH_FAILS_STILL;
}

static enum fl_push_lesson accept(struct fl_push_plan *p, struct fl_push_target *t,
                                  bool hash_differs)
{
    bool recovered = t->failures > 0, repeat = hash_differs && !t->drifted;
    t->failures = t->conflicts = 0;
    t->acked = t->sent;
    t->drifted = hash_differs;
    t->lacks_since_ms = t->newer_since_ms;
    if (repeat) {
        resend(p, t);
        return FL_PUSH_DRIFTED;
    }
    return recovered ? FL_PUSH_RECOVERED : FL_PUSH_NOTHING;
}

/* The pair in force there is not lower than the one that was sent; or so it says. */
static enum fl_push_lesson yield_to(struct fl_push_plan *p, struct fl_push_target *t,
                                    const struct fl_push_report *r, int64_t now_ms)
{
    bool nonsense = r->epoch >= FL_PUSH_EPOCH_MAX || r->seq >= FL_PUSH_EPOCH_MAX;
    if (nonsense || ++t->conflicts > FL_PUSH_CONFLICTS_MAX) {
        return fail(p, t, now_ms);
    }
    enum fl_push_lesson lesson = FL_PUSH_SEQ_RAISED;
    if (r->epoch > p->epoch) {
        p->epoch = r->epoch + 1;
        p->seq = 0;
        lesson = FL_PUSH_EPOCH_RAISED;
    } else if (r->epoch < p->epoch) {
        lesson = FL_PUSH_NOTHING; /* ours was raised while this push was in flight */
    } else if (r->seq > p->seq) {
        p->seq = r->seq;
    }
    resend(p, t);
    return lesson;
}

enum fl_push_lesson fl_push_plan_settle(struct fl_push_plan *p, struct fl_push_target *t,
                                        const struct fl_push_report *r, int64_t now_ms)
{
    enum fl_push_lesson lesson = FL_PUSH_NOTHING;
    FL_MUST(t->flying);
    land(p, t);
    switch (r->result) {
    case FL_PUSH_OK:
        lesson = accept(p, t, r->hash_differs);
        break;
    case FL_PUSH_CONFLICT:
        lesson = yield_to(p, t, r, now_ms);
        break;
    case FL_PUSH_REFUSED:
    case FL_PUSH_FAILED:
        lesson = fail(p, t, now_ms);
        break;
    case FL_PUSH_RESULT_COUNT:
        FL_IMPOSSIBLE("a push that ended in no way");
    }
    consider(p, t, now_ms);
    return lesson;
}

int64_t fl_push_plan_next_ms(const struct fl_push_plan *p)
{
    int64_t next = p->settle_at_ms < p->refresh_at_ms ? p->settle_at_ms : p->refresh_at_ms;
    return p->wake_at_ms < next ? p->wake_at_ms : next;
}

int64_t fl_push_plan_lag_ms(const struct fl_push_target *t, int64_t now_ms)
{
    return t->lacks_since_ms ? now_ms - t->lacks_since_ms : 0;
}
