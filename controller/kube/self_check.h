/* self_check - may we do what we need? A SelfSubjectAccessReview for each row of the role
 * (contract-cluster.md section 3) at the start, and one clear sentence that names all that is
 * missing. Each row is asked once: after "rights_unknown" the caller makes another check, later.
 *
 * One thread: the reactor's. */
#ifndef FL_CONTROLLER_KUBE_SELF_CHECK_H
#define FL_CONTROLLER_KUBE_SELF_CHECK_H

#include <stddef.h>

#include "common/base/check.h"
#include "common/model/cause.h"
#include "controller/kube/kube_client.h"

struct fl_self_check;

struct fl_self_check_row { /* "" = core group, all namespaces, any name */
    const char *verb, *group, *resource, *subresource, *namespace, *name;
    const char *needed_for; /* "membership" */
};

/* done: once, never from within new, when every row has an answer; cause->code is empty when all
 * are allowed, "not_allowed" when something is missing, "rights_unknown" when something could not
 * be asked and nothing is known to be missing. The cause lives until the check is freed; what does
 * not fit into it ("and 3 more") is in the sentence. rows are copied, with their texts. 0, -EINVAL
 * (no rows), -ENOMEM. */
FL_MUST_USE int fl_self_check_new(struct fl_kube *kube, const struct fl_self_check_row *rows,
                                  size_t count,
                                  void (*done)(void *arg, const struct fl_cause *cause), void *arg,
                                  struct fl_self_check **ret);
/* From within done, too. Accepts NULL, returns NULL. */
struct fl_self_check *fl_self_check_free(struct fl_self_check *c);
/* All that is missing, with what it is needed for; "" before done, and when nothing is. */
const char *fl_self_check_sentence(const struct fl_self_check *c);

#endif
