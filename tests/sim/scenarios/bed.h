/* bed - a sidecar's data plane between scripted clients and origins on the simulated network, and
 * the rules that must hold at the end of every scenario whatever was done to it. One at a time.
 *
 * A rule that is broken prints the seed, the virtual time and the reason, and aborts. */
#ifndef FL_TESTS_SCENARIOS_BED_H
#define FL_TESTS_SCENARIOS_BED_H

#include <stdbool.h>
#include <stdint.h>

#include "sidecar/proxy/engine.h"
#include "tests/sim/scenarios/blob.h"
#include "tests/sim/scenarios/deal.h"
#include "tests/sim/sim.h"

#define BED_FRONT "127.0.0.1:8420"

enum { BED_ORIGINS = 8 };

struct user;

struct bed {
    struct sim_world *world;
    uint64_t seed;
    bool verbose;
    struct fl_registry *registry;
    struct fl_log_writer *logs;
    int log_fd[2];
    struct fl_engine *engine;
    unsigned threads;
    uint64_t generation;
    struct origin *origins[BED_ORIGINS];
    struct deal **deals;
    unsigned deal_count, deal_cap;
    struct visit **visits;
    unsigned visit_count, visit_cap;
    struct user *users;
    unsigned users_open;
    struct sim_counts seen; /* when the running rules were looked at last */
    uint64_t log_lines, log_tries, log_attempts;
    bool log_capped;    /* a line has no room for all attempts of its request */
    struct blob events; /* event-log lines */
    const char *gated;  /* address whose verdict blocks; NULL none */
    bool memory_short;  /* buffer_memory may run out: answers may be cut */
    bool peers_left;    /* peers were taken away: their figures are gone with them */
    bool gates;         /* expect_gate may add an Expect */
    bool lifts;         /* non_idempotent is listed */
    bool impatient;     /* timeouts are short or clients slow: answers may be cut */
};

extern bool bed_verbose; /* of beds made from now on */

struct bed *bed_new(uint64_t seed, unsigned threads, const char *yaml);
/* A new configuration, as after a push or a reload. */
void bed_publish(struct bed *b, const char *yaml);
/* The peer of the newest snapshot; NULL: not there. */
struct fl_peer *bed_peer(struct bed *b, const char *address);

/* Until every client has ended; rules of the running state are looked at on the way. A client that
 * never ends is a broken rule. */
void bed_run(struct bed *b);
void bed_run_for(struct bed *b, int64_t ms);
int64_t bed_now_ms(const struct bed *b);

/* Lets what is idle time out, checks that nothing is left, and ends everything. */
void bed_end(struct bed *b);
/* Ends everything where it stands, as a crash-only process does. */
void bed_cut(struct bed *b);

FL_PRINTF(3, 4) FL_NORETURN void bed_broken(const char *file, int line, const char *fmt, ...);
#define BED_MUST(cond, ...)                                                                        \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            bed_broken(__FILE__, __LINE__, __VA_ARGS__);                                           \
        }                                                                                          \
    } while (0)
FL_PRINTF(1, 2) void bed_say(const char *fmt, ...); /* when verbose */

unsigned bed_events(const struct bed *b, const char *text); /* how often the event log says so */

#endif
