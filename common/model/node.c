#include "common/model/node.h"

const struct fl_node *fl_node_get(const struct fl_node *map, const char *key)
{
    if (!map || map->kind != FL_NODE_MAP) {
        return NULL;
    }
    struct fl_span wanted = fl_span_of(key);
    for (const struct fl_node *n = map->first; n; n = n->next) {
        if (fl_span_eq(n->key, wanted)) {
            return n;
        }
    }
    return NULL;
}
