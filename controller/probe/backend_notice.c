#include "controller/probe/backend_notice.h"

#include <stdlib.h>
#include <string.h>

#include "controller/decide/backend_verdict.h"

struct memory {
    struct fl_list node;
    enum fl_verdict_status status;
    int64_t down_since_ms; /* 0: it is not down */
    bool seen;
    char name[];
};

void fl_backend_notice_init(struct fl_backend_notice *n, const struct fl_log *log,
                            void (*told)(void *arg, const struct fl_backend_news *news), void *arg)
{
    n->log = log;
    n->told = told;
    n->arg = arg;
    fl_list_init(&n->memories);
    n->expected = &n->memories;
}

static void forget(struct memory *m)
{
    fl_list_remove(&m->node);
    free(m);
}

void fl_backend_notice_clear(struct fl_backend_notice *n)
{
    fl_list_each_safe (it, next, &n->memories) {
        forget(fl_container_of(it, struct memory, node));
    }
    n->expected = &n->memories;
}

void fl_backend_notice_done(struct fl_backend_notice *n)
{
    fl_backend_notice_clear(n);
}

static struct memory *find(struct fl_backend_notice *n, const char *name)
{
    if (n->expected != &n->memories) {
        struct memory *m = fl_container_of(n->expected, struct memory, node);
        if (strcmp(m->name, name) == 0) {
            return m;
        }
    }
    fl_list_each (it, &n->memories) {
        struct memory *m = fl_container_of(it, struct memory, node);
        if (strcmp(m->name, name) == 0) {
            return m;
        }
    }
    return NULL;
}

static struct memory *remember(struct fl_backend_notice *n, const char *name)
{
    struct memory *known = find(n, name);
    if (known != NULL) {
        n->expected = known->node.next;
        return known;
    }
    size_t len = strlen(name) + 1;
    struct memory *m = calloc(1, sizeof(*m) + len);
    if (m != NULL) {
        memcpy(m->name, name, len);
        m->status = FL_VERDICT_UNKNOWN;
        fl_list_append(&n->memories, &m->node);
    }
    return m;
}

static void tell_unhealthy(const struct fl_backend_notice *n, const char *name,
                           const struct fl_derived *d)
{
    const struct fl_verdict *v = &d->verdict;
    struct fl_log_line l;
    fl_log_begin(n->log, &l, fl_verdict_blocks(v->status) ? FL_LOG_ERROR : FL_LOG_WARN,
                 "backend unhealthy");
    fl_log_text(&l, "backend", name);
    fl_log_text(&l, "status", fl_verdict_status_name(v->status));
    fl_log_text(&l, "code", v->cause.code);
    fl_log_text(&l, "cause", v->cause.text);
    fl_log_text(&l, "step", v->step);
    if (d->peers_down[0] != '\0') {
        fl_log_text(&l, "peers_down", d->peers_down);
    }
    fl_log_end(n->log, &l);
}

static void tell_recovered(const struct fl_backend_notice *n, const struct memory *m,
                           int64_t now_ms)
{
    struct fl_log_line l;
    fl_log_begin(n->log, &l, FL_LOG_INFO, "backend recovered");
    fl_log_text(&l, "backend", m->name);
    fl_log_secs(&l, "downtime_secs", (now_ms - m->down_since_ms) * 1000);
    fl_log_end(n->log, &l);
}

static void tell(const struct fl_backend_notice *n, const struct memory *m,
                 const struct fl_state_backend *b, const struct fl_verdict *v, int64_t down_ms)
{
    const struct fl_backend_news news = {m->name, b, v->status, &v->cause, down_ms};
    if (n->told != NULL) {
        n->told(n->arg, &news);
    }
}

void fl_backend_notice_begin(struct fl_backend_notice *n)
{
    fl_list_each (it, &n->memories) {
        fl_container_of(it, struct memory, node)->seen = false;
    }
    n->expected = n->memories.next;
}

void fl_backend_notice_look(struct fl_backend_notice *n, const struct fl_verdict_table *verdicts,
                            const char *subject, const struct fl_state_backend *b, int64_t now_ms)
{
    struct memory *m = remember(n, subject);
    struct fl_derived d;
    if (m == NULL || m->seen) {
        return; /* no memory: told with the next change */
    }
    m->seen = true;
    fl_backend_verdict(verdicts, subject, b, &d);
    if (d.verdict.status == m->status) {
        return;
    }
    m->status = d.verdict.status;
    if (m->status == FL_VERDICT_HEALTHY && m->down_since_ms != 0) {
        tell_recovered(n, m, now_ms);
        tell(n, m, b, &d.verdict, now_ms - m->down_since_ms);
        m->down_since_ms = 0;
    } else if (m->status != FL_VERDICT_HEALTHY && m->status != FL_VERDICT_UNKNOWN) {
        tell_unhealthy(n, subject, &d);
        tell(n, m, b, &d.verdict, 0);
        m->down_since_ms = m->down_since_ms != 0 ? m->down_since_ms : now_ms;
    }
}

void fl_backend_notice_end(struct fl_backend_notice *n)
{
    fl_list_each_safe (it, next, &n->memories) {
        struct memory *m = fl_container_of(it, struct memory, node);
        if (!m->seen) {
            forget(m);
        }
    }
    n->expected = &n->memories;
}
