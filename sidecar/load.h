/* load - the configuration file, read and checked. */
#ifndef FL_SIDECAR_LOAD_H
#define FL_SIDECAR_LOAD_H

#include "sidecar/app.h"

/* NULL: refused or not readable; findings say why. f is initialised with the path by the caller. */
FL_MUST_USE struct fl_config *fl_load_config(const struct fl_app_options *o, struct fl_findings *f);
/* Every finding, one a line, to stderr. */
void fl_load_print(const struct fl_findings *f);

#endif
