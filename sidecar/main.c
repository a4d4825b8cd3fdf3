/* fairlead-sidecar: arguments, environment, exit codes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sidecar/app.h"
#include "sidecar/await.h"

#define OVERRIDES_MAX 16

static const char help[] =
    "usage: fairlead-sidecar --config FILE [--check] [--show-config]\n"
    "       fairlead-sidecar --await [ADDRESS]\n"
    "\n"
    "  --config FILE     run with this configuration\n"
    "  --check           validate it, print every finding, exit 0 or 2\n"
    "  --show-config     print the effective configuration, exit 0 or 2\n"
    "  --await [ADDRESS] wait until the sidecar whose status listener is at ADDRESS (default\n"
    "                    127.0.0.1:8422) has started, at most its start_wait + 1 s; exits 0\n"
    "  --version, --help\n"
    "\n"
    "SIGTERM drains and ends, SIGHUP reads the configuration again.\n"
    "Environment: FAIRLEAD_BOOT_PROBE, FAIRLEAD_PROBE_INTERVAL, FAIRLEAD_DEADLINE,\n"
    "FAIRLEAD_SLOW_REQUEST override their keys.\n"
    "Exit codes: 0 clean, 1 refused to start, 2 bad configuration or usage.\n";

struct arguments {
    const char *config, *await;
    bool check, show, wait;
};

static int usage(const char *what, const char *which)
{
    (void)fprintf(stderr, "fairlead-sidecar: %s%s\n%s", what, which, help);
    return FL_EXIT_USAGE;
}

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* FL_EXIT_USAGE: told already; FL_EXIT_CLEAN with *ret_done: answered; else go on. */
static int parse(int argc, char **argv, struct arguments *a, bool *ret_done)
{
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (is(arg, "--help") || is(arg, "--version")) {
            (void)fputs(is(arg, "--help") ? help : "fairlead-sidecar " FL_VERSION "\n", stdout);
            *ret_done = true;
            return FL_EXIT_CLEAN;
        }
        if (is(arg, "--config")) {
            if (next == NULL) {
                return usage("--config needs a file", "");
            }
            a->config = argv[++i];
        } else if (is(arg, "--await")) {
            a->wait = true;
            if (next != NULL && next[0] != '-') {
                a->await = argv[++i];
            }
        } else if (is(arg, "--check")) {
            a->check = true;
        } else if (is(arg, "--show-config")) {
            a->show = true;
        } else {
            return usage("unknown argument ", arg);
        }
    }
    return FL_EXIT_CLEAN;
}

static int await_other(const char *address)
{
    struct fl_addr at;
    if (!fl_addr_parse(fl_span_of(address != NULL ? address : "127.0.0.1:8422"), &at)) {
        return usage("--await needs an address with a port, not ", address);
    }
    if (!fl_await_started(&at)) {
        (void)fprintf(stderr, "fairlead-sidecar: not started in time; going on\n");
    }
    return FL_EXIT_CLEAN; /* a failing postStart would kill the pod's sidecar */
}

int main(int argc, char **argv)
{
    struct arguments a = {0};
    bool done = false;
    int rc = parse(argc, argv, &a, &done);
    if (rc != FL_EXIT_CLEAN || done) {
        return rc;
    }
    if (a.wait) {
        return await_other(a.await);
    }
    if (a.config == NULL) {
        return usage("--config FILE is required", "");
    }
    struct fl_config_override overrides[OVERRIDES_MAX];
    size_t count = 0;
    for (; fl_config_override_names[count] != NULL && count < OVERRIDES_MAX; count++) {
        const char *value = getenv(fl_config_override_names[count]);
        overrides[count] = (struct fl_config_override){fl_config_override_names[count],
                                                       value != NULL ? value : ""};
    }
    const struct fl_app_options o = {a.config, overrides, count};
    return a.check || a.show ? fl_app_check(&o, a.show) : fl_app_run(&o);
}
