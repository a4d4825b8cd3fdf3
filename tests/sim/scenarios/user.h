/* user - a scripted client: sends deals over one connection, reads the answers, and checks that
 * each is whole, in order, and of one origin only. */
#ifndef FL_TESTS_SCENARIOS_USER_H
#define FL_TESTS_SCENARIOS_USER_H

#include "common/http1/body_frame.h"
#include "tests/sim/scenarios/bed.h"

enum user_leaves {
    USER_STAYS,    /* closes when all is answered */
    USER_AT_SENT,  /* behind so many bytes */
    USER_AT_GOT,   /* so many bytes of answers */
    USER_AT_MS,    /* after it has connected */
    USER_FINISHES, /* stays, but half-closes behind its last request */
    USER_LINGERS,  /* idle afterwards, until the sidecar closes */
};

struct user_script {
    bool pipelines;
    uint32_t send_bytes; /* in pieces of; 0: all at once */
    int64_t send_ms;     /* between them */
    int64_t hold_ms;     /* reads nothing for so long at first */
    int64_t read_ms;     /* then: pauses between reads */
    enum user_leaves leaves;
    uint64_t leaves_at;
    bool by_reset;
    struct sim_path path; /* all zero: default */
};

/* One answer being read. */
struct user_answer {
    struct fl_response_head head;
    struct fl_body_frame frame;
    bool in_body;
    bool own; /* of the sidecar */
    uint32_t key;
};

struct user {
    struct bed *bed;
    struct user *next;
    struct user_script script;
    struct sim_conn *conn; /* NULL when it has ended */
    struct deal **deals;
    unsigned deal_count;
    unsigned asked, answered; /* deals whose request was queued; whose answer has ended */
    struct blob out;
    size_t out_at;
    bool sending; /* pieces are on their timer */
    bool body_waits;
    bool told;             /* an answer said that it is the last */
    bool open, left, over; /* over: no further request is taken on this connection */
    int64_t dialled_ms, closed_ms;
    int error; /* of the end */
    struct blob in;
    size_t scan;
    struct user_answer answer;
};

/* Dials at once; the deals are asked in this order. */
struct user *user_dial(struct bed *b, const struct user_script *script, struct deal *const *deals,
                       unsigned count);
/* One deal, a plain client. */
struct user *user_ask(struct bed *b, struct deal *deal);
void user_free(struct user *u);

#endif
