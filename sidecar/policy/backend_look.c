#include "sidecar/policy/backend_look.h"

#include "common/base/check.h"

static const char *out_for_good(const struct fl_snap_peer *sp)
{
    if (sp->conf->down) {
        return "down";
    }
    if (atomic_load_explicit(&sp->peer->removed, memory_order_relaxed)) {
        return "removed";
    }
    if (atomic_load_explicit(&sp->peer->drained, memory_order_relaxed)) {
        return "drained";
    }
    if (sp->conf->weight == 0) {
        return "weight_zero";
    }
    return sp->gated ? "verdict" : NULL;
}

static struct fl_look look_at(const struct fl_peer_health *h, int64_t now_ms,
                              const char *quarantined)
{
    struct fl_look look = {FL_LOOK_LIVE, "eligible", 0};
    switch (fl_peer_health_gate(h, now_ms, &look.until_ms)) {
    case FL_HEALTH_LIVE:
        break;
    case FL_HEALTH_PROBATION:
        look.state = FL_LOOK_PROBATION;
        look.why = "probation";
        break;
    case FL_HEALTH_TRIAL_OUT:
        look.state = FL_LOOK_TRIAL_OUT;
        look.why = "trial_out";
        break;
    case FL_HEALTH_QUARANTINED:
        look.state = FL_LOOK_QUARANTINED;
        look.why = quarantined;
        break;
    }
    return look;
}

struct fl_look fl_backend_look(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                               uint32_t index, int64_t now_ms)
{
    const struct fl_snap_peer *sp = &b->peers[index];
    const char *why = out_for_good(sp);
    if (why) {
        return (struct fl_look){FL_LOOK_OUT, why, 0};
    }
    if (fl_backend_look_past(b, sp)) {
        return (struct fl_look){FL_LOOK_LIVE, "eligible", 0};
    }
    struct fl_look look = look_at(&sp->peer->health, now_ms, "quarantined");
    const struct fl_peer_health *route = fl_backend_route_health(p, index);
    if (route) { /* both must allow: the sterner one speaks, of two alike the later */
        struct fl_look other = look_at(route, now_ms, "route_quarantined");
        if (other.state > look.state ||
            (other.state == look.state && other.until_ms > look.until_ms)) {
            look = other;
        }
    }
    return look;
}
