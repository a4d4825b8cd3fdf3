/* node - a parsed document (YAML or JSON) as a tree with places, before anybody knows what its keys
 * mean. Arena-owned. */
#ifndef FL_COMMON_MODEL_NODE_H
#define FL_COMMON_MODEL_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/span.h"

enum fl_node_kind { FL_NODE_NULL, FL_NODE_SCALAR, FL_NODE_LIST, FL_NODE_MAP };

struct fl_node {
    enum fl_node_kind kind;
    bool quoted;        /* a quoted scalar is text, never a number or a boolean */
    int line, column;   /* 1-based; 0 when the format has no places */
    struct fl_span key; /* within a map: the key, and where it stands */
    int key_line;
    struct fl_span text;          /* scalars */
    struct fl_node *first, *next; /* children; next sibling */
};

const struct fl_node *fl_node_get(const struct fl_node *map,
                                  const char *key); /* NULL: absent or not a map */

#endif
