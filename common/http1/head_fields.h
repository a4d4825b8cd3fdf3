/* head_fields - the field section of a head, and the fields that decide framing and the connection.
 * Inside common/http1: head_parse is the door. Pure. */
#ifndef FL_COMMON_HTTP1_HEAD_FIELDS_H
#define FL_COMMON_HTTP1_HEAD_FIELDS_H

#include "common/http1/head_parse.h"

/* What was met on the way, so that nobody has to look for it again. */
struct fl_head_seen {
    struct fl_http_field *host, *length, *coding; /* NULL: absent */
    bool host_twice, length_twice, coding_twice;
    bool connection, expect, max_forwards;
};

/* Fields from head->fields_off to the first empty line, which sets head->length; buf[0, bound) ends
 * in one at the latest, and nothing behind it is read. spaced_ok: white space before the colon is
 * marked, not refused (responses, RFC 9112 section 5.1). */
FL_MUST_USE enum fl_http_error fl_head_fields_parse(const char *buf, size_t bound, bool spaced_ok,
                                                    struct fl_http_head *head,
                                                    struct fl_head_seen *ret);

/* Marks what Connection names; says whether "close" and "keep-alive" are among it. */
FL_MUST_USE enum fl_http_error fl_head_fields_connection(const char *buf, struct fl_http_head *head,
                                                         bool *ret_close, bool *ret_keep_alive);

/* Exactly one of the two fields, well-formed. UNTIL_CLOSE when there is neither. */
FL_MUST_USE enum fl_http_error fl_head_fields_framing(const char *buf,
                                                      const struct fl_head_seen *seen,
                                                      uint8_t minor, enum fl_http_framing *ret,
                                                      uint64_t *ret_length);

/* Content-Length with leading zeros is legal, but not canonical: it is dropped and written anew. */
bool fl_head_fields_rewrites_length(const char *buf, const struct fl_head_seen *seen);

/* Takes the next member of a comma-separated list, trimmed, maybe empty; false at the end. */
bool fl_head_fields_member(struct fl_span *list, struct fl_span *ret);

#endif
