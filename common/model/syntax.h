/* syntax - what counts as an address, a host, a name of a backend, a bucket. Predicates on text
 * alone. Pure. */
#ifndef FL_COMMON_MODEL_SYNTAX_H
#define FL_COMMON_MODEL_SYNTAX_H

#include <stdbool.h>

#include "common/base/span.h"

bool fl_syntax_is_host(struct fl_span s); /* RFC 1123 name, '_' allowed too; or an IPv4 literal */
bool fl_syntax_is_peer(struct fl_span s); /* host:port, [v6]:port; the port a number above 0 */
bool fl_syntax_is_listen(struct fl_span s, bool unix_too); /* literal address:port, or unix:PATH */
bool fl_syntax_is_endpoint(struct fl_span s); /* literal address, with or without port */
bool fl_syntax_is_statuses(struct fl_span s); /* "200-399,404": 100..599, rising ranges */
bool fl_syntax_is_backend(struct fl_span s);  /* [A-Za-z0-9._:-], 1 to 253 */
bool fl_syntax_is_s3_bucket(
    struct fl_span s); /* [A-Za-z0-9._-], 1 to 255, starting with a letter or digit */
bool fl_syntax_is_segment(struct fl_span s); /* one segment of a path on an http backend */
bool fl_syntax_is_service(struct fl_span s); /* RFC 1123 label, as Kubernetes wants for names */

#endif
