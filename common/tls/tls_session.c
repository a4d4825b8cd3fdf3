/* tls_session - sessions that one data thread may resume: the last one of each peer and name. A
 * resumed session is not verified again, so it is only offered while it is young and its
 * certificate valid, and dies with its terms. */
#include <stdlib.h>
#include <time.h>

#include <openssl/x509.h>

#include "common/tls/tls_inner.h"

#define SLOTS_FIRST 4
#define SLOTS_MAX   1024 /* as many as a backend has peers */
#define MAX_AGE_S   3600

static struct fl_tls_resumable *find(struct fl_tls_sessions *s, const struct fl_tls *t)
{
    for (uint32_t i = 0; i < s->count; i++) {
        struct fl_tls_resumable *r = &s->slots[i];
        if (r->name_hash == t->name_hash && fl_addr_eq(&r->addr, &t->addr)) {
            return r;
        }
    }
    return NULL;
}

static bool is_good(const SSL_SESSION *session)
{
    const X509 *cert = SSL_SESSION_get0_peer((SSL_SESSION *)(uintptr_t)session); /* only read */
    bool young = time(NULL) - SSL_SESSION_get_time(session) < MAX_AGE_S;
    bool valid = cert == NULL || X509_cmp_current_time(X509_get0_notAfter(cert)) > 0;
    return young && valid && SSL_SESSION_is_resumable(session);
}

static void put(struct fl_tls_resumable *r, SSL_SESSION *session)
{
    SSL_SESSION_free(r->session);
    r->session = session;
}

void fl_tls_session_offer(struct fl_tls *t)
{
    if (t->lane == FL_TLS_NO_LANE) {
        return;
    }
    struct fl_tls_resumable *r = find(&t->terms->sessions[t->lane], t);
    if (r == NULL || r->session == NULL) {
        return;
    }
    if (is_good(r->session)) {
        (void)SSL_set_session(t->ssl, r->session); /* else: a handshake in full */
    } else {
        put(r, NULL);
    }
}

/* One that nobody uses; the oldest when the table is full. NULL = no memory. */
static struct fl_tls_resumable *fresh_slot(struct fl_tls_sessions *s)
{
    if (s->count == SLOTS_MAX) {
        struct fl_tls_resumable *r = &s->slots[s->next++ % SLOTS_MAX];
        put(r, NULL);
        return r;
    }
    if (s->count == 0 || (s->count >= SLOTS_FIRST && (s->count & (s->count - 1)) == 0)) {
        uint32_t cap = s->count == 0 ? SLOTS_FIRST : s->count * 2;
        struct fl_tls_resumable *more = realloc(s->slots, cap * sizeof *more);
        if (more == NULL) {
            return NULL;
        }
        s->slots = more;
    }
    struct fl_tls_resumable *r = &s->slots[s->count++];
    *r = (struct fl_tls_resumable){.session = NULL};
    return r;
}

int fl_tls_session_take(SSL *ssl, SSL_SESSION *session)
{
    struct fl_tls *t = SSL_get_app_data(ssl);
    bool proved = !t->terms->verify || SSL_get_verify_result(ssl) == X509_V_OK;
    if (t->lane == FL_TLS_NO_LANE || !proved) {
        return 0;
    }
    struct fl_tls_sessions *s = &t->terms->sessions[t->lane];
    struct fl_tls_resumable *r = find(s, t);
    if (r == NULL) {
        r = fresh_slot(s);
    }
    if (r == NULL) {
        return 0;
    }
    r->addr = t->addr;
    r->name_hash = t->name_hash;
    put(r, session);
    return 1;
}

void fl_tls_session_forget(struct fl_tls *t)
{
    if (t->lane != FL_TLS_NO_LANE) {
        struct fl_tls_resumable *r = find(&t->terms->sessions[t->lane], t);
        if (r != NULL) {
            put(r, NULL);
        }
    }
}

void fl_tls_session_done(struct fl_tls_sessions *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        SSL_SESSION_free(s->slots[i].session);
    }
    free(s->slots);
}
