/* curl_bridge - HTTP calls of the controller: libcurl's multi-socket interface on our reactor.
 *
 * libcurl wants its sockets level-triggered and with changing interest, the reactor has them
 * edge-triggered once: so they live in an epoll of their own, which is nested in the reactor, as
 * libmicrohttpd's is. No thread but the one libcurl starts while it resolves a host name.
 *
 * A call is bounded: HTTP/1.1 only, one time limit for the whole of it, a limit for its answer, no
 * redirects, no proxy (the environment is not asked), no netrc, no cookies, a connection of its
 * own.
 *
 * One thread: the reactor's. */
#ifndef FL_COMMON_IO_BRIDGE_CURL_BRIDGE_H
#define FL_COMMON_IO_BRIDGE_CURL_BRIDGE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/span.h"
#include "common/io/reactor.h"

struct fl_curl;      /* the calls of one reactor */
struct fl_curl_call; /* one call; lives until its done has returned, or until it is cancelled */

/* What went wrong below HTTP. An answer may still be there in part. */
enum fl_curl_fault {
    FL_CURL_NONE,
    FL_CURL_RESOLVE,         /* the host name has no address */
    FL_CURL_CONNECT,         /* refused, unreachable …: os_errno says which */
    FL_CURL_CONNECT_TIMEOUT, /* the time limit passed before there was a connection */
    FL_CURL_TIMEOUT,         /* … before the answer was whole */
    FL_CURL_ENDED,           /* the connection ended before the answer was whole */
    FL_CURL_NOT_HTTP,        /* what came is not HTTP/1.1 */
    FL_CURL_TOO_LONG,        /* the answer is longer than answer_max_bytes */
    FL_CURL_OTHER,           /* our own side: memory, descriptors, a bad URL */
};

struct fl_curl_answer {
    enum fl_curl_fault fault;
    int status;          /* of the answer; 0: none came */
    int os_errno;        /* positive; 0: not known */
    struct fl_span body; /* lives until done returns */
    const char *text;    /* libcurl's words on the fault; "" none; lives as body */
};

/* Called once per call, on the reactor's thread and never from within start. It may start and
 * cancel calls. */
typedef void fl_curl_fn(void *arg, const struct fl_curl_answer *answer);

struct fl_curl_conf {
    const char *method, *url;  /* copied; the URL's scheme must be http */
    const char *const *fields; /* "Name: value", NULL-terminated; copied */
    struct fl_span body;       /* must live as long as the call; an empty one is none */
    int64_t timeout_ms;        /* > 0 */
    size_t answer_max_bytes;
    fl_curl_fn *done;
    void *arg;
};

FL_MUST_USE int fl_curl_new(struct fl_reactor *r, struct fl_curl **ret); /* 0 or -errno */
/* Cancels every call. Not from within done. Accepts NULL, returns NULL. */
struct fl_curl *fl_curl_free(struct fl_curl *c);
/* 0, -ENOMEM, -EINVAL (libcurl does not take it). */
FL_MUST_USE int fl_curl_start(struct fl_curl *c, const struct fl_curl_conf *conf,
                              struct fl_curl_call **ret);
/* done is not called any more; *call becomes NULL. Accepts a pointer to NULL. Not for the call that
 * is just being answered. */
void fl_curl_cancel(struct fl_curl_call **call);

#endif
