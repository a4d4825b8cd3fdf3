/* load - the configuration file and what it names, read and checked before anything runs. */
#ifndef FL_CONTROLLER_LOAD_H
#define FL_CONTROLLER_LOAD_H

#include "common/base/check.h"
#include "common/model/controller_config.h"
#include "common/model/findings.h"
#include "common/sign/sign_key.h"

/* NULL: refused or not readable; findings say why. f is initialised with the path by the caller.
 * *ret_key: the signing key, NULL where there is nobody to push to; the caller's. */
FL_MUST_USE struct fl_controller_config *fl_load_config(const char *path, struct fl_findings *f,
                                                        struct fl_sign_key **ret_key);
/* For --check: the membership file, when it can be read. Findings go into f, which carries that
 * file's name. */
void fl_load_check_membership(const char *path, struct fl_findings *f);
/* Every finding, one a line, to stderr. */
void fl_load_print(const struct fl_findings *f);

#endif
