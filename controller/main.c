/* fairlead-controller: arguments, exit codes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/app.h"

static const char help[] =
    "usage: fairlead-controller --config FILE [--check] [--show-config]\n"
    "\n"
    "  --config FILE  run with this configuration\n"
    "  --check        validate it and its membership file, print every finding, exit 0 or 2\n"
    "  --show-config  print the effective configuration, exit 0 or 2\n"
    "  --version, --help\n"
    "\n"
    "With `source: kubernetes` the API server is found in the pod's environment, else by "
    "KUBECONFIG.\n"
    "SIGTERM ends it, SIGHUP reads the configuration again.\n"
    "Exit codes: 0 clean, 1 refused to start, 2 bad configuration or usage.\n";

static int usage(const char *what, const char *which)
{
    (void)fprintf(stderr, "fairlead-controller: %s%s\n%s", what, which, help);
    return FL_EXIT_USAGE;
}

static int run(const char *config)
{
    char host[256] = "";
    if (gethostname(host, sizeof(host) - 1) < 0 || host[0] == '\0') {
        memcpy(host, "controller", sizeof("controller"));
    }
    const char *pod =
        getenv("POD_NAME"); /* by the downward API, where the host name is the node's */
    const struct fl_app_start with = {
        .config_path = config,
        .where = {.service_host = getenv("KUBERNETES_SERVICE_HOST"),
                  .service_port = getenv("KUBERNETES_SERVICE_PORT"),
                  .kubeconfig = getenv("KUBECONFIG"),
                  .account_dir = FL_KUBE_ACCOUNT_DIR},
        .host_name = pod != NULL && pod[0] != '\0' ? pod : host,
    };
    return fl_app_run(&with);
}

int main(int argc, char **argv)
{
    const char *config = NULL;
    bool check = false, show = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            (void)fputs(help, stdout);
            return FL_EXIT_CLEAN;
        }
        if (strcmp(argv[i], "--version") == 0) {
            (void)fputs("fairlead-controller " FL_VERSION "\n", stdout);
            return FL_EXIT_CLEAN;
        }
        if (strcmp(argv[i], "--config") == 0 && i + 1 < argc) {
            config = argv[++i];
        } else if (strcmp(argv[i], "--check") == 0) {
            check = true;
        } else if (strcmp(argv[i], "--show-config") == 0) {
            show = true;
        } else {
            return strcmp(argv[i], "--config") == 0 ? usage("--config needs a file", "")
                                                    : usage("unknown argument ", argv[i]);
        }
    }
    if (config == NULL) {
        return usage("--config FILE is required", "");
    }
    return check || show ? fl_app_check(config, show) : run(config);
}
