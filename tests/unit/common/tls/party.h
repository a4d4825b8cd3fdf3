/* party - what TLS needs on the other side of a test: authorities and certificates made on the
 * spot, and a server of OpenSSL whose bytes pass through the test's hands. Included once per test
 * binary; it also defines fl_sock_recv and fl_sock_sendv, so that nothing but the test decides how
 * much the "kernel" gives and takes. */
#ifndef FL_TESTS_UNIT_COMMON_TLS_PARTY_H
#define FL_TESTS_UNIT_COMMON_TLS_PARTY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include "common/io/sock.h"
#include "common/model/tls_fault.h"
#include "common/tls/tls.h"
#include "common/tls/tls_terms.h"

/* ---- certificates ---- */

struct party {
    EVP_PKEY *key;
    X509 *cert;
};

struct wish {
    const char *name;       /* of the subject */
    const char *also;       /* "DNS:a.example,IP:10.0.0.1"; NULL: no such extension */
    const struct party *by; /* NULL: signs itself */
    bool authority;
    long from_s, until_s; /* from now; both 0: an hour around it */
};

static inline void extend(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX x;
    X509V3_set_ctx(&x, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &x, nid, value);
    assert_non_null(e);
    assert_int_equal(X509_add_ext(cert, e, -1), 1);
    X509_EXTENSION_free(e);
}

static inline struct party party_make(struct wish w)
{
    static long serial = 1000;
    struct party p = {EVP_EC_gen("P-256"), X509_new()};
    assert_non_null(p.key);
    X509_set_version(p.cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(p.cert), ++serial);
    bool usual = w.from_s == 0 && w.until_s == 0;
    X509_gmtime_adj(X509_getm_notBefore(p.cert), usual ? -3600 : w.from_s);
    X509_gmtime_adj(X509_getm_notAfter(p.cert), usual ? 3600 : w.until_s);
    X509_NAME *subject = X509_get_subject_name(p.cert);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)w.name, -1, -1,
                               0);
    X509 *issuer = w.by != NULL ? w.by->cert : p.cert;
    X509_set_issuer_name(p.cert, X509_get_subject_name(issuer));
    X509_set_pubkey(p.cert, p.key);
    extend(p.cert, issuer, NID_basic_constraints, w.authority ? "critical,CA:TRUE" : "CA:FALSE");
    if (w.also != NULL) {
        extend(p.cert, issuer, NID_subject_alt_name, w.also);
    }
    assert_true(X509_sign(p.cert, w.by != NULL ? w.by->key : p.key, EVP_sha256()) > 0);
    return p;
}

static inline void party_free(struct party *p)
{
    EVP_PKEY_free(p->key);
    X509_free(p->cert);
}

/* ---- files ---- */

static char folder[64];

static inline const char *path_of(const char *name)
{
    static char paths[64][128];
    static unsigned turn;
    char *p = paths[turn++ % 64];
    snprintf(p, sizeof paths[0], "%s/%s", folder, name);
    return p;
}

static inline void files_begin(void)
{
    snprintf(folder, sizeof folder, "/tmp/fl-tls-XXXXXX");
    assert_non_null(mkdtemp(folder));
}

static inline void files_end(const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unlink(path_of(names[i]));
    }
    assert_int_equal(rmdir(folder), 0);
}

static inline void write_text(const char *name, const char *text)
{
    FILE *f = fopen(path_of(name), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

static inline void write_certs(const char *name, const struct party *const *parties, size_t n)
{
    FILE *f = fopen(path_of(name), "w");
    assert_non_null(f);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(PEM_write_X509(f, parties[i]->cert), 1);
    }
    fclose(f);
}

static inline void write_cert(const char *name, const struct party *p)
{
    write_certs(name, &p, 1);
}

static inline void write_key(const char *name, const struct party *p, const char *passphrase)
{
    FILE *f = fopen(path_of(name), "w");
    assert_non_null(f);
    size_t n = passphrase != NULL ? strlen(passphrase) : 0;
    assert_int_equal(PEM_write_PrivateKey(f, p->key, n > 0 ? EVP_aes_128_cbc() : NULL,
                                          n > 0 ? (const unsigned char *)passphrase : NULL, (int)n,
                                          NULL, NULL),
                     1);
    fclose(f);
}

static inline struct fl_tls_terms *terms_of(struct fl_tls_conf conf, unsigned lanes)
{
    struct fl_tls_problem problem = {.key = ""};
    struct fl_tls_authorities *a = NULL;
    struct fl_tls_terms *t = NULL;
    conf.on = true;
    if (conf.verify) {
        assert_int_equal(fl_tls_authorities_new(conf.ca_file, &problem, &a), 0);
    }
    int rc = fl_tls_terms_new(&conf, a, lanes, &problem, &t);
    if (rc != 0) {
        fail_msg("%s: %s", problem.key, problem.text);
    }
    fl_tls_authorities_free(a); /* terms keep what they need */
    return t;
}

/* ---- a connection whose wire is two buffers ---- */

struct wire {
    unsigned char *bytes;
    size_t start, end, cap;
    bool ended; /* after the bytes: EOF */
    int broken; /* after the bytes: this errno */
};

static struct line { /* the one that is under test */
    struct wire to_client, to_server;
    size_t recv_at_most, send_at_most; /* per call; 0 = no limit */
    size_t room;                       /* of the client's send buffer; SIZE_MAX: no limit */
    unsigned recvs, sends;             /* calls that asked the "kernel" */
    bool edge;                         /* an event is due */
    int send_errno;
} line;

static inline void wire_put(struct wire *w, const void *bytes, size_t n)
{
    if (n == 0) {
        return;
    }
    if (w->start == w->end) {
        w->start = w->end = 0;
    }
    if (w->end + n > w->cap) {
        w->cap = (w->end + n) * 2;
        w->bytes = realloc(w->bytes, w->cap);
        assert_non_null(w->bytes);
    }
    memcpy(w->bytes + w->end, bytes, n);
    w->end += n;
}

static inline void line_reset(void)
{
    free(line.to_client.bytes);
    free(line.to_server.bytes);
    line = (struct line){.room = SIZE_MAX};
}

ssize_t fl_sock_recv(int fd, void *into, size_t n)
{
    struct wire *w = &line.to_client;
    (void)fd;
    line.recvs++;
    size_t have = w->end - w->start;
    if (have == 0) {
        return w->broken != 0 ? -w->broken : w->ended ? 0 : -EAGAIN;
    }
    n = n < have ? n : have;
    n = line.recv_at_most != 0 && line.recv_at_most < n ? line.recv_at_most : n;
    memcpy(into, w->bytes + w->start, n);
    w->start += n;
    return (ssize_t)n;
}

ssize_t fl_sock_sendv(int fd, const struct iovec *iov, int count)
{
    size_t sent = 0;
    (void)fd;
    line.sends++;
    if (line.send_errno != 0) {
        return -line.send_errno;
    }
    size_t limit =
        line.send_at_most != 0 && line.send_at_most < line.room ? line.send_at_most : line.room;
    for (int i = 0; i < count && sent < limit; i++) {
        size_t n = iov[i].iov_len < limit - sent ? iov[i].iov_len : limit - sent;
        wire_put(&line.to_server, iov[i].iov_base, n);
        sent += n;
    }
    line.room -= line.room == SIZE_MAX ? 0 : sent;
    return sent > 0 ? (ssize_t)sent : -EAGAIN;
}

/* ---- the server ---- */

struct server {
    SSL_CTX *ssl_ctx;
    SSL *ssl;
    BIO *in, *out;
};

static inline void server_setup(struct server *s, const struct party *p)
{
    *s = (struct server){.ssl_ctx = SSL_CTX_new(TLS_server_method())};
    assert_int_equal(SSL_CTX_use_certificate(s->ssl_ctx, p->cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(s->ssl_ctx, p->key), 1);
    SSL_CTX_set_session_id_context(s->ssl_ctx, (const unsigned char *)"t", 1);
}

static inline void server_begin(struct server *s) /* a new connection */
{
    SSL_free(s->ssl);
    s->ssl = SSL_new(s->ssl_ctx);
    s->in = BIO_new(BIO_s_mem());
    s->out = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(s->in, -1);
    SSL_set_bio(s->ssl, s->in, s->out);
    SSL_set_accept_state(s->ssl);
    line_reset();
}

static inline void server_end(struct server *s)
{
    SSL_free(s->ssl);
    SSL_CTX_free(s->ssl_ctx);
    *s = (struct server){.ssl = NULL};
    line_reset();
}

/* What the client sent reaches the server, and its answers the wire; true: something moved. */
static inline bool server_pump(struct server *s)
{
    struct wire *w = &line.to_server;
    char bytes[4096];
    bool moved = w->start < w->end;
    if (moved) {
        BIO_write(s->in, w->bytes + w->start, (int)(w->end - w->start));
        line.room += line.room == SIZE_MAX ? 0 : w->end - w->start;
        w->start = w->end;
        line.edge = true; /* there is room again */
    }
    if (!SSL_is_init_finished(s->ssl)) {
        (void)SSL_do_handshake(s->ssl);
    }
    for (int n; (n = BIO_read(s->out, bytes, sizeof bytes)) > 0;) {
        wire_put(&line.to_client, bytes, (size_t)n);
        line.edge = moved = true;
    }
    return moved;
}

/* Both sides until neither moves. What the client's handshake ends with. */
static inline int shake(struct server *s, struct fl_tls *t)
{
    for (int i = 0; i < 10000; i++) {
        int rc = fl_tls_handshake(t);
        bool moved = server_pump(s);
        if (rc != -EAGAIN) {
            return rc;
        }
        if (!moved && !line.edge && !line.to_client.ended && line.to_client.broken == 0) {
            return -EAGAIN;
        }
        line.edge = false;
        fl_tls_edge(t, line.to_client.ended || line.to_client.broken != 0);
    }
    fail_msg("the handshake does not end");
    return 0;
}

static const struct fl_addr server_addr = {.family = FL_ADDR_V4, .port = 9000, .ip = {10, 0, 0, 1}};

static inline struct fl_tls *client(struct fl_tls_terms *terms, const char *name, unsigned lane)
{
    struct fl_tls *t = NULL;
    const struct fl_tls_peer peer = {&server_addr, name, lane};
    assert_int_equal(fl_tls_open(terms, 7, &peer, &t), 0);
    return t;
}

#endif
