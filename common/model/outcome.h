/* outcome - what an attempt produced, which condition of next_upstream / count_failures it is, and
 * what the client is told. Two tables; everything that names an outcome or an answer (log, metric,
 * header, status) comes from them. Frozen words: contract.md sections 5 and 7. Pure. */
#ifndef FL_COMMON_MODEL_OUTCOME_H
#define FL_COMMON_MODEL_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

/* Conditions, as nginx's proxy_next_upstream names them; a route's lists are masks of these. */
enum fl_condition {
    FL_ON_NEVER = 0,
    FL_ON_ERROR = 1 << 0,
    FL_ON_TIMEOUT = 1 << 1,
    FL_ON_INVALID_HEADER = 1 << 2,
    FL_ON_HTTP_500 = 1 << 3,
    FL_ON_HTTP_502 = 1 << 4,
    FL_ON_HTTP_503 = 1 << 5,
    FL_ON_HTTP_504 = 1 << 6,
    FL_ON_HTTP_403 = 1 << 7,
    FL_ON_HTTP_404 = 1 << 8,
    FL_ON_HTTP_429 = 1 << 9,
    FL_ON_NON_IDEMPOTENT = 1 << 10, /* a permission, not a condition */
};
#define FL_ON_ANY_STATUS                                                                           \
    (FL_ON_HTTP_500 | FL_ON_HTTP_502 | FL_ON_HTTP_503 | FL_ON_HTTP_504 | FL_ON_HTTP_403 |          \
     FL_ON_HTTP_404 | FL_ON_HTTP_429)

/* The condition of a response status, or FL_ON_NEVER. */
enum fl_condition fl_condition_of_status(int status);
const char *fl_condition_name(enum fl_condition one); /* "http_502" */

// clang-format off
/* Answers the sidecar makes itself: id, token, status on http routes, on s3 routes, S3 code, Proxy-Status error type
 * (RFC 9209 section 2.3), title. */
#define FL_ANSWERS(X)                                                                                                    \
    X(NONE,                     "",                         0,   0,   "",                   "",                       "")                                        \
    X(UPSTREAM_FAILED,          "upstream_failed",          502, 503, "ServiceUnavailable", "connection_terminated",  "The last backend peer tried failed")      \
    X(UPSTREAM_TIMEOUT,         "upstream_timeout",         504, 503, "ServiceUnavailable", "http_response_timeout",  "The last backend peer tried was silent")  \
    X(STALE_REUSE,              "stale_reuse",              502, 503, "ServiceUnavailable", "connection_terminated",  "A kept connection ended under a request that must not be repeated") \
    X(DEADLINE,                 "deadline",                 504, 503, "ServiceUnavailable", "http_response_timeout",  "The deadline of the request passed")      \
    X(NO_LIVE_UPSTREAM,         "no_live_upstream",         503, 503, "ServiceUnavailable", "destination_unavailable","No live backend peer is left")            \
    X(NO_MEMBERSHIP,            "no_membership",            503, 503, "ServiceUnavailable", "destination_not_found",  "The backend has no members yet")          \
    X(BACKEND_UNAVAILABLE,      "backend_unavailable",      503, 503, "ServiceUnavailable", "destination_unavailable","The backend is unavailable")              \
    X(OVERLOAD,                 "overload",                 503, 503, "SlowDown",           "connection_limit_reached","The sidecar is at its limit")            \
    X(LOCAL_RESOURCE,           "local_resource",           503, 503, "SlowDown",           "proxy_internal_error",   "The sidecar is out of a local resource")  \
    X(BACKUP_READ_ONLY,         "backup_read_only",         503, 503, "ServiceUnavailable", "destination_unavailable","Only a read-only backup is left")         \
    X(BACKUP_NOT_AUTHORITATIVE, "backup_not_authoritative", 503, 503, "ServiceUnavailable", "destination_unavailable","The backup cannot prove the absence of an object") \
    X(BAD_ROUTE,                "bad_route",                503, 503, "ServiceUnavailable", "proxy_configuration_error","The configuration of the route is invalid") \
    X(NO_ROUTE,                 "no_route",                 421, 421, "NoSuchRoute",        "destination_not_found",  "No route for this bucket")                \
    X(BAD_REQUEST,              "bad_request",              400, 400, "InvalidRequest",     "http_request_error",     "Bad request")                             \
    X(NOT_FOUND,                "not_found",                404, 404, "NoSuchKey",          "http_request_error",     "Not found")                               \
    X(METHOD_NOT_ALLOWED,       "method_not_allowed",       405, 405, "MethodNotAllowed",   "http_request_error",     "Method not allowed")                      \
    X(REQUEST_TIMEOUT,          "request_timeout",          408, 400, "RequestTimeout",     "http_request_error",     "The client was too slow")                 \
    X(PAYLOAD_TOO_LARGE,        "payload_too_large",        413, 413, "EntityTooLarge",     "http_request_error",     "Content too large")                       \
    X(URI_TOO_LONG,             "uri_too_long",             414, 414, "KeyTooLongError",    "http_request_error",     "URI too long")                            \
    X(EXPECTATION_FAILED,       "expectation_failed",       417, 417, "InvalidRequest",     "http_request_error",     "Expectation failed")                      \
    X(HEADER_TOO_LARGE,         "header_too_large",         431, 431, "RequestHeaderSectionTooLarge", "http_request_error", "Request header fields too large")   \
    X(NOT_IMPLEMENTED,          "not_implemented",          501, 501, "NotImplemented",     "http_request_error",     "Not implemented")                         \
    X(VERSION_NOT_SUPPORTED,    "version_not_supported",    505, 505, "InvalidRequest",     "http_request_error",     "HTTP version not supported")              \
    X(COPY_ACROSS_BACKENDS,     "copy_across_backends",     400, 400, "InvalidRequest",     "http_request_error",     "Copy between buckets of two backends")    \
    X(TRUNCATED,                "truncated",                0,   0,   "",                   "http_response_incomplete","") /* log only: the response had begun */

/* Outcomes of an attempt: id, token (metric label), class (access log), condition, may blame the peer, the answer when it
 * was the last, upstream_status shown when no status came, Proxy-Status error type, event-log words (nginx's). */
#define FL_OUTCOMES(X)                                                                                                   \
    X(OK,              "ok",              "",                FL_ON_NEVER,          false, NONE,             0,   "",                         "")                                                             \
    X(CONNECT_FAILED,  "connect_failure", "connect_failure", FL_ON_ERROR,          true,  UPSTREAM_FAILED,  502, "connection_refused",       "connect() failed while connecting to upstream")                \
    X(CONNECT_TIMEOUT, "connect_timeout", "connect_timeout", FL_ON_TIMEOUT,        true,  UPSTREAM_TIMEOUT, 504, "connection_timeout",       "upstream timed out while connecting to upstream")              \
    X(TLS_FAILED,      "tls_failure",     "tls_failure",     FL_ON_ERROR,          true,  UPSTREAM_FAILED,  502, "tls_protocol_error",       "SSL_do_handshake() failed while SSL handshaking to upstream")  \
    X(SEND_TIMEOUT,    "send_timeout",    "send_timeout",    FL_ON_TIMEOUT,        true,  UPSTREAM_TIMEOUT, 504, "connection_write_timeout", "upstream timed out while sending request to upstream")         \
    X(READ_TIMEOUT,    "read_timeout",    "read_timeout",    FL_ON_TIMEOUT,        true,  UPSTREAM_TIMEOUT, 504, "connection_read_timeout",  "upstream timed out while reading response header from upstream") \
    X(PREMATURE_CLOSE, "premature_close", "premature_close", FL_ON_ERROR,          true,  UPSTREAM_FAILED,  502, "connection_terminated",    "upstream prematurely closed connection")                       \
    X(INVALID_HEADER,  "invalid_header",  "invalid_header",  FL_ON_INVALID_HEADER, true,  UPSTREAM_FAILED,  502, "http_protocol_error",      "upstream sent invalid header")                                 \
    X(HTTP_STATUS,     "http_status",     "http_status",     FL_ON_NEVER /* by its status */, true, NONE,   0,   "",                         "upstream answered with a counted status")                      \
    X(THROTTLED,       "throttled",       "http_status",     FL_ON_NEVER,          false, NONE,             0,   "",                         "")                                                             \
    X(TRUNCATED,       "truncated",       "truncated",       FL_ON_ERROR,          true,  TRUNCATED,        502, "http_response_incomplete", "upstream prematurely closed connection while reading upstream") \
    X(STALLED,         "stalled",         "truncated",       FL_ON_TIMEOUT,        true,  TRUNCATED,        504, "connection_read_timeout",  "upstream timed out while reading upstream")                    \
    X(STALE_REUSE,     "stale_reuse",     "stale_reuse",     FL_ON_NEVER,          false, STALE_REUSE,      502, "connection_terminated",    "")                                                             \
    X(CLIENT_ABORT,    "client_abort",    "client_abort",    FL_ON_NEVER,          false, NONE,             0,   "",                         "")                                                             \
    X(CLIENT_TIMEOUT,  "client_timeout",  "client_timeout",  FL_ON_NEVER,          false, REQUEST_TIMEOUT,  0,   "",                         "")                                                             \
    X(CLIENT_BAD,      "client_bad",      "",                FL_ON_NEVER,          false, BAD_REQUEST,      0,   "",                         "")                                                             \
    X(LOCAL_RESOURCE,  "local_resource",  "local_resource",  FL_ON_NEVER,          false, LOCAL_RESOURCE,   502, "proxy_internal_error",     "")                                                             \
    X(CLIPPED,         "clipped",         "deadline",        FL_ON_TIMEOUT,        false, UPSTREAM_TIMEOUT, 504, "http_response_timeout",    "") /* cut by next_upstream_timeout */ \
    X(DEADLINE,        "deadline",        "deadline",        FL_ON_NEVER,          false, DEADLINE,         504, "http_response_timeout",    "") /* cut by deadline before its own timeout: neutral */ \
    X(DEADLINE_BLAMED, "deadline_blamed", "deadline",        FL_ON_TIMEOUT,        true,  DEADLINE,         504, "http_response_timeout",    "upstream timed out while reading response header from upstream")
// clang-format on

#define X(id, ...) FL_ANSWER_##id,
enum fl_answer { FL_ANSWERS(X) FL_ANSWER_COUNT };
#undef X
#define X(id, ...) FL_OUTCOME_##id,
enum fl_outcome { FL_OUTCOMES(X) FL_OUTCOME_COUNT };
#undef X

struct fl_answer_row {
    const char *token;
    int http_status, s3_status;
    const char *s3_code, *proxy_status, *title;
};
struct fl_outcome_row {
    const char *token, *class;
    enum fl_condition condition;
    bool blames;
    enum fl_answer answer;
    int upstream_status;
    const char *proxy_status, *message;
};

const struct fl_answer_row *fl_answer_row(enum fl_answer a);
const struct fl_outcome_row *fl_outcome_row(enum fl_outcome o);

/* Does an attempt with this outcome (and status, 0 = none came) match the mask of a route's list?
 */
bool fl_outcome_listed(enum fl_outcome o, int status, uint32_t mask);
/* Does it count against the peer under count_failures? Throttling, 403 and 404 never do. */
bool fl_outcome_counts(enum fl_outcome o, int status, uint32_t count_failures);

#endif
