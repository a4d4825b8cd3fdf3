#include "controller/admin/admin.h"

#include "controller/admin/pages.h"

#define STATUS_CONNECTIONS 64
#define STATUS_PER_IP      8
#define STATUS_HEAD_MS     5000
#define ADMIN_CONNECTIONS  32 /* loopback: everybody has the same address */
#define ADMIN_HEAD_MS      10000
#define ORDER_MAX_BYTES    1024 /* nothing in it is read */

// clang-format off
static const struct fl_mhd_handler handlers[] = {
    {"GET",  "/_/ready",                      0,              0,               NULL, fl_pages_ready},
    {"GET",  "/_/metrics",                    0,              0,               NULL, fl_pages_metrics},
    {"GET",  "/_/api/admin/backends",         0,              0,               NULL, fl_pages_backends},
    {"GET",  "/_/api/admin/pods",             0,              0,               NULL, fl_pages_pods},
    {"GET",  "/_/api/admin/services",         0,              0,               NULL, fl_pages_services},
    {"POST", "/_/api/admin/backends/*/probe", FL_MHD_MUTATES, ORDER_MAX_BYTES, NULL, fl_pages_probe},
};
// clang-format on
#define STATUS_HANDLERS 2 /* the first ones */

static int open_server(struct fl_admin *admin, struct fl_reactor *r, struct fl_mhd_conf *conf,
                       int listen_fd, struct fl_mhd **ret)
{
    conf->handlers = handlers;
    conf->arg = admin;
    return fl_mhd_new(r, conf, listen_fd, ret);
}

int fl_admin_open_status(struct fl_admin *admin, struct fl_reactor *r, int listen_fd,
                         struct fl_mhd **ret)
{
    struct fl_mhd_conf conf = {
        .handler_count = STATUS_HANDLERS,
        .max_connections = STATUS_CONNECTIONS,
        .max_per_ip = STATUS_PER_IP,
        .head_ms = STATUS_HEAD_MS,
    };
    return open_server(admin, r, &conf, listen_fd, ret);
}

int fl_admin_open_admin(struct fl_admin *admin, struct fl_reactor *r, bool loopback, int listen_fd,
                        struct fl_mhd **ret)
{
    struct fl_mhd_conf conf = {
        .handler_count = FL_COUNTOF(handlers),
        .max_connections = ADMIN_CONNECTIONS,
        .head_ms = ADMIN_HEAD_MS,
        .loopback_only = loopback,
    };
    return open_server(admin, r, &conf, listen_fd, ret);
}
