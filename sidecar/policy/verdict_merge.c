#include "sidecar/policy/verdict_merge.h"

#include "common/base/check.h"
#include "common/base/fmt.h"

static bool is_known(const struct fl_verdict *v, uint64_t fingerprint)
{
    return v && v->status != FL_VERDICT_UNKNOWN &&
           (fingerprint == 0 || v->fingerprint == 0 || v->fingerprint == fingerprint);
}

static const char *phrase(enum fl_verdict_status s)
{
    switch (s) {
    case FL_VERDICT_HEALTHY:
        return "reachable";
    case FL_VERDICT_UNREACHABLE:
        return "unreachable";
    case FL_VERDICT_AUTH_REJECTED:
        return "credentials rejected";
    case FL_VERDICT_ERRORING:
        return "answering with errors";
    case FL_VERDICT_UNKNOWN:
        return "unknown";
    }
    FL_IMPOSSIBLE("verdict status");
}

/* A look from before the other's change of opinion contradicts nothing; people must not take it for
 * a difference between two places. */
static void write_other_view(const struct fl_merge_facts *f, const struct fl_verdict *own,
                             const struct fl_verdict *pushed, struct fl_merged *ret)
{
    int64_t pushed_at_ms = f->now_ms - f->pushed_age_ms;
    const char *late = pushed_at_ms < f->own_since_ms    ? "; the controller has not looked since"
                       : own->at_ms < f->pushed_since_ms ? "; this pod has not looked since"
                                                         : "";
    struct fl_fmt text = fl_fmt_of(ret->other_view, sizeof(ret->other_view));
    fl_fmt_printf(&text, "%s from the controller, %s from this pod%s", phrase(pushed->status),
                  phrase(own->status), late);
}

void fl_verdict_merge(const struct fl_merge_facts *f, struct fl_merged *ret)
{
    *ret = (struct fl_merged){.gated = false};
    const struct fl_verdict *own = is_known(f->own, f->fingerprint) ? f->own : NULL;
    const struct fl_verdict *pushed = is_known(f->pushed, f->fingerprint) ? f->pushed : NULL;
    if (f->policy == FL_VERDICTS_IGNORE || f->pushed_age_ms > f->expires_ms) {
        pushed = NULL;
    }
    bool own_blocks = own && fl_verdict_blocks(own->status);
    bool own_is_newer = own && own->at_ms >= f->now_ms - f->pushed_age_ms;
    bool own_is_fresh = own && f->now_ms - own->at_ms <= f->expires_ms;
    bool pushed_down = pushed && pushed->status == FL_VERDICT_UNREACHABLE && !own_is_newer;
    bool contradicted = own && own->at_ms >= f->pushed_since_ms;
    bool trusted = pushed_down && f->policy == FL_VERDICTS_TRUST && !contradicted;
    ret->gated = own_blocks || trusted;
    ret->probe_wanted = pushed_down || (pushed && pushed->status == FL_VERDICT_AUTH_REJECTED &&
                                        f->keyed && !own_is_newer);
    if (own && (own_blocks || !pushed || ((own_is_newer || own_is_fresh) && !trusted))) {
        ret->verdict = *own;
        ret->verdict.source = FL_VERDICT_OWN;
    } else if (pushed) {
        ret->verdict = *pushed;
        ret->verdict.source = FL_VERDICT_PUSHED;
    }
    if (own && pushed && own->status != pushed->status) {
        write_other_view(f, own, pushed, ret);
    }
}
