/* nearest - "did you mean": the best of some candidate words for a mistyped one. Pure. */
#ifndef FL_COMMON_MODEL_NEAREST_H
#define FL_COMMON_MODEL_NEAREST_H

#include "common/base/span.h"

struct fl_nearest {
    struct fl_span given;
    const char *best; /* NULL: nothing is near enough */
    unsigned distance;
};

struct fl_nearest fl_nearest_to(struct fl_span given);
/* Offers one candidate, which must outlive *n; the first of equally near ones stays. Case, '-' for
 * '_' and nginx's "proxy_" in front do not count. */
void fl_nearest_offer(struct fl_nearest *n, const char *candidate);

#endif
