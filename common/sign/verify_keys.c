#include "common/sign/verify_keys.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdlib.h>

#include "common/sign/pem.h"

struct fl_verify_keys {
    unsigned count;
    struct {
        EVP_PKEY *key;
        char id[FL_KEYID_TEXT];
    } items[FL_VERIFY_KEYS_MAX];
};

struct fl_verify_keys *fl_verify_keys_new(void)
{
    return calloc(1, sizeof(struct fl_verify_keys));
}

struct fl_verify_keys *fl_verify_keys_free(struct fl_verify_keys *k)
{
    if (k != NULL) {
        for (unsigned i = 0; i < k->count; i++) {
            EVP_PKEY_free(k->items[i].key);
        }
        free(k);
    }
    return NULL;
}

static ptrdiff_t find_key(const struct fl_verify_keys *k, struct fl_span keyid)
{
    for (unsigned i = 0; i < k->count; i++) {
        if (fl_span_is(keyid, k->items[i].id)) {
            return (ptrdiff_t)i;
        }
    }
    return -1;
}

static int take_public(void *arg, const uint8_t *der, long len)
{
    struct fl_verify_keys *k = arg;
    const unsigned char *at = der;
    EVP_PKEY *key = d2i_PUBKEY(NULL, &at, len);
    if (key == NULL || at != der + len || EVP_PKEY_get_id(key) != EVP_PKEY_ED25519) {
        EVP_PKEY_free(key);
        return fl_pem_failed(-EINVAL);
    }
    char id[FL_KEYID_TEXT];
    int rc = fl_pem_key_id(key, id);
    if (rc == 0 && find_key(k, fl_span_of(id)) < 0) {
        if (k->count < FL_VERIFY_KEYS_MAX) {
            k->items[k->count].key = key;
            memcpy(k->items[k->count].id, id, sizeof(id));
            k->count++;
            return 0;
        }
        rc = -ENOSPC;
    }
    EVP_PKEY_free(key);
    return rc;
}

int fl_verify_keys_add_pem(struct fl_verify_keys *k, struct fl_span pem)
{
    return fl_pem_each(pem, "PUBLIC KEY", take_public, k);
}

unsigned fl_verify_keys_count(const struct fl_verify_keys *k)
{
    return k->count;
}

const char *fl_verify_keys_id(const struct fl_verify_keys *k, unsigned i)
{
    FL_MUST(i < k->count);
    return k->items[i].id;
}

int fl_verify_keys_check(const struct fl_verify_keys *k, struct fl_span keyid, struct fl_span bytes,
                         const uint8_t sig[FL_SIGNATURE_BYTES])
{
    ptrdiff_t i = find_key(k, keyid);
    if (i < 0) {
        return -ENOENT;
    }
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (ctx == NULL || EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, k->items[i].key) != 1) {
        EVP_MD_CTX_free(ctx);
        fl_pem_failed(0);
        return -ENOMEM;
    }
    int good =
        EVP_DigestVerify(ctx, sig, FL_SIGNATURE_BYTES, (const unsigned char *)bytes.ptr, bytes.len);
    EVP_MD_CTX_free(ctx);
    fl_pem_failed(0);
    return good == 1 ? 0 : -EBADMSG;
}
