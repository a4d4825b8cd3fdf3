/* Annotations of routes and backends to drafts. */
#include <string.h>

#include "common/codec/yaml.h"
#include "common/model/directives.h"
#include "common/model/directives_scope.h"
#include "common/model/nearest.h"
#include "common/model/syntax.h"
#include "controller/codec/pod_config.h"
#include "controller/codec/pod_config_inner.h"

#define TREE_MAX      ((size_t)64 << 20)
#define ROOT_KEYS_MAX 16u

/* ---- one route, one backend ---- */

static void read_route(struct fl_pod_reading *r, const struct fl_pod_source *from,
                       const char *bucket, const struct fl_node *n)
{
    struct fl_config *own = r->o->own;
    struct fl_pod_draft_route *route = fl_pod_add_route(r, from);
    struct fl_findings said;
    if (route == NULL) {
        return;
    }
    fl_pod_close_route(route, bucket, "");
    if (n->kind == FL_NODE_NULL) {
        const char *why =
            fl_pod_fault(r, from, FL_ANNOTATION_VALUE, n->line,
                         "has no value; give a backend, a Service (name.namespace:port) or a "
                         "mapping of route keys");
        fl_pod_close_route(route, bucket, why);
        return;
    }
    fl_findings_init(&said, "");
    struct fl_route_conf conf;
    bool good = fl_directives_read_route_as(FL_ORIGIN_ANNOTATION, n, bucket, own, &conf, &said);
    const char *why = fl_pod_take(r, from, &said, FL_ANNOTATION_VALUE, "", false);
    fl_findings_done(&said);
    if (good) {
        route->conf = conf;
        route->conf.line = 0;
    } else {
        fl_pod_close_route(route, bucket, why);
    }
}

/* A name of a Secret becomes a volume of the pod: nothing but a name. */
static bool is_secret_name(struct fl_span s)
{
    bool good = s.len <= 253;
    while (good) {
        ptrdiff_t dot = fl_span_find(s, '.');
        good = fl_syntax_is_service(fl_span_first(s, dot < 0 ? s.len : (size_t)dot));
        if (dot < 0) {
            break;
        }
        s = fl_span_from(s, (size_t)dot + 1);
    }
    return good;
}

static void read_backend(struct fl_pod_reading *r, const struct fl_pod_source *from,
                         const char *name, const struct fl_node *n)
{
    struct fl_config *own = r->o->own;
    struct fl_pod_draft_backend *backend = fl_pod_add_backend(r, from);
    struct fl_findings said;
    if (backend == NULL) {
        return;
    }
    fl_findings_init(&said, "");
    struct fl_backend_conf conf;
    bool good = fl_directives_read_backend_as(FL_ORIGIN_ANNOTATION, n, name, own, &conf, &said);
    backend->bad = fl_pod_take(r, from, &said, FL_ANNOTATION_VALUE, "", false);
    fl_findings_done(&said);
    backend->conf = good ? conf : (struct fl_backend_conf){.name = name};
    backend->conf.line = 0;
    if (good && conf.probe.secret[0] != '\0' && !is_secret_name(fl_span_of(conf.probe.secret))) {
        backend->bad = fl_pod_fault(r, from, FL_ANNOTATION_VALUE, 0,
                                    "probe.secret: is not the name of a Secret");
    }
}

/* ---- an annotation of one of them ---- */

static const struct fl_node *parse(struct fl_pod_reading *r, const struct fl_pod_source *from,
                                   const char *value, struct fl_arena *tree, const char **ret_why)
{
    struct fl_findings said;
    fl_findings_init(&said, "");
    fl_arena_init(tree, TREE_MAX);
    const struct fl_node *n = fl_yaml_parse(fl_span_of(value), tree, &said);
    *ret_why = fl_pod_take(r, from, &said, FL_ANNOTATION_SYNTAX, "", false);
    fl_findings_done(&said);
    return n;
}

static struct fl_pod_source whole(const struct fl_kube_annotation *a)
{
    return (struct fl_pod_source){a->key, "", strchr(a->value, '\n') != NULL};
}

static const char *keep_text(struct fl_pod_reading *r, struct fl_span text)
{
    const char *copy = fl_arena_text(&r->o->own->arena, text);
    r->no_memory |= copy == NULL;
    return copy;
}

void fl_pod_read_route(struct fl_pod_reading *r, const struct fl_kube_annotation *a,
                       const char *bucket)
{
    struct fl_pod_source from = whole(a);
    const struct fl_pod_draft_route *other = fl_pod_find_route(r, bucket);
    struct fl_arena tree;
    const char *why, *name = keep_text(r, fl_span_of(bucket));
    if (other != NULL) {
        fl_pod_fault(r, &from, FL_ANNOTATION_TWICE, 0,
                     "annotation %s is for the same bucket, and counts", other->from.annotation);
        return;
    }
    if (name == NULL) {
        return;
    }
    const struct fl_node *n = parse(r, &from, a->value, &tree, &why);
    if (n != NULL) {
        read_route(r, &from, name, n);
    } else {
        struct fl_pod_draft_route *route = fl_pod_add_route(r, &from);
        if (route != NULL) {
            fl_pod_close_route(route, name, why);
        }
    }
    fl_arena_done(&tree);
}

void fl_pod_read_backend(struct fl_pod_reading *r, const struct fl_kube_annotation *a,
                         const char *name)
{
    struct fl_pod_source from = whole(a);
    const struct fl_pod_draft_backend *other = fl_pod_find_backend(r, name);
    struct fl_arena tree;
    const char *why;
    if (other != NULL) {
        fl_pod_fault(r, &from, FL_ANNOTATION_TWICE, 0,
                     "annotation %s is for the same backend, and counts", other->from.annotation);
        return;
    }
    name = keep_text(r, fl_span_of(name));
    if (name == NULL) {
        return;
    }
    const struct fl_node *n = parse(r, &from, a->value, &tree, &why);
    if (n != NULL) {
        read_backend(r, &from, name, n);
    } else {
        struct fl_pod_draft_backend *backend = fl_pod_add_backend(r, &from);
        if (backend != NULL) {
            backend->conf.name = name;
            backend->bad = why;
        }
    }
    fl_arena_done(&tree);
}

/* ---- the document ---- */

static uint32_t count_of(const struct fl_node *n)
{
    uint32_t count = 0;
    for (const struct fl_node *i = n->first; i != NULL; i = i->next) {
        count++;
    }
    return count;
}

/* The entry's place is a part of the document; NULL: no memory. */
static const char *part_of(struct fl_pod_reading *r, const char *top, struct fl_span name)
{
    char place[FL_PLACE_MAX];
    struct fl_fmt out = fl_fmt_of(place, sizeof(place));
    struct fl_place up = fl_place_key(NULL, top), here = {&up, name, -1};
    fl_place_print(&here, &out);
    return keep_text(r, (struct fl_span){out.base, out.len});
}

static void read_document_route(struct fl_pod_reading *r, const struct fl_pod_source *from,
                                const struct fl_node *n)
{
    const char *bad = fl_scope_bucket_fault(n->key), *bucket = keep_text(r, n->key);
    if (bad != NULL || bucket == NULL) {
        fl_pod_fault(r, from, FL_ANNOTATION_VALUE, n->key_line, "%s",
                     bad != NULL ? bad : "out of memory");
        return;
    }
    struct fl_pod_draft_route *other = fl_pod_find_route(r, bucket);
    if (other == NULL) {
        read_route(r, from, bucket, n);
    } else if (other->from.annotation == from->annotation) { /* which of them is meant? */
        const char *why =
            fl_pod_fault(r, from, FL_ANNOTATION_TWICE, n->key_line, "two routes for one bucket");
        fl_pod_close_route(other, bucket, why);
    } else {
        fl_pod_fault(r, from, FL_ANNOTATION_TWICE, n->key_line,
                     "annotation %s is for the same bucket, and counts", other->from.annotation);
    }
}

static void read_document_backend(struct fl_pod_reading *r, const struct fl_pod_source *from,
                                  const struct fl_node *n)
{
    const char *bad = fl_scope_backend_fault(n->key), *name = keep_text(r, n->key);
    if (bad != NULL || name == NULL) {
        fl_pod_fault(r, from, FL_ANNOTATION_VALUE, n->key_line, "%s",
                     bad != NULL ? bad : "out of memory");
        return;
    }
    struct fl_pod_draft_backend *other = fl_pod_find_backend(r, name);
    if (other == NULL) {
        read_backend(r, from, name, n);
    } else if (other->from.annotation == from->annotation) {
        other->bad =
            fl_pod_fault(r, from, FL_ANNOTATION_TWICE, n->key_line, "two backends of one name");
    } else {
        fl_pod_fault(r, from, FL_ANNOTATION_TWICE, n->key_line,
                     "annotation %s is for the same backend, and counts", other->from.annotation);
    }
}

/* Each entry on its own. NULL; or why not all of them are known. */
static const char *read_entries(struct fl_pod_reading *r, const struct fl_pod_source *from,
                                const struct fl_node *map, const char *top, uint32_t most,
                                void (*read)(struct fl_pod_reading *r,
                                             const struct fl_pod_source *from,
                                             const struct fl_node *n))
{
    if (map->kind != FL_NODE_MAP) {
        return fl_pod_fault(r, from, FL_ANNOTATION_VALUE, map->line, "%s: is not a mapping", top);
    }
    if (count_of(map) > most) {
        return fl_pod_fault(r, from, FL_ANNOTATION_TOO_MANY, map->line,
                            "%s: has more than %u entries", top, (unsigned)most);
    }
    for (const struct fl_node *n = map->first; n != NULL; n = n->next) {
        struct fl_pod_source part = *from;
        part.part = part_of(r, top, n->key);
        if (part.part != NULL) {
            read(r, &part, n);
        }
    }
    return NULL;
}

static const char *say_unknown(struct fl_pod_reading *r, const struct fl_pod_source *from,
                               const struct fl_node *n)
{
    char shown[FL_SHOWN_MAX];
    struct fl_nearest near = fl_nearest_to(n->key);
    fl_nearest_offer(&near, "routes");
    fl_nearest_offer(&near, "backends");
    return fl_pod_fault(r, from, FL_ANNOTATION_VALUE, n->key_line, "unknown key %s%s%s%s",
                        fl_value_shown(n->key, shown),
                        near.best != NULL ? "; did you mean \""
                                          : "; the document has routes and backends",
                        near.best != NULL ? near.best : "", near.best != NULL ? "\"?" : "");
}

/* Why its routes are not all known; NULL: they are. */
static const char *read_root(struct fl_pod_reading *r, const struct fl_pod_source *from,
                             const struct fl_node *root)
{
    const struct fl_node *routes = fl_node_get(root, "routes");
    const char *why = NULL;
    if (root->kind != FL_NODE_MAP || count_of(root) > ROOT_KEYS_MAX) {
        return fl_pod_fault(r, from, FL_ANNOTATION_VALUE, root->line,
                            "is not a document of routes: and backends:");
    }
    for (const struct fl_node *n = root->first; n != NULL; n = n->next) {
        const char *here = NULL;
        if (fl_scope_earlier(root, n) != NULL) {
            here = fl_pod_fault(r, from, FL_ANNOTATION_TWICE, n->key_line,
                                "two entries of one name at its top level");
        } else if (n == routes) {
            here = read_entries(r, from, n, "routes", FL_POD_ROUTES_MAX, read_document_route);
        } else if (fl_span_is(n->key, "backends")) {
            (void)read_entries(r, from, n, "backends", FL_POD_BACKENDS_MAX, read_document_backend);
        } else {
            const char *unknown = say_unknown(r, from, n);
            here = routes == NULL ? unknown : NULL; /* it may have been meant for them */
        }
        why = why != NULL ? why : here;
    }
    return why;
}

void fl_pod_read_document(struct fl_pod_reading *r, const struct fl_kube_annotation *a)
{
    struct fl_pod_source from = whole(a);
    struct fl_arena tree;
    const char *why;
    if (r->document != NULL) {
        fl_pod_fault(r, &from, FL_ANNOTATION_TWICE, 0, "annotation %s is the same, and counts",
                     r->document);
        return;
    }
    r->document = a->key;
    const struct fl_node *root = parse(r, &from, a->value, &tree, &why);
    if (root != NULL && root->kind == FL_NODE_NULL) {
        fl_pod_overlay_add(r->o, FL_SEVERITY_WARNING, FL_ANNOTATION_VALUE, a->key, "is empty");
    } else if (root != NULL) {
        why = read_root(r, &from, root);
    }
    r->closed = why;
    fl_arena_done(&tree);
}
