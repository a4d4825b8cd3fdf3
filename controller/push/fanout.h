/* fanout - delivers to every sidecar the state of its configuration: push_plan decides, push_signer
 * signs each push for its sidecar (contract-cluster.md section 4) on a thread of its own, push_line
 * carries it. What the sidecars answer is kept here.
 *
 * A *configuration* is a key that the caller chooses; sidecars with the same key get the same state
 * in the same bytes. The file source has one, "".
 *
 * Nothing leaves before the end of the turn in which it was asked for, so that what changes
 * together is sent together.
 *
 * Under an election (`elected`) nothing is sent until fl_fanout_lead; what is offered meanwhile is
 * kept, so that a new leader sends at once.
 *
 * All of it is called from one thread: the reactor's. */
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
struct fl_fanout_view;

/* What people should hear of; each unreachable is followed by at most one recovered. */
enum fl_fanout_news {
    FL_FANOUT_UNREACHABLE, /* the third failure in a row: the Event SidecarUnreachable */
    FL_FANOUT_RECOVERED,   /* reached again after that; error and hint are empty */
};

struct fl_fanout_conf {
    struct fl_reactor *reactor;
    const struct fl_log *log;
    bool elected;  /* an election decides who pushes, and under which epoch: we follow at first */
    int64_t epoch; /* not elected: the start, in unix seconds */
    uint64_t seed; /* of the jitter, and of maps */
    /* Both may be NULL, and must neither change targets nor free the fan-out. `who` is as of
     * fl_fanout_glance. */
    void (*epoch_met)(void *arg, int64_t higher); /* elected, and we lead: a sidecar knows a higher
                                                     epoch than ours; once for each higher one */
    void (*news)(void *arg, enum fl_fanout_news what, const struct fl_fanout_view *who);
    void *arg;
};

FL_MUST_USE int fl_fanout_new(const struct fl_fanout_conf *conf, struct fl_fanout **ret);
/* Pushes in flight are broken off. Accepts NULL, returns NULL. */
struct fl_fanout *fl_fanout_free(struct fl_fanout *f);

/* The key that signs from now on; taken over, *key becomes NULL. NULL: nothing changes. Nothing is
 * sent without one.
 *
 * When it is another than before, the sidecars are taught: each gets its state once more, signed by
 * the key of before, with `keys` of both, and from its answer on the new key signs for it. When all
 * that can be reached have answered, after three intervals at the latest, every state carries the
 * new key alone, which takes the old one from the sidecars. Old keys (two) stay here for those that
 * were away: a sidecar that answers 401 is tried with the next older one. */
void fl_fanout_set_key(struct fl_fanout *f, struct fl_sign_key **key);
const char *fl_fanout_keyid(const struct fl_fanout *f); /* of the newest; "" none */

/* Takes interval, settle, concurrency and timeout, and with a file source the list of sidecars.
 * Nothing of c is kept. 0 or -ENOMEM (some sidecars are missing). */
FL_MUST_USE int fl_fanout_configure(struct fl_fanout *f, const struct fl_controller_config *c);

/* ---- whom to push to ---- */

struct fl_fanout_target {                /* copied; "" none, never NULL */
    const char *address;                 /* of its status listener: "10.244.1.5:8422" */
    const char *id;                      /* pod uid */
    const char *namespace, *name, *node; /* for people; as they were when it was first given */
    const char *configuration;
    bool eager; /* its gate is not yet True: pushed to every second */
};

/* A target is known by (address, id). One that is there already keeps what is known of it, whatever
 * its configuration becomes. 0 or -ENOMEM (it is not there, or as before). */
FL_MUST_USE int fl_fanout_put_target(struct fl_fanout *f, const struct fl_fanout_target *t);
bool fl_fanout_remove_target(struct fl_fanout *f, const char *address, const char *id); /* was it */
/* These and no others, in this order. 0 or -ENOMEM (some are missing). */
FL_MUST_USE int fl_fanout_set_targets(struct fl_fanout *f, const struct fl_fanout_target *t,
                                      uint32_t n);

/* ---- what to push ---- */

/* The newest state of a configuration; taken over. Nothing is sent to those who have it. at_once:
 * do not let it settle. A configuration (but "") is forgotten with its last target, and one that
 * was offered before any target came, by the next fl_fanout_set_targets. */
void fl_fanout_offer(struct fl_fanout *f, const char *configuration, struct fl_state *s,
                     bool at_once);
/* NULL: none is known. */
const struct fl_state *fl_fanout_state(const struct fl_fanout *f, const char *configuration);
/* How many sidecars have this configuration. */
uint32_t fl_fanout_targets(const struct fl_fanout *f, const char *configuration);
/* Walks the configurations that are known, in no order: start with *at = 0; NULL at the end. */
const char *fl_fanout_configuration(const struct fl_fanout *f, size_t *at, uint32_t *ret_targets);

/* ---- leadership; elected only ---- */

/* We lead under this epoch, or it was raised: everybody gets its state anew. An epoch below one
 * that was used here is answered by epoch_met, at the end of this turn, and we go on following. */
void fl_fanout_lead(struct fl_fanout *f, int64_t epoch);
/* We do not: what is in flight is broken off, and what was offered in this turn does not leave. */
void fl_fanout_follow(struct fl_fanout *f);
bool fl_fanout_leads(const struct fl_fanout *f);   /* pushes are sent; always, if not elected */
bool fl_fanout_hurries(const struct fl_fanout *f); /* a change waits for a place to leave */
int64_t fl_fanout_epoch(const struct fl_fanout *f);

/* ---- what is known ---- */

struct fl_fanout_view { /* one sidecar */
    const char *address, *id, *namespace, *name, *node, *configuration;
    bool eager;
    int64_t acked_epoch, acked_seq; /* 0: never reached */
    int64_t acked_unix_ms;
    int64_t lag_ms;
    unsigned failures; /* in a row */
    const struct fl_cause
        *error; /* of the last failure; its code is empty while the last push was good */
    const char *hint;
    const struct fl_observation *observations; /* of the last good answer */
    uint32_t observation_count;
};

uint32_t fl_fanout_count(const struct fl_fanout *f);
/* i below count; in the order of fl_fanout_set_targets as long as that alone was used. Lives until
 * the end of the turn. The observations are made for it, of the bytes of the answer: some tens of
 * microseconds for a hundred of them. */
void fl_fanout_view(const struct fl_fanout *f, uint32_t i, struct fl_fanout_view *ret);
/* The same without observations, for who looks at all sidecars. */
void fl_fanout_glance(const struct fl_fanout *f, uint32_t i, struct fl_fanout_view *ret);
/* As glance, by address and id; false: it is not there. */
bool fl_fanout_find(const struct fl_fanout *f, const char *address, const char *id,
                    struct fl_fanout_view *ret);
uint64_t fl_fanout_total(const struct fl_fanout *f,
                         enum fl_push_result r); /* pushes that ended so */

#endif
