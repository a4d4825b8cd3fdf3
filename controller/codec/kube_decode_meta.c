#include "controller/codec/kube_decode_inner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "controller/codec/kube_decode.h"
#include "controller/codec/rfc3339.h"

static bool is_ours(struct fl_span key)
{
    static const struct fl_span home = {"fairlead.dev", sizeof("fairlead.dev") - 1};
    ptrdiff_t slash = fl_span_find(key, '/');
    if (slash < (ptrdiff_t)home.len) {
        return false;
    }
    size_t before = (size_t)slash - home.len;
    return fl_span_ieq((struct fl_span){key.ptr + before, home.len}, home) &&
           (before == 0 || key.ptr[before - 1] == '.');
}

static int by_key(const void *a, const void *b)
{
    const struct fl_kube_annotation *x = a, *y = b;
    return strcmp(x->key, y->key);
}

static uint32_t count_ours(const struct fl_json_walk *w)
{
    struct fl_json_walk copy = *w;
    struct fl_span key;
    uint32_t n = 0;
    if (fl_json_walk_object(&copy)) {
        while (fl_json_walk_member(&copy, &key)) {
            n += is_ours(key);
            fl_json_walk_skip(&copy);
        }
    }
    return n;
}

static void our_annotations(struct fl_json_walk *w, struct fl_kube_pod *pod)
{
    struct fl_span key;
    uint32_t n = count_ours(w), at = 0;
    pod->annotations = fl_json_walk_room(w, n, sizeof(*pod->annotations));
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            if (is_ours(key) && at < n) {
                w->spares_nul = true; /* a bad annotation costs no more than its route */
                pod->annotations[at].key = fl_json_walk_unescape(w, key);
                pod->annotations[at++].value = fl_json_walk_text(w);
                w->spares_nul = false;
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
    pod->annotation_count = at;
    if (at > 1) {
        qsort(pod->annotations, at, sizeof(*pod->annotations), by_key);
    }
}

static void labels(struct fl_json_walk *w, const char **ret_service)
{
    struct fl_span key;
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            if (fl_span_is(key, "kubernetes.io/service-name")) {
                *ret_service = fl_json_walk_text(w);
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
}

static void annotations(struct fl_json_walk *w, const struct fl_kube_meta_more *more)
{
    struct fl_span key;
    if (more->ours) {
        our_annotations(w, more->ours);
        return;
    }
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            if (more->trigger_unix_ms &&
                fl_span_is(key, "endpoints.kubernetes.io/last-change-trigger-time")) {
                int64_t ms;
                *more->trigger_unix_ms = fl_rfc3339_parse(fl_json_walk_raw(w), &ms) ? ms : 0;
            } else if (more->initial_end && fl_span_is(key, "k8s.io/initial-events-end")) {
                *more->initial_end = fl_span_is(fl_json_walk_raw(w), "true");
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
}

static void meta_member(struct fl_json_walk *w, struct fl_span key, struct fl_kube_meta *ret,
                        const struct fl_kube_meta_more *more)
{
    if (ret && fl_span_is(key, "name")) {
        ret->name = fl_json_walk_text(w);
    } else if (ret && fl_span_is(key, "namespace")) {
        ret->namespace = fl_json_walk_text(w);
    } else if (ret && fl_span_is(key, "uid")) {
        ret->uid = fl_json_walk_text(w);
    } else if (ret && fl_span_is(key, "resourceVersion")) {
        ret->resource_version = fl_json_walk_text(w);
    } else if (more->service && fl_span_is(key, "labels")) {
        labels(w, more->service);
    } else if (fl_span_is(key, "annotations")) {
        annotations(w, more);
    } else {
        if (more->deleting && fl_span_is(key, "deletionTimestamp")) {
            *more->deleting = fl_json_walk_given(w);
        }
        fl_json_walk_skip(w);
    }
}

/* ret: NULL when none of its texts are wanted. */
void fl_kube_decode_metadata(struct fl_json_walk *w, struct fl_kube_meta *ret,
                             const struct fl_kube_meta_more *more)
{
    struct fl_span key;
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            meta_member(w, key, ret, more);
        }
    }
}

struct fl_kube_meta fl_kube_decode_no_meta(void)
{
    return (struct fl_kube_meta){"", "", "", ""};
}

/* What is stored has a name; an object without one is not what the API sends. */
int fl_kube_decode_end(struct fl_json_walk *w, const struct fl_kube_meta *m)
{
    int fault = fl_json_walk_end(w);
    return fault != 0 ? fault : m->name[0] && m->namespace[0] ? 0 : -EBADMSG;
}

/* An object of which metadata alone counts. */
static int only_metadata(struct fl_json_walk *w, struct fl_kube_meta *ret,
                         const struct fl_kube_meta_more *more)
{
    struct fl_span key;
    if (fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            if (fl_span_is(key, "metadata")) {
                fl_kube_decode_metadata(w, ret, more);
            } else {
                fl_json_walk_skip(w);
            }
        }
    }
    return fl_json_walk_end(w);
}

int fl_kube_decode_meta(struct fl_span json, struct fl_arena *a, struct fl_kube_meta *ret)
{
    struct fl_json_walk w = fl_json_walk_of(json, a);
    struct fl_kube_meta m = fl_kube_decode_no_meta();
    int fault = only_metadata(&w, &m, &(struct fl_kube_meta_more){0});
    if (fault == 0) {
        *ret = m;
    }
    return fault;
}

bool fl_kube_decode_is_initial_end(struct fl_span json)
{
    struct fl_json_walk w = fl_json_walk_of(json, NULL);
    bool is = false;
    return only_metadata(&w, NULL, &(struct fl_kube_meta_more){.initial_end = &is}) == 0 && is;
}
