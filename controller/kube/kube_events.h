/* kube_events - Events (events.k8s.io/v1) that people see with `kubectl events` and `kubectl
 * describe`, series-deduplicated by decide/event_series. Best effort: what cannot be written is
 * counted and logged once, never queued without bound, and nothing waits for it.
 *
 * One thread: the reactor's. */
#ifndef FL_CONTROLLER_KUBE_KUBE_EVENTS_H
#define FL_CONTROLLER_KUBE_KUBE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/io/log.h"
#include "common/io/reactor.h"
#include "controller/kube/kube_client.h"

struct fl_kube_events;

/* The reasons of contract-cluster.md section 3. */
// clang-format off
#define FL_EVENT_REASONS(X)                                                                             \
    X(INJECTED,             "Injected",                   NORMAL)                                       \
    X(INJECTION_SKIPPED,    "InjectionSkipped",           WARNING)                                      \
    X(INJECTION_MISSED,     "InjectionMissed",            WARNING)                                      \
    X(INVALID_ANNOTATION,   "InvalidAnnotation",          WARNING)                                      \
    X(BACKEND_UNREACHABLE,  "BackendUnreachable",         WARNING)                                      \
    X(BACKEND_CREDENTIALS,  "BackendCredentialsRejected", WARNING)                                      \
    X(BACKEND_ERRORING,     "BackendErroring",            WARNING)                                      \
    X(BACKEND_RECOVERED,    "BackendRecovered",           NORMAL)                                       \
    X(SIDECAR_UNREACHABLE,  "SidecarUnreachable",         WARNING)                                      \
    X(GATE_TIMED_OUT,       "GateTimedOut",               WARNING)
// clang-format on
#define X(id, token, type) FL_EVENT_##id,
enum fl_event_reason { FL_EVENT_REASONS(X) FL_EVENT_REASON_COUNT };
#undef X

struct fl_event_about { /* copied */
    const char *api_version, *kind, *namespace, *name, *uid;
};

/* instance: our pod's name; copied. 0, -EINVAL (it is empty), -ENOMEM. */
FL_MUST_USE int fl_kube_events_new(struct fl_kube *kube, struct fl_reactor *r,
                                   const struct fl_log *log, const char *instance,
                                   struct fl_kube_events **ret);
/* Breaks off what is in flight. Accepts NULL, returns NULL. */
struct fl_kube_events *fl_kube_events_free(struct fl_kube_events *e);
/* In the next turn, if at all. NULL is as good as "" in about. note: at most 1,024 bytes, else cut
 * at a character. Written into about's namespace ("default" if it has none). */
void fl_kube_events_say(struct fl_kube_events *e, enum fl_event_reason reason,
                        const struct fl_event_about *about, const char *action, const char *note);
struct fl_kube_events_totals { /* of writes; of facts; of facts */
    uint64_t written, folded, lost;
};
struct fl_kube_events_totals fl_kube_events_totals(const struct fl_kube_events *e);

#endif
