/* watch_end - how a list or watch has ended, in the plan's words and in a sentence for people. No
 * fds. */
#ifndef FL_CONTROLLER_KUBE_WATCH_END_H
#define FL_CONTROLLER_KUBE_WATCH_END_H

#include <stdbool.h>

#include "common/base/span.h"
#include "common/model/cause.h"
#include "controller/decide/watch_plan.h"
#include "controller/kube/kube_client.h"

struct fl_watch_ending {
    enum fl_watch_end how;
    int64_t retry_after_ms;
    int status, os_errno; /* 0: none */
    enum fl_curl_fault fault;
    char text[256];
};

/* The Status of an ERROR event. False: it is none. */
bool fl_watch_ending_of_event(struct fl_span status, struct fl_watch_ending *ret);
/* An answer that is not a 2xx come to its end. head_came: of a 2xx. */
void fl_watch_ending_of_answer(const struct fl_kube_answer *a, bool head_came,
                               struct fl_watch_ending *ret);
void fl_watch_ending_set(struct fl_watch_ending *e, enum fl_watch_end how, const char *text);
/* "watch pods: connect to https://10.96.0.1:443 failed (Connection refused)" */
void fl_watch_ending_cause(const struct fl_watch_ending *e, const char *verb, const char *resource,
                           struct fl_cause *ret);

#endif
