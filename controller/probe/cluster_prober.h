/* cluster_prober - the interval probes of the cluster: each peer once per interval for all
 * sidecars, with its backend's own probe, and keys that stay here (behaviour.md section 5). What it
 * finds goes into the verdict table, which the pushes carry. A backend is known here by its subject
 * (decide/compose.h).
 *
 * When: a new peer within 5 s; then in its slot of the interval (decide/probe_grid); a probe that
 * is still running when its slot comes takes that slot's place; an unhealthy peer again after 1, 2,
 * 4 … s; on demand. One probe per peer at most, each on its own: a peer that hangs delays nobody.
 * After this process was stopped or starved, what is overdue is spread out, and a probe that began
 * before and ends badly is made once more before it counts.
 *
 * One thread: the reactor's. */
#ifndef FL_CONTROLLER_PROBE_CLUSTER_PROBER_H
#define FL_CONTROLLER_PROBE_CLUSTER_PROBER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/io/log.h"
#include "common/io/reactor.h"
#include "controller/decide/probe_list.h"
#include "controller/decide/verdict_table.h"

struct fl_cluster_prober;

enum fl_probe_news {
    FL_PROBE_NEWS_AGE,     /* the same as before, only fresher */
    FL_PROBE_NEWS_CHANGED, /* status, cause or note */
    FL_PROBE_NEWS_BLOCKS,  /* and now it is one that blocks */
};

struct fl_cluster_prober_conf {
    struct fl_reactor *reactor;
    const struct fl_log *log;
    uint64_t seed;                     /* of the jitter */
    struct fl_verdict_table *verdicts; /* kept right for the peers that are probed */
    void (*probed)(void *arg, enum fl_probe_news news);
    void (*tls_changed)(void *arg); /* a file has, or what a name stands for: call sync again */
    void *arg;
};

FL_MUST_USE int fl_cluster_prober_new(const struct fl_cluster_prober_conf *conf,
                                      struct fl_cluster_prober **ret);
/* Turn the reactor once more before it is freed. Accepts NULL, returns NULL. */
struct fl_cluster_prober *fl_cluster_prober_free(struct fl_cluster_prober *p);

/* The peers of the list are probed from now on, as it says; others are forgotten, and verdicts of
 * another definition too. A peer that is written as a name has each of its addresses probed; their
 * verdicts together are the one of the name. Nothing of the list is kept. True: a verdict is gone
 * from the table. */
bool fl_cluster_prober_sync(struct fl_cluster_prober *p, const struct fl_probe_list *list);

/* On demand: probes every peer of the backend now. A ticket for asked: true while that goes on. */
uint64_t fl_cluster_prober_ask(struct fl_cluster_prober *p, const char *subject);
bool fl_cluster_prober_asked(const struct fl_cluster_prober *p, const char *subject,
                             uint64_t ticket);
/* A probe of this peer is under way. */
bool fl_cluster_prober_probing(const struct fl_cluster_prober *p, const char *subject,
                               const char *address);
/* Results so far by verdict status. False: the backend never had a probe. */
bool fl_cluster_prober_counts(const struct fl_cluster_prober *p, const char *subject,
                              uint64_t ret[5]);

#endif
