/* smap - string -> pointer map, filled once or seldom, read often. Keys are not copied: they must
 * outlive the map. Lookups neither allocate nor write, so threads may share a filled map. */
#ifndef FL_COMMON_BASE_SMAP_H
#define FL_COMMON_BASE_SMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/span.h"

struct fl_smap {
    struct fl_smap_slot *slots;
    size_t count, cap;
    uint64_t seed; /* against chosen collisions; any value */
};

void fl_smap_init(struct fl_smap *m, uint64_t seed);
void fl_smap_done(struct fl_smap *m);
void *fl_smap_get(const struct fl_smap *m, struct fl_span key); /* NULL: absent */
/* value != NULL; 0, -EEXIST, -ENOMEM */
FL_MUST_USE int fl_smap_put(struct fl_smap *m, struct fl_span key, void *value);
/* the value, or NULL */
void *fl_smap_remove(struct fl_smap *m, struct fl_span key);
/* Walks in no particular order: start with *at = 0; NULL at the end. */
void *fl_smap_next(const struct fl_smap *m, size_t *at, struct fl_span *ret_key);

#endif
