/* The containers of the table: lists of structs, and mappings whose keys are names that people
 * choose. */
#include "common/base/units.h"
#include "common/model/directives_field.h"
#include "common/model/directives_scope.h"
#include "common/model/services.h"
#include "common/model/syntax.h"

#define PATH_MAX_BYTES 512u /* YAML keys end at 1024; percent-decoding only shortens */

static uint32_t count_of(const struct fl_node *n)
{
    uint32_t count = 0;
    for (const struct fl_node *i = n->first; i; i = i->next) {
        count++;
    }
    return count;
}

/* Room for the children of n; NULL with a finding when n is of the wrong kind or too long. */
static void *make_room(struct fl_reading *r, const struct fl_place *at,
                       const struct fl_directive *d, const struct fl_node *n,
                       enum fl_node_kind wanted, size_t have, size_t size)
{
    if (n->kind != wanted) {
        fl_reading_fault(r, at, n->line,
                         n->kind == FL_NODE_NULL ? "has no value; give %s, or remove the key"
                                                 : "is not %s",
                         wanted == FL_NODE_LIST ? "a list" : "a mapping");
        return NULL;
    }
    if (count_of(n) > d->max) {
        fl_reading_fault(r, at, n->line, "has more than %lld entries", (long long)d->max);
        return NULL;
    }
    void *room = fl_arena_array(r->arena, have + count_of(n), size);
    if (!room) {
        fl_reading_fault(r, at, n->line, "out of memory");
    }
    return room;
}

static bool read_list(struct fl_reading *r, const struct fl_place *at, const struct fl_directive *d,
                      const struct fl_node *n, void *base)
{
    size_t size = fl_scope_row(d->child)->size;
    char *items = make_room(r, at, d, n, FL_NODE_LIST, 0, size);
    if (!items) {
        return false;
    }
    int index = 0;
    for (const struct fl_node *i = n->first; i; i = i->next, index++) {
        struct fl_place here = {at, {NULL, 0}, index};
        fl_scope_default(r->arena, d->child, false, items + (size_t)index * size);
        fl_scope_read(r, &here, d->child, i, items + (size_t)index * size);
    }
    *(void **)fl_field_of(base, d->offset) = items;
    *(uint32_t *)fl_field_of(base, d->count_offset) = (uint32_t)index;
    return true;
}

/* A name that is used twice is refused here; what names may look like is the caller's: `bad` says
 * what is wrong with it, NULL: nothing. */
static const char *take_name(struct fl_reading *r, const struct fl_place *here,
                             const struct fl_node *map, const struct fl_node *n, const char *bad,
                             const char *twice)
{
    const struct fl_node *earlier = fl_scope_earlier(map, n);
    if (earlier) {
        fl_reading_fault(r, here, n->key_line, "%s (the first is on line %d)", twice,
                         earlier->key_line);
        return NULL;
    }
    if (bad) {
        fl_reading_fault(r, here, n->key_line, "%s", bad);
        return NULL;
    }
    fl_reading_remember(r, here, n->key_line);
    const char *name = fl_arena_text(r->arena, n->key);
    if (!name) {
        fl_reading_fault(r, here, n->key_line, "out of memory");
    }
    return name;
}

const char *fl_scope_backend_fault(struct fl_span name)
{
    return fl_syntax_is_backend(name) ? NULL
                                      : "is not a name for a backend (letters, digits, '.', '_', "
                                        "'-', ':'; a letter or digit first)";
}

const char *fl_scope_bucket_fault(struct fl_span name)
{
    return fl_span_is(name, "*") || fl_span_is(name, "/") || fl_syntax_is_segment(name)
               ? NULL
               : "is not a bucket (one segment of a path, \"*\" or \"/\")";
}

static int line_of(const struct fl_node *n)
{
    return n->key_line ? n->key_line : n->line;
}

bool fl_scope_read_backend(struct fl_reading *r, const struct fl_place *at, const struct fl_node *n,
                           const char *name, struct fl_backend_conf *ret)
{
    unsigned before = r->f->errors;
    *ret = (struct fl_backend_conf){.name = name, .line = line_of(n)};
    fl_scope_default(r->arena, FL_SCOPE_BACKEND, false, ret);
    fl_scope_read(r, at, FL_SCOPE_BACKEND, n, ret);
    return r->f->errors == before;
}

bool fl_scope_read_route(struct fl_reading *r, const struct fl_place *at, const struct fl_node *n,
                         const char *bucket, struct fl_route_conf *ret)
{
    unsigned before = r->f->errors;
    *ret = (struct fl_route_conf){.bucket = bucket, .line = line_of(n)};
    fl_scope_default(r->arena, FL_SCOPE_ROUTE, false, ret);
    if (n->kind == FL_NODE_SCALAR) { /* `releases: minio` */
        if (fl_value_set(r, at, fl_scope_find(FL_SCOPE_ROUTE, "backend"), n, ret) &&
            !ret->backend[0]) {
            fl_reading_fault(r, at, n->line, "is empty; give the name of a backend");
        }
    } else if (fl_node_get(n, "invalid") && r->origin == FL_ORIGIN_PUSH) {
        struct fl_place here = fl_place_key(at, "invalid");
        fl_value_set(r, &here, fl_scope_find(FL_SCOPE_ROUTE, "invalid"), fl_node_get(n, "invalid"),
                     ret);
    } else {
        fl_scope_read(r, at, FL_SCOPE_ROUTE, n, ret);
    }
    return r->f->errors == before;
}

static bool read_backends(struct fl_reading *r, const struct fl_place *at,
                          const struct fl_directive *d, const struct fl_node *n)
{
    struct fl_config *c = r->c;
    struct fl_backend_conf *items =
        make_room(r, at, d, n, FL_NODE_MAP, c->backend_count, sizeof(*items));
    if (!items) {
        return false;
    }
    memcpy(items, c->backends ? c->backends : items, c->backend_count * sizeof(*items));
    c->backends = items;
    for (const struct fl_node *i = n->first; i; i = i->next) {
        struct fl_place here = {at, i->key, -1};
        const char *name =
            take_name(r, &here, n, i, fl_scope_backend_fault(i->key), "two backends of one name");
        if (name) {
            fl_scope_read_backend(r, &here, i, name, &items[c->backend_count++]);
        }
    }
    return true;
}

static bool read_routes(struct fl_reading *r, const struct fl_place *at,
                        const struct fl_directive *d, const struct fl_node *n)
{
    struct fl_config *c = r->c;
    struct fl_route_conf *items =
        make_room(r, at, d, n, FL_NODE_MAP, c->route_count, sizeof(*items));
    if (!items) {
        return false;
    }
    memcpy(items, c->routes ? c->routes : items, c->route_count * sizeof(*items));
    c->routes = items;
    for (const struct fl_node *i = n->first; i; i = i->next) {
        struct fl_place here = {at, i->key, -1};
        const char *bucket =
            take_name(r, &here, n, i, fl_scope_bucket_fault(i->key), "two routes for one bucket");
        if (bucket) {
            fl_scope_read_route(r, &here, i, bucket, &items[c->route_count++]);
        }
    }
    return true;
}

/* "/payments/" is a prefix, "= /health" (or "=/health") one whole path. */
static bool take_path(struct fl_span key, struct fl_path_conf *ret, struct fl_span *text)
{
    ret->exact = key.len > 0 && key.ptr[0] == '=';
    *text = ret->exact ? fl_span_trim(fl_span_from(key, 1)) : key;
    bool good = text->len > 0 && text->len <= PATH_MAX_BYTES && text->ptr[0] == '/';
    for (size_t i = 0; good && i < text->len; i++) {
        good = (unsigned char)text->ptr[i] >= 0x20 && text->ptr[i] != 0x7f;
    }
    return good;
}

static bool read_paths(struct fl_reading *r, const struct fl_place *at,
                       const struct fl_directive *d, const struct fl_node *n,
                       struct fl_route_conf *route)
{
    struct fl_path_conf *items = make_room(r, at, d, n, FL_NODE_MAP, 0, sizeof(*items));
    if (!items) {
        return false;
    }
    uint32_t count = 0;
    for (const struct fl_node *i = n->first; i; i = i->next) {
        struct fl_place here = {at, i->key, -1};
        struct fl_path_conf *p = &items[count];
        struct fl_span text;
        if (!take_path(i->key, p, &text)) {
            fl_reading_fault(r, &here, i->key_line,
                             "is not a path (write \"/prefix/\", or \"= /exact\")");
            continue;
        }
        p->prefix = fl_arena_text(r->arena, text);
        bool twice = false;
        for (uint32_t k = 0; p->prefix && k < count; k++) {
            twice =
                twice || (items[k].exact == p->exact && strcmp(items[k].prefix, p->prefix) == 0);
        }
        if (twice || !p->prefix) {
            fl_reading_fault(r, &here, i->key_line,
                             twice ? "two entries for one path" : "out of memory");
            continue;
        }
        fl_reading_remember(r, &here, i->key_line);
        count++;
        fl_scope_default(r->arena, FL_SCOPE_PATH, false, p);
        fl_scope_read(r, &here, FL_SCOPE_PATH, i, p);
    }
    route->paths = items;
    route->path_count = count;
    return true;
}

static bool read_services(struct fl_reading *r, const struct fl_place *at,
                          const struct fl_directive *d, const struct fl_node *n,
                          struct fl_services *s)
{
    struct fl_service *items = make_room(r, at, d, n, FL_NODE_MAP, 0, sizeof(*items));
    if (!items) {
        return false;
    }
    s->items = items;
    for (const struct fl_node *i = n->first; i; i = i->next) {
        struct fl_place here = {at, i->key, -1};
        ptrdiff_t slash = fl_span_find(i->key, '/');
        struct fl_span namespace = fl_span_first(i->key, slash < 0 ? 0 : (size_t)slash);
        struct fl_span name = fl_span_from(i->key, (size_t)(slash + 1));
        if (!fl_syntax_is_service(namespace) || !fl_syntax_is_service(name)) {
            fl_reading_fault(r, &here, i->key_line, "is not a service (write namespace/name)");
            continue;
        }
        if (!take_name(r, &here, n, i, NULL, "two services of one name")) {
            continue;
        }
        struct fl_service *one = &items[s->count];
        one->namespace = fl_arena_text(r->arena, namespace);
        one->name = fl_arena_text(r->arena, name);
        if (one->namespace && one->name) {
            s->count++;
            fl_scope_read(r, &here, FL_SCOPE_SERVICE_ENTRY, i, one);
        }
    }
    return true;
}

static bool read_ports(struct fl_reading *r, const struct fl_place *at,
                       const struct fl_directive *d, const struct fl_node *n, struct fl_service *s)
{
    struct fl_service_port *items = make_room(r, at, d, n, FL_NODE_MAP, 0, sizeof(*items));
    uint32_t count = 0;
    for (const struct fl_node *i = items ? n->first : NULL; i; i = i->next) {
        struct fl_place here = {at, i->key, -1};
        uint64_t number = 0;
        const char *name = take_name(r, &here, n, i,
                                     fl_syntax_is_service(i->key)
                                         ? NULL
                                         : "is not a port name (small letters, digits and '-')",
                                     "two ports of one name");
        if (!name) {
            continue;
        }
        if (i->kind != FL_NODE_SCALAR || i->quoted || !fl_units_uint(i->text, &number) ||
            number < 1 || number > UINT16_MAX) {
            fl_reading_fault(r, &here, i->line, "is not a port number (1 to 65535)");
            continue;
        }
        items[count++] = (struct fl_service_port){name, (uint32_t)number};
    }
    s->ports = items;
    s->port_count = count;
    return items != NULL;
}

bool fl_scope_read_many(struct fl_reading *r, const struct fl_place *at,
                        const struct fl_directive *d, const struct fl_node *n, void *base)
{
    switch ((int)d->type) {
    case FL_TYPE_LIST:
        return read_list(r, at, d, n, base);
    case FL_TYPE_BACKENDS:
        return read_backends(r, at, d, n);
    case FL_TYPE_ROUTES:
        return read_routes(r, at, d, n);
    case FL_TYPE_PATHS:
        return read_paths(r, at, d, n, base);
    case FL_TYPE_SERVICES:
        return read_services(r, at, d, n, base);
    case FL_TYPE_PORTS:
        return read_ports(r, at, d, n, base);
    default:
        FL_IMPOSSIBLE("not a container");
    }
}
