/* verdict_table - what the controller's probes say of each (backend, peer), to be carried by the
 * pushes. Filled by controller/probe. Pure; one thread. */
#ifndef FL_CONTROLLER_DECIDE_VERDICT_TABLE_H
#define FL_CONTROLLER_DECIDE_VERDICT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/smap.h"
#include "common/model/verdict.h"

struct fl_verdict_table {
    struct fl_smap rows; /* "backend\naddress" -> struct row */
};

void fl_verdict_table_init(struct fl_verdict_table *t, uint64_t seed);
void fl_verdict_table_done(struct fl_verdict_table *t);
/* 0 or -ENOMEM */
FL_MUST_USE int fl_verdict_table_set(struct fl_verdict_table *t, const char *backend,
                                     const char *address, const struct fl_verdict *v);
void fl_verdict_table_drop(struct fl_verdict_table *t, const char *backend, const char *address);
/* NULL: never probed. Lives until the next set or drop of this row. */
const struct fl_verdict *fl_verdict_table_get(const struct fl_verdict_table *t, const char *backend,
                                              const char *address);

#endif
