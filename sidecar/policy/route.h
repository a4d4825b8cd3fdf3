/* route - from the request target and Host to a policy (contract.md sections 3, 4). The target
 * itself is never changed; matching is done on a percent-decoded copy. Pure.
 *
 * Which reading of the path counts is decided by the protocol of the route's own backend (a path's
 * backend does not matter):
 * - The raw first segment (after exactly one "/", decoded after the split) is looked up first: the
 * route of that name, for an empty one "/", else "*". When that route is an s3 one (or invalid) it
 * is taken and nothing is collapsed: "//", "." and ".." are parts of keys.
 * - Otherwise the path is decoded and resolved as nginx does ("%2F" is "/", "//" one "/", "." and
 * ".." gone; above the root or "%00" or "%zz" is 400), and its first segment is looked up among the
 * http routes alone, then http "/" and "*". `paths` of a named route see what follows the bucket
 * ("/" at least); those of "*" and "/" the whole path, which on s3 routes is "/bucket/key" also
 * when the bucket stands in Host. Exact ones win, then the longest prefix. */
#ifndef FL_SIDECAR_POLICY_ROUTE_H
#define FL_SIDECAR_POLICY_ROUTE_H

#include <stdbool.h>

#include "common/base/span.h"
#include "sidecar/policy/snapshot.h"

struct fl_route_ask {
    struct fl_span path;  /* origin form, raw, starts with "/" ("*" for OPTIONS *) */
    struct fl_span query; /* without "?", empty when none */
    struct fl_span host;  /* authority as sent: name[:port], may be empty (HTTP/1.0) */
};

struct fl_routed {
    const struct fl_snap_policy *policy; /* NULL: answer says why */
    enum fl_answer answer; /* NONE, NO_ROUTE, NOT_FOUND ("/_/…" on the data listener), BAD_REQUEST,
                              BAD_ROUTE (policy set) */
    bool bucket_in_host;
    struct fl_span bucket; /* of the path, or decoded in scratch; empty = service level */
    struct fl_span key;    /* raw, without the leading "/" */
};

#define FL_ROUTE_SCRATCH 4096 /* for decoding; what is longer matches by its first bytes */

void fl_route_find(const struct fl_snapshot *s, const struct fl_route_ask *ask,
                   char scratch[FL_ROUTE_SCRATCH], struct fl_routed *ret);
/* The bucket named by an x-amz-copy-source value ("/bucket/key", "bucket/key", percent-encoded),
 * decoded into scratch. */
struct fl_span fl_route_copy_source_bucket(struct fl_span value, char *scratch, size_t cap);
/* The policy that requests for this bucket get (copy source check); NULL none. */
const struct fl_snap_policy *fl_route_bucket(const struct fl_snapshot *s, struct fl_span bucket);

#endif
