/* verdict_merge - one peer's verdict out of what this sidecar saw and what the controller pushed
 * (behaviour.md section 5, "Merge in the sidecar"). Own evidence first; no single observer takes a
 * backend away. Pure; the control thread.
 *
 *   gated    own unreachable or own auth-rejected; under `trust` also a pushed unreachable that no
 * own probe since that opinion came contradicts: a controller that goes on to say so is asked about
 * each time, but blocks once. A pushed auth-rejected never gates by itself: the controller's key
 * may be the bad one. shown    the own verdict, unless it is older than the expiry and does not
 * block; then a pushed one that has not expired. ignore   as if nothing had been pushed. Use it too
 * where probe.type is none: then there is no verdict at all. */
#ifndef FL_SIDECAR_POLICY_VERDICT_MERGE_H
#define FL_SIDECAR_POLICY_VERDICT_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/config.h"
#include "common/model/verdict.h"

struct fl_merge_facts {
    enum fl_verdict_policy policy;
    const struct fl_verdict *own;    /* NULL or UNKNOWN: none; at_ms counts */
    const struct fl_verdict *pushed; /* NULL or UNKNOWN: none */
    int64_t pushed_age_ms; /* since the controller's probe, now (age_ms of the push + time since it
                              came) */
    int64_t own_since_ms;  /* when the own status became what it is, monotonic */
    int64_t pushed_since_ms; /* the same of the pushed one; a refresh does not move it */
    int64_t expires_ms;      /* 3 intervals; an older pushed verdict is none */
    int64_t now_ms;
    bool keyed;           /* own probes are signed */
    uint64_t fingerprint; /* of the definition in force; a verdict with another one (0 fits all) is
                             none */
};

struct fl_merged {
    struct fl_verdict verdict; /* source set; UNKNOWN when nobody knows */
    bool gated;
    bool probe_wanted;    /* a pushed verdict asks for an own look, and the own one is not newer */
    char other_view[160]; /* "unreachable from the controller, reachable from this pod"; "" when
                             they agree. "; the controller has not looked since", when its probe is
                             older than this pod's change of opinion, or the other way round */
};

void fl_verdict_merge(const struct fl_merge_facts *f, struct fl_merged *ret);

#endif
