/* outgoing_head - the request head as it goes to the backend: the client's bytes minus hop-by-hop
 * fields, plus our own lines. Own data thread only. */
#ifndef FL_SIDECAR_PROXY_OUTGOING_HEAD_H
#define FL_SIDECAR_PROXY_OUTGOING_HEAD_H

#include <stdbool.h>

struct fl_exchange;

/* Fills to_peer for the upstream that the attempt has. False: no buffer. */
bool fl_outgoing_head(struct fl_exchange *x);

#endif
