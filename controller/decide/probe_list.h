/* probe_list - what the controller probes, over all configurations: backends with their subjects
 * (compose.h) and the peers of each that it may probe. Made anew at each change of members or
 * configuration, read by controller/probe, and gone after. A subject may be there several times,
 * from configurations that share it: their peers together are probed, each once. Pure. */
#ifndef FL_CONTROLLER_DECIDE_PROBE_LIST_H
#define FL_CONTROLLER_DECIDE_PROBE_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/check.h"
#include "common/model/controller_config.h"
#include "common/model/state.h"
#include "controller/decide/compose.h"

/* A pod's own interval makes the controller no busier than this. */
#define FL_PROBE_ANNOTATED_INTERVAL_MIN_MS 5000

struct fl_probe_item {
    char subject[FL_SUBJECT_MAX];
    const struct fl_config *routes; /* whose buckets an s3 probe may ask for */
    struct fl_backend_conf backend; /* as it is probed; its peers have no meaning */
    const struct fl_peer_conf *peers;
    uint32_t peer_count;
};

struct fl_probe_list {
    struct fl_arena arena;
    struct fl_probe_item *items;
    uint32_t count, room;
};

void fl_probe_list_init(struct fl_probe_list *l);
void fl_probe_list_done(struct fl_probe_list *l);

/* The peers of a composed state: with pod NULL of the controller's own backends, else of those that
 * the pod's annotations define. With a file source, one of its own backends that the sidecars'
 * files define (fl_compose_owns) has no protocol here: unless a probe type is given, a connect is
 * all that it is asked. c, pod and state must outlive the list. False: no memory, the list is as it
 * was. */
FL_MUST_USE bool fl_probe_list_add(struct fl_probe_list *l, const struct fl_controller_config *c,
                                   const struct fl_pod_overlay *pod, const struct fl_state *state);

#endif
