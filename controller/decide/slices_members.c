#include "controller/decide/slices_inner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fmt.h"
#include "common/base/units.h"
#include "common/model/directives_table.h"
#include "controller/decide/slice_members.h"

static bool is_known(const struct fl_slices_known *v)
{
    return v->object || v->slice_count > 0 || !fl_list_empty(&v->views);
}

static uint16_t number_of(const char *port)
{
    uint64_t n = 0;
    return fl_units_uint(fl_span_of(port), &n) && n <= UINT16_MAX ? (uint16_t)n : 0;
}

static const struct fl_kube_slice_port *object_port(const struct fl_slices_object *o,
                                                    const char *port, uint16_t number)
{
    for (uint32_t i = 0; o && i < o->port_count; i++) {
        if (strcmp(o->ports[i].name, port) == 0 || (number && o->ports[i].number == number)) {
            return &o->ports[i];
        }
    }
    return NULL;
}

/* A number is the Service's port when it has one of that number: slices know that by its name only.
 * Without it, it is the number that the slices have. */
static struct fl_slice_want want_of(const struct fl_slices_known *v, const char *port)
{
    uint16_t number = number_of(port);
    const struct fl_kube_slice_port *of = object_port(v->object, port, number);
    return (struct fl_slice_want){of ? of->name : number ? NULL : port, number};
}

/* *ret_has_port: of a slice in force. */
static int members_now(const struct fl_slices_known *v, const struct fl_slice_want *want,
                       struct fl_arena *arena, struct fl_members *ret, bool *ret_has_port)
{
    const struct fl_slice_record **records = calloc((size_t)v->slice_count + 1, sizeof(*records));
    uint32_t n = 0;
    if (!records) {
        return -ENOMEM;
    }
    fl_list_each (it, &v->entries) {
        records[n++] = fl_container_of(it, struct fl_slices_entry, node)->record;
    }
    int err = fl_slice_members_of(records, n, want, arena, ret);
    *ret_has_port = n > 0 && fl_slice_members_port(records, n, want);
    free(records);
    return err;
}

/* Of the newest view that has some. */
static int members_held(const struct fl_slices_known *v, const struct fl_slice_want *want,
                        struct fl_arena *arena, struct fl_members *ret)
{
    fl_list_each (it, &v->views) {
        const struct fl_slices_view *view = fl_container_of(it, struct fl_slices_view, node);
        int err = fl_slice_members_of((const struct fl_slice_record *const *)view->records,
                                      view->count, want, arena, ret);
        if (err != 0 || ret->count > 0) {
            return err;
        }
    }
    return 0;
}

/* One peer: that name. */
static enum fl_members_found external(const struct fl_slices_known *v, const char *port,
                                      struct fl_arena *arena, struct fl_members *ret)
{
    uint16_t number = number_of(port);
    const struct fl_kube_slice_port *of = object_port(v->object, port, 0);
    const char *name = v->object->external_name;
    number = number ? number : of ? of->number : 0;
    if (number == 0) {
        return FL_MEMBERS_NO_PORT;
    }
    struct fl_peer_conf *peer = fl_arena_alloc(arena, sizeof(*peer));
    bool v6 = strchr(name, ':') != NULL;
    const char *address = fl_arena_printf(arena, v6 ? "[%s]:%u" : "%s:%u", name, (unsigned)number);
    if (!peer || !address) {
        return FL_MEMBERS_NO_MEMORY;
    }
    *peer = (struct fl_peer_conf){
        .address = address,
        .fallback_address = "",
        .zone = "",
        .tier = FL_TIER_PRIMARY,
        .weight = 1,
        .owner = FL_OWNER_CONTROLLER,
        .set = UINT64_C(1) << fl_directive_bit(fl_scope_find(FL_SCOPE_PEER, "address")),
    };
    *ret = (struct fl_members){peer, 1};
    return FL_MEMBERS_FOUND;
}

enum fl_members_found fl_slices_members(const struct fl_slices *s, const struct fl_service_ref *ref,
                                        struct fl_arena *arena, struct fl_members *ret)
{
    const struct fl_slices_known *v = fl_slices_find_service(s, ref->namespace, ref->name);
    if (!v || !is_known(v)) {
        return FL_MEMBERS_NO_SERVICE;
    }
    if (v->ended) {
        *ret = (struct fl_members){0};
        return FL_MEMBERS_FOUND;
    }
    if (v->object && v->object->external_name[0]) {
        return external(v, ref->port, arena, ret);
    }
    struct fl_slice_want want = want_of(v, ref->port);
    struct fl_members found = {0};
    bool has_port = object_port(v->object, ref->port, want.number) != NULL, in_force;
    int err = members_now(v, &want, arena, &found, &in_force);
    if (err == 0 && found.count == 0) {
        err = members_held(v, &want, arena, &found);
    }
    if (err != 0) {
        return FL_MEMBERS_NO_MEMORY;
    }
    if (found.count == 0 && !v->object && v->slice_count == 0) {
        return FL_MEMBERS_NO_SERVICE; /* what is held of it is for another port */
    }
    if (found.count == 0 && !has_port && !in_force) {
        return FL_MEMBERS_NO_PORT;
    }
    *ret = found;
    return FL_MEMBERS_FOUND;
}

static enum fl_members_found members_of_slices(const void *arg, const struct fl_service_ref *ref,
                                               struct fl_arena *arena, struct fl_members *ret)
{
    return fl_slices_members(arg, ref, arena, ret);
}

uint64_t fl_slices_revision(const struct fl_slices *s, const struct fl_service_ref *ref)
{
    const struct fl_slices_known *v = fl_slices_find_service(s, ref->namespace, ref->name);
    return v ? v->revision : 0;
}

static uint64_t revision_of_slices(const void *arg, const struct fl_service_ref *ref)
{
    return fl_slices_revision(arg, ref);
}

struct fl_membership fl_membership_of_slices(const struct fl_slices *s)
{
    return (struct fl_membership){members_of_slices, s, revision_of_slices};
}

bool fl_slices_next(const struct fl_slices *s, size_t *at, struct fl_slices_service *ret)
{
    const struct fl_slices_known *v;
    do {
        v = fl_smap_next(&s->services_by_key, at, NULL);
    } while (v && !is_known(v));
    if (!v) {
        return false;
    }
    *ret = (struct fl_slices_service){.namespace = v->namespace,
                                      .name = v->name,
                                      .slices = v->slice_count,
                                      .held = !fl_list_empty(&v->views)};
    fl_list_each (it, &v->entries) {
        const struct fl_slice_record *r = fl_container_of(it, struct fl_slices_entry, node)->record;
        ret->endpoints += r->endpoint_count;
        ret->ready += r->ready_count;
    }
    return true;
}
