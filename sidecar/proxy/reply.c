#include "sidecar/proxy/reply.h"

#include <string.h>

#include "common/base/fmt.h"
#include "common/http1/head_write.h"
#include "sidecar/proxy/exchange.h"
#include "sidecar/proxy/worker.h"

enum { BODY_MAX = 6144 }; /* a long Resource is cut before it comes to that */

static bool takes_s3_form(const struct fl_exchange *x)
{
    if (x->backend != NULL) {
        return x->backend->conf->protocol == FL_PROTOCOL_S3;
    }
    return x->snapshot->any_s3;
}

static const char *backend_name(const struct fl_exchange *x)
{
    return x->backend != NULL ? x->backend->conf->name : "";
}

/* "bucket 'releases', backend 'minio': <title>: <cause>; first peer released in 3.2 s" */
static void print_message(const struct fl_exchange *x, const struct fl_answer_row *row,
                          int64_t release_at_ms, struct fl_fmt *f)
{
    if (x->bucket[0] != '\0') {
        fl_fmt_text(f, "bucket '");
        fl_fmt_text(f, x->bucket);
        fl_fmt_text(f, "', ");
    }
    if (x->backend != NULL) {
        fl_fmt_text(f, "backend '");
        fl_fmt_text(f, backend_name(x));
        fl_fmt_text(f, "': ");
    }
    fl_fmt_text(f, row->title);
    if (x->cause.text[0] != '\0') {
        fl_fmt_text(f, ": ");
        fl_fmt_text(f, x->cause.text);
    }
    int64_t wait_ms = release_at_ms - fl_worker_now_ms(x->worker);
    if (release_at_ms > 0 && wait_ms > 0) {
        fl_fmt_text(f, "; the first peer is released in ");
        fl_fmt_secs(f, wait_ms * 1000);
        fl_fmt_text(f, " s");
    }
}

static struct fl_span resource(const struct fl_exchange *x)
{
    return fl_span_first(x->target.path, 1024);
}

static void print_xml(const struct fl_exchange *x, const struct fl_answer_row *row,
                      struct fl_span message, struct fl_fmt *f)
{
    const struct {
        const char *name;
        struct fl_span value;
    } parts[] = {
        {"Code", fl_span_of(row->s3_code)},
        {"Message", message},
        {"Resource", resource(x)},
        {"RequestId", fl_span_of(x->request_id)},
        {"HostId", fl_span_of("fairlead")},
        {"Backend", fl_span_of(backend_name(x))},
        {"Cause", fl_span_of(x->cause.text)},
    };
    fl_fmt_text(f, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>");
    for (size_t i = 0; i < FL_COUNTOF(parts); i++) {
        fl_fmt_char(f, '<');
        fl_fmt_text(f, parts[i].name);
        fl_fmt_char(f, '>');
        fl_fmt_xml(f, parts[i].value);
        fl_fmt_text(f, "</");
        fl_fmt_text(f, parts[i].name);
        fl_fmt_char(f, '>');
    }
    fl_fmt_text(f, "</Error>\n");
}

static void print_problem(const struct fl_exchange *x, const struct fl_answer_row *row,
                          struct fl_span message, struct fl_fmt *f)
{
    const struct {
        const char *name;
        struct fl_span value;
    } parts[] = {
        {"detail", message},
        {"token", fl_span_of(row->token)},
        {"route", fl_span_of(x->policy != NULL ? x->policy->route : "")},
        {"backend", fl_span_of(backend_name(x))},
        {"cause", fl_span_of(x->cause.text)},
    };
    fl_fmt_text(f, "{\"type\":\"about:blank\",\"title\":\"");
    fl_fmt_json(f, fl_span_of(row->title));
    fl_fmt_text(f, "\",\"status\":");
    fl_fmt_int(f, x->status);
    for (size_t i = 0; i < FL_COUNTOF(parts); i++) {
        fl_fmt_text(f, ",\"");
        fl_fmt_text(f, parts[i].name);
        fl_fmt_text(f, "\":\"");
        fl_fmt_json(f, parts[i].value);
        fl_fmt_text(f, "\"");
    }
    fl_fmt_text(f, "}\n");
}

static const char *reason(int status)
{
    switch (status) {
    case 400:
        return "Bad Request";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 408:
        return "Request Timeout";
    case 413:
        return "Content Too Large";
    case 414:
        return "URI Too Long";
    case 417:
        return "Expectation Failed";
    case 421:
        return "Misdirected Request";
    case 431:
        return "Request Header Fields Too Large";
    case 501:
        return "Not Implemented";
    case 502:
        return "Bad Gateway";
    case 503:
        return "Service Unavailable";
    case 504:
        return "Gateway Timeout";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "Error";
    }
}

/* A quoted string of RFC 8941 section 3.3.3. */
static void print_sf_string(struct fl_fmt *f, struct fl_span s)
{
    size_t from = 0;
    fl_fmt_char(f, '"');
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '"' || s.ptr[i] == '\\') {
            fl_fmt_header(f, (struct fl_span){s.ptr + from, i - from});
            fl_fmt_char(f, '\\');
            from = i;
        }
    }
    fl_fmt_header(f, (struct fl_span){s.ptr + from, s.len - from});
    fl_fmt_char(f, '"');
}

static void print_facts(const struct fl_exchange *x, const struct fl_answer_row *row,
                        struct fl_fmt *f)
{
    const char *error = fl_outcome_row(x->ended)->proxy_status;
    fl_fmt_text(f, "Proxy-Status: fairlead; error=");
    fl_fmt_text(f, error[0] != '\0' && fl_outcome_row(x->ended)->answer == x->answer
                       ? error
                       : row->proxy_status);
    if (x->cause.text[0] != '\0') {
        fl_fmt_text(f, "; details=");
        print_sf_string(f, fl_span_of(x->cause.text));
    }
    fl_fmt_text(f, "\r\n");
    fl_head_write_field(f, "X-Fairlead-Error", fl_span_of(row->token));
    if (x->backend != NULL) {
        fl_head_write_field(f, "X-Fairlead-Backend", fl_span_of(backend_name(x)));
        fl_head_write_field(f, "X-Fairlead-Cause", fl_span_of(x->cause.text));
    }
    if (x->status == 502 || x->status == 503 || x->status == 504) {
        fl_fmt_text(f, "Retry-After: 1\r\n");
    }
}

static void print_connection(const struct fl_exchange *x, struct fl_fmt *f)
{
    if (!x->keep_alive) {
        fl_fmt_text(f, "Connection: close\r\n");
    } else if (x->request.minor == 0) {
        fl_fmt_text(f, "Connection: keep-alive\r\n");
    }
}

static void print_head(const struct fl_exchange *x, const struct fl_answer_row *row, bool s3,
                       size_t length, struct fl_fmt *f)
{
    fl_fmt_text(f, "HTTP/1.1 ");
    fl_fmt_int(f, x->status);
    fl_fmt_char(f, ' ');
    fl_fmt_text(f, reason(x->status));
    fl_fmt_text(f, "\r\nDate: ");
    fl_fmt_http_date(f, fl_reactor_wall_ms(x->worker->reactor) / 1000);
    fl_fmt_text(f, s3 ? "\r\nContent-Type: application/xml\r\n"
                      : "\r\nContent-Type: application/problem+json\r\n");
    fl_head_write_uint(f, "Content-Length", length);
    if (s3) {
        fl_head_write_field(f, "x-amz-request-id", fl_span_of(x->request_id));
        fl_head_write_field(f, "x-amz-id-2", FL_SPAN("fairlead"));
    } else {
        fl_head_write_field(f, "x-request-id", fl_span_of(x->request_id));
    }
    print_facts(x, row, f);
    print_connection(x, f);
    fl_fmt_text(f, "\r\n");
}

bool fl_reply_prepare(struct fl_exchange *x, int64_t release_at_ms)
{
    const struct fl_answer_row *row = fl_answer_row(x->answer);
    bool s3 = takes_s3_form(x);
    x->status = s3 ? row->s3_status : row->http_status;
    x->keep_alive = x->keep_alive && x->body.complete && !x->malformed && !x->worker->draining;
    x->reply = fl_buffer_take(&x->worker->buffers, FL_BUFFER_16K, FL_BUFFER_FOR_ANSWER);
    if (x->reply == NULL) {
        return false;
    }
    char text[1024];
    struct fl_fmt message = fl_fmt_of(text, sizeof text);
    print_message(x, row, release_at_ms, &message);
    struct fl_fmt body = fl_fmt_of(x->reply->bytes + (x->reply->cap - BODY_MAX), BODY_MAX);
    (s3 ? print_xml : print_problem)(x, row, (struct fl_span){text, message.len}, &body);
    struct fl_fmt head = fl_fmt_of(x->reply->bytes, x->reply->cap - BODY_MAX);
    print_head(x, row, s3, body.len, &head);
    FL_MUST(!head.cut);
    struct fl_gather *out = &x->to_client;
    if (out->left == 0) {
        fl_gather_clear(out); /* else a 100 Continue is still on its way, and goes first */
    }
    fl_gather_add(out, head.base, head.len);
    if (x->request.method != FL_METHOD_HEAD) {
        fl_gather_add(out, body.base, body.len);
    }
    return true;
}

bool fl_reply_options(struct fl_exchange *x)
{
    x->status = 200;
    x->keep_alive = x->keep_alive && x->body.complete && !x->worker->draining;
    x->reply = fl_buffer_take(&x->worker->buffers, FL_BUFFER_4K, FL_BUFFER_FOR_ANSWER);
    if (x->reply == NULL) {
        return false;
    }
    struct fl_fmt f = fl_fmt_of(x->reply->bytes, x->reply->cap);
    fl_fmt_text(&f, "HTTP/1.1 200 OK\r\nAllow: GET, HEAD, PUT, POST, DELETE, OPTIONS, "
                    "PATCH\r\nContent-Length: 0\r\nDate: ");
    fl_fmt_http_date(&f, fl_reactor_wall_ms(x->worker->reactor) / 1000);
    fl_fmt_text(&f, "\r\n");
    print_connection(x, &f);
    fl_fmt_text(&f, "\r\n");
    fl_gather_clear(&x->to_client);
    fl_gather_add(&x->to_client, f.base, f.len);
    return true;
}
