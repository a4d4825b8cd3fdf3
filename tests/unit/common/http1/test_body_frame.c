#include "common/http1/body_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/fmt.h"

enum { LIMIT = 65536 };

/* What a whole stream came to, fed step bytes at a time and kept as the contract says. */
struct outcome {
    enum fl_body_piece last;
    enum fl_http_error error;
    size_t used;
    char body[256], trailers[512]; /* each trailer line ends in '|' */
    struct fl_body_frame frame;
};

static struct outcome feed(struct fl_body_frame f, const char *in, size_t len, size_t step)
{
    struct outcome o = {.last = FL_BODY_MORE};
    struct fl_fmt body = fl_fmt_of(o.body, sizeof(o.body));
    struct fl_fmt trailers = fl_fmt_of(o.trailers, sizeof(o.trailers));
    size_t have = 0;
    for (;;) {
        size_t used;
        struct fl_span data;
        o.last = fl_body_frame_next(&f, in + o.used, have, &used, &data);
        assert_true(used <= have);
        assert_true(data.len == 0 ||
                    (data.ptr >= in + o.used && data.ptr + data.len <= in + o.used + used));
        o.used += used;
        have -= used;
        if (o.last == FL_BODY_DATA) {
            assert_true(data.len > 0);
            fl_fmt_span(&body, data);
        } else if (o.last == FL_BODY_TRAILER) {
            fl_fmt_span(&trailers, data);
            fl_fmt_char(&trailers, '|');
        } else if (o.last != FL_BODY_MORE || o.used + have == len) {
            break;
        } else {
            have = o.used + have + step < len ? have + step : len - o.used;
        }
    }
    o.error = f.error;
    o.frame = f;
    return o;
}

static struct outcome chunked(const char *in, size_t len, uint32_t limit)
{
    struct fl_body_frame f;
    fl_body_frame_init(&f, FL_FRAMING_CHUNKED, 0, limit);
    struct outcome whole = feed(f, in, len, len ? len : 1);
    for (size_t step = 1; step < 9 && step < len; step++) {
        struct outcome parts = feed(f, in, len, step);
        assert_int_equal(parts.last, whole.last);
        assert_int_equal(parts.error, whole.error);
        assert_string_equal(parts.body, whole.body);
        assert_string_equal(parts.trailers, whole.trailers);
        assert_int_equal(parts.used, whole.used);
    }
    return whole;
}

static struct outcome chunked_text(const char *in)
{
    return chunked(in, strlen(in), LIMIT);
}

static void good_chunks(void **state)
{
    static const struct {
        const char *in, *body, *trailers, *rest;
    } cases[] = {
        {"0\r\n\r\n", "", "", ""},
        {"5\r\nhello\r\n0\r\n\r\nGET", "hello", "", "GET"},
        {"5\r\nhello\r\n3\r\n\r\n!\r\n000\r\n\r\n", "hello\r\n!", "", ""},
        {"a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789", "", ""},
        {"0000000000000000000000005\r\nhello\r\n0\r\n\r\n", "hello", "", ""},
        {"1 ; a\r\nx\r\n0\t;\tb\t=\t\"\"\r\n\r\n", "x", "", ""},
        {"1;a=b;c=\"d \\\" \\\\ \te\";f\r\nx\r\n0;x=caf\r\n\r\n", "x", "", ""},
        {"1;a=\"caf\xc3\xa9\"\r\nx\r\n0\r\n\r\n", "x", "", ""},
        {"0\r\nX: 1\r\nHost: evil\r\nY:\t2 \r\n\r\n", "", "X: 1|Y:\t2 |", ""},
        {"0\r\nCookie: a\r\n\r\nrest", "", "", "rest"},
    };
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        struct outcome o = chunked_text(cases[i].in);
        assert_int_equal(o.last, FL_BODY_END);
        assert_string_equal(o.body, cases[i].body);
        assert_string_equal(o.trailers, cases[i].trailers);
        assert_string_equal(cases[i].in + o.used, cases[i].rest);
        assert_true(fl_body_frame_ended(&o.frame));
        assert_true(fl_body_frame_eof(&o.frame));
    }
}

static void bad_chunks(void **state)
{
    static const struct {
        const char *in;
        enum fl_http_error error;
    } cases[] = {
        {"\r\n", FL_HTTP_ERR_CHUNK_SIZE},
        {" 5\r\n", FL_HTTP_ERR_CHUNK_SIZE},
        {"+5\r\n", FL_HTTP_ERR_CHUNK_SIZE},
        {"0x5\r\n", FL_HTTP_ERR_CHUNK_SIZE},
        {"5_0\r\n", FL_HTTP_ERR_CHUNK_SIZE},
        {"5g\r\n", FL_HTTP_ERR_CHUNK_SIZE},
        {"5 \r\n", FL_HTTP_ERR_CHUNK_SIZE},
        {"5 5\r\n", FL_HTTP_ERR_CHUNK_SIZE},
        {"5\n", FL_HTTP_ERR_CHUNK_SIZE},
        {"5\rx", FL_HTTP_ERR_BARE_CR},
        {"8000000000000000\r\n", FL_HTTP_ERR_CHUNK_LARGE},
        {"10000000000000005\r\n", FL_HTTP_ERR_CHUNK_LARGE},
        {"5;\r\n", FL_HTTP_ERR_CHUNK_EXTENSION},
        {"5;;\r\n", FL_HTTP_ERR_CHUNK_EXTENSION},
        {"5;a \r\n", FL_HTTP_ERR_CHUNK_EXTENSION},
        {"5;a=\r\n", FL_HTTP_ERR_CHUNK_EXTENSION},
        {"5;a=b \r\n", FL_HTTP_ERR_CHUNK_EXTENSION},
        {"5;a=b c\r\n", FL_HTTP_ERR_CHUNK_EXTENSION},
        {"5;a=b=c\r\n", FL_HTTP_ERR_CHUNK_EXTENSION},
        {"5;a b\r\n", FL_HTTP_ERR_CHUNK_EXTENSION},
        {"5;=b\r\n", FL_HTTP_ERR_CHUNK_EXTENSION},
        {"5;a=\"b\r\n", FL_HTTP_ERR_CHUNK_EXTENSION},
        {"5;a=\"b\"c\r\n", FL_HTTP_ERR_CHUNK_EXTENSION},
        {"5;a=\"b\\\r\n", FL_HTTP_ERR_CHUNK_EXTENSION},
        {"5;a=\"\x7f\"\r\n", FL_HTTP_ERR_CHUNK_EXTENSION},
        {"5;a\nb\r\n", FL_HTTP_ERR_CHUNK_EXTENSION},
        {"5;caf\xc3\xa9\r\n", FL_HTTP_ERR_CHUNK_EXTENSION},
        {"1\r\nxy\r\n", FL_HTTP_ERR_CHUNK_END},
        {"1\r\nx\n", FL_HTTP_ERR_CHUNK_END},
        {"1\r\nx\rx", FL_HTTP_ERR_CHUNK_END},
        {"1\r\nx\r\n\r\n", FL_HTTP_ERR_CHUNK_SIZE},
        {"0\r\nX : y\r\n", FL_HTTP_ERR_TRAILER},
        {"0\r\nX: y\r\n z\r\n", FL_HTTP_ERR_TRAILER},
        {"0\r\nX: y\nZ: 1\r\n", FL_HTTP_ERR_TRAILER},
        {"0\r\nX: y\rz\r\n", FL_HTTP_ERR_TRAILER},
        {"0\r\nX: \x01\r\n", FL_HTTP_ERR_TRAILER},
        {"0\r\nX: \x7f\r\n", FL_HTTP_ERR_TRAILER},
        {"0\r\nXX\r\n", FL_HTTP_ERR_TRAILER},
        {"0\r\n\n", FL_HTTP_ERR_TRAILER},
    };
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        struct outcome o = chunked_text(cases[i].in);
        if (o.last != FL_BODY_ERROR || o.error != cases[i].error) {
            fail_msg("case %zu: piece %d, %s", i, (int)o.last, fl_http_error_text(o.error));
        }
        assert_false(fl_body_frame_eof(&o.frame));
        struct fl_span data;
        size_t used;
        assert_int_equal(fl_body_frame_next(&o.frame, "0\r\n\r\n", 5, &used, &data), FL_BODY_ERROR);
        assert_int_equal(used, 0);
    }
    assert_int_equal(chunked("5\0\r\n", 4, LIMIT).error, FL_HTTP_ERR_CHUNK_SIZE);
}

/* Every place where a chunked body can be cut: never a clean end, never an error. */
static void truncation(void **state)
{
    static const char in[] = "5;a=\"b\"\r\nhello\r\n1\r\n!\r\n0\r\nX: y\r\n\r\n";
    (void)state;
    for (size_t len = 0; len + 1 < sizeof(in) - 1; len++) {
        struct outcome o = chunked(in, len, LIMIT);
        assert_int_equal(o.last, FL_BODY_MORE);
        assert_false(fl_body_frame_eof(&o.frame));
        assert_false(fl_body_frame_ended(&o.frame));
    }
}

/* The largest chunk that is taken, without sending it. */
static void size_limit(void **state)
{
    struct fl_body_frame f;
    struct fl_span data;
    size_t used;
    (void)state;
    fl_body_frame_init(&f, FL_FRAMING_CHUNKED, 0, LIMIT);
    enum fl_body_piece piece = fl_body_frame_next(&f, "7fffffffffffffff\r\nab", 20, &used, &data);
    assert_int_equal(piece, FL_BODY_DATA);
    assert_int_equal(used, 20);
    assert_int_equal(data.len, 2);
    assert_true(f.left == (uint64_t)INT64_MAX - 2);
    assert_int_equal(fl_body_frame_remaining(&f), 0); /* only known with Content-Length */
}

/* Extension bytes are counted over the whole message, leading zeros too. */
static void overhead_limit(void **state)
{
    char *in = malloc(3 * FL_BODY_OVERHEAD_MAX);
    (void)state;
    assert_non_null(in);
    for (int over = 0; over < 2; over++) {
        size_t n = 0;
        memcpy(in + n, "1;", 2); /* the ';' ends the size: not counted */
        n += 2;
        memset(in + n, 'a', FL_BODY_OVERHEAD_MAX - 11);
        n += FL_BODY_OVERHEAD_MAX - 11;
        memcpy(in + n, "\r\nx\r\n", 5); /* CR is counted: 10 left */
        n += 5;
        memset(in + n, '0', 11 + (size_t)over); /* the first zero is a digit like any other */
        n += 11 + (size_t)over;
        memcpy(in + n, "\r\n\r\n", 4);
        n += 4;
        struct fl_body_frame f;
        fl_body_frame_init(&f, FL_FRAMING_CHUNKED, 0, LIMIT);
        struct outcome o = feed(f, in, n, 1000);
        assert_int_equal(o.last, over ? FL_BODY_ERROR : FL_BODY_END);
        assert_int_equal(o.error, over ? FL_HTTP_ERR_CHUNK_OVERHEAD : FL_HTTP_ERR_NONE);
    }
    free(in);
}

/* The same limit where an extension alone reaches it. */
static void extension_limit(void **state)
{
    char *in = malloc(2 * FL_BODY_OVERHEAD_MAX);
    (void)state;
    assert_non_null(in);
    for (size_t over = 0; over < 2; over++) {
        struct fl_fmt t = fl_fmt_of(in, 2 * FL_BODY_OVERHEAD_MAX);
        fl_fmt_text(&t, "0;");
        memset(in + t.len, 'a', FL_BODY_OVERHEAD_MAX - 1 + over);
        t.len += FL_BODY_OVERHEAD_MAX - 1 + over;
        fl_fmt_text(&t, "\r\n\r\n");
        struct fl_body_frame f;
        fl_body_frame_init(&f, FL_FRAMING_CHUNKED, 0, LIMIT);
        struct outcome o = feed(f, in, t.len, 999);
        assert_int_equal(o.last, over ? FL_BODY_ERROR : FL_BODY_END);
        assert_int_equal(o.error, over ? FL_HTTP_ERR_CHUNK_OVERHEAD : FL_HTTP_ERR_NONE);
    }
    free(in);
}

static void trailer_limits(void **state)
{
    static char in[3 * FL_BODY_TRAILER_LINE_MAX];
    struct fl_body_frame f;
    (void)state;
    /* 16 bytes of trailers: two lines of eight, the end does not count */
    assert_int_equal(chunked("0\r\nX: 123\r\nY: 123\r\n\r\n", 23, 16).last, FL_BODY_END);
    assert_int_equal(chunked("0\r\nX: 123\r\nY: 123\r\n\r\n", 23, 15).error,
                     FL_HTTP_ERR_TRAILER_LARGE);
    assert_int_equal(chunked("0\r\nHost: 123\r\n\r\n", 16, 8).error, FL_HTTP_ERR_TRAILER_LARGE);
    assert_int_equal(chunked("0\r\n\r\n", 5, 0).last, FL_BODY_END);
    assert_int_equal(chunked("0\r\nX:\r\n\r\n", 9, 0).error, FL_HTTP_ERR_TRAILER_LARGE);
    /* one line as long as a buffer must be, and one byte more */
    for (size_t over = 0; over < 2; over++) {
        struct fl_fmt t = fl_fmt_of(in, sizeof(in));
        fl_fmt_text(&t, "0\r\nHost:");
        while (t.len < 3 + FL_BODY_TRAILER_LINE_MAX - 2 + over) {
            fl_fmt_char(&t, 'x');
        }
        fl_fmt_text(&t, "\r\n\r\n");
        for (size_t step = 1; step < 6000; step += 997) {
            fl_body_frame_init(&f, FL_FRAMING_CHUNKED, 0, LIMIT);
            struct outcome o = feed(f, in, t.len, step);
            assert_int_equal(o.last, over ? FL_BODY_ERROR : FL_BODY_END);
            assert_int_equal(o.error, over ? FL_HTTP_ERR_TRAILER_LARGE : FL_HTTP_ERR_NONE);
        }
    }
}

static void with_length(void **state)
{
    struct fl_body_frame f;
    struct fl_span data;
    size_t used;
    (void)state;
    fl_body_frame_init(&f, FL_FRAMING_LENGTH, 7, LIMIT);
    assert_int_equal(fl_body_frame_next(&f, "", 0, &used, &data), FL_BODY_MORE);
    assert_int_equal(fl_body_frame_next(&f, "abc", 3, &used, &data), FL_BODY_DATA);
    assert_int_equal(fl_body_frame_remaining(&f), 4);
    assert_false(fl_body_frame_eof(&f));
    fl_body_frame_skip(&f, 2); /* spliced */
    assert_int_equal(fl_body_frame_next(&f, "deGET", 5, &used, &data), FL_BODY_DATA);
    assert_int_equal(used, 2);
    assert_true(fl_body_frame_ended(&f));
    assert_true(fl_body_frame_eof(&f));
    assert_int_equal(fl_body_frame_next(&f, "GET", 3, &used, &data), FL_BODY_END);
    assert_int_equal(used, 0);
    assert_int_equal(fl_body_frame_next(&f, "GET", 3, &used, &data), FL_BODY_END);

    fl_body_frame_init(&f, FL_FRAMING_LENGTH, 0, LIMIT);
    assert_true(fl_body_frame_ended(&f));
    assert_int_equal(fl_body_frame_next(&f, "", 0, &used, &data), FL_BODY_END);
}

static void none_and_until_close(void **state)
{
    struct fl_body_frame f;
    struct fl_span data;
    size_t used;
    (void)state;
    fl_body_frame_init(&f, FL_FRAMING_NONE, 99, LIMIT);
    assert_true(fl_body_frame_ended(&f));
    assert_int_equal(fl_body_frame_next(&f, "x", 1, &used, &data), FL_BODY_END);
    assert_int_equal(used, 0);

    fl_body_frame_init(&f, FL_FRAMING_UNTIL_CLOSE, 0, LIMIT);
    assert_int_equal(fl_body_frame_next(&f, "x\0y", 3, &used, &data), FL_BODY_DATA);
    assert_int_equal(data.len, 3);
    assert_int_equal(fl_body_frame_next(&f, "", 0, &used, &data), FL_BODY_MORE);
    assert_true(fl_body_frame_eof(&f));
    assert_false(fl_body_frame_ended(&f));
}

static void chunk_heads(void **state)
{
    static const struct {
        size_t n;
        const char *text;
    } cases[] = {
        {1, "1\r\n"},
        {15, "f\r\n"},
        {16, "10\r\n"},
        {65536, "10000\r\n"},
        {0xabcdef, "abcdef\r\n"},
        {SIZE_MAX, "ffffffffffffffff\r\n"},
    };
    char out[FL_CHUNK_HEAD_BYTES];
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        size_t n = fl_chunk_head(out, cases[i].n);
        assert_int_equal(n, strlen(cases[i].text));
        assert_memory_equal(out, cases[i].text, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_chunks),          cmocka_unit_test(bad_chunks),
        cmocka_unit_test(truncation),           cmocka_unit_test(size_limit),
        cmocka_unit_test(overhead_limit),       cmocka_unit_test(extension_limit),
        cmocka_unit_test(trailer_limits),       cmocka_unit_test(with_length),
        cmocka_unit_test(none_and_until_close), cmocka_unit_test(chunk_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
