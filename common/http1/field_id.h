/* field_id - a small number for each field name that Fairlead cares about; everything else is
 * OTHER. Found by length and first letter, then one compare: no hash table. Names match without
 * case (RFC 9110 section 5.1). Pure. */
#ifndef FL_COMMON_HTTP1_FIELD_ID_H
#define FL_COMMON_HTTP1_FIELD_ID_H

#include <stdint.h>

#include "common/base/span.h"

enum fl_field_flag {
    /* must not be forwarded: hop-by-hop, or replaced by what we write ourselves */
    FL_FIELD_HOP = 1,
    /* Content-Length, Transfer-Encoding, Trailer */
    FL_FIELD_FRAMING = 2,
    /* responses only: white space before the colon, which fl_head_slices takes out */
    FL_FIELD_SPACED = 4,
    /* end-to-end by nature: a Connection option that names such a field is an attack */
    FL_FIELD_END = 8,
};

/* id, name in lower case, the flags of every such field. A name that ends in '*' is a prefix.
 * LOOK_ALIKE: Content_Length, Transfer_Encoding, which some backends take for the real ones. */
// clang-format off
#define FL_HTTP_IDS(X) \
    X(OTHER,                        "",                             0)                           \
    X(HOST,                         "host",                         FL_FIELD_END)                \
    X(CONTENT_LENGTH,               "content-length", \
      FL_FIELD_END + FL_FIELD_FRAMING) \
    X(TRANSFER_ENCODING,            "transfer-encoding", \
      FL_FIELD_END + FL_FIELD_FRAMING + FL_FIELD_HOP) \
    X(CONNECTION,                   "connection",                   FL_FIELD_HOP)                \
    X(KEEP_ALIVE,                   "keep-alive",                   FL_FIELD_HOP)                \
    X(PROXY_CONNECTION,             "proxy-connection",             FL_FIELD_HOP)                \
    X(TE,                           "te",                           FL_FIELD_HOP)                \
    X(TRAILER,                      "trailer",                      FL_FIELD_FRAMING)            \
    X(UPGRADE,                      "upgrade",                      FL_FIELD_HOP)                \
    X(LOOK_ALIKE,                   "",                             FL_FIELD_HOP)                \
    X(EXPECT,                       "expect",                       FL_FIELD_END)                \
    X(MAX_FORWARDS,                 "max-forwards",                 0)                           \
    X(RANGE,                        "range",                        FL_FIELD_END)                \
    X(IF_MATCH,                     "if-match",                     FL_FIELD_END)                \
    X(IF_NONE_MATCH,                "if-none-match",                FL_FIELD_END)                \
    X(IF_MODIFIED_SINCE,            "if-modified-since",            FL_FIELD_END)                \
    X(IF_UNMODIFIED_SINCE,          "if-unmodified-since",          FL_FIELD_END)                \
    X(IF_RANGE,                     "if-range",                     FL_FIELD_END)                \
    X(AUTHORIZATION,                "authorization",                FL_FIELD_END)                \
    X(COOKIE,                       "cookie",                       FL_FIELD_END)                \
    X(DATE,                         "date",                         FL_FIELD_END)                \
    X(CONTENT_TYPE,                 "content-type",                 0)                           \
    X(CONTENT_ENCODING,             "content-encoding",             0)                           \
    X(CONTENT_MD5,                  "content-md5",                  0)                           \
    X(RETRY_AFTER,                  "retry-after",                  0)                           \
    X(SERVER,                       "server",                       0)                           \
    X(X_REQUEST_ID,                 "x-request-id",                 0)                           \
    X(X_AMZ_COPY_SOURCE,            "x-amz-copy-source",            FL_FIELD_END)                \
    X(X_AMZ_COPY_SOURCE_IF,         "x-amz-copy-source-if-*",       FL_FIELD_END)                \
    X(X_AMZ_IF_MATCH,               "x-amz-if-match-*",             FL_FIELD_END)                \
    X(X_AMZ_WRITE_OFFSET_BYTES,     "x-amz-write-offset-bytes",     FL_FIELD_END)                \
    X(X_AMZ_DECODED_CONTENT_LENGTH, "x-amz-decoded-content-length", FL_FIELD_END)                \
    X(X_AMZ_OTHER,                  "x-amz-*",                      FL_FIELD_END)
// clang-format on

#define X(id, name, flags) FL_HTTP_##id,
enum fl_http_id { FL_HTTP_IDS(X) FL_HTTP_ID_COUNT };
#undef X

enum fl_http_id fl_field_id_of(struct fl_span name);
uint8_t fl_field_id_flags(enum fl_http_id id); /* the flags of the table */

#endif
