#include "sidecar/admin/admin.h"

#include "sidecar/admin/backends.h"
#include "sidecar/admin/config_api.h"
#include "sidecar/admin/control_inner.h"
#include "sidecar/admin/explain.h"
#include "sidecar/admin/metrics.h"
#include "sidecar/admin/push.h"
#include "sidecar/admin/ready.h"
#include "sidecar/admin/routes.h"

#define STATUS_CONNECTIONS 64 /* contract: the status port is open to the cluster */
#define STATUS_PER_IP      8
#define STATUS_HEAD_MS     5000
#define ADMIN_CONNECTIONS  32 /* loopback: everybody has the same address */
#define ADMIN_HEAD_MS      10000
#define ORDER_MAX_BYTES    4096
#define CONFIG_MAX_BYTES   ((size_t)4 << 20)

// clang-format off
#define FOR_ALL                                                     \
    {"GET", "/_/live",    0, 0, NULL, fl_ready_live},               \
    {"GET", "/_/started", 0, 0, NULL, fl_ready_started},            \
    {"GET", "/_/ready",   0, 0, NULL, fl_ready_handle},             \
    {"GET", "/_/metrics", 0, 0, NULL, fl_metrics_handle}

static const struct fl_mhd_handler status_handlers[] = {
    FOR_ALL,
    {"PUT", FL_PUSH_PATH, 0, FL_PUSH_BODY_MAX_BYTES, fl_push_head, fl_push_handle},
};

static const struct fl_mhd_handler admin_handlers[] = {
    FOR_ALL,
    {"GET",  "/_/api/admin/backends",                 0,              0,                NULL, fl_backends_list},
    {"POST", "/_/api/admin/backends/*/probe",         FL_MHD_MUTATES, ORDER_MAX_BYTES,  NULL, fl_backends_probe},
    {"POST", "/_/api/admin/backends/*/peers/*/drain",   FL_MHD_MUTATES, ORDER_MAX_BYTES, NULL, fl_backends_drain},
    {"POST", "/_/api/admin/backends/*/peers/*/undrain", FL_MHD_MUTATES, ORDER_MAX_BYTES, NULL, fl_backends_undrain},
    {"GET",  "/_/api/admin/routes",                   0,              0,                NULL, fl_routes_list},
    {"GET",  "/_/api/admin/explain",                  0,              0,                NULL, fl_explain_handle},
    {"GET",  "/_/api/admin/events",                   0,              0,                NULL, fl_config_events},
    {"GET",  "/_/api/admin/tap",                      0,              0,                NULL, fl_config_tap},
    {"GET",  "/_/api/admin/config",                   0,              0,                NULL, fl_config_get},
    {"PUT",  "/_/api/admin/config",                   FL_MHD_MUTATES, CONFIG_MAX_BYTES, NULL, fl_config_put},
};
// clang-format on

static int open_server(struct fl_control *c, const struct fl_mhd_conf *conf, int listen_fd,
                       struct fl_mhd **ret)
{
    return fl_mhd_new(c->conf.reactor, conf, listen_fd, ret);
}

int fl_admin_open_status(struct fl_control *c, int listen_fd, struct fl_mhd **ret)
{
    const struct fl_mhd_conf conf = {
        .handlers = status_handlers,
        .handler_count = FL_COUNTOF(status_handlers),
        .arg = c,
        .max_connections = STATUS_CONNECTIONS,
        .max_per_ip = STATUS_PER_IP,
        .head_ms = STATUS_HEAD_MS,
    };
    int rc = open_server(c, &conf, listen_fd, ret);
    c->status_server = rc == 0 ? *ret : NULL;
    return rc;
}

int fl_admin_open_admin(struct fl_control *c, int listen_fd, struct fl_mhd **ret)
{
    struct fl_addr at;
    bool known = fl_addr_parse(fl_span_of(c->file->listen.admin), &at);
    const struct fl_mhd_conf conf = {
        .handlers = admin_handlers,
        .handler_count = FL_COUNTOF(admin_handlers),
        .arg = c,
        .max_connections = ADMIN_CONNECTIONS,
        .head_ms = ADMIN_HEAD_MS,
        .loopback_only = known && fl_addr_is_loopback(&at),
    };
    int rc = open_server(c, &conf, listen_fd, ret);
    c->admin_server = rc == 0 ? *ret : NULL;
    return rc;
}
