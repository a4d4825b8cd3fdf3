/* patience - how many bytes of a body are worth being woken for. A wake-up, its read and its send
 * (which wakes the reader) cost the same however little there is; a source that is fast gives much
 * a moment later. So where it has proved to be fast, and much of the body is still to come, the
 * kernel tells us only of FL_PATIENCE_BYTES at once, or of the rest. A wait that is longer than
 * FL_PATIENCE_MS ends that until it has proved itself anew, each time by twice as much (up to
 * 4 MiB, and from the beginning after as much without such a wait): what trickles is held back
 * once, and what comes in bursts once in some MiB. Pure. */
#ifndef FL_SIDECAR_POLICY_PATIENCE_H
#define FL_SIDECAR_POLICY_PATIENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FL_PATIENCE_BYTES = 262144,
    FL_PATIENCE_FEW_BYTES =
        131072, /* of a receive buffer that may not grow: it must not run full */
    FL_PATIENCE_MS = 8,
};

struct fl_patience { /* zeroed: none */
    int64_t since_ms;
    uint32_t bytes; /* that came since then, or since it is proven */
    uint8_t losses; /* waits in vain that are not forgiven */
    bool proven;
};

/* n bytes of a body were read. */
void fl_patience_came(struct fl_patience *p, int64_t now_ms, size_t n);
/* How many to be woken for, at most `most`, when `rest` bytes are still to come on the connection,
 * of which `held` may be here already (read, and not yet decrypted). 0: for any. */
int fl_patience_for(const struct fl_patience *p, uint64_t rest, uint32_t held, uint32_t most);
/* We have waited in vain. */
void fl_patience_lost(struct fl_patience *p);

#endif
