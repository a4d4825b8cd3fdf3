#include "common/http1/method.h"

#include "common/base/check.h"

#define X(id, name, safe, idempotent) {name, sizeof(name) - 1, safe, idempotent},
static const struct {
    const char *name;
    size_t len;
    bool safe, idempotent;
} methods[] = {FL_HTTP_METHODS(X)};
#undef X

enum fl_http_method fl_method_of(struct fl_span name)
{
    for (unsigned m = FL_METHOD_OTHER + 1; m < FL_METHOD_COUNT; m++) {
        if (name.len == methods[m].len && memcmp(name.ptr, methods[m].name, name.len) == 0) {
            return (enum fl_http_method)m;
        }
    }
    return FL_METHOD_OTHER;
}

const char *fl_method_name(enum fl_http_method method)
{
    FL_MUST((unsigned)method < FL_METHOD_COUNT);
    return methods[method].name;
}

bool fl_method_is_safe(enum fl_http_method method)
{
    FL_MUST((unsigned)method < FL_METHOD_COUNT);
    return methods[method].safe;
}

bool fl_method_is_idempotent(enum fl_http_method method)
{
    FL_MUST((unsigned)method < FL_METHOD_COUNT);
    return methods[method].idempotent;
}
