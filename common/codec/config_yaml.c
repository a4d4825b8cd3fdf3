#include "common/codec/config_yaml.h"

#include "common/codec/yaml.h"
#include "common/model/config_check.h"
#include "common/model/directives.h"

#define TREE_MEMORY_MAX ((size_t)64 << 20)

const char *const fl_config_override_names[] = {"FAIRLEAD_BOOT_PROBE", "FAIRLEAD_PROBE_INTERVAL",
                                                "FAIRLEAD_DEADLINE", "FAIRLEAD_SLOW_REQUEST", NULL};

static bool no_memory(struct fl_findings *f)
{
    fl_findings_add(f, FL_SEVERITY_ERROR, 0, "out of memory");
    return false;
}

static bool fill(struct fl_config *c, const char *label, struct fl_span text,
                 const struct fl_config_override *overrides, size_t override_count,
                 struct fl_findings *f)
{
    struct fl_arena tree;
    c->file = fl_arena_text(&c->arena, fl_span_of(label));
    if (!c->file) {
        c->file = "";
        return no_memory(f);
    }
    fl_arena_init(&tree, TREE_MEMORY_MAX);
    const struct fl_node *root = fl_yaml_parse(text, &tree, f);
    bool good = root && fl_directives_read(root, c, f);
    fl_arena_done(&tree); /* every text that stays is in the configuration's arena */
    if (!root) {
        return false; /* nothing to look at further */
    }
    for (size_t i = 0; i < override_count; i++) {
        good = fl_directives_override(c, overrides[i].name, overrides[i].value, f) && good;
    }
    fl_directives_finish(c);
    return fl_config_check(c, f) && good; /* all findings at once, even after a fault */
}

struct fl_config *fl_config_yaml_load(const char *label, struct fl_span text,
                                      const struct fl_config_override *overrides,
                                      size_t override_count, struct fl_findings *f)
{
    struct fl_config *c = fl_config_new();
    if (!c) {
        no_memory(f);
        return NULL;
    }
    return fill(c, label, text, overrides, override_count, f) ? c : fl_config_free(c);
}

struct fl_controller_config *fl_controller_config_yaml_load(const char *label, struct fl_span text,
                                                            struct fl_findings *f)
{
    struct fl_controller_config *c = fl_controller_config_new();
    struct fl_arena tree;
    if (!c) {
        no_memory(f);
        return NULL;
    }
    const char *file = fl_arena_text(&c->cluster->arena, fl_span_of(label));
    c->cluster->file = file ? file : "";
    fl_arena_init(&tree, TREE_MEMORY_MAX);
    const struct fl_node *root = fl_yaml_parse(text, &tree, f);
    bool good = root && fl_controller_config_read(root, c, f);
    fl_arena_done(&tree);
    if (root) {
        fl_controller_config_finish(c);
        good = fl_controller_config_check(c, f) && good;
    }
    return good ? c : fl_controller_config_free(c);
}

struct fl_services *fl_services_yaml_load(struct fl_span text, struct fl_findings *f)
{
    struct fl_services *s = fl_services_new();
    struct fl_arena tree;
    if (!s) {
        no_memory(f);
        return NULL;
    }
    fl_arena_init(&tree, TREE_MEMORY_MAX);
    const struct fl_node *root = fl_yaml_parse(text, &tree, f);
    bool good = root && fl_services_read(root, s, f);
    fl_arena_done(&tree);
    return good ? s : fl_services_free(s);
}
