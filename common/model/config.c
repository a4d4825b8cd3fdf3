#include "common/model/config.h"

#include <stdlib.h>
#include <string.h>

#include "common/model/directives_scope.h"

#define MEMORY_MAX ((size_t)64 << 20)

struct fl_config *fl_config_new(void)
{
    struct fl_config *c = calloc(1, sizeof(*c));
    if (!c) {
        return NULL;
    }
    fl_arena_init(&c->arena, MEMORY_MAX);
    fl_smap_init(&c->lines, 0);
    c->file = "";
    fl_scope_default(&c->arena, FL_SCOPE_ROOT, false, c);
    return c;
}

struct fl_config *fl_config_free(struct fl_config *c)
{
    if (c) {
        fl_smap_done(&c->lines);
        fl_arena_done(&c->arena);
        free(c);
    }
    return NULL;
}

const struct fl_backend_conf *fl_config_backend(const struct fl_config *c, const char *name)
{
    for (uint32_t i = 0; i < c->backend_count; i++) {
        if (strcmp(c->backends[i].name, name) == 0) {
            return &c->backends[i];
        }
    }
    return NULL;
}

const struct fl_route_conf *fl_config_route(const struct fl_config *c, const char *bucket)
{
    for (uint32_t i = 0; i < c->route_count; i++) {
        if (strcmp(c->routes[i].bucket, bucket) == 0) {
            return &c->routes[i];
        }
    }
    return NULL;
}
