/* view - words and times that several pages of the admin API show alike. Control thread. */
#ifndef FL_SIDECAR_ADMIN_VIEW_H
#define FL_SIDECAR_ADMIN_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/json.h"
#include "sidecar/admin/control_inner.h"
#include "sidecar/policy/backend.h"

/* All words of a peer's state, NULL-terminated (label values of fairlead_peer_state). */
extern const char *const fl_view_peer_states[];
/* One of them: live quarantined probation trial drained down blocked. */
const char *fl_view_peer_state(const struct fl_snap_backend *b, uint32_t i, int64_t now_ms,
                               int64_t *ret_until_ms);
/* Is nobody of the first tier usable while somebody else is? */
bool fl_view_on_backup(const struct fl_snap_backend *b, int64_t now_ms);
bool fl_view_panics(const struct fl_snap_backend *b, int64_t now_ms);
const char *fl_view_tier(enum fl_tier t); /* primary last_resort backup */

/* Is this route, or one of its paths, served by b? */
bool fl_view_routed(const struct fl_snap_route *r, const struct fl_snap_backend *b);

/* A monotonic time as unix ms; 0 stays 0. */
int64_t fl_view_unix_ms(const struct fl_control *c, int64_t at_ms);
/* A list of condition names: ["error","http_502"]. */
void fl_view_conditions(struct fl_json *j, const char *key, uint32_t mask);
void fl_view_duration(struct fl_json *j, const char *key, int64_t ms); /* "1s" */
/* The effective keys of a route's or path's policy, as members of the open object. */
void fl_view_policy(struct fl_json *j, const struct fl_policy_conf *p);

#endif
