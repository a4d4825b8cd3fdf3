/* snapshot - configuration, membership and verdicts as data threads see them: immutable, swapped by
 * pointer. Built by the control thread from an effective configuration; peers, tallies and
 * route-scoped health come from the registry and outlive it. Life cycle (threads and frees) is
 * sidecar/proxy/worker's; nothing here locks or frees behind a reader. Pure. */
#ifndef FL_SIDECAR_POLICY_SNAPSHOT_H
#define FL_SIDECAR_POLICY_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/smap.h"
#include "common/model/config.h"
#include "common/model/verdict.h"
#include "sidecar/policy/peer.h"
#include "sidecar/policy/registry.h"
#include "sidecar/policy/retry_budget.h"
#include "sidecar/policy/tally.h"

struct fl_tls_terms; /* common/tls's; nothing here looks into it */

struct fl_snap_peer {
    struct fl_peer *peer;
    const struct fl_peer_conf *conf;
    struct fl_health_policy health;
    struct fl_verdict verdict; /* merged: own evidence first (verdict_merge.h) */
    bool gated;                /* the verdict takes this peer out */
    const char *tls_name; /* sent and verified: tls.server_name, else the name that the address was
                             found by; "" = the address */
};

/* Mutable per backend and thread; lives as long as the backend's name does (registry). */
struct fl_backend_lane {
    struct fl_retry_budget budget;
    int64_t rr_tick;
    bool rr_seeded;
    int64_t no_live_logged_ms; /* once per second: log decisions of the proxy */
    uint32_t no_live_count;
} __attribute__((aligned(64)));

struct fl_snap_backend {
    const struct fl_backend_conf *conf;
    uint32_t index; /* in the snapshot */
    struct fl_snap_peer *peers;
    uint32_t peer_count;
    uint32_t countable; /* peers that are not `down`: 1 = single-peer rule */
    struct fl_backend_tally *tally;
    struct fl_backend_lane *lanes; /* [thread] */
    struct fl_retry_budget_conf budget;
    /* Set by whoever builds, before publishing, together with give_tls of the snapshot; held until
     * it is freed. NULL: no TLS, or none to be had (conf->tls.on): then nothing is sent. */
    struct fl_tls_terms *tls;
    struct fl_verdict verdict; /* derived */
    char peers_down[16];       /* "2/3", "" when none */
    bool gated;                /* the derived verdict blocks */
    bool has_members; /* false: never had any (service-backed, nothing pushed or resolved yet) */
};

/* One policy: a route, or one of its paths. */
struct fl_snap_policy {
    const struct fl_policy_conf *conf;
    const struct fl_snap_backend *backend; /* NULL only when invalid */
    struct fl_peer_health *
        *status_health; /* [peer index], NULL when count_failures names no status */
    struct fl_route_tally *tally;
    const char *route;   /* "releases", "releases /payments/" for a path */
    const char *invalid; /* bad_route reason, "" = valid */
};

struct fl_snap_path {
    struct fl_span prefix;
    bool exact;
    struct fl_snap_policy policy;
};

struct fl_snap_route {
    const struct fl_route_conf *conf;
    struct fl_snap_policy policy;
    struct fl_snap_path *paths; /* longest prefix first; exact ones before */
    uint32_t path_count;
};

struct fl_snap_hold { /* exchanges that hold this snapshot, per thread */
    uint32_t count;   /* own thread writes; control reads through the atomic below */
    _Atomic uint32_t seen;
} __attribute__((aligned(64)));

struct fl_snapshot {
    struct fl_config *config; /* effective; freed with the snapshot */
    uint64_t generation;      /* 1, 2, 3 … */
    uint64_t membership_generation;
    unsigned threads;
    struct fl_snap_backend *backends;
    uint32_t backend_count;
    struct fl_snap_route *routes;
    uint32_t route_count;
    const struct fl_span *hosts; /* base domains of bucket-in-host addressing */
    uint32_t host_count;
    struct fl_smap by_bucket;            /* name -> struct fl_snap_route * */
    const struct fl_snap_route *any;     /* "*" or NULL */
    const struct fl_snap_route *service; /* "/" or NULL */
    struct fl_route_tally *no_route;     /* where requests without a route are counted */
    bool any_s3; /* an s3 backend is configured: form of answers without a backend */
    struct fl_arena arena;
    void (*give_tls)(struct fl_tls_terms *t); /* ends the hold of a backend's terms */
    struct fl_snapshot *next_old; /* the engine's list of those that wait to be reclaimed */
    struct fl_snap_hold holds[FL_THREADS_MAX];
};

/* What the control thread knows of one peer's verdicts when it builds (by backend and address);
 * NULL fields = unknown. */
typedef bool fl_snapshot_verdict_fn(void *arg, const struct fl_backend_conf *b, const char *address,
                                    struct fl_verdict *ret_merged, bool *ret_gated);

/* Takes ownership of config on success. Peers whose address is not a literal (host names not
 * resolved yet) are left out. had_members says per backend name whether it ever had any (registry
 * remembers). NULL = out of memory. */
FL_MUST_USE struct fl_snapshot *fl_snapshot_build(struct fl_registry *r, struct fl_config *config,
                                                  unsigned threads, uint64_t generation,
                                                  fl_snapshot_verdict_fn *verdicts, void *arg);
/* The i-th backend has no peer, since none of its names gives an address: that is its verdict, and
 * blocks it. Before s is published. */
void fl_snapshot_unresolved(struct fl_snapshot *s, uint32_t i, const struct fl_verdict *v);
/* Gives back registry references (peers that nobody holds any more are freed) and frees. Control
 * thread, when no reader is left. */
struct fl_snapshot *fl_snapshot_free(struct fl_registry *r, struct fl_snapshot *s);
/* Marks peers of old that are not in fresh as removed, and clears it on those that are (a peer that
 * leaves and returns starts clean: it gets a new struct fl_peer). Call before publishing fresh. */
void fl_snapshot_retire(const struct fl_snapshot *old, const struct fl_snapshot *fresh);

#endif
