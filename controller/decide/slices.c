#include "controller/decide/slices.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fmt.h"
#include "controller/decide/slices_inner.h"

struct fl_slices *fl_slices_new(uint64_t seed)
{
    struct fl_slices *s = calloc(1, sizeof(*s));
    if (s) {
        fl_smap_init(&s->entries_by_key, seed);
        fl_smap_init(&s->services_by_key, seed ^ 1);
        fl_list_init(&s->entries);
        fl_list_init(&s->services);
        fl_list_init(&s->dirty);
    }
    return s;
}

// ---- keys --------------------------------------------------------------------------------------

#define KEY_MAX 512u /* names of both are of 253 bytes at most */

static struct fl_span key_of(const char *namespace, const char *name, char room[KEY_MAX])
{
    struct fl_fmt f = fl_fmt_of(room, KEY_MAX);
    fl_fmt_text(&f, namespace);
    fl_fmt_char(&f, '/');
    fl_fmt_text(&f, name);
    return f.cut ? FL_SPAN("") : (struct fl_span){f.base, f.len};
}

static bool fits(const char *namespace, const char *name)
{
    return strlen(namespace) + strlen(name) + 2 <= KEY_MAX;
}

struct fl_slices_known *fl_slices_find_service(const struct fl_slices *s, const char *namespace,
                                               const char *name)
{
    char room[KEY_MAX];
    return fl_smap_get(&s->services_by_key, key_of(namespace, name, room));
}

static struct fl_slices_entry *find_entry(const struct fl_slices *s, const char *namespace,
                                          const char *name)
{
    char room[KEY_MAX];
    return fl_smap_get(&s->entries_by_key, key_of(namespace, name, room));
}

/* The one of that name, made when there is none. NULL: no memory, or a name beyond all names. */
static struct fl_slices_known *get_service(struct fl_slices *s, const char *namespace,
                                           const char *name)
{
    char room[KEY_MAX];
    struct fl_span key = key_of(namespace, name, room);
    struct fl_slices_known *v = fl_smap_get(&s->services_by_key, key);
    if (v || key.len == 0) {
        return v;
    }
    v = calloc(1, sizeof(*v) + 2 * (key.len + 1));
    if (!v) {
        return NULL;
    }
    memcpy(v->key, key.ptr, key.len);
    char *parts = memcpy(v->key + key.len + 1, key.ptr, key.len);
    parts[strlen(namespace)] = '\0';
    v->namespace = parts;
    v->name = parts + strlen(namespace) + 1;
    if (fl_smap_put(&s->services_by_key, fl_span_of(v->key), v) != 0) {
        free(v);
        return NULL;
    }
    fl_list_append(&s->services, &v->all);
    fl_list_init(&v->entries);
    fl_list_init(&v->views);
    fl_list_init(&v->dirty);
    return v;
}

static struct fl_slices_entry *get_entry(struct fl_slices *s, const char *namespace,
                                         const char *name)
{
    char room[KEY_MAX];
    struct fl_span key = key_of(namespace, name, room);
    struct fl_slices_entry *e = fl_smap_get(&s->entries_by_key, key);
    if (e || key.len == 0) {
        return e;
    }
    e = calloc(1, sizeof(*e) + key.len + 1);
    if (!e) {
        return NULL;
    }
    memcpy(e->key, key.ptr, key.len);
    if (fl_smap_put(&s->entries_by_key, fl_span_of(e->key), e) != 0) {
        free(e);
        return NULL;
    }
    fl_list_append(&s->entries, &e->all);
    fl_list_init(&e->node);
    return e;
}

// ---- entries -----------------------------------------------------------------------------------

static void service_drop_unused(struct fl_slices *s, struct fl_slices_known *v)
{
    if (v->uses == 0 && !v->object && fl_list_empty(&v->views)) {
        fl_smap_remove(&s->services_by_key, fl_span_of(v->key));
        fl_list_remove(&v->all);
        fl_list_remove(&v->dirty);
        free(v);
    }
}

static void leave(struct fl_slices *s, struct fl_slices_known *v)
{
    v->uses--;
    service_drop_unused(s, v);
}

static void entry_drop_unused(struct fl_slices *s, struct fl_slices_entry *e)
{
    if (!e->record && !e->next) {
        fl_smap_remove(&s->entries_by_key, fl_span_of(e->key));
        fl_list_remove(&e->all);
        free(e);
    }
}

/* Out of force. The service stays, to be settled and left by the caller. */
static struct fl_slices_known *retire(struct fl_slices_entry *e)
{
    struct fl_slices_known *v = e->service;
    if (v) {
        fl_list_remove(&e->node);
        v->slice_count--;
    }
    e->record = fl_slice_record_give(e->record);
    e->service = NULL;
    return v;
}

/* Takes the record and the use of the service over. */
static void enforce(struct fl_slices_entry *e, struct fl_slice_record *r, struct fl_slices_known *v)
{
    e->record = r;
    e->service = v;
    fl_list_append(&v->entries, &e->node);
    v->slice_count++;
}

/* What a relist had said of the entry is void. */
static void forget_next(struct fl_slices *s, struct fl_slices_entry *e)
{
    if (e->next) {
        e->next = fl_slice_record_give(e->next);
        leave(s, e->next_service);
        e->next_service = NULL;
    }
}

/* A relist says that the entry has this record of this service. */
static void stage(struct fl_slices *s, struct fl_slices_entry *e, struct fl_slice_record *r,
                  struct fl_slices_known *v)
{
    forget_next(s, e);
    e->seen = true;
    if (e->record && e->service == v && fl_slice_record_eq(e->record, r)) {
        fl_slice_record_give(r);
        leave(s, v);
    } else {
        e->next = r;
        e->next_service = v;
    }
}

/* Now: the entry has this record of this service; r NULL: it is gone. */
static void change(struct fl_slices *s, struct fl_slices_entry *e, struct fl_slice_record *r,
                   struct fl_slices_known *to, int64_t now_ms)
{
    struct fl_slices_known *from = e->service;
    struct fl_slices_view *was_from = from ? fl_slices_hold_view(from) : NULL;
    struct fl_slices_view *was_to = to && to != from ? fl_slices_hold_view(to) : NULL;
    retire(e);
    if (r) {
        enforce(e, r, to);
    }
    if (from) {
        fl_slices_hold_settle(s, from, was_from, now_ms);
        leave(s, from);
    }
    if (to && to != from) {
        fl_slices_hold_settle(s, to, was_to, now_ms);
    }
}

int fl_slices_put(struct fl_slices *s, const struct fl_kube_slice *slice, int64_t now_ms)
{
    const char *namespace = slice->meta.namespace, *name = slice->meta.name;
    if (slice->service[0] == '\0' || !fits(namespace, name) || !fits(namespace, slice->service)) {
        fl_slices_remove(s, namespace, name, now_ms); /* no service's, or no longer */
        return 0;
    }
    struct fl_slices_entry *e = get_entry(s, namespace, name);
    struct fl_slices_known *v = get_service(s, namespace, slice->service);
    struct fl_slice_record *r = e && v ? fl_slice_record_new(slice) : NULL;
    if (v) {
        v->uses++;
    }
    if (r && s->relisting) {
        stage(s, e, r, v);
    } else if (r && e->record && e->service == v && fl_slice_record_eq(e->record, r)) {
        fl_slice_record_give(r);
        leave(s, v);
    } else if (r) {
        change(s, e, r, v, now_ms);
    } else {
        if (v) {
            leave(s, v);
        }
        if (e) {
            entry_drop_unused(s, e);
        }
        return -ENOMEM;
    }
    return 0;
}

void fl_slices_remove(struct fl_slices *s, const char *namespace, const char *name, int64_t now_ms)
{
    struct fl_slices_entry *e = find_entry(s, namespace, name);
    if (!e) {
        return;
    }
    if (s->relisting) {
        e->seen = false;
        forget_next(s, e);
    } else {
        change(s, e, NULL, NULL, now_ms);
    }
    entry_drop_unused(s, e);
}

// ---- relists -----------------------------------------------------------------------------------

void fl_slices_begin(struct fl_slices *s)
{
    s->relisting = true;
    fl_list_each_safe (it, tmp, &s->entries) {
        struct fl_slices_entry *e = fl_container_of(it, struct fl_slices_entry, all);
        e->seen = false;
        forget_next(s, e);
        entry_drop_unused(s, e);
    }
}

static void mark_dirty(struct fl_slices *s, struct fl_slices_known *v)
{
    if (v && fl_list_empty(&v->dirty)) {
        v->before = fl_slices_hold_view(v);
        fl_list_append(&s->dirty, &v->dirty);
    }
}

static bool stays(const struct fl_slices_entry *e)
{
    return e->seen && !e->next;
}

/* All services are looked at before the first slice changes and judged after the last one did. */
void fl_slices_end(struct fl_slices *s, int64_t now_ms)
{
    fl_list_each (it, &s->entries) {
        struct fl_slices_entry *e = fl_container_of(it, struct fl_slices_entry, all);
        if (s->relisting && !stays(e)) {
            mark_dirty(s, e->service);
            mark_dirty(s, e->next_service);
        }
    }
    fl_list_each_safe (it, tmp, &s->entries) {
        struct fl_slices_entry *e = fl_container_of(it, struct fl_slices_entry, all);
        if (s->relisting && !stays(e)) {
            struct fl_slices_known *from = retire(e);
            if (from) {
                from->uses--;
            }
            if (e->next) {
                enforce(e, e->next, e->next_service);
                e->next = NULL;
                e->next_service = NULL;
            }
            entry_drop_unused(s, e);
        }
    }
    while (!fl_list_empty(&s->dirty)) {
        struct fl_slices_known *v = fl_container_of(s->dirty.next, struct fl_slices_known, dirty);
        fl_list_remove(&v->dirty);
        fl_slices_hold_settle(s, v, v->before, now_ms);
        v->before = NULL;
        service_drop_unused(s, v);
    }
    s->relisting = false;
}

// ---- Service objects ---------------------------------------------------------------------------

/* The copy of the text; *at moves behind it. */
static const char *put_text(char **at, const char *text)
{
    size_t n = strlen(text) + 1;
    char *from = memcpy(*at, text, n);
    *at += n;
    return from;
}

static struct fl_slices_object *object_new(const struct fl_kube_service *from)
{
    size_t ports = from->port_count * sizeof(struct fl_kube_slice_port);
    size_t texts = strlen(from->external_name) + 1;
    for (uint32_t i = 0; i < from->port_count; i++) {
        texts += strlen(from->ports[i].name) + 1;
    }
    struct fl_slices_object *o = calloc(1, sizeof(*o) + ports + texts);
    if (!o) {
        return NULL;
    }
    char *at = (char *)(o->ports + from->port_count);
    o->external_name = put_text(&at, from->external_name);
    o->port_count = from->port_count;
    for (uint32_t i = 0; i < from->port_count; i++) {
        o->ports[i] =
            (struct fl_kube_slice_port){put_text(&at, from->ports[i].name), from->ports[i].number};
    }
    return o;
}

static bool same_object(const struct fl_slices_object *a, const struct fl_slices_object *b)
{
    bool same = a && a->port_count == b->port_count && !strcmp(a->external_name, b->external_name);
    for (uint32_t i = 0; same && i < b->port_count; i++) {
        same = a->ports[i].number == b->ports[i].number &&
               strcmp(a->ports[i].name, b->ports[i].name) == 0;
    }
    return same;
}

int fl_slices_put_service(struct fl_slices *s, const struct fl_kube_service *service)
{
    const char *namespace = service->meta.namespace, *name = service->meta.name;
    if (!fits(namespace, name)) {
        return 0;
    }
    struct fl_slices_object *o = object_new(service);
    struct fl_slices_known *v = o ? get_service(s, namespace, name) : NULL;
    if (!v) {
        free(o);
        return -ENOMEM;
    }
    if (v->ended || !same_object(v->object, o)) {
        v->revision = ++s->revision;
    }
    free(v->object);
    v->object = o;
    v->seen = true;
    v->ended = false;
    return 0;
}

static void end_service(struct fl_slices *s, struct fl_slices_known *v)
{
    free(v->object);
    v->object = NULL;
    v->ended = true;
    v->revision = ++s->revision;
    fl_slices_hold_drop_all(s, v);
    service_drop_unused(s, v);
}

void fl_slices_remove_service(struct fl_slices *s, const char *namespace, const char *name,
                              int64_t now_ms)
{
    (void)now_ms; /* nothing is held of a service that ended */
    struct fl_slices_known *v = fl_slices_find_service(s, namespace, name);
    if (v) {
        end_service(s, v);
    }
}

void fl_slices_begin_services(struct fl_slices *s)
{
    fl_list_each (it, &s->services) {
        fl_container_of(it, struct fl_slices_known, all)->seen = false;
    }
}

void fl_slices_end_services(struct fl_slices *s, int64_t now_ms)
{
    (void)now_ms;
    fl_list_each_safe (it, tmp, &s->services) {
        struct fl_slices_known *v = fl_container_of(it, struct fl_slices_known, all);
        if (v->object && !v->seen) {
            end_service(s, v);
        }
    }
}

// ---- time --------------------------------------------------------------------------------------

bool fl_slices_run(struct fl_slices *s, int64_t now_ms)
{
    bool changed = false;
    fl_list_each_safe (it, tmp, &s->services) {
        struct fl_slices_known *v = fl_container_of(it, struct fl_slices_known, all);
        if (s->holding == 0) {
            break;
        }
        if (fl_slices_hold_drop_old(s, v, now_ms)) {
            changed = true;
            service_drop_unused(s, v);
        }
    }
    return changed;
}

int64_t fl_slices_next_ms(const struct fl_slices *s)
{
    int64_t next = INT64_MAX;
    if (s->holding == 0) {
        return next;
    }
    fl_list_each (it, &s->services) {
        const struct fl_slices_known *v = fl_container_of(it, struct fl_slices_known, all);
        if (!fl_list_empty(&v->views)) {
            int64_t until = fl_container_of(v->views.prev, struct fl_slices_view, node)->until_ms;
            next = until < next ? until : next;
        }
    }
    return next;
}

struct fl_slices *fl_slices_free(struct fl_slices *s)
{
    if (!s) {
        return NULL;
    }
    fl_list_each_safe (it, tmp, &s->entries) {
        struct fl_slices_entry *e = fl_container_of(it, struct fl_slices_entry, all);
        fl_slice_record_give(e->record);
        fl_slice_record_give(e->next);
        free(e);
    }
    fl_list_each_safe (it, tmp, &s->services) {
        struct fl_slices_known *v = fl_container_of(it, struct fl_slices_known, all);
        fl_slices_hold_drop_all(s, v);
        free(v->object);
        free(v);
    }
    fl_smap_done(&s->entries_by_key);
    fl_smap_done(&s->services_by_key);
    free(s);
    return NULL;
}
