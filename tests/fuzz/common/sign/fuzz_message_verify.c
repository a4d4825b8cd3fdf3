/* Field values, one a line (content-digest, signature-input, signature, content-type,
 * fairlead-sidecar), against one key. Oracle: what is accepted must be what signing again with the
 * same values gives, byte for byte. */
#include "common/sign/message_signature.h"

#include <stdlib.h>

static const char private_pem[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF\n"
    "-----END PRIVATE KEY-----\n";
static const char public_pem[] = "-----BEGIN PUBLIC KEY-----\n"
                                 "MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=\n"
                                 "-----END PUBLIC KEY-----\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fl_sign_key *key;
    static struct fl_verify_keys *keys;
    if (key == NULL) {
        keys = fl_verify_keys_new();
        FL_MUST(keys != NULL && fl_sign_key_new(FL_SPAN(private_pem), &key) == 0 &&
                fl_verify_keys_add_pem(keys, FL_SPAN(public_pem)) == 1);
    }
    struct fl_span rest = {(const char *)data, size}, field[5] = {{0}};
    for (size_t i = 0; i < FL_COUNTOF(field); i++) {
        ptrdiff_t end = fl_span_find(rest, '\n');
        field[i] = end < 0 ? rest : fl_span_first(rest, (size_t)end);
        rest = end < 0 ? (struct fl_span){0} : fl_span_from(rest, (size_t)end + 1);
    }
    const struct fl_sig_request rq = {FL_SPAN("PUT"), FL_SPAN("/_/api/push/v1/state"), field[3],
                                      field[4]};
    int64_t created = 0;
    if (fl_message_verify(keys, &rq, field[0], field[1], field[2], &created) == FL_SIG_OK) {
        char digest[FL_CONTENT_DIGEST_TEXT];
        struct fl_sig_fields again;
        FL_MUST(field[0].len == sizeof(digest) - 1);
        memcpy(digest, field[0].ptr, field[0].len);
        digest[field[0].len] = '\0';
        FL_MUST(fl_message_sign_digest(key, &rq, digest, created, &again) == 0);
        FL_MUST(fl_span_is(field[1], again.signature_input));
        FL_MUST(fl_span_is(field[2], again.signature));
    }
    return 0;
}
