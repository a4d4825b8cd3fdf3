/* push_answer - reads what a sidecar answers to a push (answer_json.h has the form, and writes it).
 * The answers of a thousand sidecars come within a blink, each with a finding per peer, so the
 * pair is read in place, the rest is kept as bytes, and observations are made when somebody looks.
 */
#ifndef FL_CONTROLLER_PUSH_PUSH_ANSWER_H
#define FL_CONTROLLER_PUSH_PUSH_ANSWER_H

#include <stdbool.h>

#include "common/base/arena.h"
#include "common/base/check.h"
#include "common/base/span.h"
#include "common/codec/answer_json.h"

/* The pair and the hash (0: none); the form of all of it is checked. False: no sidecar answers so.
 */
FL_MUST_USE bool fl_push_answer_read(struct fl_span body, struct fl_push_answer *ret);
/* With the observations, in the arena. False: also when one is not as it should be, or no memory.
 */
FL_MUST_USE bool fl_push_answer_read_all(struct fl_span body, struct fl_arena *arena,
                                         struct fl_push_answer *ret);

#endif
