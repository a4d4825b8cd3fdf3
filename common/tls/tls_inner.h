/* tls_inner - what the files of this room know of each other, and of OpenSSL. Nobody outside
 * includes this. */
#ifndef FL_COMMON_TLS_TLS_INNER_H
#define FL_COMMON_TLS_TLS_INNER_H

#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/tls/tls.h"
#include "common/tls/tls_authorities.h"
#include "common/tls/tls_file.h"
#include "common/tls/tls_terms.h"

#define FL_TLS_DIGEST_BYTES 32

struct fl_tls_authorities {
    X509_STORE *store;
    char *ca_file;    /* as was asked for */
    const char *path; /* where it was found: ca_file, or a constant */
    struct fl_tls_stamp stamp;
    unsigned char digest[FL_TLS_DIGEST_BYTES];
    bool by_name; /* ca_file names it: whatever stands there is trusted as it is */
};

/* Sessions that one thread may resume, one for each peer and name. */
struct fl_tls_resumable {
    struct fl_addr addr;
    uint64_t name_hash;
    SSL_SESSION *session;
};

struct fl_tls_sessions {
    struct fl_tls_resumable *slots;
    uint32_t count, next; /* next: the one to go when the table is full */
} __attribute__((aligned(64)));

struct fl_tls_terms {
    _Atomic uint32_t holders;
    uint64_t id;
    SSL_CTX *ssl;
    bool verify;
    char *cert_file, *key_file; /* "" = none */
    struct fl_tls_stamp cert_stamp, key_stamp;
    unsigned char digest[FL_TLS_DIGEST_BYTES]; /* of all that was read */
    unsigned lanes;
    struct fl_tls_sessions *sessions; /* [lanes] */
};

struct fl_tls {
    SSL *ssl;
    struct fl_tls_terms *terms;
    int fd;
    unsigned lane;
    struct fl_addr addr; /* of the peer, with name_hash the key of its session */
    uint64_t name_hash;
    size_t stuck;   /* plain bytes of a record that the kernel took in part, or not at all */
    int recv_errno; /* why the socket gave no more, positive; 0: it still may */
    int send_errno; /* why it takes no more */
    int ended;      /* what every further recv returns, once set (has_ended) */
    bool has_ended;
    bool drained; /* nothing more to read before the next edge */
    bool full;    /* no room to write before the next edge */
    bool at_end;  /* the end was announced: short reads prove nothing */
    bool shaken;  /* the handshake is done */
    bool failed;  /* OpenSSL gave up: only freeing is left */
    bool read_waits_for_room, write_waits_for_bytes;
};

/* tls_terms.c: before any other use of OpenSSL here. False = no memory. */
FL_MUST_USE bool fl_tls_init(void);

/* tls_session.c */
void fl_tls_session_offer(struct fl_tls *t);             /* before the handshake */
int fl_tls_session_take(SSL *ssl, SSL_SESSION *session); /* new_session_cb: 1 keeps it */
void fl_tls_session_forget(struct fl_tls *t);            /* it led to a failure */
void fl_tls_session_done(struct fl_tls_sessions *s);

/* tls_error.c: why the last call on ssl failed, as a positive fault (tls_fault.h) or errno; empties
 * the error queue of the thread. */
int fl_tls_error_of(const SSL *ssl);

/* tls_bio.c */
FL_MUST_USE BIO *fl_tls_bio_new(struct fl_tls *t); /* NULL = no memory */

#endif
