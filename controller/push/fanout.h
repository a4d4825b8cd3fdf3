/* fanout - delivers the state to every sidecar: push_plan decides, libcurl carries, each push is
 * signed for its sidecar (contract-cluster.md section 4). What the sidecars answer is kept here.
 *
 * One thread: the reactor's. */
#ifndef FL_CONTROLLER_PUSH_FANOUT_H
#define FL_CONTROLLER_PUSH_FANOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/codec/answer_json.h"
#include "common/io/log.h"
#include "common/io/reactor.h"
#include "common/model/controller_config.h"
#include "common/model/state.h"
#include "common/sign/sign_key.h"
#include "controller/decide/push_plan.h"

struct fl_fanout;

struct fl_fanout_conf {
    struct fl_reactor *reactor;
    const struct fl_log *log;
    const struct fl_sign_key *key; /* NULL: nothing can be pushed, there must be no sidecars */
    int64_t epoch;                 /* the start, in unix seconds */
    uint64_t seed;                 /* of the jitter */
};

FL_MUST_USE int fl_fanout_new(const struct fl_fanout_conf *conf, struct fl_fanout **ret);
/* Pushes in flight are broken off. Accepts NULL, returns NULL. */
struct fl_fanout *fl_fanout_free(struct fl_fanout *f);

/* Later pushes are signed with this one. NULL only while there are no sidecars. */
void fl_fanout_set_key(struct fl_fanout *f, const struct fl_sign_key *key);
/* Takes interval, settle, concurrency, timeout and the list of sidecars; those that stay (address
 * and id) keep what is known of them. Nothing of c is kept. 0 or -ENOMEM (some sidecars are
 * missing). */
FL_MUST_USE int fl_fanout_configure(struct fl_fanout *f, const struct fl_controller_config *c);
/* The newest state; taken over. Nothing is sent to those who have it. at_once: do not let it
 * settle. */
void fl_fanout_offer(struct fl_fanout *f, struct fl_state *s, bool at_once);
const struct fl_state *fl_fanout_state(const struct fl_fanout *f); /* NULL: none yet */

struct fl_fanout_view { /* one sidecar */
    const char *address, *id;
    int64_t acked_epoch, acked_seq; /* 0: never reached */
    int64_t acked_unix_ms;
    int64_t lag_ms;
    unsigned failures; /* in a row */
    const struct fl_cause
        *error; /* of the last failure; its code is empty while the last push was good */
    const char *hint;
    const struct fl_observation *observations; /* of the last answer */
    uint32_t observation_count;
};

uint32_t fl_fanout_count(const struct fl_fanout *f);
/* i below count; in the order of the configuration. Lives until the next turn. */
void fl_fanout_view(const struct fl_fanout *f, uint32_t i, struct fl_fanout_view *ret);
uint64_t fl_fanout_total(const struct fl_fanout *f,
                         enum fl_push_result r); /* pushes that ended so */

#endif
