#include "controller/kube/watch_end.h"

#include <errno.h>
#include <string.h>

#include "common/base/arena.h"
#include "controller/codec/kube_decode.h"

#define STATUS_MAX_BYTES ((size_t)1 << 20) /* of the arena that a Status is read into */

void fl_watch_ending_set(struct fl_watch_ending *e, enum fl_watch_end how, const char *text)
{
    *e = (struct fl_watch_ending){.how = how};
    struct fl_fmt f = fl_fmt_of(e->text, sizeof(e->text));
    fl_fmt_span(&f, fl_span_first(fl_span_of(text), sizeof(e->text) - 1));
}

static enum fl_watch_end of_status(int status, bool version_too_large)
{
    switch (status) {
    case 401:
        return FL_WATCH_UNAUTHORIZED;
    case 403:
    case 404:
        return FL_WATCH_FORBIDDEN;
    case 410:
        return FL_WATCH_EXPIRED;
    case 429:
        return FL_WATCH_THROTTLED;
    default:
        return version_too_large   ? FL_WATCH_TOO_LARGE
               : status >= 500     ? FL_WATCH_SERVER_ERROR
               : status / 100 == 4 ? FL_WATCH_NO_STREAMING
                                   : FL_WATCH_BROKEN;
    }
}

bool fl_watch_ending_of_event(struct fl_span status, struct fl_watch_ending *ret)
{
    struct fl_arena arena;
    struct fl_kube_status s;
    fl_arena_init(&arena, STATUS_MAX_BYTES);
    bool good = fl_kube_decode_status(status, &arena, &s) == 0;
    if (good) {
        enum fl_watch_end how = of_status(s.code, s.version_too_large);
        /* 200 is behind us: what is no known trouble is the server's */
        how = how == FL_WATCH_NO_STREAMING || how == FL_WATCH_BROKEN ? FL_WATCH_SERVER_ERROR : how;
        fl_watch_ending_set(ret, how, s.message[0] != '\0' ? s.message : s.reason);
        ret->status = s.code;
        ret->retry_after_ms =
            s.retry_after_s > 0 && s.retry_after_s < INT32_MAX ? s.retry_after_s * 1000 : 0;
    }
    fl_arena_done(&arena);
    return good;
}

static bool is_too_large(struct fl_span body)
{
    struct fl_arena arena;
    struct fl_kube_status s;
    fl_arena_init(&arena, STATUS_MAX_BYTES);
    bool too_large = fl_kube_decode_status(body, &arena, &s) == 0 && s.version_too_large;
    fl_arena_done(&arena);
    return too_large;
}

static enum fl_watch_end of_fault(enum fl_curl_fault fault, bool head_came)
{
    switch (fault) {
    case FL_CURL_NOT_HTTP:
    case FL_CURL_TOO_LONG:
        return FL_WATCH_BROKEN;
    case FL_CURL_TIMEOUT:
        return FL_WATCH_STALLED;
    case FL_CURL_ENDED:
        return head_came ? FL_WATCH_CUT : FL_WATCH_UNREACHABLE;
    case FL_CURL_NONE:
    case FL_CURL_RESOLVE:
    case FL_CURL_CONNECT:
    case FL_CURL_CONNECT_TIMEOUT:
    case FL_CURL_OTHER:
        break;
    }
    return FL_WATCH_UNREACHABLE;
}

void fl_watch_ending_of_answer(const struct fl_kube_answer *a, bool head_came,
                               struct fl_watch_ending *ret)
{
    enum fl_watch_end how = a->fault != FL_CURL_NONE ? of_fault(a->fault, head_came)
                                                     : of_status(a->status, is_too_large(a->body));
    fl_watch_ending_set(ret, how, a->text);
    ret->retry_after_ms = a->retry_after_ms;
    ret->fault = a->fault;
    ret->status = a->fault == FL_CURL_NONE ? a->status : 0;
    ret->os_errno = a->os_errno;
}

static const char *code_of(const struct fl_watch_ending *e)
{
    if (e->how == FL_WATCH_UNREACHABLE) {
        switch (e->fault) {
        case FL_CURL_RESOLVE:
            return "dns";
        case FL_CURL_CONNECT_TIMEOUT:
            return "connect_timeout";
        case FL_CURL_CONNECT:
            return e->os_errno == EPROTO ? "tls"
                   : e->os_errno != 0    ? fl_cause_errno_code(e->os_errno)
                                         : "unreachable";
        case FL_CURL_NONE:
        case FL_CURL_TIMEOUT:
        case FL_CURL_ENDED:
        case FL_CURL_NOT_HTTP:
        case FL_CURL_TOO_LONG:
        case FL_CURL_OTHER:
            break;
        }
    }
    return fl_watch_end_token(e->how);
}

void fl_watch_ending_cause(const struct fl_watch_ending *e, const char *verb, const char *resource,
                           struct fl_cause *ret)
{
    const char *text = e->text[0] != '\0' ? e->text : fl_watch_end_token(e->how);
    if (e->status == 403) {
        fl_cause_set(ret, code_of(e), "may not %s %s (403): %s", verb, resource, text);
    } else if (e->status == 404) {
        fl_cause_set(ret, code_of(e), "cannot %s %s, the API does not have them (404): %s", verb,
                     resource, text);
    } else if (e->status == 401) {
        fl_cause_set(ret, code_of(e), "%s %s: the API does not know us (401): %s", verb, resource,
                     text);
    } else if (e->status != 0) {
        fl_cause_set(ret, code_of(e), "%s %s: status %d: %s", verb, resource, e->status, text);
    } else {
        fl_cause_set(ret, code_of(e), "%s %s: %s", verb, resource, text);
    }
}
