/* api_path - paths of the Kubernetes API from names that came from elsewhere. Pure. */
#ifndef FL_CONTROLLER_KUBE_API_PATH_H
#define FL_CONTROLLER_KUBE_API_PATH_H

#include "common/base/fmt.h"

/* PREFIX/namespaces/NAMESPACE/RESOURCE, and /NAME unless it is NULL; each name one segment,
 * whatever is in it. */
void fl_api_path(struct fl_fmt *out, const char *prefix, const char *namespace,
                 const char *resource, const char *name);

#endif
