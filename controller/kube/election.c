#include "controller/kube/election.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "controller/codec/lease_json.h"
#include "controller/decide/lease.h"
#include "controller/kube/api_path.h"

#define PREFIX         "/apis/coordination.k8s.io/v1"
#define PATH_MAX_BYTES 1024
#define NAME_MAX_BYTES 253
#define REMEDY         "apply the Role of deploy/manifests/controller-rbac.yaml"

struct fl_election {
    struct fl_election_conf conf;
    char namespace[NAME_MAX_BYTES + 1], name[NAME_MAX_BYTES + 1];
    struct fl_lease lease;
    struct fl_kube_call *call;
    enum fl_lease_step asked;
    char *object; /* the Lease as it came last */
    size_t object_len;
    int64_t told; /* the epoch that lead was called with last; 0 after follow */
    struct fl_cause fault;
    bool spent_said;
    struct fl_timer timer;
    struct fl_task over;
    void (*released)(void *arg);
    void *released_arg;
};

static const char *verb_of(enum fl_lease_step step)
{
    switch (step) {
    case FL_LEASE_GET:
        return "get";
    case FL_LEASE_POST:
        return "create";
    case FL_LEASE_PUT:
        return "update";
    case FL_LEASE_WAIT:
    case FL_LEASE_END:
        break;
    }
    FL_IMPOSSIBLE("no call");
}

/* --- what people hear --- */

static void say(const struct fl_election *e, enum fl_log_level level, const char *msg)
{
    struct fl_log_line l;
    fl_log_begin(e->conf.log, &l, level, msg);
    fl_log_text(&l, "lease", e->name);
    fl_log_text(&l, "identity", e->lease.identity);
    fl_log_text(&l, "holder", e->lease.record.holder);
    fl_log_int(&l, "epoch", e->told);
    if (e->fault.code[0] != '\0') {
        fl_log_text(&l, "code", e->fault.code);
        fl_log_text(&l, "cause", e->fault.text);
    }
    fl_log_end(e->conf.log, &l);
}

static void well(struct fl_election *e)
{
    if (e->fault.code[0] != '\0') {
        e->fault = (struct fl_cause){0};
        say(e, FL_LOG_INFO, "the lease can be read and written again");
    }
}

static void fail(struct fl_election *e, const char *code, const char *text, const char *remedy)
{
    bool again = strcmp(e->fault.code, code) == 0;
    fl_cause_set(&e->fault, code, "cannot %s Lease %.60s/%.60s: %.*s%s%s", verb_of(e->asked),
                 e->namespace, e->name, remedy[0] ? 90 : 160, text, remedy[0] ? "; " : "", remedy);
    if (!again) {
        say(e, FL_LOG_WARN, "the lease cannot be kept");
    }
}

/* --- one call --- */

static bool keep(struct fl_election *e, struct fl_span body)
{
    char *copy = malloc(body.len + 1);
    if (copy == NULL) {
        return false;
    }
    memcpy(copy, body.ptr, body.len);
    free(e->object);
    e->object = copy;
    e->object_len = body.len;
    return true;
}

static enum fl_lease_answer take_over(struct fl_election *e, const struct fl_kube_answer *a,
                                      struct fl_lease_record *r)
{
    int rc = fl_lease_json_decode(a->body, r);
    if (rc != 0 || !keep(e, a->body)) {
        fail(e, rc == -EBADMSG ? "lease_unreadable" : "no_memory",
             rc == -EBADMSG ? "the answer is not a Lease" : "out of memory", "");
        return FL_LEASE_FAILED;
    }
    well(e);
    return FL_LEASE_OK;
}

static enum fl_lease_answer judge(struct fl_election *e, const struct fl_kube_answer *a,
                                  struct fl_lease_record *r)
{
    const char *text = a->text != NULL ? a->text : "";
    if (a->fault != FL_CURL_NONE) {
        fail(e, "lease_unreachable", text, "");
    } else if (a->status == 200 || a->status == 201) {
        return take_over(e, a, r);
    } else if (a->status == 404 && e->asked == FL_LEASE_POST) {
        fail(e, "lease_no_namespace", text, "");
    } else if (a->status == 404) {
        well(e);
        return FL_LEASE_GONE;
    } else if (a->status == 409 && e->asked != FL_LEASE_GET) {
        well(e);
        return FL_LEASE_CONFLICT;
    } else if (a->status == 403) {
        fail(e, "lease_forbidden", text, REMEDY);
    } else {
        fail(e, a->status == 401 ? "lease_unauthorized" : "lease_refused", text, "");
    }
    return FL_LEASE_FAILED;
}

static void advance(struct fl_election *e);

static void on_answer(void *arg, const struct fl_kube_answer *a)
{
    struct fl_election *e = arg;
    struct fl_lease_record r = {0};
    e->call = NULL;
    enum fl_lease_answer answer = judge(e, a, &r);
    fl_lease_answered(&e->lease, answer, &r, a->retry_after_ms, fl_reactor_now_ms(e->conf.reactor));
    advance(e);
}

/* The body of a write; in the arena. */
static int body_of(struct fl_election *e, const struct fl_lease_call *call, struct fl_arena *a,
                   struct fl_span *ret)
{
    char text[2048];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    if (call->step == FL_LEASE_PUT) {
        return fl_lease_json_replace((struct fl_span){e->object, e->object_len}, &call->record, a,
                                     ret);
    }
    if (call->step == FL_LEASE_POST) {
        fl_lease_json_new(e->namespace, e->name, &call->record, &f);
        FL_MUST(!f.cut);
        const char *copy = fl_arena_text(a, (struct fl_span){text, f.len});
        *ret = (struct fl_span){copy, f.len};
        return copy != NULL ? 0 : -ENOMEM;
    }
    *ret = (struct fl_span){0};
    return 0;
}

static int start(struct fl_election *e, const struct fl_lease_call *call)
{
    static const char *const method[] = {
        [FL_LEASE_GET] = "GET", [FL_LEASE_POST] = "POST", [FL_LEASE_PUT] = "PUT"};
    char path[PATH_MAX_BYTES];
    struct fl_fmt f = fl_fmt_of(path, sizeof(path));
    struct fl_arena a;
    struct fl_kube_request q = {.verb = verb_of(call->step),
                                .resource = "leases",
                                .method = method[call->step],
                                .path = path,
                                .timeout_ms = call->timeout_ms,
                                .done = on_answer,
                                .arg = e};
    fl_api_path(&f, PREFIX, e->namespace, "leases", call->step == FL_LEASE_POST ? NULL : e->name);
    fl_arena_init(&a, 4 * FL_LEASE_JSON_BYTES_MAX);
    e->asked = call->step;
    int rc = body_of(e, call, &a, &q.body);
    if (rc == 0) {
        q.content_type = q.body.len > 0 ? "application/json" : NULL;
        rc = fl_kube_start(e->conf.kube, &q, &e->call);
    }
    fl_arena_done(&a);
    return rc;
}

/* --- the machine's turn --- */

static void tell(struct fl_election *e)
{
    int64_t epoch = fl_lease_epoch(&e->lease, fl_reactor_now_ms(e->conf.reactor));
    if (epoch == e->told) {
        return;
    }
    bool raised = e->told > 0 && epoch > 0;
    e->told = epoch;
    say(e, FL_LOG_INFO, raised ? "the epoch was raised" : epoch > 0 ? "leads" : "leads no more");
    if (epoch > 0) {
        e->conf.lead(e->conf.arg, epoch);
    } else {
        e->conf.follow(e->conf.arg);
    }
}

static void look_whether_spent(struct fl_election *e)
{
    if (fl_lease_spent(&e->lease) && e->told == 0 && !e->spent_said) {
        e->spent_said = true;
        fl_cause_set(&e->fault, "lease_spent",
                     "leaseTransitions of Lease %.60s/%.60s cannot rise any more: delete it and "
                     "restart all replicas",
                     e->namespace, e->name);
        say(e, FL_LOG_ERROR, "nobody can lead");
    }
}

static void ask(struct fl_election *e)
{
    struct fl_lease_call call;
    int64_t now = fl_reactor_now_ms(e->conf.reactor);
    int64_t unix_us = fl_reactor_wall_ms(e->conf.reactor) * 1000;
    while (fl_lease_take(&e->lease, now, unix_us, &call)) {
        int rc = start(e, &call);
        if (rc == 0) {
            return;
        }
        fail(e, fl_cause_errno_code(-rc), fl_cause_errno_text(-rc), "");
        fl_lease_answered(&e->lease, FL_LEASE_FAILED, NULL, 0, now);
    }
}

static void advance(struct fl_election *e)
{
    ask(e);
    look_whether_spent(e);
    if (e->lease.step == FL_LEASE_END) {
        fl_kube_cancel(&e->call);
        fl_reactor_soon(e->conf.reactor, &e->over);
    }
    int64_t at = fl_lease_next_ms(&e->lease);
    if (at == INT64_MAX) {
        fl_timer_off(&e->timer);
    } else {
        fl_timer_set(e->conf.reactor, &e->timer, at);
    }
    tell(e); /* last: they may come back here */
}

static void on_timer(struct fl_timer *t)
{
    advance(fl_container_of(t, struct fl_election, timer));
}

static void on_over(struct fl_task *t)
{
    struct fl_election *e = fl_container_of(t, struct fl_election, over);
    void (*released)(void *arg) = e->released;
    e->released = NULL;
    if (released != NULL) {
        released(e->released_arg);
    }
}

/* --- from outside --- */

static bool fits(const char *text, size_t most)
{
    size_t n = strlen(text);
    return n > 0 && n <= most;
}

int fl_election_new(const struct fl_election_conf *conf, struct fl_election **ret)
{
    if (!fits(conf->namespace, NAME_MAX_BYTES) || !fits(conf->name, NAME_MAX_BYTES) ||
        !fits(conf->identity, FL_LEASE_HOLDER_MAX - 1)) {
        return -EINVAL;
    }
    struct fl_election *e = calloc(1, sizeof(*e));
    if (e == NULL) {
        return -ENOMEM;
    }
    e->conf = *conf;
    memcpy(e->namespace, conf->namespace, strlen(conf->namespace));
    memcpy(e->name, conf->name, strlen(conf->name));
    e->conf.namespace = e->conf.name = e->conf.identity = NULL; /* the caller's */
    int64_t now = fl_reactor_now_ms(conf->reactor);
    fl_lease_init(&e->lease, conf->identity, conf->seed, now);
    fl_timer_init(&e->timer, on_timer);
    fl_task_init(&e->over, on_over);
    fl_timer_set(conf->reactor, &e->timer, now); /* nobody is called from within new */
    *ret = e;
    return 0;
}

struct fl_election *fl_election_free(struct fl_election *e)
{
    if (e != NULL) {
        fl_kube_cancel(&e->call);
        fl_timer_remove(e->conf.reactor, &e->timer);
        fl_list_remove(&e->over.node);
        free(e->object);
        free(e);
    }
    return NULL;
}

int64_t fl_election_epoch(const struct fl_election *e)
{
    return fl_lease_epoch(&e->lease, fl_reactor_now_ms(e->conf.reactor));
}

void fl_election_raise(struct fl_election *e, int64_t above)
{
    if (!fl_lease_raise(&e->lease, above, fl_reactor_now_ms(e->conf.reactor))) {
        struct fl_log_line l;
        fl_log_begin(e->conf.log, &l, FL_LOG_WARN, "a sidecar tells of an epoch that cannot be");
        fl_log_int(&l, "told_epoch", above);
        fl_log_end(e->conf.log, &l);
        return;
    }
    advance(e);
}

void fl_election_release(struct fl_election *e, void (*done)(void *arg), void *arg)
{
    e->released = done;
    e->released_arg = arg;
    fl_lease_release(&e->lease, fl_reactor_now_ms(e->conf.reactor));
    tell(e); /* before anybody else may lead */
    advance(e);
}

void fl_election_view(const struct fl_election *e, struct fl_election_view *ret)
{
    int64_t epoch = fl_election_epoch(e);
    *ret = (struct fl_election_view){.leads = epoch > 0,
                                     .epoch = epoch,
                                     .holder = e->lease.known ? e->lease.record.holder : "",
                                     .fault = e->fault};
}
