/* key_ring - the keys that sign pushes: the newest, and the last ones before it for sidecars that
 * do not know the newest yet. A key is named by its serial, which rises. One thread. */
#ifndef FL_CONTROLLER_PUSH_KEY_RING_H
#define FL_CONTROLLER_PUSH_KEY_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/model/config.h"
#include "common/sign/sign_key.h"

#define FL_KEYS_HELD   3
#define FL_KEY_PEM_MAX 256

struct fl_held_key {
    struct fl_sign_key *key;
    uint64_t serial;
    char pem[FL_KEY_PEM_MAX]; /* its public half */
};

struct fl_key_ring {                       /* zeroed: empty */
    struct fl_held_key held[FL_KEYS_HELD]; /* newest first */
    unsigned count;
    uint64_t serial;
    bool teaching; /* sidecars are learning the newest */
    bool taught;   /* … have learnt it: it alone is theirs now */
    const char *texts[FL_KEYS_HELD];
};

void fl_key_ring_done(struct fl_key_ring *r);
/* Takes the key over, *key becomes NULL. 1: it replaces another as the newest, and teaching begins;
 * 0: it is the first, or the newest already; -ENOMEM: nothing has changed. */
FL_MUST_USE int fl_key_ring_add(struct fl_key_ring *r, struct fl_sign_key **key);
void fl_key_ring_end_teaching(struct fl_key_ring *r);
uint64_t fl_key_ring_newest(const struct fl_key_ring *r); /* 0: there is none */
/* Of the key for a sidecar of which nothing is known: while teaching, the one before the newest. */
uint64_t fl_key_ring_first(const struct fl_key_ring *r);
uint64_t fl_key_ring_older(const struct fl_key_ring *r,
                           uint64_t serial); /* after the last: newest */
/* NULL: the ring is empty. A serial that is not held any more: the oldest. */
struct fl_sign_key *fl_key_ring_get(const struct fl_key_ring *r, uint64_t serial);
/* What a state carries as `keys`: all while teaching, the newest alone once it was taught, nothing
 * before. Lives until the next change of the ring. */
struct fl_strings fl_key_ring_texts(struct fl_key_ring *r);

#endif
