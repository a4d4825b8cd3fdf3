/* annotation_key - what the key of a pod's annotation means (contract-cluster.md section 1): the
 * kind is in its prefix or name, matched without case. The sidecar-wide keys are the top level of
 * the directive table, with '-' for '_'. Pure. */
#ifndef FL_CONTROLLER_DECIDE_ANNOTATION_KEY_H
#define FL_CONTROLLER_DECIDE_ANNOTATION_KEY_H

#include <stdbool.h>

#include "common/base/fmt.h"
#include "common/base/span.h"
#include "common/model/directives_table.h"

#define FL_ANNOTATION_DOMAIN "fairlead.dev"

enum fl_annotation_kind {
    FL_ANNOTATION_OF_OTHERS,  /* another domain's */
    FL_ANNOTATION_ROUTE,      /* route.fairlead.dev/<bucket> */
    FL_ANNOTATION_BACKEND_OF, /* backend.fairlead.dev/<name> */
    FL_ANNOTATION_DOCUMENT,   /* fairlead.dev/routes */
    FL_ANNOTATION_SIDECAR,    /* a sidecar-wide key: row */
    FL_ANNOTATION_ENV,        /* fairlead.dev/env */
    FL_ANNOTATION_GATE,       /* fairlead.dev/readiness-gate */
    FL_ANNOTATION_OURS,       /* written by the injector */
    FL_ANNOTATION_LABEL,      /* the name of one of our labels */
    FL_ANNOTATION_NAMELESS,   /* of one of our prefixes, but its name is none of Kubernetes' */
    FL_ANNOTATION_STRANGE,    /* of our domain, but unknown */
};

#define FL_ANNOTATION_NAME_MAX 64 /* NUL included: 63 bytes in Kubernetes */

struct fl_annotation_key {
    enum fl_annotation_kind kind;
    char name[FL_ANNOTATION_NAME_MAX]; /* what follows the '/', in small letters */
    bool has_capitals;                 /* somewhere in the key */
    const struct fl_directive *row;    /* of SIDECAR */
};

void fl_annotation_key_read(const char *key, struct fl_annotation_key *ret);
/* The nearest key that means something, for one that is STRANGE; nothing when none is near. */
void fl_annotation_key_nearest(const char *key, struct fl_fmt *out);

#endif
