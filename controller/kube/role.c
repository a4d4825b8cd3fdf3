#include "controller/kube/role.h"

enum where { CLUSTER, NAMESPACE, LEASE };

static const struct {
    const char *verb, *group, *resource;
    enum where where;
    const char *needed_for;
} table[] = {
#define X(verb, group, resource, where, needed_for) {verb, group, resource, where, needed_for},
    FL_ROLE_ROWS(X)
#undef X
};
_Static_assert(FL_COUNTOF(table) == FL_ROLE_ROWS_MAX, "the bound of callers");

size_t fl_role_rows(const struct fl_role *role, struct fl_self_check_row rows[FL_ROLE_ROWS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < FL_COUNTOF(table); i++) {
        if (table[i].where != CLUSTER && !role->election) {
            continue;
        }
        rows[n++] = (struct fl_self_check_row){
            .verb = table[i].verb,
            .group = table[i].group,
            .resource = table[i].resource,
            .subresource = "",
            .namespace = table[i].where == CLUSTER ? "" : role->namespace,
            .name = table[i].where == LEASE ? role->lease : "",
            .needed_for = table[i].needed_for,
        };
    }
    return n;
}
