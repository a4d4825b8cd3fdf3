/* what only a cluster has: watches, leadership, annotations, services from slices */
#include <string.h>

#include "controller/admin/pages.h"

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

/* Groups of one namespace are one series: summed up at the first of them that has errors. */
static bool sum_faults(const struct fl_admin_view *v, const struct fl_pod_overlay *first,
                       uint64_t sums[FL_ANNOTATION_FAULT_COUNT])
{
    const struct fl_pod_overlay *o;
    const struct fl_group *at = NULL;
    uint32_t pods;
    bool met = false;
    memset(sums, 0, FL_ANNOTATION_FAULT_COUNT * sizeof(*sums));
    while ((o = fl_delivery_next_overlay(v->delivery, &at, &pods)) != NULL) {
        if (o->errors == 0 || strcmp(o->namespace, first->namespace) != 0) {
            continue;
        }
        if (!met && o != first) {
            return false;
        }
        met = true;
        for (unsigned i = 0; i < FL_ANNOTATION_FAULT_COUNT; i++) {
            sums[i] += (uint64_t)o->faults[i] * pods;
        }
    }
    return met;
}

static void put_annotation_errors(struct fl_fmt *out, const struct fl_admin_view *v)
{
    const struct fl_pod_overlay *o;
    const struct fl_group *at = NULL;
    uint64_t sums[FL_ANNOTATION_FAULT_COUNT];
    uint32_t pods;
    fl_pages_metric_head(out, "annotation_errors", "gauge",
                         "Errors in the annotations of pods that have our sidecar, by kind.");
    while ((o = fl_delivery_next_overlay(v->delivery, &at, &pods)) != NULL) {
        if (o->errors == 0 || !sum_faults(v, o, sums)) {
            continue;
        }
        for (unsigned i = 0; i < FL_ANNOTATION_FAULT_COUNT; i++) {
            if (sums[i] > 0) {
                fl_fmt_printf(
                    out,
                    "fairlead_controller_annotation_errors{namespace=\"%s\",reason=\"%s\"} %llu\n",
                    o->namespace, fl_annotation_fault_token((enum fl_annotation_fault)i),
                    (unsigned long long)sums[i]);
            }
        }
    }
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
