/* config_yaml - configuration documents in YAML (or JSON, which is read as YAML) to structs: parse,
 * read, overrides, finish, check. Reading the file is the caller's. No fds. */
#ifndef FL_COMMON_CODEC_CONFIG_YAML_H
#define FL_COMMON_CODEC_CONFIG_YAML_H

#include "common/base/span.h"
#include "common/model/config.h"
#include "common/model/controller_config.h"
#include "common/model/findings.h"
#include "common/model/services.h"

/* A variable of the environment that overrides a key (contract.md section 2); value "" = not set.
 */
struct fl_config_override {
    const char *name, *value;
};
extern const char *const
    fl_config_override_names[]; /* all of them, NULL-terminated, for whoever asks the environment */

/* label: the path, for c->file and messages (f->file is the caller's). overrides may be NULL. The
 * configuration is the caller's to free. NULL: refused, the findings say why. Warnings may have
 * been added either way. */
FL_MUST_USE struct fl_config *fl_config_yaml_load(const char *label, struct fl_span text,
                                                  const struct fl_config_override *overrides,
                                                  size_t override_count, struct fl_findings *f);
FL_MUST_USE struct fl_controller_config *
fl_controller_config_yaml_load(const char *label, struct fl_span text, struct fl_findings *f);
/* The document behind `source: file:PATH`. */
FL_MUST_USE struct fl_services *fl_services_yaml_load(struct fl_span text, struct fl_findings *f);

#endif
