/* probe_judge - what the answers of a probe mean: the table of behaviour.md section 5. Pure. */
#ifndef FL_COMMON_VERDICT_PROBE_JUDGE_H
#define FL_COMMON_VERDICT_PROBE_JUDGE_H

#include <stdbool.h>

#include "common/model/verdict.h"
#include "common/verdict/probe_plan.h"

struct fl_probe_facts {
    const char *address; /* of the peer, as in the configuration */
    const char *expect;  /* http: "200-399", "200,204" */
    const char *bucket;  /* s3: of HEAD bucket; "" none */
    const char *key_id;  /* s3: "" = anonymous; masked before it is shown */
};

/* After FL_PROBE_DECIDED. Sets status, cause, note, step and duration_ms; source, times and
 * fingerprint are the caller's. */
void fl_probe_judge(const struct fl_probe_facts *f, const struct fl_probe_plan *p,
                    struct fl_verdict *ret);
/* S3 error codes that blame the clock; answers that name another region or endpoint. What goes with
 * them into detail is found by common/probe. */
bool fl_probe_judge_is_skew(const char *code);
bool fl_probe_judge_is_elsewhere(int status, const char *code);
/* Is the status one of "200-399,404"? False for a text that is no such list. */
bool fl_probe_judge_expects(const char *expect, int status);

#endif
