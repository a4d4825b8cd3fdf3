/* apply_keep - keys that are taken at the start only. Where fresh differs from now, fresh gets
 * now's value and a warning says so: the rest of it can come into force without a restart. */
#ifndef FL_SIDECAR_ADMIN_APPLY_KEEP_H
#define FL_SIDECAR_ADMIN_APPLY_KEEP_H

#include "common/model/config.h"
#include "common/model/findings.h"

void fl_apply_keep(const struct fl_config *now, struct fl_config *fresh, struct fl_findings *f);

#endif
