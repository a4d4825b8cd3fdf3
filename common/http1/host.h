/* host - the grammar of Host and of the authority in absolute form: uri-host [":" port] (RFC 9112
 * section 3.2, RFC 3986 section 3.2.2). Inside common/http1. Stricter: no empty host, no comma, no
 * userinfo, no IPvFuture, no zone, port 0..65535 and not empty. */
#ifndef FL_COMMON_HTTP1_HOST_H
#define FL_COMMON_HTTP1_HOST_H

#include <stdbool.h>

#include "common/base/span.h"

bool fl_host_is_valid(struct fl_span host);

#endif
