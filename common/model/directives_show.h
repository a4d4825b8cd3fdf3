/* directives_show - structs back to text, by the table: canonical YAML for people, and the given
 * keys as JSON for pushes. Pure. */
#ifndef FL_COMMON_MODEL_DIRECTIVES_SHOW_H
#define FL_COMMON_MODEL_DIRECTIVES_SHOW_H

#include <stdbool.h>

#include "common/base/fmt.h"
#include "common/model/config.h"
#include "common/model/directives_table.h"

/* A whole document of the scope as block YAML; c: the backends and routes in it. Comments (pushed
 * members, invalid routes) only when wanted. */
void fl_show_document(enum fl_scope s, const void *base, const struct fl_config *c, bool comments,
                      struct fl_fmt *out);
/* One backend (with its written peers) or route, as it stands in the document. */
void fl_show_backend(const struct fl_backend_conf *b, struct fl_fmt *out);
void fl_show_route(const struct fl_route_conf *r, struct fl_fmt *out);
/* The keys that are given in one struct as members of a JSON object, without the braces; of a
 * backend not its peers, and `verdicts` as verdict_policy (contract-cluster.md section 4). False:
 * there was none. */
bool fl_show_given(enum fl_scope s, const void *base, struct fl_fmt *out);
#define FL_SHOW_ABOUT ((size_t)16 << 10) /* bytes of most documents */
/* Runs `write` into a buffer of `about` bytes, and again into one of twice the size until
 * everything fits; free() it, NULL = no memory (or beyond 256 MiB). */
FL_MUST_USE char *fl_show_grown(void (*write)(const void *what, struct fl_fmt *out),
                                const void *what, size_t about, size_t *ret_len);
/* FNV-1a of a text, 64 bits: a fingerprint, not a defence. */
uint64_t fl_show_hash(struct fl_span text);
/* The same of all that `write` writes; 0 = no memory. */
uint64_t fl_show_hash_of(void (*write)(const void *what, struct fl_fmt *out), const void *what,
                         size_t about);

#endif
