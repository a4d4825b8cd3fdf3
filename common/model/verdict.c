#include "common/model/verdict.h"

#include <string.h>

#include "common/base/check.h"

static const char *const names[] = {
    [FL_VERDICT_UNKNOWN] = "unknown",         [FL_VERDICT_HEALTHY] = "healthy",
    [FL_VERDICT_UNREACHABLE] = "unreachable", [FL_VERDICT_AUTH_REJECTED] = "auth-rejected",
    [FL_VERDICT_ERRORING] = "erroring",
};

const char *fl_verdict_status_name(enum fl_verdict_status s)
{
    FL_MUST((size_t)s < FL_COUNTOF(names));
    return names[s];
}

bool fl_verdict_status_parse(struct fl_span text, enum fl_verdict_status *ret)
{
    for (size_t i = 0; i < FL_COUNTOF(names); i++) {
        if (fl_span_is(text, names[i])) {
            *ret = (enum fl_verdict_status)i;
            return true;
        }
    }
    return false;
}

bool fl_verdict_same(const struct fl_verdict *a, const struct fl_verdict *b)
{
    return a->status == b->status && strcmp(a->cause.code, b->cause.code) == 0 &&
           strcmp(a->cause.text, b->cause.text) == 0 && strcmp(a->note, b->note) == 0;
}
