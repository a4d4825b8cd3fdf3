#include "sidecar/policy/registry.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/fmt.h"
#include "common/base/smap.h"
#include "sidecar/policy/peer.h"
#include "sidecar/policy/snapshot.h"
#include "sidecar/policy/tally.h"

#define LINE_BYTES 64

struct fl_registry {
    struct fl_smap peers;    /* "backend\naddress" -> struct peer_entry */
    struct fl_smap routes;   /* name -> struct route_entry */
    struct fl_smap backends; /* name -> struct backend_entry */
    struct fl_smap members;  /* backend names that ever had one; the value is the key */
    uint32_t next_peer_id;   /* never given twice: a stale index must not reach another peer's
                                connections */
};

struct peer_entry {
    struct fl_peer peer; /* first: drop gets the peer */
    struct route_health *healths;
    char *key;
};

struct route_health {
    struct fl_peer_health health;
    struct route_health *next;
    char route[];
};

struct route_entry {
    struct fl_route_tally tally;
    char name[];
};

struct backend_entry {
    struct fl_backend_tally tally;
    struct fl_backend_lane lanes[FL_THREADS_MAX];
    char name[];
};

/* Zeroed and on its own cache lines. */
static void *alloc_lines(size_t n)
{
    n = (n + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    void *p = aligned_alloc(LINE_BYTES, n);
    return p ? memset(p, 0, n) : NULL;
}

struct fl_registry *fl_registry_new(uint64_t hash_seed)
{
    struct fl_registry *r = calloc(1, sizeof(*r));
    if (r) {
        fl_smap_init(&r->peers, hash_seed);
        fl_smap_init(&r->routes, hash_seed);
        fl_smap_init(&r->backends, hash_seed);
        fl_smap_init(&r->members, hash_seed);
    }
    return r;
}

static void free_peer(struct peer_entry *e)
{
    while (e->healths) {
        struct route_health *next = e->healths->next;
        free(e->healths);
        e->healths = next;
    }
    free(e->key);
    free(e);
}

struct fl_registry *fl_registry_free(struct fl_registry *r)
{
    if (!r) {
        return NULL;
    }
    FL_MUST(r->peers.count == 0 && r->routes.count == 0 && r->backends.count == 0);
    size_t at = 0;
    for (char *name; (name = fl_smap_next(&r->members, &at, NULL));) {
        free(name);
    }
    fl_smap_done(&r->peers);
    fl_smap_done(&r->routes);
    fl_smap_done(&r->backends);
    fl_smap_done(&r->members);
    free(r);
    return NULL;
}

uint64_t fl_registry_seed(const struct fl_registry *r)
{
    return r->peers.seed;
}

static struct peer_entry *new_peer(const char *backend, const char *address)
{
    struct fl_addr addr;
    if (!fl_addr_parse(fl_span_of(address), &addr) || strlen(address) >= FL_ADDR_TEXT_MAX) {
        return NULL;
    }
    struct peer_entry *e = alloc_lines(sizeof(*e));
    if (!e) {
        return NULL;
    }
    size_t key_size = strlen(backend) + 1 + strlen(address) + 1;
    e->key = malloc(key_size);
    if (!e->key) {
        free(e);
        return NULL;
    }
    struct fl_fmt key = fl_fmt_of(e->key, key_size);
    fl_fmt_text(&key, backend);
    fl_fmt_char(&key, '\n');
    fl_fmt_text(&key, address);
    memcpy(e->peer.address, address, strlen(address) + 1);
    e->peer.addr = addr;
    fl_peer_health_init(&e->peer.health);
    return e;
}

/* The entry that is found by its key, when it may still be given out. A removed one is forgotten
 * here, not freed: its holders drop it. */
static struct peer_entry *find_peer(struct fl_registry *r, struct fl_span key)
{
    struct peer_entry *e = fl_smap_get(&r->peers, key);
    if (e && atomic_load_explicit(&e->peer.removed, memory_order_relaxed)) {
        fl_smap_remove(&r->peers, key);
        return NULL;
    }
    return e;
}

struct fl_peer *fl_registry_peer(struct fl_registry *r, const char *backend, const char *address)
{
    struct peer_entry *e = new_peer(backend, address); /* makes the key as well */
    if (!e) {
        return NULL;
    }
    struct fl_span key = fl_span_of(e->key);
    struct peer_entry *known = find_peer(r, key);
    if (known) {
        free_peer(e);
        e = known;
    } else if (fl_smap_put(&r->peers, key, e) != 0) {
        free_peer(e);
        return NULL;
    } else {
        e->peer.id = r->next_peer_id++;
    }
    e->peer.refs++;
    return &e->peer;
}

void fl_registry_drop_peer(struct fl_registry *r, struct fl_peer *p)
{
    struct peer_entry *e = (struct peer_entry *)p;
    FL_MUST(p->refs > 0);
    if (--p->refs > 0) {
        return;
    }
    if (fl_smap_get(&r->peers, fl_span_of(e->key)) == e) {
        fl_smap_remove(&r->peers, fl_span_of(e->key));
    }
    free_peer(e);
}

struct fl_peer_health *fl_registry_route_health(struct fl_registry *r, struct fl_peer *p,
                                                const char *route)
{
    (void)r;
    struct peer_entry *e = (struct peer_entry *)p;
    for (struct route_health *h = e->healths; h; h = h->next) {
        if (strcmp(h->route, route) == 0) {
            return &h->health;
        }
    }
    size_t n = strlen(route) + 1;
    struct route_health *h = calloc(1, sizeof(*h) + n);
    if (!h) {
        return NULL;
    }
    memcpy(h->route, route, n);
    fl_peer_health_init(&h->health);
    h->next = e->healths;
    e->healths = h;
    return &h->health;
}

struct fl_route_tally *fl_registry_route(struct fl_registry *r, const char *route)
{
    struct route_entry *e = fl_smap_get(&r->routes, fl_span_of(route));
    if (!e) {
        size_t n = strlen(route) + 1;
        e = alloc_lines(sizeof(*e) + n);
        if (!e) {
            return NULL;
        }
        memcpy(e->name, route, n);
        e->tally.name = e->name;
        if (fl_smap_put(&r->routes, fl_span_of(e->name), e) != 0) {
            free(e);
            return NULL;
        }
    }
    e->tally.refs++;
    return &e->tally;
}

void fl_registry_drop_route(struct fl_registry *r, struct fl_route_tally *t)
{
    FL_MUST(t->refs > 0);
    if (--t->refs == 0) {
        fl_smap_remove(&r->routes, fl_span_of(t->name));
        free(t);
    }
}

struct fl_backend_tally *fl_registry_backend(struct fl_registry *r, const char *backend,
                                             struct fl_backend_lane **ret_lanes)
{
    struct backend_entry *e = fl_smap_get(&r->backends, fl_span_of(backend));
    if (!e) {
        size_t n = strlen(backend) + 1;
        e = alloc_lines(sizeof(*e) + n);
        if (!e) {
            return NULL;
        }
        memcpy(e->name, backend, n);
        e->tally.name = e->name;
        if (fl_smap_put(&r->backends, fl_span_of(e->name), e) != 0) {
            free(e);
            return NULL;
        }
    }
    e->tally.refs++;
    *ret_lanes = e->lanes;
    return &e->tally;
}

void fl_registry_drop_backend(struct fl_registry *r, struct fl_backend_tally *t)
{
    FL_MUST(t->refs > 0);
    if (--t->refs == 0) {
        fl_smap_remove(&r->backends, fl_span_of(t->name));
        free(t);
    }
}

bool fl_registry_had_members(const struct fl_registry *r, const char *backend)
{
    return fl_smap_get(&r->members, fl_span_of(backend)) != NULL;
}

bool fl_registry_note_members(struct fl_registry *r, const char *backend)
{
    if (fl_registry_had_members(r, backend)) {
        return true;
    }
    size_t n = strlen(backend) + 1;
    char *name = malloc(n);
    if (!name) {
        return false;
    }
    memcpy(name, backend, n);
    if (fl_smap_put(&r->members, fl_span_of(name), name) != 0) {
        free(name);
        return false;
    }
    return true;
}
