#include "common/base/base64.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/rng.h"

static char text[512];
static uint8_t bytes[256];

static const char *encoded(const void *p, size_t n)
{
    struct fl_fmt f = fl_fmt_of(text, sizeof text);
    fl_base64_encode(&f, p, n);
    assert_false(f.cut);
    return text;
}

static void vectors_of_rfc4648(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < FL_COUNTOF(pairs); i++) {
        struct fl_span plain = fl_span_of(pairs[i][0]);
        assert_string_equal(encoded(plain.ptr, plain.len), pairs[i][1]);
        assert_int_equal(fl_base64_decode(fl_span_of(pairs[i][1]), bytes, sizeof bytes), plain.len);
        assert_memory_equal(bytes, plain.ptr, plain.len);
    }
    assert_string_equal(encoded("\xfb\xff\xfe", 3), "+//+");
}

static void only_the_canonical_text_is_taken(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "Zg",       "Zg=",    "Zg===", "=",    "====", "Z===", "A===", "Zh==",  "Zm9=",
        "Zg==Zg==", "Zm9v\n", "Zm 9",  "Zm-v", "Zm_v", "Zm=v", "=Zm9", "Zm9vZ", "\xff\xff\xff\xff"};
    for (size_t i = 0; i < FL_COUNTOF(bad); i++) {
        if (fl_base64_decode(fl_span_of(bad[i]), bytes, sizeof bytes) != -EINVAL) {
            fail_msg("took %s", bad[i]);
        }
    }
    assert_int_equal(fl_base64_decode(FL_SPAN("Zg=\0"), bytes, sizeof bytes), -EINVAL);
}

static void small_buffers(void **state)
{
    (void)state;
    uint8_t guard[4] = {9, 9, 9, 9};
    assert_int_equal(fl_base64_decode(FL_SPAN("Zm9v"), guard, 2), -ENOSPC);
    assert_int_equal(guard[2], 9);
    assert_int_equal(fl_base64_decode(FL_SPAN("Zm8="), guard, 2), 2);
    assert_int_equal(guard[2], 9);
    assert_int_equal(fl_base64_decode(FL_SPAN(""), guard, 0), 0);

    struct fl_fmt f = fl_fmt_of(text, 4);
    fl_base64_encode(&f, "foo", 3);
    assert_true(f.cut);
    assert_string_equal(text, "");
    f = fl_fmt_of(text, 5);
    fl_base64_encode(&f, "foo", 3);
    assert_false(f.cut);
    assert_string_equal(text, "Zm9v");
    f = fl_fmt_of(text, 4);
    fl_hex_encode(&f, "ab", 2);
    assert_true(f.cut);
}

static void any_bytes_come_back(void **state)
{
    (void)state;
    struct fl_rng r;
    fl_rng_seed(&r, 11);
    for (size_t n = 0; n < 200; n++) {
        uint8_t in[200];
        for (size_t i = 0; i < n; i++) {
            in[i] = (uint8_t)fl_rng_below(&r, 256);
        }
        assert_int_equal(fl_base64_decode(fl_span_of(encoded(in, n)), bytes, n), n);
        assert_memory_equal(bytes, in, n);
    }
}

static void hex(void **state)
{
    (void)state;
    struct fl_fmt f = fl_fmt_of(text, sizeof text);
    fl_hex_encode(&f, "\x00\x0f\xa5\xff", 4);
    assert_string_equal(text, "000fa5ff");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_of_rfc4648),
        cmocka_unit_test(only_the_canonical_text_is_taken),
        cmocka_unit_test(small_buffers),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(hex),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
