/* apply - a configuration that people send takes the place of the file's. PUT /_/api/admin/config
 * and SIGHUP go through this one door (behaviour.md section 5): judged as a whole; backends whose
 * definition changed are probed first (apply_gate); then all of it is in force, or nothing was
 * changed. Meanwhile everything goes on as before. What comes of it is logged and becomes an event
 * here; the caller answers whoever asked.
 *
 * Not probed: with force, and with `boot_probe: off`. A definite fault (unreachable, auth-rejected)
 * refuses; `erroring` and `unknown` only warn. Keys that are taken at the start stay as they are,
 * with a warning. One apply at a time. Control thread. */
#ifndef FL_SIDECAR_ADMIN_APPLY_H
#define FL_SIDECAR_ADMIN_APPLY_H

#include "common/model/verdict.h"
#include "sidecar/admin/control.h"

enum fl_apply_end {
    FL_APPLY_DONE,
    FL_APPLY_INVALID,  /* findings say why */
    FL_APPLY_OWNED,    /* findings name what is the controller's */
    FL_APPLY_UNFIT,    /* a changed backend failed its probe: refusals say which */
    FL_APPLY_NO_MEMORY /* or no thread, no descriptor */
};

struct fl_apply_refusal {
    const char *backend;
    enum fl_verdict_status status;
    struct fl_cause cause;
    /* "config refused: backend 'x' failed its connection probe — <cause>. <remedy> and re-apply
     * (nothing was changed)" */
    char sentence[640];
};

struct fl_apply_result { /* valid until done returns */
    enum fl_apply_end end;
    uint64_t hash; /* of the effective configuration in force now; 0: unknown */
    bool changed;  /* it is another than before */
    const struct fl_findings *findings;
    const struct fl_apply_refusal *refusals;
    uint32_t refusal_count;
};

enum fl_apply_source { FL_APPLY_FROM_FILE, FL_APPLY_FROM_API };

struct fl_apply_order {
    struct fl_config *fresh;      /* taken over; NULL: it could not be loaded */
    struct fl_findings *findings; /* of loading; taken over, and empty afterwards */
    enum fl_apply_source source;
    bool force;
    /* Called once, from within fl_apply or later, unless the control state ends before, or the
     * file is read once more. NULL: nobody waits. */
    void (*done)(void *arg, const struct fl_apply_result *r);
    void *arg;
};

/* 0; -EBUSY: another one is still probing (a file takes the place of an earlier file, though);
 * -ENOMEM. When it fails, fresh and findings stay the caller's. */
FL_MUST_USE int fl_apply(struct fl_control *c, const struct fl_apply_order *o);
/* Ends the one that is probing, without a word. */
void fl_apply_cancel(struct fl_control *c);

#endif
