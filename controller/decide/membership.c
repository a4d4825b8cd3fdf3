#include "controller/decide/membership.h"

static enum fl_members_found members_of_services(const void *arg, const struct fl_service_ref *ref,
                                                 struct fl_arena *arena, struct fl_members *ret)
{
    return fl_members_of(arg, ref, arena, ret);
}

struct fl_membership fl_membership_of_services(const struct fl_services *s)
{
    return (struct fl_membership){members_of_services, s, NULL};
}
