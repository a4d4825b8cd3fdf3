/* verdict - what a probe says of a peer, and what follows for its backend. A plain value; frozen:
 * contract.md section 6. */
#ifndef FL_COMMON_MODEL_VERDICT_H
#define FL_COMMON_MODEL_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/span.h"
#include "common/model/cause.h"

enum fl_verdict_status {
    FL_VERDICT_UNKNOWN,
    FL_VERDICT_HEALTHY,
    FL_VERDICT_UNREACHABLE,
    FL_VERDICT_AUTH_REJECTED,
    FL_VERDICT_ERRORING
};
enum fl_verdict_source { FL_VERDICT_NONE, FL_VERDICT_OWN, FL_VERDICT_PUSHED };

struct fl_verdict {
    enum fl_verdict_status status;
    enum fl_verdict_source source;
    struct fl_cause cause; /* empty when healthy or unknown */
    char note[160];        /* healthy, but worth saying: "bucket absent" */
    char step[16];         /* dns connect tls send head status: where it ended; "" when healthy */
    int64_t at_ms;         /* monotonic; 0 = never */
    int64_t at_unix_ms;    /* for people */
    int64_t duration_ms;
    uint64_t fingerprint; /* of the definition that was probed */
};

const char *fl_verdict_status_name(
    enum fl_verdict_status s); /* healthy unreachable auth-rejected erroring unknown */
bool fl_verdict_status_parse(struct fl_span text, enum fl_verdict_status *ret);
/* They say the same: status, code, text and note; when and how is left out. */
bool fl_verdict_same(const struct fl_verdict *a, const struct fl_verdict *b);
static inline bool fl_verdict_blocks(enum fl_verdict_status s)
{
    return s == FL_VERDICT_UNREACHABLE || s == FL_VERDICT_AUTH_REJECTED;
}

#endif
