/* probe_run - one peer's probe: asks the peer, tries a second time on a fresh connection before any
 * bad verdict, and hands over what common/verdict says of the facts. A place per peer that lives on
 * between probes; one probe in flight at most.
 *
 * Types: tcp connects. http and s3 are run as tcp for now (answered stays false, so that nothing is
 * concluded from a connect that only an answer could prove). Steps are walked one after another
 * (enter), each with its own deadline, so that sending and reading a head become further steps.
 *
 * The reactor's thread only; used by both processes. */
#ifndef FL_COMMON_PROBE_PROBE_RUN_H
#define FL_COMMON_PROBE_PROBE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/addr.h"
#include "common/base/check.h"
#include "common/io/reactor.h"
#include "common/model/config.h"
#include "common/model/verdict.h"

#define FL_PROBE_CONNECT_MS                                                                        \
    5000 /* a connect that takes longer than this (or the timeout, if shorter) has failed */

struct fl_probe_target { /* copied by start */
    struct fl_addr addr;
    enum fl_probe_type type; /* not NONE */
    int64_t timeout_ms;      /* of one attempt's wait for an answer */
    uint64_t fingerprint;    /* of the definition; goes into the verdict */
};

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
/* False when one is in flight: its result will have to do. done is never called from within start.
 */
bool fl_probe_run_start(struct fl_probe_run *p, const struct fl_probe_target *t);
void fl_probe_run_cancel(struct fl_probe_run *p);
bool fl_probe_run_busy(const struct fl_probe_run *p);

#endif
