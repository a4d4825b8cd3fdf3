#include "common/model/directives_scope.h"

#include "common/model/directives_field.h"
#include "common/model/nearest.h"

#define KEYS_MAX  128u   /* of a mapping with fixed keys: an attack or a mistake beyond */
#define LINES_MAX 20000u /* remembered for messages */

void fl_scope_default(struct fl_arena *arena, enum fl_scope s, bool http, void *base)
{
    const struct fl_scope_row *scope = fl_scope_row(s);
    unsigned count;
    const struct fl_directive *d = fl_scope_rows(s, &count);
    for (unsigned i = 0; i < count; i++) {
        const char *text = http && d[i].fallback_http ? d[i].fallback_http : d[i].fallback;
        if (d[i].type == FL_TYPE_MAP) {
            fl_scope_default(arena, d[i].child, http, base);
        } else if (text) {
            fl_value_assign(arena, &d[i], text, base);
        }
    }
    if (scope->mixin != FL_SCOPE_NONE) {
        fl_scope_default(arena, scope->mixin, http, fl_field_of(base, scope->mixin_offset));
    }
}

const struct fl_node *fl_scope_earlier(const struct fl_node *map, const struct fl_node *n)
{
    for (const struct fl_node *i = map->first; i != n; i = i->next) {
        if (fl_span_eq(i->key, n->key)) {
            return i;
        }
    }
    return NULL;
}

static size_t common_length(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n]) {
        n++;
    }
    return n;
}

/* A row of another scope of the same document that has this name, or that nginx calls so: the
 * nearest one; NULL: none. */
static const struct fl_directive *home_of(const struct fl_reading *r, enum fl_scope at,
                                          struct fl_span name)
{
    const struct fl_directive *best = NULL;
    size_t best_near = 0;
    for (unsigned s = 0; s < FL_SCOPE_COUNT; s++) {
        unsigned count;
        const struct fl_directive *d = fl_scope_rows((enum fl_scope)s, &count);
        const char *where = fl_scope_row((enum fl_scope)s)->where;
        size_t near = common_length(where, fl_scope_row(at)->where) + 1;
        for (unsigned i = 0; i < count && fl_scope_row((enum fl_scope)s)->document & r->document;
             i++) {
            bool same = fl_span_is(name, d[i].name) || (d[i].nginx && fl_span_is(name, d[i].nginx));
            if (same && !(d[i].flags & FL_D_PUSH) && near > best_near) {
                best = &d[i];
                best_near = near;
            }
        }
    }
    return best;
}

/* What may be written in a document of this origin. */
static void offer_rows(struct fl_nearest *near, enum fl_origin origin, enum fl_scope s)
{
    unsigned count;
    unsigned closed =
        FL_D_PUSH | (origin == FL_ORIGIN_ANNOTATION ? (unsigned)FL_D_PRIVATE : FL_D_ANNOTATION);
    const struct fl_directive *d = fl_scope_rows(s, &count);
    for (unsigned i = 0; i < count; i++) {
        if (!(d[i].flags & closed)) {
            fl_nearest_offer(near, d[i].name);
        }
    }
    if (fl_scope_row(s)->mixin != FL_SCOPE_NONE) {
        offer_rows(near, origin, fl_scope_row(s)->mixin);
    }
}

/* Where a key of another scope is written by annotations: "backends.NAME.probe" is in "probe" of
 * backend.fairlead.dev/NAME. */
static void print_annotation_home(const struct fl_directive *home, struct fl_fmt *out)
{
    static const struct {
        const char *where, *annotation;
    } homes[] = {{"backends.NAME", "backend.fairlead.dev/NAME"},
                 {"routes.BUCKET", "route.fairlead.dev/BUCKET"}};
    struct fl_span where = fl_span_of(fl_scope_row(home->scope)->where);
    if (home->flags & FL_D_PRIVATE) {
        fl_fmt_printf(out, "; it %s", FL_NOT_IN_ANNOTATIONS);
        return;
    }
    if (home->type == FL_TYPE_BACKENDS || home->type == FL_TYPE_ROUTES) {
        fl_fmt_text(out, "; it belongs in fairlead.dev/routes");
    } else if (home->scope == FL_SCOPE_ROOT) {
        fl_fmt_text(out, "; it is an annotation of its own, fairlead.dev/");
        for (const char *c = home->name; *c; c++) {
            fl_fmt_char(out, *c == '_' ? '-' : *c);
        }
    }
    for (size_t i = 0; i < FL_COUNTOF(homes); i++) {
        struct fl_span top = fl_span_of(homes[i].where);
        if (fl_span_starts(where, top)) {
            struct fl_span rest = fl_span_from(where, top.len + 1);
            fl_fmt_text(out, rest.len ? "; it belongs in \"" : "; it belongs in ");
            fl_fmt_span(out, rest);
            fl_fmt_text(out, rest.len ? "\" of " : "");
            fl_fmt_text(out, homes[i].annotation);
        }
    }
}

static void unknown_key(struct fl_reading *r, const struct fl_place *at, enum fl_scope s,
                        const struct fl_node *n)
{
    char place[FL_PLACE_MAX], shown[FL_SHOWN_MAX], hint[160];
    struct fl_fmt p = fl_fmt_of(place, sizeof(place)), h = fl_fmt_of(hint, sizeof(hint));
    struct fl_nearest near = fl_nearest_to(n->key);
    bool annotated = r->origin == FL_ORIGIN_ANNOTATION;
    /* A younger controller may know more keys than this sidecar: its push must still get through.
     */
    enum fl_severity severity =
        r->origin == FL_ORIGIN_PUSH ? FL_SEVERITY_WARNING : FL_SEVERITY_ERROR;
    const struct fl_directive *home = home_of(r, s, n->key);
    const char *where = home ? fl_scope_row(home->scope)->where : "";
    fl_place_print(at, &p);
    offer_rows(&near, r->origin, s);
    if (home && !fl_span_is(n->key, home->name)) {
        fl_fmt_printf(&h, "; nginx's directive is \"%s\" %s%s here", home->name,
                      where[0] ? "in " : "at the top level", where);
    } else if (near.best && (near.distance <= 1 || !home)) {
        fl_fmt_printf(&h, "; did you mean \"%s\"?", near.best);
    } else if (home && annotated) {
        print_annotation_home(home, &h);
    } else if (home) {
        fl_fmt_printf(&h, "; it belongs %s%s", where[0] ? "in " : "at the top level", where);
    }
    fl_findings_add(r->f, severity, n->key_line, "unknown key %s%s%s%s%s",
                    fl_value_shown(n->key, shown),
                    p.len       ? " in "
                    : annotated ? ""
                                : " at the top level",
                    place, hint, severity == FL_SEVERITY_WARNING ? " (ignored)" : "");
}

/* May this row stand in a document of this origin? */
static bool is_welcome(struct fl_reading *r, const struct fl_place *here,
                       const struct fl_directive *d, const struct fl_node *n)
{
    if (d->flags & FL_D_ANNOTATION && r->origin == FL_ORIGIN_FILE) {
        char place[FL_PLACE_MAX];
        struct fl_fmt f = fl_fmt_of(place, sizeof(place));
        fl_place_print(here, &f);
        fl_findings_add(r->f, FL_SEVERITY_WARNING, n->key_line,
                        "%s: is for pod annotations only and ignored here; "
                        "a file names access_key_file and secret_key_file",
                        place);
        return false;
    }
    if (d->flags & FL_D_PRIVATE && r->origin == FL_ORIGIN_ANNOTATION) {
        fl_reading_fault(r, here, n->key_line, "%s", FL_NOT_IN_ANNOTATIONS);
        return false;
    }
    return true;
}

void fl_reading_remember(struct fl_reading *r, const struct fl_place *here, int line)
{
    char place[FL_PLACE_MAX];
    struct fl_fmt f = fl_fmt_of(place, sizeof(place));
    if (!r->c || line <= 0 || r->c->lines.count >= LINES_MAX) {
        return;
    }
    fl_place_print(here, &f);
    char *copy = fl_arena_text(r->arena, (struct fl_span){place, f.len});
    if (!copy || fl_smap_put(&r->c->lines, fl_span_of(copy), (void *)(uintptr_t)line) != 0) {
        return; /* messages then name the place without a line */
    }
}

static bool read_value(struct fl_reading *r, const struct fl_place *here,
                       const struct fl_directive *d, const struct fl_node *n, void *base)
{
    if (fl_value_is_plain(d->type)) {
        return fl_value_set(r, here, d, n, base);
    }
    if (d->type != FL_TYPE_MAP) {
        return fl_scope_read_many(r, here, d, n, base);
    }
    if (d->flags & FL_D_PRESENCE) {
        *(bool *)fl_field_of(base, d->count_offset) = true;
    }
    fl_scope_read(r, here, d->child, n, base);
    return true;
}

/* One key; the row's own base, and whether the key is known at all. */
static const struct fl_directive *row_of(const struct fl_reading *r, enum fl_scope s,
                                         struct fl_span key)
{
    unsigned count;
    const struct fl_directive *d = fl_scope_rows(s, &count);
    for (unsigned i = 0; i < count; i++) {
        if (fl_span_is(key, d[i].name) &&
            (!(d[i].flags & FL_D_PUSH) || r->origin == FL_ORIGIN_PUSH)) {
            return &d[i];
        }
    }
    return NULL;
}

static void read_key(struct fl_reading *r, const struct fl_place *at, enum fl_scope s,
                     const struct fl_node *n, void *base, uint64_t *seen)
{
    const struct fl_scope_row *scope = fl_scope_row(s);
    const struct fl_directive *d = row_of(r, s, n->key);
    if (!d && scope->mixin != FL_SCOPE_NONE) {
        d = row_of(r, scope->mixin, n->key);
        base = d ? fl_field_of(base, scope->mixin_offset) : base;
    }
    if (!d) {
        unknown_key(r, at, s, n);
        return;
    }
    if (r->origin == FL_ORIGIN_PUSH && n->kind == FL_NODE_MAP &&
        d->offset == offsetof(struct fl_backend_conf, verdicts) && d->scope == FL_SCOPE_BACKEND) {
        return; /* the pushed verdicts, which are no configuration */
    }
    struct fl_place here = {at, n->key, -1};
    size_t set_offset = fl_scope_row(d->scope)->set_offset;
    if (d->scope == s) {
        *seen |= UINT64_C(1) << fl_directive_bit(d);
    }
    if (!is_welcome(r, &here, d, n)) {
        return;
    }
    fl_reading_remember(r, &here, n->key_line);
    read_value(r, &here, d, n, base);
    if (set_offset != FL_NO_SET) { /* even when it is wrong: no second finding that it is missing */
        *(uint64_t *)fl_field_of(base, set_offset) |= UINT64_C(1) << fl_directive_bit(d);
    }
}

static void require(struct fl_reading *r, const struct fl_place *at, enum fl_scope s,
                    const struct fl_node *map, const void *base, uint64_t seen)
{
    unsigned count;
    const struct fl_directive *d = fl_scope_rows(s, &count);
    for (unsigned i = 0; i < count; i++) {
        if (!(d[i].flags & FL_D_REQUIRED)) {
            continue;
        }
        const struct fl_node *n = fl_node_get(map, d[i].name);
        if (!(seen & UINT64_C(1) << i)) {
            fl_reading_fault(r, at, map->key_line ? map->key_line : map->line, "%s is missing",
                             d[i].name);
        } else if (n && n->kind == FL_NODE_SCALAR && n->text.len == 0 &&
                   fl_field_is_text(d[i].type) &&
                   (*(const char *const *)fl_field_at(base, d[i].offset))[0] == '\0') {
            struct fl_place here = {at, n->key, -1};
            fl_reading_fault(r, &here, n->line, "is empty");
        }
    }
}

void fl_scope_read(struct fl_reading *r, const struct fl_place *at, enum fl_scope s,
                   const struct fl_node *map, void *base)
{
    uint64_t seen = 0;
    unsigned keys = 0;
    if (map->kind != FL_NODE_MAP) {
        fl_reading_fault(r, at, map->line, "%sis not a mapping of keys%s",
                         at || r->origin == FL_ORIGIN_ANNOTATION ? "" : "the document ",
                         map->kind == FL_NODE_NULL ? "; it has no value" : "");
        return;
    }
    for (const struct fl_node *n = map->first; n; n = n->next) {
        if (++keys > KEYS_MAX) {
            fl_reading_fault(r, at, n->key_line, "more than %u keys", KEYS_MAX);
            return;
        }
    }
    for (const struct fl_node *n = map->first; n; n = n->next) {
        const struct fl_node *earlier = fl_scope_earlier(map, n);
        if (earlier) {
            char shown[FL_SHOWN_MAX];
            fl_reading_fault(r, at, n->key_line, "duplicate key %s (the first is on line %d)",
                             fl_value_shown(n->key, shown), earlier->key_line);
            continue;
        }
        read_key(r, at, s, n, base, &seen);
    }
    require(r, at, s, map, base, seen);
}

bool fl_scope_rehome(struct fl_arena *arena, enum fl_scope s, void *base)
{
    const struct fl_scope_row *scope = fl_scope_row(s);
    unsigned count;
    const struct fl_directive *d = fl_scope_rows(s, &count);
    bool good = true;
    for (unsigned i = 0; good && i < count; i++) {
        if (fl_value_is_plain(d[i].type)) {
            good = fl_value_rehome(arena, &d[i], base);
        } else if (d[i].type == FL_TYPE_MAP) {
            good = fl_scope_rehome(arena, d[i].child, base);
        } else if (d[i].type == FL_TYPE_LIST || d[i].type == FL_TYPE_PATHS) {
            size_t size = fl_scope_row(d[i].child)->size;
            uint32_t items = *(uint32_t *)fl_field_of(base, d[i].count_offset);
            char **list = fl_field_of(base, d[i].offset),
                 *copy = fl_arena_array(arena, items, size);
            good = copy != NULL;
            if (good && items > 0) {
                memcpy(copy, *list, items * size);
            }
            *list = copy;
            for (uint32_t k = 0; good && k < items; k++) {
                good = fl_scope_rehome(arena, d[i].child, copy + k * size);
            }
        }
    }
    if (good && scope->mixin != FL_SCOPE_NONE) {
        good = fl_scope_rehome(arena, scope->mixin, fl_field_of(base, scope->mixin_offset));
    }
    return good;
}
