#include "common/verdict/derive.h"

#include <string.h>

#include "common/base/fmt.h"

#define STATUSES (FL_VERDICT_ERRORING + 1)

struct count {
    uint32_t of[STATUSES], total;
    const struct fl_derive_peer *first[STATUSES], *first_blocked, *first_noted;
};

static enum fl_verdict_status status_of(const struct fl_derive_peer *p)
{
    return p->verdict ? p->verdict->status : FL_VERDICT_UNKNOWN;
}

static void keep_first(const struct fl_derive_peer **first, const struct fl_derive_peer *p)
{
    if (!*first || strcmp(p->address, (*first)->address) < 0) {
        *first = p;
    }
}

static struct count count_peers(const struct fl_derive_peer *peers, uint32_t count)
{
    struct count c = {.total = 0};
    for (uint32_t i = 0; i < count; i++) {
        const struct fl_derive_peer *p = &peers[i];
        if (p->down) {
            continue;
        }
        enum fl_verdict_status status = status_of(p);
        c.total++;
        c.of[status]++;
        keep_first(&c.first[status], p);
        if (fl_verdict_blocks(status)) {
            keep_first(&c.first_blocked, p);
        }
        if (status == FL_VERDICT_HEALTHY && p->verdict->note[0]) {
            keep_first(&c.first_noted, p);
        }
    }
    return c;
}

static enum fl_verdict_status decide(const struct count *c)
{
    static const enum fl_verdict_status order[] = {FL_VERDICT_HEALTHY, FL_VERDICT_ERRORING,
                                                   FL_VERDICT_AUTH_REJECTED, FL_VERDICT_UNKNOWN,
                                                   FL_VERDICT_UNREACHABLE};
    for (size_t i = 0; i < FL_COUNTOF(order); i++) {
        if (c->of[order[i]]) {
            return order[i];
        }
    }
    return FL_VERDICT_UNKNOWN;
}

/* Healthy has no cause: what is wrong with the others goes into the note. */
static void write_note(const struct count *c, struct fl_verdict *v)
{
    const char *text = c->first_blocked ? c->first_blocked->verdict->cause.text
                       : c->first_noted ? c->first_noted->verdict->note
                                        : "";
    size_t n = strnlen(text, sizeof(v->note) - 1);
    memcpy(v->note, text, n);
    v->note[n] = '\0';
}

void fl_derive_backend(const struct fl_derive_peer *peers, uint32_t count, struct fl_derived *ret)
{
    struct count c = count_peers(peers, count);
    enum fl_verdict_status status = decide(&c);
    const struct fl_derive_peer *first = c.first[status];
    *ret = (struct fl_derived){.peers_down = ""};
    if (first && first->verdict) {
        ret->verdict = *first->verdict;
    }
    if (status == FL_VERDICT_HEALTHY) {
        write_note(&c, &ret->verdict);
    }
    for (uint32_t i = 0; i < count; i++) { /* as fresh as its freshest peer */
        const struct fl_verdict *v = peers[i].verdict;
        if (!peers[i].down && v && v->at_ms > ret->verdict.at_ms) {
            ret->verdict.at_ms = v->at_ms;
            ret->verdict.at_unix_ms = v->at_unix_ms;
        }
    }
    uint32_t blocked = c.of[FL_VERDICT_UNREACHABLE] + c.of[FL_VERDICT_AUTH_REJECTED];
    if (blocked) {
        struct fl_fmt f = fl_fmt_of(ret->peers_down, sizeof(ret->peers_down));
        fl_fmt_printf(&f, "%u/%u", blocked, c.total);
    }
}
