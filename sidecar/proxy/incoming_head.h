/* incoming_head - the buffer in which a head arrives, of a request or of an answer: how far it was
 * searched, and how it grows. Own data thread only. */
#ifndef FL_SIDECAR_PROXY_INCOMING_HEAD_H
#define FL_SIDECAR_PROXY_INCOMING_HEAD_H

#include <stdbool.h>
#include <stddef.h>

#include "common/http1/head_parse.h"
#include "sidecar/proxy/buffer.h"

/* A head that begins at start and is there, whole and right, at the first look: its length. 0:
 * fl_incoming_head_end and the parse say what is missing or wrong. */
FL_MUST_USE size_t fl_incoming_request(struct fl_buffer *in, struct fl_request_head *ret);
FL_MUST_USE size_t fl_incoming_response(struct fl_buffer *in, enum fl_http_method request_method,
                                        struct fl_response_head *ret);
/* As fl_head_end, for a head that begins at start; what was searched is not searched again. */
FL_MUST_USE ptrdiff_t fl_incoming_head_end(struct fl_buffer *in);
/* Room to read more of it: at first a buffer, then its front, then the next larger one. False: no
 * buffer now, and *in is as it was. */
FL_MUST_USE bool fl_incoming_head_room(struct fl_buffers *pool, struct fl_buffer **in,
                                       enum fl_buffer_size first, enum fl_buffer_use use);

#endif
