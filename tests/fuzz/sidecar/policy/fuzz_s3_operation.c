/* What a request does: byte 0 the method, byte 1 header facts, then path[?query]. Checked by what
 * must not change the answer (the order of parameters, x-id, signatures) and by what must (an
 * unknown subresource on a write). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sidecar/policy/s3_operation.h"

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                       \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(struct fl_operation a, struct fl_operation b)
{
    return a.op == b.op && a.class == b.class && a.deadline == b.deadline && a.write == b.write;
}

static struct fl_operation with_query(const struct fl_operation_facts *f, struct fl_span query)
{
    struct fl_operation_facts g = *f;
    g.query = query;
    return fl_s3_operation_of(FL_PROTOCOL_S3, &g);
}

/* query + "&" + more, or the parameters from the last to the first. */
static struct fl_operation added(const struct fl_operation_facts *f, const char *more)
{
    size_t n = f->query.len, m = strlen(more);
    char *q = malloc(n + 1 + m);
    CHECK(q);
    if (n) {
        memcpy(q, f->query.ptr, n);
    }
    q[n] = '&';
    memcpy(q + n + 1, more, m);
    struct fl_operation o = with_query(f, (struct fl_span){q, n + 1 + m});
    free(q);
    return o;
}

static struct fl_operation reversed(const struct fl_operation_facts *f)
{
    char *q = malloc(f->query.len + 1);
    CHECK(q);
    size_t n = 0, end = f->query.len;
    for (size_t i = end + 1; i-- > 0;) {
        if (i == 0 || f->query.ptr[i - 1] == '&') {
            memcpy(q + n, f->query.ptr + i, end - i);
            n += end - i;
            if (i > 0) {
                q[n++] = '&';
                end = i - 1;
            }
        }
    }
    CHECK(n == f->query.len);
    struct fl_operation o = with_query(f, (struct fl_span){q, n});
    free(q);
    return o;
}

static void check_s3(const struct fl_operation_facts *f)
{
    struct fl_operation o = fl_s3_operation_of(FL_PROTOCOL_S3, f);
    CHECK(o.write == (o.class != FL_CLASS_S));
    CHECK(!fl_method_is_safe(f->method) || o.class == FL_CLASS_S);
    CHECK(o.op < FL_OP_COUNT && fl_s3_operation_name(o.op)[0]);
    CHECK(f->query.len == 0 || same(o, reversed(f)));
    CHECK(same(o, added(f, "x-id=Anything")));
    CHECK(same(o, added(f, "X-Amz-Signature=00&x-amz-acl=private")));
    struct fl_operation unknown = added(f, "no-such-subresource");
    CHECK(unknown.class == (fl_method_is_safe(f->method) ? FL_CLASS_S : FL_CLASS_N));
    struct fl_operation_facts g = *f;
    g.conditional = true;
    struct fl_operation conditional = fl_s3_operation_of(FL_PROTOCOL_S3, &g);
    CHECK(conditional.class == (o.class == FL_CLASS_I ? FL_CLASS_C : o.class));
    CHECK(conditional.op == o.op && conditional.deadline == o.deadline);
    CHECK(o.op == FL_OP_OTHER || o.class != FL_CLASS_N || f->method == FL_METHOD_POST ||
          f->method == FL_METHOD_PUT);
}

static void check_http(const struct fl_operation_facts *f)
{
    struct fl_operation o = fl_s3_operation_of(FL_PROTOCOL_HTTP, f);
    struct fl_operation_facts g = {.method = f->method, .conditional = f->conditional};
    CHECK(same(o, fl_s3_operation_of(FL_PROTOCOL_HTTP, &g)));
    CHECK(o.write == (o.class != FL_CLASS_S));
    CHECK((o.class == FL_CLASS_S) == fl_method_is_safe(f->method));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) {
        return 0;
    }
    struct fl_span target = {(const char *)data + 2, size - 2};
    ptrdiff_t mark = fl_span_find(target, '?');
    struct fl_operation_facts f = {
        .method = (enum fl_http_method)(data[0] % FL_METHOD_COUNT),
        .path = mark < 0 ? target : fl_span_first(target, (size_t)mark),
        .query = mark < 0 ? (struct fl_span){0} : fl_span_from(target, (size_t)mark + 1),
        .conditional = data[1] & 1,
        .copy_source = data[1] & 2,
        .write_offset = data[1] & 4,
        .bucket_in_host = data[1] & 8,
    };
    check_s3(&f);
    check_http(&f);
    return 0;
}
