/* delivery_inner - the groups of a delivery, as its files see them. Nobody else includes this. */
#ifndef FL_CONTROLLER_DELIVERY_DELIVERY_INNER_H
#define FL_CONTROLLER_DELIVERY_DELIVERY_INNER_H

#include "common/base/list.h"
#include "common/base/smap.h"
#include "common/model/findings.h"
#include "controller/delivery/delivery.h"

struct fl_made {      /* of the last composition */
    bool whole;       /* there was one, and it is in force */
    bool unjudged;    /* verdicts have changed since, and nobody was pushed it */
    uint64_t members; /* revisions of the services in it */
    uint64_t said;    /* hash of its warnings */
};

/* Of one configuration (fl_pods_configuration), shared by its pods; or, "KEY/UID", of one pod that
 * keeps the good routes it had before a bad edit of its annotations (decide/pod_keep). */
#define FL_GROUP_KEY_MAX (FL_POD_CONFIGURATION_MAX + 64)
struct fl_group {
    struct fl_list node;
    struct fl_pod_overlay *overlay;
    uint32_t pods; /* targets of this configuration */
    struct fl_made made;
    char key[FL_GROUP_KEY_MAX];
};

struct fl_shown {                 /* a backend that the pages show */
    const struct fl_group *group; /* NULL: of configuration "" */
    uint32_t index;               /* in the state of that */
    char subject[FL_SUBJECT_MAX];
};

struct fl_delivery {
    struct fl_delivery_conf conf;
    const struct fl_controller_config *config;
    struct fl_fanout *fanout;
    struct fl_verdict_table verdicts;
    struct fl_cluster_prober *prober;
    struct fl_backend_notice notice;
    struct fl_timer again;    /* verdicts have changed */
    int64_t again_by_ms;      /* … which may be put off so far */
    struct fl_task again_now; /* and one of them blocks, or somebody waits for it */
    struct fl_timer rest;     /* what no push waits for is to be made */
    int64_t rest_by_ms;       /* … which may be put off so far */
    struct fl_list groups;    /* those of annotations, in the order they were met */
    struct fl_smap by_key;    /* of them */
    struct fl_made made;      /* of configuration "" */
    struct fl_shown *shown;   /* after each look */
    size_t shown_count;
};

/* The pods are others than before, or their annotations are read against another configuration:
 * groups and targets follow. True: groups are gone, or all are new. */
bool fl_delivery_regroup(struct fl_delivery *d, const struct fl_pods *pods, bool configured);
void fl_delivery_drop_groups(struct fl_delivery *d);
/* We lead from now on: nobody may have told of these. */
void fl_delivery_tell_wrong(const struct fl_delivery *d, const struct fl_pods *pods);
/* The states are others than before. */
void fl_delivery_show_anew(struct fl_delivery *d);

#endif
