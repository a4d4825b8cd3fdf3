#include "sidecar/policy/retry_budget.h"

#define TOKEN 1000 /* in thousandths */

/* Per second the bucket gets the larger of the floor's share and the requests' share, never their
 * sum: at 20 % and one second of burst the amplification stays below 1.25 from a few seconds on,
 * whatever the rate. `requests_in_second` and `second_at_ms` say how much of this second's share
 * was given already. */
static int64_t floor_per_second(const struct fl_retry_budget_conf *c)
{
    return (int64_t)c->min_per_second * TOKEN / (c->threads ? c->threads : 1);
}

static int64_t share_of(const struct fl_retry_budget_conf *c, uint32_t requests)
{
    return (int64_t)requests * c->ratio_percent * (TOKEN / 100);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What may be saved up: one second's worth. The floor counts whole here although the threads share
 * its refill: failures that happen to meet one thread must not find a quarter of a token. */
static int64_t burst(const struct fl_retry_budget *b, const struct fl_retry_budget_conf *c)
{
    uint32_t requests = b->requests_in_second > b->last_second_requests ? b->requests_in_second
                                                                        : b->last_second_requests;
    int64_t at_least = c->min_per_second > 0 ? (int64_t)c->min_per_second * TOKEN : 0;
    if (at_least == 0 && c->ratio_percent > 0) {
        at_least = TOKEN; /* else a ratio alone could never save up for one retry */
    }
    return larger(at_least, share_of(c, requests));
}

/* What this second has earned by `at`. */
static int64_t earned(const struct fl_retry_budget *b, const struct fl_retry_budget_conf *c,
                      int64_t at_ms)
{
    int64_t by_time = floor_per_second(c) * (at_ms - b->second_at_ms) / 1000;
    return larger(by_time, share_of(c, b->requests_in_second));
}

static void next_second(struct fl_retry_budget *b, const struct fl_retry_budget_conf *c,
                        int64_t now_ms)
{
    int64_t end_ms = b->second_at_ms + 1000;
    b->milli_tokens += earned(b, c, end_ms) - b->earned_milli;
    int64_t idle_seconds = (now_ms - end_ms) / 1000;
    b->last_second_requests = idle_seconds ? 0 : b->requests_in_second;
    b->requests_in_second = 0;
    b->earned_milli = 0;
    b->second_at_ms = end_ms + idle_seconds * 1000;
    if (idle_seconds) { /* long enough to fill what an idle bucket holds */
        b->milli_tokens += idle_seconds < 3600 ? floor_per_second(c) * idle_seconds : burst(b, c);
    }
}

/* Brings the second up to now. */
static void begin(struct fl_retry_budget *b, const struct fl_retry_budget_conf *c, int64_t now_ms)
{
    if (!b->started) { /* full: the very first request may meet a dead peer */
        b->started = true;
        b->second_at_ms = now_ms;
        b->milli_tokens = burst(b, c);
    }
    if (now_ms - b->second_at_ms >= 1000) {
        next_second(b, c, now_ms);
    }
}

static void fill(struct fl_retry_budget *b, const struct fl_retry_budget_conf *c, int64_t now_ms)
{
    begin(b, c, now_ms);
    int64_t now_earned =
        now_ms > b->second_at_ms ? earned(b, c, now_ms) : earned(b, c, b->second_at_ms);
    if (now_earned > b->earned_milli) {
        b->milli_tokens += now_earned - b->earned_milli;
        b->earned_milli = now_earned;
    }
    int64_t most = burst(b, c);
    if (b->milli_tokens > most) {
        b->milli_tokens = most;
    }
}

void fl_retry_budget_request(struct fl_retry_budget *b, const struct fl_retry_budget_conf *c,
                             int64_t now_ms)
{
    begin(b, c, now_ms);
    if (b->requests_in_second < UINT32_MAX) {
        b->requests_in_second++;
    }
    fill(b, c, now_ms);
}

bool fl_retry_budget_has(struct fl_retry_budget *b, const struct fl_retry_budget_conf *c,
                         int64_t now_ms)
{
    fill(b, c, now_ms);
    return b->milli_tokens >= TOKEN;
}

void fl_retry_budget_spend(struct fl_retry_budget *b)
{
    b->milli_tokens -= TOKEN;
}
