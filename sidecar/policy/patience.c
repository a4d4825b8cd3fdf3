#include "sidecar/policy/patience.h"

/* Fast: at this pace FL_PATIENCE_BYTES are there within FL_PATIENCE_MS. */
enum {
    PROOF_BYTES = FL_PATIENCE_BYTES / 2,
    PROOF_MS = FL_PATIENCE_MS / 2,
    LEAST_BYTES = 65536, /* worth two calls */
};

void fl_patience_came(struct fl_patience *p, int64_t now_ms, size_t n)
{
    if (p->proven) {
        return;
    }
    if (now_ms - p->since_ms > PROOF_MS) {
        p->since_ms = now_ms;
        p->bytes = 0;
    }
    p->bytes += n < PROOF_BYTES ? (uint32_t)n : PROOF_BYTES;
    p->proven = p->bytes >= PROOF_BYTES;
}

int fl_patience_for(const struct fl_patience *p, uint64_t rest, uint32_t held, uint32_t most)
{
    if (!p->proven || rest < held + LEAST_BYTES) {
        return 0;
    }
    return rest - held < most ? (int)(rest - held) : (int)most;
}

void fl_patience_lost(struct fl_patience *p)
{
    *p = (struct fl_patience){0};
}
