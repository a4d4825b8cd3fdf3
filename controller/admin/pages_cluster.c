/* what only a cluster has: watches, leadership, annotations, services from slices */
#include "controller/admin/pages.h"

#define SPACES_BYTES_MAX ((size_t)16 << 20)

/* ---- membership, whatever its source ---- */

static struct fl_kube_watch_view watch_of(const struct fl_admin_view *v, unsigned resource)
{
    struct fl_kube_watch_view w;
    fl_kube_source_watch(fl_cluster_source(v->cluster), (enum fl_kube_resource)resource, &w);
    return w;
}

bool fl_pages_known(const struct fl_admin_view *v)
{
    return v->cluster != NULL ? fl_kube_source_known(fl_cluster_source(v->cluster))
                              : v->services != NULL;
}

int64_t fl_pages_age_ms(const struct fl_admin_view *v)
{
    return v->cluster != NULL ? watch_of(v, FL_KUBE_SLICES).age_ms : v->file_age_ms;
}

bool fl_pages_fault(const struct fl_admin_view *v, char text[FL_PAGES_FAULT_MAX])
{
    struct fl_fmt f = fl_fmt_of(text, FL_PAGES_FAULT_MAX);
    text[0] = '\0';
    if (v->cluster == NULL) {
        fl_fmt_text(&f, v->file_fault);
        return text[0] != '\0';
    }
    for (unsigned i = 0; i < FL_KUBE_RESOURCES; i++) {
        struct fl_kube_watch_view w = watch_of(v, i);
        if (w.failing) {
            fl_fmt_printf(&f, "%s%s", f.len > 0 ? "; " : "", w.fault.text);
        }
    }
    return text[0] != '\0';
}

/* ---- metrics ---- */

static void put_watches(struct fl_fmt *out, const struct fl_admin_view *v)
{
    fl_pages_metric_head(out, "watch_age_seconds", "gauge",
                         "Since the API server was last heard on this watch.");
    for (unsigned i = 0; i < FL_KUBE_RESOURCES; i++) {
        struct fl_kube_watch_view w = watch_of(v, i);
        fl_fmt_printf(out, "fairlead_controller_watch_age_seconds{resource=\"%s\"} ", w.resource);
        fl_fmt_secs(out, w.age_ms * 1000);
        fl_fmt_char(out, '\n');
    }
    fl_pages_metric_head(out, "watch_restarts_total", "counter",
                         "Lists and watches that ended, by why.");
    for (unsigned i = 0; i < FL_KUBE_RESOURCES; i++) {
        struct fl_kube_watch_view w = watch_of(v, i);
        for (unsigned e = 0; e < FL_WATCH_END_COUNT; e++) {
            fl_fmt_printf(
                out,
                "fairlead_controller_watch_restarts_total{resource=\"%s\",reason=\"%s\"} %llu\n",
                w.resource, fl_watch_end_token((enum fl_watch_end)e),
                (unsigned long long)w.ends[e]);
        }
    }
}

struct space { /* a namespace with errors, which is one series a kind */
    const char *name;
    struct space *next;
    uint64_t sums[FL_ANNOTATION_FAULT_COUNT];
};

struct spaces {
    struct fl_arena arena;
    struct fl_smap by_name;
    struct space *first, **last;
};

/* NULL: no memory, this namespace is not counted. */
static struct space *space_of(struct spaces *all, const char *name)
{
    struct space *one = fl_smap_get(&all->by_name, fl_span_of(name));
    if (one != NULL) {
        return one;
    }
    one = fl_arena_alloc(&all->arena, sizeof(*one));
    if (one == NULL || fl_smap_put(&all->by_name, fl_span_of(name), one) < 0) {
        return NULL;
    }
    *one = (struct space){.name = name};
    *all->last = one;
    all->last = &one->next;
    return one;
}

static void sum_faults(struct spaces *all, const struct fl_admin_view *v)
{
    const struct fl_pod_overlay *o;
    const struct fl_group *at = NULL;
    uint32_t pods;
    while ((o = fl_delivery_next_overlay(v->delivery, &at, &pods)) != NULL) {
        struct space *one = o->errors > 0 ? space_of(all, o->namespace) : NULL;
        for (unsigned i = 0; one != NULL && i < FL_ANNOTATION_FAULT_COUNT; i++) {
            one->sums[i] += (uint64_t)o->faults[i] * pods;
        }
    }
}

static void put_annotation_errors(struct fl_fmt *out, const struct fl_admin_view *v)
{
    struct spaces all = {.last = &all.first};
    fl_arena_init(&all.arena, SPACES_BYTES_MAX);
    fl_smap_init(&all.by_name, (uint64_t)v->now_ms);
    sum_faults(&all, v);
    fl_pages_metric_head(out, "annotation_errors", "gauge",
                         "Errors in the annotations of pods that have our sidecar, by kind.");
    for (const struct space *one = all.first; one != NULL; one = one->next) {
        for (unsigned i = 0; i < FL_ANNOTATION_FAULT_COUNT; i++) {
            if (one->sums[i] > 0) {
                fl_fmt_printf(
                    out,
                    "fairlead_controller_annotation_errors{namespace=\"%s\",reason=\"%s\"} %llu\n",
                    one->name, fl_annotation_fault_token((enum fl_annotation_fault)i),
                    (unsigned long long)one->sums[i]);
            }
        }
    }
    fl_smap_done(&all.by_name);
    fl_arena_done(&all.arena);
}

void fl_pages_cluster_metrics(struct fl_fmt *out, const struct fl_admin_view *v)
{
    put_watches(out, v);
    put_annotation_errors(out, v);
    fl_cluster_metrics(v->cluster, out);
}

/* ---- services ---- */

void fl_pages_put_services(struct fl_json *j, const struct fl_admin_view *v)
{
    const struct fl_slices *slices = fl_kube_source_slices(fl_cluster_source(v->cluster));
    struct fl_slices_service one;
    char fault[FL_PAGES_FAULT_MAX];
    (void)fl_pages_fault(v, fault);
    fl_json_text(j, "source", "kubernetes");
    fl_json_secs(j, "age_secs", fl_pages_age_ms(v));
    fl_json_text(j, "error", fault);
    fl_json_open(j, "services", '[');
    for (size_t at = 0; fl_slices_next(slices, &at, &one);) {
        fl_json_open(j, NULL, '{');
        fl_json_text(j, "namespace", one.namespace);
        fl_json_text(j, "name", one.name);
        fl_json_int(j, "slices", one.slices);
        fl_json_int(j, "endpoints", one.endpoints);
        fl_json_int(j, "ready", one.ready);
        fl_json_bool(j, "held", one.held);
        fl_json_close(j, '}');
    }
    fl_json_close(j, ']');
}
