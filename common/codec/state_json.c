#include "common/codec/state_json.h"

#include "common/base/units.h"
#include "common/codec/json_parse.h"
#include "common/model/directives.h"
#include "common/model/directives_scope.h"

#define TREE_MEMORY_MAX ((size_t)32 << 20)
#define NAMES_MAX       4096u
#define KEYS_MAX        16u
#define KEY_BYTES_MAX   8192u

struct decoding {
    struct fl_state *s;
    struct fl_reading r; /* for places and faults */
};

static bool fault(struct decoding *d, const struct fl_place *at, const char *text)
{
    fl_reading_fault(&d->r, at, 0, "%s", text);
    return false;
}

static bool take_number(struct decoding *d, const struct fl_place *at, const struct fl_node *n,
                        int64_t *ret)
{
    uint64_t v;
    if (!n || n->kind != FL_NODE_SCALAR || n->quoted || !fl_units_uint(n->text, &v) ||
        v > INT64_MAX) {
        return fault(d, at, n ? "is not a whole number of 0 or more" : "is missing");
    }
    *ret = (int64_t)v;
    return true;
}

/* Children of a mapping that may be absent; -1: a fault. */
static int64_t count_of(struct decoding *d, const struct fl_place *at, const struct fl_node *n,
                        enum fl_node_kind kind, unsigned max)
{
    int64_t count = 0;
    if (n && n->kind != kind) {
        fault(d, at, kind == FL_NODE_MAP ? "is not an object" : "is not a list");
        return -1;
    }
    for (const struct fl_node *i = n ? n->first : NULL; i; i = i->next) {
        count++;
    }
    if (count > max) {
        fault(d, at, "has too many entries");
        return -1;
    }
    return count;
}

static void *room(struct decoding *d, const struct fl_place *at, size_t count, size_t size)
{
    void *items = fl_arena_array(d->r.arena, count, size);
    if (!items) {
        fault(d, at, "out of memory");
    }
    return items;
}

/* A text member that may be absent: "" then. */
static const char *take_text(struct decoding *d, const struct fl_place *at,
                             const struct fl_node *map, const char *name)
{
    const struct fl_node *n = fl_node_get(map, name);
    struct fl_place here = fl_place_key(at, name);
    if (!n) {
        return "";
    }
    if (n->kind != FL_NODE_SCALAR || !n->quoted) {
        fault(d, &here, "is not a text");
        return NULL;
    }
    const char *copy = fl_arena_text(d->r.arena, n->text);
    if (!copy) {
        fault(d, &here, "out of memory");
    }
    return copy;
}

static bool decode_verdict(struct decoding *d, const struct fl_place *at, const struct fl_node *n,
                           struct fl_state_verdict *ret)
{
    struct fl_place status_at = fl_place_key(at, "status"), age_at = fl_place_key(at, "age_ms");
    if (n->kind != FL_NODE_MAP) {
        return fault(d, at, "is not an object");
    }
    const struct fl_node *status = fl_node_get(n, "status"), *age = fl_node_get(n, "age_ms");
    const char *code = take_text(d, at, n, "code"), *cause = take_text(d, at, n, "cause");
    const char *step = take_text(d, at, n, "step");
    ret->address = fl_arena_text(d->r.arena, n->key);
    if (!ret->address || !code || !cause || !step) {
        return false;
    }
    if (!status || status->kind != FL_NODE_SCALAR ||
        !fl_verdict_status_parse(status->text, &ret->status)) {
        return fault(d, &status_at,
                     "is not one of healthy, unreachable, auth-rejected, erroring, unknown");
    }
    if (age && !take_number(d, &age_at, age, &ret->age_ms)) {
        return false;
    }
    struct fl_fmt f = fl_fmt_of(ret->step, sizeof(ret->step));
    fl_fmt_header(&f, fl_span_first(fl_span_of(step), sizeof(ret->step) - 1));
    fl_cause_set(&ret->cause, code, "%s", cause);
    return true;
}

static bool decode_verdicts(struct decoding *d, const struct fl_place *at, const struct fl_node *n,
                            struct fl_state_backend *ret)
{
    int64_t count = count_of(d, at, n, FL_NODE_MAP, NAMES_MAX);
    ret->verdicts = count < 0 ? NULL : room(d, at, (size_t)count, sizeof(*ret->verdicts));
    if (!ret->verdicts) {
        return false;
    }
    for (const struct fl_node *i = n->first; i; i = i->next) {
        struct fl_place here = fl_place_key(at, i->key.ptr);
        if (!decode_verdict(d, &here, i, &ret->verdicts[ret->verdict_count])) {
            return false;
        }
        ret->verdict_count++;
    }
    return true;
}

/* Anything beside members and verdicts makes the definition the controller's. */
static bool owns(const struct fl_node *n)
{
    for (const struct fl_node *i = n->first; i; i = i->next) {
        if (!fl_span_is(i->key, "peers") &&
            !(fl_span_is(i->key, "verdicts") && i->kind == FL_NODE_MAP)) {
            return true;
        }
    }
    return false;
}

static bool decode_backend(struct decoding *d, const struct fl_node *n,
                           struct fl_state_backend *ret)
{
    struct fl_place top = fl_place_key(NULL, "backends"), here = fl_place_key(&top, n->key.ptr);
    struct fl_place verdicts_at = fl_place_key(&here, "verdicts");
    const struct fl_node *verdicts = fl_node_get(n, "verdicts");
    if (!fl_directives_read_backend(n, n->key.ptr, d->s->conf, &ret->conf, d->r.f)) {
        return false;
    }
    ret->name = ret->conf.name;
    ret->conf.owner = FL_OWNER_CONTROLLER;
    ret->has_peers = fl_node_get(n, "peers") != NULL;
    ret->owns = owns(n);
    return !verdicts || verdicts->kind != FL_NODE_MAP ||
           decode_verdicts(d, &verdicts_at, verdicts, ret);
}

static bool decode_backends(struct decoding *d, const struct fl_node *n)
{
    struct fl_place at = fl_place_key(NULL, "backends");
    int64_t count = count_of(d, &at, n, FL_NODE_MAP, NAMES_MAX);
    d->s->backends = count < 0 ? NULL : room(d, &at, (size_t)count, sizeof(*d->s->backends));
    bool good = d->s->backends != NULL;
    for (const struct fl_node *i = good && n ? n->first : NULL; i; i = i->next) {
        good = decode_backend(d, i, &d->s->backends[d->s->backend_count++]) && good;
    }
    return good;
}

static bool decode_routes(struct decoding *d, const struct fl_node *n)
{
    struct fl_place at = fl_place_key(NULL, "routes");
    int64_t count = count_of(d, &at, n, FL_NODE_MAP, NAMES_MAX);
    d->s->routes = count < 0 ? NULL : room(d, &at, (size_t)count, sizeof(*d->s->routes));
    bool good = d->s->routes != NULL;
    for (const struct fl_node *i = good && n ? n->first : NULL; i; i = i->next) {
        struct fl_route_conf *r = &d->s->routes[d->s->route_count++];
        good = fl_directives_read_route(i, i->key.ptr, d->s->conf, r, d->r.f) && good;
        r->owner = FL_OWNER_CONTROLLER;
    }
    return good;
}

static bool decode_keys(struct decoding *d, const struct fl_node *n)
{
    struct fl_place at = fl_place_key(NULL, "keys");
    int64_t count = count_of(d, &at, n, FL_NODE_LIST, KEYS_MAX);
    d->s->keys.items = count < 0 ? NULL : room(d, &at, (size_t)count, sizeof(*d->s->keys.items));
    if (!d->s->keys.items) {
        return false;
    }
    for (const struct fl_node *i = n->first; i; i = i->next) {
        struct fl_place here = {&at, {NULL, 0}, (int)d->s->keys.count};
        if (i->kind != FL_NODE_SCALAR || !i->quoted || i->text.len == 0 ||
            i->text.len > KEY_BYTES_MAX) {
            return fault(d, &here, "is not a PEM text");
        }
        d->s->keys.items[d->s->keys.count] = fl_arena_text(d->r.arena, i->text);
        if (!d->s->keys.items[d->s->keys.count++]) {
            return fault(d, &here, "out of memory");
        }
    }
    return n->first ? true : fault(d, &at, "is empty; that would lock every controller out");
}

static bool decode(struct decoding *d, const struct fl_node *root)
{
    static const char *const known[] = {"epoch", "seq", "routes", "backends", "keys"};
    struct fl_place epoch_at = fl_place_key(NULL, "epoch"), seq_at = fl_place_key(NULL, "seq");
    if (root->kind != FL_NODE_MAP) {
        return fault(d, NULL, "the state is not an object");
    }
    for (const struct fl_node *i = root->first; i; i = i->next) {
        size_t k = 0;
        while (k < FL_COUNTOF(known) && !fl_span_is(i->key, known[k])) {
            k++;
        }
        if (k == FL_COUNTOF(known)) {
            char shown[FL_SHOWN_MAX];
            fl_findings_add(d->r.f, FL_SEVERITY_WARNING, 0,
                            "unknown key %s at the top level (ignored)",
                            fl_value_shown(i->key, shown));
        }
    }
    bool good = take_number(d, &epoch_at, fl_node_get(root, "epoch"), &d->s->epoch);
    good = take_number(d, &seq_at, fl_node_get(root, "seq"), &d->s->seq) && good;
    good = decode_routes(d, fl_node_get(root, "routes")) && good;
    good = decode_backends(d, fl_node_get(root, "backends")) && good;
    return (!fl_node_get(root, "keys") || decode_keys(d, fl_node_get(root, "keys"))) && good;
}

struct fl_state *fl_state_json_decode(struct fl_span body, struct fl_findings *f)
{
    struct fl_arena tree;
    struct decoding d = {.s = fl_state_new()};
    if (!d.s) {
        fl_findings_add(f, FL_SEVERITY_ERROR, 0, "out of memory");
        return NULL;
    }
    d.r = (struct fl_reading){NULL, &d.s->conf->arena, f, FL_ORIGIN_PUSH, FL_IN_SIDECAR};
    fl_arena_init(&tree, TREE_MEMORY_MAX);
    const struct fl_node *root = fl_json_parse(body, &tree, f);
    bool good = root && decode(&d, root);
    fl_arena_done(&tree);
    if (!good) {
        return fl_state_free(d.s);
    }
    fl_state_sort(d.s);
    d.s->hash = fl_state_json_hash(d.s);
    return d.s;
}
