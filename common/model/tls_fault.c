#include "common/model/tls_fault.h"

#include <stddef.h>

static const struct {
    const char *code, *text;
    bool refusal;
} rows[] = {
#define X(id, code, text, refusal) [FL_TLS_##id - FL_TLS_FAULT_BASE] = {code, text, refusal},
    FL_TLS_FAULTS(X)
#undef X
};

bool fl_tls_fault_is(int err)
{
    return err > FL_TLS_FAULT_BASE && err < FL_TLS_FAULT_END;
}

const char *fl_tls_fault_code(int err)
{
    return fl_tls_fault_is(err) ? rows[err - FL_TLS_FAULT_BASE].code : NULL;
}

const char *fl_tls_fault_text(int err)
{
    return fl_tls_fault_is(err) ? rows[err - FL_TLS_FAULT_BASE].text : NULL;
}

bool fl_tls_fault_is_refusal(int err)
{
    return fl_tls_fault_is(err) && rows[err - FL_TLS_FAULT_BASE].refusal;
}
