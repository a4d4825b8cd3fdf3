/* handshake - TLS with a peer, between the connect and the first byte of a request.
 *
 * A handshake costs memory and CPU, and after an outage all clients want one at once: at most 8 of
 * a thread are under way, the others wait in order, within their connect_timeout. A place is held
 * for at most 50 ms: one that takes longer waits for the network, which costs nothing, and a peer
 * that hangs in its handshakes must not keep the places from the others. Own data thread only. */
#ifndef FL_SIDECAR_PROXY_HANDSHAKE_H
#define FL_SIDECAR_PROXY_HANDSHAKE_H

#include <stdbool.h>

#include "common/base/check.h"
#include "common/base/list.h"
#include "common/io/reactor.h"

struct fl_worker;
struct fl_upstream;
struct fl_tls_terms;

enum fl_handshake_place { FL_PLACE_NONE, FL_PLACE_WAITS, FL_PLACE_HELD };

struct fl_handshakes {            /* of one worker; upstreams by their place_node */
    struct fl_list held, waiting; /* oldest first */
    unsigned held_count;
    struct fl_timer lease;
    struct fl_task admit;
};

void fl_handshake_init(struct fl_handshakes *h);
void fl_handshake_done(struct fl_worker *w);

/* On a connected upstream: goes as far as it can. 0: done, bytes may flow; -EAGAIN: again after its
 * next event, or when its turn has come (its exchange is run); else -errno or -fault. name: sent
 * and verified. */
FL_MUST_USE int fl_handshake_step(struct fl_upstream *up, struct fl_tls_terms *terms,
                                  const char *name);
/* Has it not begun, for want of a place? */
bool fl_handshake_waits(const struct fl_upstream *up);
/* Gives its place back, held or waited for; harmless without one. */
void fl_handshake_leave(struct fl_upstream *up);

#endif
