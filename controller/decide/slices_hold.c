#include "controller/decide/slices_inner.h"

#include <stdlib.h>
#include <string.h>

#include "controller/decide/slice_members.h"

#define LOOK_BACK 8u

static struct fl_slices_view *view_free(struct fl_slices_view *v)
{
    for (uint32_t i = 0; v && i < v->count; i++) {
        fl_slice_record_give(v->records[i]);
    }
    free(v);
    return NULL;
}

struct fl_slices_view *fl_slices_hold_view(const struct fl_slices_known *v)
{
    struct fl_slices_view *view =
        calloc(1, sizeof(*view) + v->slice_count * sizeof(view->records[0]));
    if (view) {
        fl_list_init(&view->node);
        fl_list_each (it, &v->entries) {
            struct fl_slices_entry *e = fl_container_of(it, struct fl_slices_entry, node);
            view->records[view->count++] = fl_slice_record_take(e->record);
        }
    }
    return view;
}

static const struct fl_slice_record *const *records_of(const struct fl_slices_view *view)
{
    return (const struct fl_slice_record *const *)view->records;
}

/* Has `other` members for whoever asks so? number 0 and no name: for the ports of a service that
 * has none, whatever their number. */
static bool answers(const struct fl_slices_view *other, const struct fl_slice_want *want)
{
    if (want->name || want->number) {
        return fl_slice_members_any(records_of(other), other->count, want);
    }
    return fl_slice_members_portless(records_of(other), other->count) &&
           fl_slice_members_any(records_of(other), other->count, &(struct fl_slice_want){NULL, 1});
}

/* Only this view has members for whoever asks so: neither the slices in force nor a newer view. */
static bool alone_answers(const struct fl_slices_known *v, const struct fl_slices_view *now,
                          const struct fl_slices_view *view, const struct fl_slice_want *want)
{
    if (answers(now, want)) {
        return false;
    }
    fl_list_each (it, &v->views) {
        const struct fl_slices_view *newer = fl_container_of(it, struct fl_slices_view, node);
        if (newer == view) {
            break;
        }
        if (answers(newer, want)) {
            return false;
        }
    }
    return answers(view, want);
}

/* Slices of a service mostly have the same ports: was this one looked at with one of the last? */
static bool is_new(const struct fl_slices_view *view, uint32_t at, uint32_t port)
{
    const struct fl_slice_record *r = view->records[at];
    const struct fl_slice_port *ports = fl_slice_record_ports(r);
    for (uint32_t i = at; i > 0 && i + LOOK_BACK > at; i--) {
        const struct fl_slice_record *b = view->records[i - 1];
        const struct fl_slice_port *before = fl_slice_record_ports(b);
        for (uint32_t k = 0; k < b->port_count; k++) {
            if (before[k].number == ports[port].number &&
                strcmp(fl_slice_record_text(b, before[k].name_at),
                       fl_slice_record_text(r, ports[port].name_at)) == 0) {
                return false;
            }
        }
    }
    return true;
}

static bool is_needed(const struct fl_slices_known *v, const struct fl_slices_view *now,
                      const struct fl_slices_view *view)
{
    if (alone_answers(v, now, view, &(struct fl_slice_want){NULL, 0})) {
        return true;
    }
    for (uint32_t i = 0; i < view->count; i++) {
        const struct fl_slice_record *r = view->records[i];
        const struct fl_slice_port *ports = fl_slice_record_ports(r);
        for (uint32_t k = 0; k < r->port_count; k++) {
            struct fl_slice_want by_name = {fl_slice_record_text(r, ports[k].name_at), 0};
            struct fl_slice_want by_number = {NULL, ports[k].number};
            if (is_new(view, i, k) && (alone_answers(v, now, view, &by_name) ||
                                       alone_answers(v, now, view, &by_number))) {
                return true;
            }
        }
    }
    return false;
}

static void drop_view(struct fl_slices *s, struct fl_slices_known *v, struct fl_slices_view *view)
{
    fl_list_remove(&view->node);
    view_free(view);
    s->holding -= fl_list_empty(&v->views);
}

void fl_slices_hold_drop_all(struct fl_slices *s, struct fl_slices_known *v)
{
    while (!fl_list_empty(&v->views)) {
        drop_view(s, v, fl_container_of(v->views.next, struct fl_slices_view, node));
    }
}

void fl_slices_hold_settle(struct fl_slices *s, struct fl_slices_known *v,
                           struct fl_slices_view *before, int64_t now_ms)
{
    bool held = !fl_list_empty(&v->views);
    struct fl_slices_view *now = fl_slices_hold_view(v);
    if (before && !v->ended) {
        before->until_ms = now_ms + FL_SLICES_HOLD_MS;
        fl_list_push(&v->views, &before->node);
    } else {
        view_free(before);
    }
    fl_list_each_safe (it, tmp, &v->views) {
        struct fl_slices_view *view = fl_container_of(it, struct fl_slices_view, node);
        if (now && !is_needed(v, now, view)) {
            fl_list_remove(it);
            view_free(view);
        }
    }
    view_free(now);
    s->holding += !fl_list_empty(&v->views);
    s->holding -= held;
    v->revision = ++s->revision;
}

bool fl_slices_hold_drop_old(struct fl_slices *s, struct fl_slices_known *v, int64_t now_ms)
{
    bool some = false;
    fl_list_each_safe (it, tmp, &v->views) {
        struct fl_slices_view *view = fl_container_of(it, struct fl_slices_view, node);
        if (view->until_ms <= now_ms) {
            drop_view(s, v, view);
            v->revision = ++s->revision;
            some = true;
        }
    }
    return some;
}
