/* probe_plan - which request a probe sends next, and when it has seen enough (behaviour.md section
 * 5). A failed or silent attempt is tried once more on a fresh connection before any verdict; an
 * answer decides, except that a HEAD which was refused is followed by ListBuckets, whose answer has
 * a body that says why. Pure: common/probe does what it says. */
#ifndef FL_COMMON_VERDICT_PROBE_PLAN_H
#define FL_COMMON_VERDICT_PROBE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/config.h"
#include "common/model/outcome.h"

enum fl_probe_step {
    FL_PROBE_STEP_NONE, /* it was answered and the answer was good */
    FL_PROBE_STEP_DNS,
    FL_PROBE_STEP_CONNECT,
    FL_PROBE_STEP_TLS,
    FL_PROBE_STEP_SEND,
    FL_PROBE_STEP_HEAD,
    FL_PROBE_STEP_STATUS,
};
const char *fl_probe_step_name(enum fl_probe_step s); /* "" dns connect tls send head status */

enum fl_probe_request {
    FL_PROBE_REQUEST_CONNECT, /* tcp: the connection is the answer */
    FL_PROBE_REQUEST_GET,     /* http: GET path */
    FL_PROBE_REQUEST_HEAD_BUCKET,
    FL_PROBE_REQUEST_LIST_BUCKETS,
};

/* What one attempt brought; the words of the traffic (outcome.h), since it uses the same code. */
struct fl_probe_result {
    enum fl_probe_step step; /* where it ended */
    enum fl_outcome outcome; /* OK: connected (tcp), or a head came (http, s3) */
    int os_errno;            /* positive, 0 = none */
    int status;              /* of the head, 0 = none */
    bool foreign;            /* s3: the answer is plainly none of S3's (an HTML page, say) */
    char code[64];           /* s3 error code, from the body or x-minio-error-code; "" none */
    char detail[96]; /* for people: TLS error, expected region, first bytes, clock difference; ""
                        none */
    int64_t duration_ms;
};

struct fl_probe_plan {
    enum fl_probe_type type;
    enum fl_probe_request request; /* to send now */
    unsigned attempts;             /* of this request */
    bool fresh;                    /* not on the kept connection */
    bool head_answered;            /* head holds the answer of HEAD bucket */
    struct fl_probe_result head, last;
};

enum fl_probe_next {
    FL_PROBE_SEND,       /* send plan->request, on a fresh connection if plan->fresh */
    FL_PROBE_DECIDED,    /* fl_probe_judge */
    FL_PROBE_NO_VERDICT, /* our own exhaustion: says nothing of the peer */
};

void fl_probe_plan_begin(struct fl_probe_plan *p, enum fl_probe_type type,
                         bool has_bucket); /* type != none */
enum fl_probe_next fl_probe_plan_take(struct fl_probe_plan *p, const struct fl_probe_result *r);

/* When a peer that was found unhealthy is asked again: after 1, 2, 4 … s, at most the interval.
 * unhealthy: such results in a row, 1 at least. */
int64_t fl_probe_again_ms(unsigned unhealthy, int64_t interval_ms);

#endif
