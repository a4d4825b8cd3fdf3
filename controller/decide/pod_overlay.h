/* pod_overlay - what the annotations of a pod say (contract-cluster.md section 1), read by
 * controller/codec/pod_config: routes and backends that go over the controller's own, and what is
 * wrong with them. One is shared by all pods of a configuration (fl_pods_configuration).
 *
 * A bad annotation costs its own route only: that one is there with `invalid` set, and sidecars
 * answer 503 bad_route with that reason.
 *
 * Immutable once read. Pure. */
#ifndef FL_CONTROLLER_DECIDE_POD_OVERLAY_H
#define FL_CONTROLLER_DECIDE_POD_OVERLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/fmt.h"
#include "common/model/config.h"
#include "common/model/findings.h"

/* Kinds of findings, with the label of the metric annotation_errors. */
// clang-format off
#define FL_ANNOTATION_FAULTS(X)                                                                    \
    X(UNKNOWN,  "unknown_annotation") /* a key of our domain that means nothing */                 \
    X(SYNTAX,   "bad_yaml")                                                                        \
    X(VALUE,    "bad_value")          /* a key or a value in it is wrong */                        \
    X(REFUSED,  "not_allowed")        /* its author is not trusted with it */                      \
    X(BACKEND,  "unknown_backend")                                                                 \
    X(TWICE,    "given_twice")                                                                     \
    X(TOO_MANY, "too_many")                                                                        \
    X(SPELLING, "spelling")           /* a warning: understood, but not written as it should be */
// clang-format on
#define X(id, token) FL_ANNOTATION_##id,
enum fl_annotation_fault { FL_ANNOTATION_FAULTS(X) FL_ANNOTATION_FAULT_COUNT };
#undef X
const char *fl_annotation_fault_token(enum fl_annotation_fault fault);

struct fl_annotation_finding {
    enum fl_severity severity;
    enum fl_annotation_fault fault;
    const char *annotation; /* its key, as it was written */
    const char *text;       /* "annotation route.fairlead.dev/releases: ..."; printable */
    const struct fl_annotation_finding *next;
};

enum fl_gate_wish { FL_GATE_WISH_NONE, FL_GATE_WISH_STARTUP, FL_GATE_WISH_LIVE };

#define FL_POD_FINDINGS_MAX 100 /* kept; all are counted */

struct fl_pod_overlay {
    /* Finished. Its routes and backends are the pod's own, implicit backends of Services
     * included. Its other keys are the sidecar-wide ones that are valid, for whoever injects; they
     * are no part of a state. Owns all texts. */
    struct fl_config *own;
    const char **sources;  /* of each of own's routes the annotation that it comes from */
    const char *document;  /* the key of fairlead.dev/routes as it was written; NULL: none */
    bool closed;           /* that one cannot be read: nobody knows which routes it has */
    const char *namespace; /* of the pod */
    bool env;              /* fairlead.dev/env */
    enum fl_gate_wish gate;
    const struct fl_annotation_finding *first;
    struct fl_annotation_finding *last;
    uint32_t errors, warnings;
    uint32_t faults[FL_ANNOTATION_FAULT_COUNT]; /* errors by kind */
};

FL_MUST_USE struct fl_pod_overlay *
fl_pod_overlay_new(const char *namespace);                            /* empty; NULL = no memory */
struct fl_pod_overlay *fl_pod_overlay_free(struct fl_pod_overlay *o); /* accepts NULL */

/* Nothing in it goes over the controller's own: a pod without annotations, or with sidecar-wide
 * ones only. */
bool fl_pod_overlay_is_empty(const struct fl_pod_overlay *o);

/* "annotation KEY: TEXT" with TEXT as of printf. What memory or FL_POD_FINDINGS_MAX leaves no room
 * for is counted. */
void fl_pod_overlay_add(struct fl_pod_overlay *o, enum fl_severity severity,
                        enum fl_annotation_fault fault, const char *annotation, const char *fmt,
                        ...) FL_PRINTF(5, 6);
/* All that is wrong in one sentence, for an Event or a condition (1024 bytes there): the first
 * error, and how many more there are. "" without errors. */
#define FL_POD_OVERLAY_SAID_MAX 1024
void fl_pod_overlay_say(const struct fl_pod_overlay *o, char ret[FL_POD_OVERLAY_SAID_MAX]);

#endif
