/* kube_decode - one Kubernetes object from its JSON text, read in place (json_walk): no tree, and
 * what is not wanted (managedFields, most of a pod's spec) costs a look at its brackets. Unknown
 * fields are skipped, an absent one is "" or its nil rule; a field of a wrong kind, and an object
 * without namespace or name, are refused. The arena owns the result. No fds. */
#ifndef FL_CONTROLLER_CODEC_KUBE_DECODE_H
#define FL_CONTROLLER_CODEC_KUBE_DECODE_H

#include "common/base/arena.h"
#include "common/base/check.h"
#include "common/base/span.h"
#include "controller/decide/kube_objects.h"

/* 0, -EBADMSG, -ENOMEM. *ret is touched on 0 only. */
FL_MUST_USE int fl_kube_decode_slice(struct fl_span json, struct fl_arena *a,
                                     struct fl_kube_slice *ret);
FL_MUST_USE int fl_kube_decode_service(struct fl_span json, struct fl_arena *a,
                                       struct fl_kube_service *ret);
FL_MUST_USE int fl_kube_decode_pod(struct fl_span json, struct fl_arena *a,
                                   struct fl_kube_pod *ret);
/* metadata only: any object, a bookmark too. */
FL_MUST_USE int fl_kube_decode_meta(struct fl_span json, struct fl_arena *a,
                                    struct fl_kube_meta *ret);
/* The bookmark that ends the initial events of a streamed list (annotation
 * k8s.io/initial-events-end). */
bool fl_kube_decode_is_initial_end(struct fl_span json);

struct fl_kube_status { /* meta/v1 Status: an error in words */
    int code;
    const char *reason, *message;
    bool version_too_large;    /* a cause of reason ResourceVersionTooLarge */
    bool names_initial_events; /* a 422 about sendInitialEvents: streamed lists are off there */
    int64_t retry_after_s;     /* details.retryAfterSeconds; 0 none */
};
FL_MUST_USE int fl_kube_decode_status(struct fl_span json, struct fl_arena *a,
                                      struct fl_kube_status *ret);

#endif
