/* directives - the one table of every configuration key: parsing, defaults, ranges, did-you-mean,
 * --show-config, the generated reference page and the annotations all come from it. Pure. */
#ifndef FL_COMMON_MODEL_DIRECTIVES_H
#define FL_COMMON_MODEL_DIRECTIVES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/fmt.h"
#include "common/model/config.h"
#include "common/model/findings.h"
#include "common/model/node.h"

/* Reads a whole sidecar configuration document into c (fresh from fl_config_new). Every unknown
 * key, wrong type, value out of range and duplicate key becomes a finding; what is right is taken.
 * Profiles and protocol-dependent defaults are not yet applied: fl_directives_finish does that.
 * False when any error was found. */
bool fl_directives_read(const struct fl_node *root, struct fl_config *c, struct fl_findings *f);
/* Where a mapping comes from: keys of pushes only (tier, zone …) are taken from a push alone, and
 * there an unknown key is a warning (a younger controller may know more); *_file and the like are
 * refused in annotations. */
enum fl_origin { FL_ORIGIN_FILE, FL_ORIGIN_PUSH, FL_ORIGIN_ANNOTATION };
/* One backend or route mapping of a push; strings go to the arena of c, the result into *ret. */
bool fl_directives_read_backend(const struct fl_node *map, const char *name, struct fl_config *c,
                                struct fl_backend_conf *ret, struct fl_findings *f);
bool fl_directives_read_route(const struct fl_node *map, const char *bucket, struct fl_config *c,
                              struct fl_route_conf *ret, struct fl_findings *f);
bool fl_directives_read_peer(const struct fl_node *map, struct fl_config *c,
                             struct fl_peer_conf *ret, struct fl_findings *f);
/* The same for another origin. A pod annotation holds one mapping and nothing around it: places in
 * findings count from there ("probe.interval"). */
bool fl_directives_read_backend_as(enum fl_origin origin, const struct fl_node *map,
                                   const char *name, struct fl_config *c,
                                   struct fl_backend_conf *ret, struct fl_findings *f);
bool fl_directives_read_route_as(enum fl_origin origin, const struct fl_node *map,
                                 const char *bucket, struct fl_config *c, struct fl_route_conf *ret,
                                 struct fl_findings *f);
/* One key of the top level, which an annotation carries alone; no backends or routes. */
bool fl_directives_read_key(const struct fl_node *value, const char *name, struct fl_config *c,
                            struct fl_findings *f);
/* Applies profiles A, B, C and the defaults that depend on the protocol, and inherits route ->
 * path, backend -> peer. Idempotent; call after all backends and routes are known. */
void fl_directives_finish(struct fl_config *c);
/* The effective configuration as canonical YAML (--show-config, GET config); secrets are file names
 * and are shown. It loads to the same configuration. What a push brought as membership stands in
 * comments: a file must not freeze it. */
void fl_directives_show(const struct fl_config *c, struct fl_fmt *out);
/* The same in a buffer that is as long as it takes: free() it; NULL = no memory. */
FL_MUST_USE char *fl_directives_show_text(const struct fl_config *c);
/* docs/CONFIG.md, generated. */
void fl_directives_reference(struct fl_fmt *out);
/* The environment overrides of contract.md section 2; value "" = not set; before finish. False:
 * refused, finding says why. FAIRLEAD_PROBE_INTERVAL goes over every backend, FAIRLEAD_DEADLINE
 * over every s3 route, pushed ones too. */
bool fl_directives_override(struct fl_config *c, const char *env_name, const char *value,
                            struct fl_findings *f);

#endif
