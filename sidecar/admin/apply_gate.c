#include "sidecar/admin/apply_gate.h"

#include <errno.h>
#include <stdlib.h>

struct asked {
    struct fl_backend_conf *b;
    struct fl_peer_conf *written; /* its peers before names became addresses */
    uint32_t written_count;
};

struct fl_apply_gate {
    struct fl_control *control;
    struct fl_config *next;
    struct fl_names *names;
    struct fl_prober *prober;
    struct asked *asked;
    uint32_t count;
    void (*done)(void *arg, int rc);
    void *arg;
    struct fl_task look;
    bool probing;
};

static const struct fl_peer_conf *peer_of(const struct fl_backend_conf *b, const char *address)
{
    for (uint32_t i = 0; b != NULL && i < b->peer_count; i++) {
        if (strcmp(b->peers[i].address, address) == 0) {
            return &b->peers[i];
        }
    }
    return NULL;
}

/* A Service whose members are not known by name. */
static bool same_service(const struct fl_backend_conf *a, const struct fl_backend_conf *b)
{
    return strcmp(a->service.namespace, b->service.namespace) == 0 &&
           strcmp(a->service.name, b->service.name) == 0 &&
           strcmp(a->service.port, b->service.port) == 0 &&
           fl_prober_fingerprint(a, "") == fl_prober_fingerprint(b, "");
}

static bool is_changed(const struct fl_backend_conf *now, const struct fl_backend_conf *next)
{
    if (next->probe.type == FL_PROBE_NONE) {
        return false;
    }
    for (uint32_t i = 0; i < next->peer_count; i++) {
        const struct fl_peer_conf *peer = &next->peers[i], *was = peer_of(now, peer->address);
        bool known =
            was != NULL && !was->down &&
            fl_prober_fingerprint(now, peer->address) == fl_prober_fingerprint(next, peer->address);
        if (!peer->down && !known) {
            return true;
        }
    }
    return next->service.name[0] != '\0' && (now == NULL || !same_service(now, next));
}

/* ---- one look after another, until everybody has answered ---- */

static int expand(struct fl_apply_gate *g)
{
    bool fits = true;
    fl_names_begin(g->names);
    for (uint32_t i = 0; fits && i < g->count; i++) {
        struct asked *a = &g->asked[i];
        a->b->peers = a->written;
        a->b->peer_count = a->written_count;
        fits = fl_control_expand(g->control, g->names, g->next, a->b);
    }
    fl_names_end(g->names);
    return fits ? 0 : -ENOMEM;
}

static int probe(struct fl_apply_gate *g)
{
    int rc = expand(g);
    g->probing = true;
    fl_prober_begin(g->prober, false);
    for (uint32_t i = 0; rc == 0 && i < g->count; i++) {
        const struct fl_backend_conf *b = g->asked[i].b;
        for (uint32_t j = 0; rc == 0 && j < b->peer_count; j++) {
            rc = fl_prober_keep(g->prober, g->next, b, &b->peers[j], false);
        }
    }
    fl_prober_end(g->prober);
    return rc;
}

static void on_look(struct fl_task *t)
{
    struct fl_apply_gate *g = fl_container_of(t, struct fl_apply_gate, look);
    if (fl_names_unanswered(g->names) > 0) {
        return;
    }
    int rc = g->probing ? 0 : probe(g);
    if (rc < 0 || fl_prober_unanswered(g->prober) == 0) {
        g->done(g->arg, rc); /* g may be gone */
    }
}

static void on_names(void *arg)
{
    struct fl_apply_gate *g = arg;
    fl_reactor_later(g->control->conf.reactor, &g->look);
}

static void on_probed(void *arg, const struct fl_probed *p)
{
    struct fl_apply_gate *g = arg;
    (void)p; /* the prober keeps it */
    fl_reactor_later(g->control->conf.reactor, &g->look);
}

/* ---- life ---- */

static int list_changed(struct fl_apply_gate *g, const struct fl_config *now)
{
    g->asked = calloc(g->next->backend_count + 1, sizeof(*g->asked));
    for (uint32_t i = 0; g->asked != NULL && i < g->next->backend_count; i++) {
        struct fl_backend_conf *b = &g->next->backends[i];
        if (is_changed(fl_config_backend(now, b->name), b)) {
            g->asked[g->count++] = (struct asked){b, b->peers, b->peer_count};
        }
    }
    return g->asked != NULL ? 0 : -ENOMEM;
}

int fl_apply_gate_new(struct fl_control *c, const struct fl_config *now, struct fl_config *next,
                      void (*done)(void *arg, int rc), void *arg, struct fl_apply_gate **ret)
{
    struct fl_apply_gate *g = calloc(1, sizeof(*g));
    if (g == NULL) {
        fl_config_free(next);
        return -ENOMEM;
    }
    g->control = c;
    g->next = next;
    g->done = done;
    g->arg = arg;
    fl_task_init(&g->look, on_look);
    const struct fl_prober_conf prober = {c->conf.reactor, c->conf.seed, on_probed, g, c->tls};
    int rc = list_changed(g, now);
    rc = rc == 0 ? fl_names_new(c->conf.reactor, on_names, g, &g->names) : rc;
    rc = rc == 0 ? fl_prober_new(&prober, &g->prober) : rc;
    rc = rc == 0 ? expand(g) : rc;
    if (rc < 0) {
        fl_apply_gate_free(g);
        return rc;
    }
    fl_reactor_soon(c->conf.reactor, &g->look);
    *ret = g;
    return 0;
}

struct fl_apply_gate *fl_apply_gate_free(struct fl_apply_gate *g)
{
    if (g != NULL) {
        fl_list_remove(&g->look.node);
        fl_prober_free(g->prober);
        fl_names_free(g->names);
        fl_config_free(g->next);
        free(g->asked);
        free(g);
    }
    return NULL;
}

/* ---- what came of it ---- */

const struct fl_backend_conf *fl_apply_gate_backend(const struct fl_apply_gate *g, uint32_t i)
{
    return i < g->count ? g->asked[i].b : NULL;
}

void fl_apply_gate_verdict(const struct fl_apply_gate *g, uint32_t i, struct fl_derived *ret)
{
    const struct fl_backend_conf *b = g->asked[i].b;
    struct fl_derive_peer *peers = calloc(b->peer_count + 1, sizeof(*peers));
    uint32_t count = 0;
    for (uint32_t j = 0; peers != NULL && j < b->peer_count; j++) {
        struct fl_watch_view w;
        if (fl_prober_look(g->prober, b->name, b->peers[j].address, &w)) {
            peers[count++] = (struct fl_derive_peer){b->peers[j].address, w.own, b->peers[j].down};
        }
    }
    *ret = (struct fl_derived){.verdict = {.status = FL_VERDICT_UNKNOWN}};
    if (count > 0) {
        fl_derive_backend(peers, count, ret);
    } else {
        (void)fl_control_unresolved(g->names, b, &ret->verdict);
    }
    free(peers);
}

void fl_apply_gate_teach(const struct fl_apply_gate *g, bool on)
{
    fl_names_learn(g->control->names, on ? g->names : NULL);
    fl_prober_learn(g->control->prober, on ? g->prober : NULL);
}
