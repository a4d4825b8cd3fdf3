/* reply - answers that the sidecar makes itself (contract.md section 5): S3 XML or problem+json,
 * naming backend and cause. */
#ifndef FL_SIDECAR_PROXY_REPLY_H
#define FL_SIDECAR_PROXY_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/outcome.h"

struct fl_exchange;

/* Prepares the answer in to_client; x->answer, x->cause and x->ended say what it is. release_at_ms:
 * when the first peer is released (0 = unknown), for the body. False: no buffer, the connection can
 * only be closed. */
bool fl_reply_prepare(struct fl_exchange *x, int64_t release_at_ms);
/* "OPTIONS *" and Max-Forwards: 0 are answered here (RFC 9110 section 9.3.7, 7.6.2). */
bool fl_reply_options(struct fl_exchange *x);

#endif
