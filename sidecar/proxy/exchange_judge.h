/* exchange_judge - an attempt has an outcome, or its response a head: settle once, then retry,
 * relay or reply. */
#ifndef FL_SIDECAR_PROXY_EXCHANGE_JUDGE_H
#define FL_SIDECAR_PROXY_EXCHANGE_JUDGE_H

#include "sidecar/proxy/exchange.h"

/* State after an attempt that failed, or whose response head is at hand. */
enum fl_x_state fl_judge_attempt(struct fl_exchange *x);
/* The response has been relayed (OK), broke (TRUNCATED, STALLED) or lost its client (CLIENT_ABORT,
 * CLIENT_TIMEOUT). */
enum fl_x_state fl_judge_relayed(struct fl_exchange *x, enum fl_outcome o);
/* Our own answer; goes to FL_X_REPLY, or to FL_X_FINISH when not even that is possible. */
enum fl_x_state fl_judge_answer(struct fl_exchange *x, enum fl_answer a, int64_t release_at_ms);
/* The answer to a client whose head or body is wrong. */
enum fl_answer fl_judge_answer_of(enum fl_http_error e);
/* What becomes of the client's connection when an answer has been sent. */
enum fl_client_end fl_judge_end(const struct fl_exchange *x);
void fl_judge_ask(struct fl_exchange *x, struct fl_ask *ret);

#endif
