#include "sidecar/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/codec/yaml.h"
#include "common/io/read_file.h"
#include "common/model/cause.h"

struct fl_config *fl_load_config(const struct fl_app_options *o, struct fl_findings *f)
{
    char *text = NULL;
    size_t len = 0;
    int rc = fl_read_file(o->config_path, FL_YAML_BYTES_MAX, &text, &len);
    if (rc < 0) {
        fl_findings_add(f, FL_SEVERITY_ERROR, 0, "cannot read the configuration (%s)",
                        fl_cause_errno_text(-rc));
        return NULL;
    }
    struct fl_config *c = fl_config_yaml_load(o->config_path, (struct fl_span){text, len},
                                              o->overrides, o->override_count, f);
    free(text);
    return c;
}

void fl_load_print(const struct fl_findings *f)
{
    for (const struct fl_finding *one = f->first; one != NULL; one = one->next) {
        char text[2048];
        struct fl_fmt out = fl_fmt_of(text, sizeof(text));
        fl_findings_print(f, one, &out);
        (void)fprintf(stderr, "%s\n", text);
    }
}
