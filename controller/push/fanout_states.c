/* what to push: the states of the configurations */
#include <stdlib.h>
#include <string.h>

#include "common/codec/state_json.h"
#include "controller/decide/compose.h"
#include "controller/push/fanout_inner.h"

/* ---- configurations ---- */

struct fl_configuration *fl_fanout_find_configuration(const struct fl_fanout *f, const char *key)
{
    return key[0] == '\0' && f->plain != NULL ? f->plain
                                              : fl_smap_get(&f->configurations, fl_span_of(key));
}

struct fl_configuration *fl_fanout_take_configuration(struct fl_fanout *f, const char *key)
{
    struct fl_configuration *c = fl_fanout_find_configuration(f, key);
    size_t n = strlen(key) + 1;
    if (c != NULL) {
        return c;
    }
    c = calloc(1, sizeof(*c) + n);
    if (c == NULL) {
        return NULL;
    }
    memcpy(c->key, key, n);
    if (fl_smap_put(&f->configurations, fl_span_of(c->key), c) < 0) {
        free(c);
        return NULL;
    }
    fl_push_plan_enter(&f->plan, &c->group);
    return c;
}

static void free_configuration(struct fl_fanout *f, struct fl_configuration *c)
{
    fl_push_plan_drop(&f->plan, &c->group);
    fl_edition_give(&c->edition);
    fl_state_free(c->state);
    free(c);
}

void fl_fanout_let_go(struct fl_fanout *f, struct fl_configuration *c)
{
    if (c != f->plain && c->group.count == 0) {
        (void)fl_smap_remove(&f->configurations, fl_span_of(c->key));
        free_configuration(f, c);
    }
}

void fl_fanout_sweep_configurations(struct fl_fanout *f)
{
    fl_list_each_safe (it, next, &f->plan.groups) {
        struct fl_push_group *g = fl_container_of(it, struct fl_push_group, node);
        fl_fanout_let_go(f, fl_container_of(g, struct fl_configuration, group));
    }
}

void fl_fanout_free_configurations(struct fl_fanout *f)
{
    fl_list_each_safe (it, next, &f->plan.groups) {
        struct fl_push_group *g = fl_container_of(it, struct fl_push_group, node);
        free_configuration(f, fl_container_of(g, struct fl_configuration, group));
    }
    fl_smap_done(&f->configurations);
}

const struct fl_state *fl_fanout_state(const struct fl_fanout *f, const char *configuration)
{
    const struct fl_configuration *c = fl_fanout_find_configuration(f, configuration);
    return c != NULL ? c->state : NULL;
}

uint32_t fl_fanout_targets(const struct fl_fanout *f, const char *configuration)
{
    const struct fl_configuration *c = fl_fanout_find_configuration(f, configuration);
    return c != NULL ? c->group.count : 0;
}

const char *fl_fanout_configuration(const struct fl_fanout *f, size_t *at, uint32_t *ret_targets)
{
    struct fl_span key;
    const struct fl_configuration *c = fl_smap_next(&f->configurations, at, &key);
    if (c == NULL) {
        return NULL;
    }
    *ret_targets = c->group.count;
    return c->key;
}

/* ---- editions ---- */

static void age_verdicts(struct fl_fanout *f, struct fl_configuration *c)
{
    int64_t passed_ms = fl_fanout_now_ms(f) - c->aged_at_ms;
    c->aged_at_ms += passed_ms;
    for (uint32_t i = 0; i < c->state->backend_count; i++) {
        struct fl_state_backend *b = &c->state->backends[i];
        for (uint32_t k = 0; k < b->verdict_count; k++) {
            b->verdicts[k].age_ms += passed_ms;
        }
    }
}

struct fl_edition *fl_fanout_edition(struct fl_fanout *f, struct fl_configuration *c)
{
    const struct fl_push_group *g = &c->group;
    if (c->edition != NULL && c->edition->number == g->edition) {
        return c->edition;
    }
    age_verdicts(f, c);
    struct fl_strings own = c->state->keys;
    c->state->keys = fl_key_ring_texts(&f->ring);
    struct fl_edition *made = fl_edition_new(c->state, g->edition, g->epoch, g->seq);
    if (made != NULL) {
        made->teaches = c->state->keys.count > 0 ? fl_key_ring_newest(&f->ring) : 0;
        fl_edition_give(&c->edition);
        c->edition = made;
    }
    c->state->keys = own;
    return made;
}

/* ---- offers ---- */

/* Does this verdict, which takes a peer out, come so much later than the one before (its probe took
 * long) that sidecars would let that expire before the next refresh? */
static bool is_overdue(const struct fl_fanout *f, const struct fl_configuration *c,
                       const struct fl_state_verdict *old, const struct fl_state_verdict *fresh)
{
    int64_t old_age_ms = old->age_ms + fl_fanout_now_ms(f) - c->aged_at_ms;
    return fl_verdict_blocks(fresh->status) && fresh->age_ms < old_age_ms &&
           old_age_ms > f->plan.interval_ms + f->plan.interval_ms / 2;
}

static bool same_verdicts(const struct fl_fanout *f, const struct fl_configuration *c,
                          const struct fl_state *fresh)
{
    const struct fl_state *old = c->state;
    for (uint32_t i = 0; i < old->backend_count; i++) { /* the same backends: their hash is one */
        const struct fl_state_backend *x = &old->backends[i], *y = &fresh->backends[i];
        if (x->verdict_count != y->verdict_count) {
            return false;
        }
        for (uint32_t k = 0; k < x->verdict_count; k++) {
            const struct fl_state_verdict *v = &x->verdicts[k], *w = &y->verdicts[k];
            if (strcmp(v->address, w->address) != 0 || v->status != w->status ||
                strcmp(v->cause.code, w->cause.code) != 0 || is_overdue(f, c, v, w)) {
                return false;
            }
        }
    }
    return true;
}

static void say_no_memory(const struct fl_fanout *f, const char *configuration)
{
    struct fl_log_line l;
    fl_log_begin(f->conf.log, &l, FL_LOG_ERROR, "state not taken, nothing is pushed");
    fl_log_text(&l, "configuration", configuration);
    fl_log_text(&l, "cause", "out of memory");
    fl_log_end(f->conf.log, &l);
}

void fl_fanout_offer(struct fl_fanout *f, const char *configuration, struct fl_state *s,
                     bool at_once)
{
    struct fl_configuration *c = fl_fanout_take_configuration(f, configuration);
    if (c == NULL) {
        say_no_memory(f, configuration);
        fl_state_free(s);
        return;
    }
    s->hash = fl_state_json_hash(s);
    bool same = c->state != NULL && s->hash == c->state->hash && same_verdicts(f, c, s);
    bool urgent = at_once || fl_compose_takes_away(c->state, s);
    fl_state_free(c->state);
    c->state = s;
    c->aged_at_ms = fl_fanout_now_ms(f);
    if (!same) {
        fl_push_plan_changed(&f->plan, &c->group, urgent, fl_fanout_now_ms(f));
    }
    fl_fanout_drive_later(f);
}
