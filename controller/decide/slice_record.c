#include "controller/decide/slice_record.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/addr.h"
#include "common/base/fmt.h"

#define HEAD_BYTES   offsetof(struct fl_slice_record, trigger_unix_ms)
#define ZONES_SHARED 8u

/* A record while its texts are written. */
struct writing {
    struct fl_slice_record *r;
    char *texts;
    uint32_t len;
    uint32_t zones[ZONES_SHARED], zone_count; /* most endpoints are in one of few zones */
};

static struct fl_slice_port *ports_of(const struct fl_slice_record *r)
{
    const void *behind = r->endpoints + r->endpoint_count;
    return (struct fl_slice_port *)(uintptr_t)behind;
}

const struct fl_slice_port *fl_slice_record_ports(const struct fl_slice_record *r)
{
    return ports_of(r);
}

const char *fl_slice_record_text(const struct fl_slice_record *r, uint32_t at)
{
    const void *behind = ports_of(r) + r->port_count;
    return (const char *)behind + at;
}

struct fl_addr fl_slice_record_addr(const struct fl_slice_record *r,
                                    const struct fl_slice_endpoint *e, uint16_t port)
{
    struct fl_addr a = {.family = r->family, .port = port};
    memcpy(a.ip, e->ip, sizeof(a.ip));
    return a;
}

static bool parse_ip(const char *text, enum fl_addr_family family, uint8_t ip[16])
{
    char with_port[FL_ADDR_TEXT_MAX];
    struct fl_fmt f = fl_fmt_of(with_port, sizeof(with_port));
    struct fl_addr a;
    fl_fmt_text(&f, family == FL_ADDR_V6 ? "[" : "");
    fl_fmt_text(&f, text);
    fl_fmt_text(&f, family == FL_ADDR_V6 ? "]:1" : ":1");
    if (f.cut || !fl_addr_parse((struct fl_span){f.base, f.len}, &a) || a.family != family) {
        return false;
    }
    memcpy(ip, a.ip, sizeof(a.ip));
    return true;
}

/* FNV-1a; equal hashes are compared by text, so chosen collisions cost time only. */
static uint64_t hash_of(const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++) {
        h = (h ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    }
    return h;
}

static uint32_t add_text(struct writing *w, const char *text)
{
    size_t n = strlen(text) + 1;
    uint32_t at = w->len;
    memcpy(w->texts + at, text, n);
    w->len += (uint32_t)n;
    return at;
}

static uint32_t add_zone(struct writing *w, const char *zone)
{
    for (uint32_t i = 0; i < w->zone_count; i++) {
        if (strcmp(w->texts + w->zones[i], zone) == 0) {
            return w->zones[i];
        }
    }
    uint32_t at = add_text(w, zone);
    if (w->zone_count < ZONES_SHARED) {
        w->zones[w->zone_count++] = at;
    }
    return at;
}

/* behaviour: ready decides first; then serving, while it terminates. */
static uint8_t rank_of(const struct fl_kube_endpoint *e, bool usable, enum fl_tier tier)
{
    if (usable && tier == FL_TIER_PRIMARY) {
        return 3;
    }
    if (e->ready != FL_MAYBE_FALSE) {
        return 2;
    }
    return e->serving != FL_MAYBE_FALSE && e->terminating == FL_MAYBE_TRUE;
}

static void add_endpoint(struct writing *w, const struct fl_kube_endpoint *from,
                         struct fl_slice_endpoint *to)
{
    enum fl_tier tier = FL_TIER_LAST_RESORT;
    to->usable = fl_members_tier(from->ready, from->serving, from->terminating, &tier);
    to->ready = from->ready != FL_MAYBE_FALSE;
    to->tier = (uint8_t)tier;
    to->rank = rank_of(from, to->usable, tier);
    to->target = from->target_uid[0] ? hash_of(from->target_uid) : 0;
    to->uid_at = from->target_uid[0] ? add_text(w, from->target_uid) : 0;
    to->zone_at = from->zone[0] ? add_zone(w, from->zone) : 0;
    w->r->usable_count += to->usable;
    w->r->ready_count += to->ready;
}

/* Texts may take this much; false: more than a record can hold. */
static bool room_for(const struct fl_kube_slice *from, size_t *ret)
{
    size_t n = sizeof(struct fl_slice_record) + 1 + strlen(from->service) + 1;
    for (uint32_t i = 0; i < from->port_count; i++) {
        n += sizeof(struct fl_slice_port) + strlen(from->ports[i].name) + 1;
    }
    for (uint32_t i = 0; i < from->endpoint_count; i++) {
        n += sizeof(struct fl_slice_endpoint) + strlen(from->endpoints[i].target_uid) + 1 +
             strlen(from->endpoints[i].zone) + 1;
    }
    *ret = n;
    return n <= UINT32_MAX / 2;
}

/* Their addresses, into the front of the endpoints; what is dropped closes up. */
static void add_addresses(struct fl_slice_record *r, const struct fl_kube_slice *from,
                          uint32_t *origin)
{
    for (uint32_t i = 0; i < from->endpoint_count; i++) {
        if (parse_ip(from->endpoints[i].address, from->family,
                     r->endpoints[r->endpoint_count].ip)) {
            origin[r->endpoint_count++] = i;
        }
    }
}

struct fl_slice_record *fl_slice_record_new(const struct fl_kube_slice *from)
{
    size_t room;
    struct fl_slice_record *r = room_for(from, &room) ? calloc(1, room) : NULL;
    uint32_t *origin = r ? calloc((size_t)from->endpoint_count + 1, sizeof(*origin)) : NULL;
    if (!origin) {
        free(r);
        return NULL;
    }
    r->refs = 1;
    r->trigger_unix_ms = from->trigger_unix_ms;
    r->family = from->family;
    add_addresses(r, from, origin);
    r->port_count = from->port_count;
    struct fl_slice_port *ports = ports_of(r);
    struct writing w = {.r = r, .texts = (char *)(ports + r->port_count), .len = 1}; /* 0 is "" */
    r->service_at = add_text(&w, from->service);
    for (uint32_t i = 0; i < r->port_count; i++) {
        ports[i].number = from->ports[i].number;
        ports[i].name_at = add_text(&w, from->ports[i].name);
    }
    for (uint32_t i = 0; i < r->endpoint_count; i++) {
        add_endpoint(&w, &from->endpoints[origin[i]], &r->endpoints[i]);
    }
    free(origin);
    size_t size = (size_t)(w.texts + w.len - (char *)r);
    r->size_bytes = (uint32_t)(size - HEAD_BYTES);
    struct fl_slice_record *fit = realloc(r, size);
    return fit ? fit : r;
}

struct fl_slice_record *fl_slice_record_take(struct fl_slice_record *r)
{
    r->refs++;
    return r;
}

struct fl_slice_record *fl_slice_record_give(struct fl_slice_record *r)
{
    if (r && --r->refs == 0) {
        free(r);
    }
    return NULL;
}

bool fl_slice_record_eq(const struct fl_slice_record *a, const struct fl_slice_record *b)
{
    return a->size_bytes == b->size_bytes &&
           memcmp((const char *)a + HEAD_BYTES, (const char *)b + HEAD_BYTES, a->size_bytes) == 0;
}
