/* Test connection, and the metrics of probes */
#include <stdlib.h>
#include <string.h>

#include "controller/admin/pages.h"
#include "controller/decide/backend_verdict.h"

struct wait {
    struct fl_list node;
    struct fl_mhd_call *call;
    uint64_t ticket;
    char backend[];
};

void fl_admin_init(struct fl_admin *admin, fl_admin_look_fn *look, fl_admin_ask_fn *ask, void *arg)
{
    admin->look = look;
    admin->ask = ask;
    admin->arg = arg;
    fl_list_init(&admin->waits);
}

static void forget(struct wait *w)
{
    fl_list_remove(&w->node);
    free(w);
}

void fl_admin_done(struct fl_admin *admin)
{
    fl_list_each_safe (it, next, &admin->waits) {
        forget(fl_container_of(it, struct wait, node));
    }
}

bool fl_admin_waits(const struct fl_admin *admin)
{
    return !fl_list_empty(&admin->waits);
}

void fl_admin_answer_waits(struct fl_admin *admin)
{
    struct fl_admin_view v = fl_pages_look(admin);
    fl_list_each_safe (it, next, &admin->waits) {
        struct wait *w = fl_container_of(it, struct wait, node);
        if (!fl_cluster_prober_asked(v.prober, w->backend, w->ticket)) {
            fl_pages_backend(w->call, &v, w->backend);
            forget(w);
        }
    }
}

void fl_pages_probe(struct fl_mhd_call *call, void *arg)
{
    struct fl_admin *admin = arg;
    struct fl_admin_view v = fl_pages_look(admin);
    struct fl_span name = fl_mhd_segment(call, 0); /* NUL-terminated by the bridge */
    struct fl_delivery_backend one;
    if (!fl_pages_find(&v, name.ptr, &one)) {
        fl_pages_backend(call, &v, name.ptr); /* says so */
        return;
    }
    struct wait *w = calloc(1, sizeof(*w) + name.len + 1);
    if (w == NULL) {
        fl_mhd_problem(call, 503, "local_resource", "out of memory");
        return;
    }
    memcpy(w->backend, name.ptr, name.len);
    w->call = call;
    w->ticket = admin->ask(admin->arg, w->backend);
    if (!fl_cluster_prober_asked(v.prober, w->backend, w->ticket)) { /* nothing is probed there */
        fl_pages_backend(call, &v, w->backend);
        free(w);
        return;
    }
    fl_list_append(&admin->waits, &w->node);
    fl_mhd_suspend(call);
}

/* ---- metrics ---- */

static const enum fl_verdict_status statuses[] = {FL_VERDICT_UNKNOWN, FL_VERDICT_HEALTHY,
                                                  FL_VERDICT_UNREACHABLE, FL_VERDICT_AUTH_REJECTED,
                                                  FL_VERDICT_ERRORING};

static void put(struct fl_fmt *out, const char *name, const char *label, const char *backend,
                enum fl_verdict_status status, uint64_t value)
{
    fl_fmt_printf(out, "fairlead_controller_%s{backend=\"%s\",%s=\"%s\"} %llu\n", name, backend,
                  label, fl_verdict_status_name(status), (unsigned long long)value);
}

void fl_pages_probe_metrics(struct fl_fmt *out, const struct fl_admin_view *v)
{
    struct fl_delivery_backend one;
    fl_pages_metric_head(out, "probes_total", "counter",
                         "Probes of a backend's peers by what they found.");
    for (size_t at = 0; fl_delivery_next(v->delivery, &at, &one);) {
        uint64_t by_status[FL_COUNTOF(statuses)];
        if (fl_cluster_prober_counts(v->prober, one.subject, by_status)) {
            for (size_t k = 0; k < FL_COUNTOF(statuses); k++) {
                put(out, "probes_total", "result", one.subject, statuses[k],
                    by_status[statuses[k]]);
            }
        }
    }
    fl_pages_metric_head(out, "backend_state", "gauge",
                         "1 for the state that a backend is in, as the controller sees it.");
    for (size_t at = 0; fl_delivery_next(v->delivery, &at, &one);) {
        struct fl_derived d;
        fl_backend_verdict(v->verdicts, one.subject, one.b, &d);
        for (size_t k = 0; k < FL_COUNTOF(statuses); k++) {
            put(out, "backend_state", "state", one.subject, statuses[k],
                d.verdict.status == statuses[k]);
        }
    }
}
