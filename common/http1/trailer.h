/* trailer - may a trailer field go on? RFC 9110 section 6.5.1: never what frames, routes,
 * authenticates, modifies the request, controls the response or says how to read the content. Such
 * fields are taken silently, since whoever merges trailers into headers would believe them. */
#ifndef FL_COMMON_HTTP1_TRAILER_H
#define FL_COMMON_HTTP1_TRAILER_H

#include "common/base/span.h"

enum fl_trailer_kind {
    FL_TRAILER_ALLOWED,
    FL_TRAILER_DENIED,
    FL_TRAILER_MALFORMED, /* no token before a colon: folded, white space, no colon */
};

/* line: without CRLF and known to hold no control byte but HTAB. */
enum fl_trailer_kind fl_trailer_judge(struct fl_span line);

#endif
