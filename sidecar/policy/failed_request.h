/* failed_request - the request that a peer let its deadline pass on, on its way from a data thread
 * to the control thread, which names it once the probe has been answered (behaviour.md section 4).
 * A box holds one: while it is full, further ones are dropped, since one line is enough. Pure. */
#ifndef FL_SIDECAR_POLICY_FAILED_REQUEST_H
#define FL_SIDECAR_POLICY_FAILED_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct fl_failed_request { /* texts are cut to fit; "" none */
    const char *operation; /* constant text */
    char request_id[128];
    char method[16], bucket[64], key[256];
    int64_t total_ms; /* since it came */
};

struct fl_failed_box {
    _Atomic uint32_t state; /* zeroed: empty */
    struct fl_failed_request request;
};

/* Any thread. False: the box is full, rq is dropped. */
bool fl_failed_box_put(struct fl_failed_box *b, const struct fl_failed_request *rq);
/* One thread. False: nothing in it. */
bool fl_failed_box_take(struct fl_failed_box *b, struct fl_failed_request *ret);

#endif
