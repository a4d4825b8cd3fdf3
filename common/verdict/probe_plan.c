#include "common/verdict/probe_plan.h"

#include "common/base/check.h"

#define ATTEMPTS       2
#define AGAIN_FIRST_MS 1000
#define DOUBLINGS_MAX  20

const char *fl_probe_step_name(enum fl_probe_step s)
{
    switch (s) {
    case FL_PROBE_STEP_NONE:
        return "";
    case FL_PROBE_STEP_DNS:
        return "dns";
    case FL_PROBE_STEP_CONNECT:
        return "connect";
    case FL_PROBE_STEP_TLS:
        return "tls";
    case FL_PROBE_STEP_SEND:
        return "send";
    case FL_PROBE_STEP_HEAD:
        return "head";
    case FL_PROBE_STEP_STATUS:
        return "status";
    }
    FL_IMPOSSIBLE("probe step");
}

void fl_probe_plan_begin(struct fl_probe_plan *p, enum fl_probe_type type, bool has_bucket)
{
    *p = (struct fl_probe_plan){.type = type};
    switch (type) {
    case FL_PROBE_TCP:
        p->request = FL_PROBE_REQUEST_CONNECT;
        p->fresh = true;
        return;
    case FL_PROBE_HTTP:
        p->request = FL_PROBE_REQUEST_GET;
        return;
    case FL_PROBE_S3:
        p->request = has_bucket ? FL_PROBE_REQUEST_HEAD_BUCKET : FL_PROBE_REQUEST_LIST_BUCKETS;
        return;
    case FL_PROBE_NONE:
        break;
    }
    FL_IMPOSSIBLE("a probe of type none");
}

/* A HEAD has no body: it says that it refuses, not why. */
static bool needs_a_body(const struct fl_probe_plan *p, const struct fl_probe_result *r)
{
    return p->request == FL_PROBE_REQUEST_HEAD_BUCKET && r->code[0] == '\0' &&
           (r->status == 400 || r->status == 401 || r->status == 403);
}

enum fl_probe_next fl_probe_plan_take(struct fl_probe_plan *p, const struct fl_probe_result *r)
{
    p->last = *r;
    if (r->outcome == FL_OUTCOME_LOCAL_RESOURCE) {
        return FL_PROBE_NO_VERDICT;
    }
    if (r->outcome == FL_OUTCOME_OK) {
        if (!needs_a_body(p, r)) {
            return FL_PROBE_DECIDED;
        }
        p->head = *r;
        p->head_answered = true;
        p->request = FL_PROBE_REQUEST_LIST_BUCKETS;
        p->attempts = 0;
        p->fresh = false;
        return FL_PROBE_SEND;
    }
    p->fresh = true;
    return ++p->attempts < ATTEMPTS ? FL_PROBE_SEND : FL_PROBE_DECIDED;
}

int64_t fl_probe_again_ms(unsigned unhealthy, int64_t interval_ms)
{
    unsigned doublings = unhealthy > 0 ? unhealthy - 1 : 0;
    int64_t wait_ms = (int64_t)AGAIN_FIRST_MS
                      << (doublings < DOUBLINGS_MAX ? doublings : DOUBLINGS_MAX);
    return wait_ms < interval_ms ? wait_ms : interval_ms;
}
