#include "controller/decide/pod_keep.h"

#include <errno.h>
#include <string.h>

#include "common/model/config_check.h"
#include "common/model/directives_scope.h"

#define NAMES_MAX 4096u

struct keeping {
    const struct fl_controller_config *c;
    struct fl_pod_overlay *fresh;
    const struct fl_pod_overlay *old;
    int kept;
};

/* ---- what a route names ---- */

/* The i-th backend that it names, its own first; NULL: there are no more. */
static const char *target(const struct fl_route_conf *r, uint32_t i)
{
    return i == 0 ? r->backend : i <= r->path_count ? r->paths[i - 1].backend : NULL;
}

static bool uses(const struct fl_route_conf *r, const char *backend)
{
    const char *name;
    for (uint32_t i = 0; (name = target(r, i)) != NULL; i++) {
        if (strcmp(name, backend) == 0) {
            return true;
        }
    }
    return false;
}

/* A good route of the pod, as it is now, uses that backend: it must not become another. */
static bool is_in_use(const struct keeping *k, const char *backend)
{
    const struct fl_config *own = k->fresh->own, *cluster = k->c->cluster;
    for (uint32_t i = 0; i < own->route_count; i++) {
        if (own->routes[i].invalid[0] == '\0' && uses(&own->routes[i], backend)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < cluster->route_count; i++) {
        const struct fl_route_conf *r = &cluster->routes[i];
        if (uses(r, backend) && fl_config_route(own, r->bucket) == NULL) {
            return true;
        }
    }
    return false;
}

/* Old's definition, when it has to come along; NULL: what there is will do. */
static const struct fl_backend_conf *lacking(const struct keeping *k, const char *name)
{
    if (name[0] == '\0' || fl_config_backend(k->fresh->own, name) != NULL ||
        (fl_config_backend(k->c->cluster, name) != NULL && is_in_use(k, name))) {
        return NULL;
    }
    return fl_config_backend(k->old->own, name);
}

/* ---- may it stay? ---- */

/* 1: the backends bear it, 0: they do not, -ENOMEM. */
static int is_borne(const struct keeping *k, struct fl_route_conf *r)
{
    const struct fl_config *sets[] = {k->fresh->own, k->c->cluster};
    struct fl_config *view = fl_config_new();
    struct fl_findings said;
    if (view == NULL) {
        return -ENOMEM;
    }
    size_t room =
        (size_t)sets[0]->backend_count + sets[1]->backend_count + (size_t)r->path_count + 1;
    view->backends = fl_arena_array(&view->arena, room, sizeof(*view->backends));
    if (view->backends == NULL) {
        fl_config_free(view);
        return -ENOMEM;
    }
    const char *name;
    for (uint32_t i = 0; (name = target(r, i)) != NULL; i++) {
        const struct fl_backend_conf *b = lacking(k, name);
        if (b != NULL) { /* the first of a name is found */
            view->backends[view->backend_count++] = *b;
        }
    }
    for (size_t s = 0; s < FL_COUNTOF(sets); s++) {
        for (uint32_t i = 0; i < sets[s]->backend_count; i++) {
            view->backends[view->backend_count++] = sets[s]->backends[i];
        }
    }
    view->routes = r;
    view->route_count = 1;
    fl_findings_init(&said, "");
    fl_config_check_routes(view, &said);
    int good = said.errors == 0;
    fl_findings_done(&said);
    fl_config_free(view);
    return good;
}

/* ---- taking over ---- */

static bool add_backend(struct keeping *k, const struct fl_backend_conf *from)
{
    struct fl_config *own = k->fresh->own;
    struct fl_backend_conf *b = &own->backends[own->backend_count];
    *b = *from;
    b->name = fl_arena_text(&own->arena, fl_span_of(from->name));
    if (b->name == NULL || !fl_scope_rehome(&own->arena, FL_SCOPE_BACKEND, b)) {
        return false;
    }
    own->backend_count++;
    return true;
}

static bool copy_route(struct fl_arena *arena, const struct fl_route_conf *from,
                       struct fl_route_conf *to)
{
    *to = *from;
    to->bucket = fl_arena_text(arena, fl_span_of(from->bucket));
    bool good = to->bucket != NULL && fl_scope_rehome(arena, FL_SCOPE_ROUTE, to);
    for (uint32_t i = 0; good && i < to->path_count; i++) {
        to->paths[i].prefix = fl_arena_text(arena, fl_span_of(to->paths[i].prefix));
        good = to->paths[i].prefix != NULL;
    }
    return good;
}

/* at: the route's place in fresh. */
static int take(struct keeping *k, uint32_t index, uint32_t at)
{
    struct fl_pod_overlay *fresh = k->fresh;
    struct fl_config *own = fresh->own;
    struct fl_route_conf *r = &k->old->own->routes[index];
    const char *name, *source = k->old->sources[index];
    int good = is_borne(k, r);
    if (good <= 0) {
        return good;
    }
    for (uint32_t i = 0; (name = target(r, i)) != NULL; i++) {
        const struct fl_backend_conf *b = lacking(k, name);
        if (b != NULL && !add_backend(k, b)) {
            return -ENOMEM;
        }
    }
    fresh->sources[at] = fl_arena_text(&own->arena, fl_span_of(source));
    if (fresh->sources[at] == NULL || !copy_route(&own->arena, r, &own->routes[at])) {
        return -ENOMEM;
    }
    own->route_count += at == own->route_count;
    k->kept++;
    return 0;
}

/* Room for all that could come along. */
static bool make_room(struct keeping *k)
{
    struct fl_config *own = k->fresh->own;
    const struct fl_config *old = k->old->own;
    size_t routes = (size_t)own->route_count + old->route_count;
    size_t backends = (size_t)own->backend_count + old->backend_count;
    struct fl_route_conf *r = fl_arena_array(&own->arena, routes, sizeof(*r));
    struct fl_backend_conf *b = fl_arena_array(&own->arena, backends, sizeof(*b));
    const char **sources = fl_arena_array(&own->arena, routes, sizeof(*sources));
    if (r == NULL || b == NULL || sources == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < own->route_count; i++) {
        r[i] = own->routes[i];
        sources[i] = k->fresh->sources[i];
    }
    for (uint32_t i = 0; i < own->backend_count; i++) {
        b[i] = own->backends[i];
    }
    own->routes = r;
    own->backends = b;
    k->fresh->sources = sources;
    return true;
}

/* A sidecar refuses a state with more. */
static bool has_room(const struct keeping *k)
{
    return k->c->cluster->route_count + k->fresh->own->route_count < NAMES_MAX;
}

static uint32_t find_route(const struct fl_config *c, const char *bucket)
{
    uint32_t i = 0;
    while (i < c->route_count && strcmp(c->routes[i].bucket, bucket) != 0) {
        i++;
    }
    return i;
}

static bool is_from_document(const struct fl_pod_overlay *o, uint32_t index)
{
    return o->document != NULL && strcmp(o->sources[index], o->document) == 0;
}

/* All of the old document is back: what no route takes is again nobody's. */
static void open_rest(struct keeping *k)
{
    struct fl_config *own = k->fresh->own;
    uint32_t at = find_route(own, "*");
    if (at < own->route_count && own->routes[at].invalid[0] != '\0' &&
        is_from_document(k->fresh, at)) {
        own->route_count--;
        own->routes[at] = own->routes[own->route_count];
        k->fresh->sources[at] = k->fresh->sources[own->route_count];
    }
}

int fl_pod_keep(const struct fl_controller_config *c, struct fl_pod_overlay *fresh,
                const struct fl_pod_overlay *old)
{
    struct keeping k = {c, fresh, old, 0};
    bool of_document = false;
    if (!make_room(&k)) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < old->own->route_count; i++) {
        const struct fl_route_conf *r = &old->own->routes[i];
        uint32_t at = find_route(fresh->own, r->bucket);
        bool is_there = at < fresh->own->route_count, written = is_from_document(old, i);
        if (r->invalid[0] != '\0' || (is_there && fresh->own->routes[at].invalid[0] == '\0') ||
            (!is_there && !(fresh->closed && written && has_room(&k)))) {
            continue;
        }
        int before = k.kept, rc = take(&k, i, at);
        if (rc < 0) {
            return rc;
        }
        of_document |= written && k.kept > before;
    }
    if (fresh->closed && of_document) {
        open_rest(&k);
    }
    return k.kept;
}
