/* await - `fairlead-sidecar --await`: asks another sidecar's /_/started until it says yes (a
 * postStart hook: behaviour.md section 7). Blocking; a process of its own. */
#ifndef FL_SIDECAR_AWAIT_H
#define FL_SIDECAR_AWAIT_H

#include "common/base/addr.h"

/* Returns when the answer is 200, or start_wait (told by the answers; 5 s until one came) + 1 s
 * have passed. True: started. */
bool fl_await_started(const struct fl_addr *at);

#endif
