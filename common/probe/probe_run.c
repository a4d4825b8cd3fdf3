#include "common/probe/probe_run.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/fmt.h"
#include "common/probe/http_client.h"
#include "common/probe/probe_answer.h"
#include "common/probe/probe_keys.h"
#include "common/probe/probe_request.h"
#include "common/verdict/probe_judge.h"

struct fl_probe_run {
    struct fl_reactor *reactor;
    fl_probe_done_fn *done;
    void *arg;
    struct fl_http_client *client;
    struct fl_task begin, bury;
    struct fl_probe_target *target; /* NULL before the first start, and without memory */
    struct fl_tls_terms *terms;     /* held for the target */
    struct fl_probe_keys keys;      /* of the probe in flight */
    uint64_t keys_hash;             /* of the last one */
    char keys_fault[96];            /* why there are none, although there should be */
    char address[FL_ADDR_TEXT_MAX];
    bool busy;
    struct fl_probe_plan plan;
    int64_t began_ms, attempt_ms;
};

/* ---- the end ---- */

/* An answer is no news of a store when the probe could not ask as it should have. */
static void blame_keys(const struct fl_probe_run *p, struct fl_verdict *v)
{
    if (p->keys_fault[0] != '\0' && v->status == FL_VERDICT_HEALTHY) {
        struct fl_fmt step = fl_fmt_of(v->step, sizeof(v->step));
        v->status = FL_VERDICT_ERRORING;
        v->note[0] = '\0';
        fl_cause_set(&v->cause, "probe_keys", "the keys of the probe cannot be used (%s)",
                     p->keys_fault);
        fl_fmt_text(&step, fl_probe_step_name(FL_PROBE_STEP_SEND));
    }
}

static bool has_answered(const struct fl_probe_plan *p)
{
    return p->head_answered || (p->type != FL_PROBE_TCP && p->last.outcome == FL_OUTCOME_OK);
}

static void finish(struct fl_probe_run *p, bool decided)
{
    struct fl_verdict v = {.status = FL_VERDICT_UNKNOWN};
    bool answered = false;
    if (decided) {
        const struct fl_probe_facts facts = {.address = p->address,
                                             .expect = p->target->expect,
                                             .bucket = p->target->bucket,
                                             .key_id = p->keys.access_key};
        fl_probe_judge(&facts, &p->plan, &v);
        blame_keys(p, &v);
        answered = has_answered(&p->plan);
    }
    v.source = FL_VERDICT_OWN;
    v.fingerprint = p->target != NULL ? p->target->fingerprint : 0;
    v.at_ms = fl_reactor_now_ms(p->reactor);
    v.at_unix_ms = fl_reactor_wall_ms(p->reactor);
    v.duration_ms = v.at_ms - p->began_ms;
    fl_probe_keys_forget(&p->keys);
    p->busy = false; /* done may start the next one */
    p->done(p->arg, &v, answered);
}

/* ---- one attempt after another ---- */

static int write_request(struct fl_probe_run *p, struct fl_fmt *f)
{
    if (p->plan.request == FL_PROBE_REQUEST_CONNECT) {
        return 0;
    }
    const char *host = p->target->host[0] != '\0' ? p->target->host : p->address;
    return fl_probe_request_write(p->target, host, &p->keys, p->plan.request,
                                  fl_reactor_wall_ms(p->reactor), f);
}

static int send_next(struct fl_probe_run *p)
{
    char text[FL_PROBE_REQUEST_MAX];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    const struct fl_probe_target *t = p->target;
    bool connect = p->plan.request == FL_PROBE_REQUEST_CONNECT;
    p->attempt_ms = fl_reactor_now_ms(p->reactor);
    int rc = write_request(p, &f);
    const struct fl_http_ask ask = {
        .to = t->addr,
        .tls = t->tls,
        .terms = t->terms,
        .tls_name = t->tls_name,
        .fresh = p->plan.fresh,
        .method = connect ? FL_METHOD_OTHER : fl_probe_request_method(p->plan.request),
        .text = {f.base, f.len},
        .connect_ms = t->timeout_ms < FL_PROBE_CONNECT_MS ? t->timeout_ms : FL_PROBE_CONNECT_MS,
        .answer_ms = t->timeout_ms,
    };
    return rc == 0 ? fl_http_client_ask(p->client, &ask) : rc;
}

/* True: it has been sent, or rather will be. */
static void take(struct fl_probe_run *p, const struct fl_probe_result *r)
{
    enum fl_probe_next next = fl_probe_plan_take(&p->plan, r);
    if (next == FL_PROBE_SEND && send_next(p) < 0) {
        next = FL_PROBE_NO_VERDICT;
    }
    if (next != FL_PROBE_SEND) {
        finish(p, next == FL_PROBE_DECIDED);
    }
}

static void on_answered(void *arg, const struct fl_http_answer *a)
{
    struct fl_probe_run *p = arg;
    struct fl_probe_result r = {
        .step = a->step,
        .outcome = a->outcome,
        .os_errno = a->os_errno,
        .duration_ms = fl_reactor_now_ms(p->reactor) - p->attempt_ms,
    };
    if (a->head != NULL) {
        const struct fl_probe_answer answer = {p->plan.request, a->head, a->head_text, a->body,
                                               fl_reactor_wall_ms(p->reactor)};
        fl_probe_answer_read(&answer, &r);
        r.step = FL_PROBE_STEP_STATUS;
    }
    take(p, &r);
}

static void on_begin(struct fl_task *t)
{
    struct fl_probe_run *p = fl_container_of(t, struct fl_probe_run, begin);
    if (p->target == NULL || send_next(p) < 0) {
        finish(p, false);
    }
}

/* ---- life ---- */

static void on_bury(struct fl_task *t)
{
    struct fl_probe_run *p = fl_container_of(t, struct fl_probe_run, bury);
    fl_tls_terms_give(p->terms);
    free(p->target);
    free(p);
}

int fl_probe_run_new(struct fl_reactor *r, fl_probe_done_fn *done, void *arg,
                     struct fl_probe_run **ret)
{
    struct fl_probe_run *p = calloc(1, sizeof(*p));
    if (p == NULL || fl_http_client_new(r, on_answered, p, &p->client) < 0) {
        free(p);
        return -ENOMEM;
    }
    p->reactor = r;
    p->done = done;
    p->arg = arg;
    fl_task_init(&p->begin, on_begin);
    fl_task_init(&p->bury, on_bury);
    *ret = p;
    return 0;
}

void fl_probe_run_cancel(struct fl_probe_run *p)
{
    fl_http_client_drop(p->client);
    fl_list_remove(&p->begin.node);
    fl_probe_keys_forget(&p->keys);
    p->busy = false;
}

struct fl_probe_run *fl_probe_run_free(struct fl_probe_run *p)
{
    if (p != NULL) {
        fl_probe_run_cancel(p);
        p->client = fl_http_client_free(p->client);
        fl_reactor_later(p->reactor, &p->bury);
    }
    return NULL;
}

/* What is asked from now on; another definition, and it asks on a connection of its own. */
static void define(struct fl_probe_run *p, const struct fl_probe_target *t)
{
    struct fl_fmt f = fl_fmt_of(p->address, sizeof(p->address));
    fl_addr_print(&t->addr, &f);
    p->keys_fault[0] = '\0';
    if (t->type == FL_PROBE_S3) {
        (void)fl_probe_keys_read(t->access_key_file, t->secret_key_file, &p->keys, p->keys_fault);
    }
    bool same = p->target != NULL && p->target->fingerprint == t->fingerprint &&
                fl_probe_target_same(p->target, t);
    if (!same || p->keys.hash != p->keys_hash) {
        fl_http_client_drop(p->client);
    }
    p->keys_hash = p->keys.hash;
    if (same) {
        return;
    }
    free(p->target);
    p->target = fl_probe_target_copy(t);
    (void)fl_tls_terms_take(t->terms);
    fl_tls_terms_give(p->terms);
    p->terms = t->terms;
}

bool fl_probe_run_start(struct fl_probe_run *p, const struct fl_probe_target *t)
{
    FL_MUST(t->type != FL_PROBE_NONE);
    if (p->busy) {
        return false;
    }
    define(p, t);
    fl_probe_plan_begin(&p->plan, t->type, t->bucket != NULL && t->bucket[0] != '\0');
    p->began_ms = fl_reactor_now_ms(p->reactor);
    p->busy = true;
    fl_reactor_soon(p->reactor, &p->begin); /* done is never called from within start */
    return true;
}

void fl_probe_run_swap(struct fl_probe_run **a, struct fl_probe_run **b)
{
    struct fl_probe_run *was_a = *a, *was_b = *b;
    fl_probe_done_fn *done = was_a->done;
    void *arg = was_a->arg;
    FL_MUST(!was_a->busy && !was_b->busy);
    was_a->done = was_b->done;
    was_a->arg = was_b->arg;
    was_b->done = done;
    was_b->arg = arg;
    *a = was_b;
    *b = was_a;
}

bool fl_probe_run_busy(const struct fl_probe_run *p)
{
    return p->busy;
}

enum fl_probe_step fl_probe_run_step(const struct fl_probe_run *p)
{
    return fl_http_client_step(p->client);
}

int64_t fl_probe_run_began_ms(const struct fl_probe_run *p)
{
    return p->began_ms;
}

bool fl_probe_run_keyed(const struct fl_probe_run *p)
{
    return p->keys_hash != 0;
}
