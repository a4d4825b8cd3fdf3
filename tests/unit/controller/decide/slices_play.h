/* slices_play - random histories of slices, played to the store and to its model at once, for unit
 * test and fuzzer alike: bytes become operations. */
#ifndef FL_TESTS_UNIT_CONTROLLER_DECIDE_SLICES_PLAY_H
#define FL_TESTS_UNIT_CONTROLLER_DECIDE_SLICES_PLAY_H

#include "slices_model.h"

#define PLAY_SLICES 8

struct play {
    uint8_t (*byte)(void *arg);
    void *arg;
    struct fl_slices *store;
    struct model model;
    int64_t now_ms;
    unsigned every, turn; /* after a step, one of so many questions is asked */
    unsigned long asked, members, held, empty, fallbacks; /* what was seen, to know that it was */
    unsigned long changes, rests; /* of the answers about a service; its revision stayed */
    struct {
        uint64_t answers, revision;
    } last[3]; /* of each service */
};

static const char *const play_services[][2] = {{"a", "x"}, {"a", "y"}, {"b", "x"}};
static const char *const play_slices[PLAY_SLICES][2] = {
    {"a", "s0"}, {"a", "s1"}, {"a", "s2"}, {"a", "s3"},
    {"a", "s4"}, {"a", "s5"}, {"b", "s0"}, {"b", "s1"},
};
static const char *const play_ports[] = {"s3", "admin", "9000", "9001", "80", ""};

static inline void play_mix(uint64_t *sum, const char *text)
{
    do {
        *sum = (*sum ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    } while (*text++ != '\0');
}

/* All that the store answers about a service, in a number. */
static inline uint64_t play_answers(const struct play *p, unsigned service)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (unsigned k = 0; k < FL_COUNTOF(play_ports); k++) {
        struct fl_service_ref ref = {play_services[service][0], play_services[service][1],
                                     play_ports[k]};
        struct fl_arena arena;
        struct fl_members got = {0};
        fl_arena_init(&arena, (size_t)1 << 20);
        sum = (sum ^ fl_slices_members(p->store, &ref, &arena, &got)) * UINT64_C(0x100000001b3);
        for (uint32_t i = 0; i < got.count; i++) {
            play_mix(&sum, got.peers[i].address);
            play_mix(&sum, got.peers[i].fallback_address);
            play_mix(&sum, got.peers[i].zone);
            play_mix(&sum, got.peers[i].tier == FL_TIER_PRIMARY ? "1" : "2");
        }
        fl_arena_done(&arena);
    }
    return sum;
}

static inline void play_begin(struct play *p, uint8_t (*byte)(void *), void *arg)
{
    memset(p, 0, sizeof(*p));
    p->byte = byte;
    p->arg = arg;
    p->store = fl_slices_new(7);
    p->now_ms = 1000;
    p->every = 1;
    FL_MUST(p->store);
    for (unsigned i = 0; i < FL_COUNTOF(play_services); i++) {
        p->model.services[i] =
            (struct m_service){.namespace = play_services[i][0], .name = play_services[i][1]};
        p->last[i].answers = play_answers(p, i);
    }
}

static inline void play_end(struct play *p)
{
    p->store = fl_slices_free(p->store);
    free(p->model.past);
}

static inline void play_ports_of(uint8_t b, struct fl_kube_slice_port *ports, uint32_t *ret_count)
{
    static const struct fl_kube_slice_port kinds[][2] = {
        {{"s3", 9000}, {"", 0}},    {{"s3", 9001}, {"", 0}}, {{"s3", 9000}, {"admin", 9001}},
        {{"admin", 9000}, {"", 0}}, {{"", 9000}, {"", 0}},   {{"", 0}, {"", 0}},
    };
    b %= FL_COUNTOF(kinds) + 2; /* the first one more often */
    b = b < FL_COUNTOF(kinds) ? b : 0;
    *ret_count = b == 5 ? 0 : b == 2 ? 2 : 1;
    ports[0] = kinds[b][0];
    ports[1] = kinds[b][1];
}

static inline void play_endpoint(struct play *p, enum fl_addr_family family,
                                 struct fl_kube_endpoint *e)
{
    static const char *const v4[] = {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.300"};
    static const char *const v6[] = {"fd00::1", "fd00::2", "fd00::3", "fd00:::"};
    static const char *const uids[] = {"", "u1", "u2", "u3"};
    static const char *const zones[] = {"", "", "z1", "z2"};
    uint8_t a = p->byte(p->arg), c = p->byte(p->arg);
    *e = (struct fl_kube_endpoint){
        .address = (family == FL_ADDR_V6 ? v6 : v4)[a & 3],
        .target_uid = uids[a >> 2 & 3],
        .zone = zones[a >> 4 & 3],
    };
    if (c & 0x80) { /* a live one; the others are of any of the 27 kinds */
        e->ready = e->serving = FL_MAYBE_TRUE;
        e->terminating = FL_MAYBE_FALSE;
        return;
    }
    e->ready = (enum fl_maybe)(c % 3);
    e->serving = (enum fl_maybe)(c / 3 % 3);
    e->terminating = (enum fl_maybe)(c / 9 % 3);
}

static inline void play_put(struct play *p)
{
    uint8_t which = p->byte(p->arg), kind = p->byte(p->arg), ports = p->byte(p->arg);
    unsigned at = which % PLAY_SLICES;
    struct m_slice s = {.there = true,
                        .namespace = play_slices[at][0],
                        .name = play_slices[at][1],
                        .trigger = which >> 4 & 3,
                        .family = kind & 1 ? FL_ADDR_V6 : FL_ADDR_V4,
                        .endpoint_count = kind >> 1 & 3};
    uint8_t of = kind >> 3 & 7;
    s.service = of == 7 ? "" : of > 4 && at < 6 ? "y" : "x";
    play_ports_of(ports, s.ports, &s.port_count);
    for (uint32_t i = 0; i < s.endpoint_count; i++) {
        play_endpoint(p, s.family, &s.endpoints[i]);
    }
    m_parse(&s);
    struct fl_kube_slice given = {
        .meta = {s.namespace, s.name, "", ""},
        .service = s.service,
        .trigger_unix_ms = s.trigger,
        .family = s.family,
        .ports = s.ports,
        .port_count = s.port_count,
        .endpoints = s.endpoints,
        .endpoint_count = s.endpoint_count,
    };
    FL_MUST(fl_slices_put(p->store, &given, p->now_ms) == 0);
    m_put(&p->model, at, &s, p->now_ms);
}

static inline void play_remove(struct play *p)
{
    unsigned at = p->byte(p->arg) % PLAY_SLICES;
    fl_slices_remove(p->store, play_slices[at][0], play_slices[at][1], p->now_ms);
    m_remove(&p->model, at, p->now_ms);
}

static inline void play_service(struct play *p, bool put)
{
    static struct fl_kube_slice_port kinds[][2] = {
        {{"s3", 80}, {"admin", 9001}}, {{"s3", 9000}, {"", 0}}, {{"", 80}, {"", 0}}};
    uint8_t b = p->byte(p->arg);
    const char *const *name = play_services[b % FL_COUNTOF(play_services)];
    struct fl_kube_service s = {
        .meta = {name[0], name[1], "", ""},
        .external_name = (b & 0xe0) == 0xe0 ? "s3.example.com" : "",
        .ports = kinds[(b >> 2 & 3) % FL_COUNTOF(kinds)],
        .port_count = (b >> 2 & 3) == 0   ? 2
                      : (b >> 2 & 3) == 3 ? 0
                                          : 1,
    };
    if (put) {
        FL_MUST(fl_slices_put_service(p->store, &s) == 0);
        m_put_service(&p->model, &s);
    } else {
        fl_slices_remove_service(p->store, name[0], name[1], p->now_ms);
        m_remove_service(&p->model, name[0], name[1]);
    }
}

/* The same answer in every detail. */
static inline void play_compare(struct play *p, const struct fl_service_ref *ref,
                                const struct m_answer *want)
{
    struct fl_arena arena;
    struct fl_members got = {0};
    fl_arena_init(&arena, (size_t)1 << 20);
    FL_MUST(fl_slices_members(p->store, ref, &arena, &got) == want->found);
    FL_MUST(want->found != FL_MEMBERS_FOUND || got.count == want->count);
    for (uint32_t i = 0; i < got.count; i++) {
        FL_MUST(m_same(got.peers[i].address, want->peers[i].address));
        FL_MUST(m_same(got.peers[i].fallback_address, want->peers[i].fallback));
        FL_MUST(m_same(got.peers[i].zone, want->peers[i].zone));
        FL_MUST(got.peers[i].tier == want->peers[i].tier);
        p->fallbacks += want->peers[i].fallback[0] != '\0';
    }
    fl_arena_done(&arena);
    p->asked++;
    p->members += got.count;
    p->held += want->held;
    p->empty += want->found == FL_MEMBERS_FOUND && got.count == 0;
}

/* Counts of the services page, and its word that members are held; which is returned. */
static inline bool play_check_page(struct play *p, const struct m_service *v)
{
    struct fl_slices_service row;
    uint32_t slices = 0, endpoints = 0, ready = 0;
    bool listed = false, held = m_holds(&p->model, v);
    for (unsigned i = 0; i < PLAY_SLICES; i++) {
        const struct m_slice *s = &p->model.now.slices[i];
        slices += m_of(s, v);
        for (unsigned k = 0; k < s->endpoint_count && m_of(s, v); k++) {
            bool counts = s->ips[k].family != FL_ADDR_NONE;
            endpoints += counts;
            ready += counts && s->endpoints[k].ready != FL_MAYBE_FALSE;
        }
    }
    for (size_t at = 0; fl_slices_next(p->store, &at, &row);) {
        if (m_same(row.namespace, v->namespace) && m_same(row.name, v->name)) {
            FL_MUST(!listed);
            listed = true;
            FL_MUST(row.slices == slices && row.endpoints == endpoints && row.ready == ready);
            FL_MUST(row.held == held);
        }
    }
    FL_MUST(listed == (slices > 0 || v->object || held));
    return held;
}

/* Whoever looks at revisions alone misses no change of members. */
static inline void play_check_revisions(struct play *p)
{
    for (unsigned i = 0; i < FL_COUNTOF(play_services); i++) {
        struct fl_service_ref ref = {play_services[i][0], play_services[i][1], ""};
        uint64_t revision = fl_slices_revision(p->store, &ref), answers = play_answers(p, i);
        bool changed = answers != p->last[i].answers;
        FL_MUST(!changed || revision != p->last[i].revision);
        p->changes += changed;
        p->rests += revision == p->last[i].revision;
        p->last[i].answers = answers;
        p->last[i].revision = revision;
    }
}

static inline void play_check(struct play *p)
{
    static struct m_answer want;
    bool held = false;
    for (unsigned i = 0; i < FL_COUNTOF(play_services); i++) {
        for (unsigned k = 0; k < FL_COUNTOF(play_ports); k++) {
            struct fl_service_ref ref = {play_services[i][0], play_services[i][1], play_ports[k]};
            if (++p->turn % p->every == 0) {
                m_ask(&p->model, &ref, &want);
                play_compare(p, &ref, &want);
            }
        }
        held = play_check_page(p, &p->model.services[i]) || held;
    }
    play_check_revisions(p);
    int64_t next = fl_slices_next_ms(p->store);
    FL_MUST(held == (next != INT64_MAX));
    FL_MUST(!held || next <= p->now_ms + FL_SLICES_HOLD_MS);
}

/* All answers of the model, in a number. */
static inline uint64_t play_sum(struct play *p)
{
    static struct m_answer a;
    uint64_t sum = 0;
    for (unsigned i = 0; i < FL_COUNTOF(play_services) * FL_COUNTOF(play_ports); i++) {
        const char *const *of = play_services[i % FL_COUNTOF(play_services)];
        m_ask(&p->model,
              &(struct fl_service_ref){of[0], of[1], play_ports[i / FL_COUNTOF(play_services)]},
              &a);
        sum = (sum ^ a.count) * UINT64_C(0x9e3779b97f4a7c15);
        for (uint32_t k = 0; k < a.count; k++) {
            for (const char *c = a.peers[k].address; *c; c++) {
                sum = (sum ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
            }
        }
    }
    return sum;
}

/* Time passes; a run that changes an answer says so. */
static inline void play_time(struct play *p)
{
    p->now_ms += p->byte(p->arg) * 16;
    if (p->byte(p->arg) & 1) {
        return; /* the caller is late with its run */
    }
    bool said = fl_slices_run(p->store, p->now_ms);
    uint64_t before = said ? 0 : play_sum(p);
    m_run(&p->model, p->now_ms);
    FL_MUST(said || play_sum(p) == before);
}

static inline void play_step(struct play *p)
{
    static const char ops[] = "PPPPPPPPRRRTTTTBEESDbe";
    switch (ops[p->byte(p->arg) % (sizeof(ops) - 1)]) {
    case 'P':
        play_put(p);
        break;
    case 'R':
        play_remove(p);
        break;
    case 'T':
        play_time(p);
        break;
    case 'B':
        fl_slices_begin(p->store);
        m_begin(&p->model);
        break;
    case 'E':
        fl_slices_end(p->store, p->now_ms);
        m_end(&p->model, p->now_ms);
        break;
    case 'S':
        play_service(p, true);
        break;
    case 'D':
        play_service(p, false);
        break;
    case 'b':
        fl_slices_begin_services(p->store);
        m_begin_services(&p->model);
        break;
    default:
        fl_slices_end_services(p->store, p->now_ms);
        m_end_services(&p->model);
        break;
    }
    play_check(p);
}

#endif
