#include "controller/decide/watch_plan.h"

#include <string.h>

#include "common/base/check.h"

static const char *const tokens[] = {
#define X(id, token) token,
    FL_WATCH_ENDS(X)
#undef X
};

const char *fl_watch_end_token(enum fl_watch_end e)
{
    FL_MUST((unsigned)e < FL_WATCH_END_COUNT);
    return tokens[e];
}

static void put(char to[FL_WATCH_VERSION_MAX], const char *version)
{
    size_t n = strlen(version);
    FL_MUST(n < FL_WATCH_VERSION_MAX);
    memmove(to, version, n + 1);
}

bool fl_watch_plan_takes(const char *version)
{
    return version[0] != '\0' && strlen(version) < FL_WATCH_VERSION_MAX;
}

/* ---- doors ---- */

static void enter(struct fl_watch_plan *p, enum fl_watch_step step, const char *version)
{
    p->step = step;
    put(p->version, version);
    p->until_ms = 0;
    p->whole = false;
    p->timeout_s = FL_WATCH_TIMEOUT_MIN_S + (int)fl_rng_below(&p->rng, FL_WATCH_TIMEOUT_MIN_S + 1);
}

static int64_t next_backoff(struct fl_watch_plan *p, int64_t now_ms)
{
    if (p->backoff_ms == 0 || now_ms - p->waited_until_ms >= FL_WATCH_BACKOFF_RESET_MS) {
        p->backoff_ms = p->backoff_min_ms;
    } else {
        p->backoff_ms *= 2;
    }
    if (p->backoff_ms > FL_WATCH_BACKOFF_MAX_MS) {
        p->backoff_ms = FL_WATCH_BACKOFF_MAX_MS;
    }
    return p->backoff_ms;
}

/* What an end asks for besides the next step. */
struct pause {
    int64_t retry_after_ms, now_ms;
};

static void enter_after(struct fl_watch_plan *p, enum fl_watch_step step, const char *version,
                        const struct pause *w)
{
    int64_t jitter = next_backoff(p, w->now_ms);
    int64_t least = w->retry_after_ms < FL_WATCH_RETRY_AFTER_MAX_MS ? w->retry_after_ms
                                                                    : FL_WATCH_RETRY_AFTER_MAX_MS;
    least = least > jitter ? least : jitter;
    p->after_wait = step;
    put(p->version_after_wait, version);
    p->step = FL_WATCH_DO_WAIT;
    p->version[0] = '\0';
    p->whole = false;
    p->until_ms = w->now_ms + least + fl_rng_below(&p->rng, (uint32_t)jitter);
    p->waited_until_ms = p->until_ms;
}

/* The list that is due: how it is asked for, and with which version. */
static enum fl_watch_step list_step(const struct fl_watch_plan *p)
{
    return p->no_streaming || p->unfinished >= FL_WATCH_UNFINISHED_MAX ? FL_WATCH_DO_LIST
                                                                       : FL_WATCH_DO_STREAM;
}

static const char *list_version(const struct fl_watch_plan *p)
{
    if (p->consistent) {
        return "";
    }
    return p->last[0] != '\0' || list_step(p) == FL_WATCH_DO_STREAM ? p->last : "0";
}

static void list_now(struct fl_watch_plan *p)
{
    enter(p, list_step(p), list_version(p));
}

static void list_after(struct fl_watch_plan *p, const struct pause *w)
{
    enter_after(p, list_step(p), list_version(p), w);
}

static void watch_now(struct fl_watch_plan *p)
{
    enter(p, FL_WATCH_DO_WATCH, p->last);
}

static void watch_after(struct fl_watch_plan *p, const struct pause *w)
{
    enter_after(p, FL_WATCH_DO_WATCH, p->last, w);
}

/* ---- what was heard ---- */

void fl_watch_plan_init(struct fl_watch_plan *p, uint64_t seed)
{
    *p = (struct fl_watch_plan){.backoff_min_ms = FL_WATCH_BACKOFF_MIN_MS};
    fl_rng_seed(&p->rng, seed);
    list_now(p);
}

void fl_watch_plan_listed(struct fl_watch_plan *p, const char *version, bool streamed)
{
    FL_MUST(p->step == (streamed ? FL_WATCH_DO_STREAM : FL_WATCH_DO_LIST));
    FL_MUST(fl_watch_plan_takes(version));
    put(p->last, version);
    p->synced = true;
    p->consistent = false;
    p->unfinished = 0;
    if (streamed) {
        p->whole = true;
    } else {
        watch_now(p);
    }
}

static bool is_watching(const struct fl_watch_plan *p)
{
    return p->step == FL_WATCH_DO_WATCH || (p->step == FL_WATCH_DO_STREAM && p->whole);
}

void fl_watch_plan_heard(struct fl_watch_plan *p, const char *version)
{
    if (is_watching(p) && fl_watch_plan_takes(version)) {
        put(p->last, version);
        p->relists = 0;
    }
}

/* ---- ends ---- */

static void list_ended(struct fl_watch_plan *p, enum fl_watch_end how, const struct pause *w)
{
    bool was_consistent = p->consistent;
    bool streamed = p->step == FL_WATCH_DO_STREAM;
    switch (how) {
    case FL_WATCH_EXPIRED:
    case FL_WATCH_TOO_LARGE:
        p->consistent = true;
        if (!was_consistent) {
            list_now(p);
            return;
        }
        break;
    case FL_WATCH_NO_STREAMING:
        if (streamed) {
            p->no_streaming = true;
            list_now(p);
            return;
        }
        p->consistent = true; /* it may have been the version that was not liked */
        break;
    case FL_WATCH_CLOSED:
    case FL_WATCH_CUT:
    case FL_WATCH_SHORT:
    case FL_WATCH_STALLED:
    case FL_WATCH_BROKEN:
        p->unfinished += streamed;
        break;
    case FL_WATCH_THROTTLED:
    case FL_WATCH_UNREACHABLE:
    case FL_WATCH_UNAUTHORIZED:
    case FL_WATCH_FORBIDDEN:
    case FL_WATCH_SERVER_ERROR:
    case FL_WATCH_END_COUNT:
        break;
    }
    list_after(p, w);
}

/* Back to a list; at once only when a watch was of use since the last time. */
static void relist(struct fl_watch_plan *p, bool at_once, const struct pause *w)
{
    p->shorts = p->stalls = p->errors = 0;
    if (at_once && p->relists == 0) {
        list_now(p);
    } else {
        list_after(p, w);
    }
    p->relists++;
}

/* On with watching; at once unless hasty ones have become a habit. */
static void rewatch(struct fl_watch_plan *p, int64_t lasted_ms, const struct pause *w)
{
    p->hasty = lasted_ms < FL_WATCH_SHORT_MS ? p->hasty + 1 : 0;
    if (p->hasty > FL_WATCH_HASTY_MAX) {
        watch_after(p, w);
    } else {
        watch_now(p);
    }
}

/* The n-th in a row makes a list due. */
static void watch_or_list(struct fl_watch_plan *p, unsigned n, unsigned max, const struct pause *w)
{
    if (n >= max) {
        relist(p, false, w);
    } else {
        watch_after(p, w);
    }
}

static void watch_ended(struct fl_watch_plan *p, enum fl_watch_end how, uint64_t events,
                        int64_t lasted_ms, const struct pause *w)
{
    if (events > 0) {
        p->shorts = p->stalls = p->errors = 0;
    }
    if (lasted_ms >= FL_WATCH_STEADY_MS) {
        p->relists = 0;
    }
    switch (how) {
    case FL_WATCH_CLOSED:
        p->shorts = p->stalls = p->errors = 0;
        rewatch(p, lasted_ms, w);
        break;
    case FL_WATCH_CUT:
        if (events > 0 || lasted_ms >= FL_WATCH_SHORT_MS) {
            rewatch(p, lasted_ms, w);
        } else {
            watch_after(p, w);
        }
        break;
    case FL_WATCH_SHORT:
        watch_or_list(p, ++p->shorts, FL_WATCH_SHORTS_MAX, w);
        break;
    case FL_WATCH_STALLED:
        p->stalls += events == 0;
        if (p->stalls >= FL_WATCH_STALLS_MAX) {
            relist(p, false, w);
        } else {
            rewatch(p, lasted_ms, w);
        }
        break;
    case FL_WATCH_EXPIRED:
        relist(p, true, w);
        break;
    case FL_WATCH_TOO_LARGE:
        p->consistent = true;
        relist(p, false, w);
        break;
    case FL_WATCH_SERVER_ERROR:
        watch_or_list(p, ++p->errors, FL_WATCH_ERRORS_MAX, w);
        break;
    case FL_WATCH_NO_STREAMING: /* a 4xx to a watch: it may have been the version */
    case FL_WATCH_BROKEN:
    case FL_WATCH_UNREACHABLE: /* who comes back may be another */
        relist(p, false, w);
        break;
    case FL_WATCH_THROTTLED:
    case FL_WATCH_UNAUTHORIZED:
    case FL_WATCH_FORBIDDEN:
    case FL_WATCH_END_COUNT:
        watch_after(p, w);
        break;
    }
}

void fl_watch_plan_ended(struct fl_watch_plan *p, enum fl_watch_end how, uint64_t events,
                         int64_t lasted_ms, int64_t retry_after_ms, int64_t now_ms)
{
    const struct pause w = {.retry_after_ms = retry_after_ms, .now_ms = now_ms};
    FL_MUST(p->step != FL_WATCH_DO_WAIT && (unsigned)how < FL_WATCH_END_COUNT);
    if (how == FL_WATCH_CLOSED && events == 0 && lasted_ms < FL_WATCH_SHORT_MS) {
        how = FL_WATCH_SHORT;
    }
    p->ends[how]++;
    if (is_watching(p)) {
        watch_ended(p, how, events, lasted_ms, &w);
    } else {
        list_ended(p, how, &w);
    }
}

void fl_watch_plan_hurry(struct fl_watch_plan *p, int64_t now_ms)
{
    if (p->step == FL_WATCH_DO_WAIT && now_ms < p->until_ms) {
        p->until_ms = p->waited_until_ms = now_ms;
    }
}

void fl_watch_plan_run(struct fl_watch_plan *p, int64_t now_ms)
{
    if (p->step == FL_WATCH_DO_WAIT && now_ms >= p->until_ms) {
        enter(p, p->after_wait, p->version_after_wait);
    }
}
