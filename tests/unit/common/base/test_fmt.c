#include "common/base/fmt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/rng.h"

static char text[4096];

static struct fl_fmt fresh(void)
{
    return fl_fmt_of(text, sizeof text);
}

#define CHECK(call, want)                                                                          \
    do {                                                                                           \
        struct fl_fmt f = fresh();                                                                 \
        call;                                                                                      \
        assert_string_equal(text, want);                                                           \
        assert_int_equal(f.len, sizeof(want) - 1);                                                 \
        assert_false(f.cut);                                                                       \
    } while (0)

static void numbers(void **state)
{
    (void)state;
    CHECK(fl_fmt_uint(&f, 0), "0");
    CHECK(fl_fmt_uint(&f, 90), "90");
    CHECK(fl_fmt_uint(&f, UINT64_MAX), "18446744073709551615");
    CHECK(fl_fmt_int(&f, -1), "-1");
    CHECK(fl_fmt_int(&f, 0), "0");
    CHECK(fl_fmt_int(&f, INT64_MIN), "-9223372036854775808");
    CHECK(fl_fmt_int(&f, INT64_MAX), "9223372036854775807");
    CHECK(fl_fmt_printf(&f, "%s=%d", "x", 7), "x=7");
}

static void seconds_are_rounded_to_milliseconds(void **state)
{
    (void)state;
    CHECK(fl_fmt_secs(&f, 0), "0.000");
    CHECK(fl_fmt_secs(&f, 499), "0.000");
    CHECK(fl_fmt_secs(&f, 500), "0.001");
    CHECK(fl_fmt_secs(&f, 1234567), "1.235");
    CHECK(fl_fmt_secs(&f, 999999), "1.000");
    CHECK(fl_fmt_secs(&f, 60000000), "60.000");
    CHECK(fl_fmt_secs(&f, -400), "0.000");
    CHECK(fl_fmt_secs(&f, -1500000), "-1.500");
    CHECK(fl_fmt_secs(&f, INT64_MAX), "9223372036854.776");
    CHECK(fl_fmt_secs(&f, INT64_MIN), "-9223372036854.776");
}

static void json_escapes_what_it_must(void **state)
{
    (void)state;
    CHECK(fl_fmt_json(&f, FL_SPAN("plain /text")), "plain /text");
    CHECK(fl_fmt_json(&f, FL_SPAN("")), "");
    CHECK(fl_fmt_json(&f, FL_SPAN("a\"b\\c")), "a\\\"b\\\\c");
    CHECK(fl_fmt_json(&f, FL_SPAN("\b\f\n\r\t")), "\\b\\f\\n\\r\\t");
    CHECK(fl_fmt_json(&f, FL_SPAN("\0\x1f\x7f")), "\\u0000\\u001f\\u007f");
    CHECK(fl_fmt_json(&f, FL_SPAN("\xe2\x80\xa8|\xe2\x80\xa9|\xe2\x80\xaa")),
          "\\u2028|\\u2029|\xe2\x80\xaa");
    CHECK(fl_fmt_json(&f, FL_SPAN("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80")),
          "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
}

/* Eight plain bytes are taken at once, a lone byte never is. */
static void escapes_at_every_place(void (*write)(struct fl_fmt *f, struct fl_span s))
{
    for (unsigned byte = 0; byte < 256; byte++) {
        for (size_t at = 0; at < 20; at++) {
            char line[] = "[a !~#$%*+-./0:AZ]^|", alone[8], want[64];
            line[at] = (char)byte;
            struct fl_fmt one = fl_fmt_of(alone, sizeof alone);
            write(&one, (struct fl_span){line + at, 1});
            memcpy(want, line, at);
            memcpy(want + at, alone, one.len);
            memcpy(want + at + one.len, line + at + 1, 20 - at - 1);
            struct fl_fmt f = fresh();
            write(&f, (struct fl_span){line, 20});
            assert_int_equal(f.len, 19 + one.len);
            assert_memory_equal(text, want, f.len);
        }
    }
}

static void every_dialect_escapes_at_every_place(void **state)
{
    (void)state;
    escapes_at_every_place(fl_fmt_json);
    escapes_at_every_place(fl_fmt_xml);
    escapes_at_every_place(fl_fmt_header);
    escapes_at_every_place(fl_fmt_prom);
}

static void json_shows_bytes_that_are_no_utf8(void **state)
{
    (void)state;
    CHECK(fl_fmt_json(&f, FL_SPAN("\x80")), "\\u0080");
    CHECK(fl_fmt_json(&f, FL_SPAN("\xff\xfe")), "\\u00ff\\u00fe");
    CHECK(fl_fmt_json(&f, FL_SPAN("\xc0\xaf")), "\\u00c0\\u00af"); /* overlong */
    CHECK(fl_fmt_json(&f, FL_SPAN("\xc1\xbf")), "\\u00c1\\u00bf");
    CHECK(fl_fmt_json(&f, FL_SPAN("\xe0\x9f\xbf")), "\\u00e0\\u009f\\u00bf"); /* overlong */
    CHECK(fl_fmt_json(&f, FL_SPAN("\xed\xa0\x80")), "\\u00ed\\u00a0\\u0080"); /* surrogate */
    CHECK(fl_fmt_json(&f, FL_SPAN("\xed\x9f\xbf")), "\xed\x9f\xbf"); /* the last before them */
    CHECK(fl_fmt_json(&f, FL_SPAN("\xf0\x8f\xbf\xbf")), "\\u00f0\\u008f\\u00bf\\u00bf");
    CHECK(fl_fmt_json(&f, FL_SPAN("\xf4\x8f\xbf\xbf")), "\xf4\x8f\xbf\xbf"); /* U+10FFFF */
    CHECK(fl_fmt_json(&f, FL_SPAN("\xf4\x90\x80\x80")), "\\u00f4\\u0090\\u0080\\u0080");
    CHECK(fl_fmt_json(&f, FL_SPAN("\xf5\x80\x80\x80")), "\\u00f5\\u0080\\u0080\\u0080");
    CHECK(fl_fmt_json(&f, FL_SPAN("\xe2\x82")), "\\u00e2\\u0082"); /* cut in the middle */
    CHECK(fl_fmt_json(&f, FL_SPAN("\xe2\x82x")), "\\u00e2\\u0082x");
    CHECK(fl_fmt_json(&f, FL_SPAN("\xc3\"")), "\\u00c3\\\"");
}

static bool is_utf8(const unsigned char *p, size_t n) /* a second opinion, by code point */
{
    for (size_t i = 0; i < n;) {
        unsigned more = p[i] < 0x80       ? 0
                        : p[i] >> 5 == 6  ? 1
                        : p[i] >> 4 == 14 ? 2
                        : p[i] >> 3 == 30 ? 3
                                          : 9;
        static const unsigned least[] = {0, 0x80, 0x800, 0x10000};
        if (more == 9 || i + more >= n) {
            return false;
        }
        unsigned v = more == 0 ? p[i] : p[i] & (0x3fu >> more);
        for (unsigned k = 1; k <= more; k++) {
            if (p[i + k] >> 6 != 2) {
                return false;
            }
            v = v << 6 | (p[i + k] & 0x3fu);
        }
        if (v < least[more] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) {
            return false;
        }
        i += more + 1;
    }
    return true;
}

static void json_is_clean_for_any_bytes(void **state)
{
    (void)state;
    struct fl_rng r;
    fl_rng_seed(&r, 1);
    for (int round = 0; round < 20000; round++) {
        size_t n = fl_rng_below(&r, 24);
        char *in = malloc(n + 1); /* the input ends where the memory does */
        assert_non_null(in);
        for (size_t i = 0; i < n; i++) {
            in[i + 1] =
                (char)(fl_rng_below(&r, 2) ? 0x80 + fl_rng_below(&r, 128) : fl_rng_below(&r, 256));
        }
        struct fl_fmt f = fresh();
        fl_fmt_json(&f, (struct fl_span){in + 1, n});
        assert_false(f.cut);
        free(in);
        assert_true(is_utf8((const unsigned char *)text, f.len));
        for (size_t i = 0; i < f.len; i++) {
            assert_true((unsigned char)text[i] >= 0x20);
            if (text[i] == '\\') {
                i++;
                assert_non_null(strchr("\"\\bfnrtu", text[i]));
            } else {
                assert_true(text[i] != '"');
            }
        }
    }
}

static void other_dialects(void **state)
{
    (void)state;
    CHECK(fl_fmt_xml(&f, FL_SPAN("a<b>&\"'\r\n\t]]>")),
          "a&lt;b&gt;&amp;&quot;&#39;&#13;\n\t]]&gt;");
    CHECK(fl_fmt_xml(&f, FL_SPAN("\0\x08\x0b\x1f\x7f")), "????\x7f");
    CHECK(fl_fmt_xml(&f, FL_SPAN("\xc3\xa9|\xff|\xef\xbf\xbe|\xef\xbf\xbf|\xef\xbf\xbd")),
          "\xc3\xa9|?|?|?|\xef\xbf\xbd");
    CHECK(fl_fmt_prom(&f, FL_SPAN("a\"b\\c\nd\te")), "a\\\"b\\\\c\\nd\te");
    CHECK(fl_fmt_prom(&f, FL_SPAN("\xc3\xa9\xff")), "\xc3\xa9?");
    CHECK(fl_fmt_header(&f, FL_SPAN("a b\r\nSet: x\t\xc3\xa9\x7f~")), "a b??Set: x????~");
}

static void what_does_not_fit_is_dropped_whole(void **state)
{
    (void)state;
    struct fl_fmt f = fl_fmt_of(text, 8);
    fl_fmt_text(&f, "12345");
    fl_fmt_text(&f, "678"); /* one too many: the NUL needs its place */
    assert_true(f.cut);
    assert_string_equal(text, "12345");
    fl_fmt_uint(&f, 678);
    fl_fmt_int(&f, -67);
    fl_fmt_printf(&f, "%d", 678);
    fl_fmt_secs(&f, 1);
    fl_fmt_json(&f, FL_SPAN("6\"")); /* three bytes of output */
    fl_fmt_xml(&f, FL_SPAN("6<"));
    fl_fmt_prom(&f, FL_SPAN("6\n"));
    fl_fmt_header(&f, FL_SPAN("678"));
    fl_fmt_rfc3339(&f, 0);
    fl_fmt_http_date(&f, 0);
    assert_string_equal(text, "12345");
    assert_int_equal(f.len, 5);
    fl_fmt_char(&f, '6'); /* a shorter piece still fits */
    fl_fmt_char(&f, '7');
    assert_string_equal(text, "1234567");
    fl_fmt_char(&f, '8');
    fl_fmt_text(&f, "");
    assert_string_equal(text, "1234567");

    struct fl_fmt least = fl_fmt_of(text, 1);
    fl_fmt_char(&least, 'x');
    assert_true(least.cut);
    assert_string_equal(text, "");
    struct fl_fmt exact = fl_fmt_of(text, 8);
    fl_fmt_printf(&exact, "%d", 1234567);
    assert_false(exact.cut);
    assert_string_equal(text, "1234567");
}

static void known_dates(void **state)
{
    (void)state;
    CHECK(fl_fmt_rfc3339(&f, 0), "1970-01-01T00:00:00.000Z");
    CHECK(fl_fmt_rfc3339(&f, -1), "1969-12-31T23:59:59.999Z");
    CHECK(fl_fmt_rfc3339(&f, 1796013751123), "2026-11-30T04:42:31.123Z");
    CHECK(fl_fmt_rfc3339(&f, 951782400000), "2000-02-29T00:00:00.000Z");
    CHECK(fl_fmt_rfc3339(&f, 4107542400000), "2100-03-01T00:00:00.000Z");
    CHECK(fl_fmt_rfc3339(&f, INT64_MAX), "9999-12-31T23:59:59.999Z");
    CHECK(fl_fmt_rfc3339(&f, INT64_MIN), "0000-01-01T00:00:00.000Z");
    CHECK(fl_fmt_http_date(&f, 784111777),
          "Sun, 06 Nov 1994 08:49:37 GMT"); /* RFC 9110's own example */
    CHECK(fl_fmt_http_date(&f, 1796013751), "Mon, 30 Nov 2026 04:42:31 GMT");
    CHECK(fl_fmt_http_date(&f, -62167219200), "Sat, 01 Jan 0000 00:00:00 GMT");
    CHECK(fl_fmt_http_date(&f, INT64_MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
}

static void dates_agree_with_libc(void **state)
{
    (void)state;
    struct fl_rng r;
    fl_rng_seed(&r, 3);
    for (int i = 0; i < 200000; i++) {
        /* every day of 1890-2110 first, then anywhere between the years 0 and 9999 */
        int64_t t = i < 80354 ? (int64_t)(i - 29220) * 86400 + fl_rng_below(&r, 86400)
                              : -62167219200 + (int64_t)(fl_rng_next(&r) % 315569520000u);
        char want[64];
        struct tm tm;
        time_t at = (time_t)t;
        assert_non_null(gmtime_r(&at, &tm));
        if (tm.tm_year < -900) {
            continue; /* strftime does not pad such years */
        }
        struct fl_fmt f = fresh();
        fl_fmt_http_date(&f, t);
        assert_true(strftime(want, sizeof want, "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0);
        assert_string_equal(text, want);
        f = fresh();
        fl_fmt_rfc3339(&f, t * 1000 + 7);
        assert_true(strftime(want, sizeof want, "%Y-%m-%dT%H:%M:%S.007Z", &tm) > 0);
        assert_string_equal(text, want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),
        cmocka_unit_test(seconds_are_rounded_to_milliseconds),
        cmocka_unit_test(json_escapes_what_it_must),
        cmocka_unit_test(every_dialect_escapes_at_every_place),
        cmocka_unit_test(json_shows_bytes_that_are_no_utf8),
        cmocka_unit_test(json_is_clean_for_any_bytes),
        cmocka_unit_test(other_dialects),
        cmocka_unit_test(what_does_not_fit_is_dropped_whole),
        cmocka_unit_test(known_dates),
        cmocka_unit_test(dates_agree_with_libc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
