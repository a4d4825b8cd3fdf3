/* role - what this version of the controller needs to be allowed (contract-cluster.md section 3), a
 * row for each right that it uses and none besides. deploy/manifests/controller-rbac.yaml grants
 * exactly these; a test compares them. Pure. */
#ifndef FL_CONTROLLER_KUBE_ROLE_H
#define FL_CONTROLLER_KUBE_ROLE_H

#include <stdbool.h>
#include <stddef.h>

#include "controller/kube/self_check.h"

/* verb, group, resource, where, what for. CLUSTER: in all namespaces; NAMESPACE: in that of the
 * Lease; LEASE: that Lease alone. The last two only with an election. */
// clang-format off
#define FL_ROLE_ROWS(X)                                                            \
    X("list",   "",                    "pods",           CLUSTER,   "pushes")      \
    X("watch",  "",                    "pods",           CLUSTER,   "pushes")      \
    X("list",   "",                    "services",       CLUSTER,   "membership")  \
    X("watch",  "",                    "services",       CLUSTER,   "membership")  \
    X("list",   "discovery.k8s.io",    "endpointslices", CLUSTER,   "membership")  \
    X("watch",  "discovery.k8s.io",    "endpointslices", CLUSTER,   "membership")  \
    X("create", "events.k8s.io",       "events",         CLUSTER,   "reports")     \
    X("patch",  "events.k8s.io",       "events",         CLUSTER,   "reports")     \
    X("create", "coordination.k8s.io", "leases",         NAMESPACE, "election")    \
    X("get",    "coordination.k8s.io", "leases",         LEASE,     "election")    \
    X("update", "coordination.k8s.io", "leases",         LEASE,     "election")
// clang-format on
#define FL_ROLE_ROWS_MAX 11

struct fl_role {
    bool election;
    const char *namespace, *lease; /* of the Lease; the rows point to them */
};
/* The rows that this configuration needs; their number. */
size_t fl_role_rows(const struct fl_role *role, struct fl_self_check_row rows[FL_ROLE_ROWS_MAX]);

#endif
