/* state_json - the pushed state (contract-cluster.md section 4) as JSON: decoded by the sidecar,
 * encoded by the controller and for the state file. One canonical text per state, so that both
 * sides get the same hash. No fds. */
#ifndef FL_COMMON_CODEC_STATE_JSON_H
#define FL_COMMON_CODEC_STATE_JSON_H

#include <stddef.h>

#include "common/base/fmt.h"
#include "common/base/span.h"
#include "common/model/findings.h"
#include "common/model/state.h"

/* Sorted and hashed. An unknown key is a warning (a younger controller may know more); anything
 * else that is wrong is an error that names its path (backends.minio.peers[3].weight), and NULL. */
FL_MUST_USE struct fl_state *fl_state_json_decode(struct fl_span body, struct fl_findings *f);
/* Sorted by fl_state_sort before. Of a backend that the controller owns the given keys (`set`),
 * "protocol" at least. */
void fl_state_json_encode(const struct fl_state *s, struct fl_fmt *out);
FL_MUST_USE char *fl_state_json_text(const struct fl_state *s,
                                     size_t *ret_len); /* free(); NULL = no memory */
/* Of the set in force: routes, backends and members, without epoch, seq, verdicts and keys. 0 = no
 * memory. */
uint64_t fl_state_json_hash(const struct fl_state *s);

#endif
