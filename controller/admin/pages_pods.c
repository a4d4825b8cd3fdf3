/* sidecars and services */
#include <string.h>

#include "controller/admin/page.h"
#include "controller/admin/pages.h"
#include "controller/decide/members.h"

static void put_observations(struct fl_page *p, const struct fl_fanout_view *s)
{
    fl_page_open(p, "observations", '[');
    for (uint32_t i = 0; i < s->observation_count; i++) {
        const struct fl_observation *o = &s->observations[i];
        fl_page_open(p, NULL, '{');
        fl_page_text(p, "backend", o->backend);
        fl_page_text(p, "peer", o->peer);
        fl_page_text(p, "code", o->cause.code);
        fl_page_text(p, "cause", o->cause.text);
        fl_page_time(p, "since", o->since_unix_ms);
        fl_page_int(p, "failures", (int64_t)o->failures);
        fl_page_int(p, "requests", (int64_t)o->requests);
        fl_page_close(p, '}');
    }
    fl_page_close(p, ']');
}

static void put_pod(struct fl_page *p, const struct fl_fanout_view *s)
{
    fl_page_open(p, NULL, '{');
    fl_page_text(p, "address", s->address);
    fl_page_text(p, "id", s->id);
    fl_page_text(p, "state", fl_pages_sidecar_word(fl_pages_sidecar_state(s)));
    fl_page_int(p, "epoch", s->acked_epoch);
    fl_page_int(p, "seq", s->acked_seq);
    fl_page_time(p, "acked_at", s->acked_unix_ms);
    fl_page_secs(p, "lag_secs", s->lag_ms);
    fl_page_int(p, "failures", s->failures);
    fl_page_open(p, "last_error", '{');
    fl_page_text(p, "code", s->error->code);
    fl_page_text(p, "cause", s->error->text);
    fl_page_text(p, "hint", s->hint);
    fl_page_close(p, '}');
    put_observations(p, s);
    fl_page_close(p, '}');
}

static void write_pods(struct fl_fmt *out, void *arg)
{
    const struct fl_admin_view *v = arg;
    struct fl_page p = {out, false};
    fl_page_open(&p, NULL, '{');
    fl_page_open(&p, "pods", '[');
    for (uint32_t i = 0; i < fl_fanout_count(v->fanout); i++) {
        struct fl_fanout_view s;
        fl_fanout_view(v->fanout, i, &s);
        put_pod(&p, &s);
    }
    fl_page_close(&p, ']');
    fl_page_close(&p, '}');
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
    enum fl_condition ready = e->ready ? FL_CONDITION_TRUE : FL_CONDITION_FALSE;
    enum fl_condition serving = e->serving ? FL_CONDITION_TRUE : FL_CONDITION_FALSE;
    enum fl_condition ends = e->terminating ? FL_CONDITION_TRUE : FL_CONDITION_FALSE;
    if (!fl_members_tier(ready, serving, ends, &tier)) {
        return "out";
    }
    return tier == FL_TIER_PRIMARY ? "primary" : "last_resort";
}

static void put_service(struct fl_page *p, const struct fl_service *s)
{
    fl_page_open(p, NULL, '{');
    fl_page_text(p, "namespace", s->namespace);
    fl_page_text(p, "name", s->name);
    fl_page_open(p, "ports", '{');
    for (uint32_t i = 0; i < s->port_count; i++) {
        fl_page_int(p, s->ports[i].name, s->ports[i].number);
    }
    fl_page_close(p, '}');
    fl_page_open(p, "endpoints", '[');
    for (uint32_t i = 0; i < s->endpoint_count; i++) {
        const struct fl_service_endpoint *e = &s->endpoints[i];
        fl_page_open(p, NULL, '{');
        fl_page_text(p, "address", e->address);
        fl_page_bool(p, "ready", e->ready);
        fl_page_bool(p, "serving", e->serving);
        fl_page_bool(p, "terminating", e->terminating);
        fl_page_text(p, "zone", e->zone);
        fl_page_text(p, "tier", use_of(e));
        fl_page_close(p, '}');
    }
    fl_page_close(p, ']');
    fl_page_close(p, '}');
}

static void write_services(struct fl_fmt *out, void *arg)
{
    const struct fl_admin_view *v = arg;
    struct fl_page p = {out, false};
    fl_page_open(&p, NULL, '{');
    fl_page_text(&p, "source", "file");
    fl_page_text(&p, "file", v->config->source_file);
    fl_page_time(&p, "read_at", v->services_read_unix_ms);
    fl_page_secs(&p, "age_secs", v->services_age_ms);
    fl_page_text(&p, "error", v->services_fault);
    fl_page_open(&p, "services", '[');
    for (uint32_t i = 0; v->services != NULL && i < v->services->count; i++) {
        put_service(&p, &v->services->items[i]);
    }
    fl_page_close(&p, ']');
    fl_page_close(&p, '}');
    fl_fmt_char(out, '\n');
}

void fl_pages_services(struct fl_mhd_call *call, void *arg)
{
    struct fl_admin_view v = fl_pages_look(arg);
    fl_mhd_reply_written(call, 200, "application/json", write_services, &v);
}
