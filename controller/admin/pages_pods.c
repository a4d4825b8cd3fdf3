/* sidecars and services */
#include <string.h>

#include "common/base/json.h"
#include "controller/admin/pages.h"
#include "controller/decide/members.h"

static void put_observations(struct fl_json *j, const struct fl_fanout_view *s)
{
    fl_json_open(j, "observations", '[');
    for (uint32_t i = 0; i < s->observation_count; i++) {
        const struct fl_observation *o = &s->observations[i];
        fl_json_open(j, NULL, '{');
        fl_json_text(j, "backend", o->backend);
        fl_json_text(j, "peer", o->peer);
        fl_json_text(j, "code", o->cause.code);
        fl_json_text(j, "cause", o->cause.text);
        fl_json_time(j, "since", o->since_unix_ms);
        fl_json_int(j, "failures", (int64_t)o->failures);
        fl_json_int(j, "requests", (int64_t)o->requests);
        fl_json_close(j, '}');
    }
    fl_json_close(j, ']');
}

static void put_annotations(struct fl_json *j, const struct fl_pod_overlay *o)
{
    fl_json_bool(j, "config_ok", o == NULL || o->errors == 0);
    fl_json_open(j, "config_findings", '[');
    for (const struct fl_annotation_finding *f = o != NULL ? o->first : NULL; f != NULL;
         f = f->next) {
        fl_json_text(j, NULL, f->text);
    }
    fl_json_close(j, ']');
}

static void put_pod(struct fl_json *j, const struct fl_admin_view *v,
                    const struct fl_fanout_view *s)
{
    fl_json_open(j, NULL, '{');
    fl_json_text(j, "address", s->address);
    fl_json_text(j, "id", s->id);
    fl_json_text(j, "namespace", s->namespace);
    fl_json_text(j, "name", s->name);
    fl_json_text(j, "node", s->node);
    fl_json_text(j, "configuration", s->configuration);
    fl_json_text(j, "state", fl_pages_sidecar_word(fl_pages_sidecar_state(s)));
    fl_json_int(j, "epoch", s->acked_epoch);
    fl_json_int(j, "seq", s->acked_seq);
    fl_json_time(j, "acked_at", s->acked_unix_ms);
    fl_json_secs(j, "lag_secs", s->lag_ms);
    fl_json_int(j, "failures", s->failures);
    fl_json_open(j, "last_error", '{');
    fl_json_text(j, "code", s->error->code);
    fl_json_text(j, "cause", s->error->text);
    fl_json_text(j, "hint", s->hint);
    fl_json_close(j, '}');
    put_observations(j, s);
    put_annotations(j, fl_delivery_overlay(v->delivery, s->configuration));
    fl_json_close(j, '}');
}

static void write_pods(struct fl_fmt *out, void *arg)
{
    const struct fl_admin_view *v = arg;
    struct fl_json j = {out, false};
    fl_json_open(&j, NULL, '{');
    fl_json_open(&j, "pods", '[');
    for (uint32_t i = 0; i < fl_fanout_count(v->fanout); i++) {
        struct fl_fanout_view s;
        fl_fanout_view(v->fanout, i, &s);
        put_pod(&j, v, &s);
    }
    fl_json_close(&j, ']');
    fl_json_close(&j, '}');
    fl_fmt_char(out, '\n');
}

void fl_pages_pods(struct fl_mhd_call *call, void *arg)
{
    struct fl_admin_view v = fl_pages_look(arg);
    fl_mhd_reply_written(call, 200, "application/json", write_pods, &v);
}

/* ---- services ---- */

static const char *use_of(const struct fl_service_endpoint *e)
{
    enum fl_tier tier;
    enum fl_maybe ready = e->ready ? FL_MAYBE_TRUE : FL_MAYBE_FALSE;
    enum fl_maybe serving = e->serving ? FL_MAYBE_TRUE : FL_MAYBE_FALSE;
    enum fl_maybe ends = e->terminating ? FL_MAYBE_TRUE : FL_MAYBE_FALSE;
    if (!fl_members_tier(ready, serving, ends, &tier)) {
        return "out";
    }
    return tier == FL_TIER_PRIMARY ? "primary" : "last_resort";
}

static void put_service(struct fl_json *j, const struct fl_service *s)
{
    fl_json_open(j, NULL, '{');
    fl_json_text(j, "namespace", s->namespace);
    fl_json_text(j, "name", s->name);
    fl_json_open(j, "ports", '{');
    for (uint32_t i = 0; i < s->port_count; i++) {
        fl_json_int(j, s->ports[i].name, s->ports[i].number);
    }
    fl_json_close(j, '}');
    fl_json_open(j, "endpoints", '[');
    for (uint32_t i = 0; i < s->endpoint_count; i++) {
        const struct fl_service_endpoint *e = &s->endpoints[i];
        fl_json_open(j, NULL, '{');
        fl_json_text(j, "address", e->address);
        fl_json_bool(j, "ready", e->ready);
        fl_json_bool(j, "serving", e->serving);
        fl_json_bool(j, "terminating", e->terminating);
        fl_json_text(j, "zone", e->zone);
        fl_json_text(j, "tier", use_of(e));
        fl_json_close(j, '}');
    }
    fl_json_close(j, ']');
    fl_json_close(j, '}');
}

static void put_file(struct fl_json *j, const struct fl_admin_view *v)
{
    fl_json_text(j, "source", "file");
    fl_json_text(j, "file", v->config->source_file);
    fl_json_time(j, "read_at", v->file_read_unix_ms);
    fl_json_secs(j, "age_secs", v->file_age_ms);
    fl_json_text(j, "error", v->file_fault);
    fl_json_open(j, "services", '[');
    for (uint32_t i = 0; v->services != NULL && i < v->services->count; i++) {
        put_service(j, &v->services->items[i]);
    }
    fl_json_close(j, ']');
}

static void write_services(struct fl_fmt *out, void *arg)
{
    const struct fl_admin_view *v = arg;
    struct fl_json j = {out, false};
    fl_json_open(&j, NULL, '{');
    if (v->cluster != NULL) {
        fl_pages_put_services(&j, v);
    } else {
        put_file(&j, v);
    }
    fl_json_close(&j, '}');
    fl_fmt_char(out, '\n');
}

void fl_pages_services(struct fl_mhd_call *call, void *arg)
{
    struct fl_admin_view v = fl_pages_look(arg);
    fl_mhd_reply_written(call, 200, "application/json", write_services, &v);
}
