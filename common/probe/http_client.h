/* http_client - a small HTTP/1.1 client for probes and pushes: one request at a time to one
 * address, on a connection that is kept between requests. It uses the connect and HTTP code of the
 * traffic, so a probe finds what a request would find, and says it in the same words.
 *
 * A kept connection that the peer ends, or on which anything arrives unasked, is closed at once by
 * its edge. A request is never repeated here: that is the caller's decision (probe_plan,
 * push_line). Memory besides the struct is held only while a request is under way.
 *
 * Under TLS each new connection is a handshake in full: a probe is to see the certificate as it is
 * now. Never in clear to an address that wants TLS.
 *
 * The reactor's thread only. */
#ifndef FL_COMMON_PROBE_HTTP_CLIENT_H
#define FL_COMMON_PROBE_HTTP_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/addr.h"
#include "common/base/check.h"
#include "common/base/span.h"
#include "common/http1/head_parse.h"
#include "common/io/reactor.h"
#include "common/model/outcome.h"
#include "common/tls/tls_terms.h"
#include "common/verdict/probe_plan.h"

#define FL_HTTP_BODY_KEPT 4096
#define FL_HTTP_BODY_DRAINED                                                                       \
    (256 * 1024) /* read on this far (or as far as is kept), so that the connection can be kept */
#define FL_HTTP_BODY_MS 5000 /* the head has answered; its body is waited for this long */

struct fl_http_client;

struct fl_http_ask {
    struct fl_addr to;
    bool tls;
    struct fl_tls_terms *terms; /* the caller's, until answered; NULL with tls: TLS_FAILED */
    const char *tls_name;       /* sent and verified; "" or NULL: the address. Until answered */
    bool fresh;                 /* not on the kept connection */
    enum fl_http_method method; /* of the request; decides about the body of the answer */
    struct fl_span text; /* the request, copied; empty: the connection is all that is asked */
    struct fl_span body; /* sent behind text, not copied: it must live until answered */
    int64_t connect_ms;  /* limit of the connect, handshake included */
    int64_t answer_ms;   /* limit from there to the end of the head */
    int64_t total_ms;    /* limit for all of it, the body too; 0: none of its own */
    size_t keep;         /* at most so much of the answer's body; 0: FL_HTTP_BODY_KEPT */
};

struct fl_http_answer {       /* valid until the callback returns */
    enum fl_outcome outcome;  /* OK: a complete final head came (or connected, without a text) */
    enum fl_probe_step step;  /* where it ended; NONE when OK */
    int os_errno;             /* positive, 0 = none */
    enum fl_http_error error; /* of INVALID_HEADER */
    bool reused;              /* it went out on the kept connection */
    const struct fl_response_head *head; /* NULL unless a head came */
    const char *head_text;               /* what head's offsets count from */
    struct fl_span body;                 /* its first bytes, unframed */
    bool whole;                          /* … and these are all, and it ended as it should */
    bool late;                           /* not whole, for its time was up */
};

/* May ask again from within, or free the client. */
typedef void fl_http_answered_fn(void *arg, const struct fl_http_answer *a);

FL_MUST_USE int fl_http_client_new(struct fl_reactor *r, fl_http_answered_fn *answered, void *arg,
                                   struct fl_http_client **ret);
/* Cancels. The memory goes at the end of the turn (turn once more before the reactor is freed).
 * Accepts NULL, returns NULL. */
struct fl_http_client *fl_http_client_free(struct fl_http_client *c);
/* None may be under way. The callback comes in a later turn, never from within. 0 or -ENOMEM. */
FL_MUST_USE int fl_http_client_ask(struct fl_http_client *c, const struct fl_http_ask *ask);
bool fl_http_client_busy(const struct fl_http_client *c);
enum fl_probe_step fl_http_client_step(const struct fl_http_client *c); /* where it is; busy */
/* Ends what is under way without a callback, and closes the connection. */
void fl_http_client_drop(struct fl_http_client *c);

#endif
