/* sim - a scripted network in virtual time, in the place of common/io's reactor and sock.
 *
 * The code under test is linked unchanged: it calls fl_reactor_*, fl_timer_* and fl_sock_*, which
 * the objects of `sim-io` define. Time stands still while anything can run and jumps to the next
 * deadline or network event when nothing can, so an hour of silence costs nothing, and the same
 * seed gives the same run.
 *
 * One world at a time, one thread. Every reactor made while a world exists belongs to it and is
 * driven by sim_run; fl_reactor_turn and fl_reactor_run work too and drive the others along.
 * Sockets of the code under test ("app sockets") have descriptors from SIM_FD_BASE up; the other
 * side of each is a scripted sim_conn, or a second app socket.
 *
 * The network is ordered and lossless per connection, with a send queue and a receive queue of
 * finite size. Edges come as from epoll: see sim_poll.c. Readiness that is not used up makes no
 * second edge. */
#ifndef FL_TESTS_SIM_SIM_H
#define FL_TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/addr.h"
#include "common/base/check.h"
#include "common/base/rng.h"

#define SIM_FD_BASE  (1 << 20) /* so that a real close() of a simulated descriptor hurts nobody */
#define SIM_START_MS 1000000

struct sim_world;
struct sim_conn;

/* How a way through the network behaves. Zero is a good default for all but the sizes (see
 * sim_path_default). */
enum sim_connect {
    SIM_ACCEPT,      /* if somebody listens, else refused */
    SIM_REFUSE,      /* RST */
    SIM_BLACKHOLE,   /* no answer: ETIMEDOUT after the user timeout, or 127 s */
    SIM_UNREACHABLE, /* EHOSTUNREACH from connect itself */
};

struct sim_path {
    enum sim_connect connect;
    int64_t latency_us;              /* one way */
    uint32_t send_bytes, recv_bytes; /* queues, per direction */
    unsigned fragment_pct;    /* chance that bytes arrive in pieces, each with its own edge */
    unsigned short_write_pct; /* chance that a send takes only a part, and an edge follows */
};

struct sim_path sim_path_default(void); /* accept, no latency, 64 KiB + 64 KiB */

/* --- the world --- */

struct sim_world *sim_new(uint64_t seed); /* aborts without memory: it is a test */
/* Closes everything; returns what the code under test had left open: app sockets, reactors, held
 * timers. They are listed on stderr. */
unsigned sim_free(struct sim_world *w);

int64_t sim_now_ms(const struct sim_world *w);
int64_t sim_now_us(const struct sim_world *w);
struct fl_rng *sim_rng(struct sim_world *w);
void sim_set_wall_ms(struct sim_world *w, int64_t wall_ms); /* the wall clock as of now */
void sim_set_turn_us(struct sim_world *w,
                     int64_t us); /* virtual time that one turn takes; default 10 */
void sim_set_shuffle(struct sim_world *w,
                     bool on); /* random order and size of event batches; default off */
void sim_set_fd_limit(struct sim_world *w,
                      unsigned sockets); /* beyond it EMFILE; default 1 million */
void sim_advance(struct sim_world *w,
                 int64_t us); /* lets time pass inside of a callback (a slow step) */

enum sim_why {
    SIM_TIME, /* the time has come */
    SIM_IDLE, /* (until INT64_MAX only) nothing is ready, scheduled or armed: nothing would ever
                 happen again */
    SIM_DONE, /* the predicate said so, or a reactor was stopped */
};
/* Runs everything until the virtual time until_ms (absolute; INT64_MAX: until idle). */
enum sim_why sim_run_until(struct sim_world *w, int64_t until_ms);
enum sim_why sim_run_for(struct sim_world *w, int64_t ms);
/* The same, and ends as soon as done(arg) is true (looked at after every step). */
enum sim_why sim_run_while(struct sim_world *w, bool (*done)(void *arg), void *arg,
                           int64_t until_ms);

/* After threads were started: waits (really) until so many are parked in fl_reactor_run, so that
 * what they do before it is done. Nothing of the world may be used between the start and this. */
void sim_wait_parked(struct sim_world *w, unsigned threads);

/* Calls fn once at a virtual time. */
void sim_at(struct sim_world *w, int64_t at_ms, void (*fn)(void *arg), void *arg);

/* --- scripted endpoints: clients and origins --- */

/* Any callback may be NULL. They run between the turns of the reactors, never from within a call of
 * the code under test, and may call everything below. */
struct sim_endpoint {
    void (*on_open)(struct sim_conn *c);                              /* connected, or accepted */
    void (*on_data)(struct sim_conn *c, const char *bytes, size_t n); /* consumed when it returns */
    void (*on_eof)(struct sim_conn *c);  /* the other side has finished; NULL: finish too */
    void (*on_sent)(struct sim_conn *c); /* all that was queued is in the hands of the network */
    void (*on_close)(struct sim_conn *c,
                     int err); /* once, last: 0, ECONNREFUSED, ETIMEDOUT, ECONNRESET */
};

struct sim_conn { /* public part */
    const struct sim_endpoint *ep;
    struct sim_world *world;
    void *arg;  /* as given to sim_listen or sim_dial */
    void *user; /* the script's own, for one connection */
    struct fl_addr local, remote;
    uint64_t got_bytes, sent_bytes; /* sent: taken by the network */
};

/* A scripted origin at an address ("10.0.0.1:9000", "unix:/x"). The path is for connections to it,
 * NULL = default. */
void sim_listen(struct sim_world *w, const char *at, const struct sim_endpoint *ep, void *arg);
void sim_unlisten(struct sim_world *w,
                  const char *at); /* new connections are refused; open ones stay */
/* How connections of the code under test to this address behave from now on, listened at or not. */
void sim_set_path(struct sim_world *w, const char *to, const struct sim_path *path);
/* A scripted client of a listener of the code under test (or of another script). path NULL =
 * default. */
struct sim_conn *sim_dial(struct sim_world *w, const char *from, const char *to,
                          const struct sim_path *path, const struct sim_endpoint *ep, void *arg);

/* What a script does; sends are queued without limit and leave in order. Calls on an ended
 * connection are ignored, but the memory is gone once on_close has returned. */
void sim_send(struct sim_conn *c, const void *bytes, size_t n);
void sim_send_text(struct sim_conn *c, const char *text);
void sim_send_fill(struct sim_conn *c, uint64_t n); /* n bytes of sim_fill_at, made as they leave */
void sim_finish(struct sim_conn *c);                /* FIN after what is queued */
void sim_close(struct sim_conn *c); /* as close(2): FIN after it, and bytes that come later are
                                       answered by RST */
void sim_reset(struct sim_conn *c); /* RST now; what has not left is lost */
void sim_reset_when_sent(struct sim_conn *c); /* RST right behind what is queued */
void sim_reset_after(struct sim_conn *c,
                     uint64_t got_bytes);     /* RST once so many bytes in all were received */
void sim_hold(struct sim_conn *c, bool held); /* a reader that does not read */
void sim_cut(struct sim_conn *c); /* the cable: nothing arrives any more, in neither direction */
void sim_conn_at(struct sim_conn *c, int64_t at_ms,
                 void (*fn)(struct sim_conn *c)); /* not called once it has ended */
void sim_conn_after(struct sim_conn *c, int64_t ms, void (*fn)(struct sim_conn *c));
uint64_t
sim_unsent(const struct sim_conn *c); /* queued by the script and not yet taken by the network */

static inline char sim_fill_at(uint64_t i)
{
    return (char)('a' + (i * 7 + (i >> 8)) % 26);
}

/* --- faults --- */

enum sim_call {
    SIM_CALL_LISTEN,
    SIM_CALL_ACCEPT,
    SIM_CALL_CONNECT,
    SIM_CALL_ADD,
    SIM_CALL_RECV,
    SIM_CALL_SEND,
    SIM_CALLS
};
/* After `skip` more calls of that kind, the next `times` fail with this errno (positive). */
void sim_fault(struct sim_world *w, enum sim_call call, int err, unsigned skip, unsigned times);

/* --- what happened --- */

struct sim_counts {
    uint64_t turns, events, idle_jumps;
    uint64_t calls[SIM_CALLS], eagain[SIM_CALLS];
    uint64_t bytes_received, bytes_sent; /* by app sockets */
    uint64_t sockets_made;
    unsigned sockets_open, listeners_open,
        conns_open;          /* now: app sockets (listeners among them), scripted sides */
    unsigned accept_waiting; /* established, not yet accepted */
};
struct sim_counts sim_counts(const struct sim_world *w);

/* App sockets that have been told by an edge and do nothing about it, for at least this long: a
 * lost wake-up, unless the code under test holds back on purpose. report may be NULL. */
struct sim_stuck {
    unsigned unread;    /* bytes, EOF or an error wait; no recv since the edge that told of it */
    unsigned half_read; /* bytes wait behind a recv that stopped in the middle: back-pressure, or
                           forgotten */
    unsigned
        unsent; /* the last send was cut short, room was announced since, and no send followed */
};
struct sim_stuck sim_stuck(const struct sim_world *w, int64_t for_ms, FILE *report);

#endif
