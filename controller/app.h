/* app - the controller process: owns and wires everything on one reactor; the log writer is the
 * only other thread. Membership comes from a file and pushes go to the sidecars of the
 * configuration; or both come from Kubernetes. SIGHUP reads the configuration again, SIGTERM ends:
 * there is nothing to drain, sidecars do not wait for us; a leader gives its Lease back first. */
#ifndef FL_CONTROLLER_APP_H
#define FL_CONTROLLER_APP_H

#include <stdbool.h>

#include "controller/kube/kube_access.h"

enum { FL_EXIT_CLEAN = 0, FL_EXIT_REFUSED = 1, FL_EXIT_USAGE = 2 };

/* Reads and checks the configuration and the membership file; findings go to stderr as
 * FILE:LINE: error|warning: text. show: the effective configuration goes to stdout. Exit code 0 or
 * 2. */
int fl_app_check(const char *config_path, bool show);

struct fl_app_start { /* what main.c takes from arguments and environment */
    const char *config_path;
    struct fl_kube_where where;
    const char *host_name; /* of the pod */
};
/* Runs until told to end; the exit code. */
int fl_app_run(const struct fl_app_start *with);

#endif
