/* A response head; the first byte picks the request's method. The same oracles as for requests. */
#include "tests/fuzz/common/http1/head_oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fl_response_head first, second;
static char text[2 * FL_HTTP_HEAD_MAX];

static void check_response(const char *buf, enum fl_http_method method)
{
    const struct fl_response_head *r = &first;
    FL_MUST(r->status >= 100 && r->status <= 599 && r->status != 101);
    FL_MUST(r->head.start_off == 0 && r->reason_off + r->reason_len == r->head.fields_off - 2);
    FL_MUST(oracle_is_text((struct fl_span){buf + r->reason_off, r->reason_len}));
    bool bodyless =
        method == FL_METHOD_HEAD || r->status < 200 || r->status == 204 || r->status == 304;
    FL_MUST((r->framing == FL_FRAMING_NONE) == bodyless);
    FL_MUST(r->framing != FL_FRAMING_UNTIL_CLOSE || !r->keep_alive);
    FL_MUST(r->framing != FL_FRAMING_CHUNKED || r->minor == 1);
    FL_MUST(r->content_length <= INT64_MAX);
    FL_MUST(fl_response_sniff(buf, r->head.length) == FL_HTTP_ERR_NONE);
}

static void round_trip(const char *buf, enum fl_http_method method)
{
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    if (first.rewrite_line) {
        fl_head_write_status_line(&f, buf, &first);
    }
    fl_head_copy(&f, buf, &first.head, FL_FIELD_HOP, !first.rewrite_line);
    unsigned after = first.rewrite_length || first.framing == FL_FRAMING_CHUNKED;
    if (first.rewrite_length) {
        fl_head_write_uint(&f, "Content-Length", first.content_length);
    } else if (after) {
        fl_head_write_field(&f, "Transfer-Encoding", FL_SPAN("chunked"));
    }
    fl_fmt_text(&f, "\r\n");
    FL_MUST(!f.cut);
    size_t scan = 0;
    if (f.len > FL_HTTP_HEAD_MAX) {
        return;
    }
    FL_MUST(fl_head_end(text, f.len, &scan) == (ptrdiff_t)f.len);
    enum fl_http_error error = fl_response_parse(text, f.len, method, &second);
    FL_MUST(error == FL_HTTP_ERR_NONE);
    oracle_fields(text, &second.head);
    FL_MUST(second.status == first.status && !second.rewrite_line && !second.rewrite_length);
    FL_MUST(second.framing == first.framing && second.content_length == first.content_length);
    FL_MUST(second.reason_len == first.reason_len);
    oracle_kept(buf, &first.head, text, &second.head, 0, after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    enum fl_http_method method = (enum fl_http_method)(data[0] % FL_METHOD_COUNT);
    ptrdiff_t n = oracle_end((const char *)data + 1, size - 1);
    oracle_at_once((const char *)data + 1, size - 1, &method);
    if (n <= 0) {
        return 0;
    }
    char *buf = malloc((size_t)n);
    FL_MUST(buf != NULL);
    memcpy(buf, data + 1, (size_t)n);
    enum fl_http_error error = fl_response_parse(buf, (size_t)n, method, &first);
    FL_MUST(error < FL_HTTP_ERR_COUNT);
    if (error == FL_HTTP_ERR_NONE) {
        oracle_fields(buf, &first.head);
        oracle_identity(buf, &first.head);
        check_response(buf, method);
        round_trip(buf, method);
    }
    free(buf);
    return 0;
}
