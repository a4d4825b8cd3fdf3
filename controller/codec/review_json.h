/* review_json - SelfSubjectAccessReview (authorization.k8s.io/v1): may I? No fds. */
#ifndef FL_CONTROLLER_CODEC_REVIEW_JSON_H
#define FL_CONTROLLER_CODEC_REVIEW_JSON_H

#include <stdbool.h>

#include "common/base/check.h"
#include "common/base/fmt.h"
#include "common/base/span.h"

struct fl_review { /* "" = core group, no subresource, all namespaces, any name */
    const char *verb, *group, *resource, *subresource, *namespace, *name;
};

void fl_review_json_new(const struct fl_review *r, struct fl_fmt *out);
/* 0, -EBADMSG (no such review, or one without an answer), -ENOMEM. *ret is touched on 0 only. */
FL_MUST_USE int fl_review_json_decode(struct fl_span json, bool *ret_allowed);

#endif
