/* cause - the sentence for people: a stable code (metric label) and ASCII text without counters,
 * times or addresses of the asking side, written once where the fault is known and carried
 * unchanged everywhere. A plain value. Pure. */
#ifndef FL_COMMON_MODEL_CAUSE_H
#define FL_COMMON_MODEL_CAUSE_H

#include "common/base/check.h"

struct fl_cause {
    char code[32];  /* "connect_refused"; empty: no cause */
    char text[224]; /* "connect to 10.0.1.10:9000 failed (Connection refused)" */
};

void fl_cause_set(struct fl_cause *c, const char *code, const char *fmt, ...)
    FL_PRINTF(3, 4); /* cuts, never overflows; non-ASCII -> '?' */
/* A stable code for an errno value (positive): connect_refused, host_unreachable, reset …
 * "os_error" otherwise. Both know the TLS faults of tls_fault.h, too. */
const char *fl_cause_errno_code(int err);
const char *fl_cause_errno_text(int err); /* "Connection refused"; constant text, thread-safe */

#endif
