/* app - the controller process: owns and wires everything on one reactor; the log writer is the
 * only other thread. Membership comes from a file; pushes go to the sidecars of the configuration.
 * SIGHUP reads the configuration again, SIGTERM ends: there is nothing to drain, sidecars do not
 * wait for us. */
#ifndef FL_CONTROLLER_APP_H
#define FL_CONTROLLER_APP_H

#include <stdbool.h>

enum { FL_EXIT_CLEAN = 0, FL_EXIT_REFUSED = 1, FL_EXIT_USAGE = 2 };

/* Reads and checks the configuration and the membership file; findings go to stderr as
 * FILE:LINE: error|warning: text. show: the effective configuration goes to stdout. Exit code 0 or
 * 2. */
int fl_app_check(const char *config_path, bool show);
/* Runs until told to end; the exit code. */
int fl_app_run(const char *config_path);

#endif
