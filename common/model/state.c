#include "common/model/state.h"

#include <stdlib.h>

#include "common/model/config_check.h"
#include "common/model/directives.h"
#include "common/model/directives_field.h"
#include "common/model/directives_scope.h"
#include "common/model/directives_show.h"

struct fl_state *fl_state_new(void)
{
    struct fl_state *s = calloc(1, sizeof(*s));
    struct fl_config *conf = s ? fl_config_new() : NULL;
    if (!conf) {
        free(s);
        return NULL;
    }
    s->conf = conf;
    return s;
}

struct fl_state *fl_state_free(struct fl_state *s)
{
    if (s) {
        fl_config_free(s->conf);
        free(s);
    }
    return NULL;
}

bool fl_state_newer(int64_t epoch, int64_t seq, int64_t have_epoch, int64_t have_seq)
{
    return epoch > have_epoch || (epoch == have_epoch && seq > have_seq);
}

static int by_backend(const void *a, const void *b)
{
    const struct fl_state_backend *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int by_bucket(const void *a, const void *b)
{
    const struct fl_route_conf *x = a, *y = b;
    return strcmp(x->bucket, y->bucket);
}

static int by_address(const void *a, const void *b)
{
    const struct fl_state_verdict *x = a, *y = b;
    return strcmp(x->address, y->address);
}

static void sort(void *items, uint32_t count, size_t size, int (*order)(const void *, const void *))
{
    if (count > 1) {
        qsort(items, count, size, order);
    }
}

void fl_state_sort(struct fl_state *s)
{
    sort(s->backends, s->backend_count, sizeof(*s->backends), by_backend);
    sort(s->routes, s->route_count, sizeof(*s->routes), by_bucket);
    for (uint32_t i = 0; i < s->backend_count; i++) {
        sort(s->backends[i].verdicts, s->backends[i].verdict_count,
             sizeof(*s->backends[i].verdicts), by_address);
    }
}

/* A copy whose texts live in c; false: out of memory. */
static bool copy_backend(struct fl_config *c, const struct fl_backend_conf *from,
                         struct fl_backend_conf *to)
{
    *to = *from;
    to->name = fl_arena_text(&c->arena, fl_span_of(from->name));
    return to->name && fl_scope_rehome(&c->arena, FL_SCOPE_BACKEND, to);
}

static bool copy_route(struct fl_config *c, const struct fl_route_conf *from,
                       struct fl_route_conf *to)
{
    *to = *from;
    to->bucket = fl_arena_text(&c->arena, fl_span_of(from->bucket));
    bool good = to->bucket && fl_scope_rehome(&c->arena, FL_SCOPE_ROUTE, to);
    for (uint32_t i = 0; good && i < to->path_count; i++) {
        to->paths[i].prefix = fl_arena_text(&c->arena, fl_span_of(to->paths[i].prefix));
        good = to->paths[i].prefix != NULL;
    }
    return good;
}

static bool copy_file(struct fl_config *c, const struct fl_config *file, uint32_t more_backends,
                      uint32_t more_routes)
{
    struct fl_config made = *file;
    made.arena = c->arena;
    made.lines = c->lines;
    made.backend_count = made.route_count = 0;
    made.file = fl_arena_text(&made.arena, fl_span_of(file->file));
    made.backends = fl_arena_array(&made.arena, (size_t)file->backend_count + more_backends,
                                   sizeof(*made.backends));
    made.routes =
        fl_arena_array(&made.arena, (size_t)file->route_count + more_routes, sizeof(*made.routes));
    bool good = made.file && made.backends && made.routes;
    *c = made; /* the arena has moved on: c owns it in any case */
    good = good && fl_scope_rehome(&c->arena, FL_SCOPE_ROOT, c);
    for (uint32_t i = 0; good && i < file->backend_count; i++) {
        good = copy_backend(c, &file->backends[i], &c->backends[c->backend_count++]);
    }
    for (uint32_t i = 0; good && i < file->route_count; i++) {
        good = copy_route(c, &file->routes[i], &c->routes[c->route_count++]);
    }
    return good;
}

static struct fl_backend_conf *find_backend(struct fl_config *c, const char *name)
{
    for (uint32_t i = 0; i < c->backend_count; i++) {
        if (strcmp(c->backends[i].name, name) == 0) {
            return &c->backends[i];
        }
    }
    return NULL;
}

static struct fl_route_conf *find_route(struct fl_config *c, const char *bucket)
{
    for (uint32_t i = 0; i < c->route_count; i++) {
        if (strcmp(c->routes[i].bucket, bucket) == 0) {
            return &c->routes[i];
        }
    }
    return NULL;
}

/* The pushed keys of a peer over those of a written one. */
static void merge_peer(struct fl_peer_conf *to, const struct fl_peer_conf *pushed)
{
    unsigned count;
    const struct fl_directive *d = fl_scope_rows(FL_SCOPE_PEER, &count);
    for (unsigned i = 0; i < count; i++) {
        if (pushed->set >> i & 1) {
            fl_value_copy(&d[i], to, &d[i], pushed);
        }
    }
    to->set |= pushed->set;
}

/* Members beside the written peers: a shallow backend in *to, whose texts are not yet c's. */
static bool add_members(struct fl_config *c, struct fl_backend_conf *to,
                        const struct fl_backend_conf *pushed)
{
    uint32_t written = to->peer_count;
    struct fl_peer_conf *peers =
        fl_arena_array(&c->arena, (size_t)written + pushed->peer_count, sizeof(*peers));
    if (!peers) {
        return false;
    }
    for (uint32_t i = 0; i < written; i++) {
        peers[i] = to->peers[i];
    }
    to->peers = peers;
    for (uint32_t i = 0; i < pushed->peer_count; i++) {
        uint32_t same = 0;
        while (same < written && strcmp(peers[same].address, pushed->peers[i].address) != 0) {
            same++;
        }
        if (same < written) {
            merge_peer(&peers[same], &pushed->peers[i]);
        } else {
            peers[to->peer_count] = pushed->peers[i];
            peers[to->peer_count++].owner = FL_OWNER_CONTROLLER;
        }
    }
    return fl_scope_rehome(&c->arena, FL_SCOPE_BACKEND, to);
}

static bool overlay_backend(struct fl_config *c, const struct fl_state_backend *pushed)
{
    struct fl_backend_conf *have = find_backend(c, pushed->name);
    if (have && !pushed->owns) {
        return !pushed->has_peers || add_members(c, have, &pushed->conf);
    }
    if (!pushed->owns && !pushed->has_peers) {
        return true; /* verdicts of a backend that nobody defines */
    }
    have = have ? have : &c->backends[c->backend_count++];
    if (!copy_backend(c, &pushed->conf, have)) {
        return false;
    }
    have->owner = FL_OWNER_CONTROLLER;
    have->line = 0;
    for (uint32_t i = 0; i < have->peer_count; i++) {
        have->peers[i].owner = FL_OWNER_CONTROLLER;
    }
    return true;
}

static bool overlay_route(struct fl_config *c, const struct fl_route_conf *pushed)
{
    struct fl_route_conf *have = find_route(c, pushed->bucket);
    have = have ? have : &c->routes[c->route_count++];
    if (!copy_route(c, pushed, have)) {
        return false;
    }
    have->owner = FL_OWNER_CONTROLLER;
    have->line = 0;
    return true;
}

struct fl_config *fl_state_overlay(const struct fl_config *file, const struct fl_state *pushed,
                                   struct fl_findings *f)
{
    struct fl_config *c = fl_config_new();
    uint32_t backends = pushed ? pushed->backend_count : 0,
             routes = pushed ? pushed->route_count : 0;
    bool good = c && copy_file(c, file, backends, routes);
    for (uint32_t i = 0; good && i < backends; i++) {
        good = overlay_backend(c, &pushed->backends[i]);
    }
    for (uint32_t i = 0; good && i < routes; i++) {
        good = overlay_route(c, &pushed->routes[i]);
    }
    if (!good) {
        fl_findings_add(f, FL_SEVERITY_ERROR, 0, "out of memory");
        return fl_config_free(c);
    }
    fl_directives_finish(c);
    return fl_config_check(c, f) ? c : fl_config_free(c);
}

static void write_backend(const void *what, struct fl_fmt *out)
{
    fl_show_backend(what, out);
}

static void write_route(const void *what, struct fl_fmt *out)
{
    fl_show_route(what, out);
}

/* Two definitions are the same when they show the same. */
static bool same(void (*write)(const void *, struct fl_fmt *), const void *a, const void *b)
{
    size_t a_len = 0, b_len = 0;
    char *x = a ? fl_show_grown(write, a, FL_SHOW_ABOUT, &a_len) : NULL,
         *y = b ? fl_show_grown(write, b, FL_SHOW_ABOUT, &b_len) : NULL;
    bool equal = x && y && a_len == b_len && memcmp(x, y, a_len) == 0;
    free(x);
    free(y);
    return equal;
}

static void refuse(struct fl_findings *f, const char *top, const char *name, int line)
{
    char place[FL_PLACE_MAX];
    struct fl_fmt p = fl_fmt_of(place, sizeof(place));
    struct fl_place up = fl_place_key(NULL, top), here = fl_place_key(&up, name);
    fl_place_print(&here, &p);
    fl_findings_add(
        f, FL_SEVERITY_ERROR, line,
        "%s: belongs to the controller, which pushed it; change it there, or take it out here",
        place);
}

bool fl_state_settle_owners(const struct fl_config *file, const struct fl_config *in_force,
                            struct fl_config *proposed, struct fl_findings *f)
{
    unsigned before = f->errors;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < proposed->backend_count; i++) {
        const struct fl_backend_conf *one = &proposed->backends[i],
                                     *now = fl_config_backend(in_force, one->name);
        bool theirs = now && now->owner == FL_OWNER_CONTROLLER;
        bool unchanged = theirs && same(write_backend, one, fl_config_backend(file, one->name));
        if (theirs && !unchanged && same(write_backend, one, now)) {
            continue;
        }
        if (theirs && !unchanged) {
            refuse(f, "backends", one->name, one->line);
        }
        proposed->backends[kept++] = *one;
    }
    proposed->backend_count = kept;
    kept = 0;
    for (uint32_t i = 0; i < proposed->route_count; i++) {
        const struct fl_route_conf *one = &proposed->routes[i],
                                   *now = fl_config_route(in_force, one->bucket);
        bool theirs = now && now->owner == FL_OWNER_CONTROLLER;
        bool unchanged = theirs && same(write_route, one, fl_config_route(file, one->bucket));
        if (theirs && !unchanged && same(write_route, one, now)) {
            continue;
        }
        if (theirs && !unchanged) {
            refuse(f, "routes", one->bucket, one->line);
        }
        proposed->routes[kept++] = *one;
    }
    proposed->route_count = kept;
    return f->errors == before;
}
