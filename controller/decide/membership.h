/* membership - who the members of a service are, whatever the source: the document of `source:
 * file:` (services.h) or EndpointSlices (slices.h). Pure. */
#ifndef FL_CONTROLLER_DECIDE_MEMBERSHIP_H
#define FL_CONTROLLER_DECIDE_MEMBERSHIP_H

#include "controller/decide/members.h"

struct fl_membership {
    /* As fl_members_of: the members of ref, in the order of their addresses; the arena owns them.
     */
    enum fl_members_found (*members)(const void *arg, const struct fl_service_ref *ref,
                                     struct fl_arena *arena, struct fl_members *ret);
    const void *arg;
    /* Another one than before when the members of this service may be others, whatever its port;
     * NULL: nobody knows, ask for them. */
    uint64_t (*revision)(const void *arg, const struct fl_service_ref *ref);
};

/* The members as the document says. */
struct fl_membership fl_membership_of_services(const struct fl_services *s);

#endif
