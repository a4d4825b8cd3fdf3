#include "controller/decide/push_plan.h"

#include "controller/decide/push_plan_inner.h"

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
        .settle_ms = 50,
        .concurrency = 1,
        .epoch_max = FL_PUSH_EPOCH_MAX,
        .interval_ms = 30000,
        .mode = epoch > 0 ? FL_PUSH_ALONE : FL_PUSH_FOLLOWS,
        .epoch = epoch,
        .settle_at_ms = INT64_MAX,
        .refresh_at_ms = INT64_MAX,
        .eager_at_ms = INT64_MAX,
        .wake_at_ms = INT64_MAX,
    };
    fl_list_init(&p->groups);
    fl_list_init(&p->turns);
    fl_list_init(&p->settling);
    fl_list_init(&p->eager);
    for (unsigned i = 0; i < FL_PUSH_QUEUES; i++) {
        fl_list_init(&p->queues[i]);
    }
    fl_rng_seed(&p->rng, seed);
}

/* ---- queues ---- */

static void unqueue(struct fl_push_target *t)
{
    fl_list_remove(&t->queued);
    t->queue = FL_PUSH_QUEUE_NONE;
}

static enum fl_push_queue queue_for(const struct fl_push_plan *p, const struct fl_push_target *t,
                                    int64_t now_ms)
{
    if (p->mode == FL_PUSH_FOLLOWS || t->flying || t->group->edition == 0 || t->acked >= t->need) {
        return FL_PUSH_QUEUE_NONE;
    }
    if (now_ms < t->not_before_ms) {
        return FL_PUSH_QUEUE_LATER;
    }
    return t->failures > 0         ? FL_PUSH_QUEUE_AILING
           : t->lacks_since_ms > 0 ? FL_PUSH_QUEUE_CHANGE
                                   : FL_PUSH_QUEUE_REFRESH;
}

/* Where it waits now; who is there already keeps its place. */
static void consider(struct fl_push_plan *p, struct fl_push_target *t, int64_t now_ms)
{
    enum fl_push_queue q = queue_for(p, t, now_ms);
    if (q != t->queue) {
        unqueue(t);
        t->queue = q;
        if (q != FL_PUSH_QUEUE_NONE) {
            fl_list_append(&p->queues[q], &t->queued);
        }
    }
    if (q == FL_PUSH_QUEUE_LATER) {
        p->wake_at_ms = fl_push_earlier(p->wake_at_ms, t->not_before_ms);
    }
}

/* ---- editions ---- */

void fl_push_plan_make_edition(struct fl_push_plan *p, struct fl_push_group *g)
{
    g->edition = ++p->edition;
    g->epoch = p->epoch;
    g->seq = ++p->seq;
}

void fl_push_plan_give(struct fl_push_plan *p, struct fl_push_target *t, int64_t now_ms)
{
    t->need = t->group->edition;
    t->fresh_ms = now_ms;
    fl_list_remove(&t->node);
    fl_list_append(&t->group->targets, &t->node);
    consider(p, t, now_ms);
}

/* A pair above what the sidecar knows, in an edition that it has not seen; as few new ones as that
 * takes. */
static void overtake(struct fl_push_plan *p, struct fl_push_target *t, int64_t epoch, int64_t seq)
{
    struct fl_push_group *g = t->group;
    bool above = g->epoch > epoch || (g->epoch == epoch && g->seq > seq);
    if (!above || g->edition <= t->sent) {
        fl_push_plan_make_edition(p, g);
    }
    t->need = g->edition;
}

/* ---- changes ---- */

static void unsettle(struct fl_push_group *g)
{
    fl_list_remove(&g->settling);
    g->settle_at_ms = INT64_MAX;
}

/* A new edition that the whole group needs. */
static void publish(struct fl_push_plan *p, struct fl_push_group *g, int64_t now_ms)
{
    fl_push_plan_make_edition(p, g);
    unsettle(g);
    g->cycle_ms = 0;
    fl_list_each (it, &g->targets) { /* all are as fresh: their order stays */
        struct fl_push_target *t = fl_push_target_of(it);
        t->need = g->edition;
        t->fresh_ms = now_ms;
        consider(p, t, now_ms);
    }
    if (g->count > 0) {
        fl_list_remove(&g->turn);
        fl_list_append(&p->turns, &g->turn);
    }
    fl_push_refresh_hasten(p, now_ms);
}

static void settle_later(struct fl_push_plan *p, struct fl_push_group *g, int64_t now_ms)
{
    if (g->settle_at_ms == INT64_MAX) { /* later changes do not move it */
        g->changed_at_ms = now_ms;
        g->settle_at_ms = now_ms + p->settle_ms;
        p->settle_at_ms = fl_push_earlier(p->settle_at_ms, g->settle_at_ms);
        fl_list_append(&p->settling, &g->settling);
    }
}

static void publish_settled(struct fl_push_plan *p, int64_t now_ms)
{
    p->settle_at_ms = INT64_MAX;
    fl_list_each_safe (it, next, &p->settling) {
        struct fl_push_group *g = fl_container_of(it, struct fl_push_group, settling);
        if (now_ms >= g->settle_at_ms) {
            publish(p, g, now_ms);
        } else {
            p->settle_at_ms = fl_push_earlier(p->settle_at_ms, g->settle_at_ms);
        }
    }
}

void fl_push_plan_changed(struct fl_push_plan *p, struct fl_push_group *g, bool urgent,
                          int64_t now_ms)
{
    if (!g->stated) {
        g->stated = true;
        p->count += g->count;
    }
    if (p->mode == FL_PUSH_FOLLOWS) {
        return; /* when we lead, everybody gets everything */
    }
    fl_list_each (it, &g->targets) {
        struct fl_push_target *t = fl_push_target_of(it);
        t->lacks_since_ms = t->lacks_since_ms ? t->lacks_since_ms : now_ms;
        if (t->flying && t->newer_since_ms == 0) {
            t->newer_since_ms = now_ms;
        }
    }
    if (urgent || g->edition == 0 || p->settle_ms == 0) {
        publish(p, g, now_ms);
    } else {
        settle_later(p, g, now_ms);
    }
}

/* ---- who takes part ---- */

void fl_push_plan_enter(struct fl_push_plan *p, struct fl_push_group *g)
{
    *g = (struct fl_push_group){.settle_at_ms = INT64_MAX};
    fl_list_init(&g->turn);
    fl_list_init(&g->settling);
    fl_list_init(&g->targets);
    fl_list_append(&p->groups, &g->node);
}

void fl_push_plan_drop(struct fl_push_plan *p, struct fl_push_group *g)
{
    (void)p;
    FL_MUST(g->count == 0);
    unsettle(g);
    fl_list_remove(&g->turn);
    fl_list_remove(&g->node);
}

static int64_t lacking_since(const struct fl_push_plan *p, const struct fl_push_group *g,
                             int64_t now_ms)
{
    return g->edition > 0 && p->mode != FL_PUSH_FOLLOWS ? now_ms : 0;
}

static void enlist(struct fl_push_plan *p, struct fl_push_group *g, struct fl_push_target *t,
                   int64_t now_ms)
{
    t->group = g;
    t->fresh_ms = now_ms;
    fl_list_append(&g->targets, &t->node);
    g->count++;
    p->count += g->stated ? 1 : 0;
    if (g->edition > 0 && fl_list_empty(&g->turn)) {
        fl_list_append(&p->turns, &g->turn);
    }
    if (g->edition > 0) {
        fl_push_refresh_hasten(p, now_ms);
    }
    consider(p, t, now_ms);
}

static void delist(struct fl_push_plan *p, struct fl_push_target *t)
{
    struct fl_push_group *g = t->group;
    unqueue(t);
    fl_list_remove(&t->node);
    g->count--;
    p->count -= g->stated ? 1 : 0;
    if (g->count == 0) {
        g->cycle_ms = 0;
        fl_list_remove(&g->turn);
    }
}

void fl_push_plan_join(struct fl_push_plan *p, struct fl_push_group *g, struct fl_push_target *t,
                       int64_t now_ms)
{
    *t = (struct fl_push_target){.queue = FL_PUSH_QUEUE_NONE,
                                 .need = g->edition,
                                 .lacks_since_ms = lacking_since(p, g, now_ms)};
    fl_list_init(&t->queued);
    fl_list_init(&t->eagerly);
    enlist(p, g, t, now_ms);
}

void fl_push_plan_move(struct fl_push_plan *p, struct fl_push_target *t, struct fl_push_group *to,
                       int64_t now_ms)
{
    uint64_t above = t->need > t->sent ? t->need : t->sent;
    delist(p, t);
    if (to->edition > 0 && to->edition <= above) { /* its sidecar has a higher pair, or may have */
        fl_push_plan_make_edition(p, to);
    }
    t->need = to->edition;
    t->drifted = false;
    t->lacks_since_ms = lacking_since(p, to, now_ms);
    t->newer_since_ms = t->flying ? t->lacks_since_ms : 0;
    enlist(p, to, t, now_ms);
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
    fl_list_remove(&t->eagerly);
    delist(p, t);
}

/* ---- leadership ---- */

void fl_push_plan_follow(struct fl_push_plan *p)
{
    FL_MUST(p->mode != FL_PUSH_ALONE);
    p->mode = FL_PUSH_FOLLOWS;
    p->met_epoch = 0;
    p->settle_at_ms = p->refresh_at_ms = p->eager_at_ms = p->wake_at_ms = INT64_MAX;
    fl_list_each (group, &p->groups) {
        struct fl_push_group *g = fl_container_of(group, struct fl_push_group, node);
        unsettle(g);
        fl_list_each (it, &g->targets) {
            struct fl_push_target *t = fl_push_target_of(it);
            land(p, t);
            unqueue(t);
            t->lacks_since_ms = t->newer_since_ms = 0;
        }
    }
}

/* What another leader did meanwhile is not known. */
static void forget(struct fl_push_target *t)
{
    t->failures = t->conflicts = 0;
    t->drifted = false;
}

bool fl_push_plan_lead(struct fl_push_plan *p, int64_t epoch, int64_t now_ms)
{
    FL_MUST(p->mode != FL_PUSH_ALONE);
    bool led = p->mode == FL_PUSH_LEADS;
    if (epoch < p->epoch) {
        return false;
    }
    if (led && epoch == p->epoch) {
        return true;
    }
    p->seq = epoch > p->epoch ? 0 : p->seq;
    p->epoch = epoch;
    p->mode = FL_PUSH_LEADS;
    p->met_epoch = 0;
    fl_list_each (group, &p->groups) {
        struct fl_push_group *g = fl_container_of(group, struct fl_push_group, node);
        fl_list_each (it, &g->targets) {
            struct fl_push_target *t = fl_push_target_of(it);
            if (!led) {
                forget(t);
            }
            t->not_before_ms = 0;
        }
        if (g->stated) {
            fl_push_plan_changed(p, g, true, now_ms);
        }
    }
    if (!fl_list_empty(&p->eager)) {
        p->eager_at_ms = fl_push_earlier(p->eager_at_ms, now_ms + FL_PUSH_EAGER_MS);
    }
    return true;
}

/* ---- pushes ---- */

void fl_push_plan_run(struct fl_push_plan *p, int64_t now_ms)
{
    if (now_ms >= p->settle_at_ms) {
        publish_settled(p, now_ms);
    }
    if (now_ms >= p->eager_at_ms) {
        fl_push_refresh_run_eager(p, now_ms);
    }
    if (now_ms >= p->refresh_at_ms) {
        fl_push_refresh_run(p, now_ms);
    }
    if (now_ms >= p->wake_at_ms) {
        p->wake_at_ms = INT64_MAX;
        fl_list_each_safe (it, next, &p->queues[FL_PUSH_QUEUE_LATER]) {
            consider(p, fl_container_of(it, struct fl_push_target, queued), now_ms);
        }
    }
}

static struct fl_list *next_ready(const struct fl_push_plan *p)
{
    unsigned quarter = p->concurrency / 4 > 0 ? p->concurrency / 4 : 1;
    if (p->flying >= p->concurrency) {
        return NULL;
    }
    struct fl_list *n = fl_list_first(&p->queues[FL_PUSH_QUEUE_CHANGE]);
    n = n != NULL ? n : fl_list_first(&p->queues[FL_PUSH_QUEUE_REFRESH]);
    return n != NULL || p->flying_ailing >= quarter
               ? n
               : fl_list_first(&p->queues[FL_PUSH_QUEUE_AILING]);
}

struct fl_push_target *fl_push_plan_take(struct fl_push_plan *p)
{
    struct fl_list *n = next_ready(p);
    if (n == NULL) {
        return NULL;
    }
    struct fl_push_target *t = fl_container_of(n, struct fl_push_target, queued);
    const struct fl_push_group *g = t->group;
    unqueue(t);
    FL_MUST(!t->flying && g->edition > 0 && p->mode != FL_PUSH_FOLLOWS);
    t->flying = true;
    t->flies_ailing = t->failures > 0;
    t->sent = g->edition;
    /* what waits to settle may not be in what is sent now */
    t->newer_since_ms = g->settle_at_ms == INT64_MAX ? 0 : g->changed_at_ms;
    p->flying++;
    p->flying_ailing += t->flies_ailing ? 1 : 0;
    return t;
}

/* 1, 2, 4 … s and up to half of that on top, at most 30 s; then 22.5 to 30 s. Somebody waits for
 * the answers of an eager one: it stays at the first step. */
static int64_t back_off(struct fl_push_plan *p, const struct fl_push_target *t)
{
    int64_t ms = FL_PUSH_BACKOFF_MIN_MS;
    unsigned failures = fl_list_empty(&t->eagerly) ? t->failures : 1;
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
    t->not_before_ms = now_ms + back_off(p, t);
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
        overtake(p, t, 0, 0);
        return FL_PUSH_DRIFTED;
    }
    return recovered ? FL_PUSH_RECOVERED : FL_PUSH_NOTHING;
}

/* The pair in force there is not lower than the one that was sent; or so it says. */
static enum fl_push_lesson yield_to(struct fl_push_plan *p, struct fl_push_target *t,
                                    const struct fl_push_report *r, int64_t now_ms)
{
    bool nonsense = r->epoch >= p->epoch_max || r->seq >= FL_PUSH_EPOCH_MAX;
    if (nonsense || ++t->conflicts > FL_PUSH_CONFLICTS_MAX) {
        return fail(p, t, now_ms);
    }
    enum fl_push_lesson lesson = FL_PUSH_SEQ_RAISED;
    if (r->epoch > p->epoch && p->mode == FL_PUSH_LEADS) {
        p->met_epoch = r->epoch > p->met_epoch ? r->epoch : p->met_epoch;
        return fail(p, t, now_ms); /* until we lead above it, or do not lead any more */
    }
    if (r->epoch > p->epoch) {
        p->epoch = r->epoch + 1;
        p->seq = 0;
        lesson = FL_PUSH_EPOCH_RAISED;
    } else if (r->epoch < p->epoch) {
        lesson = FL_PUSH_NOTHING; /* ours was raised while this push was in flight */
    } else if (r->seq > p->seq) {
        p->seq = r->seq;
    }
    overtake(p, t, r->epoch, r->seq);
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
    return fl_push_earlier(fl_push_earlier(p->settle_at_ms, p->refresh_at_ms),
                           fl_push_earlier(p->eager_at_ms, p->wake_at_ms));
}

int64_t fl_push_plan_lag_ms(const struct fl_push_target *t, int64_t now_ms)
{
    return t->lacks_since_ms ? now_ms - t->lacks_since_ms : 0;
}
