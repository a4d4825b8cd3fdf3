#include "sidecar/admin/routes.h"

#include "sidecar/admin/view.h"

static void put_policy(struct fl_json *j, const struct fl_snap_policy *p)
{
    fl_json_text(j, "backend", p->backend != NULL ? p->backend->conf->name : "");
    if (p->invalid[0] != '\0') {
        fl_json_text(j, "invalid", p->invalid);
    }
    fl_view_policy(j, p->conf);
}

static void put_route(struct fl_json *j, const struct fl_snap_route *r)
{
    fl_json_open(j, NULL, '{');
    fl_json_text(j, "bucket", r->conf->bucket);
    fl_json_text(j, "owner", r->conf->owner == FL_OWNER_CONTROLLER ? "controller" : "file");
    put_policy(j, &r->policy);
    fl_json_open(j, "paths", '[');
    for (uint32_t i = 0; i < r->path_count; i++) {
        fl_json_open(j, NULL, '{');
        fl_json_span(j, "prefix", r->paths[i].prefix);
        fl_json_bool(j, "exact", r->paths[i].exact);
        put_policy(j, &r->paths[i].policy);
        fl_json_close(j, '}');
    }
    fl_json_close(j, ']');
    fl_json_close(j, '}');
}

static void write_routes(struct fl_fmt *out, void *arg)
{
    const struct fl_control *c = arg;
    struct fl_json j = {out, false};
    fl_json_open(&j, NULL, '{');
    fl_json_open(&j, "routes", '[');
    for (uint32_t i = 0; i < c->current->route_count; i++) {
        put_route(&j, &c->current->routes[i]);
    }
    fl_json_close(&j, ']');
    fl_json_close(&j, '}');
    fl_fmt_char(out, '\n');
}

void fl_routes_list(struct fl_mhd_call *call, void *arg)
{
    fl_mhd_reply_written(call, 200, "application/json", write_routes, arg);
}
