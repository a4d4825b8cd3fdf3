/* derive - the verdict of a backend from those of its peers (behaviour.md section 5). Both
 * processes use it, so one state has one verdict and one cause everywhere. Pure. healthy        one
 * peer is; the note says when some are down erroring       none is, one answers with errors
 *   auth-rejected  neither, and a keyed answer named bad credentials
 *   unknown        neither, and one was never probed (or there is no peer to probe)
 *   unreachable    every peer is */
#ifndef FL_COMMON_VERDICT_DERIVE_H
#define FL_COMMON_VERDICT_DERIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/verdict.h"

struct fl_derive_peer {
    const char *address;
    const struct fl_verdict *verdict; /* NULL = unknown */
    bool down;                        /* marked down in the configuration: not looked at */
};

struct fl_derived {
    struct fl_verdict
        verdict; /* the first peer's, by address, among those that decide; its cause is repeated */
    char peers_down[16]; /* "2/3" whose verdict blocks, "" when none */
};

void fl_derive_backend(const struct fl_derive_peer *peers, uint32_t count, struct fl_derived *ret);

#endif
