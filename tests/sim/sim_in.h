/* sim_in - the inside of the simulated network, shared by its files.
 *
 * A link is a connection: two ends and two pipes. An end is an app socket (it has a file, once
 * accepted) or a scripted connection. Bytes of a pipe are counted by cursors that only grow: read
 * <= arrived <= launched <= sent      arrived .. sent is the sender's queue, read .. arrived the
 * receiver's launched may run ahead of read by the receiver's queue at most (the window). */
#ifndef FL_TESTS_SIM_SIM_IN_H
#define FL_TESTS_SIM_SIM_IN_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/list.h"
#include "common/io/reactor.h"
#include "common/io/wheel.h"
#include "tests/sim/sim.h"

struct sim_link;
struct sim_listener;
struct sim_file;

struct sim_pipe {
    char *ring;
    uint32_t ring_bytes; /* a power of two, grown as needed */
    uint64_t read, arrived, launched, sent;
    uint64_t acked;     /* arrived, as far as the sender knows */
    int64_t last_us;    /* the latest arrival: order is kept */
    unsigned under_way; /* arrivals to come */
    bool fin_queued, fin_launched, fin_arrived;
};

enum sim_end_state { SIM_CONNECTING, SIM_OPEN, SIM_CLOSED };

struct sim_end {
    struct sim_link *link;
    struct sim_end *peer;
    struct sim_pipe *in, *out;
    enum sim_end_state state; /* CLOSED: by its owner; nobody reads, nobody is told */
    bool app;
    bool snd_shut, dead;  /* dead: RST came or a timeout; both directions are over */
    bool gone_told;       /* script: on_close was called */
    bool nospace, choked; /* wants to hear of room; choked: a random short write was made */
    int err;              /* pending error (positive) */
    int user_timeout_ms;
    struct sim_file *file;
    struct sim_script *script;
};

struct sim_link {
    struct sim_world *world;
    struct fl_list node; /* world.links, or in the pool */
    unsigned refs;       /* ends not closed, events under way */
    struct sim_path path;
    bool cut;
    struct fl_addr from, to;
    struct sim_end end[2];   /* 0 dialled */
    struct sim_pipe pipe[2]; /* 0 carries what end 0 sends */
    struct sim_listener *waiting_at;
    struct fl_list waiting; /* listener.queue */
};

struct sim_listener {
    struct fl_list node; /* world.listeners */
    struct fl_addr at;
    struct sim_file *file; /* app, or NULL */
    const struct sim_endpoint *ep;
    void *arg;
    unsigned backlog, queued;
    struct fl_list queue; /* links, app only */
};

struct sim_chunk {
    struct sim_chunk *next;
    uint64_t n, done;
    bool fill;
    char bytes[];
};

struct sim_script {
    struct sim_conn pub; /* first */
    struct sim_end *end;
    struct fl_list work; /* world.work */
    struct sim_chunk *first, *last;
    uint64_t unsent, filled;
    uint64_t reset_after;
    bool opened, eof_told, held, finish, closing, reset_when_sent, resetting, sent_owed;
};

/* An app socket: the descriptor, its place in a reactor, and what it was told. */
struct sim_file {
    int fd;
    struct sim_end *end;           /* a stream, or NULL */
    struct sim_listener *listener; /* a listener, or NULL */
    struct fl_reactor *reactor;    /* NULL: not registered */
    struct fl_io *io;
    uint32_t generation;
    bool level, paused, queued;
    bool linger0;
    uint32_t wake_at;     /* fl_sock_wake_at; 0 as 1 */
    struct fl_list ready; /* reactor.ready */
    struct sim_file *next_free;
    /* for sim_stuck */
    int64_t told_read_us, told_write_us; /* edge delivered and no call since; 0: nothing owed */
    int64_t half_read_us;
    bool short_sent;
};

#define SIM_BATCH 128

struct sim_event_hit {
    struct sim_file *file;
    uint32_t generation;
    unsigned events;
};

struct fl_reactor {
    struct sim_world *world;
    struct fl_list node; /* world.reactors */
    struct fl_list ready, behind, later, soon;
    int64_t now_us, now_ms;
    void (*on_turn)(void *arg);
    void *on_turn_arg;
    _Atomic bool waking, stopping;
    bool turning;
    bool parked; /* a thread of its own waits in fl_reactor_run; under world.lock */
    uint64_t turns;
    int count;
    struct sim_event_hit batch[SIM_BATCH];
    struct fl_wheel wheel;
};

typedef void sim_event_fn(void *obj, uint64_t arg);

struct sim_event {
    int64_t at_us;
    uint64_t seq;
    sim_event_fn *fn;
    void *obj;
    uint64_t arg;
    struct sim_link *link; /* holds a reference, or NULL */
    bool owned;            /* obj is freed after the call, or when the call never comes */
};

struct sim_fault {
    int err;
    unsigned skip, times;
};

struct sim_route { /* the path to an address */
    struct fl_list node;
    struct fl_addr to;
    struct sim_path path;
};

struct sim_world {
    pthread_t thread;
    pthread_mutex_t lock; /* parked threads only */
    pthread_cond_t parking;
    unsigned parked;
    int64_t now_us, wall_offset_us, turn_us;
    bool shuffle, in_step;
    struct fl_rng rng;
    struct sim_event *heap;
    size_t heap_count, heap_cap;
    uint64_t seq;
    struct fl_list reactors, listeners, links, routes, work, pool;
    struct sim_file **files;
    unsigned file_count, files_open, fd_limit;
    struct sim_file *free_files;
    uint16_t next_port;
    struct sim_fault fault[SIM_CALLS];
    struct sim_counts counts;
};

extern struct sim_world *sim_current;

void *sim_alloc(size_t n); /* zeroed; aborts */

/* sim_world.c */
/* link: kept alive until the call, may be NULL. _owned: obj is from sim_alloc and freed after the
 * call. */
void sim_schedule(struct sim_world *w, int64_t at_us, sim_event_fn *fn, void *obj, uint64_t arg,
                  struct sim_link *link);
void sim_schedule_owned(struct sim_world *w, int64_t at_us, sim_event_fn *fn, void *obj,
                        struct sim_link *link);
/* One step: network, scripts, one turn of each reactor that has something, else a jump in time, not
 * beyond limit_us. False: the limit is reached (or nothing is left to happen: *idle). */
bool sim_step(struct sim_world *w, int64_t limit_us, bool *idle);
int sim_call(struct sim_world *w, enum sim_call call); /* counts it; the errno of a fault, else 0 */
bool sim_chance(struct sim_world *w, unsigned pct);

/* sim_reactor.c */
bool sim_reactor_ready(struct fl_reactor *r); /* would a turn do anything now? */
void sim_reactor_turn(struct fl_reactor *r);
int64_t sim_reactor_next_us(struct fl_reactor *r);
void sim_edge(struct sim_file *f); /* something changed: looked at when the reactor turns */
void sim_unregister(struct sim_file *f);

/* sim_poll.c */
unsigned sim_poll(struct sim_file *f);
bool sim_end_wakes(const struct sim_end *e); /* is there as much to read as it wants? */
bool sim_writable(struct sim_end *e);        /* false also asks to be told of room */

/* sim_link.c */
struct sim_link *sim_link_new(struct sim_world *w, const struct sim_path *path,
                              const struct fl_addr *from, const struct fl_addr *to);
void sim_link_unref(struct sim_link *l);
void sim_link_connect(struct sim_link *l); /* starts the handshake of end 0 */
size_t sim_end_send(struct sim_end *e, const char *bytes, size_t n); /* what there was room for */
size_t sim_end_room(const struct sim_end *e);
const char *sim_end_peek(const struct sim_end *e, size_t *n); /* arrived bytes in one piece */
void sim_end_consume(struct sim_end *e, size_t n);
void sim_end_finish(struct sim_end *e);
void sim_end_close(struct sim_end *e, bool reset);
void sim_end_notify(struct sim_end *e);         /* edge, or work for the script */
bool sim_end_launched(const struct sim_end *e); /* all that was sent is on its way */
void sim_pipe_free(struct sim_pipe *p);

/* sim_sock.c */
struct sim_file *sim_file_of(struct sim_world *w, int fd);                        /* NULL: none */
int sim_file_new(struct sim_world *w, struct sim_end *e, struct sim_listener *l); /* fd or -errno */
void sim_file_close(struct sim_file *f);
struct sim_listener *sim_find_listener(struct sim_world *w, const struct fl_addr *to);
void sim_listener_free(struct sim_listener *l);

/* sim_script.c */
struct sim_script *sim_script_new(struct sim_end *e, const struct sim_endpoint *ep, void *arg);
void sim_script_wake(struct sim_script *s);
void sim_script_work(struct sim_script *s);
void sim_script_drop(struct sim_script *s); /* at the end of the world: no callback */

#endif
