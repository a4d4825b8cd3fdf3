#include "sidecar/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/codec/yaml.h"
#include "common/model/cause.h"
#include "sidecar/admin/read_file.h"

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

static void say_kept(struct fl_findings *f, const char *key)
{
    fl_findings_add(f, FL_SEVERITY_WARNING, 0, "%s is taken at the start: restart to change it",
                    key);
}

static void keep_text(struct fl_config *fresh, const char *now, const char **place, const char *key,
                      struct fl_findings *f)
{
    if (strcmp(now, *place) != 0) {
        const char *copy = fl_arena_text(&fresh->arena, fl_span_of(now));
        *place = copy != NULL ? copy : *place;
        say_kept(f, key);
    }
}

static void keep_u64(uint64_t now, uint64_t *place, const char *key, struct fl_findings *f)
{
    if (now != *place) {
        *place = now;
        say_kept(f, key);
    }
}

static void keep_u32(uint32_t now, uint32_t *place, const char *key, struct fl_findings *f)
{
    if (now != *place) {
        *place = now;
        say_kept(f, key);
    }
}

static bool same_list(const struct fl_strings *a, const struct fl_strings *b)
{
    bool same = a->count == b->count;
    for (uint32_t i = 0; same && i < a->count; i++) {
        same = strcmp(a->items[i], b->items[i]) == 0;
    }
    return same;
}

static void keep_list(struct fl_config *fresh, const struct fl_strings *now,
                      struct fl_strings *place, const char *key, struct fl_findings *f)
{
    if (same_list(now, place)) {
        return;
    }
    struct fl_strings copy = {fl_arena_array(&fresh->arena, now->count, sizeof(*copy.items)),
                              now->count};
    for (uint32_t i = 0; copy.items != NULL && i < now->count; i++) {
        copy.items[i] = fl_arena_text(&fresh->arena, fl_span_of(now->items[i]));
        if (copy.items[i] == NULL) {
            copy.items = NULL;
        }
    }
    if (copy.items != NULL) {
        *place = copy;
    }
    say_kept(f, key);
}

void fl_load_keep(const struct fl_config *now, struct fl_config *fresh, struct fl_findings *f)
{
    keep_list(fresh, &now->listen.data, &fresh->listen.data, "listen.data", f);
    keep_text(fresh, now->listen.admin, &fresh->listen.admin, "listen.admin", f);
    keep_text(fresh, now->listen.status, &fresh->listen.status, "listen.status", f);
    keep_text(fresh, now->id, &fresh->id, "id", f);
    keep_u32(now->threads, &fresh->threads, "threads", f);
    keep_u32(now->max_connections, &fresh->max_connections, "max_connections", f);
    keep_u64(now->buffer_memory_bytes, &fresh->buffer_memory_bytes, "buffer_memory", f);
    keep_u64(now->replay_memory_bytes, &fresh->replay_memory_bytes, "replay_memory", f);
}
