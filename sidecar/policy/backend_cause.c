#include "sidecar/policy/backend.h"

#include <string.h>

#include "common/verdict/fault.h"

void fl_backend_attempt_cause(enum fl_outcome o, int status, int os_errno, const char *address,
                              struct fl_cause *ret)
{
    fl_fault_cause(o, status, os_errno, address, ret);
}

void fl_backend_peer_cause(const struct fl_peer *peer, struct fl_cause *ret)
{
    if (atomic_load_explicit(&peer->last_fail_ms, memory_order_relaxed) == 0) {
        *ret = (struct fl_cause){.code = ""};
        return;
    }
    fl_fault_cause((enum fl_outcome)atomic_load_explicit(&peer->last_outcome, memory_order_relaxed),
                   atomic_load_explicit(&peer->last_status, memory_order_relaxed),
                   atomic_load_explicit(&peer->last_errno, memory_order_relaxed), peer->address,
                   ret);
}

/* What is known against this peer; empty when nothing is. */
static void peer_cause(const struct fl_snap_peer *sp, struct fl_cause *ret)
{
    if (sp->gated && sp->verdict.cause.code[0]) {
        *ret = sp->verdict.cause;
        return;
    }
    fl_backend_peer_cause(sp->peer, ret);
    if (ret->code[0] == '\0' && atomic_load_explicit(&sp->peer->drained, memory_order_relaxed)) {
        fl_cause_set(ret, "drained", "%s is drained", sp->peer->address);
    }
}

void fl_backend_cause(const struct fl_snap_backend *b, struct fl_cause *ret)
{
    const struct fl_snap_peer *first = NULL;
    struct fl_cause found;
    if (b->gated && b->verdict.cause.code[0]) {
        *ret = b->verdict.cause;
        return;
    }
    fl_cause_set(ret, "no_live_upstream", "no peer is usable");
    for (uint32_t i = 0; i < b->peer_count; i++) {
        const struct fl_snap_peer *sp = &b->peers[i];
        if (sp->conf->down || (first && strcmp(sp->peer->address, first->peer->address) > 0)) {
            continue;
        }
        peer_cause(sp, &found);
        if (found.code[0]) {
            first = sp;
            *ret = found;
        }
    }
    if (b->peer_count == 0) {
        fl_cause_set(ret, b->has_members ? "no_peers" : "no_members",
                     b->has_members ? "the backend has no peers left"
                                    : "the backend has had no members since the sidecar started");
    } else if (b->countable == 0) {
        fl_cause_set(ret, "down", "every peer is marked down");
    }
}
