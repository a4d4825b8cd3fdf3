/* delivery - from what is known to what is pushed and probed: composes the state of each
 * configuration from members, annotations and verdicts, hands it to the fan-out, and keeps the
 * prober at the peers that are in them.
 *
 * A *group* is the sidecars of one configuration: "" (all that the controller's own configuration
 * says) and one for each set of pod annotations.
 *
 * Every replica composes, so that a new leader pushes at once; only who pushes probes.
 *
 * One thread: the reactor's. */
#ifndef FL_CONTROLLER_DELIVERY_DELIVERY_H
#define FL_CONTROLLER_DELIVERY_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/io/log.h"
#include "common/io/reactor.h"
#include "common/model/controller_config.h"
#include "controller/decide/membership.h"
#include "controller/decide/pod_overlay.h"
#include "controller/decide/pods.h"
#include "controller/decide/verdict_table.h"
#include "controller/probe/backend_notice.h"
#include "controller/probe/cluster_prober.h"
#include "controller/push/fanout.h"

struct fl_delivery;

struct fl_delivery_source { /* what is known now; borrowed until it changes */
    bool known;             /* else nothing is pushed: sidecars keep what they have */
    struct fl_membership membership;
    const struct fl_pods *pods; /* NULL: the sidecars are those of the configuration */
};

/* Why something is made anew; a set of bits. For members and pods only those states are made whose
 * services have changed (the watches bring all services of a cluster). */
enum {
    FL_DELIVERY_MEMBERS = 1,
    FL_DELIVERY_PODS = 2,
    FL_DELIVERY_CONFIG = 4,
    FL_DELIVERY_VERDICTS = 8,
    FL_DELIVERY_PROBES = 16 /* what is probed, or how, may be another */
};

struct fl_delivery_conf {
    struct fl_reactor *reactor;
    const struct fl_log *log;
    bool elected;  /* as in fanout.h */
    int64_t epoch; /* not elected */
    uint64_t seed;
    void (*source)(void *arg, struct fl_delivery_source *ret);
    void (*composed)(void *arg); /* what the pages show is another; NULL: nobody asks */
    bool (*hurry)(void *arg);    /* somebody waits for the end of a probe; NULL: nobody ever */
    /* For Events; NULL: nobody listens. Only while we push. */
    void (*epoch_met)(void *arg, int64_t higher);
    void (*sidecar_news)(void *arg, enum fl_fanout_news what, const struct fl_fanout_view *who);
    void (*backend_news)(void *arg, const struct fl_backend_news *news);
    void (*annotation_news)(void *arg, const struct fl_kube_pod *pod, const char *said);
    void *arg;
};

FL_MUST_USE int fl_delivery_new(const struct fl_delivery_conf *conf, struct fl_delivery **ret);
/* Turn the reactor once more before it is freed. Accepts NULL, returns NULL. */
struct fl_delivery *fl_delivery_free(struct fl_delivery *d);

/* c must outlive the delivery or the next configure; *key is taken over. */
void fl_delivery_configure(struct fl_delivery *d, const struct fl_controller_config *c,
                           struct fl_sign_key **key);
/* Makes states anew, now. What is probed follows at once when it may be another (CONFIG, PROBES);
 * after other members or pods when their pushes have left, 200 ms later at the latest, and with it
 * the state of "" where no sidecar has that. `composed` is called after it. */
void fl_delivery_look(struct fl_delivery *d, unsigned why);
/* Makes at once what still waits behind pushes: for whoever wants to see it, or asks for a probe.
 */
void fl_delivery_catch_up(struct fl_delivery *d);

/* Elected: we push and probe from now on, under this epoch; or no more. */
void fl_delivery_lead(struct fl_delivery *d, int64_t epoch);
void fl_delivery_follow(struct fl_delivery *d);

/* ---- what the pages show ---- */

struct fl_fanout *fl_delivery_fanout(const struct fl_delivery *d);
const struct fl_verdict_table *fl_delivery_verdicts(const struct fl_delivery *d);
struct fl_cluster_prober *fl_delivery_prober(const struct fl_delivery *d);

struct fl_delivery_backend {
    char subject[FL_SUBJECT_MAX];     /* of probes and verdicts; unique among those shown */
    const char *namespace;            /* of the pods whose annotations define it; "" our own */
    const struct fl_state *state;     /* of one configuration that has it */
    const struct fl_state_backend *b; /* in it */
};
/* Walks the backends of all groups, each subject once, ours first: *at starts at 0; false at the
 * end. */
bool fl_delivery_next(const struct fl_delivery *d, size_t *at, struct fl_delivery_backend *ret);
/* Under which subject a backend of this configuration is probed; its own name when it is not known.
 */
void fl_delivery_subject(const struct fl_delivery *d, const char *configuration,
                         const char *backend, char ret[FL_SUBJECT_MAX]);
/* What is wrong with the annotations of a configuration; NULL: it has none, or all is well. */
const struct fl_pod_overlay *fl_delivery_overlay(const struct fl_delivery *d,
                                                 const char *configuration);
/* Walks the groups: *at starts as NULL; NULL at the end. */
struct fl_group;
const struct fl_pod_overlay *fl_delivery_next_overlay(const struct fl_delivery *d,
                                                      const struct fl_group **at,
                                                      uint32_t *ret_pods);

#endif
