/* prober - what this sidecar knows of its peers' verdicts, and when it asks again (behaviour.md
 * section 5). A watch per (backend, address) holds the own verdict, the pushed one, and the probe;
 * at most one probe per peer is in flight.
 *
 * When a peer is probed: at once when its watch is new or its definition changed; every interval
 * with jitter (the first time after a start or an outage within one, so that peers that were in
 * step do not stay so), unless the controller does that for the backend; at once when a data thread
 * found it failing (not more often than once a second) or a pushed verdict says "unreachable"; on
 * demand; and again after 1, 2, 4 … s, at most the interval, while its own verdict is anything but
 * healthy.
 *
 * Control thread only. */
#ifndef FL_SIDECAR_ADMIN_PROBER_H
#define FL_SIDECAR_ADMIN_PROBER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/io/reactor.h"
#include "common/model/config.h"
#include "common/model/verdict.h"
#include "common/probe/probe_target.h"
#include "common/tls/tls_shelf.h"
#include "common/verdict/probe_plan.h"
#include "sidecar/policy/failed_request.h"

struct fl_prober;

struct fl_probed { /* an own probe has ended */
    const char *backend, *address;
    const struct fl_verdict *verdict; /* the one that is kept now */
    bool changed; /* status, cause or note differ from before, or a pushed one is to be weighed anew
                   */
    /* The peer answered a request and is healthy: that may open its quarantine. Not twice within
     * its fail_timeout (fl_prober_opened says when), unless people asked for the probe. */
    bool opens;
    const struct fl_failed_request *failed; /* the peer answered, although this request met its
                                               deadline there; NULL: no such request */
};

struct fl_prober_conf {
    struct fl_reactor *reactor;
    uint64_t seed; /* of the jitter */
    void (*probed)(void *arg, const struct fl_probed *p);
    void *arg;
    struct fl_tls_shelf *tls; /* of the terms for backends that want TLS; NULL: none are had */
};

struct fl_watch_view {
    const struct fl_verdict *own;          /* status UNKNOWN: none yet */
    const struct fl_verdict *pushed;       /* NULL: none, or it has expired */
    int64_t own_since_ms, pushed_since_ms; /* when each status became what it is, by its probe */
    int64_t well_ms;         /* of the last own probe that found it healthy; 0: none did */
    int64_t next_ms;         /* when it is asked again; 0: not by itself, or it is asked now */
    int64_t began_ms;        /* of the probe that is under way; 0: none is */
    enum fl_probe_step step; /* what that one waits for */
    bool probing;
    bool keyed; /* own probes are signed */
};

FL_MUST_USE int fl_prober_new(const struct fl_prober_conf *conf, struct fl_prober **ret);
struct fl_prober *
fl_prober_free(struct fl_prober *p); /* turn the reactor once more before it is freed */

/* One configuration's worth of peers: begin, keep each that has a literal address, end (which
 * forgets the others). Peers whose TLS terms have changed are asked at once. quiet: new peers are
 * not asked at once (boot_probe: off). by_controller: interval probes are the controller's. 0 or
 * -ENOMEM. */
void fl_prober_begin(struct fl_prober *p, bool quiet);
FL_MUST_USE int fl_prober_keep(struct fl_prober *p, const struct fl_config *c,
                               const struct fl_backend_conf *b, const struct fl_peer_conf *peer,
                               bool by_controller);
void fl_prober_end(struct fl_prober *p);
/* Until other is NULL: a peer that would be asked at once, and that `other` (of the same shelf) has
 * judged under the very same definition, takes over that verdict and the connection that it came
 * by. It counts as a probe of ours. */
void fl_prober_learn(struct fl_prober *p, struct fl_prober *other);
/* What was taken over so is told to `probed`, as if people had asked for it. Not from `probed`. */
void fl_prober_tell_learnt(struct fl_prober *p);
/* Of the definition that is probed. */
static inline uint64_t fl_prober_fingerprint(const struct fl_backend_conf *b, const char *address)
{
    return fl_probe_target_fingerprint(b, address);
}

bool fl_prober_look(const struct fl_prober *p, const char *backend, const char *address,
                    struct fl_watch_view *ret);
/* A pushed verdict, kept for 3 intervals from its at_ms. True when it says something else than
 * before. Unknown peers are ignored. */
bool fl_prober_pushed(struct fl_prober *p, const char *backend, const char *address,
                      const struct fl_verdict *v);
/* Pushed verdicts that have just expired since last asked; a change like any other. Call now and
 * then. */
bool fl_prober_expire(struct fl_prober *p);

void fl_prober_want(struct fl_prober *p, const char *backend,
                    const char *address); /* a data thread found it failing */

/* Before want: the request that met its deadline there. One is kept until a probe ends. */
void fl_prober_remember(struct fl_prober *p, const char *backend, const char *address,
                        const struct fl_failed_request *rq);
/* An answer has opened the peer's quarantine. */
void fl_prober_opened(struct fl_prober *p, const char *backend, const char *address);

/* On demand: probes every peer of the backend (NULL: of all) now. A ticket for fl_prober_asked:
 * true while that round goes on. */
uint64_t fl_prober_ask(struct fl_prober *p, const char *backend);
bool fl_prober_asked(const struct fl_prober *p, const char *backend, uint64_t ticket);
/* Of all backends, and only while it may bring news: not of peers that our own last verdict blocks,
 * whose silence says nothing new. */
bool fl_prober_asked_openly(const struct fl_prober *p, uint64_t ticket);

unsigned fl_prober_unanswered(
    const struct fl_prober *p); /* watches that probe and have no first result yet */

/* Results so far, for metrics; by verdict status. False: the backend never had a probe. */
bool fl_prober_counts(const struct fl_prober *p, const char *backend, uint64_t ret[5]);

#endif
