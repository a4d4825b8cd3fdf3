#include "sidecar/policy/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/addr.h"
#include "common/model/config_check.h"
#include "common/verdict/derive.h"

#define MEMORY_MAX       ((size_t)64 << 20)
#define COUNTED_STATUSES (FL_ON_HTTP_500 | FL_ON_HTTP_502 | FL_ON_HTTP_503 | FL_ON_HTTP_504)

struct build {
    struct fl_registry *registry;
    struct fl_snapshot *s;
    fl_snapshot_verdict_fn *verdicts;
    void *arg;
};

static bool build_peer(struct build *b, struct fl_snap_backend *be, const struct fl_peer_conf *conf)
{
    struct fl_addr literal;
    if (!fl_addr_parse(fl_span_of(conf->address), &literal)) {
        return true; /* a name that is not resolved yet */
    }
    struct fl_peer *peer = fl_registry_peer(b->registry, be->conf->name, conf->address);
    if (!peer) {
        return false;
    }
    const struct fl_tls_conf *tls = &be->conf->tls;
    const char *found_by = conf->host_name ? conf->host_name : "";
    struct fl_snap_peer *p = &be->peers[be->peer_count++];
    *p = (struct fl_snap_peer){
        .peer = peer,
        .conf = conf,
        .health = {.max_fails = conf->max_fails,
                   .fail_timeout_ms = conf->fail_timeout_ms,
                   .quarantine_max = be->conf->quarantine_max},
        .tls_name = tls->on && tls->server_name[0] ? tls->server_name : found_by,
    };
    if (!b->verdicts || !b->verdicts(b->arg, be->conf, conf->address, &p->verdict, &p->gated)) {
        p->verdict = (struct fl_verdict){.status = FL_VERDICT_UNKNOWN};
        p->gated = false;
    }
    be->countable += !conf->down;
    return true;
}

/* The derived verdict blocks only what some peer's own gate upholds: a pushed one that is merely
 * shown gates nobody. */
static bool is_gated(const struct fl_snap_backend *be)
{
    enum fl_verdict_status status = be->verdict.status;
    uint32_t gated = 0, rejected = 0;
    for (uint32_t i = 0; i < be->peer_count; i++) {
        const struct fl_snap_peer *p = &be->peers[i];
        if (!p->conf->down && p->gated) {
            gated++;
            rejected += p->verdict.status == FL_VERDICT_AUTH_REJECTED;
        }
    }
    return (status == FL_VERDICT_UNREACHABLE && gated == be->countable) ||
           (status == FL_VERDICT_AUTH_REJECTED && rejected > 0);
}

static bool derive(struct build *b, struct fl_snap_backend *be)
{
    struct fl_derive_peer *peers =
        fl_arena_array(&b->s->arena, be->peer_count, sizeof(struct fl_derive_peer));
    if (!peers) {
        return false;
    }
    for (uint32_t i = 0; i < be->peer_count; i++) {
        const struct fl_snap_peer *p = &be->peers[i];
        peers[i] = (struct fl_derive_peer){p->peer->address, &p->verdict, p->conf->down};
    }
    struct fl_derived derived;
    fl_derive_backend(peers, be->peer_count, &derived);
    be->verdict = derived.verdict;
    memcpy(be->peers_down, derived.peers_down, sizeof(be->peers_down));
    be->gated = is_gated(be);
    return true;
}

static bool build_backend(struct build *b, const struct fl_backend_conf *conf)
{
    /* config_check refuses more; whoever resolved names into more gets the first ones */
    uint32_t count = conf->peer_count < FL_PEERS_MAX ? conf->peer_count : FL_PEERS_MAX;
    struct fl_snap_backend *be = &b->s->backends[b->s->backend_count];
    *be = (struct fl_snap_backend){
        .conf = conf,
        .index = b->s->backend_count,
        .peers = fl_arena_array(&b->s->arena, count, sizeof(struct fl_snap_peer)),
        .budget = {.ratio_percent = conf->retry_budget.ratio_percent,
                   .min_per_second = conf->retry_budget.min_per_second,
                   .threads = b->s->threads},
    };
    be->tally = be->peers ? fl_registry_backend(b->registry, conf->name, &be->lanes) : NULL;
    if (!be->tally) {
        return false;
    }
    b->s->backend_count++; /* from here on free gives back what was taken */
    for (uint32_t i = 0; i < count; i++) {
        if (!build_peer(b, be, &conf->peers[i])) {
            return false;
        }
    }
    if (be->peer_count && !fl_registry_note_members(b->registry, conf->name)) {
        return false;
    }
    be->has_members = fl_registry_had_members(b->registry, conf->name);
    b->s->any_s3 |= conf->protocol == FL_PROTOCOL_S3;
    return derive(b, be);
}

static const struct fl_snap_backend *find_backend(const struct fl_snapshot *s, const char *name)
{
    for (uint32_t i = 0; i < s->backend_count; i++) {
        if (strcmp(s->backends[i].conf->name, name) == 0) {
            return &s->backends[i];
        }
    }
    return NULL;
}

static bool build_status_health(struct build *b, struct fl_snap_policy *p)
{
    const struct fl_snap_backend *be = p->backend;
    if (!be || !(p->conf->count_failures & COUNTED_STATUSES)) {
        return true;
    }
    p->status_health =
        fl_arena_array(&b->s->arena, be->peer_count, sizeof(struct fl_peer_health *));
    if (!p->status_health) {
        return false;
    }
    for (uint32_t i = 0; i < be->peer_count; i++) {
        p->status_health[i] = fl_registry_route_health(b->registry, be->peers[i].peer, p->route);
        if (!p->status_health[i]) {
            return false;
        }
    }
    return true;
}

static bool build_policy(struct build *b, struct fl_snap_policy *p, const char *route,
                         const struct fl_policy_conf *conf, const char *backend,
                         const char *invalid)
{
    if (!route) {
        return false;
    }
    *p = (struct fl_snap_policy){
        .conf = conf, .backend = find_backend(b->s, backend), .route = route, .invalid = invalid};
    FL_MUST(p->backend || invalid[0]); /* config_check saw to it */
    p->tally = fl_registry_route(b->registry, route);
    return p->tally && build_status_health(b, p);
}

/* Exact ones first, then the longest prefix; equal ones as they stand in the file. */
static bool path_before(const struct fl_path_conf *a, const struct fl_path_conf *b)
{
    if (a->exact != b->exact) {
        return a->exact;
    }
    return !a->exact && strlen(a->prefix) > strlen(b->prefix);
}

static const struct fl_path_conf **sort_paths(struct build *b, const struct fl_route_conf *conf)
{
    const struct fl_path_conf **sorted =
        fl_arena_array(&b->s->arena, conf->path_count, sizeof(*sorted));
    for (uint32_t i = 0; sorted && i < conf->path_count; i++) {
        uint32_t at = i;
        for (; at > 0 && path_before(&conf->paths[i], sorted[at - 1]); at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = &conf->paths[i];
    }
    return sorted;
}

static bool build_paths(struct build *b, struct fl_snap_route *r)
{
    const struct fl_route_conf *conf = r->conf;
    const struct fl_path_conf **sorted = sort_paths(b, conf);
    r->paths = fl_arena_array(&b->s->arena, conf->path_count, sizeof(struct fl_snap_path));
    if (!sorted || !r->paths) {
        return false;
    }
    for (uint32_t i = 0; i < conf->path_count; i++) {
        const struct fl_path_conf *path = sorted[i];
        const char *name = fl_arena_printf(&b->s->arena, "%s %s%s", conf->bucket,
                                           path->exact ? "= " : "", path->prefix);
        r->paths[i].prefix = fl_span_of(path->prefix);
        r->paths[i].exact = path->exact;
        r->path_count++;
        if (!build_policy(b, &r->paths[i].policy, name, &path->policy,
                          path->backend[0] ? path->backend : conf->backend, conf->invalid)) {
            return false;
        }
    }
    return true;
}

static bool build_route(struct build *b, const struct fl_route_conf *conf)
{
    struct fl_snapshot *s = b->s;
    struct fl_snap_route *r = &s->routes[s->route_count++];
    r->conf = conf;
    if (!build_policy(b, &r->policy, conf->bucket, &conf->policy, conf->backend, conf->invalid) ||
        !build_paths(b, r)) {
        return false;
    }
    if (strcmp(conf->bucket, "*") == 0) {
        s->any = r;
    } else if (strcmp(conf->bucket, "/") == 0) {
        s->service = r;
    } else {
        return fl_smap_put(&s->by_bucket, fl_span_of(conf->bucket), r) == 0;
    }
    return true;
}

static bool build_hosts(struct fl_snapshot *s, const struct fl_strings *hosts)
{
    struct fl_span *spans = fl_arena_array(&s->arena, hosts->count, sizeof *spans);
    for (uint32_t i = 0; spans != NULL && i < hosts->count; i++) {
        spans[i] = fl_span_of(hosts->items[i]);
    }
    s->hosts = spans;
    s->host_count = hosts->count;
    return spans != NULL;
}

static bool build_all(struct build *b, const struct fl_config *config)
{
    struct fl_snapshot *s = b->s;
    s->backends = fl_arena_array(&s->arena, config->backend_count, sizeof(struct fl_snap_backend));
    s->routes = fl_arena_array(&s->arena, config->route_count, sizeof(struct fl_snap_route));
    s->no_route = fl_registry_route(b->registry, "-");
    if (!s->backends || !s->routes || !s->no_route || !build_hosts(s, &config->hosts)) {
        return false;
    }
    for (uint32_t i = 0; i < config->backend_count; i++) {
        if (!build_backend(b, &config->backends[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < config->route_count; i++) {
        if (!build_route(b, &config->routes[i])) {
            return false;
        }
    }
    return true;
}

struct fl_snapshot *fl_snapshot_build(struct fl_registry *r, struct fl_config *config,
                                      unsigned threads, uint64_t generation,
                                      fl_snapshot_verdict_fn *verdicts, void *arg)
{
    FL_MUST(threads >= 1 && threads <= FL_THREADS_MAX);
    struct fl_snapshot *s = aligned_alloc(_Alignof(struct fl_snapshot), sizeof(struct fl_snapshot));
    if (!s) {
        return NULL;
    }
    memset(s, 0, sizeof(*s));
    s->generation = generation;
    s->threads = threads;
    fl_arena_init(&s->arena, MEMORY_MAX);
    fl_smap_init(&s->by_bucket, fl_registry_seed(r));
    struct build b = {r, s, verdicts, arg};
    if (!build_all(&b, config)) {
        return fl_snapshot_free(r, s);
    }
    s->config = config;
    return s;
}

static void drop_policy(struct fl_registry *r, const struct fl_snap_policy *p)
{
    if (p->tally) {
        fl_registry_drop_route(r, p->tally);
    }
}

void fl_snapshot_unresolved(struct fl_snapshot *s, uint32_t i, const struct fl_verdict *v)
{
    struct fl_snap_backend *be = &s->backends[i];
    FL_MUST(be->peer_count == 0);
    be->verdict = *v;
    be->gated = true;
}

struct fl_snapshot *fl_snapshot_free(struct fl_registry *r, struct fl_snapshot *s)
{
    if (!s) {
        return NULL;
    }
    for (uint32_t i = 0; i < s->route_count; i++) {
        drop_policy(r, &s->routes[i].policy);
        for (uint32_t j = 0; j < s->routes[i].path_count; j++) {
            drop_policy(r, &s->routes[i].paths[j].policy);
        }
    }
    for (uint32_t i = 0; i < s->backend_count; i++) {
        for (uint32_t j = 0; j < s->backends[i].peer_count; j++) {
            fl_registry_drop_peer(r, s->backends[i].peers[j].peer);
        }
        fl_registry_drop_backend(r, s->backends[i].tally);
        if (s->backends[i].tls) {
            s->give_tls(s->backends[i].tls);
        }
    }
    if (s->no_route) {
        fl_registry_drop_route(r, s->no_route);
    }
    fl_smap_done(&s->by_bucket);
    fl_arena_done(&s->arena);
    fl_config_free(s->config);
    free(s);
    return NULL;
}

static bool holds(const struct fl_snap_backend *be, const struct fl_peer *p)
{
    for (uint32_t i = 0; be && i < be->peer_count; i++) {
        if (be->peers[i].peer == p) {
            return true;
        }
    }
    return false;
}

/* Judged per peer before anything is written: data threads read the flag, and a peer that stays
 * must never seem gone. */
void fl_snapshot_retire(const struct fl_snapshot *old, const struct fl_snapshot *fresh)
{
    for (uint32_t i = 0; old && i < old->backend_count; i++) {
        const struct fl_snap_backend *be = &old->backends[i];
        const struct fl_snap_backend *now = find_backend(fresh, be->conf->name);
        for (uint32_t j = 0; j < be->peer_count; j++) {
            struct fl_peer *p = be->peers[j].peer;
            atomic_store_explicit(&p->removed, !holds(now, p), memory_order_relaxed);
        }
    }
}
