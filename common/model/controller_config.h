/* controller_config - the controller's configuration as plain structs (contract-cluster.md section
 * 5), immutable after check. Filled by the directive table like the sidecar's; loaded by
 * common/codec/config_yaml. Strings live in the arena of `cluster`; "" means not given, never NULL.
 * Times in ms. Pure. */
#ifndef FL_COMMON_MODEL_CONTROLLER_CONFIG_H
#define FL_COMMON_MODEL_CONTROLLER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fmt.h"
#include "common/model/config.h"
#include "common/model/findings.h"
#include "common/model/node.h"

enum fl_repair { FL_REPAIR_REPORT, FL_REPAIR_EVICT };
enum fl_probe_namespaces { FL_NAMESPACES_OWN, FL_NAMESPACES_ALL, FL_NAMESPACES_LISTED };

struct fl_sidecar_conf {
    const char *address, *id; /* whom to push to, and the id its pushes must name */
};

struct fl_controller_config {
    struct fl_config *cluster; /* the cluster-wide backends and routes, and the arena; its other
                                  keys mean nothing here */
    const char *source_file;   /* "": membership comes from Kubernetes */
    struct {
        const char *admin, *status, *webhook;
    } listen;
    struct {
        int64_t interval_ms, timeout_ms;
    } probe_defaults;
    struct {
        enum fl_probe_namespaces mode;
        struct fl_strings names;
    } probe;
    struct {
        const char *signing_key_file;
        uint32_t concurrency;
        int64_t timeout_ms, settle_ms;
    } push;
    struct {
        bool enabled;
        const char *namespace, *name;
    } leader_election;
    struct {
        const char *image;
        enum fl_repair repair;
    } injection;
    struct fl_sidecar_conf *sidecars;
    uint32_t sidecar_count;
    uint64_t hash; /* of the canonical text; set by check */
};

FL_MUST_USE struct fl_controller_config *
fl_controller_config_new(void); /* all defaults; NULL = no memory */
struct fl_controller_config *fl_controller_config_free(struct fl_controller_config *c);

/* As fl_directives_read, _finish and _show for the sidecar. After finish the probe intervals of the
 * backends are those of probe_defaults where the backend gives none, and count as given, so that
 * they are pushed. */
bool fl_controller_config_read(const struct fl_node *root, struct fl_controller_config *c,
                               struct fl_findings *f);
void fl_controller_config_finish(struct fl_controller_config *c);
/* That, for one finished backend. */
void fl_controller_config_default_probe(const struct fl_controller_config *c,
                                        struct fl_backend_conf *b);
bool fl_controller_config_check(struct fl_controller_config *c,
                                struct fl_findings *f); /* false when any error; sets hash */
void fl_controller_config_show(const struct fl_controller_config *c, struct fl_fmt *out);

#endif
