/* whom to push to */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "controller/push/fanout_inner.h"

#define KEY_MAX         512 /* an address has at most 260 bytes, an id 128 */
#define CONNECTIONS_MAX 4096

static void forget(struct fl_sidecar *s)
{
    if (!fl_list_empty(&s->looked)) {
        fl_list_remove(&s->looked);
        fl_arena_done(&s->arena);
    }
}

static void free_sidecar(struct fl_sidecar *s)
{
    fl_fanout_break_off(s);
    fl_push_line_close(&s->line);
    forget(s);
    free(s->answer);
    free(s->error);
    free(s);
}

void fl_fanout_free_targets(struct fl_fanout *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        fl_push_plan_leave(&f->plan, &f->sidecars[i]->target);
        free_sidecar(f->sidecars[i]);
    }
    free(f->sidecars);
    fl_smap_done(&f->by_key);
}

/* Address, NUL, id. Empty: too long. */
static struct fl_span key_of(const char *address, const char *id, char *text, size_t cap)
{
    size_t a = strlen(address), i = strlen(id);
    if (a + 1 + i > cap) {
        return (struct fl_span){0};
    }
    memcpy(text, address, a + 1);
    memcpy(text + a + 1, id, i);
    return (struct fl_span){text, a + 1 + i};
}

static struct fl_sidecar *find(const struct fl_fanout *f, const char *address, const char *id)
{
    char text[KEY_MAX];
    struct fl_span key = key_of(address, id, text, sizeof(text));
    return key.len > 0 ? fl_smap_get(&f->by_key, key) : NULL;
}

static const char *put(struct fl_fmt *f, const char *text)
{
    const char *at = f->base + f->len;
    fl_fmt_text(f, text);
    f->len++; /* the NUL stays */
    return at;
}

/* A kept connection for each or for none; not more than a part of our descriptors. */
static void keep_connections(struct fl_fanout *f)
{
    struct rlimit files;
    f->keep_most = CONNECTIONS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && f->keep_most > files.rlim_cur / 2) {
        f->keep_most = (uint32_t)(files.rlim_cur / 2);
    }
}

static bool reserve(struct fl_fanout *f)
{
    if (f->count < f->cap) {
        return true;
    }
    uint32_t cap = f->cap > 0 ? 2 * f->cap : 16;
    struct fl_sidecar **grown = realloc(f->sidecars, cap * sizeof(struct fl_sidecar *));
    if (grown == NULL) {
        return false;
    }
    f->sidecars = grown;
    f->cap = cap;
    keep_connections(f);
    return true;
}

/* Not yet in the plan. */
static struct fl_sidecar *new_sidecar(struct fl_fanout *f, const struct fl_fanout_target *t)
{
    size_t cap = strlen(t->address) + strlen(t->id) + strlen(t->namespace) + strlen(t->name) +
                 strlen(t->node) + 5;
    struct fl_sidecar *s = reserve(f) ? calloc(1, sizeof(*s) + cap) : NULL;
    if (s == NULL) {
        return NULL;
    }
    struct fl_fmt text = fl_fmt_of(s->text, cap);
    s->address = put(&text, t->address); /* first these two: the key */
    s->id = put(&text, t->id);
    s->namespace = put(&text, t->namespace);
    s->name = put(&text, t->name);
    s->node = put(&text, t->node);
    FL_MUST(!text.cut);
    s->key = (struct fl_span){s->address, strlen(s->address) + 1 + strlen(s->id)};
    s->owner = f;
    s->hint = "";
    s->signer = fl_key_ring_first(&f->ring);
    fl_list_init(&s->looked);
    if (fl_smap_put(&f->by_key, s->key, s) < 0) {
        free(s);
        return NULL;
    }
    s->at = f->count;
    f->sidecars[f->count++] = s;
    return s;
}

static void set_configuration(struct fl_fanout *f, struct fl_sidecar *s,
                              struct fl_configuration *to)
{
    if (s->configuration == NULL) {
        fl_push_plan_join(&f->plan, &to->group, &s->target, fl_fanout_now_ms(f));
    } else {
        fl_push_plan_move(&f->plan, &s->target, &to->group, fl_fanout_now_ms(f));
    }
    s->configuration = to;
}

/* NULL: it could not be made, and why. */
static struct fl_sidecar *put_target(struct fl_fanout *f, const struct fl_fanout_target *t,
                                     int *ret_why)
{
    struct fl_sidecar *s = find(f, t->address, t->id);
    if (s == NULL || strcmp(s->configuration->key, t->configuration) != 0) {
        struct fl_configuration *c = fl_fanout_take_configuration(f, t->configuration);
        bool fits = strlen(t->address) + 1 + strlen(t->id) <= KEY_MAX;
        s = s == NULL && c != NULL && fits ? new_sidecar(f, t) : s;
        if (c == NULL || s == NULL) {
            *ret_why = fits ? -ENOMEM : -EINVAL;
            return NULL; /* one that is there stays as it is */
        }
        set_configuration(f, s, c);
    }
    fl_push_plan_eager(&f->plan, &s->target, t->eager, fl_fanout_now_ms(f));
    return s;
}

static void swap(struct fl_fanout *f, uint32_t a, uint32_t b)
{
    struct fl_sidecar *one = f->sidecars[a];
    f->sidecars[a] = f->sidecars[b];
    f->sidecars[b] = one;
    f->sidecars[a]->at = a;
    f->sidecars[b]->at = b;
}

static void remove_sidecar(struct fl_fanout *f, struct fl_sidecar *s)
{
    struct fl_configuration *c = s->configuration;
    swap(f, s->at, f->count - 1);
    f->count--;
    (void)fl_smap_remove(&f->by_key, s->key);
    fl_push_plan_leave(&f->plan, &s->target);
    free_sidecar(s);
    fl_fanout_let_go(f, c);
}

int fl_fanout_put_target(struct fl_fanout *f, const struct fl_fanout_target *t)
{
    const struct fl_sidecar *before = find(f, t->address, t->id);
    struct fl_configuration *from = before != NULL ? before->configuration : NULL;
    int why = 0;
    if (put_target(f, t, &why) != NULL) {
        if (from != NULL) {
            fl_fanout_let_go(f, from);
        }
        fl_fanout_drive_later(f);
    }
    return why;
}

bool fl_fanout_remove_target(struct fl_fanout *f, const char *address, const char *id)
{
    struct fl_sidecar *s = find(f, address, id);
    if (s == NULL) {
        return false;
    }
    remove_sidecar(f, s);
    fl_fanout_drive_later(f); /* its place may be free now */
    return true;
}

int fl_fanout_set_targets(struct fl_fanout *f, const struct fl_fanout_target *t, uint32_t n)
{
    uint32_t kept = 0;
    int rc = 0;
    f->mark++;
    for (uint32_t i = 0; i < n; i++) {
        struct fl_sidecar *s = put_target(f, &t[i], &rc);
        s = s != NULL ? s : find(f, t[i].address, t[i].id); /* as before is better than gone */
        if (s != NULL && s->mark != f->mark) {
            s->mark = f->mark;
            swap(f, s->at, kept++);
        }
    }
    while (f->count > kept) {
        remove_sidecar(f, f->sidecars[f->count - 1]);
    }
    fl_fanout_sweep_configurations(f);
    fl_fanout_drive_later(f);
    return rc;
}

/* ---- what is known ---- */

uint32_t fl_fanout_count(const struct fl_fanout *f)
{
    return f->count;
}

void fl_fanout_keep_answer(struct fl_sidecar *s, struct fl_span body)
{
    forget(s);
    s->answer_len = 0;
    if (body.len > s->answer_cap || body.len < s->answer_cap / 4) {
        free(s->answer);
        s->answer = malloc(body.len + 1);
        s->answer_cap = s->answer != NULL ? body.len : 0;
    }
    if (s->answer != NULL && body.len > 0) {
        memcpy(s->answer, body.ptr, body.len);
        s->answer_len = body.len;
    }
}

void fl_fanout_forget_looked(struct fl_fanout *f)
{
    fl_list_each_safe (it, next, &f->looked) {
        forget(fl_container_of(it, struct fl_sidecar, looked));
    }
}

void fl_fanout_fill_view(const struct fl_sidecar *s, struct fl_fanout_view *ret)
{
    *ret = (struct fl_fanout_view){
        .address = s->address,
        .id = s->id,
        .namespace = s->namespace,
        .name = s->name,
        .node = s->node,
        .configuration = s->configuration->key,
        .eager = !fl_list_empty(&s->target.eagerly),
        .acked_epoch = s->acked_epoch,
        .acked_seq = s->acked_seq,
        .acked_unix_ms = s->acked_unix_ms,
        .lag_ms = fl_push_plan_lag_ms(&s->target, fl_fanout_now_ms(s->owner)),
        .failures = s->target.failures,
        .error = fl_sidecar_error(s),
        .hint = s->hint,
    };
}

/* Makes the observations, once a turn. */
static void look(struct fl_sidecar *s, struct fl_fanout_view *ret)
{
    if (fl_list_empty(&s->looked)) {
        s->seen = (struct fl_push_answer){0};
        fl_arena_init(&s->arena, FL_SIDECAR_ANSWER_MAX_BYTES);
        if (s->answer_len == 0 ||
            !fl_push_answer_read_all((struct fl_span){s->answer, s->answer_len}, &s->arena,
                                     &s->seen)) {
            s->seen = (struct fl_push_answer){0};
        }
        fl_list_append(&s->owner->looked, &s->looked);
        fl_reactor_later(s->owner->conf.reactor, &s->owner->forget);
    }
    fl_fanout_fill_view(s, ret);
    ret->observations = s->seen.observations;
    ret->observation_count = s->seen.count;
}

void fl_fanout_view(const struct fl_fanout *f, uint32_t i, struct fl_fanout_view *ret)
{
    FL_MUST(i < f->count);
    look(f->sidecars[i], ret);
}

void fl_fanout_glance(const struct fl_fanout *f, uint32_t i, struct fl_fanout_view *ret)
{
    FL_MUST(i < f->count);
    fl_fanout_fill_view(f->sidecars[i], ret);
}

bool fl_fanout_find(const struct fl_fanout *f, const char *address, const char *id,
                    struct fl_fanout_view *ret)
{
    const struct fl_sidecar *s = find(f, address, id);
    if (s != NULL) {
        fl_fanout_fill_view(s, ret);
    }
    return s != NULL;
}
