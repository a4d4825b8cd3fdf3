/* signals - SIGTERM, SIGINT and SIGHUP as events of the reactor. Blocked before the first thread is
 * made, so that all threads inherit that and none is interrupted. */
#ifndef FL_COMMON_IO_SIGNALS_H
#define FL_COMMON_IO_SIGNALS_H

#include "common/base/check.h"
#include "common/io/reactor.h"

struct fl_signals {
    struct fl_io io;
    void (*on_signal)(void *arg, int number);
    void *arg;
};

void fl_signals_block(void); /* and SIGPIPE ignored */
FL_MUST_USE int fl_signals_open(struct fl_signals *s, struct fl_reactor *r,
                                void (*on_signal)(void *arg, int number), void *arg);

#endif
