/* Keys whose behaviour is not there yet: the topic of a row says what happens instead. */
#include "common/model/config_check.h"
#include "common/model/directives_field.h"
#include "common/model/directives_scope.h"

static void warn(const struct fl_config *c, struct fl_findings *f, const char *place, int line,
                 enum fl_not_yet topic)
{
    fl_config_check_say(c, f, FL_SEVERITY_WARNING, place, line, "%s", fl_not_yet_text(topic));
}

/* Marked rows of one scope that are given; children of a marked mapping are covered by it. */
static void check_scope(const struct fl_config *c, struct fl_findings *f, enum fl_scope s,
                        const void *base, const struct fl_place *at, int line)
{
    uint64_t set = *(const uint64_t *)fl_field_at(base, fl_scope_row(s)->set_offset);
    unsigned count;
    const struct fl_directive *d = fl_scope_rows(s, &count);
    for (unsigned i = 0; i < count; i++) {
        char place[FL_PLACE_MAX];
        struct fl_fmt p = fl_fmt_of(place, sizeof(place));
        struct fl_place here = fl_place_key(at, d[i].name);
        if (!d[i].not_yet || !(set >> i & 1)) {
            continue;
        }
        int64_t usual;
        if (fl_value_is_plain(d[i].type) && d[i].fallback &&
            fl_field_parse(&d[i], fl_span_of(d[i].fallback), false, &usual) == FL_PARSED &&
            fl_field_load(&d[i], base) == usual) {
            continue; /* written out, as --show-config does, but not asked for */
        }
        fl_place_print(&here, &p);
        warn(c, f, place, line, d[i].not_yet);
    }
}

void fl_config_check_not_yet(const struct fl_config *c, struct fl_findings *f)
{
    struct fl_place backends = fl_place_key(NULL, "backends"),
                    routes = fl_place_key(NULL, "routes");
    check_scope(c, f, FL_SCOPE_ROOT, c, NULL, 0);
    for (uint32_t i = 0; i < c->backend_count; i++) {
        struct fl_place at = fl_place_key(&backends, c->backends[i].name);
        check_scope(c, f, FL_SCOPE_BACKEND, &c->backends[i], &at, c->backends[i].line);
    }
    for (uint32_t i = 0; i < c->route_count; i++) {
        const struct fl_route_conf *r = &c->routes[i];
        struct fl_place at = fl_place_key(&routes, r->bucket), paths = fl_place_key(&at, "paths");
        check_scope(c, f, FL_SCOPE_POLICY, &r->policy, &at, r->line);
        for (uint32_t k = 0; k < r->path_count; k++) {
            struct fl_place path = fl_place_key(&paths, r->paths[k].prefix);
            check_scope(c, f, FL_SCOPE_POLICY, &r->paths[k].policy, &path, r->line);
        }
    }
}
