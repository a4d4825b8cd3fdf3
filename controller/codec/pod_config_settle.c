/* Drafts to the overlay: which backend a name means, defaults, and the checks of a sidecar. */
#include <string.h>

#include "common/base/units.h"
#include "common/model/config_check.h"
#include "common/model/directives.h"
#include "common/model/directives_scope.h"
#include "common/model/syntax.h"
#include "controller/codec/pod_config.h"
#include "controller/codec/pod_config_inner.h"

#define NAMES_MAX 4096u

/* ---- backends ---- */

static const char *place_of(const char *top, const char *name, char ret[static FL_PLACE_MAX])
{
    struct fl_fmt out = fl_fmt_of(ret, FL_PLACE_MAX);
    struct fl_place up = fl_place_key(NULL, top), here = fl_place_key(&up, name);
    fl_place_print(&here, &out);
    return ret;
}

/* k holds finished definitions. A sidecar's listeners are those that it is injected with. */
static void check_backend(struct fl_pod_reading *r, const struct fl_config *k,
                          struct fl_pod_draft_backend *b)
{
    const struct fl_own_listener own[] = {{"listen.data", k->listen.data.items[0]},
                                          {"listen.admin", k->listen.admin},
                                          {"listen.status", k->listen.status}};
    char place[FL_PLACE_MAX];
    struct fl_findings said;
    struct fl_config view = *k;
    view.backends = &b->conf;
    view.backend_count = 1;
    fl_findings_init(&said, "");
    fl_config_check_backends(&view, own, FL_COUNTOF(own), &said);
    b->bad = fl_pod_take(r, &b->from, &said, FL_ANNOTATION_VALUE,
                         place_of("backends", b->conf.name, place), false);
    fl_findings_done(&said);
}

/* Finishing sorts: the definitions go there and back by name. Those from `first` on. */
static bool finish_backends(struct fl_pod_reading *r, uint32_t first)
{
    struct fl_config *k = fl_config_new();
    if (k != NULL) {
        k->backends = fl_arena_array(&k->arena, r->backend_count, sizeof(*k->backends));
    }
    if (k == NULL || k->backends == NULL) {
        fl_config_free(k);
        return false;
    }
    for (uint32_t i = first; i < r->backend_count; i++) {
        if (r->backends[i].bad == NULL) {
            k->backends[k->backend_count++] = r->backends[i].conf;
        }
    }
    fl_directives_finish(k);
    for (uint32_t i = first; i < r->backend_count; i++) {
        struct fl_pod_draft_backend *b = &r->backends[i];
        if (b->bad == NULL) {
            b->conf = *fl_config_backend(k, b->conf.name);
            fl_controller_config_default_probe(r->c, &b->conf);
            check_backend(r, k, b);
        }
    }
    fl_config_free(k);
    return true;
}

/* ---- Services ---- */

/* "minio.storage:9000", or "minio:9000" in the pod's own namespace. */
static bool take_service(const struct fl_pod_reading *r, struct fl_span text,
                         struct fl_span *ret_name, struct fl_span *ret_namespace,
                         struct fl_span *ret_port)
{
    uint64_t number;
    ptrdiff_t colon = fl_span_find(text, ':');
    struct fl_span host = fl_span_first(text, colon < 0 ? 0 : (size_t)colon);
    ptrdiff_t dot = fl_span_find(host, '.');
    *ret_port = fl_span_from(text, (size_t)(colon + 1));
    *ret_name = fl_span_first(host, dot < 0 ? host.len : (size_t)dot);
    *ret_namespace = dot < 0 ? fl_span_of(r->o->namespace) : fl_span_from(host, (size_t)dot + 1);
    bool port = fl_units_uint(*ret_port, &number) ? number >= 1 && number <= UINT16_MAX
                                                  : fl_syntax_is_service(*ret_port);
    return colon >= 0 && port && fl_syntax_is_service(*ret_name) &&
           fl_syntax_is_service(*ret_namespace);
}

/* Written as anybody would: `service: {namespace: …, name: …, port: …}`. */
static bool define_service(struct fl_pod_reading *r, struct fl_pod_draft_backend *b,
                           const char *name, const struct fl_span parts[3])
{
    static const char *const keys[] = {"namespace", "name", "port"};
    struct fl_node items[3], service = {.kind = FL_NODE_MAP, .key = FL_SPAN("service")};
    struct fl_node map = {.kind = FL_NODE_MAP, .first = &service};
    struct fl_findings said;
    service.first = items;
    for (size_t i = 0; i < FL_COUNTOF(items); i++) {
        items[i] = (struct fl_node){.kind = FL_NODE_SCALAR,
                                    .key = fl_span_of(keys[i]),
                                    .text = parts[i],
                                    .next = i < 2 ? &items[i + 1] : NULL};
    }
    fl_findings_init(&said, "");
    bool good =
        fl_directives_read_backend_as(FL_ORIGIN_ANNOTATION, &map, name, r->o->own, &b->conf, &said);
    fl_findings_done(&said);
    return good;
}

/* The name of the implicit backend, made when it is new; NULL: a fault was said, *ret_why. */
static const char *use_service(struct fl_pod_reading *r, const struct fl_pod_source *from,
                               const struct fl_span parts[3], const char **ret_why)
{
    char text[FL_PLACE_MAX];
    struct fl_fmt out = fl_fmt_of(text, sizeof(text));
    fl_fmt_span(&out, parts[1]);
    fl_fmt_char(&out, '.');
    fl_fmt_span(&out, parts[0]);
    fl_fmt_char(&out, ':');
    fl_fmt_span(&out, parts[2]);
    const struct fl_pod_draft_backend *have = fl_pod_find_backend(r, text);
    const struct fl_backend_conf *cluster = fl_config_backend(r->c->cluster, text);
    if (have != NULL || cluster != NULL) {
        *ret_why = have != NULL ? have->bad : NULL;
        const char *name =
            have != NULL ? have->conf.name : fl_arena_text(&r->o->own->arena, fl_span_of(text));
        r->no_memory |= name == NULL;
        return *ret_why == NULL ? name : NULL;
    }
    struct fl_pod_draft_backend *b = fl_pod_add_backend(r, from);
    if (b == NULL) {
        *ret_why = "too many backends";
        return NULL;
    }
    if (!define_service(r, b, text, parts)) {
        r->no_memory = true;
        r->backend_count--;
        return NULL;
    }
    return b->conf.name;
}

/* ---- what a route names ---- */

/* False: the route is closed. */
static bool settle_target(struct fl_pod_reading *r, uint32_t index, const char **name)
{
    struct fl_pod_source from = r->routes[index].from;
    const struct fl_pod_draft_backend *own = fl_pod_find_backend(r, *name);
    const char *why = NULL, *bucket = r->routes[index].conf.bucket;
    struct fl_span parts[3]; /* namespace, name, port */
    char shown[FL_SHOWN_MAX];
    if (own != NULL) {
        why = own->bad;
    } else if (fl_config_backend(r->c->cluster, *name) != NULL) {
        return true;
    } else if (strchr(*name, ':') == NULL) {
        r->routes[index].unknown_backend = true; /* said when the route is checked */
        return true;
    } else if (take_service(r, fl_span_of(*name), &parts[1], &parts[0], &parts[2])) {
        const char *implicit = use_service(r, &from, parts, &why);
        *name = implicit != NULL ? implicit : "";
    } else {
        why = fl_pod_fault(r, &from, FL_ANNOTATION_BACKEND, 0,
                           "%s is neither a backend nor a Service (write name.namespace:port, or "
                           "name:port; an address is a peer of backend.fairlead.dev/NAME)",
                           fl_value_shown(fl_span_of(*name), shown));
    }
    if (why != NULL) {
        fl_pod_close_route(&r->routes[index], bucket, why);
    }
    return why == NULL;
}

static void settle_targets(struct fl_pod_reading *r)
{
    for (uint32_t i = 0; i < r->route_count; i++) {
        struct fl_route_conf *conf = &r->routes[i].conf;
        if (conf->invalid[0] != '\0') {
            continue;
        }
        bool good = settle_target(r, i, &conf->backend);
        for (uint32_t k = 0; good && k < conf->path_count; k++) {
            if (conf->paths[k].backend[0] != '\0') {
                good = settle_target(r, i, &conf->paths[k].backend);
            }
        }
    }
}

/* ---- routes ---- */

/* All backends that the pod's routes can name, and its good routes, finished. */
static struct fl_config *make_known(const struct fl_pod_reading *r)
{
    const struct fl_config *cluster = r->c->cluster;
    struct fl_config *k = fl_config_new();
    if (k == NULL) {
        return NULL;
    }
    size_t backends = (size_t)cluster->backend_count + r->backend_count;
    k->backends = fl_arena_array(&k->arena, backends, sizeof(*k->backends));
    k->routes = fl_arena_array(&k->arena, r->route_count, sizeof(*k->routes));
    if (k->backends == NULL || k->routes == NULL) {
        return fl_config_free(k);
    }
    for (uint32_t i = 0; i < cluster->backend_count; i++) {
        if (fl_pod_find_backend(r, cluster->backends[i].name) == NULL) {
            struct fl_backend_conf *b = &k->backends[k->backend_count++];
            *b = cluster->backends[i];
            b->peers = NULL; /* the controller's: not to be finished again */
            b->peer_count = 0;
        }
    }
    for (uint32_t i = 0; i < r->backend_count; i++) {
        if (r->backends[i].bad == NULL) {
            k->backends[k->backend_count++] = r->backends[i].conf;
        }
    }
    for (uint32_t i = 0; i < r->route_count; i++) {
        if (r->routes[i].conf.invalid[0] == '\0') {
            k->routes[k->route_count++] = r->routes[i].conf;
        }
    }
    fl_directives_finish(k);
    return k;
}

static void check_route(struct fl_pod_reading *r, const struct fl_config *k,
                        struct fl_pod_draft_route *route)
{
    char place[FL_PLACE_MAX];
    struct fl_findings said;
    struct fl_config view = *k;
    const char *bucket = route->conf.bucket;
    view.routes = &route->conf;
    view.route_count = 1;
    fl_findings_init(&said, "");
    fl_config_check_routes(&view, &said);
    const char *why =
        fl_pod_take(r, &route->from, &said,
                    route->unknown_backend ? FL_ANNOTATION_BACKEND : FL_ANNOTATION_VALUE,
                    place_of("routes", bucket, place), false);
    fl_findings_done(&said);
    if (why != NULL) {
        fl_pod_close_route(route, bucket, why);
    }
}

/* The first of the pod's backends that a route of the controller's would get; NULL: none. */
static const struct fl_pod_draft_backend *overridden(const struct fl_pod_reading *r,
                                                     const struct fl_route_conf *route)
{
    const struct fl_pod_draft_backend *found = fl_pod_find_backend(r, route->backend);
    for (uint32_t i = 0; found == NULL && i < route->path_count; i++) {
        found = fl_pod_find_backend(r, route->paths[i].backend);
    }
    return found != NULL && found->bad == NULL ? found : NULL;
}

/* A route of the controller's that does not fit the backend that the pod puts in its place: it is
 * that backend's route here. */
static void check_overridden(struct fl_pod_reading *r, const struct fl_config *k)
{
    const struct fl_config *cluster = r->c->cluster;
    for (uint32_t i = 0; i < cluster->route_count; i++) {
        struct fl_route_conf *one = &cluster->routes[i];
        const struct fl_pod_draft_backend *by = overridden(r, one);
        struct fl_config view = *k;
        struct fl_findings said;
        if (by == NULL || fl_pod_find_route(r, one->bucket) != NULL) {
            continue;
        }
        view.routes = one;
        view.route_count = 1;
        fl_findings_init(&said, "");
        fl_config_check_routes(&view, &said);
        const char *why = fl_pod_take(r, &by->from, &said, FL_ANNOTATION_VALUE, "", true);
        fl_findings_done(&said);
        struct fl_pod_draft_route *route = why != NULL ? fl_pod_add_route(r, &by->from) : NULL;
        const char *bucket =
            route != NULL ? fl_arena_text(&r->o->own->arena, fl_span_of(one->bucket)) : NULL;
        if (route != NULL) {
            r->no_memory |= bucket == NULL;
            fl_pod_close_route(route, bucket != NULL ? bucket : "*", why);
        }
    }
}

/* ---- the overlay ---- */

static void hand_route(struct fl_pod_reading *r, const struct fl_route_conf *route,
                       const char *annotation)
{
    struct fl_pod_overlay *o = r->o;
    const char *source = fl_arena_text(&o->own->arena, fl_span_of(annotation));
    r->no_memory |= source == NULL;
    o->sources[o->own->route_count] = source;
    o->own->routes[o->own->route_count++] = *route;
}

static bool hand_over(struct fl_pod_reading *r)
{
    struct fl_config *own = r->o->own;
    size_t routes = (size_t)r->route_count + 1;
    own->routes = fl_arena_array(&own->arena, routes, sizeof(*own->routes));
    r->o->sources = fl_arena_array(&own->arena, routes, sizeof(*r->o->sources));
    own->backends = fl_arena_array(&own->arena, r->backend_count, sizeof(*own->backends));
    if (own->routes == NULL || r->o->sources == NULL || own->backends == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < r->route_count; i++) {
        hand_route(r, &r->routes[i].conf, r->routes[i].from.annotation);
    }
    r->o->closed = r->closed != NULL;
    if (r->document != NULL) {
        r->o->document = fl_arena_text(&own->arena, fl_span_of(r->document));
        r->no_memory |= r->o->document == NULL;
    }
    if (r->closed != NULL && fl_pod_find_route(r, "*") == NULL &&
        r->c->cluster->route_count + r->route_count < NAMES_MAX) {
        struct fl_pod_draft_route all;
        fl_pod_close_route(&all, "*", r->closed);
        hand_route(r, &all.conf, r->document);
    }
    for (uint32_t i = 0; i < r->backend_count; i++) {
        if (r->backends[i].bad == NULL) {
            own->backends[own->backend_count++] = r->backends[i].conf;
        }
    }
    return true;
}

void fl_pod_settle(struct fl_pod_reading *r)
{
    struct fl_config *k = NULL;
    uint32_t written = r->backend_count;
    bool good = finish_backends(r, 0);
    if (good) {
        settle_targets(r);
        good = finish_backends(r, written) && (k = make_known(r)) != NULL;
    }
    for (uint32_t i = 0; good && i < r->route_count; i++) {
        struct fl_pod_draft_route *route = &r->routes[i];
        if (route->conf.invalid[0] == '\0') {
            route->conf = *fl_config_route(k, route->conf.bucket);
            check_route(r, k, route);
        }
    }
    if (good) {
        check_overridden(r, k);
        good = hand_over(r);
    }
    fl_config_free(k);
    r->no_memory |= !good;
}
