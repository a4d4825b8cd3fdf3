#include <stdlib.h>

#include "common/base/addr.h"
#include "common/base/units.h"
#include "common/model/config_check.h"
#include "common/model/directives_scope.h"
#include "common/model/syntax.h"

struct checking {
    const struct fl_config *c;
    struct fl_findings *f;
    const struct fl_own_listener *own;
    size_t own_count;
    const struct fl_backend_conf *b;
};

/* backends.NAME, with ".rest" behind it. */
static const char *place_of(const struct checking *k, const char *rest,
                            char buffer[static FL_PLACE_MAX])
{
    struct fl_fmt f = fl_fmt_of(buffer, FL_PLACE_MAX);
    struct fl_place top = fl_place_key(NULL, "backends"), here = fl_place_key(&top, k->b->name);
    fl_place_print(&here, &f);
    fl_fmt_text(&f, rest[0] ? "." : "");
    fl_fmt_text(&f, rest);
    return buffer;
}

static void say(const struct checking *k, enum fl_severity s, const char *rest, const char *text)
{
    char place[FL_PLACE_MAX];
    fl_config_check_say(k->c, k->f, s, place_of(k, rest, place), k->b->line, "%s", text);
}

static void say_peer(const struct checking *k, uint32_t peer, const char *what, const char *whose)
{
    char place[FL_PLACE_MAX], rest[48];
    struct fl_fmt f = fl_fmt_of(rest, sizeof(rest));
    fl_fmt_printf(&f, "peers[%u].address", peer);
    fl_config_check_say(k->c, k->f, FL_SEVERITY_ERROR, place_of(k, rest, place), k->b->line,
                        "\"%s\" %s%s", k->b->peers[peer].address, what, whose);
}

/* An address for comparing; a name keeps family NONE. */
static struct fl_addr literal_of(const char *address)
{
    struct fl_addr a;
    return fl_addr_parse(fl_span_of(address), &a) ? a : (struct fl_addr){.family = FL_ADDR_NONE};
}

static bool same_address(const char *x, const struct fl_addr *a, const char *y,
                         const struct fl_addr *b)
{
    if (a->family == FL_ADDR_NONE || b->family == FL_ADDR_NONE) {
        return fl_span_ieq(fl_span_of(x), fl_span_of(y));
    }
    return fl_addr_eq(a, b);
}

static bool is_own(const char *peer, const struct fl_addr *a, const char *listener)
{
    struct fl_addr l = literal_of(listener);
    if (l.family == FL_ADDR_NONE || l.family == FL_ADDR_UNIX) {
        return false;
    }
    if (a->family == FL_ADDR_NONE) {
        struct fl_span host, port;
        uint64_t number;
        return fl_addr_split_host(fl_span_of(peer), &host, &port) &&
               fl_span_ieq(host, FL_SPAN("localhost")) && fl_units_uint(port, &number) &&
               number == l.port && (fl_addr_is_loopback(&l) || fl_addr_is_any(&l));
    }
    bool here = fl_addr_is_loopback(a) || fl_addr_is_any(a);
    return fl_addr_eq(a, &l) || (a->port == l.port && here && fl_addr_is_any(&l));
}

/* Pairwise on parsed addresses: at most 1024 of them. */
static void check_addresses(const struct checking *k)
{
    const struct fl_backend_conf *b = k->b;
    struct fl_addr *parsed = calloc(b->peer_count ? b->peer_count : 1, sizeof(*parsed));
    if (!parsed) {
        say(k, FL_SEVERITY_ERROR, "peers", "out of memory");
        return;
    }
    for (uint32_t i = 0; i < b->peer_count; i++) {
        const char *address = b->peers[i].address;
        parsed[i] = literal_of(address);
        for (uint32_t j = 0; address[0] && j < i; j++) {
            if (same_address(address, &parsed[i], b->peers[j].address, &parsed[j])) {
                say_peer(k, i, "is listed twice; use weight for a larger share", "");
                break;
            }
        }
        for (size_t l = 0; l < k->own_count; l++) {
            if (is_own(address, &parsed[i], k->own[l].address)) {
                say_peer(k, i, "is our own listener: ", k->own[l].name);
            }
        }
    }
    free(parsed);
}

static unsigned bit_of(const char *name)
{
    return fl_directive_bit(fl_scope_find(FL_SCOPE_BACKEND, name));
}

static void check_members(const struct checking *k)
{
    const struct fl_backend_conf *b = k->b;
    uint32_t up = 0, primaries = 0;
    if (b->peer_count > FL_PEERS_MAX) {
        say(k, FL_SEVERITY_ERROR, "peers", "more than 1024 members");
        return;
    }
    for (uint32_t i = 0; i < b->peer_count; i++) {
        up += !b->peers[i].down;
        primaries += b->peers[i].tier != FL_TIER_BACKUP;
    }
    bool alone = b->owner == FL_OWNER_FILE && !(b->set >> bit_of("service") & 1);
    bool written = b->set >> bit_of("peers") & 1;
    if (alone && written && !b->peers) {
        return; /* not a list: that finding is enough */
    }
    if (alone && b->peer_count == 0) {
        say(k, written ? FL_SEVERITY_WARNING : FL_SEVERITY_ERROR, "",
            written ? "has no peers and no service; only a push can bring members"
                    : "has neither peers nor a service");
    } else if (alone && up == 0) {
        say(k, FL_SEVERITY_WARNING, "peers", "all of them are down");
    } else if (alone && primaries == 0) {
        say(k, FL_SEVERITY_WARNING, "peers", "all of them are backups");
    }
    check_addresses(k);
}

static void check_tls(const struct checking *k)
{
    const struct fl_backend_conf *b = k->b;
    const char *literal = b->service.name[0] ? b->service.name : NULL;
    for (uint32_t i = 0; !literal && i < b->peer_count; i++) {
        struct fl_addr a = literal_of(b->peers[i].address);
        literal = a.family != FL_ADDR_NONE ? b->peers[i].address : NULL;
    }
    if (!b->tls.on) {
        return;
    }
    if (b->tls.verify && !b->tls.server_name[0] && literal) {
        char place[FL_PLACE_MAX];
        fl_config_check_say(k->c, k->f, FL_SEVERITY_ERROR, place_of(k, "tls.server_name", place),
                            b->line, "is missing; verify is on and %s \"%s\" is no name to verify",
                            b->service.name[0] ? "a member of service" : "peer", literal);
    }
    if (b->tls.server_name[0] && !fl_syntax_is_host(fl_span_of(b->tls.server_name))) {
        say(k, FL_SEVERITY_ERROR, "tls.server_name", "is not a host name");
    }
    if (!b->tls.cert_file[0] != !b->tls.key_file[0]) {
        say(k, FL_SEVERITY_ERROR, b->tls.cert_file[0] ? "tls.key_file" : "tls.cert_file",
            "is missing; a client certificate needs both files");
    }
}

static void check_probe(const struct checking *k)
{
    const struct fl_backend_conf *b = k->b;
    struct fl_span host = fl_span_of(b->probe.host), bucket = fl_span_of(b->probe.bucket);
    if (b->probe.path[0] != '/') {
        say(k, FL_SEVERITY_ERROR, "probe.path", "is not a path (write /health)");
    }
    if (bucket.len && !fl_syntax_is_s3_bucket(bucket)) {
        say(k, FL_SEVERITY_ERROR, "probe.bucket", "is not a bucket name");
    }
    if (host.len && !fl_syntax_is_host(host) && !fl_syntax_is_peer(host) &&
        !fl_syntax_is_endpoint(host)) {
        say(k, FL_SEVERITY_ERROR, "probe.host", "is not a host (write minio.storage.svc:9000)");
    }
    if (!b->probe.access_key_file[0] != !b->probe.secret_key_file[0]) {
        say(k, FL_SEVERITY_ERROR,
            b->probe.access_key_file[0] ? "probe.secret_key_file" : "probe.access_key_file",
            "is missing; a signed probe needs both files");
    }
}

static void check_service(const struct checking *k)
{
    const struct fl_service_ref *s = &k->b->service;
    uint64_t number;
    if (s->namespace[0] && !fl_syntax_is_service(fl_span_of(s->namespace))) {
        say(k, FL_SEVERITY_ERROR, "service.namespace",
            "is not a namespace (small letters, digits and '-')");
    }
    if (s->name[0] && !fl_syntax_is_service(fl_span_of(s->name))) {
        say(k, FL_SEVERITY_ERROR, "service.name",
            "is not the name of a Service (small letters, digits and '-')");
    }
    bool numeric = fl_units_uint(fl_span_of(s->port), &number);
    if (s->port[0] && (numeric ? number < 1 || number > UINT16_MAX
                               : !fl_syntax_is_service(fl_span_of(s->port)))) {
        say(k, FL_SEVERITY_ERROR, "service.port",
            "is not a port (write its name, or a number from 1 to 65535)");
    }
}

void fl_config_check_backends(const struct fl_config *c, const struct fl_own_listener *own,
                              size_t count, struct fl_findings *f)
{
    for (uint32_t i = 0; i < c->backend_count; i++) {
        struct checking k = {c, f, own, count, &c->backends[i]};
        check_members(&k);
        check_service(&k);
        check_tls(&k);
        check_probe(&k);
        if (k.b->queue.hold_ms > 0 && k.b->queue.size == 0) {
            say(&k, FL_SEVERITY_ERROR, "queue.hold", "needs a queue.size above 0: nobody may wait");
        }
    }
}
