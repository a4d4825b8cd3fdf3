/* deal - one request of a scenario: what the client asks, what each origin that sees it is to do,
 * and the ledger of what became of it. Bodies are made from a key, so that any byte can be checked
 * wherever it turns up. */
#ifndef FL_TESTS_SCENARIOS_DEAL_H
#define FL_TESTS_SCENARIOS_DEAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/http1/method.h"
#include "tests/sim/scenarios/blob.h"

struct bed;
struct origin;
struct deal;

enum { DEAL_PLANS = 4, DEAL_VISITS = 64 };

enum deal_class { DEAL_S, DEAL_I, DEAL_C, DEAL_N };
enum deal_body { DEAL_NO_BODY, DEAL_LENGTH, DEAL_CHUNKED };
enum deal_expect {
    DEAL_NO_EXPECT,
    DEAL_WAITS,
    DEAL_RUSHES
}; /* RUSHES: says Expect, does not wait */

enum plan_when { PLAN_AT_END, PLAN_AT_HEAD, PLAN_AT_BYTES }; /* of the request */
enum plan_body { PLAN_LENGTH, PLAN_CHUNKED, PLAN_UNTIL_CLOSE };
enum plan_hundred { PLAN_HUNDRED_EARLY, PLAN_HUNDRED_LATE, PLAN_HUNDRED_NEVER, PLAN_HUNDRED_TWICE };
enum plan_fault {
    PLAN_SOUND,
    PLAN_RST_REQUEST,  /* once fault_at bytes of the body have come (0: with the head) */
    PLAN_FIN_REQUEST,  /* the same, by close */
    PLAN_HOLD_REQUEST, /* reads no further */
    PLAN_SILENT,       /* reads all, answers nothing */
    PLAN_RST_ANSWER,   /* behind fault_at bytes of the answer, interim ones included */
    PLAN_FIN_ANSWER,
    PLAN_STALL_ANSWER,
};

/* What an origin does with a request. Zero: a whole, plain 200 without a body. */
struct plan {
    enum plan_when when;
    uint32_t when_bytes;
    int64_t delay_ms; /* before the final answer */
    enum plan_hundred hundred;
    int64_t hundred_ms;  /* of a late one */
    unsigned hints;      /* 103s in front of the answer */
    uint32_t hint_bytes; /* padding of each */
    int status;          /* 0: 200 */
    enum plan_body body;
    uint32_t body_bytes;
    uint32_t head_bytes; /* padding of the head */
    bool trailers, http10, close;
    const char *text; /* instead of the made body */
    const char *raw;  /* instead of the whole answer */
    uint32_t surplus; /* bytes behind the answer that nobody asked for; in a drip, a piece more */
    uint32_t piece_bytes; /* drip */
    uint32_t gush_bytes;  /* of the answer, that go at once before it drips */
    int64_t piece_ms;
    enum plan_fault fault;
    uint32_t fault_at;
};

/* One try of a request, as an origin saw it. */
struct visit {
    unsigned serial;
    struct deal *deal;
    struct origin *origin;
    const struct plan *plan;
    int64_t at_ms, whole_ms;
    uint64_t body_bytes;
    bool whole;    /* the request came in full */
    bool begun;    /* the final answer has begun */
    bool answered; /* it was handed to the network in full */
    bool expects;  /* it came with Expect: 100-continue */
    bool reused;   /* not the first on its connection */
};

enum deal_end {
    DEAL_OPEN,
    DEAL_ANSWERED,
    DEAL_TRUNCATED, /* the answer began and visibly did not end */
    DEAL_DROPPED,   /* the connection ended without an answer */
    DEAL_LEFT,      /* the client went away first */
    DEAL_UNSENT,    /* the connection was over before its turn */
};

struct deal {
    struct bed *bed;
    unsigned number;
    char id[16];

    /* the request */
    const char *method, *target;
    const char *fields; /* more lines, each with CRLF; NULL none */
    const char *raw;    /* instead of all of it: only the answer is looked at */
    enum deal_class class;
    enum deal_body body;
    uint32_t body_bytes;
    uint32_t chunk_bytes; /* 0: one chunk */
    bool trailers, close, http10;
    enum deal_expect expect;
    int64_t expect_ms; /* how long WAITS waits; 0: for ever */
    bool repeats;      /* class I: its policy allows it after it was sent */

    /* what the n-th origin that sees it does; the last one holds for all later ones */
    struct plan plans[DEAL_PLANS];
    unsigned plan_count;

    /* what became of it */
    struct visit *visits[DEAL_VISITS];
    unsigned visit_count;
    bool sent_any, sent_all; /* by the client */
    bool abandoned;          /* it has half-closed */
    int64_t asked_ms, answered_ms;
    enum deal_end end;
    int status;
    char token[32]; /* X-Fairlead-Error, "" when an origin answered */
    struct visit *answered_by;
    uint64_t got_bytes;  /* of the body */
    uint64_t wire_bytes; /* heads and framing too */
    unsigned hundreds, hints;
    bool answer_closes;
    struct blob reply; /* body of the sidecar's own answer */

    /* its access log line */
    unsigned log_lines;
    int log_status;
    unsigned log_tries, log_attempts;
    uint64_t log_in, log_out;
    char log_class[24], log_error[32], log_retry[32];
};

struct deal *deal_new(struct bed *bed, const char *method, const char *target);
void deal_free(struct deal *d);
struct deal *deal_find(struct bed *bed, const char *id, size_t len); /* NULL: not ours */
const struct plan *deal_plan(const struct deal *d, unsigned nth);
bool deal_is_head(const struct deal *d);

/* The request in wire form. */
void deal_head(const struct deal *d, struct blob *out);
void deal_body_wire(const struct deal *d, struct blob *out);

uint32_t deal_request_key(const struct deal *d);
uint32_t deal_answer_key(unsigned serial);
void deal_make(struct blob *out, uint32_t key, uint64_t from, size_t n);
bool deal_same(const char *bytes, uint32_t key, uint64_t from, size_t n);

/* Rules that hold for every request whatever happened; called when all is over. */
void deal_check(const struct deal *d);

#endif
