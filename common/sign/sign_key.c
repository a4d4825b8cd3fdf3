#include "common/sign/sign_key.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>

#include "common/sign/pem.h"

struct fl_sign_key {
    unsigned refs;
    EVP_PKEY *key;
    char id[FL_KEYID_TEXT];
};

static int take_private(void *arg, const uint8_t *der, long len)
{
    struct fl_sign_key *k = arg;
    const unsigned char *at = der;
    EVP_PKEY *key = d2i_AutoPrivateKey(NULL, &at, len);
    if (key == NULL || k->key != NULL || EVP_PKEY_get_id(key) != EVP_PKEY_ED25519) {
        EVP_PKEY_free(key);
        return fl_pem_failed(-EINVAL);
    }
    k->key = key;
    return fl_pem_key_id(key, k->id);
}

int fl_sign_key_new(struct fl_span pem, struct fl_sign_key **ret)
{
    struct fl_sign_key *k = calloc(1, sizeof(*k));
    if (k == NULL) {
        return -ENOMEM;
    }
    k->refs = 1;
    int rc = fl_pem_each(pem, "PRIVATE KEY", take_private, k);
    if (rc < 0) {
        fl_sign_key_free(k);
        return rc;
    }
    *ret = k;
    return 0;
}

struct fl_sign_key *fl_sign_key_take(struct fl_sign_key *k)
{
    k->refs++;
    return k;
}

struct fl_sign_key *fl_sign_key_free(struct fl_sign_key *k)
{
    if (k != NULL && --k->refs == 0) {
        EVP_PKEY_free(k->key);
        free(k);
    }
    return NULL;
}

const char *fl_sign_key_id(const struct fl_sign_key *k)
{
    return k->id;
}

int fl_sign_key_public_pem(const struct fl_sign_key *k, struct fl_fmt *ret)
{
    BIO *out = BIO_new(BIO_s_mem());
    char *text = NULL;
    if (out == NULL || PEM_write_bio_PUBKEY(out, k->key) != 1) {
        BIO_free(out);
        return fl_pem_failed(-ENOMEM);
    }
    long n = BIO_get_mem_data(out, &text);
    fl_fmt_span(ret, (struct fl_span){text, n > 0 ? (size_t)n : 0});
    BIO_free(out);
    return ret->cut ? -ENOSPC : 0;
}

int fl_sign_key_sign(const struct fl_sign_key *k, struct fl_span bytes,
                     uint8_t ret[FL_SIGNATURE_BYTES])
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    size_t n = FL_SIGNATURE_BYTES;
    bool good = ctx != NULL && EVP_DigestSignInit(ctx, NULL, NULL, NULL, k->key) == 1 &&
                EVP_DigestSign(ctx, ret, &n, (const unsigned char *)bytes.ptr, bytes.len) == 1 &&
                n == FL_SIGNATURE_BYTES;
    EVP_MD_CTX_free(ctx);
    return good ? 0 : fl_pem_failed(-ENOMEM);
}
