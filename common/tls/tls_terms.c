#include "common/tls/tls_terms.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/cause.h"
#include "common/tls/tls_inner.h"

static _Atomic uint64_t last_id;

/* The texts of OpenSSL's own errors are left out: they are a hundred kilobytes of tables, and
 * nobody reads them here (tls_error has our words). */
bool fl_tls_init(void)
{
    return OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_SSL_STRINGS | OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS,
                            NULL) == 1;
}

/* ---- our own certificate ---- */

/* A key with a passphrase: there is nobody to ask. */
static int no_passphrase(char *into, int cap, int writing, void *arg)
{
    (void)into;
    (void)cap;
    (void)writing;
    (void)arg;
    return 0;
}

struct own_file {
    const char *key, *path;
    char *bytes;
    size_t len;
    BIO *text;
};

static int open_own(struct own_file *f, struct fl_tls_stamp *stamp, struct fl_tls_problem *problem)
{
    int rc = fl_tls_file_read(f->path, &f->bytes, &f->len, stamp);
    if (rc == -ENOMEM) {
        return rc;
    }
    if (rc < 0) {
        return fl_tls_problem_set(problem, f->key, "cannot read %s (%s)", f->path,
                                  fl_cause_errno_text(-rc));
    }
    f->text = BIO_new_mem_buf(f->bytes, (int)f->len);
    return f->text != NULL ? 0 : -ENOMEM;
}

static void close_own(struct own_file *f)
{
    BIO_free(f->text);
    fl_tls_file_wipe(f->bytes, f->len);
    ERR_clear_error();
}

/* The certificate, then those between it and an authority, in the order of the file. */
static int use_chain(SSL_CTX *ssl, struct own_file *f, struct fl_tls_problem *problem)
{
    X509 *cert = PEM_read_bio_X509_AUX(f->text, NULL, no_passphrase, NULL);
    if (cert == NULL) {
        return fl_tls_problem_set(problem, f->key, "%s holds no certificate in PEM", f->path);
    }
    int used = SSL_CTX_use_certificate(ssl, cert);
    X509_free(cert);
    if (used != 1) {
        return fl_tls_problem_set(problem, f->key, "%s: the certificate cannot be used (too weak?)",
                                  f->path);
    }
    for (X509 *more; (more = PEM_read_bio_X509(f->text, NULL, no_passphrase, NULL)) != NULL;) {
        if (SSL_CTX_add0_chain_cert(ssl, more) != 1) {
            X509_free(more);
            return fl_tls_problem_set(problem, f->key,
                                      "%s: a certificate of the chain cannot be "
                                      "used",
                                      f->path);
        }
    }
    return 0;
}

static int use_key(SSL_CTX *ssl, struct own_file *f, const char *cert_file,
                   struct fl_tls_problem *problem)
{
    EVP_PKEY *key = PEM_read_bio_PrivateKey(f->text, NULL, no_passphrase, NULL);
    if (key == NULL) {
        return fl_tls_problem_set(problem, f->key,
                                  "%s holds no private key in PEM (one with a passphrase cannot "
                                  "be used)",
                                  f->path);
    }
    bool ours = SSL_CTX_use_PrivateKey(ssl, key) == 1 && SSL_CTX_check_private_key(ssl) == 1;
    EVP_PKEY_free(key);
    return ours ? 0
                : fl_tls_problem_set(problem, f->key, "%s is not the key of the certificate in %s",
                                     f->path, cert_file);
}

static int load_own(struct fl_tls_terms *t, EVP_MD_CTX *digest, struct fl_tls_problem *problem)
{
    struct own_file cert = {.key = "cert_file", .path = t->cert_file};
    struct own_file key = {.key = "key_file", .path = t->key_file};
    int rc = open_own(&cert, &t->cert_stamp, problem);
    rc = rc == 0 ? open_own(&key, &t->key_stamp, problem) : rc;
    rc = rc == 0 ? use_chain(t->ssl, &cert, problem) : rc;
    rc = rc == 0 ? use_key(t->ssl, &key, t->cert_file, problem) : rc;
    if (rc == 0 && (EVP_DigestUpdate(digest, cert.bytes, cert.len) != 1 ||
                    EVP_DigestUpdate(digest, key.bytes, key.len) != 1)) {
        rc = -ENOMEM;
    }
    close_own(&cert);
    close_own(&key);
    return rc;
}

/* ---- the rest ---- */

static bool set_up(struct fl_tls_terms *t, const struct fl_tls_authorities *a)
{
    SSL_CTX *ssl = t->ssl;
    SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(ssl, 1);
    SSL_CTX_set_default_passwd_cb(ssl, no_passphrase);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ssl, fl_tls_session_take);
    SSL_CTX_set_verify(ssl, t->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    if (SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) != 1) {
        return false;
    }
    if (t->verify) {
        SSL_CTX_set1_cert_store(ssl, a->store);
    }
    if (t->verify && a->by_name) { /* an authority below the root, or the peer's own certificate */
        return X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ssl), X509_V_FLAG_PARTIAL_CHAIN) == 1;
    }
    return true;
}

static int load(struct fl_tls_terms *t, const struct fl_tls_authorities *a,
                struct fl_tls_problem *problem)
{
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    unsigned n = 0;
    int rc = digest != NULL && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;
    if (rc == 0 && t->verify && EVP_DigestUpdate(digest, a->digest, sizeof a->digest) != 1) {
        rc = -ENOMEM;
    }
    if (rc == 0 && t->cert_file[0] != '\0') {
        rc = load_own(t, digest, problem);
    }
    if (rc == 0 && EVP_DigestFinal_ex(digest, t->digest, &n) != 1) {
        rc = -ENOMEM;
    }
    EVP_MD_CTX_free(digest);
    return rc;
}

static void discard(struct fl_tls_terms *t)
{
    for (unsigned i = 0; t->sessions != NULL && i < t->lanes; i++) {
        fl_tls_session_done(&t->sessions[i]);
    }
    SSL_CTX_free(t->ssl);
    free(t->sessions);
    free(t->cert_file);
    free(t->key_file);
    free(t);
}

static bool make_parts(struct fl_tls_terms *t, const struct fl_tls_conf *conf)
{
    size_t bytes = t->lanes * sizeof *t->sessions;
    t->cert_file = strdup(conf->cert_file != NULL ? conf->cert_file : "");
    t->key_file = strdup(conf->key_file != NULL ? conf->key_file : "");
    t->sessions = t->lanes > 0 ? aligned_alloc(_Alignof(struct fl_tls_sessions), bytes) : NULL;
    t->ssl = SSL_CTX_new(TLS_client_method());
    if (t->sessions != NULL) {
        memset(t->sessions, 0, bytes);
    }
    return t->cert_file != NULL && t->key_file != NULL && t->ssl != NULL &&
           (t->lanes == 0 || t->sessions != NULL);
}

int fl_tls_terms_new(const struct fl_tls_conf *conf, const struct fl_tls_authorities *authorities,
                     unsigned lanes, struct fl_tls_problem *problem, struct fl_tls_terms **ret)
{
    FL_MUST(!conf->verify || authorities != NULL);
    struct fl_tls_terms *t = fl_tls_init() ? calloc(1, sizeof *t) : NULL;
    if (t == NULL) {
        return -ENOMEM;
    }
    t->holders = 1;
    t->id = ++last_id;
    t->verify = conf->verify;
    t->lanes = lanes;
    bool made = make_parts(t, conf) && set_up(t, authorities);
    int rc = made ? load(t, authorities, problem) : -ENOMEM;
    ERR_clear_error();
    if (rc < 0) {
        discard(t);
        return rc;
    }
    *ret = t;
    return 0;
}

struct fl_tls_terms *fl_tls_terms_take(struct fl_tls_terms *t)
{
    if (t != NULL) {
        atomic_fetch_add_explicit(&t->holders, 1, memory_order_relaxed);
    }
    return t;
}

void fl_tls_terms_give(struct fl_tls_terms *t)
{
    if (t != NULL && atomic_fetch_sub_explicit(&t->holders, 1, memory_order_acq_rel) == 1) {
        discard(t);
    }
}

bool fl_tls_terms_changed(const struct fl_tls_terms *t)
{
    return fl_tls_file_changed(t->cert_file, &t->cert_stamp) ||
           fl_tls_file_changed(t->key_file, &t->key_stamp);
}

bool fl_tls_terms_same(const struct fl_tls_terms *a, const struct fl_tls_terms *b)
{
    return a->verify == b->verify && memcmp(a->digest, b->digest, sizeof a->digest) == 0;
}

void fl_tls_terms_restamp(struct fl_tls_terms *t, const struct fl_tls_terms *newer)
{
    t->cert_stamp = newer->cert_stamp;
    t->key_stamp = newer->key_stamp;
}
