/* probe_run - one peer's probe: asks the peer, tries a second time on a fresh connection before any
 * bad verdict, and hands over what common/verdict says of the facts. A place per peer that lives on
 * between probes, with the connection that http and s3 probes keep; one probe in flight at most.
 *
 * tcp connects, and shakes hands where the backend wants TLS; http sends GET; s3 sends HeadBucket,
 * or ListBuckets where no bucket is known and after a 400, 401 or 403 (probe_plan). An s3 probe is
 * signed with the keys that its two files hold at that moment; files that cannot be used make an
 * answer `erroring`, never a rejection.
 *
 * The reactor's thread only; used by both processes. */
#ifndef FL_COMMON_PROBE_PROBE_RUN_H
#define FL_COMMON_PROBE_PROBE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/io/reactor.h"
#include "common/model/verdict.h"
#include "common/probe/probe_target.h"
#include "common/verdict/probe_plan.h"

#define FL_PROBE_CONNECT_MS                                                                        \
    5000 /* a connect that takes longer than this (or the timeout, if shorter) has failed */

struct fl_probe_run;

/* verdict: status UNKNOWN when the probe could not be made for want of our own descriptors, ports
 * or memory. answered: the peer answered a request (never for tcp). Not to free the run from
 * within. */
typedef void fl_probe_done_fn(void *arg, const struct fl_verdict *verdict, bool answered);

FL_MUST_USE int fl_probe_run_new(struct fl_reactor *r, fl_probe_done_fn *done, void *arg,
                                 struct fl_probe_run **ret);
/* Cancels: done is not called any more. The memory goes at the end of the turn (turn once more
 * before the reactor is freed). Accepts NULL, returns NULL. */
struct fl_probe_run *fl_probe_run_free(struct fl_probe_run *p);
/* False when one is in flight: its result will have to do. The target is copied; another definition
 * than the last time, or other keys, ends the kept connection. done is never called from within
 * start. */
bool fl_probe_run_start(struct fl_probe_run *p, const struct fl_probe_target *t);
void fl_probe_run_cancel(struct fl_probe_run *p); /* the kept connection goes too */
/* The two change places with all they know and hold: what was *a now serves b's done, and is *b.
 * Neither is busy. */
void fl_probe_run_swap(struct fl_probe_run **a, struct fl_probe_run **b);
bool fl_probe_run_busy(const struct fl_probe_run *p);
/* Of one that is under way: what it waits for, and since when it runs. */
enum fl_probe_step fl_probe_run_step(const struct fl_probe_run *p);
int64_t fl_probe_run_began_ms(const struct fl_probe_run *p);
bool fl_probe_run_keyed(const struct fl_probe_run *p); /* the last one was signed */

#endif
