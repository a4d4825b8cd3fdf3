/* watch_request - the path and query of a list or watch. Pure text. */
#ifndef FL_CONTROLLER_KUBE_WATCH_REQUEST_H
#define FL_CONTROLLER_KUBE_WATCH_REQUEST_H

#include "common/base/check.h"
#include "controller/decide/watch_plan.h"

#define FL_WATCH_PAGE 500 /* objects of one page of a consistent list */

/* For the plan's step, which is not WAIT. A consistent list is asked for in pages; page: the
 * `continue` of the one before, "" the first. NULL: no memory; else free() it. */
FL_MUST_USE char *fl_watch_request(const struct fl_watch_plan *p, const char *path,
                                   const char *selector, const char *page);

#endif
