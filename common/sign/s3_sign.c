#include "common/sign/s3_sign.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "common/base/base64.h"
#include "common/sign/content_digest.h"

#define CANONICAL_MAX 8192
#define SCOPE_MAX     256

void fl_s3_sign_date(int64_t unix_s, char ret[FL_S3_DATE_TEXT])
{
    char text[40]; /* 2013-05-24T00:00:00.000Z */
    struct fl_fmt from = fl_fmt_of(text, sizeof(text)), to = fl_fmt_of(ret, FL_S3_DATE_TEXT);
    fl_fmt_rfc3339(&from, unix_s * 1000);
    for (const char *p = text; *p != '\0' && *p != '.'; p++) {
        if (*p != '-' && *p != ':') {
            fl_fmt_char(&to, *p);
        }
    }
    fl_fmt_char(&to, 'Z');
    FL_MUST(!to.cut && to.len == FL_S3_DATE_TEXT - 1);
}

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

void fl_s3_sign_escape(struct fl_fmt *f, struct fl_span text, bool keep_slash)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (is_unreserved(c) || (keep_slash && c == '/')) {
            fl_fmt_char(f, c);
        } else {
            const char escaped[] = {'%', hex[(uint8_t)c >> 4], hex[(uint8_t)c & 15]};
            fl_fmt_span(f, (struct fl_span){escaped, sizeof(escaped)});
        }
    }
}

/* ---- the canonical request ---- */

struct parameter {
    struct fl_span name, value;
};

static int compare(struct fl_span a, struct fl_span b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int order = n != 0 ? memcmp(a.ptr, b.ptr, n) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static bool is_before(const struct parameter *a, const struct parameter *b)
{
    int order = compare(a->name, b->name);
    return order < 0 || (order == 0 && compare(a->value, b->value) < 0);
}

static struct fl_span take_until(struct fl_span *rest, char end)
{
    ptrdiff_t at = fl_span_find(*rest, end);
    struct fl_span head = fl_span_first(*rest, at < 0 ? rest->len : (size_t)at);
    *rest = fl_span_from(*rest, at < 0 ? rest->len : (size_t)at + 1);
    return head;
}

/* Sorted as they are inserted: there are few. */
static int put_query(struct fl_fmt *f, struct fl_span query)
{
    struct parameter sorted[FL_S3_QUERY_MAX];
    size_t count = 0;
    while (query.len != 0) {
        struct fl_span one = take_until(&query, '&');
        if (one.len == 0) {
            continue;
        }
        if (count == FL_S3_QUERY_MAX) {
            return -EINVAL;
        }
        struct parameter p;
        p.value = one;
        p.name = take_until(&p.value, '=');
        size_t at = count++;
        for (; at > 0 && is_before(&p, &sorted[at - 1]); at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = p;
    }
    for (size_t i = 0; i < count; i++) {
        fl_fmt_text(f, i != 0 ? "&" : "");
        fl_fmt_span(f, sorted[i].name);
        fl_fmt_char(f, '='); /* also where the request has none */
        fl_fmt_span(f, sorted[i].value);
    }
    return 0;
}

/* Runs of spaces become one, those at the ends nothing. */
static void put_value(struct fl_fmt *f, struct fl_span value)
{
    value = fl_span_trim(value);
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] != ' ' || value.ptr[i - 1] != ' ') {
            fl_fmt_char(f, value.ptr[i]);
        }
    }
}

static void put_names(struct fl_fmt *f, const struct fl_s3_request *rq)
{
    for (size_t i = 0; i < rq->field_count; i++) {
        fl_fmt_text(f, i != 0 ? ";" : "");
        fl_fmt_text(f, rq->fields[i].name);
    }
}

int fl_s3_sign_canonical(const struct fl_s3_request *rq, struct fl_fmt *ret)
{
    fl_fmt_text(ret, rq->method);
    fl_fmt_char(ret, '\n');
    fl_fmt_span(ret, rq->path.len != 0 ? rq->path : FL_SPAN("/"));
    fl_fmt_char(ret, '\n');
    int rc = put_query(ret, rq->query);
    fl_fmt_char(ret, '\n');
    for (size_t i = 0; i < rq->field_count; i++) {
        fl_fmt_text(ret, rq->fields[i].name);
        fl_fmt_char(ret, ':');
        put_value(ret, rq->fields[i].value);
        fl_fmt_char(ret, '\n');
    }
    fl_fmt_char(ret, '\n');
    put_names(ret, rq);
    fl_fmt_char(ret, '\n');
    fl_fmt_text(ret, rq->payload);
    return rc < 0 || ret->cut ? -EINVAL : 0;
}

/* ---- the signature ---- */

static int keyed_hash(const void *key, size_t key_len, struct fl_span text,
                      uint8_t ret[FL_SHA256_BYTES])
{
    unsigned len = 0;
    if (HMAC(EVP_sha256(), key, (int)key_len, (const uint8_t *)text.ptr, text.len, ret, &len) ==
            NULL ||
        len != FL_SHA256_BYTES) {
        ERR_clear_error();
        return -ENOMEM;
    }
    return 0;
}

/* The secret, hashed with day, region, service and a constant, one after another. */
static int derive_key(const char *secret, struct fl_span day, const struct fl_s3_scope *scope,
                      uint8_t ret[FL_SHA256_BYTES])
{
    char first[4 + FL_S3_SECRET_MAX + 1];
    struct fl_fmt f = fl_fmt_of(first, sizeof(first));
    fl_fmt_text(&f, "AWS4");
    fl_fmt_text(&f, secret);
    uint8_t key[FL_SHA256_BYTES];
    int rc = f.cut ? -EINVAL : keyed_hash(first, f.len, day, key);
    const struct fl_span steps[] = {fl_span_of(scope->region), fl_span_of(scope->service),
                                    FL_SPAN("aws4_request")};
    for (size_t i = 0; rc == 0 && i < FL_COUNTOF(steps); i++) {
        rc = keyed_hash(key, sizeof(key), steps[i], ret);
        memcpy(key, ret, sizeof(key));
    }
    OPENSSL_cleanse(first, sizeof(first));
    OPENSSL_cleanse(key, sizeof(key));
    return rc;
}

static int string_to_sign(const struct fl_s3_request *rq, const char *date, const char *scope,
                          struct fl_fmt *ret)
{
    char canonical[CANONICAL_MAX];
    struct fl_fmt f = fl_fmt_of(canonical, sizeof(canonical));
    uint8_t sum[FL_SHA256_BYTES];
    int rc = fl_s3_sign_canonical(rq, &f);
    rc = rc == 0 ? fl_content_digest_sha256((struct fl_span){f.base, f.len}, sum) : rc;
    if (rc == 0) {
        fl_fmt_printf(ret, "AWS4-HMAC-SHA256\n%s\n%s\n", date, scope);
        fl_hex_encode(ret, sum, sizeof(sum));
    }
    return rc;
}

int fl_s3_sign(const struct fl_s3_keys *keys, const struct fl_s3_scope *scope,
               const struct fl_s3_request *rq, const char *date, struct fl_fmt *ret)
{
    struct fl_span day = fl_span_first(fl_span_of(date), 8);
    char where[SCOPE_MAX], text[SCOPE_MAX + 128];
    struct fl_fmt w = fl_fmt_of(where, sizeof(where)), t = fl_fmt_of(text, sizeof(text));
    fl_fmt_span(&w, day);
    fl_fmt_printf(&w, "/%s/%s/aws4_request", scope->region, scope->service);
    int rc = w.cut ? -EINVAL : string_to_sign(rq, date, where, &t);
    uint8_t key[FL_SHA256_BYTES], signature[FL_SHA256_BYTES];
    rc = rc == 0 ? derive_key(keys->secret_key, day, scope, key) : rc;
    rc = rc == 0 ? keyed_hash(key, sizeof(key), (struct fl_span){t.base, t.len}, signature) : rc;
    OPENSSL_cleanse(key, sizeof(key));
    if (rc < 0) {
        return rc;
    }
    fl_fmt_printf(ret, "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=", keys->access_key,
                  where);
    put_names(ret, rq);
    fl_fmt_text(ret, ", Signature=");
    fl_hex_encode(ret, signature, sizeof(signature));
    return ret->cut ? -EINVAL : 0;
}
