/* http_error - what is wrong with a message: one table gives the enum, the status for the client
 * and the stable text of the cause. Pure. On the response side every entry means "invalid header"
 * (502), the text says why. */
#ifndef FL_COMMON_HTTP1_HTTP_ERROR_H
#define FL_COMMON_HTTP1_HTTP_ERROR_H

/* id, status for a client whose request has it, text */
// clang-format off
#define FL_HTTP_ERRORS(X)                                                       \
    X(NONE,             0,   "")                                                \
    X(BARE_LF,          400, "line feed without carriage return")               \
    X(BARE_CR,          400, "carriage return without line feed")               \
    X(CONTROL,          400, "control character in the head")                   \
    X(LEADING_CRLF,     400, "empty lines before the start line")               \
    X(START_LINE,       400, "malformed start line")                            \
    X(METHOD,           400, "malformed method")                                \
    X(METHOD_LONG,      501, "method longer than 32 bytes")                     \
    X(METHOD_REFUSED,   501, "method not implemented")                          \
    X(VERSION,          400, "malformed HTTP version")                          \
    X(VERSION_MAJOR,    505, "HTTP version not supported")                      \
    X(TARGET,           400, "malformed request target")                        \
    X(TARGET_LONG,      414, "request target too long")                         \
    X(SCHEME,           400, "request target with a scheme other than http")    \
    X(HEAD_LARGE,       431, "head too large")                                  \
    X(FIELDS_MANY,      431, "too many header fields")                          \
    X(FIELD_NAME,       400, "malformed field name")                            \
    X(FIELD_COLON,      400, "header line without colon")                       \
    X(FIELD_SPACE,      400, "white space before colon")                        \
    X(FIELD_FOLD,       400, "folded header line")                              \
    X(FIELD_VALUE,      400, "control character in a field value")              \
    X(HOST_MISSING,     400, "no Host field")                                   \
    X(HOST_TWICE,       400, "two Host fields")                                 \
    X(HOST,             400, "malformed host")                                  \
    X(LENGTH,           400, "malformed Content-Length")                        \
    X(LENGTH_TWICE,     400, "two Content-Length fields")                       \
    X(LENGTH_AND_CODING,400, "both Content-Length and Transfer-Encoding")       \
    X(CODING,           400, "malformed Transfer-Encoding")                     \
    X(CODING_TWICE,     400, "two Transfer-Encoding fields")                    \
    X(CODING_UNKNOWN,   501, "transfer coding other than chunked")              \
    X(CODING_OLD,       400, "Transfer-Encoding in HTTP/1.0")                   \
    X(CONNECTION,       400, "malformed Connection field")                      \
    X(CONNECTION_MANY,  400, "too many connection options")                     \
    X(CONNECTION_NAMES, 400, "Connection names an end-to-end field")            \
    X(EXPECT,           417, "unknown expectation")                             \
    X(MAX_FORWARDS,     400, "malformed Max-Forwards")                          \
    X(NOT_HTTP,         400, "not an HTTP/1 message")                           \
    X(STATUS,           400, "malformed status code")                           \
    X(SWITCHING,        400, "unsolicited 101 Switching Protocols")             \
    X(CHUNK_SIZE,       400, "malformed chunk size")                            \
    X(CHUNK_LARGE,      400, "chunk size too large")                            \
    X(CHUNK_EXTENSION,  400, "malformed chunk extension")                       \
    X(CHUNK_OVERHEAD,   400, "too many chunk extension bytes")                  \
    X(CHUNK_END,        400, "chunk data not followed by CRLF")                 \
    X(TRAILER,          400, "malformed trailer")                               \
    X(TRAILER_LARGE,    431, "trailer section too large")
// clang-format on

#define X(id, status, text) FL_HTTP_ERR_##id,
enum fl_http_error { FL_HTTP_ERRORS(X) FL_HTTP_ERR_COUNT };
#undef X

int fl_http_error_status(enum fl_http_error error); /* 0 for NONE */
const char *fl_http_error_text(enum fl_http_error error);

#endif
