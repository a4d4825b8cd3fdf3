#include "controller/decide/compose.h"

#include <string.h>

#include "common/base/addr.h"
#include "common/model/config_check.h"
#include "common/model/directives_scope.h"
#include "common/model/directives_table.h"
#include "controller/decide/membership.h"

static uint64_t bit_of(enum fl_scope scope, const char *name)
{
    return UINT64_C(1) << fl_directive_bit(fl_scope_find(scope, name));
}

static bool is_routed(const struct fl_route_conf *routes, uint32_t count, const char *backend)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct fl_route_conf *r = &routes[i];
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
    return b->service.name[0] == '\0' || (b->set & ~filling) != 0 ||
           is_routed(cluster->routes, cluster->route_count, b->name);
}

static void strip_files(struct fl_backend_conf *b)
{
    b->probe.access_key_file = b->probe.secret_key_file = "";
    b->probe.set &=
        ~(bit_of(FL_SCOPE_PROBE, "access_key_file") | bit_of(FL_SCOPE_PROBE, "secret_key_file"));
}

struct composing {
    const struct fl_controller_config *c;
    const struct fl_membership *m;
    const struct fl_pod_overlay *pod; /* NULL: nothing goes over the controller's own */
    const struct fl_verdict_table *verdicts;
    int64_t now_ms;
    struct fl_findings *f;
    struct fl_state *made;
};

static bool is_annotated(const struct fl_pod_overlay *pod, const char *backend)
{
    return pod != NULL && fl_config_backend(pod->own, backend) != NULL;
}

/* ---- members ---- */

static void say(const struct composing *k, const struct fl_backend_conf *b, const char *text)
{
    bool annotated = is_annotated(k->pod, b->name);
    fl_findings_add(k->f, FL_SEVERITY_WARNING, 0, "%s%sbackends.%s.service: %s",
                    annotated ? k->pod->namespace : "", annotated ? ": " : "", b->name, text);
}

static void say_missing(const struct composing *k, const struct fl_backend_conf *b,
                        enum fl_members_found why)
{
    char text[320];
    struct fl_fmt out = fl_fmt_of(text, sizeof(text));
    const struct fl_service_ref *ref = &b->service;
    if (why == FL_MEMBERS_NO_SERVICE) {
        fl_fmt_printf(&out, "there is no service %s/%s, so it brings no members", ref->namespace,
                      ref->name);
    } else {
        fl_fmt_printf(&out, "service %s/%s has no port \"%s\", so it brings no members",
                      ref->namespace, ref->name, ref->port);
    }
    say(k, b, text);
}

static struct fl_addr literal_of(const char *address)
{
    struct fl_addr a;
    return fl_addr_parse(fl_span_of(address), &a) ? a : (struct fl_addr){.family = FL_ADDR_NONE};
}

/* One address has many spellings, and a sidecar refuses one that is listed twice. */
static bool is_written(const struct fl_peer_conf *peers, const struct fl_addr *parsed,
                       uint32_t count, const struct fl_peer_conf *member)
{
    struct fl_addr a = {.family = FL_ADDR_NONE};
    if (count > 0) {
        a = literal_of(member->address);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (a.family != FL_ADDR_NONE && parsed[i].family != FL_ADDR_NONE
                ? fl_addr_eq(&a, &parsed[i])
                : fl_span_ieq(fl_span_of(member->address), fl_span_of(peers[i].address))) {
            return true;
        }
    }
    return false;
}

/* The written peers, then the members at other addresses. */
static bool join_members(const struct composing *k, struct fl_backend_conf *b,
                         const struct fl_members *m)
{
    struct fl_arena *arena = &k->made->conf->arena;
    uint32_t written = b->peer_count;
    struct fl_peer_conf *peers = fl_arena_array(arena, (size_t)written + m->count, sizeof(*peers));
    struct fl_addr *parsed = fl_arena_array(arena, written, sizeof(*parsed));
    if (peers == NULL || parsed == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < written; i++) {
        peers[i] = b->peers[i];
        parsed[i] = literal_of(peers[i].address);
    }
    b->peers = peers;
    for (uint32_t i = 0; i < m->count; i++) {
        if (is_written(peers, parsed, written, &m->peers[i])) {
            continue;
        }
        if (b->peer_count >= FL_PEERS_MAX) {
            say(k, b, "has more members than a backend may have; some are left out");
            break;
        }
        peers[b->peer_count] = m->peers[i];
        peers[b->peer_count++].owner = FL_OWNER_CONTROLLER;
    }
    return true;
}

static bool add_members(const struct composing *k, struct fl_state_backend *b)
{
    struct fl_members m = {0};
    b->has_peers = b->conf.peer_count > 0;
    if (b->conf.service.name[0] == '\0') {
        return true;
    }
    enum fl_members_found found =
        k->m->members(k->m->arg, &b->conf.service, &k->made->conf->arena, &m);
    if (found == FL_MEMBERS_FOUND) {
        b->has_peers = true;
        return join_members(k, &b->conf, &m);
    }
    if (found != FL_MEMBERS_NO_MEMORY) {
        say_missing(k, &b->conf, found);
    }
    return found != FL_MEMBERS_NO_MEMORY;
}

static bool add_verdicts(const struct composing *k, struct fl_state_backend *b)
{
    char subject[FL_SUBJECT_MAX];
    fl_compose_subject(k->c, k->pod, &b->conf, subject);
    b->verdicts = fl_arena_array(&k->made->conf->arena, b->conf.peer_count, sizeof(*b->verdicts));
    for (uint32_t i = 0; b->verdicts != NULL && i < b->conf.peer_count; i++) {
        const char *address = b->conf.peers[i].address;
        const struct fl_verdict *v = fl_verdict_table_get(k->verdicts, subject, address);
        if (v == NULL || v->status == FL_VERDICT_UNKNOWN) {
            continue;
        }
        struct fl_state_verdict *to = &b->verdicts[b->verdict_count++];
        to->address = address;
        to->status = v->status;
        to->cause = v->cause;
        memcpy(to->step, v->step, sizeof(to->step));
        to->age_ms = k->now_ms > v->at_ms ? k->now_ms - v->at_ms : 0;
    }
    return b->verdicts != NULL;
}

/* ---- definitions ---- */

static bool add_backend(const struct composing *k, const struct fl_backend_conf *from, bool owns)
{
    struct fl_arena *arena = &k->made->conf->arena;
    struct fl_state_backend *b = &k->made->backends[k->made->backend_count++];
    b->conf = *from;
    b->conf.name = fl_arena_text(arena, fl_span_of(from->name));
    b->name = b->conf.name;
    b->owns = owns;
    if (b->name == NULL || !fl_scope_rehome(arena, FL_SCOPE_BACKEND, &b->conf)) {
        return false;
    }
    strip_files(&b->conf);
    return add_members(k, b) && add_verdicts(k, b);
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

static bool add_routes(const struct composing *k)
{
    const struct fl_config *cluster = k->c->cluster, *own = k->pod != NULL ? k->pod->own : NULL;
    bool good = true;
    for (uint32_t i = 0; good && i < cluster->route_count; i++) {
        const struct fl_route_conf *r = &cluster->routes[i];
        good = (own != NULL && fl_config_route(own, r->bucket) != NULL) || add_route(k->made, r);
    }
    for (uint32_t i = 0; good && own != NULL && i < own->route_count; i++) {
        good = add_route(k->made, &own->routes[i]);
    }
    return good;
}

/* After the routes: a pod with routes of its own gets the backends that they need. */
static bool add_backends(const struct composing *k)
{
    const struct fl_config *cluster = k->c->cluster, *own = k->pod != NULL ? k->pod->own : NULL;
    const struct fl_state *s = k->made;
    bool good = true;
    for (uint32_t i = 0; good && i < cluster->backend_count; i++) {
        const struct fl_backend_conf *b = &cluster->backends[i];
        if (own == NULL) {
            good = add_backend(k, b, fl_compose_owns(cluster, b));
        } else if (!is_annotated(k->pod, b->name) &&
                   is_routed(s->routes, s->route_count, b->name)) {
            good = add_backend(k, b, true);
        }
    }
    for (uint32_t i = 0; good && own != NULL && i < own->backend_count; i++) {
        if (is_routed(s->routes, s->route_count, own->backends[i].name)) {
            good = add_backend(k, &own->backends[i], true);
        }
    }
    return good;
}

struct fl_state *fl_compose_state(const struct fl_controller_config *c,
                                  const struct fl_membership *m, const struct fl_pod_overlay *pod,
                                  const struct fl_verdict_table *verdicts, int64_t now_ms,
                                  struct fl_findings *f)
{
    pod = fl_pod_overlay_is_empty(pod) ? NULL : pod;
    struct composing k = {c, m, pod, verdicts, now_ms, f, fl_state_new()};
    if (k.made == NULL) {
        return NULL;
    }
    struct fl_arena *arena = &k.made->conf->arena;
    size_t backends = c->cluster->backend_count, routes = c->cluster->route_count;
    backends += pod != NULL ? pod->own->backend_count : 0;
    routes += pod != NULL ? pod->own->route_count : 0;
    k.made->backends = fl_arena_array(arena, backends, sizeof(*k.made->backends));
    k.made->routes = fl_arena_array(arena, routes, sizeof(*k.made->routes));
    if (k.made->backends == NULL || k.made->routes == NULL || !add_routes(&k) ||
        !add_backends(&k)) {
        return fl_state_free(k.made);
    }
    fl_state_sort(k.made);
    return k.made;
}

/* ---- probing ---- */

static bool is_plain(const struct fl_controller_config *c, const struct fl_backend_conf *b)
{
    uint64_t times = bit_of(FL_SCOPE_PROBE, "interval") | bit_of(FL_SCOPE_PROBE, "timeout");
    return b->service.name[0] != '\0' && b->protocol == FL_PROTOCOL_S3 && !b->tls.on &&
           (b->probe.set & ~times) == 0 && b->probe.interval_ms == c->probe_defaults.interval_ms &&
           b->probe.timeout_ms == c->probe_defaults.timeout_ms;
}

static uint64_t hash_of_probing(const struct fl_backend_conf *b)
{
    const struct fl_probe_conf *q = &b->probe;
    char numbers[128];
    struct fl_fmt out = fl_fmt_of(numbers, sizeof(numbers));
    fl_fmt_printf(&out, "%d %d %lld %lld %d %d", (int)b->protocol, (int)q->type,
                  (long long)q->interval_ms, (long long)q->timeout_ms, b->tls.on, b->tls.verify);
    const char *const texts[] = {
        numbers,
        b->service.namespace,
        b->service.name,
        b->service.port,
        q->host,
        q->path,
        q->expect,
        q->bucket,
        q->region,
        q->secret,
        b->tls.server_name,
    };
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < FL_COUNTOF(texts); i++) {
        const char *at = texts[i];
        do { /* FNV-1a, the NUL included */
            hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
        } while (*at++ != '\0');
    }
    return hash;
}

void fl_compose_subject(const struct fl_controller_config *c, const struct fl_pod_overlay *pod,
                        const struct fl_backend_conf *b, char ret[FL_SUBJECT_MAX])
{
    struct fl_fmt out = fl_fmt_of(ret, FL_SUBJECT_MAX);
    if (!is_annotated(pod, b->name)) {
        fl_fmt_text(&out, b->name);
    } else if (is_plain(c, b)) {
        fl_fmt_printf(&out, "%s/%s:%s", b->service.namespace, b->service.name, b->service.port);
    } else {
        fl_fmt_printf(&out, "%s/%s#%016llx", pod->namespace, b->name,
                      (unsigned long long)hash_of_probing(b));
    }
    FL_MUST(!out.cut); /* the directive table and pod_config bound them all */
}

bool fl_compose_may_probe(const struct fl_controller_config *c, const struct fl_pod_overlay *pod,
                          const struct fl_backend_conf *b, const struct fl_peer_conf *peer)
{
    if (!is_annotated(pod, b->name)) {
        return true;
    }
    if (b->service.name[0] == '\0' || peer->owner != FL_OWNER_CONTROLLER) {
        return false;
    }
    if (c->probe.mode == FL_NAMESPACES_ALL || strcmp(b->service.namespace, pod->namespace) == 0) {
        return true;
    }
    for (uint32_t i = 0; c->probe.mode == FL_NAMESPACES_LISTED && i < c->probe.names.count; i++) {
        if (strcmp(c->probe.names.items[i], b->service.namespace) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- what may wait to settle ---- */

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
