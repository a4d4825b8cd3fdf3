/* apply_api - PUT /_/api/admin/config: the answer to whoever sent a configuration. What it means is
 * decided in apply. */
#include <errno.h>

#include "common/base/json.h"
#include "sidecar/admin/apply.h"
#include "sidecar/admin/config_api.h"
#include "sidecar/admin/control_inner.h"

#define LABEL "PUT config" /* stands where a file's name would, in findings */

static void put_finding(struct fl_json *j, const struct fl_findings *f,
                        const struct fl_finding *one)
{
    char text[1280];
    struct fl_fmt out = fl_fmt_of(text, sizeof(text));
    fl_findings_print(f, one, &out);
    fl_json_text(j, NULL, text);
}

static void put_findings(struct fl_json *j, const char *key, const struct fl_findings *f,
                         enum fl_severity severity)
{
    fl_json_open(j, key, '[');
    for (const struct fl_finding *one = f->first; one != NULL; one = one->next) {
        if (one->severity == severity) {
            put_finding(j, f, one);
        }
    }
    fl_json_close(j, ']');
}

static void put_hash(struct fl_json *j, uint64_t hash)
{
    char text[32];
    struct fl_fmt h = fl_fmt_of(text, sizeof(text));
    fl_fmt_printf(&h, "%016llx", (unsigned long long)hash);
    fl_json_text(j, "hash", text);
}

static void write_applied(struct fl_fmt *out, void *arg)
{
    const struct fl_apply_result *r = arg;
    struct fl_json j = {out, false};
    fl_json_open(&j, NULL, '{');
    fl_json_text(&j, "status", "applied");
    fl_json_bool(&j, "changed", r->changed);
    put_hash(&j, r->hash);
    put_findings(&j, "warnings", r->findings, FL_SEVERITY_WARNING);
    fl_json_text(&j, "note",
                 "in memory until the next SIGHUP or restart: write it into the file to keep it");
    fl_json_close(&j, '}');
    fl_fmt_char(out, '\n');
}

static int status_of(const struct fl_apply_result *r)
{
    switch (r->end) {
    case FL_APPLY_DONE:
        return 200;
    case FL_APPLY_INVALID:
    case FL_APPLY_UNFIT:
        return 400;
    case FL_APPLY_OWNED:
        return 409;
    case FL_APPLY_NO_MEMORY:
        break;
    }
    return 503;
}

static const char *title_of(int status)
{
    return status == 400 ? "Bad Request" : status == 409 ? "Conflict" : "Service Unavailable";
}

static const char *token_of(const struct fl_apply_result *r)
{
    switch (r->end) {
    case FL_APPLY_INVALID:
        return "bad_request";
    case FL_APPLY_UNFIT:
        return "config_refused";
    case FL_APPLY_OWNED:
        return "owned_by_controller";
    case FL_APPLY_DONE:
    case FL_APPLY_NO_MEMORY:
        break;
    }
    return "local_resource";
}

/* The first of what is wrong; all of it is in `findings` or `refused`. */
static void put_detail(struct fl_json *j, const struct fl_apply_result *r)
{
    char text[1536];
    struct fl_fmt out = fl_fmt_of(text, sizeof(text));
    const struct fl_finding *first = r->findings->first;
    while (first != NULL && first->severity != FL_SEVERITY_ERROR) {
        first = first->next;
    }
    if (r->refusal_count > 0) {
        fl_fmt_text(&out, r->refusals[0].sentence);
    } else {
        fl_fmt_text(&out, "config refused: ");
        if (first != NULL) {
            fl_findings_print(r->findings, first, &out);
        } else {
            fl_fmt_text(&out, "out of memory");
        }
        if (r->findings->errors > 1) {
            fl_fmt_printf(&out, ", and %u more", r->findings->errors - 1);
        }
        fl_fmt_text(&out, " (nothing was changed)");
    }
    fl_json_text(j, "detail", text);
}

static void put_refusals(struct fl_json *j, const struct fl_apply_result *r)
{
    fl_json_text(j, "backend", r->refusals[0].backend);
    fl_json_text(j, "cause", r->refusals[0].cause.text);
    fl_json_open(j, "refused", '[');
    for (uint32_t i = 0; i < r->refusal_count; i++) {
        const struct fl_apply_refusal *one = &r->refusals[i];
        fl_json_open(j, NULL, '{');
        fl_json_text(j, "backend", one->backend);
        fl_json_text(j, "status", fl_verdict_status_name(one->status));
        fl_json_text(j, "code", one->cause.code);
        fl_json_text(j, "cause", one->cause.text);
        fl_json_text(j, "detail", one->sentence);
        fl_json_close(j, '}');
    }
    fl_json_close(j, ']');
}

static void write_refused(struct fl_fmt *out, void *arg)
{
    const struct fl_apply_result *r = arg;
    struct fl_json j = {out, false};
    fl_json_open(&j, NULL, '{');
    fl_json_text(&j, "type", "about:blank");
    fl_json_text(&j, "title", title_of(status_of(r)));
    fl_json_int(&j, "status", status_of(r));
    fl_json_text(&j, "token", token_of(r));
    put_detail(&j, r);
    if (r->refusal_count > 0) {
        put_refusals(&j, r);
    }
    put_findings(&j, "findings", r->findings, FL_SEVERITY_ERROR);
    put_findings(&j, "warnings", r->findings, FL_SEVERITY_WARNING);
    put_hash(&j, r->hash);
    fl_json_close(&j, '}');
    fl_fmt_char(out, '\n');
}

static void on_applied(void *arg, const struct fl_apply_result *r)
{
    struct fl_mhd_call *call = arg;
    struct fl_apply_result copy = *r;
    if (r->end == FL_APPLY_DONE) {
        fl_mhd_reply_written(call, 200, "application/json", write_applied, &copy);
    } else {
        fl_mhd_add_field(call, "X-Fairlead-Error", token_of(r));
        fl_mhd_reply_written(call, status_of(r), "application/problem+json", write_refused, &copy);
    }
}

/* False: answered. */
static bool is_forced(struct fl_mhd_call *call, bool *ret)
{
    char text[8];
    struct fl_span value = {0};
    bool given = fl_mhd_query(call, "force", 0, text, sizeof(text), &value);
    *ret = given && fl_span_is(value, "1");
    if (given && !*ret && !fl_span_is(value, "0")) {
        fl_mhd_problem(call, 400, "bad_request",
                       "force must be 0 or 1: 1 applies without asking the backends (nothing was "
                       "changed)");
        return false;
    }
    return true;
}

void fl_config_put(struct fl_mhd_call *call, void *arg)
{
    struct fl_control *c = arg;
    struct fl_apply_order o = {.source = FL_APPLY_FROM_API, .done = on_applied, .arg = call};
    if (!is_forced(call, &o.force)) {
        return;
    }
    if (fl_mhd_body(call).len == 0) { /* else a mistyped file name would take everything away */
        fl_mhd_problem(call, 400, "bad_request",
                       "the body is empty: send the whole configuration (nothing was changed)");
        return;
    }
    struct fl_findings f;
    fl_findings_init(&f, LABEL);
    o.findings = &f;
    o.fresh = fl_config_yaml_load(LABEL, fl_mhd_body(call), c->conf.overrides,
                                  c->conf.override_count, &f);
    int rc = fl_apply(c, &o);
    if (rc == -EBUSY) {
        fl_mhd_problem(call, 409, "busy",
                       "the backends of another configuration are being asked: try again when that "
                       "is decided (nothing was changed)");
    } else if (rc < 0) {
        fl_mhd_problem(call, 503, "local_resource", "out of memory (nothing was changed)");
    } else if (c->apply != NULL) {
        fl_mhd_suspend(call);
    }
    if (rc < 0) {
        fl_config_free(o.fresh);
    }
    fl_findings_done(&f);
}
