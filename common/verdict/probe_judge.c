#include "common/verdict/probe_judge.h"

#include <string.h>

#include "common/base/check.h"
#include "common/base/fmt.h"
#include "common/base/units.h"
#include "common/verdict/fault.h"

static void set_text(char *to, size_t cap, const char *text)
{
    struct fl_fmt f = fl_fmt_of(to, cap);
    fl_fmt_header(&f, fl_span_of(text)); /* printable, whole or not at all */
}

static void healthy(struct fl_verdict *v, const char *note)
{
    v->status = FL_VERDICT_HEALTHY;
    set_text(v->note, sizeof(v->note), note);
}

static void blame(struct fl_verdict *v, enum fl_verdict_status status, enum fl_probe_step step)
{
    v->status = status;
    set_text(v->step, sizeof(v->step), fl_probe_step_name(step));
}

static void unreachable(const struct fl_probe_facts *f, const struct fl_probe_result *r,
                        struct fl_verdict *v)
{
    blame(v, FL_VERDICT_UNREACHABLE, r->step);
    if (r->step == FL_PROBE_STEP_DNS) {
        fl_cause_set(&v->cause, "dns_failure", "the name of %s does not resolve", f->address);
    } else if (r->outcome == FL_OUTCOME_TLS_FAILED && r->detail[0]) {
        fl_cause_set(&v->cause, "tls_failure", "TLS handshake with %s failed (%s)", f->address,
                     r->detail);
    } else {
        fl_fault_cause(r->outcome, r->status, r->os_errno, f->address, &v->cause);
    }
}

/* "ADDRESS answered with status 503 (SlowDown)" */
static void erroring(const struct fl_probe_facts *f, const struct fl_probe_result *r,
                     struct fl_verdict *v)
{
    blame(v, FL_VERDICT_ERRORING, FL_PROBE_STEP_STATUS);
    fl_fault_cause(FL_OUTCOME_HTTP_STATUS, r->status, 0, f->address, &v->cause);
    const char *more = r->code[0] ? r->code : r->detail;
    if (more[0]) {
        struct fl_cause plain = v->cause;
        fl_cause_set(&v->cause, plain.code, "%s (%s)", plain.text, more);
    }
}

static bool next_number(struct fl_span *rest, uint64_t *ret)
{
    size_t n = 0;
    while (n < rest->len && rest->ptr[n] >= '0' && rest->ptr[n] <= '9') {
        n++;
    }
    bool ok = fl_units_uint(fl_span_first(*rest, n), ret);
    *rest = fl_span_from(*rest, n);
    return ok;
}

static bool take_char(struct fl_span *rest, char c)
{
    bool there = rest->len && rest->ptr[0] == c;
    *rest = there ? fl_span_from(*rest, 1) : *rest;
    return there;
}

bool fl_probe_judge_expects(const char *expect, int status)
{
    struct fl_span rest = fl_span_of(expect);
    bool found = false;
    do {
        uint64_t low, high;
        rest = fl_span_trim(rest);
        if (!next_number(&rest, &low)) {
            return false;
        }
        high = low;
        if (take_char(&rest, '-') && !next_number(&rest, &high)) {
            return false;
        }
        found |= status >= 0 && (uint64_t)status >= low && (uint64_t)status <= high;
        rest = fl_span_trim(rest);
    } while (take_char(&rest, ','));
    return found && rest.len == 0;
}

static bool one_of(const char *code, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(code, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool names_bad_credentials(const char *code)
{
    static const char *const codes[] = {
        "InvalidAccessKeyId",   "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken",
        "InvalidClientTokenId", "TokenRefreshRequired",  "NotSignedUp",
    };
    return one_of(code, codes, FL_COUNTOF(codes));
}

bool fl_probe_judge_is_skew(const char *code)
{
    static const char *const codes[] = {"RequestTimeTooSkewed", "RequestExpired"};
    return one_of(code, codes, FL_COUNTOF(codes));
}

bool fl_probe_judge_is_elsewhere(int status, const char *code)
{
    static const char *const codes[] = {"AuthorizationHeaderMalformed", "PermanentRedirect",
                                        "TemporaryRedirect", "IllegalLocationConstraintException"};
    return status == 301 || status == 307 || one_of(code, codes, FL_COUNTOF(codes));
}

static void mask(const char *key_id, char out[16])
{
    size_t n = strlen(key_id);
    struct fl_fmt f = fl_fmt_of(out, 16);
    fl_fmt_span(&f, n > 8 ? (struct fl_span){key_id, 4} : (struct fl_span){0});
    fl_fmt_text(&f, "****");
    fl_fmt_span(&f, n > 8 ? (struct fl_span){key_id + n - 2, 2} : (struct fl_span){0});
}

static void rejected(const struct fl_probe_facts *f, const struct fl_probe_result *r,
                     struct fl_verdict *v)
{
    char key[16];
    mask(f->key_id, key);
    blame(v, FL_VERDICT_AUTH_REJECTED, FL_PROBE_STEP_STATUS);
    fl_cause_set(&v->cause, "credentials_rejected",
                 "credentials rejected (status=%d code=%s key=%s)", r->status, r->code, key);
}

static void elsewhere(const struct fl_probe_result *r, struct fl_verdict *v)
{
    blame(v, FL_VERDICT_ERRORING, FL_PROBE_STEP_STATUS);
    fl_cause_set(&v->cause, "wrong_region", "wrong region or endpoint (status=%d%s%s)", r->status,
                 r->detail[0] ? " expected=" : "", r->detail);
}

static void skewed(const struct fl_probe_result *r, struct fl_verdict *v)
{
    blame(v, FL_VERDICT_ERRORING, FL_PROBE_STEP_STATUS);
    fl_cause_set(&v->cause, "clock_skew", "the clock differs by more than the store allows");
    set_text(v->note, sizeof(v->note), r->detail); /* the seconds: a counter, so not in the cause */
}

static void foreign(const struct fl_probe_facts *f, const struct fl_probe_result *r,
                    struct fl_verdict *v)
{
    blame(v, FL_VERDICT_ERRORING, FL_PROBE_STEP_STATUS);
    fl_cause_set(&v->cause, "not_s3", "%s answers HTTP but not S3 (status=%d%s%s)", f->address,
                 r->status, r->detail[0] ? " " : "", r->detail);
}

static void judge_keyed(const struct fl_probe_facts *f, const struct fl_probe_result *r,
                        struct fl_verdict *v)
{
    if (names_bad_credentials(r->code)) {
        rejected(f, r, v);
    } else if (fl_probe_judge_is_skew(r->code)) {
        skewed(r, v);
    } else if (fl_probe_judge_is_elsewhere(r->status, r->code)) {
        elsewhere(r, v);
    } else if (r->status >= 200 && r->status <= 299) {
        healthy(v, "");
    } else if (r->status == 404) {
        struct fl_fmt note = fl_fmt_of(v->note, sizeof(v->note));
        v->status = FL_VERDICT_HEALTHY;
        fl_fmt_printf(&note, f->bucket[0] ? "bucket %s is absent" : "nothing there%s", f->bucket);
    } else if (r->status == 401 || r->status == 403) {
        healthy(v, "access denied; the probe cannot prove more");
    } else {
        erroring(f, r, v);
    }
}

static void judge_s3(const struct fl_probe_facts *f, const struct fl_probe_plan *p,
                     struct fl_verdict *v)
{
    const struct fl_probe_result *r = &p->last;
    bool explained = r->outcome == FL_OUTCOME_OK && r->status < 500 &&
                     !(p->head.status == 400 && r->status < 300);
    if (p->head_answered && !explained) {
        r = &p->head; /* ListBuckets brought no reason; the bucket did answer */
    }
    if (r->foreign) {
        foreign(f, r, v);
    } else if (f->key_id[0]) {
        judge_keyed(f, r, v);
    } else if (r->status < 500) {
        healthy(v, "reachable, credentials not checked");
    } else {
        erroring(f, r, v);
    }
}

void fl_probe_judge(const struct fl_probe_facts *f, const struct fl_probe_plan *p,
                    struct fl_verdict *ret)
{
    *ret = (struct fl_verdict){.duration_ms = p->last.duration_ms};
    if (p->last.outcome != FL_OUTCOME_OK && !p->head_answered) {
        unreachable(f, &p->last, ret);
        return;
    }
    switch (p->type) {
    case FL_PROBE_TCP:
        healthy(ret, "");
        return;
    case FL_PROBE_HTTP:
        if (fl_probe_judge_expects(f->expect, p->last.status)) {
            healthy(ret, "");
        } else {
            erroring(f, &p->last, ret);
        }
        return;
    case FL_PROBE_S3:
        judge_s3(f, p, ret);
        return;
    case FL_PROBE_NONE:
        break;
    }
    FL_IMPOSSIBLE("a probe of type none");
}
