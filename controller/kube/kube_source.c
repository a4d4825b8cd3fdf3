#include "controller/kube/kube_source.h"

#include <errno.h>
#include <stdlib.h>

#include "controller/codec/kube_decode.h"

#define OBJECT_ARENA_BYTES                                                                         \
    ((size_t)8 << 20) /* of one decoded object: a slice has 1,000 endpoints at most */
#define INJECTED_SELECTOR "fairlead.dev/injected=true"

struct feed { /* what one watch brings */
    struct fl_kube_source *source;
    enum fl_kube_resource resource;
    bool known;   /* listed once */
    bool listing; /* what comes is not in force before the list is whole */
};

struct fl_kube_source {
    struct fl_reactor *reactor;
    struct fl_slices *slices;
    struct fl_pods *pods;
    struct fl_kube_watch *watches[FL_KUBE_RESOURCES];
    struct feed feeds[FL_KUBE_RESOURCES];
    struct fl_timer held; /* the next end of a hold in slices */
    struct fl_task tell;
    bool members_changed, pods_changed; /* since it was told */
    void (*changed)(void *arg, bool members, bool pods);
    void *arg;
};

static void mark_members(struct fl_kube_source *s)
{
    s->members_changed = true;
    int64_t next_ms = fl_slices_next_ms(s->slices);
    if (next_ms != INT64_MAX) {
        fl_timer_set(s->reactor, &s->held, next_ms);
    }
    fl_reactor_later(s->reactor, &s->tell);
}

static void mark_pods(struct fl_kube_source *s)
{
    s->pods_changed = true;
    fl_reactor_later(s->reactor, &s->tell);
}

static void tell(struct fl_task *t)
{
    struct fl_kube_source *s = fl_container_of(t, struct fl_kube_source, tell);
    if (fl_kube_source_known(s)) { /* pods that were met before are told with the members */
        bool members = s->members_changed, pods = s->pods_changed;
        s->members_changed = s->pods_changed = false;
        s->changed(s->arg, members, pods);
    }
}

static void on_held(struct fl_timer *t)
{
    struct fl_kube_source *s = fl_container_of(t, struct fl_kube_source, held);
    (void)fl_slices_run(s->slices, fl_reactor_now_ms(s->reactor));
    mark_members(s);
}

static int64_t now_ms(const struct fl_kube_source *s)
{
    return fl_reactor_now_ms(s->reactor);
}

/* ---- what is particular to a resource ---- */

static void slices_begin(struct fl_kube_source *s)
{
    fl_slices_begin(s->slices);
}

static void slices_end(struct fl_kube_source *s)
{
    fl_slices_end(s->slices, now_ms(s));
}

static bool slices_take(struct fl_kube_source *s, enum fl_kube_event event, struct fl_span json,
                        struct fl_arena *a, bool *ret_changed)
{
    struct fl_kube_slice slice;
    *ret_changed = true;
    if (fl_kube_decode_slice(json, a, &slice) < 0) {
        return false;
    }
    if (event == FL_KUBE_DELETED) {
        fl_slices_remove(s->slices, slice.meta.namespace, slice.meta.name, now_ms(s));
        return true;
    }
    return fl_slices_put(s->slices, &slice, now_ms(s)) == 0;
}

static void services_begin(struct fl_kube_source *s)
{
    fl_slices_begin_services(s->slices);
}

static void services_end(struct fl_kube_source *s)
{
    fl_slices_end_services(s->slices, now_ms(s));
}

static bool services_take(struct fl_kube_source *s, enum fl_kube_event event, struct fl_span json,
                          struct fl_arena *a, bool *ret_changed)
{
    struct fl_kube_service service;
    *ret_changed = true;
    if (fl_kube_decode_service(json, a, &service) < 0) {
        return false;
    }
    if (event == FL_KUBE_DELETED) {
        fl_slices_remove_service(s->slices, service.meta.namespace, service.meta.name, now_ms(s));
        return true;
    }
    return fl_slices_put_service(s->slices, &service) == 0;
}

static void pods_begin(struct fl_kube_source *s)
{
    fl_pods_begin(s->pods);
}

static void pods_end(struct fl_kube_source *s)
{
    (void)fl_pods_end(s->pods);
}

static bool pods_take(struct fl_kube_source *s, enum fl_kube_event event, struct fl_span json,
                      struct fl_arena *a, bool *ret_changed)
{
    struct fl_kube_pod pod;
    if (fl_kube_decode_pod(json, a, &pod) < 0) {
        return false;
    }
    if (event == FL_KUBE_DELETED) {
        *ret_changed = fl_pods_remove(s->pods, pod.meta.namespace, pod.meta.name);
        return true;
    }
    return fl_pods_put(s->pods, &pod, ret_changed) == 0;
}

static const struct {
    const char *resource, *path, *selector;
    void (*begin)(struct fl_kube_source *s);
    bool (*take)(struct fl_kube_source *s, enum fl_kube_event event, struct fl_span json,
                 struct fl_arena *a, bool *ret_changed);
    void (*end)(struct fl_kube_source *s);
    void (*mark)(struct fl_kube_source *s);
} kinds[FL_KUBE_RESOURCES] = {
    {"endpointslices", "/apis/discovery.k8s.io/v1/endpointslices", "", slices_begin, slices_take,
     slices_end, mark_members},
    {"services", "/api/v1/services", "", services_begin, services_take, services_end, mark_members},
    {"pods", "/api/v1/pods", INJECTED_SELECTOR, pods_begin, pods_take, pods_end, mark_pods},
};

/* ---- what is not ---- */

static void on_begin(void *arg)
{
    struct feed *f = arg;
    f->listing = true;
    kinds[f->resource].begin(f->source);
}

static void on_synced(void *arg)
{
    struct feed *f = arg;
    kinds[f->resource].end(f->source);
    f->listing = false;
    f->known = true;
    kinds[f->resource].mark(f->source);
}

static bool on_object(void *arg, enum fl_kube_event event, struct fl_span json)
{
    const struct feed *f = arg;
    struct fl_arena a;
    bool changed = false;
    fl_arena_init(&a, OBJECT_ARENA_BYTES);
    bool good = kinds[f->resource].take(f->source, event, json, &a, &changed);
    fl_arena_done(&a);
    if (good && changed && !f->listing) {
        kinds[f->resource].mark(f->source);
    }
    return good;
}

static int open_watches(struct fl_kube_source *s, const struct fl_kube_source_conf *conf)
{
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < FL_KUBE_RESOURCES; i++) {
        s->feeds[i] = (struct feed){.source = s, .resource = (enum fl_kube_resource)i};
        const struct fl_kube_watch_conf watch = {
            .kube = conf->kube,
            .reactor = conf->reactor,
            .log = conf->log,
            .resource = kinds[i].resource,
            .path = kinds[i].path,
            .selector = kinds[i].selector,
            .seed = conf->seed + i,
            .begin = on_begin,
            .object = on_object,
            .synced = on_synced,
            .arg = &s->feeds[i],
        };
        rc = fl_kube_watch_new(&watch, &s->watches[i]);
    }
    return rc;
}

int fl_kube_source_new(const struct fl_kube_source_conf *conf, struct fl_kube_source **ret)
{
    struct fl_kube_source *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return -ENOMEM;
    }
    s->reactor = conf->reactor;
    s->changed = conf->changed;
    s->arg = conf->arg;
    fl_timer_init(&s->held, on_held);
    fl_task_init(&s->tell, tell);
    s->slices = fl_slices_new(conf->seed);
    s->pods = fl_pods_new(conf->seed);
    int rc = s->slices != NULL && s->pods != NULL ? open_watches(s, conf) : -ENOMEM;
    if (rc < 0) {
        fl_kube_source_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

struct fl_kube_source *fl_kube_source_free(struct fl_kube_source *s)
{
    if (s == NULL) {
        return NULL;
    }
    for (unsigned i = 0; i < FL_KUBE_RESOURCES; i++) {
        fl_kube_watch_free(s->watches[i]);
    }
    fl_timer_remove(s->reactor, &s->held);
    fl_list_remove(&s->tell.node);
    fl_slices_free(s->slices);
    fl_pods_free(s->pods);
    free(s);
    return NULL;
}

void fl_kube_source_hurry(const struct fl_kube_source *s)
{
    for (unsigned i = 0; i < FL_KUBE_RESOURCES; i++) {
        fl_kube_watch_hurry(s->watches[i]);
    }
}

bool fl_kube_source_known(const struct fl_kube_source *s)
{
    return s->feeds[FL_KUBE_SLICES].known && s->feeds[FL_KUBE_SERVICES].known;
}

const struct fl_slices *fl_kube_source_slices(const struct fl_kube_source *s)
{
    return s->slices;
}

const struct fl_pods *fl_kube_source_pods(const struct fl_kube_source *s)
{
    return s->pods;
}

void fl_kube_source_watch(const struct fl_kube_source *s, enum fl_kube_resource r,
                          struct fl_kube_watch_view *ret)
{
    FL_MUST((unsigned)r < FL_KUBE_RESOURCES);
    fl_kube_watch_view(s->watches[r], ret);
}
