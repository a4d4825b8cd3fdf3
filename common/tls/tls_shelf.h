/* tls_shelf - the terms in force, by definition: made once for each, kept while they are wanted,
 * and made anew when one of their files has changed. A change that cannot be loaded (a half-written
 * file, a certificate whose key has not come yet) leaves the old terms in force and is tried again
 * at the next look.
 *
 * Control thread; get and look block on files. */
#ifndef FL_COMMON_TLS_TLS_SHELF_H
#define FL_COMMON_TLS_TLS_SHELF_H

#include <stdbool.h>

#include "common/tls/tls_terms.h"

struct fl_tls_shelf;

FL_MUST_USE struct fl_tls_shelf *fl_tls_shelf_new(unsigned lanes); /* NULL = no memory */
struct fl_tls_shelf *fl_tls_shelf_free(struct fl_tls_shelf *s);    /* accepts NULL, returns NULL */

/* One configuration's worth: begin, get for each backend, end (which forgets the others). A get
 * outside of that tries a definition out; it stays until the next end. */
void fl_tls_shelf_begin(struct fl_tls_shelf *s);
void fl_tls_shelf_end(struct fl_tls_shelf *s);
/* The shelf's own reference: take one to keep it. conf->on must be set. 0, -EINVAL (the problem
 * says which key and why), -ENOMEM. */
FL_MUST_USE int fl_tls_shelf_get(struct fl_tls_shelf *s, const struct fl_tls_conf *conf,
                                 struct fl_tls_problem *problem, struct fl_tls_terms **ret);

/* A change that could not be taken over, or (problem NULL) was. Not again with the same words. */
typedef void fl_tls_shelf_say_fn(void *arg, const char *file, const struct fl_tls_problem *problem);
/* Looks at every file. True: some definition has new terms, get gives them. */
bool fl_tls_shelf_look(struct fl_tls_shelf *s, fl_tls_shelf_say_fn *say, void *arg);

#endif
