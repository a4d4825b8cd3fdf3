/* answer_json - what a sidecar answers to a push (contract-cluster.md section 4): the pair and hash
 * in force, and its own findings, the second vantage point. Encoded by the sidecar, decoded by the
 * controller. No fds. */
#ifndef FL_COMMON_CODEC_ANSWER_JSON_H
#define FL_COMMON_CODEC_ANSWER_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/fmt.h"
#include "common/base/span.h"
#include "common/model/cause.h"
#include "common/model/findings.h"

struct fl_observation {
    const char *backend, *peer; /* peer: its address */
    struct fl_cause cause;      /* code "healthy": reached */
    int64_t since_unix_ms;
    uint64_t failures, requests;
};

struct fl_push_answer {
    int64_t epoch, seq;
    uint64_t hash; /* on the wire: 16 hex digits */
    const struct fl_observation *observations;
    uint32_t count;
};

void fl_answer_json_encode(const struct fl_push_answer *a, struct fl_fmt *out);
/* Strings and observations live in the arena. A 409 has epoch and seq alone; unknown members are
 * nobody's fault. */
bool fl_answer_json_decode(struct fl_span body, struct fl_arena *arena, struct fl_push_answer *ret,
                           struct fl_findings *f);

#endif
