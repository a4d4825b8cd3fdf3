#include "common/model/outcome.h"

#include "common/base/check.h"

#define X(id, token, http, s3, code, proxy_status, title)                                          \
    [FL_ANSWER_##id] = {token, http, s3, code, proxy_status, title},
static const struct fl_answer_row answers[] = {FL_ANSWERS(X)};
#undef X

#define X(id, token, class, condition, blames, answer, status, proxy_status, message)              \
    [FL_OUTCOME_##id] = {token,  class,        condition, blames, FL_ANSWER_##answer,              \
                         status, proxy_status, message},
static const struct fl_outcome_row outcomes[] = {FL_OUTCOMES(X)};
#undef X

_Static_assert(FL_COUNTOF(answers) == FL_ANSWER_COUNT, "a row per answer");
_Static_assert(FL_COUNTOF(outcomes) == FL_OUTCOME_COUNT, "a row per outcome");

enum fl_condition fl_condition_of_status(int status)
{
    switch (status) {
    case 403:
        return FL_ON_HTTP_403;
    case 404:
        return FL_ON_HTTP_404;
    case 429:
        return FL_ON_HTTP_429;
    case 500:
        return FL_ON_HTTP_500;
    case 502:
        return FL_ON_HTTP_502;
    case 503:
        return FL_ON_HTTP_503;
    case 504:
        return FL_ON_HTTP_504;
    default:
        return FL_ON_NEVER;
    }
}

const char *fl_condition_name(enum fl_condition one)
{
    switch (one) {
    case FL_ON_NEVER:
        return "off";
    case FL_ON_ERROR:
        return "error";
    case FL_ON_TIMEOUT:
        return "timeout";
    case FL_ON_INVALID_HEADER:
        return "invalid_header";
    case FL_ON_HTTP_500:
        return "http_500";
    case FL_ON_HTTP_502:
        return "http_502";
    case FL_ON_HTTP_503:
        return "http_503";
    case FL_ON_HTTP_504:
        return "http_504";
    case FL_ON_HTTP_403:
        return "http_403";
    case FL_ON_HTTP_404:
        return "http_404";
    case FL_ON_HTTP_429:
        return "http_429";
    case FL_ON_NON_IDEMPOTENT:
        return "non_idempotent";
    }
    FL_IMPOSSIBLE("not one condition");
}

const struct fl_answer_row *fl_answer_row(enum fl_answer a)
{
    FL_MUST((unsigned)a < FL_ANSWER_COUNT);
    return &answers[a];
}

const struct fl_outcome_row *fl_outcome_row(enum fl_outcome o)
{
    FL_MUST((unsigned)o < FL_OUTCOME_COUNT);
    return &outcomes[o];
}

/* A throttle answer matches no condition; only a 429 may be listed, by its own name (behaviour.md
 * section 3). */
static uint32_t condition_of(enum fl_outcome o, int status)
{
    if (o == FL_OUTCOME_HTTP_STATUS) {
        return (uint32_t)fl_condition_of_status(status);
    }
    if (o == FL_OUTCOME_THROTTLED) {
        return status == 429 ? (uint32_t)FL_ON_HTTP_429 : (uint32_t)FL_ON_NEVER;
    }
    return (uint32_t)fl_outcome_row(o)->condition;
}

bool fl_outcome_listed(enum fl_outcome o, int status, uint32_t mask)
{
    return (condition_of(o, status) & mask) != 0;
}

bool fl_outcome_counts(enum fl_outcome o, int status, uint32_t count_failures)
{
    const uint32_t never = FL_ON_HTTP_403 | FL_ON_HTTP_404 | FL_ON_HTTP_429;
    return fl_outcome_row(o)->blames && (condition_of(o, status) & count_failures & ~never) != 0;
}
