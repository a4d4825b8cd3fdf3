/* tls_authorities - the certificates that are trusted: those of one file, or the system's. Parsed
 * once and shared by all terms that name the same file, since OpenSSL 3.0 is slow at it and the
 * system's bundle takes a megabyte or two. Control thread. */
#ifndef FL_COMMON_TLS_TLS_AUTHORITIES_H
#define FL_COMMON_TLS_TLS_AUTHORITIES_H

#include <stdbool.h>

#include "common/tls/tls_problem.h"

struct fl_tls_authorities;

/* ca_file "": the bundle that the system keeps. 0, -EINVAL (the problem says why), -ENOMEM. */
FL_MUST_USE int fl_tls_authorities_new(const char *ca_file, struct fl_tls_problem *problem,
                                       struct fl_tls_authorities **ret);
/* Terms that were made of it keep what they need. Accepts NULL, returns NULL. */
struct fl_tls_authorities *fl_tls_authorities_free(struct fl_tls_authorities *a);
bool fl_tls_authorities_changed(const struct fl_tls_authorities *a);     /* looks at the file */
const char *fl_tls_authorities_file(const struct fl_tls_authorities *a); /* as was asked for */

#endif
