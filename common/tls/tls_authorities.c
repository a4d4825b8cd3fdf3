#include "common/tls/tls_authorities.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/cause.h"
#include "common/tls/tls_inner.h"

/* Where distributions keep their bundle. The folder of hashed links, OpenSSL's other way, is not
 * used: it is read during a handshake, by a data thread. */
static const char *const system_bundles[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
};

static int read_system(struct fl_tls_authorities *a, char **bytes, size_t *len)
{
    for (size_t i = 0; i < FL_COUNTOF(system_bundles); i++) {
        a->path = system_bundles[i];
        if (fl_tls_file_read(a->path, bytes, len, &a->stamp) == 0) {
            return 0;
        }
    }
    return -ENOENT;
}

/* Every certificate of the text; how many, or -EINVAL at one that cannot be parsed. */
static int add_all(X509_STORE *store, BIO *text)
{
    int count = 0;
    for (X509 *cert; (cert = PEM_read_bio_X509_AUX(text, NULL, NULL, NULL)) != NULL; count++) {
        int added = X509_STORE_add_cert(store, cert);
        X509_free(cert);
        if (added != 1) {
            return -ENOMEM;
        }
    }
    unsigned long why = ERR_peek_last_error();
    bool at_end = ERR_GET_LIB(why) == ERR_LIB_PEM && ERR_GET_REASON(why) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    return at_end ? count : -EINVAL;
}

static int parse(struct fl_tls_authorities *a, const char *bytes, size_t len,
                 struct fl_tls_problem *problem)
{
    a->store = X509_STORE_new();
    BIO *text = BIO_new_mem_buf(bytes, (int)len); /* at most 8 MiB */
    if (a->store == NULL || text == NULL) {
        BIO_free(text);
        return -ENOMEM;
    }
    int count = add_all(a->store, text);
    BIO_free(text);
    if (count == -EINVAL) {
        return fl_tls_problem_set(problem, "ca_file", "%s holds a certificate that is damaged",
                                  a->path);
    }
    if (count == 0) {
        return fl_tls_problem_set(problem, "ca_file", "%s holds no certificate in PEM", a->path);
    }
    unsigned n = 0;
    bool hashed = count > 0 && EVP_Digest(bytes, len, a->digest, &n, EVP_sha256(), NULL) == 1;
    return hashed ? 0 : -ENOMEM;
}

static int load(struct fl_tls_authorities *a, struct fl_tls_problem *problem)
{
    char *bytes = NULL;
    size_t len = 0;
    int rc = 0;
    if (a->by_name) {
        a->path = a->ca_file;
        rc = fl_tls_file_read(a->path, &bytes, &len, &a->stamp);
    } else {
        rc = read_system(a, &bytes, &len);
    }
    if (rc == -ENOMEM) {
        return rc;
    }
    if (rc < 0 && !a->by_name) {
        return fl_tls_problem_set(problem, "ca_file",
                                  "is not set, and the system has no bundle of authorities (such "
                                  "as %s)",
                                  system_bundles[0]);
    }
    if (rc < 0) {
        return fl_tls_problem_set(problem, "ca_file", "cannot read %s (%s)", a->path,
                                  fl_cause_errno_text(-rc));
    }
    rc = parse(a, bytes, len, problem);
    fl_tls_file_wipe(bytes, len);
    return rc;
}

int fl_tls_authorities_new(const char *ca_file, struct fl_tls_problem *problem,
                           struct fl_tls_authorities **ret)
{
    struct fl_tls_authorities *a = fl_tls_init() ? calloc(1, sizeof *a) : NULL;
    if (a == NULL) {
        return -ENOMEM;
    }
    a->ca_file = strdup(ca_file);
    a->by_name = ca_file[0] != '\0';
    int rc = a->ca_file != NULL ? load(a, problem) : -ENOMEM;
    if (rc < 0) {
        fl_tls_authorities_free(a);
        return rc;
    }
    *ret = a;
    return 0;
}

struct fl_tls_authorities *fl_tls_authorities_free(struct fl_tls_authorities *a)
{
    if (a != NULL) {
        X509_STORE_free(a->store);
        free(a->ca_file);
        free(a);
    }
    return NULL;
}

bool fl_tls_authorities_changed(const struct fl_tls_authorities *a)
{
    return fl_tls_file_changed(a->path, &a->stamp);
}

const char *fl_tls_authorities_file(const struct fl_tls_authorities *a)
{
    return a->ca_file;
}
