/* stream - reads what the sidecar sends, on either side, as strictly as a peer would: a sequence of
 * whole HTTP/1.1 messages, the last of which may be cut by the end. Anything else aborts. */
#ifndef FL_TESTS_FUZZ_STREAM_H
#define FL_TESTS_FUZZ_STREAM_H

#include "common/http1/body_frame.h"
#include "common/http1/headers.h"
#include "tests/sim/scenarios/blob.h"

struct stream {
    struct blob in;
    size_t scan;
    bool in_body,
        broken; /* broken: what the fuzzer sent is malformed here, nothing more is known */
    struct fl_body_frame frame;
    union {
        struct fl_request_head request;
        struct fl_response_head response;
    } head;
    unsigned whole; /* messages so far, interim ones not counted */
    char id[32]; /* x-request-id of the request being read, "" when there is none or a long one */
};

enum stream_step { STREAM_MORE, STREAM_HEAD, STREAM_INTERIM, STREAM_WHOLE, STREAM_BROKEN };

void stream_add(struct stream *s, const char *bytes, size_t n);
/* Until MORE (or BROKEN). */
enum stream_step stream_request(struct stream *s);
enum stream_step stream_response(struct stream *s, enum fl_http_method method);
void stream_done(struct stream *s);

#endif
