/* tap - GET /_/api/admin/tap: access-log lines as they are written, for people who watch. With
 * access_log errors or off, lines are made for watchers only and written nowhere.
 *
 * A line goes from the writer thread into a block under a short lock, from there (the control
 * thread's turn) into the buffer of each watcher that wants it. Whoever is slow loses lines, and
 * finds {"dropped":N} in their place; nobody else waits. Nothing is kept while nobody watches.
 *
 * Control thread, but for what the writer thread calls. */
#ifndef FL_SIDECAR_ADMIN_TAP_H
#define FL_SIDECAR_ADMIN_TAP_H

#include "common/io/bridge/mhd_bridge.h"
#include "common/io/log.h"
#include "common/io/reactor.h"
#include "sidecar/policy/snapshot.h"

#define FL_TAP_WATCHERS_MAX  4
#define FL_TAP_WATCHER_BYTES ((size_t)512 * 1024) /* what a watcher may be behind */

struct fl_tap;

/* Before the writer starts. NULL: no memory. */
FL_MUST_USE struct fl_tap *fl_tap_new(struct fl_reactor *r, struct fl_log_writer *w);
/* After the servers were freed and the writer has stopped. Accepts NULL, returns NULL. */
struct fl_tap *fl_tap_free(struct fl_tap *t);

/* The top of every turn. t may be NULL. current: tells the bucket of a line. */
void fl_tap_turn(struct fl_tap *t, const struct fl_snapshot *current);
/* Query: bucket=NAME, status=503 or status=5xx; both optional. */
void fl_tap_open(struct fl_tap *t, struct fl_mhd_call *call);

#endif
