/* fault - the one sentence for each way in which an attempt or a probe can fail, so that a log
 * line, a 503, the admin card and a refused apply say the same words of the same fault. Pure. */
#ifndef FL_COMMON_VERDICT_FAULT_H
#define FL_COMMON_VERDICT_FAULT_H

#include "common/model/cause.h"
#include "common/model/outcome.h"

/* address: of the peer. status: of the answer, 0 = none. os_errno: positive, 0 = unknown. Empty
 * cause for OK. */
void fl_fault_cause(enum fl_outcome o, int status, int os_errno, const char *address,
                    struct fl_cause *ret);

#endif
