/* pod_config_inner - what the files of pod_config share: drafts of routes and backends between
 * reading and checking. */
#ifndef FL_CONTROLLER_CODEC_POD_CONFIG_INNER_H
#define FL_CONTROLLER_CODEC_POD_CONFIG_INNER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/model/controller_config.h"
#include "common/model/findings.h"
#include "controller/decide/annotation_key.h"
#include "controller/decide/kube_objects.h"
#include "controller/decide/pod_overlay.h"

/* Where a finding stands: an annotation, and a part of it when it is a document. */
struct fl_pod_source {
    const char *annotation; /* its key, as it was written */
    const char *part;       /* "routes.releases"; "" all of it */
    bool has_lines;         /* its value has several lines: findings then name theirs */
};

struct fl_pod_draft_route {
    struct fl_route_conf conf; /* `invalid` not empty: bad, and nothing else in it counts */
    struct fl_pod_source from;
    bool unknown_backend; /* it names one that nobody has */
};

struct fl_pod_draft_backend {
    struct fl_backend_conf conf;
    struct fl_pod_source from;
    const char *bad; /* why its routes are invalid; NULL: it is good */
};

struct fl_pod_reading {
    const struct fl_controller_config *c;
    struct fl_pod_overlay *o; /* texts that stay are in its arena */
    struct fl_arena scratch;
    struct fl_pod_draft_route *routes;
    struct fl_pod_draft_backend *backends;
    uint32_t route_count, route_room, route_max;
    uint32_t backend_count, backend_room, backend_max;
    uint64_t seen_keys;   /* sidecar-wide ones, bit per row of the top level */
    const char *document; /* the key of fairlead.dev/routes, once it was seen; else NULL */
    const char *closed;   /* why its routes are unknown; NULL: they are known */
    bool no_memory;
};

/* An error: a finding, and what is returned is the reason for `invalid` (never empty). */
const char *fl_pod_fault(struct fl_pod_reading *r, const struct fl_pod_source *from,
                         enum fl_annotation_fault fault, int line, const char *fmt, ...)
    FL_PRINTF(5, 6);
/* Takes findings over; `place` is cut from their beginning. The reason of the first error; NULL:
 * there is none. errors_only: warnings are left behind. */
const char *fl_pod_take(struct fl_pod_reading *r, const struct fl_pod_source *from,
                        const struct fl_findings *said, enum fl_annotation_fault fault,
                        const char *place, bool errors_only);

struct fl_pod_draft_route *fl_pod_find_route(const struct fl_pod_reading *r, const char *bucket);
struct fl_pod_draft_backend *fl_pod_find_backend(const struct fl_pod_reading *r, const char *name);
/* One more, with `from`; NULL: too many (a finding says so), or no memory. */
struct fl_pod_draft_route *fl_pod_add_route(struct fl_pod_reading *r,
                                            const struct fl_pod_source *from);
struct fl_pod_draft_backend *fl_pod_add_backend(struct fl_pod_reading *r,
                                                const struct fl_pod_source *from);
/* A bad route: its bucket and the reason are all that is left of it. */
void fl_pod_close_route(struct fl_pod_draft_route *route, const char *bucket, const char *reason);

/* Reading: an annotation of one route or backend, and the document. */
void fl_pod_read_route(struct fl_pod_reading *r, const struct fl_kube_annotation *a,
                       const char *bucket);
void fl_pod_read_backend(struct fl_pod_reading *r, const struct fl_kube_annotation *a,
                         const char *name);
void fl_pod_read_document(struct fl_pod_reading *r, const struct fl_kube_annotation *a);

/* When all are read: names to backends, defaults, checks; then they are the overlay's. */
void fl_pod_settle(struct fl_pod_reading *r);

#endif
