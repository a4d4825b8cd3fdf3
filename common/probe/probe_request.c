#include "common/probe/probe_request.h"

#include <errno.h>

#include "common/http1/head_write.h"

#define AUTHORIZATION_MAX 640
#define PATH_MAX_BYTES    3200 /* every byte of the longest path escaped */

enum fl_http_method fl_probe_request_method(enum fl_probe_request what)
{
    FL_MUST(what != FL_PROBE_REQUEST_CONNECT);
    return what == FL_PROBE_REQUEST_HEAD_BUCKET ? FL_METHOD_HEAD : FL_METHOD_GET;
}

/* The path of an http probe may be escaped already: only what cannot stand in a request line is. */
static void put_target(struct fl_fmt *f, const char *path)
{
    for (const char *p = path; *p != '\0'; p++) {
        if (*p <= ' ' || *p >= 0x7f) {
            fl_s3_sign_escape(f, (struct fl_span){p, 1}, false);
        } else {
            fl_fmt_char(f, *p);
        }
    }
}

static int put_signature(const struct fl_probe_target *t, const char *host,
                         const struct fl_probe_keys *keys, const char *method, struct fl_span path,
                         int64_t wall_ms, struct fl_fmt *f)
{
    char date[FL_S3_DATE_TEXT], text[AUTHORIZATION_MAX];
    struct fl_fmt value = fl_fmt_of(text, sizeof(text));
    fl_s3_sign_date(wall_ms / 1000, date);
    const struct fl_s3_field fields[] = {
        {"host", fl_span_of(host)},
        {"x-amz-content-sha256", FL_SPAN(FL_S3_EMPTY_PAYLOAD)},
        {"x-amz-date", fl_span_of(date)},
    };
    const struct fl_s3_request rq = {.method = method,
                                     .path = path,
                                     .fields = fields,
                                     .field_count = FL_COUNTOF(fields),
                                     .payload = FL_S3_EMPTY_PAYLOAD};
    const struct fl_s3_keys pair = {keys->access_key, keys->secret_key};
    const struct fl_s3_scope scope = {t->region, "s3"};
    int rc = fl_s3_sign(&pair, &scope, &rq, date, &value);
    if (rc == 0) {
        fl_head_write_field(f, "x-amz-content-sha256", FL_SPAN(FL_S3_EMPTY_PAYLOAD));
        fl_head_write_field(f, "x-amz-date", fl_span_of(date));
        fl_head_write_field(f, "Authorization", (struct fl_span){value.base, value.len});
    }
    return rc;
}

int fl_probe_request_write(const struct fl_probe_target *t, const char *host,
                           const struct fl_probe_keys *keys, enum fl_probe_request what,
                           int64_t wall_ms, struct fl_fmt *ret)
{
    const char *method = fl_method_name(fl_probe_request_method(what));
    char path[PATH_MAX_BYTES];
    struct fl_fmt p = fl_fmt_of(path, sizeof(path));
    if (what == FL_PROBE_REQUEST_GET) {
        put_target(&p, t->path);
    } else {
        fl_fmt_char(&p, '/');
        fl_s3_sign_escape(&p, fl_span_of(what == FL_PROBE_REQUEST_HEAD_BUCKET ? t->bucket : ""),
                          false);
    }
    fl_fmt_printf(ret, "%s %s HTTP/1.1\r\n", method, path);
    fl_head_write_field(ret, "Host", fl_span_of(host));
    fl_head_write_field(ret, "User-Agent", FL_SPAN("fairlead-probe"));
    int rc = 0;
    if (what != FL_PROBE_REQUEST_GET && keys->access_key[0] != '\0') {
        rc = put_signature(t, host, keys, method, (struct fl_span){p.base, p.len}, wall_ms, ret);
    }
    fl_fmt_text(ret, "\r\n");
    return rc < 0 ? rc : p.cut || ret->cut ? -EINVAL : 0;
}
