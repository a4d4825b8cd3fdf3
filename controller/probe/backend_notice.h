/* backend_notice - tells people when a backend becomes unhealthy or recovers, as the controller
 * sees it: the same lines as a sidecar's. One thread. */
#ifndef FL_CONTROLLER_PROBE_BACKEND_NOTICE_H
#define FL_CONTROLLER_PROBE_BACKEND_NOTICE_H

#include <stdint.h>

#include "common/base/list.h"
#include "common/io/log.h"
#include "common/model/state.h"
#include "controller/decide/verdict_table.h"

struct fl_backend_notice {
    const struct fl_log *log;
    struct fl_list memories;
};

void fl_backend_notice_init(struct fl_backend_notice *n, const struct fl_log *log);
void fl_backend_notice_done(struct fl_backend_notice *n);
/* Members or verdicts have changed, perhaps. */
void fl_backend_notice_look(struct fl_backend_notice *n, const struct fl_verdict_table *verdicts,
                            const struct fl_state *s, int64_t now_ms);

#endif
