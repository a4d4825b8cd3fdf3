/* headers - reading the fields of a parsed head. buf is the buffer that was parsed. Pure. */
#ifndef FL_COMMON_HTTP1_HEADERS_H
#define FL_COMMON_HTTP1_HEADERS_H

#include "common/http1/head_parse.h"

static inline struct fl_span fl_headers_name(const char *buf, const struct fl_http_field *f)
{
    return (struct fl_span){buf + f->name_off, f->name_len};
}

static inline struct fl_span fl_headers_value(const char *buf, const struct fl_http_field *f)
{
    return (struct fl_span){buf + f->value_off, f->value_len};
}

/* First field with this id (OTHER finds nothing), or NULL. */
const struct fl_http_field *fl_headers_find(const struct fl_http_head *head, enum fl_http_id id);
/* First field of this name, without case, or NULL. */
const struct fl_http_field *fl_headers_find_name(const char *buf, const struct fl_http_head *head,
                                                 struct fl_span name);
/* Value of the first field with this id; the empty span when there is none. */
struct fl_span fl_headers_get(const char *buf, const struct fl_http_head *head, enum fl_http_id id);

/* Marks every field with this id FL_FIELD_HOP, so that it is not forwarded. */
void fl_headers_drop(struct fl_http_head *head, enum fl_http_id id);

/* Does a Connection field name this field? For trailers, which the parser of the head has not seen.
 */
bool fl_headers_connection_names(const char *buf, const struct fl_http_head *head,
                                 struct fl_span name);

/* "Keep-Alive: timeout=N" in ms, or -1. */
int64_t fl_headers_keep_alive_ms(const char *buf, const struct fl_http_head *head);

#endif
