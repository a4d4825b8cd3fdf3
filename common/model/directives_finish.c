#include <stdlib.h>

#include "common/model/directives.h"
#include "common/model/directives_field.h"
#include "common/model/directives_scope.h"
#include "common/model/outcome.h"

/* Profiles A, B and C of the lesson on passive health checks: a read API, a write API, long-running
 * reports. */
static const struct {
    enum fl_profile profile;
    enum fl_scope scope;
    const char *name, *text;
} profiles[] = {
    {FL_PROFILE_READ, FL_SCOPE_BACKEND, "balance", "least_conn"},
    {FL_PROFILE_READ, FL_SCOPE_BACKEND, "max_fails", "3"},
    {FL_PROFILE_READ, FL_SCOPE_BACKEND, "fail_timeout", "10s"},
    {FL_PROFILE_READ, FL_SCOPE_POLICY, "connect_timeout", "1s"},
    {FL_PROFILE_READ, FL_SCOPE_POLICY, "read_timeout", "10s"},
    {FL_PROFILE_READ, FL_SCOPE_POLICY, "next_upstream",
     "error timeout invalid_header http_502 http_503 http_504"},
    {FL_PROFILE_READ, FL_SCOPE_POLICY, "next_upstream_tries", "2"},
    {FL_PROFILE_READ, FL_SCOPE_POLICY, "next_upstream_timeout", "2s"},
    {FL_PROFILE_WRITE, FL_SCOPE_BACKEND, "max_fails", "3"},
    {FL_PROFILE_WRITE, FL_SCOPE_BACKEND, "fail_timeout", "10s"},
    {FL_PROFILE_WRITE, FL_SCOPE_POLICY, "connect_timeout", "1s"},
    {FL_PROFILE_WRITE, FL_SCOPE_POLICY, "read_timeout", "30s"},
    {FL_PROFILE_WRITE, FL_SCOPE_POLICY, "next_upstream", "error timeout invalid_header"},
    {FL_PROFILE_WRITE, FL_SCOPE_POLICY, "next_upstream_tries", "1"},
    {FL_PROFILE_REPORT, FL_SCOPE_BACKEND, "max_fails", "2"},
    {FL_PROFILE_REPORT, FL_SCOPE_BACKEND, "fail_timeout", "30s"},
    {FL_PROFILE_REPORT, FL_SCOPE_POLICY, "connect_timeout", "2s"},
    {FL_PROFILE_REPORT, FL_SCOPE_POLICY, "read_timeout", "300s"},
    {FL_PROFILE_REPORT, FL_SCOPE_POLICY, "next_upstream", "error timeout invalid_header"},
    {FL_PROFILE_REPORT, FL_SCOPE_POLICY, "next_upstream_tries", "1"},
};

const char *fl_profile_text(enum fl_profile profile, const struct fl_directive *d)
{
    for (size_t i = 0; i < FL_COUNTOF(profiles); i++) {
        if (profiles[i].profile == profile && profiles[i].scope == d->scope &&
            strcmp(profiles[i].name, d->name) == 0) {
            return profiles[i].text;
        }
    }
    return NULL;
}

/* The default that a row has beside what the table gave it at first: by profile, else by protocol;
 * NULL: that one stays. */
static const char *derived(const struct fl_directive *d, enum fl_profile profile, bool http)
{
    const char *text = fl_profile_text(profile, d);
    if (text || !d->fallback_http) {
        return text;
    }
    return http ? d->fallback_http : d->fallback;
}

/* Rows of one scope that are not given: from `upper` (another struct of the same scope) where it
 * gives them, else derived. */
static void settle(struct fl_arena *arena, enum fl_scope s, enum fl_profile profile, bool http,
                   const void *upper, void *base)
{
    size_t set_offset = fl_scope_row(s)->set_offset;
    uint64_t given = *(const uint64_t *)fl_field_at(base, set_offset);
    uint64_t above = upper ? *(const uint64_t *)fl_field_at(upper, set_offset) : 0;
    unsigned count;
    const struct fl_directive *d = fl_scope_rows(s, &count);
    for (unsigned i = 0; i < count; i++) {
        const char *text = derived(&d[i], profile, http);
        if (given >> i & 1 || !fl_value_is_plain(d[i].type)) {
            continue;
        }
        if (above >> i & 1) {
            fl_value_copy(&d[i], base, &d[i], upper);
        } else if (text) {
            fl_value_assign(arena, &d[i], text, base);
        }
    }
}

static bool gives(uint64_t set, enum fl_scope s, const char *name)
{
    return set >> fl_directive_bit(fl_scope_find(s, name)) & 1;
}

static void finish_policy(struct fl_config *c, struct fl_policy_conf *p,
                          const struct fl_policy_conf *upper, enum fl_profile profile,
                          const struct fl_backend_conf *backend)
{
    bool http = backend && backend->protocol == FL_PROTOCOL_HTTP;
    settle(&c->arena, FL_SCOPE_POLICY, profile, http, upper, p);
    if (!gives(p->set | (upper ? upper->set : 0), FL_SCOPE_POLICY, "count_failures")) {
        p->count_failures = FL_ON_ERROR | FL_ON_TIMEOUT | FL_ON_INVALID_HEADER |
                            (p->next_upstream &
                             (FL_ON_HTTP_500 | FL_ON_HTTP_502 | FL_ON_HTTP_503 | FL_ON_HTTP_504));
    }
    if (c->override.deadline_ms && !http) {
        p->deadline_ms = c->override.deadline_ms;
    }
}

static void finish_route(struct fl_config *c, struct fl_route_conf *r)
{
    const struct fl_backend_conf *backend = fl_config_backend(c, r->backend);
    finish_policy(c, &r->policy, NULL, r->profile, backend);
    for (uint32_t i = 0; i < r->path_count; i++) {
        struct fl_path_conf *p = &r->paths[i];
        const struct fl_backend_conf *own = p->backend[0] ? fl_config_backend(c, p->backend) : NULL;
        finish_policy(c, &p->policy, &r->policy, r->profile, own ? own : backend);
    }
}

static void finish_backend(struct fl_config *c, struct fl_backend_conf *b)
{
    unsigned count;
    const struct fl_directive *d = fl_scope_rows(FL_SCOPE_PEER, &count);
    settle(&c->arena, FL_SCOPE_BACKEND, b->profile, b->protocol == FL_PROTOCOL_HTTP, NULL, b);
    settle(&c->arena, FL_SCOPE_PROBE, b->profile, b->protocol == FL_PROTOCOL_HTTP, NULL, b);
    if (c->override.probe_interval_ms) {
        b->probe.interval_ms = c->override.probe_interval_ms;
    }
    for (unsigned i = 0; i < count; i++) {
        const struct fl_directive *above =
            d[i].fallback ? NULL : fl_scope_find(FL_SCOPE_BACKEND, d[i].name);
        for (uint32_t k = 0; above && k < b->peer_count; k++) {
            if (!(b->peers[k].set >> i & 1)) {
                fl_value_copy(&d[i], &b->peers[k], above, b);
            }
        }
    }
}

static int by_name(const void *a, const void *b)
{
    const struct fl_backend_conf *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int by_bucket(const void *a, const void *b)
{
    const struct fl_route_conf *x = a, *y = b;
    return strcmp(x->bucket, y->bucket);
}

static int by_path(const void *a, const void *b)
{
    const struct fl_path_conf *x = a, *y = b;
    int order = strcmp(x->prefix, y->prefix);
    return order ? order : (int)x->exact - (int)y->exact;
}

/* Names are unique, so one set of definitions has one order, whatever the document's was. */
static void sort(void *items, uint32_t count, size_t size, int (*order)(const void *, const void *))
{
    if (count > 1) {
        qsort(items, count, size, order);
    }
}

void fl_directives_finish(struct fl_config *c)
{
    sort(c->backends, c->backend_count, sizeof(*c->backends), by_name);
    sort(c->routes, c->route_count, sizeof(*c->routes), by_bucket);
    for (uint32_t i = 0; i < c->backend_count; i++) {
        finish_backend(c, &c->backends[i]);
    }
    for (uint32_t i = 0; i < c->route_count; i++) {
        sort(c->routes[i].paths, c->routes[i].path_count, sizeof(*c->routes[i].paths), by_path);
        finish_route(c, &c->routes[i]);
    }
}

static const struct {
    const char *env;
    enum fl_scope scope;
    const char *name;
} overrides[] = {
    {"FAIRLEAD_BOOT_PROBE", FL_SCOPE_ROOT, "boot_probe"},
    {"FAIRLEAD_PROBE_INTERVAL", FL_SCOPE_PROBE, "interval"},
    {"FAIRLEAD_DEADLINE", FL_SCOPE_POLICY, "deadline"},
    {"FAIRLEAD_SLOW_REQUEST", FL_SCOPE_ROOT, "slow_request"},
};

bool fl_directives_override(struct fl_config *c, const char *env_name, const char *value,
                            struct fl_findings *f)
{
    struct fl_reading r = {NULL, &c->arena, f, FL_ORIGIN_FILE, FL_IN_SIDECAR};
    struct fl_place here = fl_place_key(NULL, env_name);
    struct fl_backend_conf backend = {0};
    struct fl_policy_conf policy = {0};
    size_t i = 0;
    while (i < FL_COUNTOF(overrides) && strcmp(overrides[i].env, env_name) != 0) {
        i++;
    }
    if (i == FL_COUNTOF(overrides)) {
        fl_reading_fault(&r, &here, 0, "is not a variable that overrides a key");
        return false;
    }
    if (value[0] == '\0') {
        return true;
    }
    struct fl_directive d = *fl_scope_find(overrides[i].scope, overrides[i].name);
    struct fl_node n = {.kind = FL_NODE_SCALAR, .quoted = true, .text = fl_span_of(value)};
    d.flags &= ~(unsigned)(FL_D_OFF | FL_D_ZERO); /* an override never switches a limit off */
    void *base = d.scope == FL_SCOPE_ROOT    ? (void *)c
                 : d.scope == FL_SCOPE_PROBE ? (void *)&backend
                                             : (void *)&policy;
    if (!fl_value_set(&r, &here, &d, &n, base)) {
        return false;
    }
    c->override.probe_interval_ms =
        backend.probe.interval_ms ? backend.probe.interval_ms : c->override.probe_interval_ms;
    c->override.deadline_ms = policy.deadline_ms ? policy.deadline_ms : c->override.deadline_ms;
    return true;
}
