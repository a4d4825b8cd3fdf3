/* backend_verdict - the controller's verdict of a backend, derived from what its probes say of the
 * peers. Pure. */
#ifndef FL_CONTROLLER_DECIDE_BACKEND_VERDICT_H
#define FL_CONTROLLER_DECIDE_BACKEND_VERDICT_H

#include "common/model/state.h"
#include "common/verdict/derive.h"
#include "controller/decide/verdict_table.h"

/* subject: the backend's name in the table (compose.h). Unknown when memory is short. */
void fl_backend_verdict(const struct fl_verdict_table *t, const char *subject,
                        const struct fl_state_backend *b, struct fl_derived *ret);
/* What the controller and the pods see differently of one peer, in a sentence; "" while they agree.
 * reached, failing: pods that do and do not reach it. */
void fl_backend_verdict_other_view(const struct fl_verdict *v, uint32_t reached, uint32_t failing,
                                   char text[96]);

#endif
