/* origin_request - reads one request: head, then body (length or chunked) with trailers. Lenient:
 * the origin must record what a proxy sends, not refuse it. Pure but for memory. */
#ifndef FL_TESTS_ORIGIN_REQUEST_H
#define FL_TESTS_ORIGIN_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/span.h"
#include "tests/support/origin_buf.h"

enum fl_origin_body { FL_ORIGIN_BODY_NONE, FL_ORIGIN_BODY_LENGTH, FL_ORIGIN_BODY_CHUNKED };
enum fl_origin_chunk {
    FL_ORIGIN_CHUNK_SIZE,
    FL_ORIGIN_CHUNK_EXT,
    FL_ORIGIN_CHUNK_DATA,
    FL_ORIGIN_CHUNK_DATA_END,
    FL_ORIGIN_CHUNK_TRAILER
};

struct fl_origin_request {
    struct fl_origin_buf head; /* raw bytes with the empty line; the spans below point into it */
    struct fl_span method, target, path, query, range, copy_source;
    int minor; /* of HTTP/1.x */
    bool expect_continue, wants_close, wants_keepalive, only_if_absent;
    enum fl_origin_body body;
    uint64_t left, body_bytes;
    enum fl_origin_chunk chunk;
    size_t line_len; /* of the trailer line being read */
    struct fl_origin_buf trailers;
    bool body_done;
};

#define FL_ORIGIN_HEAD_MAX ((size_t)1 << 20)

/* 1: a whole head was taken, *ret_used bytes of `in`; 0: more is needed; -1: not a request. */
int fl_origin_request_head(struct fl_origin_request *rq, struct fl_span in, size_t *ret_used);
/* Takes a piece of the body; returns the bytes used and the decoded part in *ret_data (a slice of
 * `in`, may be empty); -1: broken chunking. Call until it uses nothing or body_done. */
ssize_t fl_origin_request_body(struct fl_origin_request *rq, struct fl_span in,
                               struct fl_span *ret_data);
void fl_origin_request_done(struct fl_origin_request *rq); /* frees */

#endif
