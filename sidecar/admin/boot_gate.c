/* boot_gate - may this process go on? Decided once, when every first probe has its result
 * (behaviour.md section 5). The data plane serves meanwhile. `erroring` and `unknown` are not
 * failures; a backend without a probe cannot be judged and does not count. Each failing backend has
 * its ERROR line from control_notice. */
#include "sidecar/admin/control_inner.h"

static bool is_probed(const struct fl_snap_backend *b)
{
    if (b->conf->probe.type == FL_PROBE_NONE) {
        return false;
    }
    for (uint32_t i = 0; i < b->conf->peer_count; i++) {
        if (!b->conf->peers[i].down) {
            return true;
        }
    }
    return false; /* no peer to ask: nothing pushed or resolved yet */
}

/* The last word on the start; what is wrong with each was said before. */
static void tell(struct fl_control *c, uint32_t probed, uint32_t failing)
{
    bool all = failing == probed, enforce = c->file->boot_probe == FL_BOOT_ENFORCE;
    struct fl_log_line l;
    fl_log_begin(c->conf.log, &l, all ? FL_LOG_ERROR : FL_LOG_WARN,
                 all ? "every backend is down at boot" : "started with backends down");
    fl_log_text(&l, "boot_probe", enforce ? "enforce" : "warn");
    fl_log_int(&l, "backends", probed);
    fl_log_int(&l, "down", failing);
    if (all && enforce) {
        fl_log_text(&l, "remedy",
                    "fix a backend, or start without any: boot_probe: warn, or "
                    "FAIRLEAD_BOOT_PROBE=warn");
    }
    fl_log_end(c->conf.log, &l);
}

void fl_control_boot_gate(struct fl_control *c)
{
    if (c->boot_decided || c->engine == NULL) {
        return;
    }
    bool off = c->file->boot_probe == FL_BOOT_OFF;
    if (!off && (!fl_list_empty(&c->rebuild.node) || fl_prober_unanswered(c->prober) > 0 ||
                 fl_names_unanswered(c->names) > 0)) {
        return;
    }
    c->boot_decided = true;
    uint32_t probed = 0, failing = 0;
    for (uint32_t i = 0; i < c->current->backend_count; i++) {
        const struct fl_snap_backend *b = &c->current->backends[i];
        struct fl_verdict v;
        fl_control_backend_verdict(c, b, &v);
        probed += is_probed(b);
        failing += is_probed(b) && fl_verdict_blocks(v.status);
    }
    bool all_down = probed > 0 && failing == probed;
    if (failing > 0 && !off) {
        tell(c, probed, failing);
    }
    c->conf.booted(c->conf.arg, !(all_down && c->file->boot_probe == FL_BOOT_ENFORCE));
}
