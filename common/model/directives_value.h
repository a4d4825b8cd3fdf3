/* directives_value - one value of one row: from a node into its field, from its field to text. Used
 * by the reading and showing sides of directives.h. Pure. */
#ifndef FL_COMMON_MODEL_DIRECTIVES_VALUE_H
#define FL_COMMON_MODEL_DIRECTIVES_VALUE_H

#include <stdbool.h>

#include "common/base/arena.h"
#include "common/base/fmt.h"
#include "common/model/config.h"
#include "common/model/directives.h"
#include "common/model/directives_table.h"
#include "common/model/findings.h"
#include "common/model/node.h"

struct fl_reading {
    struct fl_config *c; /* takes backends, routes and lines; NULL where the document has none */
    struct fl_arena *arena;
    struct fl_findings *f;
    enum fl_origin origin;
    unsigned document; /* FL_IN_* */
};

/* Where in the document: a chain up to the top level. */
struct fl_place {
    const struct fl_place *up; /* NULL: the top level, which has no name */
    struct fl_span name;
    int index; /* >= 0: an element of the list above; else a key */
};

#define FL_PLACE_MAX 320
void fl_place_print(const struct fl_place *at,
                    struct fl_fmt *out); /* backends.minio.peers[3].weight */
void fl_reading_fault(struct fl_reading *r, const struct fl_place *at, int line, const char *fmt,
                      ...) FL_PRINTF(4, 5); /* an error "PLACE: text" */
/* The value as people should see it in a message: quoted, cut to a sensible length. */
#define FL_SHOWN_MAX 96
const char *fl_value_shown(struct fl_span text, char buffer[static FL_SHOWN_MAX]);
const char *fl_value_type_name(enum fl_type t); /* "a duration" */
bool fl_value_is_plain(enum fl_type t);         /* one of the types that fl_value_set reads */

/* Rows of the types up to FL_TYPE_NAMESPACES (fl_value_is_plain); base is the scope's struct.
 * False: a finding was made. */
bool fl_value_set(struct fl_reading *r, const struct fl_place *at, const struct fl_directive *d,
                  const struct fl_node *n, void *base);
/* The text of a default or profile, which must be right: a fault of ours stops the process. */
void fl_value_assign(struct fl_arena *arena, const struct fl_directive *d, const char *text,
                     void *base);
/* The field of one row into that of another row of the same type (backend to peer, route to path);
 * texts are shared. */
void fl_value_copy(const struct fl_directive *to, void *to_base, const struct fl_directive *from,
                   const void *from_base);
/* Moves the texts of a field (a plain copy of another configuration's) into the arena; false: out
 * of memory. */
FL_MUST_USE bool fl_value_rehome(struct fl_arena *arena, const struct fl_directive *d, void *base);
/* In YAML, or JSON: byte-equal for equal values. */
void fl_value_print(const struct fl_directive *d, const void *base, struct fl_fmt *out, bool json);
void fl_value_print_text(struct fl_fmt *out, struct fl_span s, bool json); /* in quotes */
void fl_value_range(const struct fl_directive *d,
                    struct fl_fmt *out); /* "100ms to 24h"; "" where there is none */

#endif
