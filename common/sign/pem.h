/* pem - PEM texts and key ids, for the two key modules only. */
#ifndef FL_COMMON_SIGN_PEM_H
#define FL_COMMON_SIGN_PEM_H

#include <openssl/evp.h>
#include <stdint.h>

#include "common/base/span.h"
#include "common/sign/sign_key.h"

#define FL_PEM_MAX_BYTES 65536

/* Walks the blocks of a text whose label is exactly `label`; blocks of another kind are an error,
 * so that a private key given for a public one is noticed. each takes one block's DER: 0 to go on.
 * Number of blocks, or -EINVAL (none, broken, of another kind), -ENOMEM, or what each returned.
 * Deliberately not the library's decoders: they read many forms. */
typedef int fl_pem_block_fn(void *arg, const uint8_t *der, long len);
int fl_pem_each(struct fl_span text, const char *label, fl_pem_block_fn *each, void *arg);
int fl_pem_key_id(EVP_PKEY *key, char ret[FL_KEYID_TEXT]); /* 0 or -ENOMEM */
/* The library's error queue is per thread and read by nobody: every failure empties it. Returns rc.
 */
int fl_pem_failed(int rc);

#endif
