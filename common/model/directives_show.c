#include "common/model/directives_show.h"

#include <stdlib.h>

#include "common/model/directives.h"
#include "common/model/directives_field.h"
#include "common/model/directives_scope.h"

enum style { BLOCK, FLOW, JSON };

struct shower {
    struct fl_fmt *out;
    const struct fl_config *c;
    enum style style;
    int depth;                          /* of indentation */
    bool first;                         /* in the current mapping */
    bool given_only, comments, members; /* members: keys of pushes too */
};

static void show_scope(struct shower *s, enum fl_scope scope, const void *base);

static void indent(struct shower *s)
{
    for (int i = 0; i < s->depth; i++) {
        fl_fmt_text(s->out, "  ");
    }
}

/* What other readers of YAML take for something else than a text. */
static bool is_taken_word(struct fl_span s)
{
    static const char *const words[] = {"y",    "n",    "yes",   "no",  "on",
                                        "true", "null", "false", "off", NULL};
    for (size_t i = 0; words[i] != NULL; i++) {
        if (fl_span_ieq(s, fl_span_of(words[i]))) {
            return true;
        }
    }
    return false;
}

/* Names that need no quotes as a YAML key. Everything is a plain text to our reader; to others a
 * name that begins with a digit may be a number. */
static bool is_bare(struct fl_span s)
{
    for (size_t i = 0; i < s.len; i++) {
        char l = fl_ascii_lower(s.ptr[i]);
        bool letter = l >= 'a' && l <= 'z', digit = l >= '0' && l <= '9';
        if (!letter && (i == 0 || (!digit && l != '_' && l != '-' && l != '.'))) {
            return false;
        }
    }
    return s.len > 0 && !is_taken_word(s);
}

static void begin_key(struct shower *s, struct fl_span name)
{
    if (s->style == BLOCK) {
        indent(s);
    } else if (!s->first) {
        fl_fmt_text(s->out, s->style == JSON ? "," : ", ");
    }
    s->first = false;
    if (s->style == JSON || !is_bare(name)) {
        fl_value_print_text(s->out, name, s->style == JSON);
    } else {
        fl_fmt_span(s->out, name);
    }
    fl_fmt_char(s->out, ':');
}

static void end_value(struct shower *s)
{
    fl_fmt_text(s->out, s->style == BLOCK ? "\n" : "");
}

static void show_flow(struct shower *s, enum fl_scope scope, const void *base)
{
    struct shower inner = *s;
    inner.style = s->style == JSON ? JSON : FLOW;
    inner.first = true;
    fl_fmt_char(s->out, '{');
    show_scope(&inner, scope, base);
    fl_fmt_char(s->out, '}');
}

static void show_block(struct shower *s, enum fl_scope scope, const void *base)
{
    struct shower inner = *s;
    inner.depth++;
    fl_fmt_char(s->out, '\n');
    show_scope(&inner, scope, base);
}

static bool is_default(const struct fl_directive *d, const void *base)
{
    int64_t v;
    if (d->type == FL_TYPE_LIST || d->type == FL_TYPE_PATHS) {
        return *(const uint32_t *)fl_field_at(base, d->count_offset) == 0;
    }
    if (d->type == FL_TYPE_MAP) {
        unsigned count;
        const struct fl_directive *child = fl_scope_rows(d->child, &count);
        bool same =
            !(d->flags & FL_D_PRESENCE) || !*(const bool *)fl_field_at(base, d->count_offset);
        for (unsigned i = 0; same && i < count && !(d->flags & FL_D_PRESENCE); i++) {
            same = is_default(&child[i], base);
        }
        return same;
    }
    if (fl_field_is_text(d->type)) {
        return strcmp(*(const char *const *)fl_field_at(base, d->offset), d->fallback) == 0;
    }
    return d->fallback && fl_field_parse(d, fl_span_of(d->fallback), false, &v) == FL_PARSED &&
           fl_field_load(d, base) == v;
}

/* In a push "peers" and "verdicts" are membership; the policy of that name travels as
 * "verdict_policy". */
static bool is_given(const struct fl_directive *d, const void *base)
{
    uint64_t set = *(const uint64_t *)fl_field_at(base, fl_scope_row(d->scope)->set_offset);
    if (d->scope == FL_SCOPE_BACKEND &&
        (d->type == FL_TYPE_LIST || strcmp(d->name, "verdicts") == 0)) {
        return false;
    }
    if (d->scope == FL_SCOPE_BACKEND && strcmp(d->name, "verdict_policy") == 0) {
        return (set | set >> 1) >> (fl_directive_bit(d) - 1) & 1; /* its twin is the row before */
    }
    return set >> fl_directive_bit(d) & 1;
}

static bool is_hidden(const struct shower *s, const struct fl_directive *d, const void *base)
{
    if (s->given_only) {
        return fl_scope_row(d->scope)->set_offset == FL_NO_SET ? is_default(d, base)
                                                               : !is_given(d, base);
    }
    if (d->flags & FL_D_PUSH) {
        return !s->members || is_default(d, base);
    }
    return d->flags & (FL_D_HIDE | FL_D_PRESENCE) && is_default(d, base);
}

static bool is_member(const struct fl_directive *d, const void *item)
{
    return d->child == FL_SCOPE_PEER &&
           ((const struct fl_peer_conf *)item)->owner == FL_OWNER_CONTROLLER;
}

static void show_list(struct shower *s, const struct fl_directive *d, const void *base)
{
    const char *items = *(const char *const *)fl_field_at(base, d->offset);
    uint32_t count = *(const uint32_t *)fl_field_at(base, d->count_offset), shown = 0;
    size_t size = fl_scope_row(d->child)->size;
    s->depth++;
    for (uint32_t i = 0; i < count; i++) {
        const void *item = items + i * size;
        if (is_member(d, item)) {
            continue;
        }
        fl_fmt_text(s->out, shown++ ? "" : "\n");
        indent(s);
        fl_fmt_text(s->out, "- ");
        show_flow(s, d->child, item);
        fl_fmt_char(s->out, '\n');
    }
    fl_fmt_text(s->out, shown ? "" : " []\n");
    for (uint32_t i = 0; s->comments && i < count; i++) {
        const void *item = items + i * size;
        if (is_member(d, item)) {
            indent(s);
            fl_fmt_text(s->out, "# pushed: ");
            s->members = true;
            show_flow(s, d->child, item);
            s->members = false;
            fl_fmt_char(s->out, '\n');
        }
    }
    s->depth--;
}

static void show_backends(struct shower *s)
{
    fl_fmt_text(s->out, s->c->backend_count ? "\n" : " {}\n");
    s->depth++;
    for (uint32_t i = 0; i < s->c->backend_count; i++) {
        begin_key(s, fl_span_of(s->c->backends[i].name));
        show_block(s, FL_SCOPE_BACKEND, &s->c->backends[i]);
    }
    s->depth--;
}

static void show_routes(struct shower *s)
{
    uint32_t shown = 0;
    s->depth++;
    for (uint32_t i = 0; i < s->c->route_count; i++) {
        const struct fl_route_conf *r = &s->c->routes[i];
        if (!r->invalid[0]) {
            fl_fmt_text(s->out, shown++ ? "" : "\n");
            begin_key(s, fl_span_of(r->bucket));
            show_block(s, FL_SCOPE_ROUTE, r);
        }
    }
    fl_fmt_text(s->out, shown ? "" : " {}\n");
    for (uint32_t i = 0; s->comments && i < s->c->route_count; i++) {
        const struct fl_route_conf *r = &s->c->routes[i];
        if (r->invalid[0]) {
            indent(s);
            fl_fmt_text(s->out, "# invalid: ");
            fl_value_print_text(s->out, fl_span_of(r->bucket), false);
            fl_fmt_text(s->out, " ");
            fl_value_print_text(s->out, fl_span_of(r->invalid), false);
            fl_fmt_char(s->out, '\n');
        }
    }
    s->depth--;
}

static void show_paths(struct shower *s, const struct fl_route_conf *r)
{
    struct shower inner = *s;
    inner.first = true;
    inner.depth++;
    fl_fmt_text(s->out, s->style == JSON ? "{" : r->path_count ? "\n" : " {}\n");
    for (uint32_t i = 0; i < r->path_count; i++) {
        const struct fl_path_conf *p = &r->paths[i];
        char key[1100];
        struct fl_fmt f = fl_fmt_of(key, sizeof(key));
        fl_fmt_text(&f, p->exact ? "= " : "");
        fl_fmt_text(&f, p->prefix);
        begin_key(&inner, (struct fl_span){key, f.len});
        if (s->style == JSON) {
            show_flow(&inner, FL_SCOPE_PATH, p);
        } else {
            show_block(&inner, FL_SCOPE_PATH, p);
        }
    }
    fl_fmt_text(s->out, s->style == JSON ? "}" : "");
}

static void show_row(struct shower *s, const struct fl_directive *d, const void *base)
{
    begin_key(s, fl_span_of(d->name));
    if (fl_value_is_plain(d->type)) {
        fl_fmt_text(s->out, s->style == JSON ? "" : " ");
        fl_value_print(d, base, s->out, s->style == JSON);
        end_value(s);
    } else if (d->type == FL_TYPE_MAP && (d->flags & FL_D_INLINE || s->style != BLOCK)) {
        fl_fmt_text(s->out, s->style == JSON ? "" : " ");
        show_flow(s, d->child, base);
        end_value(s);
    } else if (d->type == FL_TYPE_MAP) {
        show_block(s, d->child, base);
    } else if (d->type == FL_TYPE_LIST) {
        show_list(s, d, base);
    } else if (d->type == FL_TYPE_BACKENDS) {
        show_backends(s);
    } else if (d->type == FL_TYPE_ROUTES) {
        show_routes(s);
    } else if (d->type == FL_TYPE_PATHS) {
        show_paths(s, base);
    }
}

static void show_scope(struct shower *s, enum fl_scope scope, const void *base)
{
    const struct fl_scope_row *row = fl_scope_row(scope);
    unsigned count;
    const struct fl_directive *d = fl_scope_rows(scope, &count);
    for (unsigned i = 0; i < count; i++) {
        bool empty_paths = d[i].type == FL_TYPE_PATHS && is_default(&d[i], base);
        if (!is_hidden(s, &d[i], base) && !empty_paths && d[i].type != FL_TYPE_PATHS) {
            show_row(s, &d[i], base);
        }
    }
    if (row->mixin != FL_SCOPE_NONE) {
        show_scope(s, row->mixin, fl_field_at(base, row->mixin_offset));
    }
    /* The paths stand last: they repeat the keys of the route. */
    const struct fl_directive *paths =
        scope == FL_SCOPE_ROUTE ? fl_scope_find(scope, "paths") : NULL;
    if (paths && !is_default(paths, base)) {
        show_row(s, paths, base);
    }
}

void fl_show_document(enum fl_scope s, const void *base, const struct fl_config *c, bool comments,
                      struct fl_fmt *out)
{
    struct shower shower = {.out = out, .c = c, .style = BLOCK, .comments = comments};
    show_scope(&shower, s, base);
}

void fl_show_backend(const struct fl_backend_conf *b, struct fl_fmt *out)
{
    struct shower s = {.out = out, .style = BLOCK};
    show_scope(&s, FL_SCOPE_BACKEND, b);
}

void fl_show_route(const struct fl_route_conf *r, struct fl_fmt *out)
{
    struct shower s = {.out = out, .style = BLOCK};
    show_scope(&s, FL_SCOPE_ROUTE, r);
}

bool fl_show_given(enum fl_scope scope, const void *base, struct fl_fmt *out)
{
    struct shower s = {.out = out, .style = JSON, .first = true, .given_only = true};
    size_t before = out->len;
    show_scope(&s, scope, base);
    return out->len > before;
}

char *fl_show_grown(void (*write)(const void *what, struct fl_fmt *out), const void *what,
                    size_t about, size_t *ret_len)
{
    for (size_t cap = about + 1; cap <= (size_t)256 << 20; cap *= 2) {
        char *buffer = malloc(cap);
        if (!buffer) {
            return NULL;
        }
        struct fl_fmt out = fl_fmt_of(buffer, cap);
        write(what, &out);
        if (!out.cut) {
            *ret_len = out.len;
            return buffer;
        }
        free(buffer);
    }
    return NULL;
}

uint64_t fl_show_hash(struct fl_span text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < text.len; i++) {
        hash = (hash ^ (unsigned char)text.ptr[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

uint64_t fl_show_hash_of(void (*write)(const void *what, struct fl_fmt *out), const void *what,
                         size_t about)
{
    size_t len;
    char *text = fl_show_grown(write, what, about, &len);
    uint64_t hash = text ? fl_show_hash((struct fl_span){text, len}) : 0;
    free(text);
    return hash;
}

void fl_directives_show(const struct fl_config *c, struct fl_fmt *out)
{
    fl_show_document(FL_SCOPE_ROOT, c, c, true, out);
}

static void write_config(const void *what, struct fl_fmt *out)
{
    fl_directives_show(what, out);
}

char *fl_directives_show_text(const struct fl_config *c)
{
    size_t len;
    return fl_show_grown(write_config, c, FL_SHOW_ABOUT, &len);
}
