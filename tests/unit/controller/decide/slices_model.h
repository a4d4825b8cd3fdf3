/* slices_model - the second opinion on slices.h, for tests: a plain list of slices, every state
 * that it ever had since the last run, and the rules of the header read off anew at each question.
 * Slow, and without anything shared with the store but the table of tiers. */
#ifndef FL_TESTS_UNIT_CONTROLLER_DECIDE_SLICES_MODEL_H
#define FL_TESTS_UNIT_CONTROLLER_DECIDE_SLICES_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "controller/decide/slices.h"

#define M_SLICES    16
#define M_ENDPOINTS 6
#define M_PORTS     3
#define M_SERVICES  4
#define M_PEERS     (M_SLICES * M_ENDPOINTS)

struct m_addr { /* of no family: not an address */
    enum fl_addr_family family;
    uint16_t port;
    uint8_t ip[16];
};

/* Texts are literals of the test. */
struct m_slice {
    bool there;
    const char *namespace, *name, *service;
    int64_t trigger;
    enum fl_addr_family family;
    uint32_t port_count, endpoint_count;
    struct fl_kube_slice_port ports[M_PORTS];
    struct fl_kube_endpoint endpoints[M_ENDPOINTS];
    struct m_addr ips[M_ENDPOINTS]; /* of the endpoints */
};

struct m_service {
    const char *namespace, *name;
    bool object, seen, ended;
    const char *external_name;
    uint32_t port_count;
    struct fl_kube_slice_port ports[M_PORTS];
    uint64_t floor; /* states before this one are forgotten for it */
};

struct m_state {
    struct m_slice slices[M_SLICES];
};

struct m_past {
    struct m_state state;
    int64_t until_ms;
    uint64_t number;
};

struct model {
    struct m_state now, staged;
    bool relisting, seen[M_SLICES];
    struct m_service services[M_SERVICES];
    struct m_past *past; /* the newest last */
    size_t past_count, past_room;
    uint64_t number;
};

struct m_peer {
    char address[128], fallback[128];
    const char *zone;
    enum fl_tier tier;
    struct m_addr order; /* by which peers stand */
};

struct m_answer {
    enum fl_members_found found;
    uint32_t count;
    bool held;
    struct m_peer peers[M_PEERS];
};

/* One endpoint of one slice, with the port that was asked for. */
struct m_one {
    const struct m_slice *s;
    const struct fl_kube_endpoint *e;
    uint16_t port;
    bool usable;
    enum fl_tier tier;
    struct m_addr addr;
};

static inline bool m_same(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static inline struct m_service *m_service(struct model *m, const char *namespace, const char *name)
{
    for (unsigned i = 0; i < M_SERVICES; i++) {
        if (m->services[i].name && m_same(m->services[i].name, name) &&
            m_same(m->services[i].namespace, namespace)) {
            return &m->services[i];
        }
    }
    FL_IMPOSSIBLE("the test names its services first");
}

static inline bool m_of(const struct m_slice *s, const struct m_service *v)
{
    return s->there && m_same(s->namespace, v->namespace) && m_same(s->service, v->name);
}

static inline unsigned m_slices_of(const struct m_state *st, const struct m_service *v)
{
    unsigned n = 0;
    for (unsigned i = 0; i < M_SLICES; i++) {
        n += m_of(&st->slices[i], v);
    }
    return n;
}

// ---- the rules of membership -------------------------------------------------------------------

static inline void m_parse(struct m_slice *s)
{
    for (uint32_t i = 0; i < s->endpoint_count; i++) {
        char text[128];
        struct fl_addr a;
        snprintf(text, sizeof(text), s->family == FL_ADDR_V6 ? "[%s]:1" : "%s:1",
                 s->endpoints[i].address);
        s->ips[i].family = FL_ADDR_NONE;
        if (fl_addr_parse(fl_span_of(text), &a) && a.family == s->family) {
            s->ips[i].family = a.family;
            memcpy(s->ips[i].ip, a.ip, sizeof(a.ip));
        }
    }
}

static inline int m_rank(const struct m_one *o)
{
    if (o->usable && o->tier == FL_TIER_PRIMARY) {
        return 3;
    }
    if (o->e->ready != FL_MAYBE_FALSE) {
        return 2;
    }
    return o->e->terminating == FL_MAYBE_TRUE && o->e->serving != FL_MAYBE_FALSE ? 1 : 0;
}

/* Of one target: is a to be believed rather than b? */
static inline bool m_newer(const struct m_one *a, const struct m_one *b)
{
    if (a->s->trigger != b->s->trigger) {
        return a->s->trigger > b->s->trigger;
    }
    if (m_rank(a) != m_rank(b)) {
        return m_rank(a) > m_rank(b);
    }
    if (a->tier != b->tier) {
        return a->tier < b->tier;
    }
    return strcmp(a->e->zone, b->e->zone) < 0;
}

/* Of different targets: does a have the address rather than b? */
static inline bool m_better(const struct m_one *a, const struct m_one *b)
{
    if (m_rank(a) != m_rank(b)) {
        return m_rank(a) > m_rank(b);
    }
    if (a->s->trigger != b->s->trigger) {
        return a->s->trigger > b->s->trigger;
    }
    return strcmp(a->e->target_uid, b->e->target_uid) < 0;
}

/* All endpoints that have the port; false: no slice has it. */
static inline bool m_collect(const struct m_state *st, const struct m_service *v, const char *port,
                             struct m_one *all, unsigned *ret_count)
{
    char *end;
    unsigned long number = strtoul(port, &end, 10);
    bool any_ports = false, found = false;
    const char *name = *end != '\0' || end == port ? port : NULL;
    number = !name && number <= 65535 ? number : 0;
    for (unsigned i = 0; v->object && i < v->port_count; i++) {
        if (number && v->ports[i].number == number && !name) {
            name = v->ports[i].name;
        }
    }
    for (unsigned i = 0; i < M_SLICES; i++) {
        any_ports = any_ports || (m_of(&st->slices[i], v) && st->slices[i].port_count > 0);
    }
    *ret_count = 0;
    for (unsigned i = 0; i < M_SLICES; i++) {
        const struct m_slice *s = &st->slices[i];
        unsigned long is = any_ports ? 0 : number;
        for (unsigned k = 0; k < s->port_count && is == 0; k++) {
            if (name ? m_same(s->ports[k].name, name) : s->ports[k].number == number) {
                is = s->ports[k].number;
            }
        }
        if (!m_of(s, v) || is == 0) {
            continue;
        }
        found = true;
        for (unsigned k = 0; k < s->endpoint_count; k++) {
            const struct fl_kube_endpoint *e = &s->endpoints[k];
            struct m_one o = {s, e, (uint16_t)is, false, FL_TIER_LAST_RESORT, s->ips[k]};
            o.usable = fl_members_tier(e->ready, e->serving, e->terminating, &o.tier);
            o.addr.port = o.port;
            if (o.addr.family != FL_ADDR_NONE) {
                all[(*ret_count)++] = o;
            }
        }
    }
    return found;
}

static inline bool m_same_addr(const struct m_one *a, const struct m_one *b)
{
    return a->addr.family == b->addr.family && a->addr.port == b->addr.port &&
           memcmp(a->addr.ip, b->addr.ip, sizeof(a->addr.ip)) == 0;
}

/* Does this one have its address, among all? */
static inline bool m_has_address(const struct m_one *all, unsigned n, unsigned at)
{
    for (unsigned i = 0; i < n; i++) {
        if (i == at || !m_same_addr(&all[i], &all[at])) {
            continue;
        }
        bool same = m_same(all[i].e->target_uid, all[at].e->target_uid);
        if (same ? m_newer(&all[i], &all[at]) || (!m_newer(&all[at], &all[i]) && i < at) : false) {
            return false;
        }
    }
    for (unsigned i = 0; i < n; i++) {
        if (i == at || !m_same_addr(&all[i], &all[at]) ||
            m_same(all[i].e->target_uid, all[at].e->target_uid)) {
            continue;
        }
        bool first = true; /* of its target */
        for (unsigned k = 0; k < n; k++) {
            if (k != i && m_same_addr(&all[k], &all[i]) &&
                m_same(all[k].e->target_uid, all[i].e->target_uid) &&
                (m_newer(&all[k], &all[i]) || (!m_newer(&all[i], &all[k]) && k < i))) {
                first = false;
            }
        }
        if (first && m_better(&all[i], &all[at])) {
            return false;
        }
    }
    return true;
}

static inline int m_addr_order(const struct m_one *a, const struct m_one *b)
{
    const struct m_addr x = a->addr, y = b->addr;
    int c = (x.family > y.family) - (x.family < y.family);
    c = c ? c : memcmp(x.ip, y.ip, sizeof(x.ip));
    return c ? c : (x.port > y.port) - (x.port < y.port);
}

/* The one of target `of` and family that counts; NULL: none. */
static inline const struct m_one *m_target_in(const struct m_one *left, unsigned n,
                                              const struct m_one *of, enum fl_addr_family family)
{
    const struct m_one *best = NULL;
    for (unsigned i = 0; i < n; i++) {
        const struct m_one *o = &left[i];
        if (o->s->family == family && m_same(o->e->target_uid, of->e->target_uid) &&
            (!best || m_newer(o, best) || (!m_newer(best, o) && m_addr_order(o, best) < 0))) {
            best = o;
        }
    }
    return best;
}

static inline void m_print(const struct m_one *o, char text[128])
{
    struct fl_fmt f = fl_fmt_of(text, 128);
    struct fl_addr a = {.family = o->addr.family, .port = o->addr.port};
    memcpy(a.ip, o->addr.ip, sizeof(a.ip));
    fl_addr_print(&a, &f);
}

static inline int m_peer_order(const void *x, const void *y)
{
    const struct m_peer *a = x, *b = y;
    int c = (a->order.family > b->order.family) - (a->order.family < b->order.family);
    c = c ? c : memcmp(a->order.ip, b->order.ip, sizeof(a->order.ip));
    return c ? c : (a->order.port > b->order.port) - (a->order.port < b->order.port);
}

/* The members of one state of the slices. */
static inline bool m_members(const struct m_state *st, const struct m_service *v, const char *port,
                             struct m_answer *ret)
{
    static struct m_one all[M_PEERS], left[M_PEERS];
    unsigned n, count = 0, v4 = 0, v6 = 0;
    bool found = m_collect(st, v, port, all, &n);
    ret->count = 0;
    for (unsigned i = 0; i < n; i++) {
        if (m_has_address(all, n, i) && all[i].usable) {
            left[count++] = all[i];
            v4 += all[i].e->ready != FL_MAYBE_FALSE && all[i].s->family == FL_ADDR_V4;
            v6 += all[i].e->ready != FL_MAYBE_FALSE && all[i].s->family == FL_ADDR_V6;
        }
    }
    for (unsigned i = 0; i < count; i++) {
        const struct m_one *one = &left[i], *other = NULL;
        if (one->e->target_uid[0]) {
            const struct m_one *a = m_target_in(left, count, one, FL_ADDR_V4);
            const struct m_one *b = m_target_in(left, count, one, FL_ADDR_V6);
            const struct m_one *first = a && b ? (v6 > v4 ? b : a) : a ? a : b;
            if (first != one) {
                continue;
            }
            other = a && b ? (first == a ? b : a) : NULL;
        }
        struct m_peer *p = &ret->peers[ret->count++];
        *p = (struct m_peer){.zone = one->e->zone, .tier = one->tier, .order = one->addr};
        m_print(one, p->address);
        if (other) {
            m_print(other, p->fallback);
        }
    }
    qsort(ret->peers, ret->count, sizeof(ret->peers[0]), m_peer_order);
    return found;
}

// ---- what is held, and what is asked -----------------------------------------------------------

/* Before each change of slices: the state as it was goes into the past. */
static inline void m_remember(struct model *m, int64_t now_ms)
{
    if (m->past_count == m->past_room) {
        m->past_room = m->past_room ? m->past_room * 2 : 16;
        m->past = realloc(m->past, m->past_room * sizeof(*m->past));
        FL_MUST(m->past);
    }
    m->past[m->past_count++] = (struct m_past){m->now, now_ms + FL_SLICES_HOLD_MS, m->number++};
}

static inline bool m_port_of_object(const struct m_service *v, const char *port, uint16_t *ret)
{
    for (unsigned i = 0; v->object && i < v->port_count; i++) {
        char number[16];
        snprintf(number, sizeof(number), "%u", (unsigned)v->ports[i].number);
        if (m_same(v->ports[i].name, port) || m_same(number, port)) {
            *ret = v->ports[i].number;
            return true;
        }
    }
    return false;
}

static inline void m_external(const struct m_service *v, const char *port, struct m_answer *ret)
{
    uint16_t number = (uint16_t)strtoul(port, NULL, 10);
    if (number == 0 && !m_port_of_object(v, port, &number)) {
        ret->found = FL_MEMBERS_NO_PORT;
        return;
    }
    ret->count = 1;
    ret->peers[0] = (struct m_peer){.zone = ""};
    snprintf(ret->peers[0].address, sizeof(ret->peers[0].address), "%s:%u", v->external_name,
             (unsigned)number);
}

static inline void m_ask(struct model *m, const struct fl_service_ref *ref, struct m_answer *ret)
{
    struct m_service *v = m_service(m, ref->namespace, ref->name);
    uint16_t number;
    ret->found = FL_MEMBERS_FOUND;
    ret->count = 0;
    ret->held = false;
    if (v->ended) {
        ret->found = m_slices_of(&m->now, v) ? FL_MEMBERS_FOUND : FL_MEMBERS_NO_SERVICE;
        return;
    }
    if (v->object && v->external_name[0]) {
        m_external(v, ref->port, ret);
        return;
    }
    bool found = m_members(&m->now, v, ref->port, ret);
    for (size_t i = m->past_count; i > 0 && ret->count == 0; i--) {
        if (m->past[i - 1].number >= v->floor) {
            m_members(&m->past[i - 1].state, v, ref->port, ret);
            ret->held = ret->count > 0;
        }
    }
    if (ret->count > 0) {
        return;
    }
    ret->found =
        found || m_port_of_object(v, ref->port, &number) ? FL_MEMBERS_FOUND : FL_MEMBERS_NO_PORT;
    if (!v->object && m_slices_of(&m->now, v) == 0) {
        ret->found = FL_MEMBERS_NO_SERVICE;
    }
}

/* Is anything held of the service, for whatever port one may ask? 7777 stands for all numbers that
 * no slice has, which is what a service without ports answers to. */
static inline bool m_holds(struct model *m, const struct m_service *of)
{
    static const char *const ports[] = {"s3", "admin", "", "9000", "9001", "7777"};
    static struct m_answer a;
    struct m_service v = *of;
    v.object = false;
    for (unsigned k = 0; k < FL_COUNTOF(ports); k++) {
        m_members(&m->now, &v, ports[k], &a);
        for (size_t i = m->past_count; i > 0 && a.count == 0; i--) {
            if (m->past[i - 1].number >= v.floor) {
                m_members(&m->past[i - 1].state, &v, ports[k], &a);
                if (a.count > 0) {
                    return true;
                }
            }
        }
    }
    return false;
}

// ---- what happens ------------------------------------------------------------------------------

/* A service that ended is forgotten with the last slice that is known of it, or was announced. */
static inline void m_forget_ended(struct model *m)
{
    for (unsigned i = 0; i < M_SERVICES; i++) {
        struct m_service *v = &m->services[i];
        if (v->name && v->ended) {
            v->floor = m->number; /* what changes while it is ended is not held */
        }
        if (v->name && v->ended && m_slices_of(&m->now, v) == 0 &&
            (!m->relisting || m_slices_of(&m->staged, v) == 0)) {
            v->ended = false;
        }
    }
}

/* at: which of the test's slices. */
static inline void m_put(struct model *m, unsigned at, const struct m_slice *s, int64_t now_ms)
{
    if (m->relisting) {
        m->staged.slices[at] = *s;
    } else {
        m_remember(m, now_ms);
        m->now.slices[at] = *s;
    }
    m_forget_ended(m);
}

static inline void m_remove(struct model *m, unsigned at, int64_t now_ms)
{
    static const struct m_slice none;
    m_put(m, at, &none, now_ms);
}

static inline void m_begin(struct model *m)
{
    m->relisting = true;
    memset(&m->staged, 0, sizeof(m->staged));
    m_forget_ended(m);
}

static inline void m_end(struct model *m, int64_t now_ms)
{
    if (m->relisting) {
        m_remember(m, now_ms);
        m->now = m->staged;
        m->relisting = false;
        m_forget_ended(m);
    }
}

static inline void m_put_service(struct model *m, const struct fl_kube_service *s)
{
    struct m_service *v = m_service(m, s->meta.namespace, s->meta.name);
    v->object = v->seen = true;
    v->ended = false;
    v->external_name = s->external_name;
    v->port_count = s->port_count;
    for (unsigned i = 0; i < s->port_count; i++) {
        v->ports[i] = s->ports[i];
    }
}

static inline void m_end_service(struct model *m, struct m_service *v)
{
    v->object = false;
    v->ended = true;
    v->floor = m->number;
    m_forget_ended(m);
}

static inline void m_remove_service(struct model *m, const char *namespace, const char *name)
{
    m_end_service(m, m_service(m, namespace, name));
}

static inline void m_begin_services(struct model *m)
{
    for (unsigned i = 0; i < M_SERVICES; i++) {
        m->services[i].seen = false;
    }
}

static inline void m_end_services(struct model *m)
{
    for (unsigned i = 0; i < M_SERVICES; i++) {
        if (m->services[i].name && m->services[i].object && !m->services[i].seen) {
            m_end_service(m, &m->services[i]);
        }
    }
}

static inline void m_run(struct model *m, int64_t now_ms)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->past_count; i++) {
        if (m->past[i].until_ms > now_ms) {
            m->past[kept++] = m->past[i];
        }
    }
    m->past_count = kept;
}

#endif
