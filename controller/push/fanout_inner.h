/* fanout_inner - one sidecar, as the files of this folder see it. Nobody outside includes this. */
#ifndef FL_CONTROLLER_PUSH_FANOUT_INNER_H
#define FL_CONTROLLER_PUSH_FANOUT_INNER_H

#include "common/base/arena.h"
#include "common/io/bridge/curl_bridge.h"
#include "common/io/log.h"
#include "controller/decide/push_plan.h"
#include "controller/push/edition.h"
#include "controller/push/push_judge.h"

#define FL_SIDECAR_ANSWER_MAX_BYTES ((size_t)8 << 20)

struct fl_sidecar {
    struct fl_push_target target;
    struct fl_fanout *owner;
    const char *address, *id, *url; /* into text */
    struct fl_edition *edition;     /* of the push in flight */
    struct fl_curl_call *call;
    bool kept;    /* while the list is made anew */
    bool reached; /* ever */

    /* of the last good answer */
    int64_t acked_epoch, acked_seq, acked_unix_ms;
    struct fl_arena arena;
    const struct fl_observation *observations;
    uint32_t observation_count;

    /* of the failures in a row */
    struct fl_cause error;
    const char *hint;
    int64_t failing_since_ms;
    char text[];
};

/* Keeps the cause, and tells people what is worth telling, once. `sent` is the epoch of the push.
 */
void fl_fanout_say(const struct fl_log *log, struct fl_sidecar *s,
                   const struct fl_push_judgement *j, enum fl_push_lesson lesson, int64_t sent,
                   int64_t now_ms);

#endif
