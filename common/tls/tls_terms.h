/* tls_terms - on what terms TLS is spoken with a backend: whom we trust, whether the peer's
 * certificate is verified at all, our own certificate, and the sessions that may be resumed.
 *
 * Made by the control thread, which alone reads files (tls_shelf keeps them by definition and makes
 * new ones when a file has changed); immutable then, except that each data thread keeps sessions in
 * a lane of its own. Counted: a snapshot holds the terms of its backends, a connection those it was
 * opened on; the last holder frees, whatever thread it is. OpenSSL's TLS is initialised with the
 * first terms, so a process without a TLS backend never pays for it. */
#ifndef FL_COMMON_TLS_TLS_TERMS_H
#define FL_COMMON_TLS_TLS_TERMS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/config.h"
#include "common/tls/tls_authorities.h"
#include "common/tls/tls_problem.h"

struct fl_tls_terms;

/* TLS 1.2 and 1.3, no renegotiation. authorities: of conf->ca_file; NULL when conf->verify is off.
 * lanes: how many data threads keep sessions. The caller holds the result once. 0, -EINVAL (the
 * problem says why), -ENOMEM. */
FL_MUST_USE int fl_tls_terms_new(const struct fl_tls_conf *conf,
                                 const struct fl_tls_authorities *authorities, unsigned lanes,
                                 struct fl_tls_problem *problem, struct fl_tls_terms **ret);
struct fl_tls_terms *fl_tls_terms_take(struct fl_tls_terms *t); /* one more holder; NULL is fine */
void fl_tls_terms_give(struct fl_tls_terms *t);                 /* one less; NULL is fine */

/* What a connection on these terms to a peer of this name has proved, as a number: two that differ
 * must not stand in for each other (kept connections). Never 0, which is left for plain text. */
uint64_t fl_tls_terms_proof(const struct fl_tls_terms *t, const char *name);

/* Have the files of the certificate and its key changed since? Not the authorities'. */
bool fl_tls_terms_changed(const struct fl_tls_terms *t);
/* Do both say the same, byte for byte of their files? Then the stamps of the newer may be taken
 * over (control thread). */
bool fl_tls_terms_same(const struct fl_tls_terms *a, const struct fl_tls_terms *b);
void fl_tls_terms_restamp(struct fl_tls_terms *t, const struct fl_tls_terms *newer);

#endif
