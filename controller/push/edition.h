/* edition - one serialisation of the state under one (epoch, seq): made once, hashed once, shared
 * by all pushes that carry it. Counted references; one thread. */
#ifndef FL_CONTROLLER_PUSH_EDITION_H
#define FL_CONTROLLER_PUSH_EDITION_H

#include <stdint.h>

#include "common/base/check.h"
#include "common/base/span.h"
#include "common/model/state.h"
#include "common/sign/content_digest.h"

struct fl_edition {
    unsigned refs;
    uint64_t number; /* struct fl_push_group.edition */
    int64_t epoch, seq;
    uint64_t hash;    /* of the set; what a sidecar answers when it is in force there */
    uint64_t teaches; /* serial of the newest key in `keys` (key_ring.h); 0: it has none */
    struct fl_span body;
    char digest[FL_CONTENT_DIGEST_TEXT];
};

/* Writes epoch and seq into the state first. One reference. NULL: no memory. */
FL_MUST_USE struct fl_edition *fl_edition_new(struct fl_state *s, uint64_t number, int64_t epoch,
                                              int64_t seq);
struct fl_edition *fl_edition_take(struct fl_edition *e); /* one more reference; returns e */
void fl_edition_give(struct fl_edition **e);              /* accepts a pointer to NULL */

#endif
