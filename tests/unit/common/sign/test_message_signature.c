#include "common/sign/message_signature.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <openssl/err.h>

#include "common/base/base64.h"

/* RFC 9421 appendix B.1.4, test-key-ed25519. */
static const char private_pem[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF\n"
    "-----END PRIVATE KEY-----\n";
static const char public_pem[] = "-----BEGIN PUBLIC KEY-----\n"
                                 "MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=\n"
                                 "-----END PUBLIC KEY-----\n";
/* RFC 8410 section 10.1: another ed25519 key, so a set of two can be tried. */
static const char other_pem[] = "-----BEGIN PUBLIC KEY-----\n"
                                "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
                                "-----END PUBLIC KEY-----\n";
/* A P-256 key: right container, wrong algorithm. */
static const char p256_pem[] = "-----BEGIN PUBLIC KEY-----\n"
                               "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEqIVYZVLCrPZHGHjP17CTW0/+D9Lf\n"
                               "w0EkjqF7xB4FivAxzic30tMM4GF+hR6Dxh71Z50VGGdldkkDXZCnTNnoXQ==\n"
                               "-----END PUBLIC KEY-----\n";

static const char body[] = "{\"epoch\":1,\"seq\":2}";
static const struct fl_sig_request request = {
    {"PUT", 3},
    {"/_/api/push/v1/state", 20},
    {"application/json", 16},
    {"5d2a6c1e-9f3b-4a35-8f5e-1c2d3e4f5a6b", 36},
};

struct fixture {
    struct fl_sign_key *key;
    struct fl_verify_keys *keys;
    struct fl_sig_fields fields;
};
static struct fixture fx;

static int set_up(void **state)
{
    *state = &fx;
    fx.keys = fl_verify_keys_new();
    if (fx.keys == NULL || fl_sign_key_new(FL_SPAN(private_pem), &fx.key) != 0 ||
        fl_verify_keys_add_pem(fx.keys, FL_SPAN(public_pem)) != 1) {
        return -1;
    }
    return fl_message_sign(fx.key, &request, FL_SPAN(body), 1764477751, &fx.fields);
}

static int tear_down(void **state)
{
    (void)state;
    fx.key = fl_sign_key_free(fx.key);
    fx.keys = fl_verify_keys_free(fx.keys);
    return 0;
}

static enum fl_sig_error verify(const struct fl_sig_request *rq, const char *digest,
                                const char *input, const char *sig)
{
    int64_t created = -1;
    enum fl_sig_error e = fl_message_verify(fx.keys, rq, fl_span_of(digest), fl_span_of(input),
                                            fl_span_of(sig), &created);
    assert_true((e == FL_SIG_OK) == (created == 1764477751)); /* touched only on success */
    assert_int_equal(ERR_peek_error(), 0);
    return e;
}

/* Appendix B.2.6: the same base and the same signing code give the published bytes. */
static void rfc9421_b26(void **state)
{
    (void)state;
    const struct fl_sig_component c[] = {
        {"date", FL_SPAN("Tue, 20 Apr 2021 02:07:55 GMT")},
        {"@method", FL_SPAN("POST")},
        {"@path", FL_SPAN("/foo")},
        {"@authority", FL_SPAN("example.com")},
        {"content-type", FL_SPAN("application/json")},
        {"content-length", FL_SPAN("18")},
    };
    char params_text[256], base_text[1024], b64[100];
    struct fl_fmt params = fl_fmt_of(params_text, sizeof(params_text));
    fl_sig_params(&params, c, FL_COUNTOF(c), 1618884473, FL_SPAN("test-key-ed25519"));
    assert_string_equal(params_text,
                        "(\"date\" \"@method\" \"@path\" \"@authority\" \"content-type\" "
                        "\"content-length\");created=1618884473;keyid=\"test-key-ed25519\"");
    struct fl_fmt base = fl_fmt_of(base_text, sizeof(base_text));
    fl_sig_base(&base, c, FL_COUNTOF(c), (struct fl_span){params.base, params.len});
    assert_string_equal(base_text,
                        "\"date\": Tue, 20 Apr 2021 02:07:55 GMT\n"
                        "\"@method\": POST\n"
                        "\"@path\": /foo\n"
                        "\"@authority\": example.com\n"
                        "\"content-type\": application/json\n"
                        "\"content-length\": 18\n"
                        "\"@signature-params\": (\"date\" \"@method\" \"@path\" \"@authority\" "
                        "\"content-type\" \"content-length\");created=1618884473"
                        ";keyid=\"test-key-ed25519\"");
    uint8_t sig[FL_SIGNATURE_BYTES];
    assert_int_equal(fl_sign_key_sign(fx.key, (struct fl_span){base.base, base.len}, sig), 0);
    struct fl_fmt f = fl_fmt_of(b64, sizeof(b64));
    fl_base64_encode(&f, sig, sizeof(sig));
    assert_string_equal(
        b64,
        "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==");
    assert_int_equal(fl_verify_keys_check(fx.keys, fl_span_of(fl_verify_keys_id(fx.keys, 0)),
                                          (struct fl_span){base.base, base.len}, sig),
                     0);
}

static void the_fields_are_the_documented_ones(void **state)
{
    (void)state;
    assert_string_equal(fx.fields.signature_input,
                        "sig1=(\"@method\" \"@path\" \"content-digest\" \"content-type\" "
                        "\"fairlead-sidecar\");created=1764477751;keyid=\"34571606cb7a0d71\"");
    assert_true(fl_content_digest_matches(fl_span_of(fx.fields.content_digest), FL_SPAN(body)));
    assert_int_equal(strlen(fx.fields.signature), FL_SIGNATURE_TEXT - 1);
    assert_int_equal(
        verify(&request, fx.fields.content_digest, fx.fields.signature_input, fx.fields.signature),
        FL_SIG_OK);
}

static void keyid_is_the_hash_of_the_spki(void **state)
{
    (void)state;
    static const char spki_b64[] = "MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=";
    uint8_t der[64], sum[FL_SHA256_BYTES];
    ssize_t n = fl_base64_decode(FL_SPAN(spki_b64), der, sizeof(der));
    assert_int_equal(n, 44);
    assert_int_equal(fl_content_digest_sha256((struct fl_span){(char *)der, (size_t)n}, sum), 0);
    char hex[17];
    struct fl_fmt f = fl_fmt_of(hex, sizeof(hex));
    fl_hex_encode(&f, sum, 8);
    assert_string_equal(hex, fl_sign_key_id(fx.key));
    assert_string_equal(hex, fl_verify_keys_id(fx.keys, 0));
    char pem[256];
    f = fl_fmt_of(pem, sizeof(pem));
    assert_int_equal(fl_sign_key_public_pem(fx.key, &f), 0);
    assert_string_equal(pem, public_pem);
    char small[16];
    f = fl_fmt_of(small, sizeof(small));
    assert_int_equal(fl_sign_key_public_pem(fx.key, &f), -ENOSPC);
}

/* One bit anywhere, in any covered value or field: refused. */
static void flip_all(const char *value, size_t which)
{
    char copy[FL_SIG_VALUE_MAX];
    size_t n = strlen(value);
    for (size_t bit = 0; bit < n * 8; bit++) {
        memcpy(copy, value, n + 1);
        copy[bit / 8] = (char)(copy[bit / 8] ^ (1 << (bit % 8)));
        struct fl_span v = {copy, n};
        struct fl_sig_request rq = request;
        struct fl_span f[3] = {fl_span_of(fx.fields.content_digest),
                               fl_span_of(fx.fields.signature_input),
                               fl_span_of(fx.fields.signature)};
        switch (which) {
        case 3:
            rq.method = v;
            break;
        case 4:
            rq.path = v;
            break;
        case 5:
            rq.content_type = v;
            break;
        case 6:
            rq.sidecar = v;
            break;
        default:
            f[which] = v;
        }
        int64_t created = 0;
        assert_int_not_equal(fl_message_verify(fx.keys, &rq, f[0], f[1], f[2], &created),
                             FL_SIG_OK);
        assert_int_equal(created, 0);
    }
}

static void any_flipped_bit_refuses(void **state)
{
    (void)state;
    flip_all(fx.fields.content_digest, 0);
    flip_all(fx.fields.signature_input, 1);
    flip_all(fx.fields.signature, 2);
    flip_all("PUT", 3);
    flip_all("/_/api/push/v1/state", 4);
    flip_all("application/json", 5);
    flip_all("5d2a6c1e-9f3b-4a35-8f5e-1c2d3e4f5a6b", 6);
}

static void other_serialisations_are_refused(void **state)
{
    (void)state;
    static const char *const inputs[] = {
        "sig1=(\"@method\" \"@path\" \"content-digest\" \"content-type\" "
        "\"fairlead-sidecar\");keyid=\"34571606cb7a0d71\";created=1764477751",
        "sig1=(\"@method\" \"@path\" \"content-digest\" \"content-type\" "
        "\"fairlead-sidecar\");created=01764477751;keyid=\"34571606cb7a0d71\"",
        "sig1=(\"@method\" \"@path\" \"content-digest\" \"content-type\" "
        "\"fairlead-sidecar\");created=1764477751;keyid=\"34571606cb7a0d71\";alg=\"ed25519\"",
        "sig1=(\"@method\" \"@path\" \"content-digest\" "
        "\"content-type\");created=1764477751;keyid=\"34571606cb7a0d71\"",
        "sig2=(\"@method\" \"@path\" \"content-digest\" \"content-type\" "
        "\"fairlead-sidecar\");created=1764477751;keyid=\"34571606cb7a0d71\"",
        "sig1=(\"@method\"  \"@path\" \"content-digest\" \"content-type\" "
        "\"fairlead-sidecar\");created=1764477751;keyid=\"34571606cb7a0d71\"",
        "sig1=(\"@method\" \"@path\" \"content-digest\" \"content-type\" "
        "\"fairlead-sidecar\");created=-1;keyid=\"34571606cb7a0d71\"",
        "sig1=(\"@method\" \"@path\" \"content-digest\" \"content-type\" "
        "\"fairlead-sidecar\");created=99999999999999999999;keyid=\"34571606cb7a0d71\"",
        "sig1=()",
        ")",
        "x",
    };
    for (size_t i = 0; i < FL_COUNTOF(inputs); i++) {
        assert_int_equal(verify(&request, fx.fields.content_digest, inputs[i], fx.fields.signature),
                         FL_SIG_BAD_INPUT_FORM);
    }
    const char *digest = fx.fields.content_digest, *input = fx.fields.signature_input;
    assert_int_equal(verify(&request, digest, input, "sig1=:AAAA:"), FL_SIG_BAD_FORM);
    assert_int_equal(verify(&request, digest, input, "sig1=:"), FL_SIG_BAD_FORM);
    assert_int_equal(verify(&request, "sha-256=:AAAA:", input, fx.fields.signature),
                     FL_SIG_BAD_DIGEST_FORM);
    assert_int_equal(verify(&request, "", input, fx.fields.signature), FL_SIG_MISSING);
    assert_int_equal(verify(&request, digest, "", fx.fields.signature), FL_SIG_MISSING);
    assert_int_equal(verify(&request, digest, input, ""), FL_SIG_MISSING);
    struct fl_sig_request rq = request;
    rq.sidecar = (struct fl_span){0};
    assert_int_equal(verify(&rq, digest, input, fx.fields.signature), FL_SIG_MISSING);
}

/* A value with a line break could smuggle a further component line into the base. */
static void values_cannot_forge_lines(void **state)
{
    (void)state;
    static const char *const bad[] = {"a\nb", "a\r\nb", " a", "a ", "\t", "caf\xc3\xa9", ""};
    for (size_t i = 0; i < FL_COUNTOF(bad); i++) {
        struct fl_sig_request rq = request;
        struct fl_sig_fields out;
        rq.sidecar = fl_span_of(bad[i]);
        assert_int_equal(fl_message_sign(fx.key, &rq, FL_SPAN(body), 1, &out), -EINVAL);
        assert_int_not_equal(
            verify(&rq, fx.fields.content_digest, fx.fields.signature_input, fx.fields.signature),
            FL_SIG_OK);
    }
    char longest[FL_SIG_VALUE_MAX + 2];
    memset(longest, 'a', sizeof(longest));
    struct fl_sig_request rq = request;
    struct fl_sig_fields out;
    rq.sidecar = (struct fl_span){longest, FL_SIG_VALUE_MAX + 1};
    assert_int_equal(fl_message_sign(fx.key, &rq, FL_SPAN(body), 1, &out), -EINVAL);
    rq.method = rq.path = rq.content_type = rq.sidecar =
        (struct fl_span){longest, FL_SIG_VALUE_MAX};
    assert_int_equal(fl_message_sign(fx.key, &rq, FL_SPAN(body), 999999999999, &out), 0);
    int64_t created = 0;
    assert_int_equal(fl_message_verify(fx.keys, &rq, fl_span_of(out.content_digest),
                                       fl_span_of(out.signature_input), fl_span_of(out.signature),
                                       &created),
                     FL_SIG_OK);
    assert_int_equal(created, 999999999999);
    assert_int_equal(fl_message_sign(fx.key, &request, FL_SPAN(body), 0, &out), -EINVAL);
    assert_int_equal(fl_message_sign_digest(fx.key, &request, "sha-256=:x:", 1, &out), -EINVAL);
}

static void key_sets(void **state)
{
    (void)state;
    struct fl_verify_keys *k = fl_verify_keys_new();
    assert_non_null(k);
    int64_t created = 0;
    struct fl_span digest = fl_span_of(fx.fields.content_digest),
                   input = fl_span_of(fx.fields.signature_input),
                   sig = fl_span_of(fx.fields.signature);
    assert_int_equal(fl_message_verify(k, &request, digest, input, sig, &created), FL_SIG_NO_KEYS);
    assert_int_equal(fl_verify_keys_add_pem(k, FL_SPAN(other_pem)), 1);
    assert_int_equal(fl_message_verify(k, &request, digest, input, sig, &created),
                     FL_SIG_UNKNOWN_KEY);
    char both[sizeof(other_pem) + sizeof(public_pem) + 32];
    struct fl_fmt f = fl_fmt_of(both, sizeof(both));
    fl_fmt_text(&f, other_pem);
    fl_fmt_text(&f, "\n# next\n");
    fl_fmt_text(&f, public_pem);
    assert_int_equal(fl_verify_keys_add_pem(k, (struct fl_span){f.base, f.len}), 2);
    assert_int_equal(fl_verify_keys_count(k), 2); /* the first was there already */
    assert_int_equal(fl_message_verify(k, &request, digest, input, sig, &created), FL_SIG_OK);
    fl_verify_keys_free(k);
}

static void bad_keys_are_refused(void **state)
{
    (void)state;
    struct fl_verify_keys *k = fl_verify_keys_new();
    assert_non_null(k);
    assert_int_equal(fl_verify_keys_add_pem(k, FL_SPAN(p256_pem)), -EINVAL);
    assert_int_equal(fl_verify_keys_add_pem(k, FL_SPAN(private_pem)), -EINVAL);
    assert_int_equal(fl_verify_keys_add_pem(k, FL_SPAN("junk")), -EINVAL);
    assert_int_equal(fl_verify_keys_add_pem(k, FL_SPAN("")), -EINVAL);
    static const char broken[] = "-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----\n";
    assert_int_equal(fl_verify_keys_add_pem(k, FL_SPAN(broken)), -EINVAL);
    char both[512];
    struct fl_fmt f = fl_fmt_of(both, sizeof(both));
    fl_fmt_text(&f, public_pem);
    fl_fmt_text(&f, broken);
    assert_int_equal(fl_verify_keys_add_pem(k, (struct fl_span){f.base, f.len}), -EINVAL);
    fl_verify_keys_free(k);
    struct fl_sign_key *s = NULL;
    assert_int_equal(fl_sign_key_new(FL_SPAN(public_pem), &s), -EINVAL);
    assert_int_equal(fl_sign_key_new(FL_SPAN(""), &s), -EINVAL);
    assert_null(s);
    assert_int_equal(ERR_peek_error(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc9421_b26),
        cmocka_unit_test(the_fields_are_the_documented_ones),
        cmocka_unit_test(keyid_is_the_hash_of_the_spki),
        cmocka_unit_test(any_flipped_bit_refuses),
        cmocka_unit_test(other_serialisations_are_refused),
        cmocka_unit_test(values_cannot_forge_lines),
        cmocka_unit_test(key_sets),
        cmocka_unit_test(bad_keys_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
