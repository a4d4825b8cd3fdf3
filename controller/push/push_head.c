#include "controller/push/push_head.h"

#include <errno.h>

#include "common/sign/message_signature.h"

#define CONTENT_TYPE "application/json"

int fl_push_head_write(const struct fl_push_head *h, const struct fl_sign_key *key,
                       struct fl_fmt *ret)
{
    struct fl_sig_fields sig;
    const struct fl_sig_request rq = {FL_SPAN("PUT"), FL_SPAN(FL_PUSH_PATH), FL_SPAN(CONTENT_TYPE),
                                      fl_span_of(h->id)};
    int rc = fl_message_sign_digest(key, &rq, h->digest, h->created, &sig);
    if (rc < 0) {
        return rc;
    }
    fl_fmt_printf(ret,
                  "PUT " FL_PUSH_PATH " HTTP/1.1\r\n"
                  "Host: %s\r\n"
                  "Content-Type: " CONTENT_TYPE "\r\n"
                  "Content-Length: %zu\r\n"
                  "Fairlead-Sidecar: %s\r\n"
                  "Content-Digest: %s\r\n"
                  "Signature-Input: %s\r\n"
                  "Signature: %s\r\n"
                  "\r\n",
                  h->host, h->length, h->id, sig.content_digest, sig.signature_input,
                  sig.signature);
    return ret->cut ? -EINVAL : 0;
}
