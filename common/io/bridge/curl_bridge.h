/* curl_bridge - HTTP calls of the controller: libcurl's multi-socket interface on our reactor.
 *
 * libcurl wants its sockets level-triggered and with changing interest, the reactor has them
 * edge-triggered once: so they live in an epoll of their own, which is nested in the reactor, as
 * libmicrohttpd's is. No thread but the one libcurl starts while it resolves a host name.
 *
 * A call is bounded: HTTP/1.1 only, one time limit for the whole of it, a limit for its answer, no
 * redirects, no proxy (the environment is not asked), no netrc, no cookies, no compression asked
 * for, a connection of its own unless it says `reuse`.
 *
 * Its functions `some` and `field` are called from within libcurl, `done` is not. All of them may
 * start and cancel calls, their own too (done: not its own, which has ended); what they start or
 * cancel in `some` and `field` takes effect when libcurl has returned (a body must live until the
 * end of the turn then). fl_curl_free is for outside.
 *
 * One thread: the reactor's. */
#ifndef FL_COMMON_IO_BRIDGE_CURL_BRIDGE_H
#define FL_COMMON_IO_BRIDGE_CURL_BRIDGE_H

#include <stdbool.h>
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
    FL_CURL_CONNECT,         /* refused, unreachable …: os_errno says which; EPROTO: TLS */
    FL_CURL_CONNECT_TIMEOUT, /* the time limit passed before there was a connection */
    FL_CURL_TIMEOUT,         /* … before the answer was whole, or stall_ms without a byte */
    FL_CURL_ENDED,           /* the connection ended before the answer was whole */
    FL_CURL_NOT_HTTP,        /* what came is not HTTP/1.1 */
    FL_CURL_TOO_LONG,        /* the answer is longer than answer_max_bytes */
    FL_CURL_OTHER,           /* our own side: memory, descriptors, a bad URL, `some` said so */
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

/* The body of a 2xx answer, as it arrives: one buffer of libcurl at a time (16 KiB), never more is
 * held, so that a slow taker slows the sender. First an empty run, once: the head has come. False:
 * end the call (its fault is FL_CURL_OTHER). */
typedef bool fl_curl_some_fn(void *arg, struct fl_span bytes);
/* One field of the answer's head. */
typedef void fl_curl_field_fn(void *arg, struct fl_span name, struct fl_span value);

struct fl_curl_tls {                  /* copied; NULL or "" = not set */
    const char *ca_file;              /* whom we trust, and nobody else; not set: the system's */
    const char *cert_file, *key_file; /* who we are */
    bool unverified;                  /* anybody will do */
};

struct fl_curl_conf {
    const char *method, *url;  /* copied; the URL's scheme must be http, or https with `tls` */
    const char *const *fields; /* "Name: value", NULL-terminated; copied */
    struct fl_span body;       /* must live as long as the call; an empty one is none */
    int64_t timeout_ms;        /* > 0 */
    size_t answer_max_bytes;   /* of what is collected */
    fl_curl_fn *done;
    void *arg;
    /* all of these may be left out */
    const struct fl_curl_tls *tls;
    int64_t connect_ms;      /* limit for being connected, TLS and all; 0: timeout_ms */
    int64_t stall_ms;        /* so long without a byte of an answer ends the call; 0: no limit */
    fl_curl_some_fn *some;   /* NULL: the whole answer is collected for done */
    fl_curl_field_fn *field; /* NULL: nobody asks */
    /* Notice within about 50 s that the other side is gone: keepalive 30 s, 10 s x 3, and
     * TCP_USER_TIMEOUT 45 s. */
    bool keepalive;
    /* A kept connection will do, and this one is kept afterwards. When a kept one ends without a
     * byte of an answer, libcurl sends the request again on a new one. */
    bool reuse;
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
/* What the answer's Retry-After asks for (seconds or a date); 0: nothing, or the past. In done. */
int64_t fl_curl_retry_after_ms(const struct fl_curl_call *call);

/* No call that starts from now on uses a connection that was made before: the authorities have
 * changed, or the other side seems to be gone. What is under way goes on. */
void fl_curl_drop_kept(struct fl_curl *c);

#endif
