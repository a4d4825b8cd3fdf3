/* control - the state of the control thread: the file's configuration, what was pushed, names,
 * verdicts; and the snapshots that follow from them. Everything that changes goes through one door,
 * a rebuild at the end of the turn: however many causes a turn has, one snapshot is published.
 *
 * Control thread only. Owned and driven by sidecar/app. */
#ifndef FL_SIDECAR_ADMIN_CONTROL_H
#define FL_SIDECAR_ADMIN_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/codec/config_yaml.h"
#include "common/io/log.h"
#include "common/io/reactor.h"
#include "common/model/config.h"
#include "common/model/findings.h"
#include "sidecar/proxy/engine.h"

struct fl_control;
struct fl_tap;

struct fl_control_conf {
    struct fl_reactor *reactor;
    struct fl_registry *registry;
    struct fl_log *log;                 /* its level follows the configuration */
    const struct fl_log_writer *writer; /* for log_dropped_total; NULL: none */
    struct fl_tap *tap;                 /* NULL: none */
    unsigned threads;
    uint64_t seed; /* jitter and hashing */
    const struct fl_config_override
        *overrides; /* of the environment: hold for what is applied, too */
    size_t override_count;
    /* The boot gate has decided, once: may_run false = exit 1 (boot_probe: enforce, every probed
     * backend is down). */
    void (*booted)(void *arg, bool may_run);
    void *arg;
};

/* Takes file over, on success. Reads the public keys and the state file that it names; what is
 * wrong with the state file is logged and ignored, unreadable keys are an error with a finding. 0,
 * -EINVAL (findings say why), -errno. */
FL_MUST_USE int fl_control_new(const struct fl_control_conf *conf, struct fl_config *file,
                               struct fl_findings *f, struct fl_control **ret);
/* After the engine has stopped. Accepts NULL, returns NULL. Turn the reactor once more before it is
 * freed. */
struct fl_control *fl_control_free(struct fl_control *c);

/* The first snapshot, for fl_engine_start, which takes it over. */
struct fl_snapshot *fl_control_first(struct fl_control *c);
/* The engine runs: from now on changes are published to it. Probes and look-ups start with the next
 * turn. */
void fl_control_begin(struct fl_control *c, struct fl_engine *engine);
/* The top of every turn: has a data thread asked for a probe? */
void fl_control_turn(struct fl_control *c);

/* As last taken: from the file, or by PUT /_/api/admin/config (apply.h). */
const struct fl_config *fl_control_file(const struct fl_control *c);

/* SIGTERM has come: readiness says so. */
void fl_control_drain(struct fl_control *c);

/* /_/started (behaviour.md section 7). */
bool fl_control_started(const struct fl_control *c);

#endif
