/* kube_client - calls of the Kubernetes API on libcurl (curl_bridge): short ones with a whole
 * answer, and streams. HTTP/1.1, `Accept: application/json`, identity encoding, a User-Agent of our
 * own. A 401 reads the token again and is tried once more here, so that callers see a 401 only when
 * the fresh token is refused too. Every try is counted by (verb, resource, code). Connections are
 * kept and used again; when the CA has changed, or a call met silence or a sudden end, those that
 * are kept are not used any more. `Warning:` fields are logged, each text once.
 *
 * One thread: the reactor's. */
#ifndef FL_CONTROLLER_KUBE_KUBE_CLIENT_H
#define FL_CONTROLLER_KUBE_KUBE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/fmt.h"
#include "common/base/span.h"
#include "common/io/bridge/curl_bridge.h"
#include "common/io/log.h"
#include "common/io/reactor.h"
#include "controller/kube/kube_access.h"

struct fl_kube;
struct fl_kube_call;

FL_MUST_USE int fl_kube_new(struct fl_reactor *r, const struct fl_log *log,
                            struct fl_kube_access *access, struct fl_kube **ret);
struct fl_kube *fl_kube_free(struct fl_kube *k); /* cancels everything; access is not taken over */
const char *fl_kube_namespace(const struct fl_kube *k); /* ours; "" unknown */

struct fl_kube_answer {
    enum fl_curl_fault fault; /* below HTTP; then status is 0 or what came before it */
    int status, os_errno;
    int64_t retry_after_ms; /* of the field Retry-After; 0 none */
    struct fl_span body;    /* lives until done returns; of a stream: of an error status only */
    const char *text;       /* a sentence for people: Status.message, or what the connection met */
};
typedef void fl_kube_done_fn(void *arg, const struct fl_kube_answer *answer);
/* Bytes of a 2xx body as they arrive; first, once, an empty run: the answer's head has come. False:
 * end it; done is called with fault FL_CURL_OTHER. Other calls may be started from within, and any
 * be cancelled, this one too. */
typedef bool fl_kube_some_fn(void *arg, struct fl_span bytes);

struct fl_kube_request {
    const char *verb, *resource; /* for the metric: "list" "pods" */
    const char *method;
    const char *path;         /* with its query, percent-encoded: "/api/v1/pods?watch=1" */
    const char *content_type; /* with a body */
    struct fl_span body;      /* copied */
    int64_t timeout_ms;       /* of the whole call; at most 10 s of it for being connected */
    int64_t stall_ms;      /* no byte for so long ends it with FL_CURL_TIMEOUT; 0: no such limit */
    fl_kube_some_fn *some; /* NULL: the whole answer (<= 4 MiB) is collected for done */
    fl_kube_done_fn *done; /* once, never from within start */
    void *arg;
};

FL_MUST_USE int fl_kube_start(struct fl_kube *k, const struct fl_kube_request *q,
                              struct fl_kube_call **ret); /* 0 or -errno */
void fl_kube_cancel(
    struct fl_kube_call **call); /* no done; *call becomes NULL; accepts NULL in it */

/* The family fairlead_controller_api_requests_total{verb,resource,code}; code="error": none came.
 */
void fl_kube_metrics(const struct fl_kube *k, struct fl_fmt *out);

#endif
