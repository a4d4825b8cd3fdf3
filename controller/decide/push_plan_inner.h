/* push_plan_inner - what the files of the push plan share. Nobody outside includes this. */
#ifndef FL_CONTROLLER_DECIDE_PUSH_PLAN_INNER_H
#define FL_CONTROLLER_DECIDE_PUSH_PLAN_INNER_H

#include "controller/decide/push_plan.h"

static inline int64_t fl_push_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline struct fl_push_target *fl_push_target_of(struct fl_list *node)
{
    return fl_container_of(node, struct fl_push_target, node);
}

void fl_push_plan_make_edition(struct fl_push_plan *p, struct fl_push_group *g);
/* t needs the newest edition of its group from now on, which counts as a refresh. */
void fl_push_plan_give(struct fl_push_plan *p, struct fl_push_target *t, int64_t now_ms);

/* push_refresh.c */
/* There are more to refresh than before, or more often. */
void fl_push_refresh_hasten(struct fl_push_plan *p, int64_t now_ms);
void fl_push_refresh_run(struct fl_push_plan *p, int64_t now_ms);
void fl_push_refresh_run_eager(struct fl_push_plan *p, int64_t now_ms);

#endif
