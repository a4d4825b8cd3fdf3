/* push_head - the head of a push as it goes over the wire, signed (contract-cluster.md section 4).
 * Any thread. */
#ifndef FL_CONTROLLER_PUSH_PUSH_HEAD_H
#define FL_CONTROLLER_PUSH_PUSH_HEAD_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/fmt.h"
#include "common/sign/sign_key.h"

#define FL_PUSH_PATH "/_/api/push/v1/state"

struct fl_push_head {
    const char *host;   /* "10.244.1.5:8422" */
    const char *id;     /* whom it is for: pod uid */
    const char *digest; /* of the body, as Content-Digest has it */
    size_t length;      /* of the body */
    int64_t created;    /* unix seconds */
};

/* With its empty line. 0, -EINVAL (a value is not to be sent, or there is no room), -ENOMEM. */
FL_MUST_USE int fl_push_head_write(const struct fl_push_head *h, const struct fl_sign_key *key,
                                   struct fl_fmt *ret);

#endif
