/* s3_sign - AWS Signature Version 4 in the Authorization header ("Authenticating Requests:
 * Using the Authorization Header", Amazon S3 API Reference). One request, one hash of the whole
 * payload (or none); no chunk signatures, no session token, no presigned form.
 *
 * Path and query are signed as they go out: the caller has escaped them (fl_s3_sign_escape), and
 * nothing is normalised, as S3 wants it. Uses OpenSSL (HMAC, SHA-256); the time is an argument. Any
 * thread. */
#ifndef FL_COMMON_SIGN_S3_SIGN_H
#define FL_COMMON_SIGN_S3_SIGN_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/fmt.h"
#include "common/base/span.h"

/* What x-amz-content-sha256 may say without a look at the payload: its absence, or nothing. */
#define FL_S3_UNSIGNED_PAYLOAD "UNSIGNED-PAYLOAD"
#define FL_S3_EMPTY_PAYLOAD    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

#define FL_S3_DATE_TEXT  17 /* "20130524T000000Z" + NUL */
#define FL_S3_QUERY_MAX  32 /* parameters */
#define FL_S3_SECRET_MAX 256

struct fl_s3_keys {
    const char *access_key, *secret_key;
};

struct fl_s3_scope {
    const char *region, *service; /* "us-east-1", "s3" */
};

struct fl_s3_field {
    const char *name;     /* lower case */
    struct fl_span value; /* as sent; white space is folded here as the signature wants it */
};

struct fl_s3_request {
    const char *method;
    struct fl_span path;  /* escaped; "" is signed as "/" */
    struct fl_span query; /* escaped, without "?"; in any order */
    const struct fl_s3_field
        *fields; /* every signed one, sorted by name; host and x-amz-date too */
    size_t field_count;
    const char *payload; /* the value of x-amz-content-sha256, or the hash that it would have */
};

/* x-amz-date of a time; years 0 to 9999. */
void fl_s3_sign_date(int64_t unix_s, char ret[FL_S3_DATE_TEXT]);
/* RFC 3986 escaping as AWS does it: all but unreserved bytes become %XX. A path keeps its slashes.
 */
void fl_s3_sign_escape(struct fl_fmt *f, struct fl_span text, bool keep_slash);
/* "Canonical request" of the specification. -EINVAL: more parameters than FL_S3_QUERY_MAX, or it
 * does not fit. */
FL_MUST_USE int fl_s3_sign_canonical(const struct fl_s3_request *rq, struct fl_fmt *ret);
/* Value of Authorization; date as fl_s3_sign_date wrote it and x-amz-date says it. 0, -EINVAL
 * (something is too long), -ENOMEM (the library refused). */
FL_MUST_USE int fl_s3_sign(const struct fl_s3_keys *keys, const struct fl_s3_scope *scope,
                           const struct fl_s3_request *rq, const char *date, struct fl_fmt *ret);

#endif
