/* access_log - one JSON object a line per exchange (contract.md section 7). The data thread copies
 * the facts into a binary record of its ring; the writer thread formats. Query values that sign or
 * authorise are masked there. */
#ifndef FL_SIDECAR_PROXY_ACCESS_LOG_H
#define FL_SIDECAR_PROXY_ACCESS_LOG_H

#include <stddef.h>

#include "common/base/fmt.h"

struct fl_exchange;

/* At the end of an exchange, if access_log wants it, or somebody watches (log.h). */
void fl_access_log_write(struct fl_exchange *x);
/* The writer thread's part; public for tests. */
void fl_access_log_format(const void *record, size_t len, struct fl_fmt *out);
/* The target with the values of X-Amz-Signature, X-Amz-Credential, X-Amz-Security-Token, Signature,
 * AWSAccessKeyId as ***. */
void fl_access_log_mask(struct fl_fmt *out, struct fl_span target);

#endif
