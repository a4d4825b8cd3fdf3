#include "sidecar/admin/control.h"

#include <errno.h>
#include <stdlib.h>

#include "sidecar/admin/apply.h"
#include "sidecar/admin/control_inner.h"
#include "sidecar/admin/tap.h"

#define RECLAIM_FIRST_MS 20
#define RECLAIM_MAX_MS   1000
#define TICK_MS          1000
#define RETRY_MS         1000

int64_t fl_control_now_ms(const struct fl_control *c)
{
    return fl_reactor_now_ms(c->conf.reactor);
}

int64_t fl_control_wall_ms(const struct fl_control *c)
{
    return fl_reactor_wall_ms(c->conf.reactor);
}

void fl_control_changed(struct fl_control *c)
{
    if (c->engine != NULL) {
        fl_reactor_later(c->conf.reactor, &c->rebuild);
    }
}

static void log_findings(struct fl_control *c, const struct fl_findings *f, const char *msg)
{
    for (const struct fl_finding *one = f->first; one != NULL; one = one->next) {
        char text[1024];
        struct fl_fmt out = fl_fmt_of(text, sizeof(text));
        fl_findings_print(f, one, &out);
        struct fl_log_line l;
        fl_log_begin(c->conf.log, &l,
                     one->severity == FL_SEVERITY_ERROR ? FL_LOG_ERROR : FL_LOG_WARN, msg);
        fl_log_text(&l, "cause", text);
        fl_log_end(c->conf.log, &l);
    }
}

/* ---- snapshots ---- */

static bool same_members(const struct fl_snapshot *a, const struct fl_snapshot *b)
{
    if (a->backend_count != b->backend_count) {
        return false;
    }
    for (uint32_t i = 0; i < a->backend_count; i++) {
        const struct fl_snap_backend *x = &a->backends[i], *y = &b->backends[i];
        if (strcmp(x->conf->name, y->conf->name) != 0 || x->peer_count != y->peer_count) {
            return false;
        }
        for (uint32_t j = 0; j < x->peer_count; j++) {
            if (x->peers[j].peer != y->peers[j].peer) {
                return false;
            }
        }
    }
    return true;
}

static void publish(struct fl_control *c, struct fl_snapshot *fresh)
{
    const struct fl_snapshot *old = c->current;
    if (!same_members(old, fresh)) {
        c->membership_generation++;
    }
    fresh->membership_generation = c->membership_generation;
    fl_snapshot_retire(old, fresh);
    fl_engine_publish(c->engine, fresh);
    c->current = fresh;
    c->conf.log->level = (enum fl_log_level)fresh->config->log_level;
    fl_control_notice_snapshot(c, old, fresh); /* old lives until it is reclaimed, by this thread */
    c->reclaim_wait_ms = RECLAIM_FIRST_MS;
    fl_timer_set(c->conf.reactor, &c->reclaim, fl_control_now_ms(c) + RECLAIM_FIRST_MS);
}

void fl_control_rebuild(struct fl_control *c)
{
    struct fl_findings f;
    fl_list_remove(&c->rebuild.node);
    fl_findings_init(&f, c->file->file);
    struct fl_snapshot *fresh = fl_control_build(c, &f);
    if (fresh != NULL) {
        publish(c, fresh);
    } else {
        /* What was accepted was checked before: this is memory, and may be there in a second. */
        struct fl_log_line l;
        fl_log_begin(c->conf.log, &l, FL_LOG_ERROR,
                     "configuration not rebuilt, the old one goes on");
        fl_log_end(c->conf.log, &l);
        log_findings(c, &f, "configuration not rebuilt");
        fl_timer_set(c->conf.reactor, &c->retry, fl_control_now_ms(c) + RETRY_MS);
    }
    fl_findings_done(&f);
    fl_backends_answer_waits(c);
    fl_control_boot_gate(c);
}

static void on_rebuild(struct fl_task *t)
{
    fl_control_rebuild(fl_container_of(t, struct fl_control, rebuild));
}

static void on_retry(struct fl_timer *t)
{
    fl_control_changed(fl_container_of(t, struct fl_control, retry));
}

static void on_reclaim(struct fl_timer *t)
{
    struct fl_control *c = fl_container_of(t, struct fl_control, reclaim);
    if (fl_engine_reclaim(c->engine, c->conf.registry) > 0) {
        int64_t wait_ms = c->reclaim_wait_ms * 2;
        c->reclaim_wait_ms = wait_ms < RECLAIM_MAX_MS ? wait_ms : RECLAIM_MAX_MS;
        fl_timer_set(c->conf.reactor, t, fl_control_now_ms(c) + c->reclaim_wait_ms);
    }
}

static void on_tick(struct fl_timer *t)
{
    struct fl_control *c = fl_container_of(t, struct fl_control, tick);
    if (fl_prober_expire(c->prober)) {
        fl_control_changed(c);
    }
    fl_control_notice_health(c);
    fl_backends_answer_waits(c);
    fl_control_tls_tick(c);
    fl_control_boot_gate(c);
    fl_timer_set(c->conf.reactor, t, fl_control_now_ms(c) + TICK_MS);
}

static void on_names_changed(void *arg)
{
    fl_control_changed(arg);
}

/* A peer that answers lets its backend's peers be tried again, when none of them is usable
 * (behaviour.md section 2). */
static void open_quarantine(struct fl_control *c, const char *backend, const char *address)
{
    const struct fl_snap_backend *b = fl_control_find(c, backend);
    struct fl_peer *answering = NULL;
    int64_t now_ms = fl_control_now_ms(c);
    for (uint32_t i = 0; b != NULL && i < b->peer_count; i++) {
        const struct fl_snap_peer *p = &b->peers[i];
        int64_t until_ms;
        enum fl_health_gate gate = fl_peer_health_gate(&p->peer->health, now_ms, &until_ms);
        bool usable = !p->conf->down && !p->gated && gate != FL_HEALTH_QUARANTINED &&
                      !atomic_load_explicit(&p->peer->drained, memory_order_relaxed);
        if (usable) {
            return;
        }
        if (strcmp(p->peer->address, address) == 0) {
            answering = p->peer;
        }
    }
    if (answering != NULL && fl_peer_health_open(&answering->health, now_ms)) {
        fl_prober_opened(c->prober, backend, address);
        fl_events_add(c->events, fl_control_wall_ms(c), "peer_probation", backend, address,
                      "answers a probe while no peer is usable: one trial at once");
    }
}

static void on_probed(void *arg, const struct fl_probed *p)
{
    struct fl_control *c = arg;
    if (p->opens) {
        open_quarantine(c, p->backend, p->address);
    }
    if (p->failed != NULL) {
        fl_control_notice_answered(c, p);
    }
    if (p->changed) {
        fl_control_changed(c);
    } else {
        fl_backends_answer_waits(c);
        fl_control_boot_gate(c);
    }
}

const struct fl_snap_backend *fl_control_find(const struct fl_control *c, const char *name)
{
    for (uint32_t i = 0; i < c->current->backend_count; i++) {
        if (strcmp(c->current->backends[i].conf->name, name) == 0) {
            return &c->current->backends[i];
        }
    }
    return NULL;
}

/* ---- life ---- */

static int make_parts(struct fl_control *c)
{
    c->tls = fl_tls_shelf_new(c->conf.threads);
    const struct fl_prober_conf prober = {c->conf.reactor, c->conf.seed, on_probed, c, c->tls};
    c->events = fl_events_new();
    c->keys = fl_verify_keys_new();
    if (c->tls == NULL || c->events == NULL || c->keys == NULL) {
        return -ENOMEM;
    }
    int rc = fl_names_new(c->conf.reactor, on_names_changed, c, &c->names);
    return rc == 0 ? fl_prober_new(&prober, &c->prober) : rc;
}

int fl_control_new(const struct fl_control_conf *conf, struct fl_config *file,
                   struct fl_findings *f, struct fl_control **ret)
{
    struct fl_control *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return -ENOMEM;
    }
    c->conf = *conf;
    c->began_ms = fl_reactor_now_ms(conf->reactor);
    fl_task_init(&c->rebuild, on_rebuild);
    fl_timer_init(&c->reclaim, on_reclaim);
    fl_timer_init(&c->tick, on_tick);
    fl_timer_init(&c->retry, on_retry);
    fl_timer_init(&c->due, fl_backends_due);
    fl_list_init(&c->backends);
    fl_list_init(&c->peers);
    fl_list_init(&c->waits);
    c->file = file;
    int rc = make_parts(c);
    struct fl_verify_keys *keys = NULL;
    rc = rc == 0 ? fl_push_read_keys(c, file, f, &keys) : rc;
    if (rc == 0) {
        fl_push_take_keys(c, keys);
        fl_push_restore(c);
        c->first = fl_control_build(c, f);
        rc = c->first != NULL ? 0 : f->errors > 0 ? -EINVAL : -ENOMEM;
    }
    if (rc < 0) {
        c->file = NULL; /* still the caller's */
        fl_control_free(c);
        return rc;
    }
    c->current = c->first;
    *ret = c;
    return 0;
}

static void free_list(struct fl_list *list)
{
    /* each kind begins with its node */
    for (struct fl_list *n; (n = fl_list_first(list)) != NULL;) {
        fl_list_remove(n);
        free(n);
    }
}

struct fl_control *fl_control_free(struct fl_control *c)
{
    if (c == NULL) {
        return NULL;
    }
    struct fl_timer *timers[] = {&c->reclaim, &c->tick, &c->retry, &c->due};
    for (size_t i = 0; i < FL_COUNTOF(timers); i++) {
        fl_timer_remove(c->conf.reactor, timers[i]);
    }
    fl_list_remove(&c->rebuild.node);
    fl_apply_cancel(c);
    free_list(&c->backends);
    free_list(&c->peers);
    free_list(&c->waits); /* their calls end with the admin server */
    fl_prober_free(c->prober);
    fl_names_free(c->names);
    fl_events_free(c->events);
    fl_tls_shelf_free(c->tls);
    fl_verify_keys_free(c->keys);
    fl_state_free(c->pushed);
    free(c->pushed_keys);
    fl_snapshot_free(c->conf.registry, c->first);
    fl_config_free(c->file);
    free(c);
    return NULL;
}

struct fl_snapshot *fl_control_first(struct fl_control *c)
{
    struct fl_snapshot *first = c->first;
    c->first = NULL;
    return first;
}

void fl_control_begin(struct fl_control *c, struct fl_engine *engine)
{
    c->engine = engine;
    fl_control_notice_snapshot(c, NULL, c->current);
    fl_timer_set(c->conf.reactor, &c->tick, fl_control_now_ms(c) + TICK_MS);
    fl_control_boot_gate(c);
}

void fl_control_turn(struct fl_control *c)
{
    fl_tap_turn(c->conf.tap, c->current);
    if (c->engine == NULL || !fl_engine_probe_wanted(c->engine)) {
        return;
    }
    for (uint32_t i = 0; i < c->current->backend_count; i++) {
        const struct fl_snap_backend *b = &c->current->backends[i];
        for (uint32_t j = 0; j < b->peer_count; j++) {
            struct fl_peer *p = b->peers[j].peer;
            if (atomic_exchange_explicit(&p->probe_wanted, 0, memory_order_acq_rel) != 0) {
                struct fl_failed_request rq;
                if (fl_failed_box_take(&p->failed, &rq)) {
                    fl_prober_remember(c->prober, b->conf->name, p->address, &rq);
                }
                fl_prober_want(c->prober, b->conf->name, p->address);
            }
        }
    }
    fl_control_notice_health(c);
}

const struct fl_config *fl_control_file(const struct fl_control *c)
{
    return c->file;
}

void fl_control_drain(struct fl_control *c)
{
    c->draining = true;
    fl_events_add(c->events, fl_control_wall_ms(c), "draining", "", "",
                  "the process is asked to end");
}

bool fl_control_started(const struct fl_control *c)
{
    if (c->engine == NULL) {
        return false;
    }
    if (fl_control_now_ms(c) - c->began_ms >= c->file->start_wait_ms) {
        return true;
    }
    for (uint32_t i = 0; i < c->current->backend_count; i++) {
        const struct fl_snap_backend *b = &c->current->backends[i];
        if (b->conf->service.name[0] != '\0' && !b->has_members) {
            return false;
        }
    }
    return true;
}
