/* head_parse - the head of an HTTP/1.x message (RFC 9112), strictly: whatever is not canonical is
 * refused, so what is accepted may be forwarded as slices of the original bytes. Pure, no
 * allocation, any thread.
 *
 * Use: keep calling fl_head_end() on the growing buffer; when it returns the length, parse once.
 * Offsets are from the start of that buffer (buf[0]), so they survive a move of the buffer. Heads
 * are at most FL_HTTP_HEAD_MAX bytes; a lower limit is the caller's (see fl_head_overflow).
 *
 * Stricter than the RFC by choice: bare LF, obs-fold, equal duplicate Content-Length,
 * Transfer-Encoding in 1.0, raw bytes above 0x7f in a target are refused. CONNECT and TRACE are
 * 501. */
#ifndef FL_COMMON_HTTP1_HEAD_PARSE_H
#define FL_COMMON_HTTP1_HEAD_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/span.h"
#include "common/http1/field_id.h"
#include "common/http1/http_error.h"
#include "common/http1/method.h"

enum {
    FL_HTTP_FIELDS_MAX = 128,
    FL_HTTP_HEAD_MAX = 65536,
    FL_HTTP_TARGET_MAX = 32768,
    FL_HTTP_LEADING_CRLF_MAX = 8, /* empty lines before a request line, RFC 9112 section 2.2 */
    FL_HTTP_OPTIONS_MAX = 64,     /* connection options of one message */
    FL_HTTP_STOP_BYTES = 4,       /* see fl_request_parse_at_once */
};

struct fl_http_field {
    uint16_t name_off, name_len;
    uint16_t value_off, value_len; /* without the white space around it */
    uint8_t id;                    /* enum fl_http_id */
    uint8_t flags; /* enum fl_field_flag; a caller may add FL_FIELD_HOP to drop it */
};

/* What requests and responses share. */
struct fl_http_head {
    uint32_t length;    /* of the whole head: leading empty lines, start line, fields, final CRLF */
    uint16_t start_off; /* of the start line (0 unless empty lines came first) */
    uint16_t fields_off;
    uint16_t count;
    struct fl_http_field fields[FL_HTTP_FIELDS_MAX]; /* in wire order; only [0, count) are set */
};

enum fl_http_framing {
    FL_FRAMING_NONE, /* no body */
    FL_FRAMING_LENGTH,
    FL_FRAMING_CHUNKED,
    FL_FRAMING_UNTIL_CLOSE, /* responses only */
};

enum fl_target_form {
    FL_TARGET_ORIGIN,
    /* the Host field is marked FL_FIELD_HOP: write one from the authority */
    FL_TARGET_ABSOLUTE,
    /* "OPTIONS *", also "OPTIONS http://host" (RFC 9112 section 3.2.4): answer locally. path_len is
     * then 0 in the second case, which is otherwise as ABSOLUTE */
    FL_TARGET_ASTERISK,
};

struct fl_request_head {
    enum fl_http_method method;
    enum fl_target_form form;
    enum fl_http_framing framing;
    uint64_t content_length; /* <= INT64_MAX; 0 unless framing is LENGTH */
    /* OPTIONS only, else -1. When >= 0 the field is FL_FIELD_HOP: 0 = answer here, else write n-1
     */
    int32_t max_forwards;
    uint16_t method_len; /* the method starts at head.start_off */
    uint16_t target_off, target_len;
    /* origin-form part; in absolute form it may be "" or begin with '?': "/" goes before it */
    uint16_t path_off, path_len;
    /* the host that counts: the authority in absolute form, else Host. Length 0 only in HTTP/1.0 */
    uint16_t host_off, host_len;
    uint8_t minor;        /* 0 or 1; HTTP/1.2 to 1.9 are taken as 1 */
    bool rewrite_line;    /* write the request line anew: absolute form or not exactly HTTP/1.1 */
    bool rewrite_length;  /* Content-Length had leading zeros and is FL_FIELD_HOP: write our own */
    bool keep_alive;      /* the client may send another request on this connection */
    bool expect_continue; /* never in 1.0, where Expect is FL_FIELD_HOP */
    struct fl_http_head head;
};

struct fl_response_head {
    enum fl_http_framing framing; /* given the method of the request and the status */
    uint16_t status;              /* 100..599 without 101 */
    uint64_t content_length; /* as declared, with HEAD and 304 too; 0 when absent, in 204 and 1xx */
    uint16_t reason_off, reason_len;
    uint8_t minor;
    bool rewrite_line;   /* not exactly "HTTP/1.1 ddd ": write the status line anew */
    bool rewrite_length; /* as for requests */
    bool keep_alive;     /* the upstream may be reused after the body; false with UNTIL_CLOSE */
    struct fl_http_head head;
};

/* Length of the head at buf[0], 0 when more bytes are needed, or -(enum fl_http_error): bare CR or
 * LF, control bytes and too many leading empty lines are found before the end arrives. *scan starts
 * at 0 and carries the progress. */
FL_MUST_USE ptrdiff_t fl_head_end(const char *buf, size_t len, size_t *scan);

/* The error when no end was found within the limit: TARGET_LONG (414) while still in the request
 * line, else HEAD_LARGE. */
enum fl_http_error fl_head_overflow(const char *buf, size_t len);

/* May these first bytes of an answer still become an HTTP/1.x status line? An SSH or TLS banner is
 * found at once, not by a timeout. NONE or NOT_HTTP. */
enum fl_http_error fl_response_sniff(const char *buf, size_t len);

/* len is what fl_head_end returned. On error *ret is not to be used. */
FL_MUST_USE enum fl_http_error fl_request_parse(const char *buf, size_t len,
                                                struct fl_request_head *ret);

/* request_method decides about the body; an error is always 502 "invalid header". 204 and 1xx lose
 * Content-Length and Transfer-Encoding (FL_FIELD_HOP), HEAD and 304 keep the former. */
FL_MUST_USE enum fl_http_error fl_response_parse(const char *buf, size_t len,
                                                 enum fl_http_method request_method,
                                                 struct fl_response_head *ret);

/* Both steps in one pass, for a head that has come whole and is right: its length, and *ret as
 * above. 0: fl_head_end and the parse say what is missing or wrong. FL_HTTP_STOP_BYTES bytes behind
 * buf[len] are written over. For a first look: a head that comes byte by byte would be read anew
 * for each. */
FL_MUST_USE size_t fl_request_parse_at_once(char *buf, size_t len, struct fl_request_head *ret);
FL_MUST_USE size_t fl_response_parse_at_once(char *buf, size_t len,
                                             enum fl_http_method request_method,
                                             struct fl_response_head *ret);

#endif
