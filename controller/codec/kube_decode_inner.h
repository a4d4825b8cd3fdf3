/* kube_decode_inner - metadata, which every object has (of kube_decode only). */
#ifndef FL_CONTROLLER_CODEC_KUBE_DECODE_INNER_H
#define FL_CONTROLLER_CODEC_KUBE_DECODE_INNER_H

#include "controller/codec/json_walk.h"
#include "controller/decide/kube_objects.h"

/* What metadata may hold beside its four texts; NULL: not wanted. */
struct fl_kube_meta_more {
    const char **service;     /* a slice's label */
    int64_t *trigger_unix_ms; /* a slice's annotation */
    bool *deleting;           /* a pod's */
    struct fl_kube_pod *ours; /* a pod's annotations */
    bool *initial_end;        /* a bookmark's annotation */
};

struct fl_kube_meta fl_kube_decode_no_meta(void);
/* The metadata object that stands here. ret: NULL when none of its texts are wanted. */
void fl_kube_decode_metadata(struct fl_json_walk *w, struct fl_kube_meta *ret,
                             const struct fl_kube_meta_more *more);
/* The end of an object that will be stored: one without a name is not what the API sends. */
FL_MUST_USE int fl_kube_decode_end(struct fl_json_walk *w, const struct fl_kube_meta *m);

#endif
