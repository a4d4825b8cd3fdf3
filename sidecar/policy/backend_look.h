/* backend_look - what one peer is to one route at this moment, whoever asks: down, drained,
 * verdict, passive health of the peer and of the peer for this route. Inside sidecar/policy; pick,
 * why_not and the gauge all see with these eyes. */
#ifndef FL_SIDECAR_POLICY_BACKEND_LOOK_H
#define FL_SIDECAR_POLICY_BACKEND_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "sidecar/policy/snapshot.h"

enum fl_look_state {
    FL_LOOK_LIVE,      /* also: passive marking off, or the single peer of its backend */
    FL_LOOK_PROBATION, /* since until_ms */
    FL_LOOK_TRIAL_OUT,
    FL_LOOK_QUARANTINED, /* until until_ms */
    FL_LOOK_OUT,         /* for a reason that time does not heal */
};

struct fl_look {
    enum fl_look_state state;
    const char *why; /* a word of fl_backend_why_not, "eligible" when LIVE */
    int64_t until_ms;
};

struct fl_look fl_backend_look(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                               uint32_t index, int64_t now_ms);

/* Passive failures of this peer change nothing: max_fails 0, or there is nowhere else to go. */
static inline bool fl_backend_look_past(const struct fl_snap_backend *b,
                                        const struct fl_snap_peer *sp)
{
    return sp->health.max_fails == 0 || b->countable == 1;
}

static inline bool fl_backend_is_full(const struct fl_snap_backend *b,
                                      const struct fl_snap_peer *sp)
{
    return sp->conf->max_conns > 0 &&
           fl_peer_in_flight(sp->peer, b->budget.threads) >= sp->conf->max_conns;
}

/* On s3 routes a backup that is not the same store takes no writes. */
static inline bool fl_backend_is_read_only(const struct fl_snap_backend *b,
                                           const struct fl_snap_peer *sp)
{
    return sp->conf->tier == FL_TIER_BACKUP && b->conf->protocol == FL_PROTOCOL_S3 &&
           !b->conf->same_store;
}

static inline struct fl_peer_health *fl_backend_route_health(const struct fl_snap_policy *p,
                                                             uint32_t index)
{
    return p->status_health ? p->status_health[index] : NULL;
}

#endif
