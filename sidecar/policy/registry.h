/* registry - what outlives snapshots, keyed by name: peers (backend, address), tallies, budgets,
 * route-scoped health. Control thread only; data threads reach the objects through a snapshot that
 * holds references. Pure. */
#ifndef FL_SIDECAR_POLICY_REGISTRY_H
#define FL_SIDECAR_POLICY_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/span.h"

struct fl_registry;
struct fl_peer;
struct fl_peer_health;
struct fl_route_tally;
struct fl_backend_tally;
struct fl_backend_lane;

FL_MUST_USE struct fl_registry *fl_registry_new(uint64_t hash_seed);
struct fl_registry *fl_registry_free(struct fl_registry *r);

/* Each takes a reference; NULL = out of memory (or, for a peer, an address that is not a literal).
 */
struct fl_peer *fl_registry_peer(struct fl_registry *r, const char *backend, const char *address);
struct fl_route_tally *fl_registry_route(struct fl_registry *r, const char *route);
struct fl_backend_tally *fl_registry_backend(struct fl_registry *r, const char *backend,
                                             struct fl_backend_lane **ret_lanes);
/* Route-scoped health of a peer for a route that counts statuses; lives as long as the peer. */
struct fl_peer_health *fl_registry_route_health(struct fl_registry *r, struct fl_peer *p,
                                                const char *route);

/* Drop gives a reference back; the last one frees. A peer that is marked removed is no longer found
 * by its key: one that leaves and returns is a new struct fl_peer, while the old lives on for those
 * who still hold it. */
void fl_registry_drop_peer(struct fl_registry *r, struct fl_peer *p);
void fl_registry_drop_route(struct fl_registry *r, struct fl_route_tally *t);
void fl_registry_drop_backend(struct fl_registry *r, struct fl_backend_tally *t);

uint64_t fl_registry_seed(const struct fl_registry *r);

/* Has the backend ever had a member? */
bool fl_registry_had_members(const struct fl_registry *r, const char *backend);
FL_MUST_USE bool fl_registry_note_members(struct fl_registry *r,
                                          const char *backend); /* false: no memory */

#endif
