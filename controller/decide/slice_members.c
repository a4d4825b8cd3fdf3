#include "controller/decide/slice_members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/addr.h"
#include "common/base/fmt.h"
#include "common/model/directives_table.h"

struct candidate {
    const struct fl_slice_record *from;
    const struct fl_slice_endpoint *e;
    const struct candidate *fallback; /* the same target's in the other family */
    uint16_t port;
    bool dropped;
};

#define SAME_MAX    16u /* slices that have one address, as far as the quick look goes */
#define WITNESS_MAX 8u

bool fl_slice_members_portless(const struct fl_slice_record *const *records, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (records[i]->port_count > 0) {
            return false;
        }
    }
    return true;
}

/* 0: the slice does not have it. */
static uint16_t port_of(const struct fl_slice_record *r, const struct fl_slice_want *want,
                        bool portless)
{
    const struct fl_slice_port *ports = fl_slice_record_ports(r);
    for (uint32_t i = 0; i < r->port_count; i++) {
        if (want->name ? strcmp(fl_slice_record_text(r, ports[i].name_at), want->name) == 0
                       : ports[i].number == want->number) {
            return ports[i].number;
        }
    }
    return portless ? want->number : 0;
}

bool fl_slice_members_port(const struct fl_slice_record *const *records, uint32_t count,
                           const struct fl_slice_want *want)
{
    bool portless = fl_slice_members_portless(records, count), found = portless && want->number;
    for (uint32_t i = 0; i < count && !found; i++) {
        found = port_of(records[i], want, portless) != 0;
    }
    return found;
}

// ---- orders ------------------------------------------------------------------------------------

static int order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static const char *uid_of(const struct candidate *c)
{
    return fl_slice_record_text(c->from, c->e->uid_at);
}

static int by_address(const struct candidate *a, const struct candidate *b)
{
    int c = order(a->from->family, b->from->family);
    c = c ? c : memcmp(a->e->ip, b->e->ip, sizeof(a->e->ip));
    return c ? c : order(a->port, b->port);
}

static int by_target(const struct candidate *a, const struct candidate *b)
{
    if (a->e->target != b->e->target) {
        return a->e->target < b->e->target ? -1 : 1;
    }
    return strcmp(uid_of(a), uid_of(b));
}

/* Of one target: the one to believe first. The last two only make it independent of the order in
 * which slices came. */
static int by_news(const struct candidate *a, const struct candidate *b)
{
    int c = order(b->from->trigger_unix_ms, a->from->trigger_unix_ms);
    c = c ? c : order(b->e->rank, a->e->rank);
    c = c ? c : order(a->e->tier, b->e->tier);
    return c ? c
             : strcmp(fl_slice_record_text(a->from, a->e->zone_at),
                      fl_slice_record_text(b->from, b->e->zone_at));
}

static int address_target_news(const void *x, const void *y)
{
    const struct candidate *a = x, *b = y;
    int c = by_address(a, b);
    c = c ? c : by_target(a, b);
    return c ? c : by_news(a, b);
}

/* A candidate with what nearly always tells it from its neighbours close at hand. */
struct sorted {
    uint64_t target;
    struct candidate *of;
};

static int target_family_news(const void *x, const void *y)
{
    const struct sorted *s = x, *t = y;
    if (s->target != t->target) {
        return s->target < t->target ? -1 : 1;
    }
    const struct candidate *a = s->of, *b = t->of;
    int c = by_target(a, b);
    c = c ? c : order(a->from->family, b->from->family);
    c = c ? c : by_news(a, b);
    return c ? c : by_address(a, b);
}

static uint32_t without_dropped(struct candidate *all, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!all[i].dropped) {
            all[kept++] = all[i];
        }
    }
    return kept;
}

// ---- one address, one endpoint -----------------------------------------------------------------

/* Does the endpoint of another target have the address rather than this one? Ranks alike: the newer
 * one, then any, but always the same. */
static bool beats(const struct candidate *other, const struct candidate *c)
{
    if (other->e->rank != c->e->rank) {
        return other->e->rank > c->e->rank;
    }
    if (other->from->trigger_unix_ms != c->from->trigger_unix_ms) {
        return other->from->trigger_unix_ms > c->from->trigger_unix_ms;
    }
    return strcmp(uid_of(other), uid_of(c)) < 0;
}

/* In the order of address, target, news: leaves one candidate an address, and none where that one
 * is no member. */
static uint32_t settle_addresses(struct candidate *all, uint32_t n)
{
    for (uint32_t i = 0; i < n;) {
        uint32_t best = i, k = i + 1;
        for (; k < n && by_address(&all[i], &all[k]) == 0; k++) {
            bool first_of_target = by_target(&all[k - 1], &all[k]) != 0;
            if (first_of_target && beats(&all[k], &all[best])) {
                all[best].dropped = true;
                best = k;
            } else {
                all[k].dropped = true;
            }
        }
        all[best].dropped = !all[best].e->usable;
        i = k;
    }
    return without_dropped(all, n);
}

// ---- one target, one peer ----------------------------------------------------------------------

static enum fl_addr_family primary_family(const struct candidate *all, uint32_t n)
{
    uint32_t v4 = 0, v6 = 0;
    for (uint32_t i = 0; i < n; i++) {
        v4 += all[i].e->ready && all[i].from->family == FL_ADDR_V4;
        v6 += all[i].e->ready && all[i].from->family == FL_ADDR_V6;
    }
    return v6 > v4 ? FL_ADDR_V6 : FL_ADDR_V4;
}

/* The run of one target's candidates, in the order of family, news: the first of each family
 * counts, and of those the one of the primary family is the peer. */
static void settle_target(struct sorted *run, uint32_t n, enum fl_addr_family primary)
{
    struct candidate *first = run[0].of, *other = NULL;
    for (uint32_t i = 1; i < n; i++) {
        run[i].of->dropped = true;
        if (!other && run[i].of->from->family != first->from->family) {
            other = run[i].of;
        }
    }
    if (other && other->from->family == primary) {
        first->dropped = true;
        other->dropped = false;
        other->fallback = first;
    } else {
        first->fallback = other;
    }
}

/* Leaves all in its order, since fallbacks point into it; those that are no peers are dropped. */
static int settle_targets(struct candidate *all, uint32_t n)
{
    enum fl_addr_family primary = primary_family(all, n);
    struct sorted *sorted = calloc((size_t)n + 1, sizeof(*sorted));
    if (!sorted) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++) {
        sorted[i] = (struct sorted){all[i].e->target, &all[i]};
    }
    qsort(sorted, n, sizeof(*sorted), target_family_news);
    for (uint32_t i = 0; i < n;) {
        uint32_t k = i + 1;
        while (k < n && sorted[i].of->e->uid_at != 0 &&
               by_target(sorted[i].of, sorted[k].of) == 0) {
            k++;
        }
        settle_target(sorted + i, k - i, primary);
        i = k;
    }
    free(sorted);
    return 0;
}

// ---- peers -------------------------------------------------------------------------------------

struct given {
    uint64_t always, zone, fallback;
};

static uint64_t bit_of(const char *name)
{
    return UINT64_C(1) << fl_directive_bit(fl_scope_find(FL_SCOPE_PEER, name));
}

static const char *address_text(const struct candidate *c, struct fl_arena *arena)
{
    char text[FL_ADDR_TEXT_MAX];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    struct fl_addr a = fl_slice_record_addr(c->from, c->e, c->port);
    fl_addr_print(&a, &f);
    return fl_arena_text(arena, (struct fl_span){f.base, f.len});
}

/* Neighbours are often of one zone: its text is shared then. */
static const char *zone_text(const char *zone, const struct fl_peer_conf *before,
                             struct fl_arena *arena)
{
    if (zone[0] == '\0') {
        return "";
    }
    return before && strcmp(before->zone, zone) == 0 ? before->zone
                                                     : fl_arena_text(arena, fl_span_of(zone));
}

static bool to_peer(const struct candidate *c, const struct given *given, struct fl_arena *arena,
                    const struct fl_peer_conf *before, struct fl_peer_conf *to)
{
    to->address = address_text(c, arena);
    to->zone = zone_text(fl_slice_record_text(c->from, c->e->zone_at), before, arena);
    to->fallback_address = c->fallback ? address_text(c->fallback, arena) : "";
    to->tier = (enum fl_tier)c->e->tier;
    to->weight = 1;
    to->owner = FL_OWNER_CONTROLLER;
    to->set =
        given->always | (c->e->zone_at ? given->zone : 0) | (c->fallback ? given->fallback : 0);
    return to->address && to->zone && to->fallback_address;
}

static int to_peers(const struct candidate *all, uint32_t n, struct fl_arena *arena,
                    struct fl_members *ret)
{
    struct given given = {bit_of("address") | bit_of("tier"), bit_of("zone"),
                          bit_of("fallback_address")};
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        count += !all[i].dropped;
    }
    struct fl_members made = {fl_arena_array(arena, count, sizeof(*made.peers)), 0};
    for (uint32_t i = 0; made.peers && i < n; i++) {
        if (all[i].dropped) {
            continue;
        }
        struct fl_peer_conf *to = &made.peers[made.count];
        if (!to_peer(&all[i], &given, arena, made.count ? to - 1 : NULL, to)) {
            return -ENOMEM;
        }
        made.count++;
    }
    if (!made.peers) {
        return -ENOMEM;
    }
    *ret = made;
    return 0;
}

// ---- all of them -------------------------------------------------------------------------------

static struct candidate *collect(const struct fl_slice_record *const *records, uint32_t count,
                                 const struct fl_slice_want *want, uint32_t *ret_count)
{
    bool portless = fl_slice_members_portless(records, count);
    size_t room = 1;
    for (uint32_t i = 0; i < count; i++) {
        room += records[i]->endpoint_count;
    }
    struct candidate *all = room < UINT32_MAX ? calloc(room, sizeof(*all)) : NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; all && i < count; i++) {
        const struct fl_slice_record *r = records[i];
        uint16_t port = port_of(r, want, portless);
        for (uint32_t k = 0; port && k < r->endpoint_count; k++) {
            all[n++] = (struct candidate){.from = r, .e = &r->endpoints[k], .port = port};
        }
    }
    *ret_count = n;
    return all;
}

/* One candidate an address, members only. NULL: no memory. */
static struct candidate *collect_settled(const struct fl_slice_record *const *records,
                                         uint32_t count, const struct fl_slice_want *want,
                                         uint32_t *ret_count)
{
    struct candidate *all = collect(records, count, want, ret_count);
    if (all && *ret_count > 1) {
        qsort(all, *ret_count, sizeof(*all), address_target_news);
    }
    *ret_count = all ? settle_addresses(all, *ret_count) : 0;
    return all;
}

/* All that stand at the address of `like`; true when a member remains of them. */
static bool is_member_address(const struct fl_slice_record *const *records, uint32_t count,
                              const struct fl_slice_want *want, bool portless,
                              const struct candidate *like)
{
    struct candidate same[SAME_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct fl_slice_record *r = records[i];
        if (r->family != like->from->family || port_of(r, want, portless) != like->port) {
            continue;
        }
        for (uint32_t k = 0; k < r->endpoint_count; k++) {
            if (memcmp(r->endpoints[k].ip, like->e->ip, sizeof(like->e->ip)) == 0) {
                if (n == SAME_MAX) {
                    return false;
                }
                same[n++] =
                    (struct candidate){.from = r, .e = &r->endpoints[k], .port = like->port};
            }
        }
    }
    qsort(same, n, sizeof(same[0]), address_target_news);
    return settle_addresses(same, n) > 0;
}

/* Nearly always the first usable endpoint is a member, and the look at its address is enough. */
bool fl_slice_members_any(const struct fl_slice_record *const *records, uint32_t count,
                          const struct fl_slice_want *want)
{
    bool portless = fl_slice_members_portless(records, count);
    unsigned looks = 0;
    for (uint32_t i = 0; i < count && looks < WITNESS_MAX; i++) {
        const struct fl_slice_record *r = records[i];
        uint16_t port = r->usable_count ? port_of(r, want, portless) : 0;
        for (uint32_t k = 0; port && k < r->endpoint_count && looks < WITNESS_MAX; k++) {
            struct candidate like = {.from = r, .e = &r->endpoints[k], .port = port};
            if (like.e->usable && ++looks &&
                is_member_address(records, count, want, portless, &like)) {
                return true;
            }
        }
    }
    if (looks < WITNESS_MAX) {
        return false;
    }
    uint32_t n;
    struct candidate *all = collect_settled(records, count, want, &n);
    bool any = n > 0 || !all;
    free(all);
    return any;
}

int fl_slice_members_of(const struct fl_slice_record *const *records, uint32_t count,
                        const struct fl_slice_want *want, struct fl_arena *arena,
                        struct fl_members *ret)
{
    uint32_t n;
    struct candidate *all = collect_settled(records, count, want, &n);
    int err = all ? settle_targets(all, n) : -ENOMEM;
    if (err == 0) {
        err = to_peers(all, n, arena, ret);
    }
    free(all);
    return err;
}
