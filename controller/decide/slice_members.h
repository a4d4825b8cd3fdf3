/* slice_members - the members of a service from its slices, by the rules that slices.h names: a
 * pure function of records, so that what is held is computed as what is there. */
#ifndef FL_CONTROLLER_DECIDE_SLICE_MEMBERS_H
#define FL_CONTROLLER_DECIDE_SLICE_MEMBERS_H

#include "controller/decide/members.h"
#include "controller/decide/slice_record.h"

/* The port that is asked for: of that name, or without a name of that number. When no slice has any
 * ports (a headless service's may have none) the number itself is the port. */
struct fl_slice_want {
    const char *name; /* NULL: by number */
    uint16_t number;  /* 0: by name alone */
};

/* No slice of them has a port. */
bool fl_slice_members_portless(const struct fl_slice_record *const *records, uint32_t count);
/* A slice has the port; true for none of them when the number itself will do. */
bool fl_slice_members_port(const struct fl_slice_record *const *records, uint32_t count,
                           const struct fl_slice_want *want);
/* Are there any members? Cheaper than to make them, and true when memory is too short to know. */
bool fl_slice_members_any(const struct fl_slice_record *const *records, uint32_t count,
                          const struct fl_slice_want *want);
/* The arena owns the peers. 0 or -ENOMEM. */
FL_MUST_USE int fl_slice_members_of(const struct fl_slice_record *const *records, uint32_t count,
                                    const struct fl_slice_want *want, struct fl_arena *arena,
                                    struct fl_members *ret);

#endif
