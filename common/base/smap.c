#include "common/base/smap.h"

#include <errno.h>
#include <stdlib.h>

/* Open addressing with linear probing; cap is a power of two and at most three quarters full. */
struct fl_smap_slot {
    struct fl_span key;
    void *value; /* NULL: free */
    uint64_t hash;
};

#define CAP_FIRST 8u

static uint64_t rotl(uint64_t v, unsigned by)
{
    return v << by | v >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[0] = rotl(v[0], 32);
    v[2] += v[3];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[2] = rotl(v[2], 32);
}

/* SipHash-1-3 (Aumasson and Bernstein); the second half of the key comes from the first. */
static uint64_t hash_of(uint64_t seed, struct fl_span key)
{
    uint64_t other = seed * 0x9e3779b97f4a7c15u + 1, word = 0;
    uint64_t v[4] = {seed ^ 0x736f6d6570736575u, other ^ 0x646f72616e646f6du,
                     seed ^ 0x6c7967656e657261u, other ^ 0x7465646279746573u};
    size_t i = 0;
    for (; key.len - i >= 8; i += 8) {
        memcpy(&word, key.ptr + i, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    word = (uint64_t)key.len << 56;
    for (unsigned shift = 0; i < key.len; i++, shift += 8) {
        word |= (uint64_t)(uint8_t)key.ptr[i] << shift;
    }
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    sip_round(v);
    sip_round(v);
    sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void fl_smap_init(struct fl_smap *m, uint64_t seed)
{
    *m = (struct fl_smap){.seed = seed};
}

void fl_smap_done(struct fl_smap *m)
{
    free(m->slots);
    *m = (struct fl_smap){.seed = m->seed};
}

/* The slot with the key, or the free one where it would go. The map has slots, and one of them is
 * free. */
static struct fl_smap_slot *find(struct fl_smap_slot *slots, size_t cap, uint64_t hash,
                                 struct fl_span key)
{
    size_t i = (size_t)hash & (cap - 1);
    while (slots[i].value && (slots[i].hash != hash || !fl_span_eq(slots[i].key, key))) {
        i = (i + 1) & (cap - 1);
    }
    return &slots[i];
}

void *fl_smap_get(const struct fl_smap *m, struct fl_span key)
{
    return m->count ? find(m->slots, m->cap, hash_of(m->seed, key), key)->value : NULL;
}

static int grow(struct fl_smap *m)
{
    size_t cap = m->cap ? m->cap * 2 : CAP_FIRST;
    struct fl_smap_slot *slots = calloc(cap, sizeof *slots);
    if (!slots) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < m->cap; i++) {
        if (m->slots[i].value) {
            *find(slots, cap, m->slots[i].hash, m->slots[i].key) = m->slots[i];
        }
    }
    free(m->slots);
    m->slots = slots;
    m->cap = cap;
    return 0;
}

int fl_smap_put(struct fl_smap *m, struct fl_span key, void *value)
{
    FL_MUST(value != NULL);
    uint64_t hash = hash_of(m->seed, key);
    if (m->count && find(m->slots, m->cap, hash, key)->value) {
        return -EEXIST;
    }
    if (m->count + 1 > m->cap / 4 * 3) {
        int err = grow(m);
        if (err) {
            return err;
        }
    }
    *find(m->slots, m->cap, hash, key) = (struct fl_smap_slot){key, value, hash};
    m->count++;
    return 0;
}

void *fl_smap_remove(struct fl_smap *m, struct fl_span key)
{
    if (!m->count) {
        return NULL;
    }
    struct fl_smap_slot *slot = find(m->slots, m->cap, hash_of(m->seed, key), key);
    void *value = slot->value;
    if (!value) {
        return NULL;
    }
    /* Close the gap: move back each later entry of the run that may not stand before its home, so
     * no tombstones are needed and lookups stay short. */
    size_t mask = m->cap - 1, gap = (size_t)(slot - m->slots);
    for (size_t i = (gap + 1) & mask; m->slots[i].value; i = (i + 1) & mask) {
        size_t home = (size_t)m->slots[i].hash & mask;
        if (((i - home) & mask) >= ((i - gap) & mask)) {
            m->slots[gap] = m->slots[i];
            gap = i;
        }
    }
    m->slots[gap] = (struct fl_smap_slot){0};
    m->count--;
    return value;
}

void *fl_smap_next(const struct fl_smap *m, size_t *at, struct fl_span *ret_key)
{
    while (*at < m->cap) {
        const struct fl_smap_slot *slot = &m->slots[(*at)++];
        if (slot->value) {
            if (ret_key) {
                *ret_key = slot->key;
            }
            return slot->value;
        }
    }
    return NULL;
}
