#include "common/base/units.h"
#include "common/model/config_check.h"
#include "common/model/directives_scope.h"
#include "common/model/nearest.h"
#include "common/model/outcome.h"
#include "common/model/syntax.h"

struct checking {
    const struct fl_config *c;
    struct fl_findings *f;
    const struct fl_route_conf *r;
    const struct fl_path_conf *path; /* NULL: the route itself */
};

static const char *place_of(const struct checking *k, const char *rest,
                            char buffer[static FL_PLACE_MAX])
{
    char key[FL_SHOWN_MAX * 8];
    struct fl_fmt f = fl_fmt_of(buffer, FL_PLACE_MAX), p = fl_fmt_of(key, sizeof(key));
    struct fl_place top = fl_place_key(NULL, "routes"), route = fl_place_key(&top, k->r->bucket);
    struct fl_place paths = fl_place_key(&route, "paths");
    if (k->path) {
        fl_fmt_text(&p, k->path->exact ? "= " : "");
        fl_fmt_text(&p, k->path->prefix);
    }
    struct fl_place path = fl_place_key(&paths, key);
    fl_place_print(k->path ? &path : &route, &f);
    fl_fmt_text(&f, rest[0] ? "." : "");
    fl_fmt_text(&f, rest);
    return buffer;
}

/* The same text at boot and on every apply. */
static void check_target(const struct checking *k, const char *name)
{
    char place[FL_PLACE_MAX], shown[FL_SHOWN_MAX];
    struct fl_nearest near = fl_nearest_to(fl_span_of(name));
    if (fl_config_backend(k->c, name)) {
        return;
    }
    for (uint32_t i = 0; i < k->c->backend_count; i++) {
        fl_nearest_offer(&near, k->c->backends[i].name);
    }
    fl_config_check_say(k->c, k->f, FL_SEVERITY_ERROR, place_of(k, "backend", place), k->r->line,
                        "there is no backend %s%s%s%s", fl_value_shown(fl_span_of(name), shown),
                        near.best ? "; did you mean \"" : "", near.best ? near.best : "",
                        near.best ? "\"?" : "");
}

/* upper: the route of a path, whose inherited values have their finding there already. */
static void check_policy(const struct checking *k, const struct fl_policy_conf *p,
                         const struct fl_policy_conf *upper)
{
    const uint32_t never = FL_ON_HTTP_403 | FL_ON_HTTP_404 | FL_ON_HTTP_429 | FL_ON_NON_IDEMPOTENT;
    char place[FL_PLACE_MAX];
    uint32_t counted = upper && upper->count_failures == p->count_failures ? 0 : p->count_failures;
    for (uint32_t bit = FL_ON_ERROR; bit <= FL_ON_NON_IDEMPOTENT; bit <<= 1) {
        if (counted & never & bit) {
            fl_config_check_say(k->c, k->f, FL_SEVERITY_ERROR, place_of(k, "count_failures", place),
                                k->r->line, "%s never counts against a peer; remove it",
                                fl_condition_name((enum fl_condition)bit));
        }
    }
    if (p->replay_body_bytes > k->c->replay_memory_bytes &&
        !(upper && upper->replay_body_bytes == p->replay_body_bytes)) {
        fl_config_check_say(
            k->c, k->f, FL_SEVERITY_WARNING, place_of(k, "replay_body", place), k->r->line,
            "is larger than the replay_memory of the whole process; such bodies are never kept");
    }
    if (p->deadline_ms > 0 && p->read_timeout_ms > p->deadline_ms && !k->c->override.deadline_ms &&
        !(upper && upper->read_timeout_ms == p->read_timeout_ms &&
          upper->deadline_ms == p->deadline_ms)) {
        char read[32], deadline[32];
        struct fl_fmt a = fl_fmt_of(read, sizeof(read)), b = fl_fmt_of(deadline, sizeof(deadline));
        fl_units_print_duration(&a, p->read_timeout_ms);
        fl_units_print_duration(&b, p->deadline_ms);
        fl_config_check_say(k->c, k->f, FL_SEVERITY_WARNING, place_of(k, "read_timeout", place),
                            k->r->line, "%s is longer than the deadline of %s, which cuts first",
                            read, deadline);
    }
}

static void check_bucket(const struct checking *k)
{
    char place[FL_PLACE_MAX];
    struct fl_span bucket = fl_span_of(k->r->bucket);
    const struct fl_backend_conf *b = fl_config_backend(k->c, k->r->backend);
    if (fl_span_is(bucket, "*") || fl_span_is(bucket, "/")) {
        return;
    }
    if (bucket.ptr[0] == '_') {
        fl_config_check_say(k->c, k->f, FL_SEVERITY_ERROR, place_of(k, "", place), k->r->line,
                            "names that begin with \"_\" are reserved");
    } else if (b && b->protocol == FL_PROTOCOL_S3 && !fl_syntax_is_s3_bucket(bucket)) {
        fl_config_check_say(k->c, k->f, FL_SEVERITY_ERROR, place_of(k, "", place), k->r->line,
                            "this is not a bucket name (letters, digits, '.', '-' and '_')");
    }
}

void fl_config_check_routes(const struct fl_config *c, struct fl_findings *f)
{
    for (uint32_t i = 0; i < c->route_count; i++) {
        struct checking k = {c, f, &c->routes[i], NULL};
        if (k.r->invalid[0]) {
            continue; /* answers 503 bad_route */
        }
        check_bucket(&k);
        if (k.r->backend[0]) { /* a missing key has its finding */
            check_target(&k, k.r->backend);
        }
        check_policy(&k, &k.r->policy, NULL);
        for (uint32_t p = 0; p < k.r->path_count; p++) {
            struct checking one = {c, f, k.r, &k.r->paths[p]};
            if (one.path->backend[0]) {
                check_target(&one, one.path->backend);
            }
            check_policy(&one, &one.path->policy, &k.r->policy);
        }
    }
}
