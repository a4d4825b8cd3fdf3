/* what the pages show of a delivery */
#include <stdlib.h>
#include <string.h>

#include "controller/decide/compose.h"
#include "controller/delivery/delivery_inner.h"

static const struct fl_state *state_of(const struct fl_delivery *d, const struct fl_group *g)
{
    return fl_fanout_state(d->fanout, g != NULL ? g->key : "");
}

static void add(struct fl_delivery *d, const struct fl_group *g, struct fl_smap *seen, size_t room)
{
    const struct fl_state *s = state_of(d, g);
    for (uint32_t i = 0; s != NULL && i < s->backend_count && d->shown_count < room; i++) {
        struct fl_shown *one = &d->shown[d->shown_count];
        fl_compose_subject(d->config, g != NULL ? g->overlay : NULL, &s->backends[i].conf,
                           one->subject);
        if (fl_smap_put(seen, fl_span_of(one->subject), one) == 0) {
            one->group = g;
            one->index = i;
            d->shown_count++;
        }
    }
}

void fl_delivery_show_anew(struct fl_delivery *d)
{
    const struct fl_state *s = state_of(d, NULL);
    struct fl_smap seen;
    size_t room = s != NULL ? s->backend_count : 0;
    fl_list_each (it, &d->groups) {
        s = state_of(d, fl_container_of(it, struct fl_group, node));
        room += s != NULL ? s->backend_count : 0;
    }
    free(d->shown);
    d->shown_count = 0;
    d->shown = calloc(room + 1, sizeof(*d->shown));
    if (d->shown == NULL) {
        return; /* nothing is shown until the next change */
    }
    fl_smap_init(&seen, d->conf.seed);
    add(d, NULL, &seen, room);
    fl_list_each (it, &d->groups) {
        add(d, fl_container_of(it, struct fl_group, node), &seen, room);
    }
    fl_smap_done(&seen);
}

bool fl_delivery_next(const struct fl_delivery *d, size_t *at, struct fl_delivery_backend *ret)
{
    if (*at >= d->shown_count) {
        return false;
    }
    const struct fl_shown *one = &d->shown[(*at)++];
    memcpy(ret->subject, one->subject, sizeof(ret->subject));
    ret->namespace = one->group != NULL ? one->group->overlay->namespace : "";
    ret->state = state_of(d, one->group);
    ret->b = &ret->state->backends[one->index];
    return true;
}

void fl_delivery_subject(const struct fl_delivery *d, const char *configuration,
                         const char *backend, char ret[FL_SUBJECT_MAX])
{
    const struct fl_group *g = fl_smap_get(&d->by_key, fl_span_of(configuration));
    const struct fl_state *s = fl_fanout_state(d->fanout, configuration);
    for (uint32_t i = 0; s != NULL && i < s->backend_count; i++) {
        if (strcmp(s->backends[i].name, backend) == 0) {
            fl_compose_subject(d->config, g != NULL ? g->overlay : NULL, &s->backends[i].conf, ret);
            return;
        }
    }
    struct fl_fmt f = fl_fmt_of(ret, FL_SUBJECT_MAX);
    fl_fmt_text(&f, backend);
}

const struct fl_pod_overlay *fl_delivery_overlay(const struct fl_delivery *d,
                                                 const char *configuration)
{
    const struct fl_group *g = fl_smap_get(&d->by_key, fl_span_of(configuration));
    return g != NULL ? g->overlay : NULL;
}

const struct fl_pod_overlay *fl_delivery_next_overlay(const struct fl_delivery *d,
                                                      const struct fl_group **at,
                                                      uint32_t *ret_pods)
{
    struct fl_list *next = *at != NULL ? (*at)->node.next : d->groups.next;
    if (next == &d->groups) {
        return NULL;
    }
    *at = fl_container_of(next, struct fl_group, node);
    *ret_pods = (*at)->pods;
    return (*at)->overlay;
}
