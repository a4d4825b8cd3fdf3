#include "controller/decide/event_series.h"

#include <stdlib.h>

#include "common/base/list.h"
#include "common/base/rng.h"
#include "common/base/smap.h"
#include "controller/decide/event_facts.h"

struct object {
    struct fl_list node; /* in objects_used, the least recent first */
    char *text;          /* its key */
    size_t len;
    unsigned entries;
    /* Token bucket as one number (GCRA): the time at which it would be full again. */
    int64_t full_ms;
};

struct fl_event_entry {
    struct fl_list node; /* in used, the least recent first */
    struct object *object;
    char *text; /* the key of the series, and its texts */
    size_t len;
    struct fl_event_facts facts;
    char event_name[FL_EVENT_NAME_MAX + 1]; /* "" not made yet */
    bool posted, flying, mute;              /* mute: PATCHes are refused */
    unsigned tries;
    uint32_t count, sent, flies; /* all; the server knows; in the write in flight */
    int64_t first_us, last_us, last_ms;
    int64_t wrote_ms;
    int64_t due_ms; /* of the next write; INT64_MAX: none is wanted */
};

struct fl_event_series {
    struct fl_smap entries, objects;
    struct fl_list used, objects_used;
    struct fl_rng rng;
    unsigned flying;
    struct fl_event_totals totals;
};

static struct fl_event_entry *entry_of(struct fl_list *n)
{
    return fl_container_of(n, struct fl_event_entry, node);
}

struct fl_event_series *fl_event_series_new(uint64_t seed)
{
    struct fl_event_series *s = calloc(1, sizeof(*s));
    if (s != NULL) {
        fl_rng_seed(&s->rng, seed);
        fl_smap_init(&s->entries, fl_rng_next(&s->rng));
        fl_smap_init(&s->objects, fl_rng_next(&s->rng));
        fl_list_init(&s->used);
        fl_list_init(&s->objects_used);
    }
    return s;
}

static void drop_object(struct fl_event_series *s, struct object *o)
{
    FL_MUST(o->entries == 0);
    (void)fl_smap_remove(&s->objects, (struct fl_span){o->text, o->len});
    fl_list_remove(&o->node);
    free(o->text);
    free(o);
}

static void drop(struct fl_event_series *s, struct fl_event_entry *e)
{
    FL_MUST(!e->flying);
    (void)fl_smap_remove(&s->entries, (struct fl_span){e->text, e->len});
    fl_list_remove(&e->node);
    e->object->entries--;
    free(e->text);
    free(e);
}

struct fl_event_series *fl_event_series_free(struct fl_event_series *s)
{
    if (s == NULL) {
        return NULL;
    }
    for (struct fl_list *n; (n = fl_list_first(&s->used)) != NULL;) {
        entry_of(n)->flying = false; /* nobody will settle it */
        drop(s, entry_of(n));
    }
    for (struct fl_list *n; (n = fl_list_first(&s->objects_used)) != NULL;) {
        drop_object(s, fl_container_of(n, struct object, node));
    }
    fl_smap_done(&s->entries);
    fl_smap_done(&s->objects);
    free(s);
    return NULL;
}

/* --- the writes of an object --- */

/* When there is one, with `reserve` left for others. */
static int64_t allowed_ms(const struct object *o, int reserve)
{
    return o->full_ms - (FL_EVENT_BURST - 1 - reserve) * (int64_t)FL_EVENT_REFILL_MS;
}

static void spend(struct object *o, int64_t now_ms)
{
    o->full_ms = (o->full_ms > now_ms ? o->full_ms : now_ms) + FL_EVENT_REFILL_MS;
}

static void make_room_for_object(struct fl_event_series *s)
{
    if (s->objects.count < FL_EVENT_OBJECTS_MAX) {
        return;
    }
    fl_list_each (n, &s->objects_used) { /* there is one: entries are fewer than objects */
        struct object *o = fl_container_of(n, struct object, node);
        if (o->entries == 0) {
            drop_object(s, o);
            return;
        }
    }
}

/* NULL: no memory. */
static struct object *object_for(struct fl_event_series *s, struct fl_span key, int64_t now_ms)
{
    struct object *o = fl_smap_get(&s->objects, key);
    if (o == NULL) {
        make_room_for_object(s);
        o = calloc(1, sizeof(*o));
        char *text = malloc(key.len);
        if (o != NULL && text != NULL) {
            memcpy(text, key.ptr, key.len);
            *o = (struct object){.text = text, .len = key.len, .full_ms = now_ms};
            fl_list_init(&o->node);
            if (fl_smap_put(&s->objects, (struct fl_span){text, key.len}, o) == 0) {
                fl_list_append(&s->objects_used, &o->node);
                return o;
            }
        }
        free(text);
        free(o);
        return NULL;
    }
    fl_list_remove(&o->node);
    fl_list_append(&s->objects_used, &o->node);
    return o;
}

/* --- series --- */

static void make_room(struct fl_event_series *s)
{
    if (s->entries.count < FL_EVENT_SERIES_MAX) {
        return;
    }
    fl_list_each (n, &s->used) {
        if (!entry_of(n)->flying) {
            s->totals.lost += entry_of(n)->posted ? 0 : 1;
            drop(s, entry_of(n));
            return;
        }
    }
}

static void begin(struct fl_event_entry *e, int64_t now_ms, int64_t unix_us)
{
    e->event_name[0] = '\0';
    e->posted = e->mute = false;
    e->tries = 0;
    e->count = 1;
    e->sent = 0;
    e->first_us = e->last_us = unix_us;
    e->last_ms = e->due_ms = now_ms;
}

static struct fl_event_entry *add(struct fl_event_series *s, struct object *o, char *text,
                                  size_t len, const struct fl_event_facts *facts)
{
    o->entries++; /* so that it stays while there is room made */
    make_room(s);
    struct fl_event_entry *e = calloc(1, sizeof(*e));
    if (e != NULL) {
        e->object = o;
        e->text = text;
        e->len = len;
        e->facts = *facts;
        fl_list_init(&e->node);
        if (fl_smap_put(&s->entries, (struct fl_span){text, len}, e) == 0) {
            fl_list_append(&s->used, &e->node);
            return e;
        }
    }
    o->entries--;
    free(e);
    return NULL;
}

static void plan_patch(struct fl_event_entry *e, int64_t wrote_ms)
{
    e->due_ms = e->mute || e->count <= e->sent ? INT64_MAX : wrote_ms + FL_EVENT_PATCH_MS;
}

static enum fl_event_said lose(struct fl_event_series *s)
{
    s->totals.lost++;
    return FL_EVENT_LOST;
}

static enum fl_event_said repeat(struct fl_event_series *s, struct fl_event_entry *e,
                                 int64_t now_ms, int64_t unix_us)
{
    fl_list_remove(&e->node);
    fl_list_append(&s->used, &e->node);
    if (e->posted && !e->flying && now_ms - e->last_ms > FL_EVENT_END_MS) {
        if (now_ms < allowed_ms(e->object, 0)) {
            return lose(s);
        }
        spend(e->object, now_ms);
        begin(e, now_ms, unix_us);
        return FL_EVENT_NEW;
    }
    e->count += e->count < UINT32_MAX ? 1 : 0;
    e->last_ms = now_ms;
    e->last_us = unix_us;
    if (e->posted && !e->flying && !e->mute && e->due_ms == INT64_MAX) {
        e->due_ms = e->wrote_ms + FL_EVENT_PATCH_MS;
    }
    s->totals.folded++;
    return FL_EVENT_FOLDED;
}

enum fl_event_said fl_event_series_say(struct fl_event_series *s, const struct fl_event_facts *f,
                                       int64_t now_ms, int64_t unix_us)
{
    struct fl_event_facts facts;
    size_t len, object_len;
    char *text = fl_event_facts_copy(f, &facts, &len, &object_len);
    if (text == NULL) {
        return lose(s);
    }
    struct fl_event_entry *e = fl_smap_get(&s->entries, (struct fl_span){text, len});
    if (e != NULL) {
        free(text);
        return repeat(s, e, now_ms, unix_us);
    }
    struct object *o = object_for(s, (struct fl_span){text, object_len}, now_ms);
    bool allowed = o != NULL && now_ms >= allowed_ms(o, 0);
    e = allowed ? add(s, o, text, len, &facts) : NULL;
    if (e == NULL) {
        free(text);
        return lose(s);
    }
    spend(o, now_ms);
    begin(e, now_ms, unix_us);
    return FL_EVENT_NEW;
}

/* --- writes --- */

/* When it may be written; INT64_MAX: nothing is to be. */
static int64_t ready_ms(const struct fl_event_entry *e)
{
    if (e->flying) {
        return INT64_MAX;
    }
    int64_t allowed = e->posted ? allowed_ms(e->object, FL_EVENT_RESERVE) : 0;
    return e->due_ms > allowed ? e->due_ms : allowed;
}

bool fl_event_series_take(struct fl_event_series *s, int64_t now_ms, struct fl_event_write *ret)
{
    struct fl_event_entry *next = NULL;
    if (s->flying >= FL_EVENT_FLYING_MAX) {
        return false;
    }
    fl_list_each (n, &s->used) {
        struct fl_event_entry *e = entry_of(n);
        if (ready_ms(e) <= now_ms && (next == NULL || e->due_ms < next->due_ms)) {
            next = e;
        }
    }
    if (next == NULL) {
        return false;
    }
    if (next->posted) {
        spend(next->object, now_ms);
    } else if (next->event_name[0] == '\0') {
        fl_event_facts_name(next->facts.name, &s->rng, next->event_name);
    }
    next->flying = true;
    next->flies = next->count;
    s->flying++;
    *ret = (struct fl_event_write){.entry = next,
                                   .patch = next->posted,
                                   .event_name = next->event_name,
                                   .facts = next->facts,
                                   .first_us = next->first_us,
                                   .last_us = next->last_us,
                                   .count = next->count};
    return true;
}

static void is_written(struct fl_event_series *s, struct fl_event_entry *e, int64_t now_ms)
{
    s->totals.written++;
    e->posted = true;
    e->tries = 0;
    e->sent = e->flies;
    e->wrote_ms = now_ms;
    plan_patch(e, now_ms);
}

static void give_up(struct fl_event_series *s, struct fl_event_entry *e)
{
    s->totals.lost++;
    drop(s, e);
}

static void settle_post(struct fl_event_series *s, struct fl_event_entry *e,
                        enum fl_event_result result, int64_t now_ms)
{
    switch (result) {
    case FL_EVENT_WRITTEN:
    case FL_EVENT_EXISTS: /* the name is ours alone: an earlier try was carried out */
        is_written(s, e, now_ms);
        break;
    case FL_EVENT_TRY_AGAIN:
        if (++e->tries < FL_EVENT_TRIES) {
            e->due_ms = now_ms + (int64_t)e->tries * FL_EVENT_RETRY_MS;
            break;
        }
        give_up(s, e);
        break;
    case FL_EVENT_GONE: /* no such namespace */
    case FL_EVENT_REFUSED:
        give_up(s, e);
        break;
    }
}

static void settle_patch(struct fl_event_series *s, struct fl_event_entry *e,
                         enum fl_event_result result, int64_t now_ms)
{
    switch (result) {
    case FL_EVENT_WRITTEN:
        is_written(s, e, now_ms);
        break;
    case FL_EVENT_GONE:
        e->posted = false;
        e->event_name[0] = '\0';
        e->tries = 0;
        e->due_ms = now_ms;
        break;
    case FL_EVENT_EXISTS:
    case FL_EVENT_TRY_AGAIN: /* the next one carries more */
        plan_patch(e, now_ms);
        break;
    case FL_EVENT_REFUSED:
        e->mute = true;
        plan_patch(e, now_ms);
        break;
    }
}

void fl_event_series_settle(struct fl_event_series *s, struct fl_event_entry *e,
                            enum fl_event_result result, int64_t now_ms)
{
    FL_MUST(e->flying);
    e->flying = false;
    s->flying--;
    if (e->posted) {
        settle_patch(s, e, result, now_ms);
    } else {
        settle_post(s, e, result, now_ms);
    }
}

int64_t fl_event_series_next_ms(const struct fl_event_series *s)
{
    int64_t at = INT64_MAX;
    if (s->flying >= FL_EVENT_FLYING_MAX) {
        return at; /* one of them must be settled first */
    }
    fl_list_each (n, &s->used) {
        int64_t ready = ready_ms(entry_of(n));
        at = ready < at ? ready : at;
    }
    return at;
}

struct fl_event_totals fl_event_series_totals(const struct fl_event_series *s)
{
    return s->totals;
}
