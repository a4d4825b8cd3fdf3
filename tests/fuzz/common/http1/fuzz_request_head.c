/* A request head: found alike in any pieces, parsed within bounds, and what is forwarded of it
 * parses again to the same request. */
#include "tests/fuzz/common/http1/head_oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fl_request_head first, second;
static char text[2 * FL_HTTP_HEAD_MAX];

static void check_request(const char *buf)
{
    const struct fl_request_head *r = &first;
    struct fl_span target = {buf + r->target_off, r->target_len};
    FL_MUST(r->head.start_off <= 2 * FL_HTTP_LEADING_CRLF_MAX);
    FL_MUST(r->method_len > 0 && r->method_len <= FL_METHOD_MAX_BYTES);
    FL_MUST(r->target_off == r->head.start_off + r->method_len + 1);
    FL_MUST(r->target_len > 0 && r->target_off + r->target_len < r->head.fields_off);
    FL_MUST(r->path_off >= r->target_off);
    FL_MUST(r->path_off + r->path_len == r->target_off + r->target_len);
    FL_MUST(fl_span_find(target, ' ') < 0 && fl_span_find(target, '#') < 0);
    FL_MUST(r->host_len > 0 || (r->minor == 0 && r->form != FL_TARGET_ABSOLUTE));
    FL_MUST(r->host_off + r->host_len <= r->head.length);
    FL_MUST(fl_span_find((struct fl_span){buf + r->host_off, r->host_len}, '@') < 0);
    FL_MUST(r->framing != FL_FRAMING_UNTIL_CLOSE && r->content_length <= INT64_MAX);
    FL_MUST(r->framing == FL_FRAMING_LENGTH || r->content_length == 0);
    FL_MUST(r->framing != FL_FRAMING_CHUNKED || r->minor == 1);
    FL_MUST(r->method != FL_METHOD_CONNECT && r->method != FL_METHOD_TRACE);
}

/* As the proxy writes it; chunked framing is its own line. */
static size_t forward(const char *buf)
{
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    if (first.rewrite_line) {
        fl_head_write_request_line(&f, buf, &first);
    }
    fl_head_copy(&f, buf, &first.head, FL_FIELD_HOP, !first.rewrite_line);
    if (first.host_len == 0) {
        fl_head_write_field(&f, "Host", FL_SPAN("h"));
    } else if (first.rewrite_length) {
        fl_head_write_uint(&f, "Content-Length", first.content_length);
    } else if (first.framing == FL_FRAMING_CHUNKED) {
        fl_head_write_field(&f, "Transfer-Encoding", FL_SPAN("chunked"));
    }
    fl_fmt_text(&f, "\r\n");
    FL_MUST(!f.cut);
    return f.len;
}

static void round_trip(const char *buf)
{
    size_t len = forward(buf), scan = 0;
    /* one line of ours at most is asked for here; the rare rest would need two */
    unsigned after =
        first.host_len == 0 || first.rewrite_length || first.framing == FL_FRAMING_CHUNKED;
    unsigned before = first.host_len > 0 && first.host_off < first.head.fields_off;
    if (len > FL_HTTP_HEAD_MAX || (first.host_len == 0 && first.rewrite_length)) {
        return;
    }
    FL_MUST(fl_head_end(text, len, &scan) == (ptrdiff_t)len);
    enum fl_http_error error = fl_request_parse(text, len, &second);
    FL_MUST(error == FL_HTTP_ERR_NONE ||
            (error == FL_HTTP_ERR_FIELDS_MANY && first.head.count + 1 >= FL_HTTP_FIELDS_MAX));
    if (error != FL_HTTP_ERR_NONE) {
        return;
    }
    oracle_fields(text, &second.head);
    FL_MUST(second.method == first.method && second.method_len == first.method_len);
    FL_MUST(memcmp(text, buf + first.head.start_off, first.method_len) == 0);
    FL_MUST(!second.rewrite_line && second.minor == 1 && !second.rewrite_length);
    FL_MUST(second.framing == first.framing && second.content_length == first.content_length);
    FL_MUST(second.expect_continue == first.expect_continue);
    FL_MUST(first.host_len == 0 ||
            fl_span_eq((struct fl_span){buf + first.host_off, first.host_len},
                       (struct fl_span){text + second.host_off, second.host_len}));
    FL_MUST(fl_headers_find(&second.head, FL_HTTP_CONNECTION) == NULL);
    oracle_kept(buf, &first.head, text, &second.head, before, after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ptrdiff_t n = oracle_end((const char *)data, size);
    oracle_at_once((const char *)data, size, NULL);
    if (n <= 0) {
        FL_MUST(n == 0 || fl_http_error_status((enum fl_http_error) - n) >= 400);
        return 0;
    }
    char *buf = malloc((size_t)n);
    FL_MUST(buf != NULL);
    memcpy(buf, data, (size_t)n);
    enum fl_http_error error = fl_request_parse(buf, (size_t)n, &first);
    FL_MUST(error < FL_HTTP_ERR_COUNT);
    if (error == FL_HTTP_ERR_NONE) {
        oracle_fields(buf, &first.head);
        oracle_identity(buf, &first.head);
        check_request(buf);
        round_trip(buf);
    }
    free(buf);
    return 0;
}
