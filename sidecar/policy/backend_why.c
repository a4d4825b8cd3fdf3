#include "sidecar/policy/backend.h"
#include "sidecar/policy/backend_look.h"

const char *fl_backend_why_not(const struct fl_snap_backend *b, const struct fl_snap_policy *p,
                               uint32_t index, const struct fl_ask *ask, int64_t *ret_until_ms)
{
    const struct fl_snap_peer *sp = &b->peers[index];
    struct fl_look look = fl_backend_look(b, p, index, ask->now_ms);
    *ret_until_ms = look.state == FL_LOOK_QUARANTINED ? look.until_ms : 0;
    if (look.state == FL_LOOK_OUT) {
        return look.why;
    }
    if (b->gated) {
        return "verdict";
    }
    if (ask->write && fl_backend_is_read_only(b, sp)) {
        return "read_only_backup";
    }
    if (look.state == FL_LOOK_LIVE && fl_backend_is_full(b, sp)) {
        return "max_conns";
    }
    return look.why;
}
