/* sign_key - a private ed25519 key, and the signatures it makes. Immutable, and any thread may
 * sign; references are counted, and all taken and freed on one thread. OpenSSL is touched here, and
 * its error queue is left empty. */
#ifndef FL_COMMON_SIGN_SIGN_KEY_H
#define FL_COMMON_SIGN_SIGN_KEY_H

#include <stdint.h>

#include "common/base/check.h"
#include "common/base/fmt.h"
#include "common/base/span.h"

#define FL_KEYID_TEXT                                                                              \
    17 /* first 16 hex digits of SHA-256 over the DER SubjectPublicKeyInfo + NUL */
#define FL_SIGNATURE_BYTES 64

struct fl_sign_key;

/* From a PEM text (PKCS #8, not encrypted). 0, -EINVAL (no PEM, or not ed25519), -ENOMEM. */
FL_MUST_USE int fl_sign_key_new(struct fl_span pem, struct fl_sign_key **ret);
struct fl_sign_key *fl_sign_key_take(struct fl_sign_key *k); /* one more reference; returns k */
struct fl_sign_key *fl_sign_key_free(struct fl_sign_key *k); /* accepts NULL, returns NULL */
const char *fl_sign_key_id(const struct fl_sign_key *k);
/* The public half as PEM (for bootstrap and `keys`). 0, -ENOSPC, -ENOMEM. */
FL_MUST_USE int fl_sign_key_public_pem(const struct fl_sign_key *k, struct fl_fmt *ret);
/* A signature over any bytes. 0 or -ENOMEM. */
FL_MUST_USE int fl_sign_key_sign(const struct fl_sign_key *k, struct fl_span bytes,
                                 uint8_t ret[FL_SIGNATURE_BYTES]);

#endif
