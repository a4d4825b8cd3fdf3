/* method - request methods (RFC 9110 section 9). Methods are case-sensitive; any other token is
 * OTHER and counts as unsafe and not idempotent. Pure. */
#ifndef FL_COMMON_HTTP1_METHOD_H
#define FL_COMMON_HTTP1_METHOD_H

#include <stdbool.h>

#include "common/base/span.h"

/* id, name, safe, idempotent */
// clang-format off
#define FL_HTTP_METHODS(X)          \
    X(OTHER,   "",        0, 0)     \
    X(GET,     "GET",     1, 1)     \
    X(HEAD,    "HEAD",    1, 1)     \
    X(PUT,     "PUT",     0, 1)     \
    X(POST,    "POST",    0, 0)     \
    X(DELETE,  "DELETE",  0, 1)     \
    X(OPTIONS, "OPTIONS", 1, 1)     \
    X(TRACE,   "TRACE",   1, 1)     \
    X(PATCH,   "PATCH",   0, 0)     \
    X(CONNECT, "CONNECT", 0, 0)
// clang-format on

#define X(id, name, safe, idempotent) FL_METHOD_##id,
enum fl_http_method { FL_HTTP_METHODS(X) FL_METHOD_COUNT };
#undef X

enum { FL_METHOD_MAX_BYTES = 32 }; /* longest token taken; longer ones are 501 */

enum fl_http_method fl_method_of(struct fl_span name);
const char *
fl_method_name(enum fl_http_method method); /* "" for OTHER: use the bytes of the head */
bool fl_method_is_safe(enum fl_http_method method);
bool fl_method_is_idempotent(enum fl_http_method method);

#endif
