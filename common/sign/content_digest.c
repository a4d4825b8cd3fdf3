#include "common/sign/content_digest.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include "common/base/base64.h"
#include "common/base/fmt.h"

#define PREFIX "sha-256=:"

int fl_content_digest_sha256(struct fl_span bytes, uint8_t ret[FL_SHA256_BYTES])
{
    if (EVP_Digest(bytes.len ? bytes.ptr : "", bytes.len, ret, NULL, EVP_sha256(), NULL) != 1) {
        ERR_clear_error(); /* nobody reads the queue: it would only grow */
        return -ENOMEM;
    }
    return 0;
}

int fl_content_digest_of(struct fl_span body, char ret[FL_CONTENT_DIGEST_TEXT])
{
    uint8_t sum[FL_SHA256_BYTES];
    int rc = fl_content_digest_sha256(body, sum);
    if (rc < 0) {
        return rc;
    }
    struct fl_fmt f = fl_fmt_of(ret, FL_CONTENT_DIGEST_TEXT);
    fl_fmt_text(&f, PREFIX);
    fl_base64_encode(&f, sum, sizeof(sum));
    fl_fmt_char(&f, ':');
    FL_MUST(!f.cut);
    return 0;
}

bool fl_content_digest_is_canonical(struct fl_span value)
{
    if (value.len != FL_CONTENT_DIGEST_TEXT - 1 || !fl_span_starts(value, FL_SPAN(PREFIX)) ||
        value.ptr[value.len - 1] != ':') {
        return false;
    }
    uint8_t sum[FL_SHA256_BYTES];
    struct fl_span text = fl_span_from(fl_span_first(value, value.len - 1), sizeof(PREFIX) - 1);
    return fl_base64_decode(text, sum, sizeof(sum)) == FL_SHA256_BYTES;
}

bool fl_content_digest_matches(struct fl_span value, struct fl_span body)
{
    char want[FL_CONTENT_DIGEST_TEXT];
    return fl_content_digest_is_canonical(value) && fl_content_digest_of(body, want) == 0 &&
           fl_span_eq(value, fl_span_of(want));
}
