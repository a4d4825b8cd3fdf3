#include "common/base/units.h"
#include "common/model/config_check.h"
#include "common/probe/probe_target.h"
#include "sidecar/admin/control_inner.h"

/* Peers as the data plane sees them: literal addresses only. */
struct expansion {
    struct fl_names *names;
    struct fl_arena *arena;
    struct fl_peer_conf *peers;
    uint32_t count, cap;
    bool out_of_memory;
};

static bool is_literal(const char *address)
{
    struct fl_addr a;
    return fl_addr_parse(fl_span_of(address), &a);
}

static void push_peer(struct expansion *x, const struct fl_peer_conf *peer)
{
    if (x->count == FL_PEERS_MAX) {
        return; /* a name with very many addresses: the first ones will do */
    }
    for (uint32_t i = 0; i < x->count; i++) {
        if (strcmp(x->peers[i].address, peer->address) == 0) {
            return; /* two names, or a name and a literal, of one place */
        }
    }
    if (x->count == x->cap) {
        uint32_t cap = x->cap ? x->cap * 2 : 8;
        struct fl_peer_conf *peers = fl_arena_array(x->arena, cap, sizeof(*peers));
        if (peers == NULL) {
            x->out_of_memory = true;
            return;
        }
        if (x->count > 0) {
            memcpy(peers, x->peers, x->count * sizeof(*peers));
        }
        x->peers = peers;
        x->cap = cap;
    }
    x->peers[x->count++] = *peer;
}

/* Every address of the name, with everything else as the peer says. Without any, the name itself
 * stays in the configuration, for people to see; the data plane leaves it out. */
static void push_name(struct expansion *x, const struct fl_peer_conf *peer, struct fl_span host,
                      uint16_t port)
{
    struct fl_name_answer a = {0};
    if (!fl_names_want(x->names, host, port, &a) || a.count == 0) {
        push_peer(x, peer);
        return;
    }
    for (int i = 0; i < a.count; i++) {
        char text[FL_ADDR_TEXT_MAX];
        struct fl_fmt f = fl_fmt_of(text, sizeof(text));
        fl_addr_print(&a.addrs[i], &f);
        struct fl_peer_conf one = *peer;
        one.host_name = fl_arena_text(x->arena, host);
        one.address = fl_arena_text(x->arena, (struct fl_span){f.base, f.len});
        if (one.address == NULL || one.host_name == NULL) {
            x->out_of_memory = true;
            return;
        }
        push_peer(x, &one);
    }
}

static bool split_name(const char *address, struct fl_span *ret_host, uint16_t *ret_port)
{
    struct fl_span port_text;
    uint64_t port;
    if (!fl_addr_split_host(fl_span_of(address), ret_host, &port_text) ||
        !fl_units_uint(port_text, &port) || port == 0 || port > UINT16_MAX) {
        return false;
    }
    *ret_port = (uint16_t)port;
    return true;
}

static bool has_pushed_members(const struct fl_control *c, const struct fl_backend_conf *b)
{
    for (uint32_t i = 0; c->pushed != NULL && i < c->pushed->backend_count; i++) {
        const struct fl_state_backend *s = &c->pushed->backends[i];
        if (s->has_peers && strcmp(s->name, b->name) == 0) {
            return true;
        }
    }
    return false;
}

/* A Service's members come by push; until then by DNS: SRV for a named port, else the address
 * (which may be a ClusterIP: then that is the one peer). */
static void push_service(struct expansion *x, const struct fl_backend_conf *b)
{
    char host[512];
    struct fl_fmt f = fl_fmt_of(host, sizeof(host));
    uint64_t port = 0;
    if (!fl_units_uint(fl_span_of(b->service.port), &port)) {
        fl_fmt_printf(&f, "_%s._tcp.", b->service.port);
    }
    fl_fmt_printf(&f, "%s.%s.svc", b->service.name, b->service.namespace);
    if (f.cut || port > UINT16_MAX) {
        return;
    }
    const struct fl_peer_conf peer = {
        .address = fl_arena_printf(x->arena, "%s:%s", host, b->service.port),
        .fallback_address = "",
        .zone = "",
        .owner = FL_OWNER_CONTROLLER, /* membership, not written configuration */
        .tier = FL_TIER_PRIMARY,
        .weight = 1,
        .max_fails = b->max_fails,
        .max_conns = b->max_conns,
        .fail_timeout_ms = b->fail_timeout_ms,
    };
    x->out_of_memory |= peer.address == NULL;
    if (!x->out_of_memory) {
        push_name(x, &peer, (struct fl_span){f.base, f.len}, (uint16_t)port);
    }
}

bool fl_control_expand(const struct fl_control *c, struct fl_names *names, struct fl_config *config,
                       struct fl_backend_conf *b)
{
    struct expansion x = {.names = names, .arena = &config->arena};
    for (uint32_t i = 0; i < b->peer_count; i++) {
        struct fl_span host;
        uint16_t port;
        if (is_literal(b->peers[i].address) || !split_name(b->peers[i].address, &host, &port)) {
            push_peer(&x, &b->peers[i]);
        } else {
            push_name(&x, &b->peers[i], host, port);
        }
    }
    if (b->service.name[0] != '\0' && !has_pushed_members(c, b)) {
        push_service(&x, b);
    }
    b->peers = x.peers;
    b->peer_count = x.count;
    return !x.out_of_memory;
}

struct fl_config *fl_control_effective(struct fl_control *c, const struct fl_config *file,
                                       const struct fl_state *pushed, struct fl_findings *f)
{
    (void)c;
    return fl_state_overlay(file, pushed, f);
}

bool fl_control_by_controller(const struct fl_control *c, const char *backend)
{
    for (uint32_t i = 0; c->pushed != NULL && i < c->pushed->backend_count; i++) {
        if (strcmp(c->pushed->backends[i].name, backend) == 0) {
            return true;
        }
    }
    return false;
}

static bool watch_peers(struct fl_control *c, const struct fl_config *config)
{
    bool fits = true;
    /* until names have their first answers; what is pushed later is not of the boot */
    c->booting = c->current == NULL || (c->booting && c->pushed == NULL);
    fl_prober_begin(c->prober, c->booting && c->file->boot_probe == FL_BOOT_OFF);
    c->booting = c->booting && fl_names_unanswered(c->names) > 0;
    for (uint32_t i = 0; i < config->backend_count; i++) {
        const struct fl_backend_conf *b = &config->backends[i];
        bool by_controller = fl_control_by_controller(c, b->name);
        for (uint32_t j = 0; j < b->peer_count; j++) {
            fits &= fl_prober_keep(c->prober, config, b, &b->peers[j], by_controller) == 0;
        }
    }
    fl_prober_end(c->prober);
    return fits;
}

/* The peers that a pushed verdict speaks of: one by its address, or all that were found by the name
 * that the controller probes. */
static void hand_over(struct fl_control *c, const struct fl_backend_conf *b, const char *address,
                      const struct fl_verdict *v)
{
    struct fl_span host;
    uint16_t port;
    if (is_literal(address) || !split_name(address, &host, &port)) {
        (void)fl_prober_pushed(c->prober, b->name, address, v);
        return;
    }
    for (uint32_t i = 0; i < b->peer_count; i++) {
        const struct fl_peer_conf *peer = &b->peers[i];
        struct fl_addr a;
        if (peer->host_name != NULL && fl_span_is(host, peer->host_name) &&
            fl_addr_parse(fl_span_of(peer->address), &a) && a.port == port) {
            (void)fl_prober_pushed(c->prober, b->name, peer->address, v);
        }
    }
}

/* After the peers that they speak of are known. */
static void hand_over_verdicts(struct fl_control *c, const struct fl_config *config)
{
    if (!c->verdicts_new) {
        return;
    }
    c->verdicts_new = false;
    for (uint32_t i = 0; i < c->pushed->backend_count; i++) {
        const struct fl_state_backend *s = &c->pushed->backends[i];
        const struct fl_backend_conf *b = fl_config_backend(config, s->name);
        for (uint32_t j = 0; b != NULL && j < s->verdict_count; j++) {
            const struct fl_state_verdict *from = &s->verdicts[j];
            struct fl_verdict v = {.status = from->status,
                                   .source = FL_VERDICT_PUSHED,
                                   .cause = from->cause,
                                   .at_ms = fl_control_now_ms(c) - from->age_ms,
                                   .at_unix_ms = fl_control_wall_ms(c) - from->age_ms};
            memcpy(v.step, from->step, sizeof(v.step));
            hand_over(c, b, from->address, &v);
        }
    }
}

bool fl_control_merge(const struct fl_control *c, const struct fl_backend_conf *b,
                      const char *address, struct fl_merged *ret)
{
    struct fl_watch_view w;
    if (!fl_prober_look(c->prober, b->name, address, &w)) {
        return false;
    }
    int64_t now_ms = fl_control_now_ms(c);
    const struct fl_merge_facts facts = {
        .policy = b->probe.type == FL_PROBE_NONE ? FL_VERDICTS_IGNORE : b->verdicts,
        .own = w.own,
        .pushed = w.pushed,
        .pushed_age_ms = w.pushed != NULL ? now_ms - w.pushed->at_ms : 0,
        .own_since_ms = w.own_since_ms,
        .pushed_since_ms = w.pushed_since_ms,
        .expires_ms = FL_STALE_INTERVALS * b->probe.interval_ms,
        .now_ms = now_ms,
        .keyed = w.keyed,
        .fingerprint = fl_prober_fingerprint(b, address),
    };
    fl_verdict_merge(&facts, ret);
    return true;
}

static bool merged_verdict(void *arg, const struct fl_backend_conf *b, const char *address,
                           struct fl_verdict *ret_merged, bool *ret_gated)
{
    struct fl_control *c = arg;
    struct fl_merged m;
    if (!fl_control_merge(c, b, address, &m)) {
        return false;
    }
    if (m.probe_wanted) {
        fl_prober_want(c->prober, b->name, address);
    }
    *ret_merged = m.verdict;
    *ret_gated = m.gated;
    return true;
}

/* Nobody can be asked: that is known, and said with the cause that everybody shows. */
static void gate_unresolved(const struct fl_control *c, struct fl_snapshot *s)
{
    for (uint32_t i = 0; i < s->backend_count; i++) {
        struct fl_verdict v;
        if (s->backends[i].peer_count == 0 &&
            fl_control_unresolved(c->names, s->backends[i].conf, &v)) {
            fl_snapshot_unresolved(s, i, &v);
        }
    }
}

struct fl_snapshot *fl_control_build(struct fl_control *c, struct fl_findings *f)
{
    struct fl_config *config = fl_control_effective(c, c->file, c->pushed, f);
    if (config == NULL) {
        return NULL;
    }
    bool fits = true;
    fl_names_begin(c->names);
    for (uint32_t i = 0; fits && i < config->backend_count; i++) {
        fits = fl_control_expand(c, c->names, config, &config->backends[i]);
    }
    fl_names_end(c->names);
    struct fl_snapshot *s = NULL;
    fl_tls_shelf_begin(c->tls);
    if (fits && fl_control_tls_check(c, config, f) && watch_peers(c, config)) {
        hand_over_verdicts(c, config);
        s = fl_snapshot_build(c->conf.registry, config, c->conf.threads, c->generation + 1,
                              merged_verdict, c);
    }
    if (s == NULL) {
        fl_config_free(config);
        return NULL;
    }
    gate_unresolved(c, s);
    fl_control_tls_attach(c, s);
    fl_tls_shelf_end(c->tls);
    c->generation++;
    s->membership_generation = c->membership_generation;
    return s;
}

/* ---- names that give no address ---- */

bool fl_control_unresolved(const struct fl_names *names, const struct fl_backend_conf *b,
                           struct fl_verdict *ret)
{
    bool found = false;
    for (uint32_t i = 0; i < b->peer_count; i++) {
        const char *address = b->peers[i].address;
        struct fl_span host;
        uint16_t port = 0;
        struct fl_name_answer a = {0};
        /* a Service that waits for its first push is unknown, not unreachable */
        bool name = b->peers[i].owner == FL_OWNER_FILE && !is_literal(address) &&
                    split_name(address, &host, &port);
        if (!name || !fl_names_look(names, host, port, &a) || !a.asked) {
            return false; /* nothing is known of this one yet */
        }
        if (!found) {
            fl_probe_target_unresolved(address, a.err, ret);
        }
        found = true;
    }
    return found;
}

void fl_control_backend_verdict(const struct fl_control *c, const struct fl_snap_backend *b,
                                struct fl_verdict *ret)
{
    *ret = b->verdict;
    if (b->peer_count == 0) {
        (void)fl_control_unresolved(c->names, b->conf, ret);
    }
}
