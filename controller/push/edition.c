#include "controller/push/edition.h"

#include <stdlib.h>

#include "common/codec/state_json.h"

struct fl_edition *fl_edition_new(struct fl_state *s, uint64_t number, int64_t epoch, int64_t seq)
{
    struct fl_edition *e = calloc(1, sizeof(*e));
    size_t len = 0;
    s->epoch = epoch;
    s->seq = seq;
    char *text = e != NULL ? fl_state_json_text(s, &len) : NULL;
    if (text == NULL || fl_content_digest_of((struct fl_span){text, len}, e->digest) < 0) {
        free(text);
        free(e);
        return NULL;
    }
    e->refs = 1;
    e->number = number;
    e->epoch = epoch;
    e->seq = seq;
    e->hash = s->hash;
    e->body = (struct fl_span){text, len};
    return e;
}

struct fl_edition *fl_edition_take(struct fl_edition *e)
{
    e->refs++;
    return e;
}

void fl_edition_give(struct fl_edition **e)
{
    struct fl_edition *gone = *e;
    *e = NULL;
    if (gone != NULL && --gone->refs == 0) {
        free((void *)(uintptr_t)gone->body.ptr); /* ours: the span's const is only a promise */
        free(gone);
    }
}
