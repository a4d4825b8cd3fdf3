/* members - which endpoints of a service are peers of a backend, and in which tier (behaviour.md
 * section 8): ready, serving and not terminating = primary; ready without serving, or terminating
 * and still serving = last resort; the others are out. Pure. */
#ifndef FL_CONTROLLER_DECIDE_MEMBERS_H
#define FL_CONTROLLER_DECIDE_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/check.h"
#include "common/model/config.h"
#include "common/model/services.h"

/* A condition of an EndpointSlice, where it may be absent. */
enum fl_maybe { FL_MAYBE_NIL, FL_MAYBE_FALSE, FL_MAYBE_TRUE };

/* False: not a member. nil means ready, serving, not terminating. */
bool fl_members_tier(enum fl_maybe ready, enum fl_maybe serving, enum fl_maybe terminating,
                     enum fl_tier *ret);

enum fl_members_found {
    FL_MEMBERS_FOUND,
    FL_MEMBERS_NO_SERVICE,
    FL_MEMBERS_NO_PORT,
    FL_MEMBERS_NO_MEMORY
};

struct fl_members {
    struct fl_peer_conf *peers; /* address, tier and zone, which count as given */
    uint32_t count;
};

/* The members of ref in the document, in the order of their addresses. An endpoint with a port of
 * its own keeps it; two that come to one address are one, in the better tier. The arena owns the
 * peers and their texts. *ret is touched on FOUND only. */
FL_MUST_USE enum fl_members_found fl_members_of(const struct fl_services *s,
                                                const struct fl_service_ref *ref,
                                                struct fl_arena *arena, struct fl_members *ret);

#endif
