#include "common/model/config_check.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/base/addr.h"
#include "common/model/directives_scope.h"
#include "common/model/directives_show.h"
#include "common/model/syntax.h"

#define OWN_MAX 64u

/* The nearest key above that has a line: "a.b[0].c" -> "a.b[0]" -> "a.b". */
static int line_of(const struct fl_config *c, const char *place, int line)
{
    struct fl_span s = fl_span_of(place);
    while (s.len) {
        const void *found = fl_smap_get(&c->lines, s);
        if (found) {
            return (int)(uintptr_t)found;
        }
        while (s.len && s.ptr[s.len - 1] != '.' && s.ptr[s.len - 1] != '[') {
            s.len--;
        }
        s.len -= s.len > 0;
    }
    return line;
}

void fl_config_check_say(const struct fl_config *c, struct fl_findings *f, enum fl_severity s,
                         const char *place, int line, const char *fmt, ...)
{
    char text[640];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fl_findings_add(f, s, line_of(c, place, line), "%s%s%s", place, place[0] ? ": " : "",
                    n < 0 ? "" : text);
}

void fl_config_check_listen(const struct fl_config *c, const struct fl_own_listener *own,
                            size_t count, struct fl_findings *f)
{
    for (size_t i = 0; i < count; i++) {
        struct fl_addr a, b;
        bool known = fl_addr_parse(fl_span_of(own[i].address), &a);
        for (size_t k = 0; known && k < i; k++) {
            if (fl_addr_parse(fl_span_of(own[k].address), &b) && fl_addr_eq(&a, &b) &&
                (a.port != 0 || a.family == FL_ADDR_UNIX)) {
                fl_config_check_say(c, f, FL_SEVERITY_ERROR, own[i].name, 0,
                                    "\"%s\" is %s too; give each listener its own", own[i].address,
                                    own[k].name);
                break;
            }
        }
    }
}

static size_t own_listeners(const struct fl_config *c, struct fl_own_listener ret[static OWN_MAX])
{
    size_t n = 0;
    for (uint32_t i = 0; i < c->listen.data.count && n < OWN_MAX - 2; i++) {
        ret[n++] = (struct fl_own_listener){"listen.data", c->listen.data.items[i]};
    }
    ret[n++] = (struct fl_own_listener){"listen.admin", c->listen.admin};
    ret[n++] = (struct fl_own_listener){"listen.status", c->listen.status};
    return n;
}

static void check_listeners(const struct fl_config *c, const struct fl_own_listener *own,
                            size_t count, struct fl_findings *f)
{
    struct fl_addr admin;
    if (c->listen.data.count == 0) {
        fl_config_check_say(c, f, FL_SEVERITY_ERROR, "listen.data", 0,
                            "is empty; the application needs an address");
    }
    if (c->listen.data.count > OWN_MAX - 2) {
        fl_config_check_say(c, f, FL_SEVERITY_ERROR, "listen.data", 0, "has more than %u addresses",
                            OWN_MAX - 2);
    }
    fl_config_check_listen(c, own, count, f);
    if (fl_addr_parse(fl_span_of(c->listen.admin), &admin) && !fl_addr_is_loopback(&admin)) {
        fl_config_check_say(c, f, FL_SEVERITY_WARNING, "listen.admin", 0,
                            "\"%s\" is open to the network and the admin API asks for no password; "
                            "write 127.0.0.1:8421 and use a port forward",
                            c->listen.admin);
    }
}

static void check_root(const struct fl_config *c, struct fl_findings *f)
{
    const struct fl_backend_conf *pushed = NULL;
    for (uint32_t i = 0; i < c->hosts.count; i++) {
        char shown[FL_SHOWN_MAX];
        struct fl_span host = fl_span_of(c->hosts.items[i]);
        if (!fl_syntax_is_host(host) || fl_syntax_is_endpoint(host)) {
            fl_config_check_say(
                c, f, FL_SEVERITY_ERROR, "hosts", 0,
                "%s is not a base domain (write s3.internal, without port or leading dot)",
                fl_value_shown(host, shown));
        }
    }
    for (uint32_t i = 0; i < c->backend_count; i++) {
        pushed = !pushed && c->backends[i].service.name[0] ? &c->backends[i] : pushed;
    }
    if (pushed && !c->push.public_key_file[0]) {
        fl_config_check_say(
            c, f, FL_SEVERITY_WARNING, "push.public_key_file", pushed->line,
            "is empty, so every push is refused and the members of backends.%s come from DNS alone",
            pushed->name);
    }
    if (c->route_count == 0) {
        fl_config_check_say(c, f, FL_SEVERITY_WARNING, "routes", 0,
                            "there are none, so every request is answered 421 (no_route)");
    }
}

static void write_canonical(const void *what, struct fl_fmt *out)
{
    const struct fl_config *c = what;
    fl_show_document(FL_SCOPE_ROOT, c, c, false, out);
}

bool fl_config_check(struct fl_config *c, struct fl_findings *f)
{
    unsigned before = f->errors;
    struct fl_own_listener own[OWN_MAX];
    size_t count = own_listeners(c, own);
    check_listeners(c, own, count, f);
    check_root(c, f);
    fl_config_check_backends(c, own, count, f);
    fl_config_check_routes(c, f);
    c->hash = fl_show_hash_of(write_canonical, c, FL_SHOW_ABOUT);
    if (c->hash == 0) {
        fl_findings_add(f, FL_SEVERITY_ERROR, 0, "out of memory");
    }
    return f->errors == before;
}
