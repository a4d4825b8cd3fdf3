/* probe_watch - the peers that a prober watches, by backend and address: each with its definition,
 * its probe, and how the last ones ended; and what they found, counted by backend. At most one
 * probe per peer is in flight. When the next one is due is the prober's business: it embeds a watch
 * in its own struct and sets the timer.
 *
 * The reactor's thread only; used by both processes. */
#ifndef FL_COMMON_PROBE_PROBE_WATCH_H
#define FL_COMMON_PROBE_PROBE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/list.h"
#include "common/base/smap.h"
#include "common/io/reactor.h"
#include "common/model/verdict.h"
#include "common/probe/probe_run.h"
#include "common/probe/probe_target.h"

struct fl_probe_counts;

struct fl_probe_watches {
    struct fl_reactor *reactor;
    struct fl_list list;               /* of watches, in the order in which they came */
    struct fl_smap by_key, by_backend; /* watches; counts */
    uint64_t round;                    /* of the youngest probe */
};

struct fl_probe_watch {
    struct fl_list node;
    struct fl_probe_watches *all;
    struct fl_probe_counts *counts;
    struct fl_probe_run *run;
    struct fl_probe_target *target; /* NULL until defined */
    struct fl_tls_terms *terms;     /* held for the target */
    struct fl_timer next;           /* the prober's: it begins the next probe */
    uint64_t round;                 /* of the last probe, or the one in flight */
    unsigned unhealthy;             /* results in a row that were not healthy */
    bool wanted;                    /* the prober's: is it still a member? */
    const char *backend, *address;
    char *key; /* "backend\naddress" */
};

void fl_probe_watches_init(struct fl_probe_watches *all, struct fl_reactor *r, uint64_t seed);
void fl_probe_watches_done(struct fl_probe_watches *all); /* all are closed */
/* A new round of members begins: nobody is wanted. */
void fl_probe_watches_unwant(struct fl_probe_watches *all);
struct fl_probe_watch *fl_probe_watches_find(const struct fl_probe_watches *all,
                                             const char *backend, const char *address);
/* A probe of the backend (NULL: of any) that began in round `ticket` or before is under way. */
bool fl_probe_watches_asked(const struct fl_probe_watches *all, const char *backend,
                            uint64_t ticket);
/* Results so far by verdict status; they outlive the watches. False: none was ever opened. */
bool fl_probe_watches_counts(const struct fl_probe_watches *all, const char *backend,
                             uint64_t ret[5]);

/* arg of done is w. next fires when its time has come. Not one that is there already. 0 or -ENOMEM:
 * then w is as it was. */
FL_MUST_USE int fl_probe_watch_open(struct fl_probe_watch *w, struct fl_probe_watches *all,
                                    const char *backend, const char *address,
                                    fl_probe_done_fn *done, void (*next)(struct fl_timer *t));
/* done is not called any more; not from within done. Turn once more before the reactor is freed. */
void fl_probe_watch_close(struct fl_probe_watch *w);

/* What is probed from now on; t is copied, its terms are held. 0: as before (a bucket that is only
 * routed here is none of the definition), 1: another definition, or -ENOMEM. */
FL_MUST_USE int fl_probe_watch_define(struct fl_probe_watch *w, const struct fl_probe_target *t);
/* Now; next is off. False: one is in flight already, its result will have to do. */
bool fl_probe_watch_begin(struct fl_probe_watch *w);
static inline bool fl_probe_watch_busy(const struct fl_probe_watch *w)
{
    return fl_probe_run_busy(w->run);
}
/* A probe has ended so: for the counts and `unhealthy`. */
void fl_probe_watch_count(struct fl_probe_watch *w, enum fl_verdict_status s);

#endif
