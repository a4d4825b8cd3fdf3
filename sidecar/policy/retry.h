/* retry - may this exchange try another peer? A total function of a few facts that says why
 * (behaviour.md section 3). Pure. */
#ifndef FL_SIDECAR_POLICY_RETRY_H
#define FL_SIDECAR_POLICY_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/config.h"
#include "common/model/outcome.h"
#include "sidecar/policy/s3_operation.h"

// clang-format off
/* In the order in which they are looked at; tokens are metric labels (contract.md section 8). */
#define FL_RETRY_REASONS(X)                                                                                       \
    X(YES, "") X(RESPONSE_STARTED, "response_started") X(CLIENT_GONE, "client_gone") X(NOT_LISTED, "not_listed")   \
    X(CLASS, "class") X(BODY_NOT_REPLAYABLE, "body_not_replayable") X(TRIES, "tries") X(TIME, "time")              \
    X(DEADLINE, "deadline") X(BUDGET, "budget") X(NO_PEER, "no_peer")
// clang-format on
#define X(id, token) FL_RETRY_##id,
enum fl_retry { FL_RETRY_REASONS(X) FL_RETRY_COUNT };
#undef X

enum fl_sent {
    FL_SENT_NOTHING, /* no byte reached the kernel, or the request waits for its 100-continue with a
                        body unsent */
    FL_SENT_PARTLY,
    FL_SENT_FULLY,
};

struct fl_retry_facts {
    bool response_started, client_gone;
    enum fl_outcome outcome;
    int status; /* of the response that was judged, 0 = none */
    enum fl_replay_class class;
    enum fl_sent sent;
    bool body_held;      /* everything sent so far can be sent again */
    uint32_t tries_used; /* attempts, stale-reuse replays not counted */
    uint32_t peers;      /* tries 0 means this many */
    int64_t elapsed_ms;  /* since the first try began */
    bool deadline_passed;
    bool budget_ok; /* a token is there, or none is needed */
    bool peer_left; /* an untried usable peer exists */
};

enum fl_retry fl_retry_decide(const struct fl_policy_conf *p, const struct fl_retry_facts *f);
/* May a request of this class be sent again to the same peer after stale reuse, given what was
 * sent? (no try is spent) */
bool fl_retry_stale_replay(const struct fl_policy_conf *p, enum fl_replay_class class,
                           enum fl_sent sent, bool body_held);
/* Does the class let a request be repeated once it is fully sent and the (kept) connection ends?
 * Decides whether it may ride a connection that has been idle (behaviour.md section 1, stale
 * reuse). */
bool fl_retry_may_ride_idle(const struct fl_policy_conf *p, enum fl_replay_class class,
                            bool body_wholly_held);
const char *fl_retry_name(enum fl_retry r);

#endif
