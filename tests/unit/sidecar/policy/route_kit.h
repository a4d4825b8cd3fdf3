/* route_kit - a snapshot with several routes and backends, built by hand. */
#ifndef FL_TESTS_ROUTE_KIT_H
#define FL_TESTS_ROUTE_KIT_H

#include "tests/unit/sidecar/policy/pool_kit.h"

#include "sidecar/policy/route.h"

#define KIT_MAX 12

struct kit_path {
    const char *prefix, *backend;
    bool exact;
};

struct kit_route {
    const char *bucket, *backend, *invalid;
    struct kit_path paths[6];
};

struct kit {
    const char *hosts[4];
    const char *s3[4], *http[4]; /* names of backends */
    struct kit_route routes[KIT_MAX];
};

static inline void kit_backends(struct fl_config *c, const char *const names[4],
                                enum fl_protocol protocol)
{
    for (int i = 0; i < 4 && names[i]; i++) {
        struct fl_backend_conf *b = &c->backends[c->backend_count++];
        b->name = names[i];
        b->protocol = protocol;
        b->quarantine_max = 1;
        b->peers = pool_must(fl_arena_array(&c->arena, 1, sizeof(struct fl_peer_conf)));
        b->peer_count = 1;
        b->peers[0] = (struct fl_peer_conf){
            .address = "10.0.0.1:9000", .weight = 1, .max_fails = 1, .fail_timeout_ms = 10000};
    }
}

static inline struct fl_config *kit_config(const struct kit *k)
{
    struct fl_config *c = pool_must(fl_config_new());
    c->backends = pool_must(fl_arena_array(&c->arena, 8, sizeof(struct fl_backend_conf)));
    c->routes = pool_must(fl_arena_array(&c->arena, KIT_MAX, sizeof(struct fl_route_conf)));
    c->hosts.items = pool_must(fl_arena_array(&c->arena, 4, sizeof(const char *)));
    c->hosts.count = 0; /* not the default ones */
    for (; c->hosts.count < 4 && k->hosts[c->hosts.count]; c->hosts.count++) {
        c->hosts.items[c->hosts.count] = k->hosts[c->hosts.count];
    }
    kit_backends(c, k->s3, FL_PROTOCOL_S3);
    kit_backends(c, k->http, FL_PROTOCOL_HTTP);
    for (; c->route_count < KIT_MAX && k->routes[c->route_count].bucket; c->route_count++) {
        const struct kit_route *from = &k->routes[c->route_count];
        struct fl_route_conf *r = &c->routes[c->route_count];
        r->bucket = from->bucket;
        r->backend = from->backend;
        r->invalid = from->invalid ? from->invalid : "";
        r->paths = pool_must(fl_arena_array(&c->arena, 6, sizeof(struct fl_path_conf)));
        for (; r->path_count < 6 && from->paths[r->path_count].prefix; r->path_count++) {
            const struct kit_path *p = &from->paths[r->path_count];
            r->paths[r->path_count] = (struct fl_path_conf){
                .prefix = p->prefix, .exact = p->exact, .backend = p->backend ? p->backend : ""};
        }
    }
    return c;
}

static inline struct fl_snapshot *kit_snapshot(struct fl_registry *r, const struct kit *k)
{
    return pool_must(fl_snapshot_build(r, kit_config(k), 1, 1, NULL, NULL));
}

#endif
