#include "common/model/directives.h"

#include "common/model/directives_scope.h"

bool fl_directives_read(const struct fl_node *root, struct fl_config *c, struct fl_findings *f)
{
    struct fl_reading r = {c, &c->arena, f, FL_ORIGIN_FILE, FL_IN_SIDECAR};
    unsigned before = f->errors;
    if (!root) {
        return false; /* the parser has said why */
    }
    if (root->kind != FL_NODE_NULL) { /* an empty document is an empty configuration */
        fl_scope_read(&r, NULL, FL_SCOPE_ROOT, root, c);
    }
    return f->errors == before;
}

static bool take_name(struct fl_config *c, struct fl_findings *f, const char *name,
                      const char **ret)
{
    *ret = fl_arena_text(&c->arena, fl_span_of(name));
    if (!*ret) {
        fl_findings_add(f, FL_SEVERITY_ERROR, 0, "out of memory");
    }
    return *ret != NULL;
}

bool fl_directives_read_backend_as(enum fl_origin origin, const struct fl_node *map,
                                   const char *name, struct fl_config *c,
                                   struct fl_backend_conf *ret, struct fl_findings *f)
{
    struct fl_reading r = {NULL, &c->arena, f, origin, FL_IN_SIDECAR};
    struct fl_place top = fl_place_key(NULL, "backends"), here = fl_place_key(&top, name);
    const struct fl_place *at = origin == FL_ORIGIN_ANNOTATION ? NULL : &here;
    const char *bad = fl_scope_backend_fault(fl_span_of(name));
    if (bad) {
        fl_reading_fault(&r, at, map->key_line, "%s", bad);
        return false;
    }
    return take_name(c, f, name, &name) && fl_scope_read_backend(&r, at, map, name, ret);
}

bool fl_directives_read_route_as(enum fl_origin origin, const struct fl_node *map,
                                 const char *bucket, struct fl_config *c, struct fl_route_conf *ret,
                                 struct fl_findings *f)
{
    struct fl_reading r = {NULL, &c->arena, f, origin, FL_IN_SIDECAR};
    struct fl_place top = fl_place_key(NULL, "routes"), here = fl_place_key(&top, bucket);
    const struct fl_place *at = origin == FL_ORIGIN_ANNOTATION ? NULL : &here;
    const char *bad = fl_scope_bucket_fault(fl_span_of(bucket));
    if (bad) {
        fl_reading_fault(&r, at, map->key_line, "%s", bad);
        return false;
    }
    return take_name(c, f, bucket, &bucket) && fl_scope_read_route(&r, at, map, bucket, ret);
}

bool fl_directives_read_key(const struct fl_node *value, const char *name, struct fl_config *c,
                            struct fl_findings *f)
{
    struct fl_reading r = {NULL, &c->arena, f, FL_ORIGIN_ANNOTATION, FL_IN_SIDECAR};
    const struct fl_directive *d = fl_scope_find(FL_SCOPE_ROOT, name);
    unsigned before = f->errors;
    FL_MUST(d && (fl_value_is_plain(d->type) || d->type == FL_TYPE_MAP));
    if (d->flags & FL_D_PRIVATE) {
        fl_reading_fault(&r, NULL, 0, "%s", FL_NOT_IN_ANNOTATIONS);
    } else if (d->type == FL_TYPE_MAP) {
        fl_scope_read(&r, NULL, d->child, value, c);
    } else {
        fl_value_set(&r, NULL, d, value, c);
    }
    c->set |= UINT64_C(1) << fl_directive_bit(d);
    return f->errors == before;
}

bool fl_directives_read_backend(const struct fl_node *map, const char *name, struct fl_config *c,
                                struct fl_backend_conf *ret, struct fl_findings *f)
{
    return fl_directives_read_backend_as(FL_ORIGIN_PUSH, map, name, c, ret, f);
}

bool fl_directives_read_route(const struct fl_node *map, const char *bucket, struct fl_config *c,
                              struct fl_route_conf *ret, struct fl_findings *f)
{
    return fl_directives_read_route_as(FL_ORIGIN_PUSH, map, bucket, c, ret, f);
}

bool fl_directives_read_peer(const struct fl_node *map, struct fl_config *c,
                             struct fl_peer_conf *ret, struct fl_findings *f)
{
    struct fl_reading r = {NULL, &c->arena, f, FL_ORIGIN_PUSH, FL_IN_SIDECAR};
    struct fl_place here = fl_place_key(NULL, "peer");
    unsigned before = f->errors;
    *ret = (struct fl_peer_conf){.owner = FL_OWNER_FILE};
    fl_scope_default(&c->arena, FL_SCOPE_PEER, false, ret);
    fl_scope_read(&r, &here, FL_SCOPE_PEER, map, ret);
    return f->errors == before;
}
