#include "controller/decide/backend_verdict.h"

#include <stdlib.h>

#include "common/base/fmt.h"

void fl_backend_verdict(const struct fl_verdict_table *t, const char *subject,
                        const struct fl_state_backend *b, struct fl_derived *ret)
{
    uint32_t count = b->conf.peer_count;
    struct fl_derive_peer *peers = calloc((size_t)count + 1, sizeof(*peers));
    for (uint32_t i = 0; peers != NULL && i < count; i++) {
        const struct fl_peer_conf *p = &b->conf.peers[i];
        peers[i] = (struct fl_derive_peer){p->address, fl_verdict_table_get(t, subject, p->address),
                                           p->down};
    }
    fl_derive_backend(peers, peers != NULL ? count : 0, ret);
    free(peers);
}

void fl_backend_verdict_other_view(const struct fl_verdict *v, uint32_t reached, uint32_t failing,
                                   char text[96])
{
    struct fl_fmt f = fl_fmt_of(text, 96);
    text[0] = '\0';
    if (v == NULL || v->status == FL_VERDICT_UNKNOWN) {
        return;
    }
    uint32_t pods = reached + failing;
    if (v->status == FL_VERDICT_UNREACHABLE && reached > 0) {
        fl_fmt_printf(&f, "unreachable from the controller, reachable from %u of %u pods", reached,
                      pods);
    } else if (v->status == FL_VERDICT_HEALTHY && failing > 0) {
        fl_fmt_printf(&f, "reachable from the controller, failing from %u of %u pods", failing,
                      pods);
    }
}
