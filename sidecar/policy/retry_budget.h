/* retry_budget - token bucket of one backend in one thread: filled by `ratio` of requests, at least
 * min_per_second, burst of one second (contract.md section 8). The floor is split between the
 * threads. Pure; own thread only. */
#ifndef FL_SIDECAR_POLICY_RETRY_BUDGET_H
#define FL_SIDECAR_POLICY_RETRY_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* A zeroed one is a full bucket. */
struct fl_retry_budget {
    int64_t milli_tokens;        /* 1000 = one retry */
    int64_t second_at_ms;        /* when the second began that the next two belong to */
    int64_t earned_milli;        /* what this second has given so far */
    uint32_t requests_in_second; /* what the burst limit is made from */
    uint32_t last_second_requests;
    bool started;
};

struct fl_retry_budget_conf {
    uint32_t ratio_percent, min_per_second, threads;
};

void fl_retry_budget_request(struct fl_retry_budget *b, const struct fl_retry_budget_conf *c,
                             int64_t now_ms); /* one per exchange */
bool fl_retry_budget_has(struct fl_retry_budget *b, const struct fl_retry_budget_conf *c,
                         int64_t now_ms);
void fl_retry_budget_spend(struct fl_retry_budget *b); /* after _has said true */

#endif
