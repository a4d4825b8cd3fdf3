/* push_line - the way to one sidecar: a connection that is kept while its owner wants it, and one
 * push at a time on it. A name is looked up anew for each push, and its addresses are tried one
 * after another; a kept connection that ends without a byte of an answer is replaced by a new one,
 * once. Otherwise nothing is repeated here. The reactor's thread only. */
#ifndef FL_CONTROLLER_PUSH_PUSH_LINE_H
#define FL_CONTROLLER_PUSH_PUSH_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/span.h"
#include "common/io/reactor.h"

struct fl_push_lines; /* what all lines of a fan-out share */
struct fl_push_line;

/* What went wrong below HTTP. An answer may still be there in part. */
enum fl_push_fault {
    FL_PUSH_FAULT_NONE,
    FL_PUSH_FAULT_RESOLVE,         /* the host name has no address */
    FL_PUSH_FAULT_CONNECT,         /* refused, unreachable …: os_errno says which */
    FL_PUSH_FAULT_CONNECT_TIMEOUT, /* the time limit passed before there was a connection */
    FL_PUSH_FAULT_TIMEOUT,         /* … before the answer was whole */
    FL_PUSH_FAULT_ENDED,           /* the connection ended before the answer was whole */
    FL_PUSH_FAULT_NOT_HTTP,        /* what came is not HTTP/1.1 */
    FL_PUSH_FAULT_TOO_LONG,        /* the answer is longer than answer_max */
    FL_PUSH_FAULT_OTHER,           /* our own side: memory, descriptors, a bad address */
};

struct fl_push_reply {
    enum fl_push_fault fault;
    int status;          /* of the answer; 0: none came */
    int os_errno;        /* positive; 0: not known */
    struct fl_span body; /* lives until the callback returns */
    const char *text;    /* words on FL_PUSH_FAULT_OTHER; else "" */
};

struct fl_push_request { /* both must live until the reply */
    struct fl_span head; /* with its empty line */
    struct fl_span body;
    int64_t timeout_ms; /* for all of it */
    size_t answer_max;  /* bytes of the answer's body */
};

/* Never called from within send. The line may be closed, and may be sent on again. */
typedef void fl_push_reply_fn(void *arg, const struct fl_push_reply *reply);

FL_MUST_USE int fl_push_lines_new(struct fl_reactor *r, struct fl_push_lines **ret);
/* Every line was closed. Accepts NULL, returns NULL. */
struct fl_push_lines *fl_push_lines_free(struct fl_push_lines *all);

/* address: "ip:port" or "name:port". 0, -ENOMEM, -EINVAL. */
FL_MUST_USE int fl_push_line_open(struct fl_push_lines *all, const char *address,
                                  fl_push_reply_fn *reply, void *arg, struct fl_push_line **ret);
/* A push under way is broken off without a reply. *line becomes NULL; it may have been. The memory
 * goes at the end of the turn. */
void fl_push_line_close(struct fl_push_line **line);
bool fl_push_line_busy(const struct fl_push_line *line); /* NULL: no */
/* It is not busy. 0, -ENOMEM, -EAGAIN (no thread for names). */
FL_MUST_USE int fl_push_line_send(struct fl_push_line *line, const struct fl_push_request *rq);

#endif
