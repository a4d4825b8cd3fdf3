#include "controller/push/key_ring.h"

#include <errno.h>
#include <string.h>

void fl_key_ring_done(struct fl_key_ring *r)
{
    for (unsigned i = 0; i < r->count; i++) {
        fl_sign_key_free(r->held[i].key);
    }
    *r = (struct fl_key_ring){0};
}

/* Where a key of this id is held; count: nowhere. */
static unsigned find(const struct fl_key_ring *r, const char *id)
{
    unsigned i = 0;
    while (i < r->count && strcmp(fl_sign_key_id(r->held[i].key), id) != 0) {
        i++;
    }
    return i;
}

static unsigned place_of(const struct fl_key_ring *r, uint64_t serial)
{
    unsigned i = 0;
    while (i + 1 < r->count && r->held[i].serial != serial) {
        i++;
    }
    return i;
}

/* The front becomes free: what stood at `gone` is freed. */
static void shift(struct fl_key_ring *r, unsigned gone)
{
    if (gone == r->count && r->count < FL_KEYS_HELD) {
        r->count++;
    } else {
        gone = gone < r->count ? gone : r->count - 1;
        fl_sign_key_free(r->held[gone].key);
    }
    memmove(&r->held[1], &r->held[0], gone * sizeof(r->held[0]));
}

int fl_key_ring_add(struct fl_key_ring *r, struct fl_sign_key **key)
{
    struct fl_held_key fresh = {.key = *key, .serial = r->serial + 1};
    struct fl_fmt pem = fl_fmt_of(fresh.pem, sizeof(fresh.pem));
    unsigned at = find(r, fl_sign_key_id(*key));
    bool other = r->count > 0 && at != 0;
    *key = NULL;
    if ((r->count > 0 && at == 0) || fl_sign_key_public_pem(fresh.key, &pem) < 0) {
        fl_sign_key_free(fresh.key);
        return r->count > 0 && at == 0 ? 0 : -ENOMEM;
    }
    shift(r, at);
    r->held[0] = fresh;
    r->serial++;
    r->teaching = other;
    r->taught = false;
    return other ? 1 : 0;
}

void fl_key_ring_end_teaching(struct fl_key_ring *r)
{
    r->teaching = false;
    r->taught = true;
}

uint64_t fl_key_ring_newest(const struct fl_key_ring *r)
{
    return r->count > 0 ? r->held[0].serial : 0;
}

uint64_t fl_key_ring_first(const struct fl_key_ring *r)
{
    return r->teaching ? r->held[1].serial : fl_key_ring_newest(r);
}

uint64_t fl_key_ring_older(const struct fl_key_ring *r, uint64_t serial)
{
    return r->count > 0 ? r->held[(place_of(r, serial) + 1) % r->count].serial : 0;
}

struct fl_sign_key *fl_key_ring_get(const struct fl_key_ring *r, uint64_t serial)
{
    return r->count > 0 ? r->held[place_of(r, serial)].key : NULL;
}

struct fl_strings fl_key_ring_texts(struct fl_key_ring *r)
{
    uint32_t n = r->teaching ? r->count : r->taught ? 1 : 0;
    for (uint32_t i = 0; i < n; i++) {
        r->texts[i] = r->held[i].pem;
    }
    return (struct fl_strings){r->texts, n};
}
