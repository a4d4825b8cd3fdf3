/* attempt - one try of an exchange at one peer: take or dial an upstream, send the request, await
 * the head of the response. Ends in exactly one outcome (exchange_judge settles it). Own data
 * thread only. */
#ifndef FL_SIDECAR_PROXY_ATTEMPT_H
#define FL_SIDECAR_PROXY_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/http1/http_error.h"
#include "sidecar/policy/backend.h"
#include "sidecar/policy/retry.h"

struct fl_exchange;
struct fl_attempt_record;
struct fl_upstream;
struct fl_buffer;

/* At most so long for what a 503 says; no request body is sent meanwhile. */
enum { FL_PEEK_MS = 250 };

enum fl_attempt_phase {
    FL_ATTEMPT_IDLE,
    FL_ATTEMPT_CONNECTING, /* the handshake of TLS included */
    FL_ATTEMPT_EXCHANGING, /* sending and awaiting; both directions may move */
    FL_ATTEMPT_PEEKING,    /* a 503 has come: its first body bytes say whether it throttles */
    FL_ATTEMPT_HEADED,     /* the final head is parsed (exchange.response) */
};

struct fl_attempt {
    enum fl_attempt_phase phase;
    struct fl_upstream *up;
    struct fl_pick pick;
    bool picked;          /* pick is held: settle or cancel is owed */
    bool reused;          /* rode a kept connection */
    bool fully_sent;      /* head and whole body */
    bool send_broken;     /* sending failed; an answer may still be readable */
    bool peeked;          /* the 503 at hand has been looked into */
    uint64_t sent_bytes;  /* head and body, given to the kernel */
    struct fl_buffer *in; /* response bytes */
    bool has_read;        /* fl_attempt_read has read: `read` is what came, and not in `in` yet */
    ssize_t read;         /* as of fl_upstream_recv */
    size_t head_length;   /* of the final head, when HEADED or PEEKING */
    unsigned interims;    /* 1xx so far */
    /* how it ended */
    enum fl_outcome outcome;
    int os_errno; /* positive, 0 = none */
    enum fl_http_error http_error;
    /* times: us for the log, ms for deadlines */
    int64_t began_us, connected_us, header_us;
    int64_t began_ms, sent_progress_ms, awaiting_since_ms, received_ms, peek_until_ms;
};

enum fl_attempt_step { FL_ATTEMPT_WAIT, FL_ATTEMPT_GOT_HEAD, FL_ATTEMPT_FAILED };

/* Begins a try at the picked peer; run sends. FL_ATTEMPT_WAIT or _FAILED (outcome set). same_peer:
 * stale-reuse replay, fresh connection. */
enum fl_attempt_step fl_attempt_begin(struct fl_exchange *x, const struct fl_pick *pick,
                                      bool same_peer);
/* Takes what the awaited head's connection has brought, to be looked at by the next run. False:
 * nothing is awaited, or there is no buffer; run says what is to be done. */
bool fl_attempt_read(struct fl_exchange *x);
/* Moves both directions as far as they go. */
enum fl_attempt_step fl_attempt_run(struct fl_exchange *x);
/* connect_timeout has passed: FL_ATTEMPT_FAILED, by what it was waiting for. */
enum fl_attempt_step fl_attempt_connect_timeout(struct fl_exchange *x);
/* What the access log says of the attempt under way, or of the last one. */
struct fl_attempt_record *fl_attempt_record(struct fl_exchange *x);
/* Ends with this outcome (a timeout, a client abort): FL_ATTEMPT_FAILED. */
enum fl_attempt_step fl_attempt_fail(struct fl_exchange *x, enum fl_outcome o, int os_errno);
/* Reads the body from the client and sends it, as far as both go; also while the response already
 * flows. FAILED: the client ended or broke its framing. A broken upstream only sets send_broken: an
 * answer may still be readable. */
enum fl_attempt_step fl_attempt_upload(struct fl_exchange *x);
/* Sends what is held. False: sending is broken. */
bool fl_attempt_send(struct fl_exchange *x);
/* A 503 at hand: waits up to 250 ms for <= 4 KiB of its body; GOT_HEAD (peeked set) when decided.
 */
enum fl_attempt_step fl_attempt_peek(struct fl_exchange *x);
/* Do the body bytes at hand name throttling? (SlowDown, RequestLimitExceeded) */
bool fl_attempt_throttled(const struct fl_exchange *x);
enum fl_sent fl_attempt_sent(const struct fl_exchange *x);
/* Drops connection and buffers; the pick must be settled already. */
void fl_attempt_end(struct fl_exchange *x, bool reusable);

#endif
