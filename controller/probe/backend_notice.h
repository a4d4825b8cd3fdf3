/* backend_notice - tells people when a backend becomes unhealthy or recovers, as the controller
 * sees it: the same lines as a sidecar's, and to whom it may concern (Events). One thread. */
#ifndef FL_CONTROLLER_PROBE_BACKEND_NOTICE_H
#define FL_CONTROLLER_PROBE_BACKEND_NOTICE_H

#include <stdint.h>

#include "common/base/list.h"
#include "common/io/log.h"
#include "common/model/state.h"
#include "controller/decide/verdict_table.h"

struct fl_backend_news {
    const char *subject;
    const struct fl_state_backend *backend;
    enum fl_verdict_status status; /* HEALTHY: it has recovered */
    const struct fl_cause *cause;
    int64_t downtime_ms; /* recovered: for how long it was not well */
};

struct fl_backend_notice {
    const struct fl_log *log;
    void (*told)(void *arg, const struct fl_backend_news *news); /* NULL: nobody listens */
    void *arg;
    struct fl_list memories;
    struct fl_list *expected; /* of memories: looks come in the order of the last time, mostly */
};

void fl_backend_notice_init(struct fl_backend_notice *n, const struct fl_log *log,
                            void (*told)(void *arg, const struct fl_backend_news *news), void *arg);
void fl_backend_notice_done(struct fl_backend_notice *n);
/* Members or verdicts have changed, perhaps: begin, look at each backend once or more (the first
 * look of a subject counts), end. A backend that was not looked at is forgotten. */
void fl_backend_notice_begin(struct fl_backend_notice *n);
void fl_backend_notice_look(struct fl_backend_notice *n, const struct fl_verdict_table *verdicts,
                            const char *subject, const struct fl_state_backend *b, int64_t now_ms);
void fl_backend_notice_end(struct fl_backend_notice *n);
/* Everything is forgotten, silently: somebody else tells from now on. */
void fl_backend_notice_clear(struct fl_backend_notice *n);

#endif
