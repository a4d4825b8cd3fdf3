/* event_facts - the texts of an Event, bounded and in one piece of memory, which is also the key of
 * its series; and names for Events. Pure. */
#ifndef FL_CONTROLLER_DECIDE_EVENT_FACTS_H
#define FL_CONTROLLER_DECIDE_EVENT_FACTS_H

#include "common/base/check.h"
#include "common/base/rng.h"
#include "common/base/span.h"
#include "controller/decide/event_series.h"

#define FL_EVENT_NAME_MAX 253 /* a DNS subdomain */

/* A copy that `free` releases: all texts, each with its NUL. *ret points into it; the first
 * *ret_object_len bytes name the object alone. NULL: no memory. */
FL_MUST_USE char *fl_event_facts_copy(const struct fl_event_facts *f, struct fl_event_facts *ret,
                                      size_t *ret_len, size_t *ret_object_len);
/* "<object's name>.<16 hex digits>", a valid name whatever the object's is. */
void fl_event_facts_name(const char *object, struct fl_rng *rng, char name[FL_EVENT_NAME_MAX + 1]);

#endif
