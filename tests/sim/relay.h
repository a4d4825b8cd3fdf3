/* relay - the smallest honest code under test: accepts, dials, copies both ways with half-close,
 * edge-triggered and with back-pressure. Uses only common/io, so it runs over both networks. */
#ifndef FL_TESTS_SIM_RELAY_H
#define FL_TESTS_SIM_RELAY_H

#include "common/base/addr.h"
#include "common/io/reactor.h"

struct relay {
    struct fl_io io;
    struct fl_reactor *r;
    struct fl_addr to;
    unsigned open; /* connections under way */
};

void relay_open(struct relay *relay, struct fl_reactor *r, struct fl_addr at, struct fl_addr to);
void relay_close(struct relay *relay); /* the listener */

#endif
