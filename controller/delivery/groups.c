/* pods to groups and targets */
#include <stdlib.h>
#include <string.h>

#include "controller/codec/pod_config.h"
#include "controller/delivery/delivery_inner.h"

#define STATUS_PORT 8422 /* of a sidecar; annotations cannot change it */

static void drop(struct fl_delivery *d, struct fl_group *g)
{
    (void)fl_smap_remove(&d->by_key, fl_span_of(g->key));
    fl_list_remove(&g->node);
    fl_pod_overlay_free(g->overlay);
    free(g);
}

void fl_delivery_drop_groups(struct fl_delivery *d)
{
    fl_list_each_safe (it, next, &d->groups) {
        drop(d, fl_container_of(it, struct fl_group, node));
    }
}

static struct fl_group *find(const struct fl_delivery *d, const char *key)
{
    return fl_smap_get(&d->by_key, fl_span_of(key));
}

/* NULL: no memory; the pod's sidecar keeps what it has, and it is met again with the next change.
 */
static struct fl_group *add(struct fl_delivery *d, const char *key, const struct fl_kube_pod *pod)
{
    struct fl_group *g = calloc(1, sizeof(*g));
    if (g == NULL) {
        return NULL;
    }
    memcpy(g->key, key, strlen(key) + 1);
    fl_list_init(&g->node);
    g->overlay =
        fl_pod_config_read(d->config, pod->meta.namespace, pod->annotations, pod->annotation_count);
    if (g->overlay == NULL || fl_smap_put(&d->by_key, fl_span_of(g->key), g) < 0) {
        fl_pod_overlay_free(g->overlay);
        free(g);
        return NULL;
    }
    fl_list_append(&d->groups, &g->node);
    return g;
}

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
    if (d->conf.annotation_news != NULL) {
        d->conf.annotation_news(d->conf.arg, pod, said);
    }
}

static void write_address(const char *ip, char ret[FL_ADDR_TEXT_MAX])
{
    struct fl_fmt f = fl_fmt_of(ret, FL_ADDR_TEXT_MAX);
    fl_fmt_printf(&f, strchr(ip, ':') != NULL ? "[%s]:%d" : "%s:%d", ip, STATUS_PORT);
}

/* Is it new that this pod has these annotations? */
static bool is_news(const struct fl_delivery *d, const struct fl_fanout_target *t)
{
    struct fl_fanout_view before;
    return !fl_fanout_find(d->fanout, t->address, t->id, &before) ||
           strcmp(before.configuration, t->configuration) != 0;
}

struct targets {
    struct fl_fanout_target *items;
    char (*addresses)[FL_ADDR_TEXT_MAX];
    uint32_t count;
};

static void add_target(struct fl_delivery *d, const struct fl_kube_pod *pod, bool configured,
                       struct targets *t)
{
    char key[FL_POD_CONFIGURATION_MAX];
    fl_pods_configuration(pod, key);
    struct fl_group *g = key[0] != '\0' ? find(d, key) : NULL;
    if (key[0] != '\0' && g == NULL && (g = add(d, key, pod)) == NULL) {
        return;
    }
    struct fl_fanout_target *to = &t->items[t->count];
    write_address(pod->ip, t->addresses[t->count]);
    *to = (struct fl_fanout_target){
        .address = t->addresses[t->count],
        .id = pod->meta.uid,
        .namespace = pod->meta.namespace,
        .name = pod->meta.name,
        .node = pod->node,
        .configuration = g != NULL ? g->key : "",
        .eager = pod->gate == FL_GATE_FALSE,
    };
    t->count++;
    if (g == NULL) {
        return;
    }
    g->pods++;
    if (g->overlay->errors > 0 && (configured || is_news(d, to))) {
        say_wrong(d, pod, g->overlay);
    }
}

void fl_delivery_regroup(struct fl_delivery *d, const struct fl_pods *pods, bool configured)
{
    uint32_t most = fl_pods_count(pods);
    struct targets t = {calloc((size_t)most + 1, sizeof(*t.items)),
                        calloc((size_t)most + 1, sizeof(*t.addresses)), 0};
    if (configured) {
        fl_delivery_drop_groups(d); /* read anew: names of backends may mean something else */
    }
    fl_list_each (it, &d->groups) {
        fl_container_of(it, struct fl_group, node)->pods = 0;
    }
    bool fits = t.items != NULL && t.addresses != NULL;
    for (const struct fl_kube_pod *p = fl_pods_next(pods, NULL); fits && p != NULL;
         p = fl_pods_next(pods, p)) {
        if (fl_pods_is_target(p)) {
            add_target(d, p, configured, &t);
        }
    }
    if (!fits || fl_fanout_set_targets(d->fanout, t.items, t.count) < 0) {
        struct fl_log_line l;
        fl_log_begin(d->conf.log, &l, FL_LOG_ERROR, "some sidecars are not pushed to");
        fl_log_text(&l, "cause", "out of memory");
        fl_log_end(d->conf.log, &l);
    }
    fl_list_each_safe (it, next, &d->groups) {
        struct fl_group *g = fl_container_of(it, struct fl_group, node);
        if (fits && g->pods == 0) {
            drop(d, g);
        }
    }
    free(t.items);
    free(t.addresses);
}
