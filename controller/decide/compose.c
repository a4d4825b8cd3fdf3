#include "controller/decide/compose.h"

#include <string.h>

#include "common/model/directives_scope.h"
#include "common/model/directives_table.h"
#include "controller/decide/members.h"

static uint64_t bit_of(enum fl_scope scope, const char *name)
{
    return UINT64_C(1) << fl_directive_bit(fl_scope_find(scope, name));
}

static bool is_routed(const struct fl_config *cluster, const char *backend)
{
    for (uint32_t i = 0; i < cluster->route_count; i++) {
        const struct fl_route_conf *r = &cluster->routes[i];
        if (strcmp(r->backend, backend) == 0) {
            return true;
        }
        for (uint32_t k = 0; k < r->path_count; k++) {
            if (strcmp(r->paths[k].backend, backend) == 0) {
                return true;
            }
        }
    }
    return false;
}

bool fl_compose_owns(const struct fl_config *cluster, const struct fl_backend_conf *b)
{
    uint64_t filling = bit_of(FL_SCOPE_BACKEND, "service") | bit_of(FL_SCOPE_BACKEND, "probe");
    return b->service.name[0] == '\0' || (b->set & ~filling) != 0 || is_routed(cluster, b->name);
}

static void strip_secrets(struct fl_backend_conf *b)
{
    b->probe.access_key_file = b->probe.secret_key_file = b->probe.secret = "";
    b->probe.set &= ~(bit_of(FL_SCOPE_PROBE, "access_key_file") |
                      bit_of(FL_SCOPE_PROBE, "secret_key_file") | bit_of(FL_SCOPE_PROBE, "secret"));
}

/* The written peers, then the members at other addresses. */
static bool join_members(struct fl_state *s, struct fl_backend_conf *b, const struct fl_members *m)
{
    uint32_t written = b->peer_count;
    struct fl_peer_conf *peers =
        fl_arena_array(&s->conf->arena, (size_t)written + m->count, sizeof(*peers));
    if (peers == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < written; i++) {
        peers[i] = b->peers[i];
    }
    for (uint32_t i = 0; i < m->count; i++) {
        uint32_t same = 0;
        while (same < written && strcmp(peers[same].address, m->peers[i].address) != 0) {
            same++;
        }
        if (same == written) {
            peers[b->peer_count++] = m->peers[i];
        }
    }
    b->peers = peers;
    return true;
}

static bool add_verdicts(struct fl_state *s, struct fl_state_backend *b,
                         const struct fl_verdict_table *table, int64_t now_ms)
{
    b->verdicts = fl_arena_array(&s->conf->arena, b->conf.peer_count, sizeof(*b->verdicts));
    for (uint32_t i = 0; b->verdicts != NULL && i < b->conf.peer_count; i++) {
        const char *address = b->conf.peers[i].address;
        const struct fl_verdict *v = fl_verdict_table_get(table, b->name, address);
        if (v == NULL || v->status == FL_VERDICT_UNKNOWN) {
            continue;
        }
        struct fl_state_verdict *to = &b->verdicts[b->verdict_count++];
        to->address = address;
        to->status = v->status;
        to->cause = v->cause;
        memcpy(to->step, v->step, sizeof(to->step));
        to->age_ms = now_ms > v->at_ms ? now_ms - v->at_ms : 0;
    }
    return b->verdicts != NULL;
}

static void say_missing(struct fl_findings *f, const struct fl_backend_conf *b,
                        enum fl_members_found why)
{
    const struct fl_service_ref *ref = &b->service;
    if (why == FL_MEMBERS_NO_SERVICE) {
        fl_findings_add(f, FL_SEVERITY_WARNING, 0,
                        "backends.%s.service: there is no service %s/%s, so it brings no members",
                        b->name, ref->namespace, ref->name);
    } else {
        fl_findings_add(
            f, FL_SEVERITY_WARNING, 0,
            "backends.%s.service: service %s/%s has no port \"%s\", so it brings no members",
            b->name, ref->namespace, ref->name, ref->port);
    }
}

static bool add_backend(struct fl_state *s, const struct fl_config *cluster,
                        const struct fl_backend_conf *from, const struct fl_services *services,
                        struct fl_findings *f)
{
    struct fl_state_backend *b = &s->backends[s->backend_count++];
    struct fl_members m = {0};
    enum fl_members_found found = FL_MEMBERS_NO_SERVICE;
    b->conf = *from;
    b->conf.name = fl_arena_text(&s->conf->arena, fl_span_of(from->name));
    b->name = b->conf.name;
    b->owns = fl_compose_owns(cluster, from);
    if (b->name == NULL || !fl_scope_rehome(&s->conf->arena, FL_SCOPE_BACKEND, &b->conf)) {
        return false;
    }
    strip_secrets(&b->conf);
    b->has_peers = b->conf.peer_count > 0;
    if (from->service.name[0] == '\0') {
        return true;
    }
    found = fl_members_of(services, &from->service, &s->conf->arena, &m);
    if (found == FL_MEMBERS_FOUND) {
        b->has_peers = true;
        return join_members(s, &b->conf, &m);
    }
    if (found != FL_MEMBERS_NO_MEMORY) {
        say_missing(f, from, found);
    }
    return found != FL_MEMBERS_NO_MEMORY;
}

static bool add_route(struct fl_state *s, const struct fl_route_conf *from)
{
    struct fl_route_conf *r = &s->routes[s->route_count++];
    *r = *from;
    r->bucket = fl_arena_text(&s->conf->arena, fl_span_of(from->bucket));
    bool good = r->bucket != NULL && fl_scope_rehome(&s->conf->arena, FL_SCOPE_ROUTE, r);
    for (uint32_t i = 0; good && i < r->path_count; i++) {
        r->paths[i].prefix = fl_arena_text(&s->conf->arena, fl_span_of(r->paths[i].prefix));
        good = r->paths[i].prefix != NULL;
    }
    return good;
}

struct fl_state *fl_compose_state(const struct fl_controller_config *c, const struct fl_services *s,
                                  const struct fl_verdict_table *verdicts, int64_t now_ms,
                                  struct fl_findings *f)
{
    const struct fl_config *cluster = c->cluster;
    struct fl_state *made = fl_state_new();
    if (made == NULL) {
        return NULL;
    }
    struct fl_arena *arena = &made->conf->arena;
    made->backends = fl_arena_array(arena, cluster->backend_count, sizeof(*made->backends));
    made->routes = fl_arena_array(arena, cluster->route_count, sizeof(*made->routes));
    bool good = made->backends != NULL && made->routes != NULL;
    for (uint32_t i = 0; good && i < cluster->backend_count; i++) {
        good = add_backend(made, cluster, &cluster->backends[i], s, f) &&
               add_verdicts(made, &made->backends[i], verdicts, now_ms);
    }
    for (uint32_t i = 0; good && i < cluster->route_count; i++) {
        good = add_route(made, &cluster->routes[i]);
    }
    if (!good) {
        return fl_state_free(made);
    }
    fl_state_sort(made);
    return made;
}

static bool is_offered(const struct fl_peer_conf *p)
{
    return !p->down && p->weight > 0;
}

static const struct fl_state_backend *find_backend(const struct fl_state *s, const char *name)
{
    for (uint32_t i = 0; i < s->backend_count; i++) {
        if (strcmp(s->backends[i].name, name) == 0) {
            return &s->backends[i];
        }
    }
    return NULL;
}

static bool has_route(const struct fl_state *s, const char *bucket)
{
    for (uint32_t i = 0; i < s->route_count; i++) {
        if (strcmp(s->routes[i].bucket, bucket) == 0) {
            return true;
        }
    }
    return false;
}

static bool blocks(const struct fl_state_backend *b, const char *address)
{
    for (uint32_t i = 0; b != NULL && i < b->verdict_count; i++) {
        if (strcmp(b->verdicts[i].address, address) == 0) {
            return fl_verdict_blocks(b->verdicts[i].status);
        }
    }
    return false;
}

/* Both lists in about the same order: looked for from where the last one was found. */
static bool loses_peer(const struct fl_backend_conf *old, const struct fl_backend_conf *fresh)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < old->peer_count; i++) {
        const struct fl_peer_conf *p = &old->peers[i], *now = NULL;
        for (uint32_t n = 0; n < fresh->peer_count && now == NULL; n++) {
            const struct fl_peer_conf *q = &fresh->peers[(at + n) % fresh->peer_count];
            if (strcmp(q->address, p->address) == 0) {
                now = q;
                at = (at + n + 1) % fresh->peer_count;
            }
        }
        if (is_offered(p) && (now == NULL || !is_offered(now) || now->tier > p->tier)) {
            return true;
        }
    }
    return false;
}

bool fl_compose_takes_away(const struct fl_state *old, const struct fl_state *fresh)
{
    for (uint32_t i = 0; old != NULL && i < old->backend_count; i++) {
        const struct fl_state_backend *b = &old->backends[i], *now = find_backend(fresh, b->name);
        if (now == NULL || loses_peer(&b->conf, &now->conf)) {
            return true;
        }
    }
    for (uint32_t i = 0; old != NULL && i < old->route_count; i++) {
        if (!has_route(fresh, old->routes[i].bucket)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < fresh->backend_count; i++) {
        const struct fl_state_backend *b = &fresh->backends[i];
        const struct fl_state_backend *before = old != NULL ? find_backend(old, b->name) : NULL;
        for (uint32_t k = 0; k < b->verdict_count; k++) {
            if (fl_verdict_blocks(b->verdicts[k].status) &&
                !blocks(before, b->verdicts[k].address)) {
                return true;
            }
        }
    }
    return false;
}
