#include "common/sign/pem.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/base64.h"
#include "common/sign/content_digest.h"

int fl_pem_failed(int rc)
{
    ERR_clear_error();
    return rc;
}

int fl_pem_key_id(EVP_PKEY *key, char ret[FL_KEYID_TEXT])
{
    unsigned char *der = NULL;
    int n = i2d_PUBKEY(key, &der);
    if (n <= 0) {
        return fl_pem_failed(-ENOMEM);
    }
    uint8_t sum[FL_SHA256_BYTES];
    int rc = fl_content_digest_sha256((struct fl_span){(const char *)der, (size_t)n}, sum);
    OPENSSL_free(der);
    if (rc == 0) {
        struct fl_fmt f = fl_fmt_of(ret, FL_KEYID_TEXT);
        fl_hex_encode(&f, sum, (FL_KEYID_TEXT - 1) / 2);
    }
    return rc;
}

/* Reads one block; 1, 0 at the end of the text, -errno. */
static int next_block(BIO *in, const char *label, fl_pem_block_fn *each, void *arg)
{
    char *name = NULL, *header = NULL;
    unsigned char *der = NULL;
    long len = 0;
    if (PEM_read_bio(in, &name, &header, &der, &len) != 1) {
        unsigned long why = ERR_peek_last_error();
        bool end = ERR_GET_LIB(why) == ERR_LIB_PEM && ERR_GET_REASON(why) == PEM_R_NO_START_LINE;
        return fl_pem_failed(end ? 0 : -EINVAL);
    }
    /* a header means an encrypted block of the old kind */
    int rc = strcmp(name, label) == 0 && header[0] == '\0' ? each(arg, der, len) : -EINVAL;
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_clear_free(der, len > 0 ? (size_t)len : 0);
    return rc < 0 ? rc : 1;
}

int fl_pem_each(struct fl_span text, const char *label, fl_pem_block_fn *each, void *arg)
{
    if (text.len == 0 || text.len > FL_PEM_MAX_BYTES) {
        return -EINVAL;
    }
    BIO *in = BIO_new_mem_buf(text.ptr, (int)text.len);
    if (in == NULL) {
        return fl_pem_failed(-ENOMEM);
    }
    int blocks = 0, rc;
    while ((rc = next_block(in, label, each, arg)) > 0) {
        blocks++;
    }
    BIO_free(in);
    return rc < 0 ? rc : (blocks > 0 ? blocks : -EINVAL);
}
