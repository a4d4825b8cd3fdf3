#include "common/probe/probe_run.h"

#include <errno.h>
#include <stdlib.h>

#include "common/io/sock.h"
#include "common/verdict/probe_judge.h"

enum step { STEP_IDLE, STEP_QUEUED, STEP_CONNECT };

struct fl_probe_run {
    struct fl_reactor *reactor;
    fl_probe_done_fn *done;
    void *arg;
    struct fl_io io;
    struct fl_timer deadline;
    struct fl_task begin, bury;
    struct fl_probe_target target;
    char address[FL_ADDR_TEXT_MAX];
    enum step step;
    struct fl_probe_plan plan;
    int64_t began_ms, attempt_ms;
};

static void enter(struct fl_probe_run *p, enum step next);

static void finish(struct fl_probe_run *p, bool decided)
{
    struct fl_verdict v = {.status = FL_VERDICT_UNKNOWN};
    if (decided) {
        const struct fl_probe_facts facts = {
            .address = p->address, .expect = "", .bucket = "", .key_id = ""};
        fl_probe_judge(&facts, &p->plan, &v);
    }
    v.source = FL_VERDICT_OWN;
    v.fingerprint = p->target.fingerprint;
    v.at_ms = fl_reactor_now_ms(p->reactor);
    v.at_unix_ms = fl_reactor_wall_ms(p->reactor);
    v.duration_ms = v.at_ms - p->began_ms;
    p->step = STEP_IDLE; /* done may start the next one */
    p->done(p->arg, &v, false);
}

/* The end of one attempt: the plan says whether another follows. */
static void end_attempt(struct fl_probe_run *p, enum fl_probe_step step, enum fl_outcome outcome,
                        int os_errno)
{
    fl_reactor_close(p->reactor, &p->io);
    fl_timer_off(&p->deadline);
    const struct fl_probe_result r = {
        .step = step,
        .outcome = outcome,
        .os_errno = os_errno,
        .duration_ms = fl_reactor_now_ms(p->reactor) - p->attempt_ms,
    };
    switch (fl_probe_plan_take(&p->plan, &r)) {
    case FL_PROBE_SEND:
        enter(p, STEP_CONNECT);
        return;
    case FL_PROBE_DECIDED:
        finish(p, true);
        return;
    case FL_PROBE_NO_VERDICT:
        finish(p, false);
        return;
    }
}

static void connect_failed(struct fl_probe_run *p, int err) /* -errno */
{
    bool local = fl_errno_is_local(-err);
    end_attempt(p, FL_PROBE_STEP_CONNECT,
                local ? FL_OUTCOME_LOCAL_RESOURCE : FL_OUTCOME_CONNECT_FAILED, -err);
}

static void start_connect(struct fl_probe_run *p)
{
    p->attempt_ms = fl_reactor_now_ms(p->reactor);
    int fd = -1;
    int rc = fl_sock_connect(&p->target.addr, 0, &fd);
    if (rc == 0) {
        rc = fl_reactor_add(p->reactor, &p->io, fd);
        if (rc < 0) {
            fl_sock_close(fd);
        }
    }
    if (rc < 0) {
        connect_failed(p, rc);
        return;
    }
    int64_t limit_ms =
        p->target.timeout_ms < FL_PROBE_CONNECT_MS ? p->target.timeout_ms : FL_PROBE_CONNECT_MS;
    fl_timer_set(p->reactor, &p->deadline, fl_reactor_now_ms(p->reactor) + limit_ms);
}

static void enter(struct fl_probe_run *p, enum step next)
{
    p->step = next;
    if (next == STEP_CONNECT) {
        start_connect(p);
    }
}

static void on_event(struct fl_io *io, unsigned events)
{
    struct fl_probe_run *p = fl_container_of(io, struct fl_probe_run, io);
    if (p->step != STEP_CONNECT || (events & (FL_IO_WRITE | FL_IO_HUP | FL_IO_ERROR)) == 0) {
        return;
    }
    int err = fl_sock_error(io->fd);
    if (err < 0) {
        connect_failed(p, err);
    } else {
        end_attempt(p, FL_PROBE_STEP_NONE, FL_OUTCOME_OK, 0);
    }
}

static void on_deadline(struct fl_timer *t)
{
    struct fl_probe_run *p = fl_container_of(t, struct fl_probe_run, deadline);
    end_attempt(p, FL_PROBE_STEP_CONNECT, FL_OUTCOME_CONNECT_TIMEOUT, ETIMEDOUT);
}

static void on_begin(struct fl_task *t)
{
    enter(fl_container_of(t, struct fl_probe_run, begin), STEP_CONNECT);
}

static void on_bury(struct fl_task *t)
{
    free(fl_container_of(t, struct fl_probe_run, bury));
}

int fl_probe_run_new(struct fl_reactor *r, fl_probe_done_fn *done, void *arg,
                     struct fl_probe_run **ret)
{
    struct fl_probe_run *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        return -ENOMEM;
    }
    p->reactor = r;
    p->done = done;
    p->arg = arg;
    p->io = (struct fl_io){.fd = -1, .on_event = on_event};
    fl_timer_init(&p->deadline, on_deadline);
    fl_task_init(&p->begin, on_begin);
    fl_task_init(&p->bury, on_bury);
    *ret = p;
    return 0;
}

void fl_probe_run_cancel(struct fl_probe_run *p)
{
    fl_reactor_close(p->reactor, &p->io);
    fl_timer_off(&p->deadline);
    fl_list_remove(&p->begin.node);
    p->step = STEP_IDLE;
}

struct fl_probe_run *fl_probe_run_free(struct fl_probe_run *p)
{
    if (p != NULL) {
        fl_probe_run_cancel(p);
        fl_timer_remove(p->reactor, &p->deadline);
        fl_reactor_later(p->reactor, &p->bury);
    }
    return NULL;
}

bool fl_probe_run_start(struct fl_probe_run *p, const struct fl_probe_target *t)
{
    FL_MUST(t->type != FL_PROBE_NONE);
    if (p->step != STEP_IDLE) {
        return false;
    }
    p->target = *t;
    struct fl_fmt f = fl_fmt_of(p->address, sizeof(p->address));
    fl_addr_print(&t->addr, &f);
    fl_probe_plan_begin(&p->plan, FL_PROBE_TCP, false);
    p->began_ms = fl_reactor_now_ms(p->reactor);
    p->step = STEP_QUEUED;
    fl_reactor_soon(p->reactor, &p->begin); /* done is never called from within start */
    return true;
}

bool fl_probe_run_busy(const struct fl_probe_run *p)
{
    return p->step != STEP_IDLE;
}
