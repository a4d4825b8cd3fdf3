/* slices - membership from EndpointSlices (behaviour.md section 8, kubernetes.md section 2): a
 * store of the slices of the cluster, and the members of a service as the union over all of its
 * slices.
 *
 * - A slice belongs to the service that its label names. A slice that goes is not a service that
 *   goes: the union is made anew.
 * - An endpoint is keyed by (family, ip, port); the port is found by name in each slice, since two
 *   slices of a service may have different numbers for one name. A port asked for by number is the
 *   Service's port of that number, by its name; without such, the slices' own number. When no slice
 *   of the service has any ports (headless), the number itself is the port.
 * - The same address twice: of the same target, the slice with the newer trigger time counts,
 * usable or not (a move between slices); of different targets, the endpoint that is better (a
 * primary, then ready, then serving and terminating): an address that was reused.
 * - One target (uid) is one peer: its address of the service's other family is the peer's
 *   fallback_address, not capacity. The primary family is the one that has more ready endpoints,
 *   IPv4 on a draw. Of several addresses of one family, the newest usable one is the peer.
 * - A relist (begin … end) takes effect at its end, as a whole.
 * - Members of a port that all go at once, while the service is there, are held for
 *   FL_SLICES_HOLD_MS: a move that was half seen never empties a pool. What is held is shown as
 * held. It ends by run, by members that come, or with the Service.
 *
 * Pure; times in ms of one clock are arguments. One thread. A change costs what the slices of its
 * service cost, whatever the size of the store. */
#ifndef FL_CONTROLLER_DECIDE_SLICES_H
#define FL_CONTROLLER_DECIDE_SLICES_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/decide/kube_objects.h"
#include "controller/decide/members.h"
#include "controller/decide/membership.h"

#define FL_SLICES_HOLD_MS 2000

struct fl_slices;

FL_MUST_USE struct fl_slices *fl_slices_new(uint64_t seed); /* NULL: no memory */
struct fl_slices *fl_slices_free(struct fl_slices *s);      /* accepts NULL, returns NULL */

/* All texts are copied. put: added or changed; one without a service is as good as removed. 0 or
 * -ENOMEM (the old slice stays). */
FL_MUST_USE int fl_slices_put(struct fl_slices *s, const struct fl_kube_slice *slice,
                              int64_t now_ms);
void fl_slices_remove(struct fl_slices *s, const char *namespace, const char *name, int64_t now_ms);
/* Between them put and remove say what the list says, in force at its end. What was not put by then
 * is gone. begin again starts anew. */
void fl_slices_begin(struct fl_slices *s);
void fl_slices_end(struct fl_slices *s, int64_t now_ms);
/* Services by their own watch, so that a service's end empties its pool at once (whatever slices
 * are left of it, until it is put again), and for ExternalName: its members are that one name (a
 * peer written as a DNS name). put is in force at once, in a relist too, and nothing is held of
 * what it changes. */
FL_MUST_USE int fl_slices_put_service(struct fl_slices *s, const struct fl_kube_service *service);
void fl_slices_remove_service(struct fl_slices *s, const char *namespace, const char *name,
                              int64_t now_ms);
void fl_slices_begin_services(struct fl_slices *s);
void fl_slices_end_services(struct fl_slices *s, int64_t now_ms);

/* The members as of the last change or run, in the order of their addresses. NO_SERVICE when
 * neither a slice nor a Service of that name is known; NO_PORT when neither a slice nor the Service
 * has the port (a Service without endpoints keeps its ports, and has no members). A peer counts
 * address, tier, zone and fallback_address as given. */
FL_MUST_USE enum fl_members_found fl_slices_members(const struct fl_slices *s,
                                                    const struct fl_service_ref *ref,
                                                    struct fl_arena *arena, struct fl_members *ret);
/* As of membership.h; 0 for a service that is not known. */
uint64_t fl_slices_revision(const struct fl_slices *s, const struct fl_service_ref *ref);
struct fl_membership fl_membership_of_slices(const struct fl_slices *s);

/* Ends what was held long enough. True: members have changed by it. */
bool fl_slices_run(struct fl_slices *s, int64_t now_ms);
int64_t fl_slices_next_ms(const struct fl_slices *s); /* when to run; INT64_MAX: never */

/* For the services page: walks the services that have slices or a Service object, in no particular
 * order. *at starts at 0; false at the end. Texts live until the next change. Endpoints are counted
 * as the slices have them. */
struct fl_slices_service {
    const char *namespace, *name;
    uint32_t slices, endpoints, ready;
    bool held; /* members are held from before */
};
bool fl_slices_next(const struct fl_slices *s, size_t *at, struct fl_slices_service *ret);

#endif
