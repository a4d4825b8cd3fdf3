/* listener - accepts on behalf of all data threads: the first thread holds the listening sockets
 * and hands each connection to the thread with the fewest. Pauses, never spins, at the connection
 * cap or out of descriptors. */
#ifndef FL_SIDECAR_PROXY_LISTENER_H
#define FL_SIDECAR_PROXY_LISTENER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/addr.h"
#include "common/io/reactor.h"

struct fl_engine;
struct fl_worker;

struct fl_listener {
    struct fl_io io;
    struct fl_engine *engine;
    struct fl_addr at;      /* as bound */
    struct fl_timer resume; /* after a pause */
};

/* Opens the socket; -errno. Accepting begins with fl_listener_start in the first data thread. */
FL_MUST_USE int fl_listener_open(struct fl_listener *l, struct fl_engine *e,
                                 const struct fl_addr *at);
FL_MUST_USE int fl_listener_start(struct fl_listener *l, struct fl_worker *first);
void fl_listener_stop(struct fl_listener *l);
/* Takes what the accepting thread handed over; called at the top of a worker's turn. */
void fl_listener_take_over(struct fl_worker *w);

#endif
