/* Any text as each of the three documents: findings, never a crash; and what is taken shows, loads
 * and shows the same. */
#include <stdint.h>
#include <stdlib.h>

#include "common/codec/config_yaml.h"
#include "common/model/directives.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_sidecar(struct fl_span text)
{
    struct fl_findings f;
    fl_findings_init(&f, "fuzz");
    struct fl_config *c = fl_config_yaml_load("fuzz", text, NULL, 0, &f);
    FL_MUST(!c == (f.errors > 0));
    char *shown = c ? fl_directives_show_text(c) : NULL;
    if (shown) {
        struct fl_config *again = fl_config_yaml_load("again", fl_span_of(shown), NULL, 0, &f);
        FL_MUST(again && f.errors == 0);
        char *twice = fl_directives_show_text(again);
        FL_MUST(twice && strcmp(shown, twice) == 0 && again->hash == c->hash);
        free(twice);
        fl_config_free(again);
    }
    free(shown);
    fl_config_free(c);
    fl_findings_done(&f);
}

static void try_controller(struct fl_span text)
{
    struct fl_findings f;
    fl_findings_init(&f, "fuzz");
    struct fl_controller_config *c = fl_controller_config_yaml_load("fuzz", text, &f);
    size_t cap = (size_t)8 << 20;
    char *shown = c ? malloc(cap) : NULL;
    if (shown) {
        struct fl_fmt out = fl_fmt_of(shown, cap);
        fl_controller_config_show(c, &out);
        struct fl_controller_config *again =
            fl_controller_config_yaml_load("again", (struct fl_span){shown, out.len}, &f);
        FL_MUST(out.cut || (again && again->hash == c->hash));
        fl_controller_config_free(again);
    }
    free(shown);
    fl_controller_config_free(c);
    fl_findings_done(&f);
}

static void try_services(struct fl_span text)
{
    struct fl_findings f;
    fl_findings_init(&f, "fuzz");
    struct fl_services *s = fl_services_yaml_load(text, &f);
    FL_MUST(!s == (f.errors > 0));
    fl_services_free(s);
    fl_findings_done(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fl_span text = {(const char *)data, size};
    try_sidecar(text);
    try_controller(text);
    try_services(text);
    return 0;
}
