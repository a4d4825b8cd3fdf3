#include "sidecar/admin/apply_keep.h"

#include "common/model/config_check.h"

static void say_kept(const struct fl_config *fresh, struct fl_findings *f, const char *key)
{
    fl_config_check_say(fresh, f, FL_SEVERITY_WARNING, key, 0,
                        "is taken at the start: restart to change it");
}

static void keep_text(struct fl_config *fresh, const char *now, const char **place, const char *key,
                      struct fl_findings *f)
{
    if (strcmp(now, *place) != 0) {
        const char *copy = fl_arena_text(&fresh->arena, fl_span_of(now));
        *place = copy != NULL ? copy : *place;
        say_kept(fresh, f, key);
    }
}

static void keep_u64(const struct fl_config *fresh, uint64_t now, uint64_t *place, const char *key,
                     struct fl_findings *f)
{
    if (now != *place) {
        *place = now;
        say_kept(fresh, f, key);
    }
}

static void keep_u32(const struct fl_config *fresh, uint32_t now, uint32_t *place, const char *key,
                     struct fl_findings *f)
{
    if (now != *place) {
        *place = now;
        say_kept(fresh, f, key);
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
    say_kept(fresh, f, key);
}

void fl_apply_keep(const struct fl_config *now, struct fl_config *fresh, struct fl_findings *f)
{
    keep_list(fresh, &now->listen.data, &fresh->listen.data, "listen.data", f);
    keep_text(fresh, now->listen.admin, &fresh->listen.admin, "listen.admin", f);
    keep_text(fresh, now->listen.status, &fresh->listen.status, "listen.status", f);
    keep_text(fresh, now->id, &fresh->id, "id", f);
    keep_u32(fresh, now->threads, &fresh->threads, "threads", f);
    keep_u32(fresh, now->max_connections, &fresh->max_connections, "max_connections", f);
    keep_u64(fresh, now->buffer_memory_bytes, &fresh->buffer_memory_bytes, "buffer_memory", f);
    keep_u64(fresh, now->replay_memory_bytes, &fresh->replay_memory_bytes, "replay_memory", f);
}
