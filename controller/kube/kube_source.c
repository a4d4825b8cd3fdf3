#include "controller/kube/kube_source.h"

#include <errno.h>
#include <stdlib.h>

#include "controller/codec/kube_decode.h"

#define OBJECT_ARENA_BYTES                                                                         \
    ((size_t)8 << 20) /* of one decoded object: a slice has 1,000 endpoints at most */
#define INJECTED_SELECTOR "fairlead.dev/injected=true"

struct fl_kube_source {
    struct fl_reactor *reactor;
    struct fl_slices *slices;
    struct fl_pods *pods;
    struct fl_kube_watch *watches[FL_KUBE_RESOURCES];
    bool known[FL_KUBE_RESOURCES];
    bool listing[FL_KUBE_RESOURCES]; /* what comes is not in force before the list is whole */
    struct fl_timer held;            /* the next end of a hold in slices */
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

/* ---- slices ---- */

static void slices_begin(void *arg)
{
    struct fl_kube_source *s = arg;
    s->listing[FL_KUBE_SLICES] = true;
    fl_slices_begin(s->slices);
}

static void slices_synced(void *arg)
{
    struct fl_kube_source *s = arg;
    fl_slices_end(s->slices, now_ms(s));
    s->listing[FL_KUBE_SLICES] = false;
    s->known[FL_KUBE_SLICES] = true;
    mark_members(s);
}

static bool slices_object(void *arg, enum fl_kube_event event, struct fl_span json)
{
    struct fl_kube_source *s = arg;
    struct fl_arena a;
    struct fl_kube_slice slice;
    fl_arena_init(&a, OBJECT_ARENA_BYTES);
    bool good = fl_kube_decode_slice(json, &a, &slice) == 0;
    if (good && event == FL_KUBE_DELETED) {
        fl_slices_remove(s->slices, slice.meta.namespace, slice.meta.name, now_ms(s));
    } else if (good) {
        good = fl_slices_put(s->slices, &slice, now_ms(s)) == 0;
    }
    fl_arena_done(&a);
    if (good && !s->listing[FL_KUBE_SLICES]) {
        mark_members(s);
    }
    return good;
}

/* ---- services ---- */

static void services_begin(void *arg)
{
    struct fl_kube_source *s = arg;
    s->listing[FL_KUBE_SERVICES] = true;
    fl_slices_begin_services(s->slices);
}

static void services_synced(void *arg)
{
    struct fl_kube_source *s = arg;
    fl_slices_end_services(s->slices, now_ms(s));
    s->listing[FL_KUBE_SERVICES] = false;
    s->known[FL_KUBE_SERVICES] = true;
    mark_members(s);
}

static bool services_object(void *arg, enum fl_kube_event event, struct fl_span json)
{
    struct fl_kube_source *s = arg;
    struct fl_arena a;
    struct fl_kube_service service;
    fl_arena_init(&a, OBJECT_ARENA_BYTES);
    bool good = fl_kube_decode_service(json, &a, &service) == 0;
    if (good && event == FL_KUBE_DELETED) {
        fl_slices_remove_service(s->slices, service.meta.namespace, service.meta.name, now_ms(s));
    } else if (good) {
        good = fl_slices_put_service(s->slices, &service) == 0;
    }
    fl_arena_done(&a);
    if (good && !s->listing[FL_KUBE_SERVICES]) {
        mark_members(s);
    }
    return good;
}

/* ---- pods ---- */

static void pods_begin(void *arg)
{
    struct fl_kube_source *s = arg;
    s->listing[FL_KUBE_PODS] = true;
    fl_pods_begin(s->pods);
}

static void pods_synced(void *arg)
{
    struct fl_kube_source *s = arg;
    (void)fl_pods_end(s->pods);
    s->listing[FL_KUBE_PODS] = false;
    s->known[FL_KUBE_PODS] = true;
    mark_pods(s);
}

static bool pods_object(void *arg, enum fl_kube_event event, struct fl_span json)
{
    struct fl_kube_source *s = arg;
    struct fl_arena a;
    struct fl_kube_pod pod;
    bool changed = false;
    fl_arena_init(&a, OBJECT_ARENA_BYTES);
    bool good = fl_kube_decode_pod(json, &a, &pod) == 0;
    if (good && event == FL_KUBE_DELETED) {
        changed = fl_pods_remove(s->pods, pod.meta.namespace, pod.meta.name);
    } else if (good) {
        good = fl_pods_put(s->pods, &pod, &changed) == 0;
    }
    fl_arena_done(&a);
    if (good && changed && !s->listing[FL_KUBE_PODS]) {
        mark_pods(s);
    }
    return good;
}

/* ---- all three ---- */

static const struct {
    const char *resource, *path, *selector;
    void (*begin)(void *arg);
    bool (*object)(void *arg, enum fl_kube_event event, struct fl_span json);
    void (*synced)(void *arg);
} kinds[FL_KUBE_RESOURCES] = {
    {"endpointslices", "/apis/discovery.k8s.io/v1/endpointslices", "", slices_begin, slices_object,
     slices_synced},
    {"services", "/api/v1/services", "", services_begin, services_object, services_synced},
    {"pods", "/api/v1/pods", INJECTED_SELECTOR, pods_begin, pods_object, pods_synced},
};

static int open_watches(struct fl_kube_source *s, const struct fl_kube_source_conf *conf)
{
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < FL_KUBE_RESOURCES; i++) {
        const struct fl_kube_watch_conf watch = {
            .kube = conf->kube,
            .reactor = conf->reactor,
            .log = conf->log,
            .resource = kinds[i].resource,
            .path = kinds[i].path,
            .selector = kinds[i].selector,
            .seed = conf->seed + i,
            .begin = kinds[i].begin,
            .object = kinds[i].object,
            .synced = kinds[i].synced,
            .arg = s,
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
    return s->known[FL_KUBE_SLICES] && s->known[FL_KUBE_SERVICES];
}

bool fl_kube_source_pods_known(const struct fl_kube_source *s)
{
    return s->known[FL_KUBE_PODS];
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
