/* probe_answer - from the answer to a probe to the facts that the verdict is made of: status, S3
 * error code, what else people should know. Searched as bytes, never parsed as a document: stores
 * send their XML as text/plain, cut, or not at all. Pure. */
#ifndef FL_COMMON_PROBE_PROBE_ANSWER_H
#define FL_COMMON_PROBE_PROBE_ANSWER_H

#include <stdint.h>

#include "common/base/span.h"
#include "common/http1/head_parse.h"
#include "common/verdict/probe_plan.h"

struct fl_probe_answer {
    enum fl_probe_request request;
    const struct fl_response_head *head;
    const char *head_text;
    struct fl_span body; /* its first bytes */
    int64_t wall_ms;     /* now, for the difference of the clocks */
};

/* Sets status, foreign, code and detail; the rest is left alone. */
void fl_probe_answer_read(const struct fl_probe_answer *a, struct fl_probe_result *ret);
/* "Fri, 24 May 2013 00:00:00 GMT" in Unix seconds (RFC 9110 section 5.6.7, the one form that may be
 * sent). False: another form. */
bool fl_probe_answer_date(struct fl_span text, int64_t *ret_unix_s);

#endif
