/* verify_keys - a set of public ed25519 keys, found by keyid (sign_key.h). Filled by one thread,
 * then immutable. An empty set does not touch OpenSSL; the rest leaves its error queue empty. */
#ifndef FL_COMMON_SIGN_VERIFY_KEYS_H
#define FL_COMMON_SIGN_VERIFY_KEYS_H

#include <stdint.h>

#include "common/base/check.h"
#include "common/base/span.h"
#include "common/sign/sign_key.h"

#define FL_VERIFY_KEYS_MAX 8

struct fl_verify_keys;

FL_MUST_USE struct fl_verify_keys *
fl_verify_keys_new(void); /* empty: knows no key; NULL = no memory */
struct fl_verify_keys *
fl_verify_keys_free(struct fl_verify_keys *k); /* accepts NULL, returns NULL */
/* Adds every PUBLIC KEY block of the text; a key that is there already is not added twice. The
 * number of blocks read (> 0), -EINVAL (no block, one that cannot be read, or not ed25519), -ENOSPC
 * (more than FL_VERIFY_KEYS_MAX), -ENOMEM; on an error the set may have grown: throw it away. */
FL_MUST_USE int fl_verify_keys_add_pem(struct fl_verify_keys *k, struct fl_span pem);
unsigned fl_verify_keys_count(const struct fl_verify_keys *k);
const char *fl_verify_keys_id(const struct fl_verify_keys *k, unsigned i);
/* Does sig belong to bytes under the key of that id? 0, -ENOENT (no such key), -EBADMSG (it does
 * not), -ENOMEM. */
FL_MUST_USE int fl_verify_keys_check(const struct fl_verify_keys *k, struct fl_span keyid,
                                     struct fl_span bytes, const uint8_t sig[FL_SIGNATURE_BYTES]);

#endif
