/* content_digest - Content-Digest (RFC 9530) in the one canonical form that Fairlead sends and
 * takes: `sha-256=:<base64 of 32 bytes>:`. No other algorithm, parameter, list or white space. Uses
 * OpenSSL; call it only where a key exists (OpenSSL's first use costs private memory). Any thread.
 */
#ifndef FL_COMMON_SIGN_CONTENT_DIGEST_H
#define FL_COMMON_SIGN_CONTENT_DIGEST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/span.h"

#define FL_SHA256_BYTES        32
#define FL_CONTENT_DIGEST_TEXT 55 /* "sha-256=:" + 44 + ":" + NUL */

/* Plain SHA-256. 0 or -ENOMEM (the library refused). */
FL_MUST_USE int fl_content_digest_sha256(struct fl_span bytes, uint8_t ret[FL_SHA256_BYTES]);
/* The header value for body. 0 or -ENOMEM. */
FL_MUST_USE int fl_content_digest_of(struct fl_span body, char ret[FL_CONTENT_DIGEST_TEXT]);
/* Has the value the canonical form (whatever the body is)? Cheap: no OpenSSL. */
bool fl_content_digest_is_canonical(struct fl_span value);
/* Does the header value belong to body, byte for byte? */
bool fl_content_digest_matches(struct fl_span value, struct fl_span body);

#endif
