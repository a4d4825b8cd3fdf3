#include "common/tls/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fmt.h"
#include "common/model/tls_fault.h"
#include "common/tls/tls_inner.h"

enum { RECORD_BYTES = SSL3_RT_MAX_PLAIN_LENGTH, NAME_MAX_BYTES = 256 };

/* Small slices are put together here for one record. A thread's own, since it is done with before
 * the call returns. */
static _Thread_local char scratch[RECORD_BYTES];

/* ---- opening ---- */

/* A name as it is sent and compared: without the dot of an absolute one. False: it is too long, or
 * an address. */
static bool host_name(const char *name, char ret[NAME_MAX_BYTES])
{
    size_t n = strlen(name);
    n -= n > 0 && name[n - 1] == '.';
    if (n == 0 || n >= NAME_MAX_BYTES) {
        return false;
    }
    memcpy(ret, name, n);
    ret[n] = '\0';
    ASN1_OCTET_STRING *address = a2i_IPADDRESS(ret);
    ASN1_OCTET_STRING_free(address);
    return address == NULL;
}

/* Without a name the peer's address must be in the certificate. */
static bool expect_address(SSL *ssl, const char *name, const struct fl_addr *addr)
{
    char text[NAME_MAX_BYTES];
    struct fl_fmt f = fl_fmt_of(text, sizeof text);
    if (name[0] != '\0') {
        fl_fmt_text(&f, name);
    } else {
        fl_addr_print_ip(addr, &f);
    }
    return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), text) == 1;
}

static bool expect(SSL *ssl, const char *name, const struct fl_addr *addr, bool verify)
{
    char host[NAME_MAX_BYTES];
    bool is_name = host_name(name, host);
    if (is_name && SSL_set_tlsext_host_name(ssl, host) != 1) {
        return false;
    }
    if (!verify) {
        return true;
    }
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return is_name ? SSL_set1_host(ssl, host) == 1 : expect_address(ssl, name, addr);
}

static uint64_t hash_name(const char *name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (; *name != '\0'; name++) {
        h = (h ^ (uint8_t)fl_ascii_lower(*name)) * UINT64_C(0x100000001b3);
    }
    return h;
}

uint64_t fl_tls_terms_proof(const struct fl_tls_terms *t, const char *name)
{
    uint64_t h = (hash_name(name != NULL ? name : "") ^ t->id) * UINT64_C(0x9e3779b97f4a7c15);
    return h != 0 ? h : 1;
}

int fl_tls_open(struct fl_tls_terms *terms, int fd, const struct fl_tls_peer *peer,
                struct fl_tls **ret)
{
    const char *name = peer->name != NULL ? peer->name : "";
    FL_MUST(peer->lane == FL_TLS_NO_LANE || peer->lane < terms->lanes);
    struct fl_tls *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return -ENOMEM;
    }
    t->terms = fl_tls_terms_take(terms);
    t->fd = fd;
    t->lane = peer->lane;
    t->addr = *peer->addr;
    t->name_hash = hash_name(name);
    t->ssl = SSL_new(terms->ssl);
    BIO *socket = t->ssl != NULL ? fl_tls_bio_new(t) : NULL;
    if (socket == NULL) {
        fl_tls_close(&t);
        return -ENOMEM;
    }
    SSL_set_bio(t->ssl, socket, socket);
    if (SSL_set_app_data(t->ssl, t) != 1 || !expect(t->ssl, name, peer->addr, terms->verify)) {
        fl_tls_close(&t);
        ERR_clear_error();
        return -ENOMEM;
    }
    SSL_set_connect_state(t->ssl);
    fl_tls_session_offer(t);
    *ret = t;
    return 0;
}

void fl_tls_edge(struct fl_tls *t, bool at_end)
{
    t->drained = false;
    t->full = false;
    t->at_end = t->at_end || at_end;
}

/* ---- what a call that did not succeed means ---- */

/* -EAGAIN, 0 for an end in good order, -errno or -fault. writing: it was a write. */
static int explain(struct fl_tls *t, int rc, bool writing)
{
    switch (SSL_get_error(t->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
        t->write_waits_for_bytes = t->write_waits_for_bytes || writing;
        return -EAGAIN;
    case SSL_ERROR_WANT_WRITE:
        t->read_waits_for_room = t->read_waits_for_room || !writing;
        return t->send_errno != 0 ? -t->send_errno : -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        if (t->recv_errno != 0) {
            return -t->recv_errno;
        }
        break;
    default:
        break;
    }
    t->failed = true;
    return -fl_tls_error_of(t->ssl);
}

int fl_tls_handshake(struct fl_tls *t)
{
    ERR_clear_error();
    int rc = SSL_do_handshake(t->ssl);
    if (rc == 1) {
        t->shaken = true;
        t->read_waits_for_room = t->write_waits_for_bytes = false;
        return 0;
    }
    int why = explain(t, rc, false);
    if (why != -EAGAIN) {
        fl_tls_session_forget(t);
    }
    return why == 0 || why == -FL_TLS_CUT ? -FL_TLS_CLOSED : why;
}

/* ---- bytes ---- */

ssize_t fl_tls_recv(struct fl_tls *t, void *into, size_t n)
{
    size_t got = 0;
    int why = -EAGAIN;
    t->read_waits_for_room = false;
    while (got < n && !t->has_ended) {
        size_t piece = 0;
        ERR_clear_error();
        int rc = SSL_read_ex(t->ssl, (char *)into + got, n - got, &piece);
        if (rc == 1) {
            got += piece;
            continue;
        }
        why = explain(t, rc, false);
        if (why == -EAGAIN) {
            break;
        }
        t->has_ended = true;
        t->ended = why;
    }
    if (got > 0) {
        return (ssize_t)got;
    }
    return t->has_ended ? t->ended : why;
}

struct cursor {
    const struct iovec *at;
    int left;
    size_t off;
};

/* Never stands at the end of a slice, so never on an empty one. */
static void advance(struct cursor *c, size_t n)
{
    c->off += n;
    while (c->left > 0 && c->off >= c->at->iov_len) {
        c->off -= c->at->iov_len;
        c->at++;
        c->left--;
    }
}

/* The next record, of at most `want` bytes: from one slice as it is, where that has as many or is
 * the last, else put together. */
static size_t next_record(struct cursor c, size_t want, const char **ret)
{
    size_t here = c.at->iov_len - c.off;
    if (here >= want || c.left == 1) {
        *ret = (const char *)c.at->iov_base + c.off;
        return here < want ? here : want;
    }
    size_t n = 0;
    while (c.left > 0 && n < want) {
        here = c.at->iov_len - c.off;
        size_t step = here < want - n ? here : want - n;
        memcpy(scratch + n, (const char *)c.at->iov_base + c.off, step);
        n += step;
        advance(&c, step);
    }
    *ret = scratch;
    return n;
}

ssize_t fl_tls_sendv(struct fl_tls *t, const struct iovec *iov, int count)
{
    struct cursor c = {iov, count, 0};
    size_t total = 0, done = 0;
    int why = 0;
    for (int i = 0; i < count; i++) {
        total += iov[i].iov_len;
    }
    FL_MUST(total >= t->stuck);
    advance(&c, 0);
    t->write_waits_for_bytes = false;
    while (done < total) {
        const char *from;
        size_t n = next_record(c, t->stuck != 0 ? t->stuck : RECORD_BYTES, &from), taken = 0;
        ERR_clear_error();
        int rc = SSL_write_ex(t->ssl, from, n, &taken);
        if (rc != 1) {
            why = explain(t, rc, true);
            t->stuck = why == -EAGAIN ? n : 0;
            break;
        }
        t->stuck = 0;
        done += taken;
        advance(&c, taken);
    }
    if (done > 0 || total == 0) {
        return (ssize_t)done;
    }
    return why != 0 ? why : -EPIPE;
}

bool fl_tls_readable(const struct fl_tls *t)
{
    return t->has_ended || !t->drained || SSL_has_pending(t->ssl);
}

bool fl_tls_crossed(const struct fl_tls *t)
{
    return t->read_waits_for_room || t->write_waits_for_bytes;
}

bool fl_tls_resumed(const struct fl_tls *t)
{
    return SSL_session_reused(t->ssl) == 1;
}

void fl_tls_close(struct fl_tls **tt)
{
    struct fl_tls *t = *tt;
    if (t == NULL) {
        return;
    }
    *tt = NULL;
    bool in_order = t->shaken && !t->failed;
    if (in_order && !t->has_ended && t->stuck == 0 && t->send_errno == 0) {
        (void)SSL_shutdown(t->ssl);
    }
    if (in_order) { /* else OpenSSL takes a close for a failure, and the session for spoilt */
        SSL_set_shutdown(t->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    }
    SSL_free(t->ssl);
    ERR_clear_error();
    fl_tls_terms_give(t->terms);
    free(t);
}
