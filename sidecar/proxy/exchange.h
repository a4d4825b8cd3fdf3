/* exchange - one client request and its answer. The only place that knows the whole journey: route,
 * pick, try, judge, retry, relay or reply, log. Its state is entered through one door; each step
 * returns the next state. Attached to a client only while a request is under way; taken from a free
 * list. Own data thread only. */
#ifndef FL_SIDECAR_PROXY_EXCHANGE_H
#define FL_SIDECAR_PROXY_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/foresee.h"
#include "common/base/list.h"
#include "common/http1/field_id.h"
#include "common/http1/head_parse.h"
#include "common/model/cause.h"
#include "common/model/outcome.h"
#include "sidecar/policy/backend.h"
#include "sidecar/policy/route.h"
#include "sidecar/policy/s3_operation.h"
#include "sidecar/proxy/attempt.h"
#include "sidecar/proxy/client.h"
#include "sidecar/proxy/gather.h"
#include "sidecar/proxy/replay.h"
#include "sidecar/proxy/splice.h"

enum fl_x_state {
    FL_X_BEGIN,  /* route, classify, gate */
    FL_X_PICK,   /* choose a peer */
    FL_X_QUEUED, /* all peers full, or nobody usable and hold is set */
    FL_X_TRY,    /* an attempt is under way */
    FL_X_JUDGE,  /* it has an outcome: settle, then retry, relay or reply */
    FL_X_RELAY,  /* the response flows to the client */
    FL_X_REPLY,  /* our own answer flows to the client */
    FL_X_FINISH, /* count, log, give back */
    FL_X_DONE,
};

enum { FL_ATTEMPTS_LOGGED = 16, FL_REQUEST_ID_MAX = 128, FL_BUCKET_MAX = 256 };

struct fl_attempt_record { /* what the access log says of one attempt; us, -1 = none */
    const struct fl_peer *peer;
    int status;
    int64_t connect_us, header_us, response_us;
};

/* The response on its way to the client. */
struct fl_relay {
    int status;
    enum fl_http_framing framing;
    struct fl_body_frame frame;
    bool upstream_reusable;
    bool chunked_out;     /* we frame it chunked for the client */
    bool close_delimited; /* the end of the connection ends the body (HTTP/1.0 client) */
    bool complete;        /* whole body read from the upstream */
    bool eof;             /* upstream finished sending */
    bool large;           /* of known length, and enough for splice and patience */
    /* Bytes in attempt.in behind what is being sent, to be looked at again. */
    uint32_t tail_off, tail_len;
    uint64_t sent_bytes;        /* to the client, heads included (bytes_out) */
    struct fl_buffer *extra;    /* a head that did not fit as slices */
    struct fl_buffer *trailers; /* lines that wait for the end of the body */
    bool broken;                /* the upstream ended too early; what came before goes out first */
    int64_t client_progress_ms, upstream_progress_ms;
};

struct fl_exchange {
    struct fl_client *client;
    struct fl_worker *worker;
    const struct fl_snapshot *snapshot; /* held */
    struct fl_exchange *next_free;
    struct fl_task again_task;
    enum fl_x_state state;
    bool running, again;       /* guards against being entered from within */
    bool starving;             /* its last step wanted a buffer and there was none */
    bool counted;              /* among the worker's active ones */
    bool unused;               /* on the free list since the last look at it */
    struct fl_attempt attempt; /* what an edge of its upstream looks at first lies up here */

    /* the request */
    struct fl_buffer *head; /* its bytes stay until the log line is written */
    uint32_t head_off;      /* where the head starts in it */
    uint32_t next_off;      /* where a pipelined next request starts in it */
    struct fl_buffer *line; /* a rewritten request line, or NULL */
    bool malformed;         /* the head could not be parsed: only an answer follows */
    bool expect_pending;    /* it waits for 100 and has sent no body byte */
    /* The 100 is ours to ask for (expect_gate): the client knows nothing of it. */
    bool own_expect;
    bool continue_sent;   /* a 100 went to the client */
    bool interim_relayed; /* another 1xx did: no retry any more */
    bool keep_alive;      /* the client connection may be used on after this */
    bool client_gone;
    bool client_stalled; /* it took or sent nothing for too long */
    bool released;       /* first response byte reached the client */
    struct fl_replay body;
    struct fl_route_ask target; /* in the head's buffer, as key is */
    struct fl_span key;
    uint64_t ids; /* which fields the head has: a bit for each enum fl_http_id */

    /* where it goes */
    const struct fl_snap_policy *policy;
    const struct fl_snap_backend *backend;
    struct fl_operation operation;
    bool s3;                  /* the backend's protocol */
    struct fl_pick next_pick; /* taken when a retry was decided */
    bool has_next_pick;
    uint32_t tries;    /* attempts, stale-reuse replays not counted */
    uint32_t attempts; /* records made, may exceed FL_ATTEMPTS_LOGGED */
    bool retried;
    const char *retry_note; /* log: what the last retry was for, or why there was none; NULL = "" */
    bool discovered;        /* an attempt of ours was counted against a peer */
    /* OK, HTTP_STATUS or THROTTLED: what a relayed response is settled as. */
    enum fl_outcome verdict_of_head;

    /* the answer */
    enum fl_answer answer; /* token for log and metric; NONE when relayed untouched */
    enum fl_outcome ended; /* what the log's class says, unless class is set */
    /* NULL, or a class without an attempt (no_live_upstreams, gated, overload). */
    const char *class;
    struct fl_buffer *reply;
    int status; /* sent, or 499 */
    enum fl_client_end end;

    /* queue */
    struct fl_list queued;
    bool looked;  /* the queue's turn has come: look for a peer again */
    bool holding; /* in the queue because nobody is usable, not because all are full */
    int64_t queued_until_ms;
    int64_t hold_until_ms; /* one queue.hold for all that the exchange waits; 0 = not held yet */
    /* Held after tries that broke: those count no more, and the next one is not before look_at. */
    uint32_t tries_forgiven;
    int64_t look_at_ms, pause_ms;

    /* clocks */
    int64_t began_us, began_ms, first_try_ms, first_byte_us;
    int64_t deadline_ms;     /* allowed while the backend owes; 0 = none */
    int64_t owed_ms;         /* used up */
    int64_t owing_since_ms;  /* 0 = the clock stands still */
    int64_t expect_until_ms; /* then we send the 100 ourselves; 0 = not armed */
    int64_t client_wait_since_ms;
    int64_t starved_since_ms; /* 0 = not starving */

    struct fl_relay relay;
    struct fl_spliced spliced;
    uint64_t tried[FL_TRIED_WORDS];

    /* Not cleared when an exchange is taken, but for what says that they are empty: with hundreds
     * of exchanges under way each cache line that is left alone counts. */
    struct fl_gather to_peer;   /* the request head */
    struct fl_gather to_client; /* the answer, as far as it is being sent */
    struct fl_cause cause;
    struct fl_request_head request;
    struct fl_attempt_record records[FL_ATTEMPTS_LOGGED];
    char request_id[FL_REQUEST_ID_MAX];
    char bucket[FL_BUCKET_MAX];
    char own_lines[FL_REQUEST_ID_MAX + 256]; /* of the request head, when not printed in place */
    char answer_lines[256];                  /* ours, of the response head */
    char chunk_head[FL_CHUNK_HEAD_BYTES];
};

/* The lines of it that are cleared when it is taken. NULL is fine. */
static inline void fl_exchange_foresee(const struct fl_exchange *x)
{
    if (x != NULL) {
        fl_foresee(x, offsetof(struct fl_exchange, to_peer));
    }
}
_Static_assert(FL_HTTP_ID_COUNT <= 64, "a bit for each");
static inline bool fl_exchange_has(const struct fl_exchange *x, enum fl_http_id id)
{
    return (x->ids >> id & 1) != 0;
}
/* Bytes of the answer that the client has not taken yet. */
static inline size_t fl_exchange_unsent(const struct fl_exchange *x)
{
    return x->to_client.left + x->spliced.bytes;
}
static inline void fl_exchange_no_cause(struct fl_exchange *x)
{
    x->cause.code[0] = x->cause.text[0] = '\0';
}
struct fl_exchange *fl_exchange_take(struct fl_worker *w); /* NULL = no memory */
void fl_exchange_untake(struct fl_exchange *x);            /* it is not to be started */
/* Its head is parsed into request, and stands at the start of c->in; takes c->in over and runs. */
void fl_exchange_start(struct fl_exchange *x, struct fl_client *c);
/* The head is bad, too large or too slow: an answer, then the end of the connection. */
void fl_exchange_refuse(struct fl_exchange *x, struct fl_client *c, enum fl_answer a,
                        const char *why);
void fl_exchange_run(struct fl_exchange *x);
void fl_exchange_heard(struct fl_exchange *x); /* an edge of its upstream */
void fl_exchange_tick(struct fl_exchange *x);  /* the client's timer fired */
/* Runs it again in the next turn (it has had its share of this one). */
void fl_exchange_again(struct fl_exchange *x);
/* Runs it again when a buffer was given back. */
void fl_exchange_starve(struct fl_exchange *x);
/* The queue's turn has come: it looks for a peer again. */
void fl_exchange_retry_queue(struct fl_exchange *x);
/* Nobody is left to try, and queue.hold lets it wait for somebody. False: no room, or held long
 * enough. */
bool fl_exchange_hold(struct fl_exchange *x);
/* Cut by the end of the process. */
void fl_exchange_cut(struct fl_exchange *x);

#endif
