#include "common/sign/content_digest.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include "common/base/fmt.h"

/* RFC 9530 appendices B.1 and B.2 give this value for the JSON text with its final newline. */
static const char hello_nl[] = "{\"hello\": \"world\"}\n";
static const char hello_nl_digest[] = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";
/* RFC 9421 appendix B.2 without it (and RFC 9530 section 6.3 for the same bytes). */
static const char hello[] = "{\"hello\": \"world\"}";
static const char hello_digest[] = "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:";

static void published_vectors(void **state)
{
    (void)state;
    char text[FL_CONTENT_DIGEST_TEXT];
    assert_int_equal(fl_content_digest_of(FL_SPAN(hello_nl), text), 0);
    assert_string_equal(text, hello_nl_digest);
    assert_int_equal(fl_content_digest_of(FL_SPAN(hello), text), 0);
    assert_string_equal(text, hello_digest);
    /* FIPS 180-4: SHA-256 of nothing */
    assert_int_equal(fl_content_digest_of((struct fl_span){0}, text), 0);
    assert_string_equal(text, "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:");
    assert_true(fl_content_digest_matches(FL_SPAN(hello_digest), FL_SPAN(hello)));
    assert_false(fl_content_digest_matches(FL_SPAN(hello_digest), FL_SPAN(hello_nl)));
}

static void any_flipped_bit_refuses(void **state)
{
    (void)state;
    char value[sizeof(hello_digest)], body[sizeof(hello)];
    for (size_t i = 0; i < (sizeof(hello_digest) - 1) * 8; i++) {
        memcpy(value, hello_digest, sizeof(value));
        value[i / 8] = (char)(value[i / 8] ^ (1 << (i % 8)));
        assert_false(
            fl_content_digest_matches((struct fl_span){value, sizeof(value) - 1}, FL_SPAN(hello)));
    }
    for (size_t i = 0; i < (sizeof(hello) - 1) * 8; i++) {
        memcpy(body, hello, sizeof(body));
        body[i / 8] = (char)(body[i / 8] ^ (1 << (i % 8)));
        assert_false(fl_content_digest_matches(FL_SPAN(hello_digest),
                                               (struct fl_span){body, sizeof(body) - 1}));
    }
}

static void only_the_canonical_form(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "sha-256=:",
        "sha-256=::",
        " sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:",
        "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=: ",
        "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:;a=1",
        "SHA-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:",
        "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPF=:", /* the unused bits are set */
        "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE:",
        "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DB-E=:", /* base64url */
        "sha-512=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:",
    };
    for (size_t i = 0; i < FL_COUNTOF(bad); i++) {
        assert_false(fl_content_digest_is_canonical(fl_span_of(bad[i])));
        assert_false(fl_content_digest_matches(fl_span_of(bad[i]), FL_SPAN(hello)));
    }
    assert_true(fl_content_digest_is_canonical(FL_SPAN(hello_digest)));
    assert_false(fl_content_digest_is_canonical((struct fl_span){0}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors),
        cmocka_unit_test(any_flipped_bit_refuses),
        cmocka_unit_test(only_the_canonical_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
