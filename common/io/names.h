/* names - a set of host names, and the addresses they stand for now. Names are asked again every
 * 30 s; what fails keeps its last addresses (fail-static), and one that never had any is asked
 * again after 1, 2, 4 … 30 s. The reactor's thread only; used by both processes. */
#ifndef FL_COMMON_IO_NAMES_H
#define FL_COMMON_IO_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/addr.h"
#include "common/base/check.h"
#include "common/base/span.h"
#include "common/io/reactor.h"

struct fl_names;

struct fl_name_answer {
    const struct fl_addr *addrs; /* sorted, unique; valid until the next turn */
    int count;
    int err;    /* of the last answer: 0 or EAI_* */
    bool asked; /* false: no answer yet */
};

/* changed: addresses of a name are new, or a first answer came; called from the reactor, not from
 * within want. */
FL_MUST_USE int fl_names_new(struct fl_reactor *r, void (*changed)(void *arg), void *arg,
                             struct fl_names **ret);
struct fl_names *fl_names_free(struct fl_names *n); /* accepts NULL, returns NULL */

/* One configuration's worth of names: begin, want each of them, end (which forgets those that
 * nobody wanted). A new name is asked at once. false: no memory, or not a name that can be asked.
 */
void fl_names_begin(struct fl_names *n);
bool fl_names_want(struct fl_names *n, struct fl_span host, uint16_t port,
                   struct fl_name_answer *ret);
void fl_names_end(struct fl_names *n);
/* Until other is NULL: a name that is new here and has addresses in `other` has them here at once,
 * and is asked again when it is due. */
void fl_names_learn(struct fl_names *n, const struct fl_names *other);
bool fl_names_look(const struct fl_names *n, struct fl_span host, uint16_t port,
                   struct fl_name_answer *ret);         /* asks nothing */
unsigned fl_names_unanswered(const struct fl_names *n); /* names without any answer yet */

#endif
