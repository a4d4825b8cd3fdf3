/* kube_watch - one resource, listed and then watched for ever: carries out decide/watch_plan with
 * kube_client and splits the answers with codec/kube_stream. Whatever happens, what was known stays
 * known, and its age and the reason can be seen.
 *
 * One thread: the reactor's. */
#ifndef FL_CONTROLLER_KUBE_KUBE_WATCH_H
#define FL_CONTROLLER_KUBE_KUBE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/fmt.h"
#include "common/io/log.h"
#include "common/io/reactor.h"
#include "controller/codec/kube_stream.h"
#include "controller/decide/watch_plan.h"
#include "controller/kube/kube_client.h"

struct fl_kube_watch;

/* How long is long; 0: the usual. Tests have shorter ones. */
struct fl_kube_watch_limits {
    int64_t head_ms;        /* for the head of a watch's answer: 30 s */
    int64_t stall_ms;       /* without a byte of a watch: FL_WATCH_STALL_MS */
    int64_t grace_ms;       /* what a watch may take beyond its timeoutSeconds: 30 s */
    int64_t backoff_min_ms; /* FL_WATCH_BACKOFF_MIN_MS */
    int timeout_s;          /* timeoutSeconds: drawn by the plan */
};

/* All functions are called from within the arrival of bytes; they may start and cancel calls of
 * kube, but must not free this watch. */
struct fl_kube_watch_conf { /* texts are copied */
    struct fl_kube *kube;
    struct fl_reactor *reactor;
    const struct fl_log *log;
    const char *resource; /* "endpointslices": metric, messages */
    const char *path;     /* "/apis/discovery.k8s.io/v1/endpointslices" */
    const char *selector; /* a label selector as written, "" none; encoded here */
    uint64_t seed;
    /* A list begins: what is not `object`ed until its `synced` is gone. It may begin again before
     * that. */
    void (*begin)(void *arg);
    /* ADDED, MODIFIED or DELETED; json lives until it returns. False: could not be decoded, it is
     * counted and skipped. */
    bool (*object)(void *arg, enum fl_kube_event event, struct fl_span json);
    void (*synced)(void *arg); /* the list is whole */
    void (*state)(void *arg);  /* it began to fail, or works again; NULL: nobody asks */
    void *arg;
    struct fl_kube_watch_limits limits;
};

FL_MUST_USE int fl_kube_watch_new(const struct fl_kube_watch_conf *conf,
                                  struct fl_kube_watch **ret);
struct fl_kube_watch *fl_kube_watch_free(struct fl_kube_watch *w); /* not from a callback */
/* What it waits for may have come (a right was granted): tries again at the end of this turn. */
void fl_kube_watch_hurry(struct fl_kube_watch *w);

struct fl_kube_watch_view {
    const char *resource;
    bool synced;    /* a list was whole once: what is known is worth something */
    int64_t age_ms; /* since anything was last heard (an event, a bookmark, a whole list, a watch
                       that was taken up); since new when nothing was */
    bool failing;
    struct fl_cause fault; /* of the failure in force, naming verb and resource; code "" none */
    uint64_t skipped;      /* objects that could not be decoded, events of an unknown type */
    uint64_t ends[FL_WATCH_END_COUNT];
};
void fl_kube_watch_view(const struct fl_kube_watch *w, struct fl_kube_watch_view *ret);

#endif
