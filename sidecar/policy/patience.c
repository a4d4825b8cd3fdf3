#include "sidecar/policy/patience.h"

/* Fast: at this pace FL_PATIENCE_BYTES are there within FL_PATIENCE_MS. */
enum {
    PROOF_BYTES = FL_PATIENCE_BYTES / 2,
    PROOF_MS = FL_PATIENCE_MS / 2,
    LOSSES_MOST = 5,          /* then 4 MiB in 128 ms */
    FORGIVEN_BYTES = 1 << 22, /* without a wait in vain */
    LEAST_BYTES = 65536,      /* worth two calls */
};

void fl_patience_came(struct fl_patience *p, int64_t now_ms, size_t n)
{
    if (!p->proven && now_ms - p->since_ms > (int64_t)PROOF_MS << p->losses) {
        p->since_ms = now_ms;
        p->bytes = 0;
    }
    p->bytes += n < FORGIVEN_BYTES ? (uint32_t)n : FORGIVEN_BYTES;
    if (p->proven && p->bytes >= FORGIVEN_BYTES) {
        p->losses = 0;
        p->bytes = 0;
    } else if (!p->proven && p->bytes >= (uint32_t)PROOF_BYTES << p->losses) {
        p->proven = true;
        p->bytes = 0;
    }
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
    uint8_t losses = p->losses < LOSSES_MOST ? p->losses + 1 : LOSSES_MOST;
    *p = (struct fl_patience){.losses = losses};
}
