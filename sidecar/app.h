/* app - the sidecar process: owns and wires everything, starts in the order that has it listening
 * within 20 ms, re-reads the configuration at SIGHUP, drains at SIGTERM (behaviour.md section 7).
 * Main thread = control thread. */
#ifndef FL_SIDECAR_APP_H
#define FL_SIDECAR_APP_H

#include <stdbool.h>
#include <stddef.h>

#include "common/codec/config_yaml.h"

enum { FL_EXIT_CLEAN = 0, FL_EXIT_REFUSED = 1, FL_EXIT_USAGE = 2 };

struct fl_app_options {
    const char *config_path;
    const struct fl_config_override *overrides; /* of the environment */
    size_t override_count;
};

/* Reads and checks the file; findings go to stderr as FILE:LINE: error|warning: text. show: the
 * effective configuration goes to stdout. Exit code 0 or 2. */
int fl_app_check(const struct fl_app_options *o, bool show);
/* Runs until told to end; the exit code. */
int fl_app_run(const struct fl_app_options *o);

#endif
