#include "controller/decide/members.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/addr.h"
#include "common/base/units.h"
#include "common/model/directives_table.h"

bool fl_members_tier(enum fl_maybe ready, enum fl_maybe serving, enum fl_maybe terminating,
                     enum fl_tier *ret)
{
    bool is_ready = ready != FL_MAYBE_FALSE, serves = serving != FL_MAYBE_FALSE;
    bool ends = terminating == FL_MAYBE_TRUE;
    if (is_ready && serves && !ends) {
        *ret = FL_TIER_PRIMARY;
    } else if ((is_ready && !serves) || (ends && serves)) {
        *ret = FL_TIER_LAST_RESORT;
    } else {
        return false;
    }
    return true;
}

static enum fl_maybe condition_of(bool value)
{
    return value ? FL_MAYBE_TRUE : FL_MAYBE_FALSE;
}

static const struct fl_service *find_service(const struct fl_services *s,
                                             const struct fl_service_ref *ref)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (strcmp(s->items[i].name, ref->name) == 0 &&
            strcmp(s->items[i].namespace, ref->namespace) == 0) {
            return &s->items[i];
        }
    }
    return NULL;
}

/* By name; a number means the port of that number, whatever its name. */
static bool find_port(const struct fl_service *s, const char *port, uint16_t *ret)
{
    uint64_t number = 0;
    bool numeric = fl_units_uint(fl_span_of(port), &number);
    for (uint32_t i = 0; i < s->port_count; i++) {
        if (strcmp(s->ports[i].name, port) == 0 || (numeric && s->ports[i].number == number)) {
            *ret = (uint16_t)s->ports[i].number;
            return true;
        }
    }
    return false;
}

/* "10.0.1.10", "fd00::1" with the service's port, or a text that has one. */
static bool address_of(const char *text, uint16_t port, struct fl_addr *ret)
{
    char with_port[FL_ADDR_TEXT_MAX];
    struct fl_span given = fl_span_of(text);
    if (fl_addr_parse(given, ret) && ret->family != FL_ADDR_UNIX) {
        return true;
    }
    struct fl_fmt f = fl_fmt_of(with_port, sizeof(with_port));
    bool bare_v6 = given.len > 0 && given.ptr[0] != '[' && fl_span_find(given, ':') >= 0;
    fl_fmt_printf(&f, bare_v6 ? "[%s]:%u" : "%s:%u", text, (unsigned)port);
    return !f.cut && fl_addr_parse((struct fl_span){f.base, f.len}, ret);
}

struct found {
    struct fl_addr addr;
    enum fl_tier tier;
    const char *zone;
};

static int by_address(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    if (x->addr.family != y->addr.family) {
        return x->addr.family < y->addr.family ? -1 : 1;
    }
    int ip = memcmp(x->addr.ip, y->addr.ip, sizeof(x->addr.ip));
    if (ip != 0) {
        return ip;
    }
    if (x->addr.port != y->addr.port) {
        return x->addr.port < y->addr.port ? -1 : 1;
    }
    return (int)x->tier - (int)y->tier; /* the better one first: the others are dropped */
}

static uint64_t given_bits(void)
{
    static const char *const names[] = {"address", "tier", "zone"};
    uint64_t bits = 0;
    for (size_t i = 0; i < FL_COUNTOF(names); i++) {
        bits |= UINT64_C(1) << fl_directive_bit(fl_scope_find(FL_SCOPE_PEER, names[i]));
    }
    return bits;
}

static bool to_peer(const struct found *from, struct fl_arena *arena, uint64_t given,
                    struct fl_peer_conf *to)
{
    char text[FL_ADDR_TEXT_MAX];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    fl_addr_print(&from->addr, &f);
    to->address = fl_arena_text(arena, (struct fl_span){f.base, f.len});
    to->zone = fl_arena_text(arena, fl_span_of(from->zone));
    to->fallback_address = "";
    to->tier = from->tier;
    to->weight = 1;
    to->owner = FL_OWNER_CONTROLLER;
    to->set = from->zone[0] ? given
                            : given & ~(UINT64_C(1)
                                        << fl_directive_bit(fl_scope_find(FL_SCOPE_PEER, "zone")));
    return to->address != NULL && to->zone != NULL;
}

static uint32_t collect(const struct fl_service *s, uint16_t port, struct found *ret)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->endpoint_count; i++) {
        const struct fl_service_endpoint *e = &s->endpoints[i];
        if (fl_members_tier(condition_of(e->ready), condition_of(e->serving),
                            condition_of(e->terminating), &ret[n].tier) &&
            address_of(e->address, port, &ret[n].addr)) {
            ret[n].zone = e->zone != NULL ? e->zone : "";
            n++;
        }
    }
    if (n > 1) {
        qsort(ret, n, sizeof(*ret), by_address);
    }
    return n;
}

enum fl_members_found fl_members_of(const struct fl_services *s, const struct fl_service_ref *ref,
                                    struct fl_arena *arena, struct fl_members *ret)
{
    const struct fl_service *service = find_service(s, ref);
    uint16_t port = 0;
    if (service == NULL) {
        return FL_MEMBERS_NO_SERVICE;
    }
    if (!find_port(service, ref->port, &port)) {
        return FL_MEMBERS_NO_PORT;
    }
    struct found *found = fl_arena_array(arena, service->endpoint_count, sizeof(*found));
    struct fl_peer_conf *peers = fl_arena_array(arena, service->endpoint_count, sizeof(*peers));
    if (found == NULL || peers == NULL) {
        return FL_MEMBERS_NO_MEMORY;
    }
    uint64_t given = given_bits();
    uint32_t n = collect(service, port, found), count = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && fl_addr_eq(&found[i].addr, &found[i - 1].addr)) {
            continue;
        }
        if (!to_peer(&found[i], arena, given, &peers[count++])) {
            return FL_MEMBERS_NO_MEMORY;
        }
    }
    *ret = (struct fl_members){peers, count};
    return FL_MEMBERS_FOUND;
}
