/* probe_request - the bytes of a probe's request. */
#ifndef FL_COMMON_PROBE_PROBE_REQUEST_H
#define FL_COMMON_PROBE_PROBE_REQUEST_H

#include <stdint.h>

#include "common/base/check.h"
#include "common/base/fmt.h"
#include "common/http1/method.h"
#include "common/probe/probe_keys.h"
#include "common/probe/probe_target.h"
#include "common/verdict/probe_plan.h"

enum { FL_PROBE_REQUEST_MAX = 8192 };

enum fl_http_method fl_probe_request_method(enum fl_probe_request what); /* not for CONNECT */
/* host: the value of Host. An s3 request is signed when there are keys. Whatever a text holds, it
 * cannot break the head. 0, -EINVAL (too long), -ENOMEM. */
FL_MUST_USE int fl_probe_request_write(const struct fl_probe_target *t, const char *host,
                                       const struct fl_probe_keys *keys, enum fl_probe_request what,
                                       int64_t wall_ms, struct fl_fmt *ret);

#endif
