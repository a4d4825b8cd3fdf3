#include "sidecar/policy/retry.h"

#include "common/base/check.h"

static bool lifts_classes(const struct fl_policy_conf *p)
{
    return (p->next_upstream & FL_ON_NON_IDEMPOTENT) != 0;
}

/* A status was answered, so the request reached a store (or a gateway before one) and was judged.
 */
static bool status_permits(const struct fl_policy_conf *p, const struct fl_retry_facts *f)
{
    switch (f->class) {
    case FL_CLASS_S:
        return true;
    case FL_CLASS_I: /* a gateway's 500, 502 or 504 may hide a commit */
        return f->status == 503 || f->status == 429 || p->replay_after_send == FL_REPLAY_ALWAYS;
    case FL_CLASS_C:
    case FL_CLASS_N:
        return false;
    }
    FL_IMPOSSIBLE("replay class");
}

/* Fully sent, no response: a hung backend may still commit, one that closed has said its last word.
 */
static bool may_repeat_sent(const struct fl_policy_conf *p, enum fl_replay_class class,
                            bool timed_out)
{
    switch (class) {
    case FL_CLASS_S:
        return true;
    case FL_CLASS_I:
        return p->replay_after_send == FL_REPLAY_ALWAYS ||
               (p->replay_after_send == FL_REPLAY_RESET && !timed_out);
    case FL_CLASS_C:
    case FL_CLASS_N:
        return false;
    }
    FL_IMPOSSIBLE("replay class");
}

static bool class_permits(const struct fl_policy_conf *p, const struct fl_retry_facts *f)
{
    if (f->sent == FL_SENT_NOTHING || lifts_classes(p)) {
        return true; /* nobody can have acted on it, a final status in place of a 100 included */
    }
    if (f->outcome == FL_OUTCOME_HTTP_STATUS || f->outcome == FL_OUTCOME_THROTTLED) {
        return status_permits(p, f);
    }
    if (f->sent == FL_SENT_PARTLY) {
        return f->class == FL_CLASS_S || f->class == FL_CLASS_I;
    }
    bool timed_out = fl_outcome_row(f->outcome)->condition == FL_ON_TIMEOUT;
    return may_repeat_sent(p, f->class, timed_out);
}

enum fl_retry fl_retry_decide(const struct fl_policy_conf *p, const struct fl_retry_facts *f)
{
    uint32_t tries = p->next_upstream_tries ? p->next_upstream_tries : f->peers;
    if (f->response_started) {
        return FL_RETRY_RESPONSE_STARTED;
    }
    if (f->client_gone) {
        return FL_RETRY_CLIENT_GONE;
    }
    if (!fl_outcome_listed(f->outcome, f->status, p->next_upstream)) {
        return FL_RETRY_NOT_LISTED;
    }
    if (!class_permits(p, f)) {
        return FL_RETRY_CLASS;
    }
    if (f->sent != FL_SENT_NOTHING && !f->body_held) {
        return FL_RETRY_BODY_NOT_REPLAYABLE;
    }
    if (f->tries_used >= tries) {
        return FL_RETRY_TRIES;
    }
    if (p->next_upstream_timeout_ms > 0 && f->elapsed_ms >= p->next_upstream_timeout_ms) {
        return FL_RETRY_TIME;
    }
    if (f->deadline_passed) {
        return FL_RETRY_DEADLINE;
    }
    if (!f->budget_ok) {
        return FL_RETRY_BUDGET;
    }
    return f->peer_left ? FL_RETRY_YES : FL_RETRY_NO_PEER;
}

bool fl_retry_stale_replay(const struct fl_policy_conf *p, enum fl_replay_class class,
                           enum fl_sent sent, bool body_held)
{
    if (sent == FL_SENT_NOTHING) {
        return true;
    }
    if (!body_held) {
        return false;
    }
    if (lifts_classes(p)) {
        return true;
    }
    if (sent == FL_SENT_PARTLY) {
        return class == FL_CLASS_S || class == FL_CLASS_I;
    }
    return may_repeat_sent(p, class, false);
}

bool fl_retry_may_ride_idle(const struct fl_policy_conf *p, enum fl_replay_class class,
                            bool body_wholly_held)
{
    return fl_retry_stale_replay(p, class, FL_SENT_FULLY, body_wholly_held);
}

const char *fl_retry_name(enum fl_retry r)
{
#define X(id, token) token,
    static const char *const names[] = {FL_RETRY_REASONS(X)};
#undef X
    FL_MUST((unsigned)r < FL_RETRY_COUNT);
    return names[r];
}
