/* directives_scope - one mapping of the document against the rows of its scope: defaults, reading,
 * copying. For the files of this folder. Pure. */
#ifndef FL_COMMON_MODEL_DIRECTIVES_SCOPE_H
#define FL_COMMON_MODEL_DIRECTIVES_SCOPE_H

#include <stdbool.h>

#include "common/model/directives_value.h"

/* The end of every finding about a key that an annotation's author is not trusted with. */
#define FL_NOT_IN_ANNOTATIONS "is not allowed in a pod annotation"

/* The defaults of every row that has one, scopes inside and mixin included. */
void fl_scope_default(struct fl_arena *arena, enum fl_scope s, bool http, void *base);
/* Reads what is right into base (already defaulted) and marks it as given; faults become findings.
 * Lists and keyed mappings inside are read by directives_list. */
void fl_scope_read(struct fl_reading *r, const struct fl_place *at, enum fl_scope s,
                   const struct fl_node *map, void *base);
/* A list, or a mapping keyed by names: the container types of the table. */
bool fl_scope_read_many(struct fl_reading *r, const struct fl_place *at,
                        const struct fl_directive *d, const struct fl_node *n, void *base);
/* One backend or route into *ret, defaulted first; false: findings of kind error were made. */
bool fl_scope_read_backend(struct fl_reading *r, const struct fl_place *at, const struct fl_node *n,
                           const char *name, struct fl_backend_conf *ret);
bool fl_scope_read_route(struct fl_reading *r, const struct fl_place *at, const struct fl_node *n,
                         const char *bucket, struct fl_route_conf *ret);
/* What is wrong with a name; NULL: nothing. */
const char *fl_scope_backend_fault(struct fl_span name);
const char *fl_scope_bucket_fault(struct fl_span name);
/* The first child of the same key before `n`; NULL: n is the first. */
const struct fl_node *fl_scope_earlier(const struct fl_node *map, const struct fl_node *n);
/* Moves every text below a plain copy of another configuration's struct into the arena; false: out
 * of memory. */
FL_MUST_USE bool fl_scope_rehome(struct fl_arena *arena, enum fl_scope s, void *base);

/* Keeps the line of a key or name for later messages. */
void fl_reading_remember(struct fl_reading *r, const struct fl_place *here, int line);
/* What a profile gives a row; NULL: nothing. */
const char *fl_profile_text(enum fl_profile profile, const struct fl_directive *d);

static inline struct fl_place fl_place_key(const struct fl_place *up, const char *name)
{
    return (struct fl_place){up, fl_span_of(name), -1};
}

#endif
