/* exchange_begin - the first step of an exchange: hold a snapshot, name the request, route and
 * classify it. */
#ifndef FL_SIDECAR_PROXY_EXCHANGE_BEGIN_H
#define FL_SIDECAR_PROXY_EXCHANGE_BEGIN_H

#include "sidecar/proxy/exchange.h"

enum fl_x_state fl_exchange_begin(struct fl_exchange *x);
/* As much of it as an answer to a bad head needs. */
void fl_exchange_begin_refused(struct fl_exchange *x);
/* A waiting exchange that has tried nothing yet moves on to the worker's newest snapshot. */
void fl_exchange_rebase(struct fl_exchange *x);
void fl_exchange_unpin(struct fl_exchange *x);

#endif
