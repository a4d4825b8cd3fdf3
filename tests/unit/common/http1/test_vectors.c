/* The conformance vectors (vectors.txt) against the parser alone: each whole, and byte by byte.
 * What is accepted is written out as the proxy would send it and must parse again to the same
 * thing. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/http1/body_frame.h"
#include "common/http1/head_write.h"
#include "common/http1/headers.h"
#include "tests/fuzz/common/http1/head_oracle.h"

enum { RAW_MAX = 1 << 17, CHECKS_MAX = 8 };

struct vector {
    char id[64];
    bool response;
    enum fl_http_method method;
    char *raw;
    size_t len;
    char expect[16];
    unsigned requests;
    char *checks[CHECKS_MAX]; /* "body X", "target X", "field N=X", "absent N" */
    unsigned check_count;
};

/* What came of one vector. */
struct result {
    enum fl_http_error error;
    bool incomplete;
    unsigned messages;
    char *body; /* of the first message */
    size_t body_len;
    char *head; /* of the first message, as it goes on */
    size_t head_len;
};

static size_t unescape(const char *s, char *out)
{
    size_t n = 0;
    while (*s != '\0') {
        if (*s != '\\') {
            out[n++] = *s++;
            continue;
        }
        s++;
        if (*s == 'x') {
            char hex[3] = {s[1], s[2], '\0'};
            out[n++] = (char)strtoul(hex, NULL, 16);
            s += 3;
        } else if (*s == '*') {
            char *comma;
            unsigned long times = strtoul(s + 1, &comma, 10);
            memset(out + n, comma[1], times);
            n += times;
            s = comma + 2;
        } else {
            out[n++] = (char)(*s == 'r' ? '\r' : *s == 'n' ? '\n' : *s == 't' ? '\t' : '\\');
            s++;
        }
    }
    return n;
}

static char *copy(const char *s, size_t len)
{
    char *p = malloc(len + 1);
    assert_non_null(p);
    memcpy(p, s, len);
    p[len] = '\0';
    return p;
}

/* Reads the next vector; false at the end. The line after its last one is kept in *line. */
static bool read_vector(FILE *in, char *line, struct vector *v)
{
    static char raw[RAW_MAX];
    char side[16], method[16];
    while (strncmp(line, "= ", 2) != 0) {
        if (!fgets(line, RAW_MAX, in)) {
            return false;
        }
    }
    memset(v, 0, sizeof(*v));
    assert_int_equal(sscanf(line, "= %63s %15s %15s", v->id, side, method), 3);
    v->response = strcmp(side, "response") == 0;
    v->method = fl_method_of(fl_span_of(method));
    v->requests = 1;
    while (fgets(line, RAW_MAX, in) && strncmp(line, "= ", 2) != 0) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "raw ", 4) == 0) {
            v->len = unescape(line + 4, raw);
            v->raw = copy(raw, v->len);
        } else if (sscanf(line, "expect %15s", v->expect) == 1 ||
                   sscanf(line, "requests %u", &v->requests) == 1) {
            continue;
        } else {
            assert_true(v->check_count < CHECKS_MAX);
            v->checks[v->check_count++] = copy(line, strlen(line));
        }
    }
    assert_non_null(v->raw);
    return true;
}

static void free_vector(struct vector *v)
{
    for (unsigned i = 0; i < v->check_count; i++) {
        free(v->checks[i]);
    }
    free(v->raw);
}

union head {
    struct fl_request_head q;
    struct fl_response_head a;
};

/* The head as the proxy writes it, without framing of its own for chunked bodies. */
static void write_out(const struct vector *v, const char *buf, const union head *h,
                      struct result *res)
{
    char *out = malloc(RAW_MAX);
    assert_non_null(out);
    struct fl_fmt f = fl_fmt_of(out, RAW_MAX);
    bool rewrite = v->response ? h->a.rewrite_line : h->q.rewrite_line;
    bool length = v->response ? h->a.rewrite_length : h->q.rewrite_length;
    if (rewrite && v->response) {
        fl_head_write_status_line(&f, buf, &h->a);
    } else if (rewrite) {
        fl_head_write_request_line(&f, buf, &h->q);
    }
    fl_head_copy(&f, buf, v->response ? &h->a.head : &h->q.head, FL_FIELD_HOP, !rewrite);
    if (!v->response && h->q.host_len == 0) {
        fl_head_write_field(&f, "Host", FL_SPAN("10.0.0.1:80"));
    }
    if (length) {
        fl_head_write_uint(&f, "Content-Length",
                           v->response ? h->a.content_length : h->q.content_length);
    }
    fl_fmt_text(&f, "\r\n");
    assert_false(f.cut);
    res->head = out;
    res->head_len = f.len;
}

/* Feeds step bytes more at a time and takes one head; its length, or 0 with res telling why not. */
static size_t take_head(const struct vector *v, size_t at, size_t step, union head *h,
                        struct result *res)
{
    size_t have = 0, scan = 0;
    ptrdiff_t n = 0;
    oracle_at_once(v->raw + at, v->len - at, v->response ? &v->method : NULL);
    while (n == 0 && have < v->len - at) {
        have = have + step < v->len - at ? have + step : v->len - at;
        if (v->response && fl_response_sniff(v->raw + at, have) != FL_HTTP_ERR_NONE) {
            res->error = FL_HTTP_ERR_NOT_HTTP;
            return 0;
        }
        n = fl_head_end(v->raw + at, have, &scan);
    }
    if (n <= 0) {
        res->error = (enum fl_http_error) - n;
        res->incomplete = n == 0;
        return 0;
    }
    res->error = v->response ? fl_response_parse(v->raw + at, (size_t)n, v->method, &h->a)
                             : fl_request_parse(v->raw + at, (size_t)n, &h->q);
    return res->error == FL_HTTP_ERR_NONE ? (size_t)n : 0;
}

static size_t take_body(const struct vector *v, size_t at, size_t step, struct fl_body_frame *f,
                        struct result *res)
{
    size_t start = at, have = 0, used;
    struct fl_span data;
    for (;;) {
        enum fl_body_piece piece = fl_body_frame_next(f, v->raw + at, have, &used, &data);
        at += used;
        have -= used;
        if (piece == FL_BODY_DATA && res->messages == 0) {
            memcpy(res->body + res->body_len, data.ptr, data.len);
            res->body_len += data.len;
        }
        if (piece == FL_BODY_ERROR) {
            res->error = f->error;
            return at - start;
        }
        if (piece == FL_BODY_END) {
            return at - start;
        }
        if (piece == FL_BODY_MORE && at + have == v->len) {
            res->incomplete = !fl_body_frame_eof(f);
            return at - start;
        }
        if (piece == FL_BODY_MORE) {
            have = at + have + step < v->len ? have + step : v->len - at;
        }
    }
}

static void run(const struct vector *v, size_t step, struct result *res)
{
    static union head h;
    memset(res, 0, sizeof(*res));
    res->body = malloc(v->len + 1);
    assert_non_null(res->body);
    for (size_t at = 0; at < v->len;) {
        size_t n = take_head(v, at, step, &h, res);
        if (n == 0) {
            return;
        }
        if (v->response && h.a.status < 200) {
            at += n;
            res->incomplete = at == v->len; /* no final response came */
            continue;
        }
        if (res->messages == 0) {
            write_out(v, v->raw + at, &h, res);
        }
        struct fl_body_frame f;
        fl_body_frame_init(&f, v->response ? h.a.framing : h.q.framing,
                           v->response ? h.a.content_length : h.q.content_length, 65536);
        at += n;
        at += take_body(v, at, step, &f, res);
        if (res->error != FL_HTTP_ERR_NONE || res->incomplete) {
            return;
        }
        if (++res->messages == v->requests || !(v->response ? h.a.keep_alive : h.q.keep_alive)) {
            return;
        }
    }
}

static void check_forwarded(const struct vector *v, const char *check, const union head *h,
                            const struct result *res)
{
    static char want[RAW_MAX];
    const struct fl_http_head *head = v->response ? &h->a.head : &h->q.head;
    if (strncmp(check, "body", 4) == 0) {
        size_t n = unescape(check[4] ? check + 5 : "", want);
        assert_int_equal(res->body_len, n);
        assert_memory_equal(res->body, want, n);
    } else if (strncmp(check, "target ", 7) == 0) {
        size_t n = unescape(check + 7, want);
        assert_int_equal(h->q.target_len, n);
        assert_memory_equal(res->head + h->q.target_off, want, n);
    } else if (strncmp(check, "absent ", 7) == 0) {
        assert_null(fl_headers_find_name(res->head, head, fl_span_of(check + 7)));
    } else {
        assert_memory_equal(check, "field ", 6);
        const char *equals = strchr(check, '=');
        assert_non_null(equals);
        struct fl_span name = {check + 6, (size_t)(equals - check - 6)};
        const struct fl_http_field *f = fl_headers_find_name(res->head, head, name);
        assert_non_null(f);
        size_t n = unescape(equals + 1, want);
        assert_int_equal(f->value_len, n);
        assert_memory_equal(res->head + f->value_off, want, n);
    }
}

static void judge(const struct vector *v, const struct result *res)
{
    static union head h;
    if (strcmp(v->expect, "forward") == 0) {
        assert_int_equal(res->error, FL_HTTP_ERR_NONE);
        assert_false(res->incomplete);
        assert_int_equal(res->messages, v->requests);
        size_t scan = 0;
        assert_int_equal(fl_head_end(res->head, res->head_len, &scan), res->head_len);
        enum fl_http_error error =
            v->response ? fl_response_parse(res->head, res->head_len, v->method, &h.a)
                        : fl_request_parse(res->head, res->head_len, &h.q);
        assert_int_equal(error, FL_HTTP_ERR_NONE);
        assert_false(v->response ? h.a.rewrite_line : h.q.rewrite_line);
        for (unsigned i = 0; i < v->check_count; i++) {
            check_forwarded(v, v->checks[i], &h, res);
        }
    } else if (strcmp(v->expect, "incomplete") == 0) {
        assert_int_equal(res->error, FL_HTTP_ERR_NONE);
        assert_true(res->incomplete);
    } else {
        assert_int_not_equal(res->error, FL_HTTP_ERR_NONE);
        if (!v->response) {
            assert_int_equal(fl_http_error_status(res->error), atoi(v->expect));
        }
        assert_true(strlen(fl_http_error_text(res->error)) > 0);
    }
}

static void free_result(struct result *res)
{
    free(res->head);
    free(res->body);
}

static char current[64]; /* the vector under test, for the message when it fails */

static void each_vector(size_t step)
{
    static char line[RAW_MAX];
    struct vector v;
    unsigned count = 0;
    FILE *in = fopen(FL_SOURCE_DIR "/tests/unit/common/http1/vectors.txt", "r");
    assert_non_null(in);
    line[0] = '\0';
    while (read_vector(in, line, &v)) {
        struct result res;
        memcpy(current, v.id, sizeof(current));
        run(&v, step, &res);
        judge(&v, &res);
        free_result(&res);
        free_vector(&v);
        count++;
    }
    fclose(in);
    current[0] = '\0';
    assert_true(count > 300);
}

static void whole(void **state)
{
    (void)state;
    each_vector(RAW_MAX);
}

static void byte_by_byte(void **state)
{
    (void)state;
    each_vector(1);
}

static void seven_bytes(void **state)
{
    (void)state;
    each_vector(7);
}

static int say_which(void **state)
{
    (void)state;
    if (current[0] != '\0') {
        print_error("vector: %s\n", current);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(whole, say_which),
        cmocka_unit_test_teardown(byte_by_byte, say_which),
        cmocka_unit_test_teardown(seven_bytes, say_which),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
