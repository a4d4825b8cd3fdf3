#include "common/model/services.h"

#include <stdlib.h>

#include "common/base/addr.h"
#include "common/model/directives_scope.h"

#define MEMORY_MAX ((size_t)64 << 20)

struct fl_services *fl_services_new(void)
{
    struct fl_services *s = calloc(1, sizeof(*s));
    if (s) {
        fl_arena_init(&s->arena, MEMORY_MAX);
    }
    return s;
}

struct fl_services *fl_services_free(struct fl_services *s)
{
    if (s) {
        fl_arena_done(&s->arena);
        free(s);
    }
    return NULL;
}

/* The same address twice in one service would be one peer counted twice. */
static void check_endpoints(const struct fl_service *s, struct fl_reading *r)
{
    char name[160];
    struct fl_fmt f = fl_fmt_of(name, sizeof(name));
    fl_fmt_printf(&f, "%s/%s", s->namespace, s->name);
    struct fl_place top = fl_place_key(NULL, "services"), at = fl_place_key(&top, name);
    struct fl_place list = fl_place_key(&at, "endpoints");
    for (uint32_t i = 0; i < s->endpoint_count; i++) {
        struct fl_place one = {&list, {NULL, 0}, (int)i}, here = fl_place_key(&one, "address");
        for (uint32_t k = 0; k < i; k++) {
            if (s->endpoints[i].address[0] &&
                strcmp(s->endpoints[i].address, s->endpoints[k].address) == 0) {
                fl_reading_fault(r, &here, 0, "\"%s\" is listed twice", s->endpoints[i].address);
                break;
            }
        }
    }
}

bool fl_services_read(const struct fl_node *root, struct fl_services *s, struct fl_findings *f)
{
    struct fl_reading r = {NULL, &s->arena, f, FL_ORIGIN_FILE, FL_IN_SERVICES};
    unsigned before = f->errors;
    fl_scope_read(&r, NULL, FL_SCOPE_SERVICES, root, s);
    for (uint32_t i = 0; i < s->count; i++) {
        check_endpoints(&s->items[i], &r);
    }
    return f->errors == before;
}
