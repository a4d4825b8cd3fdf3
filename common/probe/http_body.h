/* http_body - the body of an answer as http_client takes it: unframed, its first bytes kept, the
 * rest read for the sake of the connection. No sockets. */
#ifndef FL_COMMON_PROBE_HTTP_BODY_H
#define FL_COMMON_PROBE_HTTP_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/check.h"
#include "common/base/span.h"
#include "common/http1/body_frame.h"

enum fl_http_body_end {
    FL_HTTP_BODY_GOES_ON,
    FL_HTTP_BODY_ENDED,     /* as it should */
    FL_HTTP_BODY_BROKEN,    /* what came is no body, or it is not worth reading on */
    FL_HTTP_BODY_NO_MEMORY, /* for what is to be kept */
};

struct fl_http_body { /* zeroed: nothing is held */
    struct fl_body_frame frame;
    size_t keep_most, read_most;
    bool exact; /* keep_most is what will come, or more will: one piece of memory will do */
    size_t came, kept, cap; /* bytes */
    char *bytes;
};

/* The head has come. Reads on to at least `drain` bytes, or as far as it keeps. */
void fl_http_body_begin(struct fl_http_body *b, const struct fl_response_head *head, size_t keep,
                        size_t drain);
void fl_http_body_done(struct fl_http_body *b);
/* *ret_used bytes of `in` are done with; present the others again, with more behind them. */
FL_MUST_USE enum fl_http_body_end fl_http_body_take(struct fl_http_body *b, struct fl_span in,
                                                    size_t *ret_used);
/* The connection has ended: was that the end of the body? */
bool fl_http_body_eof(const struct fl_http_body *b);
struct fl_span fl_http_body_kept(const struct fl_http_body *b);

#endif
