/* self_check - may we do what we need? A SelfSubjectAccessReview for each row of the role
 * (contract-cluster.md section 3) at the start, and one clear sentence that names all that is
 * missing.
 *
 * One thread: the reactor's. */
#ifndef FL_CONTROLLER_KUBE_SELF_CHECK_H
#define FL_CONTROLLER_KUBE_SELF_CHECK_H

#include "common/model/cause.h"
#include "controller/kube/kube_client.h"

struct fl_self_check;

struct fl_self_check_row { /* "" = core group, all namespaces, any name */
    const char *verb, *group, *resource, *subresource, *namespace, *name;
    const char *needed_for; /* "membership" */
};

/* done: once, when every row has an answer; cause->code is empty when all are allowed. A row that
 * could not be asked is said, too. Lives until the check is freed. */
FL_MUST_USE int fl_self_check_new(struct fl_kube *kube, const struct fl_self_check_row *rows,
                                  size_t count,
                                  void (*done)(void *arg, const struct fl_cause *cause), void *arg,
                                  struct fl_self_check **ret);
struct fl_self_check *fl_self_check_free(struct fl_self_check *c);

#endif
