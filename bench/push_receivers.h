/* push_receivers - many status listeners that take pushes as sidecars do, in one epoll loop of a
 * process of its own. Nothing is verified: on a real cluster that costs the sidecars' processors.
 */
#ifndef FL_BENCH_PUSH_RECEIVERS_H
#define FL_BENCH_PUSH_RECEIVERS_H

#include <stdint.h>
#include <sys/types.h>

#define FL_RECEIVERS_MARK "10.255." /* the two bytes behind it number the change that came */

struct fl_receivers { /* in memory that both processes share */
    uint32_t count, changes;
    uint16_t port;
    uint32_t observations; /* in each answer */
    int64_t idle_ms;       /* a connection that rests so long is closed; a sidecar: 5000 */
    uint64_t pushes, connections, bytes; /* counted by the receivers */
    int64_t arrived_ns[]; /* [change * count + receiver], CLOCK_MONOTONIC; 0: not (yet) */
};

/* Where receiver i listens: 127.x.y.z. */
void fl_receivers_address(const struct fl_receivers *r, uint32_t i, char *text, size_t cap);
/* Returns when all listen; the pid to end. */
pid_t fl_receivers_start(struct fl_receivers *r);

#endif
