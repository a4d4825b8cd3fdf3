/* body_frame - where a message body ends: Content-Length, chunked (RFC 9112 section 7.1), until
 * close, none. Incremental and pure; chunk-size lines are taken byte by byte, so nothing but part
 * of a trailer line is ever left to the caller. */
#ifndef FL_COMMON_HTTP1_BODY_FRAME_H
#define FL_COMMON_HTTP1_BODY_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/span.h"
#include "common/http1/head_parse.h"

enum {
    FL_BODY_OVERHEAD_MAX = 16384,    /* chunk extensions and leading zeros of one message */
    FL_BODY_TRAILER_LINE_MAX = 4000, /* with CRLF: what the caller's buffer must be able to hold */
    FL_CHUNK_HEAD_BYTES = 20,
};

enum fl_body_piece {
    FL_BODY_DATA,    /* *ret_data is a run of body bytes inside in */
    FL_BODY_TRAILER, /* *ret_data is one trailer line without CRLF; forbidden ones are taken
                        silently */
    FL_BODY_END,  /* the message is complete; what follows the used bytes belongs to the next one */
    FL_BODY_MORE, /* needs more bytes; present those not used again, with more behind them */
    FL_BODY_ERROR, /* see f->error; stays so */
};

struct fl_body_frame {
    uint64_t left;          /* bytes of the body (LENGTH) or of this chunk still to come */
    uint32_t overhead_left; /* bytes */
    uint32_t trailer_left;  /* bytes */
    uint8_t state;
    uint8_t error; /* enum fl_http_error */
};

/* trailer_limit_bytes: the header limit. content_length matters with LENGTH only. */
void fl_body_frame_init(struct fl_body_frame *f, enum fl_http_framing framing,
                        uint64_t content_length, uint32_t trailer_limit_bytes);

/* One piece. *ret_used bytes of in are done with, the piece included; *ret_data is empty unless
 * DATA or TRAILER. Call again until MORE, END or ERROR; END comes also with len 0 (LENGTH and
 * nothing left). A trailer that a Connection field names is not known here: ask
 * fl_headers_connection_names(). */
FL_MUST_USE enum fl_body_piece fl_body_frame_next(struct fl_body_frame *f, const char *in,
                                                  size_t len, size_t *ret_used,
                                                  struct fl_span *ret_data);

/* Is an end of the stream here a clean end? False = the body was cut short. */
bool fl_body_frame_eof(const struct fl_body_frame *f);
/* Has the end been seen (or, with LENGTH, has every byte been)? Never true with UNTIL_CLOSE. */
bool fl_body_frame_ended(const struct fl_body_frame *f);
/* Bytes still to come with LENGTH; 0 otherwise. */
uint64_t fl_body_frame_remaining(const struct fl_body_frame *f);
/* n body bytes went another way (splice), LENGTH only, n <= remaining. */
void fl_body_frame_skip(struct fl_body_frame *f, uint64_t n);

/* "hex CRLF" before n > 0 data bytes; returns its length. CRLF follows the data; "0 CRLF CRLF" ends
 * the body. */
size_t fl_chunk_head(char out[FL_CHUNK_HEAD_BYTES], size_t n);

#endif
