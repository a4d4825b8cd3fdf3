/* head_write - outgoing heads: the original bytes minus what must not go on, plus lines of our own.
 * Pure. */
#ifndef FL_COMMON_HTTP1_HEAD_WRITE_H
#define FL_COMMON_HTTP1_HEAD_WRITE_H

#include "common/base/fmt.h"
#include "common/http1/head_parse.h"

struct fl_slice { /* a run of bytes in the buffer that was parsed */
    uint32_t off, len;
};

enum { FL_HEAD_SLICES_MAX = 2 * FL_HTTP_FIELDS_MAX + 1 }; /* never more */

/* The whole line of field i, CRLF included. */
struct fl_slice fl_head_line(const struct fl_http_head *head, unsigned i);

/* The lines to forward, neighbours merged: start line (unless !with_start) and every field whose
 * flags share no bit with drop, each with its CRLF, without the final empty line. A head that loses
 * nothing is one slice. Returns the count, or -1 when cap is too small (then use fl_head_copy). */
int fl_head_slices(const char *buf, const struct fl_http_head *head, uint8_t drop, bool with_start,
                   struct fl_slice *out, int cap);

/* The same bytes, appended to f (f->cut when they do not fit). */
void fl_head_copy(struct fl_fmt *f, const char *buf, const struct fl_http_head *head, uint8_t drop,
                  bool with_start);

/* "GET /b/k HTTP/1.1" CRLF in origin form; in absolute form followed by "Host: authority" CRLF (its
 * own is dropped). */
void fl_head_write_request_line(struct fl_fmt *f, const char *buf, const struct fl_request_head *r);
/* "HTTP/1.1 200 OK" CRLF, the reason as received. */
void fl_head_write_status_line(struct fl_fmt *f, const char *buf, const struct fl_response_head *r);
/* "Name: value" CRLF; the value goes through fl_fmt_header, so it cannot break the line. */
void fl_head_write_field(struct fl_fmt *f, const char *name, struct fl_span value);
void fl_head_write_uint(struct fl_fmt *f, const char *name, uint64_t value);

#endif
