/* pods to groups and targets */
#include <stdlib.h>
#include <string.h>

#include "controller/codec/pod_config.h"
#include "controller/decide/pod_keep.h"
#include "controller/delivery/delivery_inner.h"

#define STATUS_PORT 8422 /* of a sidecar; annotations cannot change it */

struct groups { /* those of before, while pods find theirs */
    struct fl_list *list;
    struct fl_smap *by_key;
};

static void drop(struct groups *from, struct fl_group *g)
{
    (void)fl_smap_remove(from->by_key, fl_span_of(g->key));
    fl_list_remove(&g->node);
    fl_pod_overlay_free(g->overlay);
    free(g);
}

static void drop_all(struct groups *from)
{
    fl_list_each_safe (it, next, from->list) {
        drop(from, fl_container_of(it, struct fl_group, node));
    }
}

void fl_delivery_drop_groups(struct fl_delivery *d)
{
    struct groups all = {&d->groups, &d->by_key};
    drop_all(&all);
}

static struct fl_group *find(const struct fl_smap *by_key, const char *key)
{
    return fl_smap_get(by_key, fl_span_of(key));
}

static struct fl_pod_overlay *read_annotations(const struct fl_delivery *d,
                                               const struct fl_kube_pod *pod)
{
    return fl_pod_config_read(d->config, pod->meta.namespace, pod->annotations,
                              pod->annotation_count);
}

/* Takes the overlay over. NULL: no memory; the pod's sidecar keeps what it has, and it is met again
 * with the next change. */
static struct fl_group *add(struct fl_delivery *d, const char *key, struct fl_pod_overlay *overlay)
{
    struct fl_group *g = calloc(1, sizeof(*g));
    if (g != NULL) {
        struct fl_fmt f = fl_fmt_of(g->key, sizeof(g->key));
        fl_fmt_text(&f, key);
        fl_list_init(&g->node);
        g->overlay = overlay;
    }
    if (g == NULL || overlay == NULL || fl_smap_put(&d->by_key, fl_span_of(g->key), g) < 0) {
        fl_pod_overlay_free(overlay);
        free(g);
        return NULL;
    }
    fl_list_append(&d->groups, &g->node);
    return g;
}

/* A bad edit of a pod that had good routes: it gets a group of its own that keeps them. NULL: there
 * is nothing to keep. */
static struct fl_group *keep(struct fl_delivery *d, const struct fl_kube_pod *pod, const char *key,
                             const struct fl_group *had)
{
    char own[FL_GROUP_KEY_MAX];
    struct fl_fmt f = fl_fmt_of(own, sizeof(own));
    fl_fmt_printf(&f, "%s/%s", key, pod->meta.uid);
    if (find(&d->by_key, own) != NULL) {
        return find(&d->by_key, own);
    }
    struct fl_pod_overlay *fresh = read_annotations(d, pod);
    if (f.cut || fresh == NULL || fl_pod_keep(d->config, fresh, had->overlay) <= 0) {
        fl_pod_overlay_free(fresh);
        return NULL;
    }
    return add(d, own, fresh);
}

/* The group of a pod whose configuration is `key`. before: what it was pushed so far; NULL: it is
 * new. */
static struct fl_group *group_of(struct fl_delivery *d, const struct groups *old,
                                 const struct fl_kube_pod *pod, const char *key,
                                 const struct fl_fanout_view *before)
{
    struct fl_group *g = find(&d->by_key, key);
    g = g != NULL ? g : add(d, key, read_annotations(d, pod));
    if (g == NULL || g->overlay->errors == 0 || before == NULL ||
        strcmp(before->configuration, key) == 0) {
        return g;
    }
    const struct fl_group *had = find(old->by_key, before->configuration);
    struct fl_group *own = had != NULL ? keep(d, pod, key, had) : NULL;
    return own != NULL ? own : g;
}

static void write_address(const char *ip, char ret[FL_ADDR_TEXT_MAX])
{
    struct fl_fmt f = fl_fmt_of(ret, FL_ADDR_TEXT_MAX);
    fl_fmt_printf(&f, strchr(ip, ':') != NULL ? "[%s]:%d" : "%s:%d", ip, STATUS_PORT);
}

/* Followers keep it to their own log. */
static void say_wrong(const struct fl_delivery *d, const struct fl_kube_pod *pod,
                      const struct fl_pod_overlay *o)
{
    char said[FL_POD_OVERLAY_SAID_MAX];
    struct fl_log_line l;
    fl_pod_overlay_say(o, said);
    fl_log_begin(d->conf.log, &l, FL_LOG_WARN, "invalid annotation");
    fl_log_text(&l, "namespace", pod->meta.namespace);
    fl_log_text(&l, "pod", pod->meta.name);
    fl_log_text(&l, "cause", said);
    fl_log_end(d->conf.log, &l);
    if (d->conf.annotation_news != NULL && fl_fanout_leads(d->fanout)) {
        d->conf.annotation_news(d->conf.arg, pod, said);
    }
}

void fl_delivery_tell_wrong(const struct fl_delivery *d, const struct fl_pods *pods)
{
    for (const struct fl_kube_pod *p = fl_pods_next(pods, NULL); p != NULL;
         p = fl_pods_next(pods, p)) {
        char address[FL_ADDR_TEXT_MAX], said[FL_POD_OVERLAY_SAID_MAX];
        struct fl_fanout_view is;
        write_address(p->ip, address);
        if (!fl_fanout_find(d->fanout, address, p->meta.uid, &is)) {
            continue;
        }
        const struct fl_group *g = find(&d->by_key, is.configuration);
        if (g != NULL && g->overlay->errors > 0 && d->conf.annotation_news != NULL) {
            fl_pod_overlay_say(g->overlay, said);
            d->conf.annotation_news(d->conf.arg, p, said);
        }
    }
}

/* The same annotations, before the controller's configuration was replaced. */
static bool was_right(const struct groups *old, const char *key)
{
    const struct fl_group *was = find(old->by_key, key);
    return was != NULL && was->overlay->errors == 0;
}

struct targets {
    struct fl_fanout_target *items;
    char (*addresses)[FL_ADDR_TEXT_MAX];
    uint32_t count;
};

static void add_target(struct fl_delivery *d, const struct groups *old,
                       const struct fl_kube_pod *pod, struct targets *t)
{
    char key[FL_POD_CONFIGURATION_MAX];
    char *address = t->addresses[t->count];
    struct fl_fanout_view before;
    struct fl_group *g = NULL;
    write_address(pod->ip, address);
    bool met = fl_fanout_find(d->fanout, address, pod->meta.uid, &before);
    fl_pods_configuration(pod, key);
    if (key[0] != '\0' && (g = group_of(d, old, pod, key, met ? &before : NULL)) == NULL) {
        return;
    }
    t->items[t->count++] = (struct fl_fanout_target){
        .address = address,
        .id = pod->meta.uid,
        .namespace = pod->meta.namespace,
        .name = pod->meta.name,
        .node = pod->node,
        .configuration = g != NULL ? g->key : "",
        .eager = pod->gate == FL_GATE_FALSE,
    };
    if (g == NULL) {
        return;
    }
    g->pods++;
    if (g->overlay->errors > 0 &&
        (!met || strcmp(before.configuration, g->key) != 0 || was_right(old, g->key))) {
        say_wrong(d, pod, g->overlay);
    }
}

/* False: no memory, the targets stay as they are. */
static bool collect(struct fl_delivery *d, const struct groups *old, const struct fl_pods *pods)
{
    uint32_t most = fl_pods_count(pods);
    struct targets t = {calloc((size_t)most + 1, sizeof(*t.items)),
                        calloc((size_t)most + 1, sizeof(*t.addresses)), 0};
    bool fits = t.items != NULL && t.addresses != NULL;
    for (const struct fl_kube_pod *p = fl_pods_next(pods, NULL); fits && p != NULL;
         p = fl_pods_next(pods, p)) {
        if (fl_pods_is_target(p)) {
            add_target(d, old, p, &t);
        }
    }
    fits = fits && fl_fanout_set_targets(d->fanout, t.items, t.count) == 0;
    free(t.items);
    free(t.addresses);
    return fits;
}

static bool drop_unused(struct fl_delivery *d)
{
    struct groups all = {&d->groups, &d->by_key};
    bool some = false;
    fl_list_each_safe (it, next, &d->groups) {
        struct fl_group *g = fl_container_of(it, struct fl_group, node);
        if (g->pods == 0) {
            drop(&all, g);
            some = true;
        }
    }
    return some;
}

bool fl_delivery_regroup(struct fl_delivery *d, const struct fl_pods *pods, bool configured)
{
    bool gone = configured;
    struct fl_list before_list;
    struct fl_smap before_keys = d->by_key;
    struct groups old = {&d->groups, &d->by_key};
    fl_list_init(&before_list);
    if (configured) { /* read anew: names of backends may mean something else */
        old = (struct groups){&before_list, &before_keys};
        fl_list_each_safe (it, next, &d->groups) {
            fl_list_remove(it);
            fl_list_append(&before_list, it);
        }
        fl_smap_init(&d->by_key, d->conf.seed);
    }
    fl_list_each (it, &d->groups) {
        fl_container_of(it, struct fl_group, node)->pods = 0;
    }
    if (collect(d, &old, pods)) {
        gone |= drop_unused(d);
    } else {
        struct fl_log_line l;
        fl_log_begin(d->conf.log, &l, FL_LOG_ERROR, "some sidecars are not pushed to");
        fl_log_text(&l, "cause", "out of memory");
        fl_log_end(d->conf.log, &l);
    }
    if (configured) {
        drop_all(&old);
        fl_smap_done(&before_keys);
    }
    return gone;
}
