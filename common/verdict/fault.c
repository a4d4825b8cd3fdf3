#include "common/verdict/fault.h"

#include "common/base/check.h"
#include "common/model/tls_fault.h"

/* "WHAT (errno text)", the parenthesis only when there is an errno. */
static void with_errno(struct fl_cause *ret, const char *code, const char *before,
                       const char *address, const char *after, int os_errno)
{
    if (os_errno > 0) {
        fl_cause_set(ret, code, "%s%s%s (%s)", before, address, after,
                     fl_cause_errno_text(os_errno));
    } else {
        fl_cause_set(ret, code, "%s%s%s", before, address, after);
    }
}

static void tls_cause(int os_errno, const char *address, struct fl_cause *ret)
{
    with_errno(ret, fl_tls_fault_is(os_errno) ? fl_tls_fault_code(os_errno) : "tls_failure",
               "TLS handshake with ", address, " failed", os_errno);
}

static void status_cause(int status, const char *address, struct fl_cause *ret)
{
    char code[] = "http_000";
    if (status >= 100 && status <= 999) {
        code[5] = (char)('0' + status / 100);
        code[6] = (char)('0' + status / 10 % 10);
        code[7] = (char)('0' + status % 10);
    }
    fl_cause_set(ret, code, "%s answered with status %d", address, status);
}

/* Ours or the client's: no peer is to blame, and the texts say so. */
static void innocent_cause(enum fl_outcome o, int os_errno, const char *address,
                           struct fl_cause *ret)
{
    if (o == FL_OUTCOME_STALE_REUSE) {
        fl_cause_set(ret, "stale_reuse", "a kept connection to %s ended under the request",
                     address);
    } else if (o == FL_OUTCOME_CLIENT_ABORT) {
        fl_cause_set(ret, "client_abort", "the client left");
    } else if (o == FL_OUTCOME_CLIENT_TIMEOUT) {
        fl_cause_set(ret, "client_timeout", "the client was too slow");
    } else if (o == FL_OUTCOME_CLIENT_BAD) {
        fl_cause_set(ret, "client_bad", "the client broke the protocol");
    } else if (o == FL_OUTCOME_LOCAL_RESOURCE) {
        with_errno(ret, "local_resource", "the sidecar is out of a local resource", "", "",
                   os_errno);
    } else {
        *ret = (struct fl_cause){.code = ""};
    }
}

void fl_fault_cause(enum fl_outcome o, int status, int os_errno, const char *address,
                    struct fl_cause *ret)
{
    switch (o) {
    case FL_OUTCOME_CONNECT_FAILED:
        with_errno(ret, os_errno > 0 ? fl_cause_errno_code(os_errno) : "connect_failed",
                   "connect to ", address, " failed", os_errno);
        return;
    case FL_OUTCOME_CONNECT_TIMEOUT:
        fl_cause_set(ret, "connect_timeout", "connect to %s timed out", address);
        return;
    case FL_OUTCOME_TLS_FAILED:
        tls_cause(os_errno, address, ret);
        return;
    case FL_OUTCOME_SEND_TIMEOUT:
        fl_cause_set(ret, "send_timeout", "sending the request to %s timed out", address);
        return;
    case FL_OUTCOME_READ_TIMEOUT:
        fl_cause_set(ret, "no_answer", "%s accepts connections but does not answer", address);
        return;
    case FL_OUTCOME_PREMATURE_CLOSE:
        with_errno(ret, "premature_close", "", address, " closed the connection without an answer",
                   os_errno);
        return;
    case FL_OUTCOME_INVALID_HEADER:
        fl_cause_set(ret, "invalid_header", "the answer of %s is not valid HTTP", address);
        return;
    case FL_OUTCOME_HTTP_STATUS:
        status_cause(status, address, ret);
        return;
    case FL_OUTCOME_THROTTLED:
        fl_cause_set(ret, "throttled", "%s asks to slow down", address);
        return;
    case FL_OUTCOME_TRUNCATED:
        fl_cause_set(ret, "truncated", "%s ended the answer before it was complete", address);
        return;
    case FL_OUTCOME_STALLED:
        fl_cause_set(ret, "stalled", "%s stopped in the middle of the answer", address);
        return;
    case FL_OUTCOME_CLIPPED:
        fl_cause_set(ret, "clipped", "next_upstream_timeout passed before %s answered", address);
        return;
    case FL_OUTCOME_DEADLINE:
    case FL_OUTCOME_DEADLINE_BLAMED:
        fl_cause_set(ret, "deadline", "the deadline passed before %s answered", address);
        return;
    case FL_OUTCOME_OK:
    case FL_OUTCOME_STALE_REUSE:
    case FL_OUTCOME_CLIENT_ABORT:
    case FL_OUTCOME_CLIENT_TIMEOUT:
    case FL_OUTCOME_CLIENT_BAD:
    case FL_OUTCOME_LOCAL_RESOURCE:
        innocent_cause(o, os_errno, address, ret);
        return;
    case FL_OUTCOME_COUNT:
        break;
    }
    FL_IMPOSSIBLE("outcome");
}
