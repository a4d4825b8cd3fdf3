#include "controller/decide/probe_list.h"

#include <string.h>

#include "common/model/directives_scope.h"
#include "common/model/directives_table.h"

#define MEMORY_MAX ((size_t)1 << 30)

void fl_probe_list_init(struct fl_probe_list *l)
{
    *l = (struct fl_probe_list){.count = 0};
    fl_arena_init(&l->arena, MEMORY_MAX);
}

void fl_probe_list_done(struct fl_probe_list *l)
{
    fl_arena_done(&l->arena);
}

static bool make_room(struct fl_probe_list *l, uint32_t more)
{
    if (l->room - l->count >= more) {
        return true;
    }
    uint32_t room = l->room * 2 > l->count + more ? l->room * 2 : l->count + more;
    struct fl_probe_item *items = fl_arena_array(&l->arena, room, sizeof(*items));
    if (items == NULL) {
        return false;
    }
    if (l->count > 0) {
        memcpy(items, l->items, l->count * sizeof(*items));
    }
    l->items = items;
    l->room = room;
    return true;
}

/* As this process probes it. */
static void define(const struct fl_controller_config *c, bool annotated,
                   const struct fl_backend_conf *b, struct fl_backend_conf *ret)
{
    uint64_t type_bit = UINT64_C(1) << fl_directive_bit(fl_scope_find(FL_SCOPE_PROBE, "type"));
    int64_t least_ms = c->probe_defaults.interval_ms < FL_PROBE_ANNOTATED_INTERVAL_MIN_MS
                           ? c->probe_defaults.interval_ms
                           : FL_PROBE_ANNOTATED_INTERVAL_MIN_MS;
    *ret = *b;
    ret->peers = NULL;
    ret->peer_count = 0;
    if (annotated) {
        ret->probe.interval_ms = b->probe.interval_ms > least_ms ? b->probe.interval_ms : least_ms;
    } else if (c->source_file[0] != '\0' && !fl_compose_owns(c->cluster, b) &&
               (b->probe.set & type_bit) == 0) {
        ret->probe.type = FL_PROBE_TCP;
    }
}

static bool choose_peers(struct fl_probe_list *l, const struct fl_controller_config *c,
                         const struct fl_pod_overlay *pod, const struct fl_backend_conf *composed,
                         struct fl_probe_item *ret)
{
    struct fl_peer_conf *chosen;
    if (pod == NULL) {
        ret->peers = composed->peers;
        ret->peer_count = composed->peer_count;
        return true;
    }
    ret->peers = chosen = fl_arena_array(&l->arena, composed->peer_count, sizeof(*chosen));
    ret->peer_count = 0;
    for (uint32_t i = 0; chosen != NULL && i < composed->peer_count; i++) {
        if (fl_compose_may_probe(c, pod, composed, &composed->peers[i])) {
            chosen[ret->peer_count++] = composed->peers[i];
        }
    }
    return chosen != NULL;
}

static const struct fl_state_backend *find_backend(const struct fl_state *s, const char *name)
{
    for (uint32_t i = 0; i < s->backend_count; i++) {
        if (strcmp(s->backends[i].name, name) == 0) {
            return &s->backends[i];
        }
    }
    return NULL;
}

bool fl_probe_list_add(struct fl_probe_list *l, const struct fl_controller_config *c,
                       const struct fl_pod_overlay *pod, const struct fl_state *state)
{
    const struct fl_config *from = pod != NULL ? pod->own : c->cluster;
    uint32_t before = l->count;
    if (!make_room(l, from->backend_count)) {
        return false;
    }
    for (uint32_t i = 0; i < from->backend_count; i++) {
        const struct fl_backend_conf *b = &from->backends[i];
        const struct fl_state_backend *composed = find_backend(state, b->name);
        struct fl_probe_item *item = &l->items[l->count];
        if (composed == NULL) {
            continue; /* no route uses it */
        }
        fl_compose_subject(c, pod, b, item->subject);
        item->routes = from;
        define(c, pod != NULL, b, &item->backend);
        if (!choose_peers(l, c, pod, &composed->conf, item)) {
            l->count = before;
            return false;
        }
        l->count += item->peer_count > 0;
    }
    return true;
}
