/* the refreshes of push_plan.h */
#include "controller/decide/push_plan_inner.h"

static struct fl_push_group *in_turn(struct fl_list *turn)
{
    return fl_container_of(turn, struct fl_push_group, turn);
}

static uint32_t waves(const struct fl_push_plan *p)
{
    return p->count > FL_PUSH_WAVE ? (p->count + FL_PUSH_WAVE - 1) / FL_PUSH_WAVE : 1;
}

static int64_t step_ms(const struct fl_push_plan *p)
{
    int64_t ms = p->interval_ms / waves(p);
    return ms > 0 ? ms : 1;
}

/* Of the target that was refreshed longest ago. */
static int64_t oldest_ms(const struct fl_push_plan *p)
{
    int64_t oldest = INT64_MAX;
    fl_list_each (it, &p->turns) {
        oldest = fl_push_earlier(oldest,
                                 fl_push_target_of(fl_list_first(&in_turn(it)->targets))->fresh_ms);
    }
    return oldest;
}

void fl_push_refresh_hasten(struct fl_push_plan *p, int64_t now_ms)
{
    if (p->mode != FL_PUSH_FOLLOWS && p->count > 0) {
        p->refresh_at_ms = fl_push_earlier(p->refresh_at_ms, now_ms + step_ms(p));
    }
}

/* At most `most` of the group, those of this cycle. How many. */
static uint32_t refresh_group(struct fl_push_plan *p, struct fl_push_group *g, uint32_t most,
                              int64_t now_ms)
{
    struct fl_push_target *t;
    uint32_t n = 0;
    g->cycle_ms = g->cycle_ms > 0 ? g->cycle_ms : now_ms;
    while (n < most &&
           (t = fl_push_target_of(fl_list_first(&g->targets)))->fresh_ms < g->cycle_ms) {
        if (n++ == 0) {
            fl_push_plan_make_edition(p, g);
        }
        fl_push_plan_give(p, t, now_ms);
    }
    if (fl_push_target_of(fl_list_first(&g->targets))->fresh_ms >= g->cycle_ms) {
        g->cycle_ms = 0;
        fl_list_remove(&g->turn);
        fl_list_append(&p->turns, &g->turn);
    }
    return n;
}

void fl_push_refresh_run(struct fl_push_plan *p, int64_t now_ms)
{
    if (p->count == 0) {
        p->refresh_at_ms = INT64_MAX;
        return;
    }
    int64_t oldest = oldest_ms(p), since = oldest > p->waved_ms ? oldest : p->waved_ms;
    int64_t due_ms = since + step_ms(p);
    p->refresh_at_ms = due_ms; /* later than it was: changes have refreshed them all meanwhile */
    if (now_ms < due_ms) {
        return;
    }
    uint32_t left = (p->count + waves(p) - 1) / waves(p);
    uint32_t groups = 0; /* each once */
    fl_list_each (it, &p->turns) {
        groups++;
    }
    for (; groups > 0 && left > 0; groups--) {
        left -= refresh_group(p, in_turn(fl_list_first(&p->turns)), left, now_ms);
    }
    p->waved_ms = now_ms - due_ms < step_ms(p) ? due_ms : now_ms; /* lateness does not add up */
    p->refresh_at_ms = p->waved_ms + step_ms(p);
}

/* Who is about to get something anyway is left alone. */
void fl_push_refresh_run_eager(struct fl_push_plan *p, int64_t now_ms)
{
    p->eager_ticks++;
    p->eager_at_ms = fl_list_empty(&p->eager) ? INT64_MAX : now_ms + FL_PUSH_EAGER_MS;
    fl_list_each (it, &p->eager) {
        struct fl_push_target *t = fl_container_of(it, struct fl_push_target, eagerly);
        struct fl_push_group *g = t->group;
        if (g->edition == 0 || t->flying || t->queue != FL_PUSH_QUEUE_NONE) {
            continue;
        }
        if (g->eager_tick != p->eager_ticks) {
            g->eager_tick = p->eager_ticks;
            fl_push_plan_make_edition(p, g);
        }
        fl_push_plan_give(p, t, now_ms);
    }
}

void fl_push_plan_eager(struct fl_push_plan *p, struct fl_push_target *t, bool eager,
                        int64_t now_ms)
{
    if (eager == !fl_list_empty(&t->eagerly)) {
        return;
    }
    fl_list_remove(&t->eagerly);
    if (eager) {
        fl_list_append(&p->eager, &t->eagerly);
        if (p->mode != FL_PUSH_FOLLOWS) {
            p->eager_at_ms = fl_push_earlier(p->eager_at_ms, now_ms + FL_PUSH_EAGER_MS);
        }
        if (t->queue == FL_PUSH_QUEUE_LATER && t->not_before_ms > now_ms + FL_PUSH_EAGER_MS) {
            t->not_before_ms = now_ms + FL_PUSH_EAGER_MS;
            p->wake_at_ms = fl_push_earlier(p->wake_at_ms, t->not_before_ms);
        }
    }
}

void fl_push_plan_set_interval(struct fl_push_plan *p, int64_t interval_ms, int64_t now_ms)
{
    p->interval_ms = interval_ms;
    fl_push_refresh_hasten(p, now_ms);
}
