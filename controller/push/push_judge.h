/* push_judge - what the end of a push means: for the plan, and in words for people. No clock, no
 * sockets. */
#ifndef FL_CONTROLLER_PUSH_PUSH_JUDGE_H
#define FL_CONTROLLER_PUSH_PUSH_JUDGE_H

#include "common/model/cause.h"
#include "controller/decide/push_plan.h"
#include "controller/push/push_line.h"

struct fl_push_judgement {
    struct fl_push_report report;
    struct fl_cause cause; /* empty when OK */
    const char *hint;      /* what to look at; "" none; constant text */
};

/* hash: of the set that was sent. address: the sidecar's, for the sentence. */
void fl_push_judge(const struct fl_push_reply *a, const char *address, uint64_t hash,
                   struct fl_push_judgement *ret);

#endif
