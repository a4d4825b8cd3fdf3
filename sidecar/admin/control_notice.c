/* control_notice - what people are told about a change: log lines, events, health_version. */
#include <stdlib.h>

#include "sidecar/admin/control_inner.h"

static struct fl_backend_memory *remember(struct fl_control *c, const char *name)
{
    fl_list_each (it, &c->backends) {
        struct fl_backend_memory *m = fl_container_of(it, struct fl_backend_memory, node);
        if (strcmp(m->name, name) == 0) {
            return m;
        }
    }
    size_t n = strlen(name) + 1;
    struct fl_backend_memory *m = calloc(1, sizeof(*m) + n);
    if (m != NULL) {
        memcpy(m->name, name, n);
        m->status = FL_VERDICT_UNKNOWN;
        fl_list_append(&c->backends, &m->node);
    }
    return m;
}

static void tell_unhealthy(struct fl_control *c, const struct fl_snap_backend *b,
                           const struct fl_verdict *v)
{
    struct fl_log_line l;
    /* what a controller says and this pod has not confirmed blocks nobody */
    fl_log_begin(c->conf.log, &l, b->gated ? FL_LOG_ERROR : FL_LOG_WARN, "backend unhealthy");
    fl_log_text(&l, "backend", b->conf->name);
    fl_log_text(&l, "status", fl_verdict_status_name(v->status));
    fl_log_text(&l, "code", v->cause.code);
    fl_log_text(&l, "cause", v->cause.text);
    fl_log_text(&l, "step", v->step);
    if (b->peers_down[0] != '\0') {
        fl_log_text(&l, "peers_down", b->peers_down);
    }
    fl_log_end(c->conf.log, &l);
    fl_events_add(c->events, fl_control_wall_ms(c), "backend_unhealthy", b->conf->name, "",
                  "%s: %s", fl_verdict_status_name(v->status), v->cause.text);
}

static void tell_recovered(struct fl_control *c, const struct fl_backend_memory *m)
{
    int64_t down_ms = fl_control_now_ms(c) - m->down_since_ms;
    struct fl_log_line l;
    fl_log_begin(c->conf.log, &l, FL_LOG_INFO, "backend recovered");
    fl_log_text(&l, "backend", m->name);
    fl_log_secs(&l, "downtime_secs", down_ms * 1000);
    fl_log_end(c->conf.log, &l);
    fl_events_add(c->events, fl_control_wall_ms(c), "backend_recovered", m->name, "",
                  "after %lld s", (long long)(down_ms / 1000));
}

/* The bucket stays open: one slow request among many does not prove that the backend is down. */
void fl_control_notice_answered(struct fl_control *c, const struct fl_probed *p)
{
    const struct fl_failed_request *rq = p->failed;
    struct fl_log_line l;
    fl_log_begin(c->conf.log, &l, FL_LOG_WARN, "backend request failed, probe answered");
    fl_log_text(&l, "backend", p->backend);
    fl_log_text(&l, "peer", p->address);
    fl_log_text(&l, "error", "deadline");
    fl_log_text(&l, "method", rq->method);
    fl_log_text(&l, "operation", rq->operation);
    fl_log_text(&l, "bucket", rq->bucket);
    fl_log_text(&l, "key", rq->key);
    fl_log_secs(&l, "total_secs", rq->total_ms * 1000);
    fl_log_text(&l, "request_id", rq->request_id);
    fl_log_text(&l, "status", fl_verdict_status_name(p->verdict->status));
    fl_log_end(c->conf.log, &l);
}

static bool notice_backend(struct fl_control *c, const struct fl_snap_backend *b)
{
    struct fl_backend_memory *m = remember(c, b->conf->name);
    struct fl_verdict v;
    fl_control_backend_verdict(c, b, &v);
    if (m == NULL) {
        return false; /* no memory: told with the next change */
    }
    m->seen = true;
    if (v.status == m->status) {
        return false;
    }
    m->status = v.status;
    m->since_unix_ms = fl_control_wall_ms(c);
    bool bad = v.status != FL_VERDICT_HEALTHY && v.status != FL_VERDICT_UNKNOWN;
    if (bad) {
        tell_unhealthy(c, b, &v);
        m->down_since_ms = m->down_since_ms ? m->down_since_ms : fl_control_now_ms(c);
    } else if (v.status == FL_VERDICT_HEALTHY && m->down_since_ms != 0) {
        tell_recovered(c, m);
        m->down_since_ms = 0;
    }
    return true;
}

int64_t fl_control_since_unix_ms(const struct fl_control *c, const char *backend)
{
    fl_list_each (it, &c->backends) {
        const struct fl_backend_memory *m = fl_container_of(it, struct fl_backend_memory, node);
        if (strcmp(m->name, backend) == 0) {
            return m->since_unix_ms;
        }
    }
    return 0;
}

static void forget_backends(struct fl_control *c)
{
    fl_list_each_safe (it, next, &c->backends) {
        struct fl_backend_memory *m = fl_container_of(it, struct fl_backend_memory, node);
        if (!m->seen) {
            fl_list_remove(&m->node);
            free(m);
        } else {
            m->seen = false;
        }
    }
}

static const struct fl_snap_peer *peer_in(const struct fl_snapshot *s, const char *backend,
                                          const struct fl_peer *peer)
{
    for (uint32_t i = 0; s != NULL && i < s->backend_count; i++) {
        const struct fl_snap_backend *b = &s->backends[i];
        for (uint32_t j = 0; strcmp(b->conf->name, backend) == 0 && j < b->peer_count; j++) {
            if (b->peers[j].peer == peer) {
                return &b->peers[j];
            }
        }
    }
    return NULL;
}

/* Peers of a that are not in b are told as kind; returns whether a verdict of one that is in both
 * differs. */
static bool compare_peers(struct fl_control *c, const struct fl_snapshot *a,
                          const struct fl_snapshot *b, const char *kind)
{
    bool differs = false;
    for (uint32_t i = 0; i < a->backend_count; i++) {
        const char *name = a->backends[i].conf->name;
        for (uint32_t j = 0; j < a->backends[i].peer_count; j++) {
            const struct fl_snap_peer *p = &a->backends[i].peers[j];
            const struct fl_snap_peer *q = peer_in(b, name, p->peer);
            if (q == NULL) {
                fl_events_add(c->events, fl_control_wall_ms(c), kind, name, p->peer->address, "%s",
                              "membership has changed");
            }
            differs |= q == NULL || q->verdict.status != p->verdict.status || q->gated != p->gated;
        }
    }
    return differs;
}

static void forget_peers(struct fl_control *c, const struct fl_snapshot *fresh)
{
    fl_list_each_safe (it, next, &c->peers) {
        struct fl_peer_memory *m = fl_container_of(it, struct fl_peer_memory, node);
        if (peer_in(fresh, m->backend, m->peer) == NULL) {
            fl_list_remove(&m->node); /* the peer's memory goes with its last snapshot */
            free(m);
        }
    }
}

void fl_control_notice_snapshot(struct fl_control *c, const struct fl_snapshot *old,
                                const struct fl_snapshot *fresh)
{
    bool changed = old == NULL;
    for (uint32_t i = 0; i < fresh->backend_count; i++) {
        changed |= notice_backend(c, &fresh->backends[i]);
    }
    forget_backends(c);
    if (old != NULL) {
        changed |= compare_peers(c, fresh, old, "peer_added");
        changed |= compare_peers(c, old, fresh, "peer_removed");
        forget_peers(c, fresh);
    }
    c->health_version += changed;
}

/* ---- passive health, which the data threads change and log; here it becomes events ---- */

static struct fl_peer_memory *memory_of(struct fl_control *c, const struct fl_peer *p)
{
    fl_list_each (it, &c->peers) {
        struct fl_peer_memory *m = fl_container_of(it, struct fl_peer_memory, node);
        if (m->peer == p) {
            return m;
        }
    }
    return NULL;
}

static void look_at_peer(struct fl_control *c, const char *backend, const struct fl_peer *p)
{
    int64_t until_ms = 0, now_ms = fl_control_now_ms(c);
    bool live = fl_peer_health_gate(&p->health, now_ms, &until_ms) == FL_HEALTH_LIVE;
    struct fl_peer_memory *m = memory_of(c, p);
    if (live && m != NULL) {
        fl_events_add(c->events, fl_control_wall_ms(c), "peer_readmitted", backend, p->address,
                      "a trial succeeded");
        fl_list_remove(&m->node);
        free(m);
    } else if (!live && m == NULL) {
        size_t n = strlen(backend) + 1;
        m = calloc(1, sizeof(*m) + n);
        if (m == NULL) {
            return;
        }
        m->peer = p;
        memcpy(m->backend, backend, n);
        fl_list_append(&c->peers, &m->node);
        enum fl_outcome o =
            (enum fl_outcome)atomic_load_explicit(&p->last_outcome, memory_order_relaxed);
        fl_events_add(c->events, fl_control_wall_ms(c), "peer_quarantined", backend, p->address,
                      "after %s, for %lld ms", fl_outcome_row(o)->token,
                      (long long)(until_ms > now_ms ? until_ms - now_ms : 0));
    }
}

void fl_control_notice_health(struct fl_control *c)
{
    for (uint32_t i = 0; i < c->current->backend_count; i++) {
        const struct fl_snap_backend *b = &c->current->backends[i];
        for (uint32_t j = 0; j < b->peer_count; j++) {
            look_at_peer(c, b->conf->name, b->peers[j].peer);
        }
    }
}
