/* message_signature - HTTP Message Signatures (RFC 9421) with ed25519, as pushes use them
 * (contract-cluster.md section 4).
 *
 * One canonical serialisation exists: signing writes it and verifying rebuilds it from the few
 * values that vary (created, keyid, the signature) and compares bytes. Nothing is interpreted, so
 * nothing can be read in two ways. The signature covers the Content-Digest field, so a request is
 * verified from its head alone; the body is then held against the digest (content_digest.h).
 *
 * keyid = first 16 hex digits of SHA-256 over the DER SubjectPublicKeyInfo. OpenSSL is touched only
 * by functions that take or make a key. Any thread; keys are immutable. */
#ifndef FL_COMMON_SIGN_MESSAGE_SIGNATURE_H
#define FL_COMMON_SIGN_MESSAGE_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/check.h"
#include "common/base/fmt.h"
#include "common/base/span.h"
#include "common/sign/content_digest.h"
#include "common/sign/sign_key.h"
#include "common/sign/verify_keys.h"

#define FL_SIGNATURE_TEXT 96  /* sig1=:<88>: + NUL */
#define FL_SIG_INPUT_TEXT 160 /* longest Signature-Input + NUL */
#define FL_SIG_VALUE_MAX  512 /* longest value of a covered field */

// clang-format off
#define FL_SIG_ERRORS(X)                                                                                              \
    X(OK,              "ok",               "the signature is good")                                                   \
    X(NO_KEYS,         "no_keys",          "no public key is configured: pushes are refused")                         \
    X(MISSING,         "missing",          "Content-Digest, Content-Type, Fairlead-Sidecar, Signature-Input and Signature must each be there once") \
    X(BAD_DIGEST_FORM, "bad_digest_form",  "Content-Digest is not of the form sha-256=:<base64>:")                    \
    X(BAD_INPUT_FORM,  "bad_input_form",   "Signature-Input is not the one accepted serialisation")                   \
    X(BAD_FORM,        "bad_form",         "Signature is not of the form sig1=:<base64 of 64 bytes>:")                \
    X(UNKNOWN_KEY,     "unknown_key",      "no configured public key has this keyid")                                 \
    X(BAD_SIGNATURE,   "bad_signature",    "the signature does not belong to this request")                           \
    X(DIGEST_MISMATCH, "digest_mismatch",  "the body does not belong to the signed Content-Digest")                   \
    X(NO_MEMORY,       "no_memory",        "out of memory while verifying")
// clang-format on
#define X(id, token, text) FL_SIG_##id,
enum fl_sig_error { FL_SIG_ERRORS(X) FL_SIG_ERROR_COUNT };
#undef X
const char *fl_sig_error_token(enum fl_sig_error e);
const char *fl_sig_error_text(enum fl_sig_error e);

/* ---- The signature base of RFC 9421 section 2.5, for any list of components ---- */

struct fl_sig_component {
    const char *name;     /* "@method", "content-type": lower case */
    struct fl_span value; /* canonical: trimmed, one line */
};

/* The inner list with parameters, `("a" "b");created=1;keyid="k"`: value of @signature-params, and
 * of Signature-Input after the label. */
void fl_sig_params(struct fl_fmt *f, const struct fl_sig_component *c, size_t count,
                   int64_t created, struct fl_span keyid);
/* One `"name": value` line each, then `"@signature-params": params`, no newline at the end. */
void fl_sig_base(struct fl_fmt *f, const struct fl_sig_component *c, size_t count,
                 struct fl_span params);

/* ---- Push requests ---- */

struct fl_sig_request {
    struct fl_span method, path;          /* "PUT", "/_/api/push/v1/state" */
    struct fl_span content_type, sidecar; /* field values; sidecar = pod uid */
};

struct fl_sig_fields { /* header values, NUL-terminated */
    char content_digest[FL_CONTENT_DIGEST_TEXT];
    char signature_input[FL_SIG_INPUT_TEXT];
    char signature[FL_SIGNATURE_TEXT];
};

/* 0, -EINVAL (a value holds a control byte or is too long), -ENOMEM. created: unix seconds. */
FL_MUST_USE int fl_message_sign(const struct fl_sign_key *k, const struct fl_sig_request *rq,
                                struct fl_span body, int64_t created, struct fl_sig_fields *ret);
/* The same with a digest made before: a state is hashed once and signed for many pods. */
FL_MUST_USE int fl_message_sign_digest(const struct fl_sign_key *k, const struct fl_sig_request *rq,
                                       const char *content_digest, int64_t created,
                                       struct fl_sig_fields *ret);
/* From the head alone. A field that is absent, or there more than once, is given as an empty span.
 * On OK *ret_created is the signed time; judging it is the caller's. The body is not looked at:
 * hold it against content_digest afterwards. */
enum fl_sig_error fl_message_verify(const struct fl_verify_keys *k, const struct fl_sig_request *rq,
                                    struct fl_span content_digest, struct fl_span signature_input,
                                    struct fl_span signature, int64_t *ret_created);

#endif
