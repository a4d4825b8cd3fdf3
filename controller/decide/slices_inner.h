/* slices_inner - the store of slices.h from within: slices.c changes it, slices_hold.c keeps what
 * was before, slices_members.c reads it. */
#ifndef FL_CONTROLLER_DECIDE_SLICES_INNER_H
#define FL_CONTROLLER_DECIDE_SLICES_INNER_H

#include "common/base/list.h"
#include "common/base/smap.h"
#include "controller/decide/slice_record.h"
#include "controller/decide/slices.h"

/* The slices of a service as they were before a change that took the last member of some port. */
struct fl_slices_view {
    struct fl_list node;
    int64_t until_ms;
    uint32_t count;
    struct fl_slice_record *records[];
};

/* What the Service object says; one block. */
struct fl_slices_object {
    const char *external_name;
    uint32_t port_count;
    struct fl_kube_slice_port ports[];
};

struct fl_slices_known {
    struct fl_list all;     /* of the store */
    struct fl_list entries; /* that are in force */
    struct fl_list views;   /* the newest first */
    struct fl_list dirty;   /* of the store, while a relist ends */
    struct fl_slices_object *object;
    struct fl_slices_view *before; /* while dirty */
    uint64_t revision;             /* of the store, when something of it changed last */
    uint32_t slice_count, uses;    /* uses: entries that name it, in force or not */
    bool seen;
    bool ended; /* its Service object went: no members, whatever slices are left */
    const char *namespace, *name; /* in key, which has the two of them once more */
    char key[]; /* "namespace/name", as the map wants it; "namespace" NUL "name" */
};

/* A slice by its name. */
struct fl_slices_entry {
    struct fl_list all, node; /* of the store; of its service */
    struct fl_slices_known *service, *next_service;
    struct fl_slice_record *record; /* in force */
    struct fl_slice_record *next;   /* what a relist said, to be in force at its end */
    bool seen;
    char key[];
};

struct fl_slices {
    struct fl_smap entries_by_key, services_by_key;
    struct fl_list entries, services, dirty;
    uint64_t revision; /* of the last change of a service */
    uint32_t holding;  /* services with views */
    bool relisting;
};

struct fl_slices_known *fl_slices_find_service(const struct fl_slices *s, const char *namespace,
                                               const char *name);

/* The slices in force now, for settle; NULL: no memory. */
struct fl_slices_view *fl_slices_hold_view(const struct fl_slices_known *v);
/* A change of the service is complete. before: its slices before it, which are taken over; NULL:
 * nothing is known of them, so nothing will be held. */
void fl_slices_hold_settle(struct fl_slices *s, struct fl_slices_known *v,
                           struct fl_slices_view *before, int64_t now_ms);
void fl_slices_hold_drop_all(struct fl_slices *s, struct fl_slices_known *v);
/* Those whose time is over; true: there were some. */
bool fl_slices_hold_drop_old(struct fl_slices *s, struct fl_slices_known *v, int64_t now_ms);

#endif
