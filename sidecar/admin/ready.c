#include "sidecar/admin/ready.h"

#include "common/base/json.h"
#include "sidecar/admin/control_inner.h"

#define LIVE_MS 10000

void fl_ready_live(struct fl_mhd_call *call, void *arg)
{
    struct fl_control *c = arg;
    struct fl_engine_gauges g = {0};
    int64_t turned_ms = fl_control_now_ms(c); /* before the threads run there is nothing to judge */
    if (c->engine != NULL) {
        fl_engine_gauges(c->engine, &g);
        turned_ms = g.oldest_turn_ms;
    }
    bool live = fl_control_now_ms(c) - turned_ms < LIVE_MS;
    fl_mhd_reply_static(call, live ? 200 : 503, "application/json",
                        live ? FL_SPAN("{\"status\":\"live\"}\n")
                             : FL_SPAN("{\"status\":\"stuck\"}\n"));
}

static void write_started(struct fl_fmt *out, void *arg)
{
    const struct fl_control *c = arg;
    bool started = fl_control_started(c);
    struct fl_json j = {out, false};
    fl_json_open(&j, NULL, '{');
    fl_json_text(&j, "status", started ? "started" : "starting");
    fl_json_int(&j, "start_wait_ms", c->file->start_wait_ms);
    fl_json_open(&j, "waiting_for", '[');
    for (uint32_t i = 0; !started && i < c->current->backend_count; i++) {
        const struct fl_snap_backend *b = &c->current->backends[i];
        if (b->conf->service.name[0] != '\0' && !b->has_members) {
            fl_json_text(&j, NULL, b->conf->name);
        }
    }
    fl_json_close(&j, ']');
    fl_json_close(&j, '}');
    fl_fmt_char(out, '\n');
}

void fl_ready_started(struct fl_mhd_call *call, void *arg)
{
    fl_mhd_reply_written(call, fl_control_started(arg) ? 200 : 503, "application/json",
                         write_started, arg);
}

static const char *status_of(const struct fl_control *c, bool degraded)
{
    return c->draining ? "draining" : degraded ? "degraded" : "ready";
}

static void write_ready(struct fl_fmt *out, void *arg)
{
    const struct fl_control *c = arg;
    uint32_t blocked = 0;
    bool degraded = false;
    for (uint32_t i = 0; i < c->current->backend_count; i++) {
        struct fl_verdict v;
        fl_control_backend_verdict(c, &c->current->backends[i], &v);
        blocked += fl_verdict_blocks(v.status);
        degraded |= v.status != FL_VERDICT_HEALTHY && v.status != FL_VERDICT_UNKNOWN;
    }
    bool all = blocked > 0 && blocked == c->current->backend_count;
    struct fl_json j = {out, false};
    fl_json_open(&j, NULL, '{');
    fl_json_text(&j, "status", status_of(c, degraded));
    fl_json_text(&j, "backend", all ? "unavailable" : "ready");
    fl_json_text(&j, "config", "ready"); /* a process without one does not run */
    fl_json_text(&j, "membership", fl_push_membership(c));
    fl_json_open(&j, "backends", '{');
    for (uint32_t i = 0; i < c->current->backend_count; i++) {
        const struct fl_snap_backend *b = &c->current->backends[i];
        struct fl_verdict v;
        fl_control_backend_verdict(c, b, &v);
        fl_json_text(&j, b->conf->name, fl_verdict_status_name(v.status));
    }
    fl_json_close(&j, '}');
    fl_json_close(&j, '}');
    fl_fmt_char(out, '\n');
}

void fl_ready_handle(struct fl_mhd_call *call, void *arg)
{
    const struct fl_control *c = arg;
    fl_mhd_reply_written(call, c->draining ? 503 : 200, "application/json", write_ready, arg);
}
