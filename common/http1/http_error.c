#include "common/http1/http_error.h"

#include "common/base/check.h"

#define X(id, status, text) {status, text},
static const struct {
    int status;
    const char *text;
} errors[] = {FL_HTTP_ERRORS(X)};
#undef X

int fl_http_error_status(enum fl_http_error error)
{
    FL_MUST((unsigned)error < FL_HTTP_ERR_COUNT);
    return errors[error].status;
}

const char *fl_http_error_text(enum fl_http_error error)
{
    FL_MUST((unsigned)error < FL_HTTP_ERR_COUNT);
    return errors[error].text;
}
