/* exchange_clock - which deadline of an exchange is next (behaviour.md section 4). One function of
 * its state, used both to arm the client's timer and to see what has run out; the deadline's clock
 * runs only while the backend owes progress. */
#ifndef FL_SIDECAR_PROXY_EXCHANGE_CLOCK_H
#define FL_SIDECAR_PROXY_EXCHANGE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct fl_exchange;

enum fl_due_what {
    FL_DUE_NOTHING,
    FL_DUE_CONNECT,
    FL_DUE_SEND,
    FL_DUE_HEAD,
    FL_DUE_CLIP, /* next_upstream_timeout, on later tries */
    FL_DUE_DEADLINE,
    FL_DUE_EXPECT, /* the backend is silent: we send the 100 */
    FL_DUE_PEEK,
    FL_DUE_STALL,    /* in the body of the response */
    FL_DUE_PATIENCE, /* more of it is not there yet: see what is (patience.h) */
    FL_DUE_QUEUE,
    FL_DUE_STARVED, /* buffer_memory is spent, and has been for long */
    FL_DUE_CLIENT_READ,
    FL_DUE_CLIENT_WRITE,
};

struct fl_due {
    int64_t at_ms; /* INT64_MAX: never */
    enum fl_due_what what;
};

/* Brings the clocks up to now: who owes, who waits, since when. */
void fl_exchange_advance(struct fl_exchange *x);
/* The same, then says what comes first. */
struct fl_due fl_exchange_due(struct fl_exchange *x);
/* Has the deadline been used up? */
bool fl_exchange_deadline_passed(struct fl_exchange *x);

#endif
