#include "controller/kube/cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "controller/kube/role.h"
#include "controller/kube/self_check.h"

#define IDENTITY_MAX  128
#define ASK_SOON_MS   15000
#define ASK_AGAIN_MS  300000
#define ASK_JITTER_MS 2000

struct fl_cluster {
    struct fl_cluster_conf conf;
    struct fl_kube_access *access;
    struct fl_kube *kube;
    struct fl_self_check *check;
    struct fl_election *election; /* NULL: we lead alone */
    struct fl_kube_events *events;
    struct fl_kube_source *source;
    struct fl_cause lacks; /* of the role */
    bool role_known;
    bool elects;
    char *lease_namespace, *lease_name;
    struct fl_timer ask_role; /* when it is asked for again */
    struct fl_rng rng;
    struct fl_task lead_alone, released;
    void (*release_done)(void *arg);
    void *release_arg;
    char identity[IDENTITY_MAX];
};

/* ---- the role ---- */

enum role_state { ALLOWS, LACKS, UNKNOWN };

static enum role_state role_state(const struct fl_cause *cause)
{
    return cause->code[0] == '\0'                       ? ALLOWS
           : strcmp(cause->code, "rights_unknown") == 0 ? UNKNOWN
                                                        : LACKS;
}

static void say_role(const struct fl_cluster *c, const struct fl_cause *cause)
{
    static const struct {
        enum fl_log_level level;
        const char *msg;
    } said[] = {
        [ALLOWS] = {FL_LOG_INFO, "the role of this controller allows all that it needs"},
        [LACKS] = {FL_LOG_ERROR, "the role of this controller lacks something"},
        [UNKNOWN] = {FL_LOG_WARN, "the role of this controller cannot be asked for"},
    };
    enum role_state state = role_state(cause);
    struct fl_log_line l;
    fl_log_begin(c->conf.log, &l, said[state].level, said[state].msg);
    if (state != ALLOWS) {
        fl_log_text(&l, "code", cause->code);
        fl_log_text(&l, "cause", fl_self_check_sentence(c->check));
    }
    fl_log_end(c->conf.log, &l);
}

/* Each state once, and what is lacking each time that it is something else. */
static void take_role(struct fl_cluster *c, const struct fl_cause *cause)
{
    enum role_state was = role_state(&c->lacks), now = role_state(cause);
    if (now == UNKNOWN && c->role_known) {
        return; /* what was found out last stays */
    }
    if (was != now || (now == LACKS && strcmp(c->lacks.text, cause->text) != 0)) {
        say_role(c, cause);
        fl_kube_source_hurry(c->source);
    }
    c->role_known = c->role_known || now != UNKNOWN;
    c->lacks = *cause;
}

static void on_checked(void *arg, const struct fl_cause *cause)
{
    struct fl_cluster *c = arg;
    bool soon = role_state(cause) != ALLOWS;
    take_role(c, cause);
    int64_t wait_ms = (soon ? ASK_SOON_MS : ASK_AGAIN_MS) + fl_rng_below(&c->rng, ASK_JITTER_MS);
    fl_timer_set(c->conf.reactor, &c->ask_role, fl_reactor_now_ms(c->conf.reactor) + wait_ms);
    c->check = fl_self_check_free(c->check);
}

static int open_check(struct fl_cluster *c)
{
    const struct fl_role role = {c->elects, c->lease_namespace, c->lease_name};
    struct fl_self_check_row rows[FL_ROLE_ROWS_MAX];
    size_t count = fl_role_rows(&role, rows);
    return fl_self_check_new(c->kube, rows, count, on_checked, c, &c->check);
}

static void on_ask_role(struct fl_timer *t)
{
    struct fl_cluster *c = fl_container_of(t, struct fl_cluster, ask_role);
    if (open_check(c) < 0) { /* no memory: another time */
        fl_timer_set(c->conf.reactor, t, fl_reactor_now_ms(c->conf.reactor) + ASK_SOON_MS);
    }
}

/* ---- leading ---- */

static void lead_alone(struct fl_task *t)
{
    struct fl_cluster *c = fl_container_of(t, struct fl_cluster, lead_alone);
    c->conf.lead(c->conf.arg, fl_reactor_wall_ms(c->conf.reactor) / 1000);
}

static void tell_released(struct fl_task *t)
{
    struct fl_cluster *c = fl_container_of(t, struct fl_cluster, released);
    c->release_done(c->release_arg);
}

static int open_election(struct fl_cluster *c)
{
    const struct fl_controller_config *k = c->conf.config;
    if (!k->leader_election.enabled) {
        fl_reactor_soon(c->conf.reactor, &c->lead_alone);
        return 0;
    }
    const struct fl_election_conf election = {
        .kube = c->kube,
        .reactor = c->conf.reactor,
        .log = c->conf.log,
        .namespace = k->leader_election.namespace,
        .name = k->leader_election.name,
        .identity = c->identity,
        .seed = c->conf.seed,
        .lead = c->conf.lead,
        .follow = c->conf.follow,
        .arg = c->conf.arg,
    };
    return fl_election_new(&election, &c->election);
}

/* The configuration may be replaced, the role that is asked for stays. */
static int keep_role(struct fl_cluster *c)
{
    const struct fl_controller_config *k = c->conf.config;
    c->elects = k->leader_election.enabled;
    c->lease_namespace = strdup(k->leader_election.namespace);
    c->lease_name = strdup(k->leader_election.name);
    return c->lease_namespace != NULL && c->lease_name != NULL ? 0 : -ENOMEM;
}

static int open_parts(struct fl_cluster *c)
{
    const struct fl_cluster_conf *conf = &c->conf;
    int rc = keep_role(c);
    rc = rc < 0 ? rc : fl_kube_new(conf->reactor, conf->log, c->access, &c->kube);
    if (rc < 0) {
        return rc;
    }
    const struct fl_kube_source_conf source = {
        .kube = c->kube,
        .reactor = conf->reactor,
        .log = conf->log,
        .seed = conf->seed,
        .changed = conf->changed,
        .arg = conf->arg,
    };
    rc = open_check(c);
    rc = rc < 0 ? rc
                : fl_kube_events_new(c->kube, conf->reactor, conf->log, c->identity, &c->events);
    rc = rc < 0 ? rc : fl_kube_source_new(&source, &c->source);
    return rc < 0 ? rc : open_election(c);
}

/* Two replicas never have the same one, also after a restart in the same pod. */
static void name_us(struct fl_cluster *c)
{
    struct fl_fmt f = fl_fmt_of(c->identity, sizeof(c->identity));
    size_t most = sizeof(c->identity) - 20;
    struct fl_span host = fl_span_of(c->conf.host_name);
    fl_fmt_span(&f, (struct fl_span){host.ptr, host.len < most ? host.len : most});
    fl_fmt_printf(&f, "_%016llx", (unsigned long long)c->conf.seed);
}

int fl_cluster_new(const struct fl_cluster_conf *conf, struct fl_cluster **ret,
                   struct fl_cause *ret_cause)
{
    struct fl_cluster *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        fl_cause_set(ret_cause, "local_resource", "out of memory");
        return -ENOMEM;
    }
    c->conf = *conf;
    fl_rng_seed(&c->rng, conf->seed);
    fl_timer_init(&c->ask_role, on_ask_role);
    fl_task_init(&c->lead_alone, lead_alone);
    fl_task_init(&c->released, tell_released);
    name_us(c);
    int rc = fl_kube_access_new(conf->where, conf->log, fl_reactor_now_ms(conf->reactor),
                                &c->access, ret_cause);
    if (rc == 0) {
        rc = open_parts(c);
        if (rc < 0) {
            fl_cause_set(ret_cause, fl_cause_errno_code(-rc), "cannot watch the cluster (%s)",
                         fl_cause_errno_text(-rc));
        }
    }
    if (rc < 0) {
        fl_cluster_free(c);
        return rc;
    }
    c->conf.config = NULL; /* it may be replaced from now on */
    *ret = c;
    return 0;
}

struct fl_cluster *fl_cluster_free(struct fl_cluster *c)
{
    if (c == NULL) {
        return NULL;
    }
    fl_election_free(c->election);
    fl_kube_source_free(c->source);
    fl_kube_events_free(c->events);
    fl_self_check_free(c->check);
    fl_timer_remove(c->conf.reactor, &c->ask_role);
    fl_kube_free(c->kube);
    fl_kube_access_free(c->access);
    fl_list_remove(&c->lead_alone.node);
    fl_list_remove(&c->released.node);
    free(c->lease_namespace);
    free(c->lease_name);
    free(c);
    return NULL;
}

const struct fl_kube_source *fl_cluster_source(const struct fl_cluster *c)
{
    return c->source;
}

struct fl_kube_events *fl_cluster_events(struct fl_cluster *c)
{
    return c->events;
}

const char *fl_cluster_namespace(const struct fl_cluster *c)
{
    return fl_kube_namespace(c->kube);
}

void fl_cluster_raise(struct fl_cluster *c, int64_t above)
{
    if (c->election != NULL) {
        fl_election_raise(c->election, above);
    } else {
        c->conf.lead(c->conf.arg, above + 1);
    }
}

void fl_cluster_release(struct fl_cluster *c, void (*done)(void *arg), void *arg)
{
    if (c->election != NULL) {
        fl_election_release(c->election, done, arg);
        return;
    }
    c->release_done = done;
    c->release_arg = arg;
    fl_reactor_soon(c->conf.reactor, &c->released);
}

void fl_cluster_view(const struct fl_cluster *c, struct fl_cluster_view *ret)
{
    *ret = (struct fl_cluster_view){.lacks = c->lacks};
    if (c->election == NULL) {
        ret->election.leads = true;
        ret->election.holder = c->identity;
        return;
    }
    fl_election_view(c->election, &ret->election);
}

void fl_cluster_metrics(const struct fl_cluster *c, struct fl_fmt *out)
{
    fl_kube_metrics(c->kube, out);
}
