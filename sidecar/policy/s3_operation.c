#include "sidecar/policy/s3_operation.h"

#include <string.h>

#include "common/base/check.h"

/* What the query says. Anything that is neither a known subresource nor plainly a parameter sets
 * UNKNOWN; so do two subresources at once (which of them a store obeys is its own affair), uploadId
 * with partNumber excepted. */
enum sub {
    SUB_BUCKET_CONFIG = 1 << 0,
    SUB_OBJECT_CONFIG = 1 << 1,
    SUB_UPLOADS = 1 << 2,
    SUB_UPLOAD_ID = 1 << 3,
    SUB_PART_NUMBER = 1 << 4,
    SUB_DELETE = 1 << 5,
    SUB_SELECT = 1 << 6,
    SUB_RESTORE = 1 << 7,
    SUB_APPEND = 1 << 8,
    SUB_RENAME = 1 << 9,
    SUB_VERSIONS = 1 << 10,
    SUB_UNKNOWN = 1 << 11,
    SUB_NAMED = (1 << 12) - 1,
    /* not subresources, but they change what the request is: presigned URLs carry headers in the
       query */
    SUB_COPY_SOURCE = 1 << 12,
    SUB_CONDITION = 1 << 13,
    SUB_OFFSET = 1 << 14,
};

static const struct {
    const char *name;
    unsigned subs;
} known[] = {
    {"acl", SUB_BUCKET_CONFIG | SUB_OBJECT_CONFIG},
    {"tagging", SUB_BUCKET_CONFIG | SUB_OBJECT_CONFIG},
    {"encryption", SUB_BUCKET_CONFIG | SUB_OBJECT_CONFIG},
    {"legal-hold", SUB_OBJECT_CONFIG},
    {"retention", SUB_OBJECT_CONFIG},
    {"attributes", SUB_OBJECT_CONFIG},
    {"torrent", SUB_OBJECT_CONFIG},
    {"accelerate", SUB_BUCKET_CONFIG},
    {"analytics", SUB_BUCKET_CONFIG},
    {"cors", SUB_BUCKET_CONFIG},
    {"intelligent-tiering", SUB_BUCKET_CONFIG},
    {"inventory", SUB_BUCKET_CONFIG},
    {"lifecycle", SUB_BUCKET_CONFIG},
    {"location", SUB_BUCKET_CONFIG},
    {"logging", SUB_BUCKET_CONFIG},
    {"metrics", SUB_BUCKET_CONFIG},
    {"notification", SUB_BUCKET_CONFIG},
    {"object-lock", SUB_BUCKET_CONFIG},
    {"ownershipControls", SUB_BUCKET_CONFIG},
    {"policy", SUB_BUCKET_CONFIG},
    {"policyStatus", SUB_BUCKET_CONFIG},
    {"publicAccessBlock", SUB_BUCKET_CONFIG},
    {"replication", SUB_BUCKET_CONFIG},
    {"requestPayment", SUB_BUCKET_CONFIG},
    {"versioning", SUB_BUCKET_CONFIG},
    {"website", SUB_BUCKET_CONFIG},
    {"uploads", SUB_UPLOADS},
    {"uploadId", SUB_UPLOAD_ID},
    {"partNumber", SUB_PART_NUMBER},
    {"delete", SUB_DELETE},
    {"select", SUB_SELECT},
    {"restore", SUB_RESTORE},
    {"append", SUB_APPEND},
    {"renameObject", SUB_RENAME},
    {"versions", SUB_VERSIONS},
    /* parameters, not subresources */
    {"x-id", 0},
    {"versionId", 0},
    {"AWSAccessKeyId", 0},
    {"GoogleAccessId", 0},
    {"Signature", 0},
    {"Expires", 0},
};

/* These stand only beside the subresource they belong to. */
#define HAS_ID        (SUB_BUCKET_CONFIG)
#define HAS_POSITION  (SUB_APPEND)
#define HAS_SELECTION (SUB_SELECT)

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = fl_ascii_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A store decodes names before it looks at them: "%61cl" is acl. Longer ones are none that we know.
 */
static struct fl_span decode_name(struct fl_span raw, char *buf, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < raw.len && n < cap; i++) {
        char c = raw.ptr[i];
        if (c == '%' && i + 2 < raw.len) {
            int high = hex_digit(raw.ptr[i + 1]), low = hex_digit(raw.ptr[i + 2]);
            if (high >= 0 && low >= 0) {
                c = (char)(high << 4 | low);
                i += 2;
            }
        }
        buf[n++] = c;
    }
    return (struct fl_span){buf, n};
}

static bool istarts(struct fl_span name, const char *prefix)
{
    return fl_span_ieq(fl_span_first(name, strlen(prefix)), fl_span_of(prefix));
}

/* A header that a presigned URL carries as a parameter. */
static unsigned hoisted(struct fl_span name)
{
    if (istarts(name, "x-amz-copy-source-if-") || istarts(name, "x-amz-if-match-")) {
        return SUB_CONDITION;
    }
    if (fl_span_ieq(name, FL_SPAN("x-amz-copy-source"))) {
        return SUB_COPY_SOURCE;
    }
    return fl_span_ieq(name, FL_SPAN("x-amz-write-offset-bytes")) ? SUB_OFFSET : 0u;
}

struct query {
    unsigned subs, count;
    unsigned companions; /* subresources that must be there as well */
};

static void take_name(struct query *q, struct fl_span name)
{
    if (istarts(name, "x-amz-") || istarts(name, "x-goog-")) {
        q->subs |= hoisted(name);
        return;
    }
    for (size_t i = 0; i < FL_COUNTOF(known); i++) {
        if (fl_span_is(name, known[i].name)) {
            q->subs |= known[i].subs;
            q->count += known[i].subs != 0 && known[i].subs != SUB_PART_NUMBER;
            return;
        }
    }
    if (fl_span_is(name, "id")) {
        q->companions |= HAS_ID;
    } else if (fl_span_is(name, "position")) {
        q->companions |= HAS_POSITION;
    } else if (fl_span_is(name, "select-type")) {
        q->companions |= HAS_SELECTION;
    } else {
        q->subs |= SUB_UNKNOWN;
    }
}

static unsigned read_query(struct fl_span query)
{
    struct query q = {0};
    while (query.len) {
        ptrdiff_t amp = fl_span_find(query, '&');
        struct fl_span pair = amp < 0 ? query : fl_span_first(query, (size_t)amp);
        query = amp < 0 ? (struct fl_span){0} : fl_span_from(query, (size_t)amp + 1);
        ptrdiff_t equals = fl_span_find(pair, '=');
        struct fl_span raw = equals < 0 ? pair : fl_span_first(pair, (size_t)equals);
        if (raw.len) {
            char buf[48];
            take_name(&q, decode_name(raw, buf, sizeof(buf)));
        }
    }
    return q.count > 1 || (q.companions & ~q.subs) ? q.subs | SUB_UNKNOWN : q.subs;
}

enum level { LEVEL_SERVICE, LEVEL_BUCKET, LEVEL_OBJECT, LEVEL_ADMIN };

/* The stores' own APIs on the same port: MinIO's below the bucket name that it reserves, Ceph's
 * admin resources. */
static bool is_admin(struct fl_span bucket, struct fl_span key)
{
    static const char *const ceph[] = {"user", "bucket",   "usage",     "caps", "quota",
                                       "log",  "metadata", "ratelimit", "info", "account"};
    if (fl_span_is(bucket, "minio")) {
        return key.len > 0;
    }
    if (fl_span_is(bucket, "admin")) {
        for (size_t i = 0; i < FL_COUNTOF(ceph); i++) {
            if (fl_span_is(key, ceph[i])) {
                return true;
            }
        }
    }
    return false;
}

static enum level level_of(const struct fl_operation_facts *f)
{
    struct fl_span rest = fl_span_from(f->path, 1);
    if (f->bucket_in_host) {
        return rest.len ? LEVEL_OBJECT : LEVEL_BUCKET;
    }
    ptrdiff_t slash = fl_span_find(rest, '/');
    struct fl_span bucket = slash < 0 ? rest : fl_span_first(rest, (size_t)slash);
    struct fl_span key = slash < 0 ? (struct fl_span){0} : fl_span_from(rest, (size_t)slash + 1);
    if (bucket.len == 0) {
        return LEVEL_SERVICE;
    }
    if (is_admin(bucket, key)) {
        return LEVEL_ADMIN;
    }
    return key.len ? LEVEL_OBJECT : LEVEL_BUCKET;
}

static struct fl_operation make(enum fl_s3_operation op, enum fl_replay_class class,
                                enum fl_deadline_kind deadline, bool write)
{
    return (struct fl_operation){op, class, deadline, write};
}

static struct fl_operation read_of(enum fl_s3_operation op)
{
    return make(op, FL_CLASS_S, FL_DEADLINE_CONTROL, false);
}

static struct fl_operation write_of(enum fl_s3_operation op, enum fl_replay_class class,
                                    enum fl_deadline_kind deadline)
{
    return make(op, class, deadline, true);
}

/* Whatever it is, it may store a body as large as any. */
static struct fl_operation unknown_write(void)
{
    return write_of(FL_OP_OTHER, FL_CLASS_N, FL_DEADLINE_UPLOAD);
}

static struct fl_operation get_of(enum level level, unsigned subs, bool head)
{
    if (level == LEVEL_SERVICE) {
        return read_of(head ? FL_OP_OTHER : FL_OP_LIST_BUCKETS);
    }
    if (level == LEVEL_ADMIN) {
        return read_of(FL_OP_OTHER);
    }
    if (level == LEVEL_BUCKET) {
        if (subs & SUB_BUCKET_CONFIG) {
            return read_of(FL_OP_GET_CONFIG);
        }
        if (head) {
            return read_of(FL_OP_HEAD_BUCKET);
        }
        return read_of(subs & SUB_UPLOADS ? FL_OP_LIST_UPLOADS : FL_OP_LIST_OBJECTS);
    }
    if (subs & SUB_OBJECT_CONFIG) {
        return read_of(FL_OP_GET_CONFIG);
    }
    if (subs & SUB_UPLOAD_ID) {
        return read_of(FL_OP_LIST_PARTS);
    }
    return read_of(head ? FL_OP_HEAD_OBJECT : FL_OP_GET_OBJECT);
}

/* acl is both a bucket's and an object's; policy on an object is nothing known. */
static bool is_config(unsigned named, unsigned of_level)
{
    return (named & of_level) && !(named & ~(unsigned)(SUB_BUCKET_CONFIG | SUB_OBJECT_CONFIG));
}

static enum fl_replay_class overwrite(bool conditional)
{
    return conditional ? FL_CLASS_C : FL_CLASS_I;
}

static struct fl_operation put_object(unsigned subs, const struct fl_operation_facts *f)
{
    enum fl_replay_class class = overwrite(f->conditional || (subs & SUB_CONDITION));
    bool copy = f->copy_source || (subs & SUB_COPY_SOURCE);
    bool offset = f->write_offset || (subs & SUB_OFFSET);
    unsigned named = subs & SUB_NAMED;
    if (named == SUB_RENAME && !offset) {
        return write_of(FL_OP_RENAME, FL_CLASS_N, FL_DEADLINE_CONTROL);
    }
    if (offset) {
        return write_of(FL_OP_APPEND, FL_CLASS_N, FL_DEADLINE_UPLOAD);
    }
    if (named == (SUB_PART_NUMBER | SUB_UPLOAD_ID)) {
        return copy ? write_of(FL_OP_UPLOAD_PART_COPY, class, FL_DEADLINE_LONG)
                    : write_of(FL_OP_UPLOAD_PART, class, FL_DEADLINE_UPLOAD);
    }
    if (named == 0 || named == SUB_PART_NUMBER) {
        return copy ? write_of(FL_OP_COPY_OBJECT, class, FL_DEADLINE_LONG)
                    : write_of(FL_OP_PUT_OBJECT, class, FL_DEADLINE_UPLOAD);
    }
    if (is_config(named, SUB_OBJECT_CONFIG)) {
        return write_of(FL_OP_PUT_CONFIG, class, FL_DEADLINE_CONTROL);
    }
    return unknown_write();
}

static struct fl_operation put_of(enum level level, unsigned subs,
                                  const struct fl_operation_facts *f)
{
    if (level == LEVEL_OBJECT) {
        return put_object(subs, f);
    }
    unsigned named = subs & SUB_NAMED;
    if (level == LEVEL_BUCKET && named == 0) {
        return write_of(FL_OP_CREATE_BUCKET, FL_CLASS_C, FL_DEADLINE_CONTROL);
    }
    if (level == LEVEL_BUCKET && is_config(named, SUB_BUCKET_CONFIG)) {
        return write_of(FL_OP_PUT_CONFIG, overwrite(f->conditional || (subs & SUB_CONDITION)),
                        FL_DEADLINE_CONTROL);
    }
    return unknown_write();
}

static struct fl_operation post_of(enum level level, unsigned subs)
{
    unsigned named = subs & SUB_NAMED;
    if (level == LEVEL_BUCKET && named == SUB_DELETE) {
        return write_of(FL_OP_DELETE_OBJECTS, FL_CLASS_C, FL_DEADLINE_LONG);
    }
    if (level == LEVEL_BUCKET && named == 0) {
        return write_of(FL_OP_POST_FORM, FL_CLASS_N, FL_DEADLINE_UPLOAD);
    }
    if (level != LEVEL_OBJECT) {
        return unknown_write();
    }
    switch (named) {
    case SUB_UPLOADS:
        return write_of(FL_OP_CREATE_MULTIPART, FL_CLASS_N, FL_DEADLINE_CONTROL);
    case SUB_UPLOAD_ID:
        return write_of(FL_OP_COMPLETE_MULTIPART, FL_CLASS_C, FL_DEADLINE_LONG);
    case SUB_SELECT:
        return make(FL_OP_SELECT, FL_CLASS_S, FL_DEADLINE_LONG, false);
    case SUB_RESTORE:
        return write_of(FL_OP_RESTORE, FL_CLASS_C, FL_DEADLINE_LONG);
    case SUB_APPEND:
        return write_of(FL_OP_APPEND, FL_CLASS_N, FL_DEADLINE_UPLOAD);
    default:
        return unknown_write();
    }
}

static struct fl_operation delete_of(enum level level, unsigned subs, bool conditional)
{
    unsigned named = subs & SUB_NAMED;
    enum fl_replay_class class = overwrite(conditional || (subs & SUB_CONDITION));
    if (level == LEVEL_BUCKET && named == 0) {
        return write_of(FL_OP_DELETE_BUCKET, FL_CLASS_C, FL_DEADLINE_CONTROL);
    }
    if (level == LEVEL_BUCKET && is_config(named, SUB_BUCKET_CONFIG)) {
        return write_of(FL_OP_DELETE_CONFIG, class, FL_DEADLINE_CONTROL);
    }
    if (level != LEVEL_OBJECT) {
        return write_of(FL_OP_OTHER, FL_CLASS_N, FL_DEADLINE_CONTROL);
    }
    if (named == 0) {
        return write_of(FL_OP_DELETE_OBJECT, class, FL_DEADLINE_CONTROL);
    }
    if (named == SUB_UPLOAD_ID) {
        return write_of(FL_OP_ABORT_MULTIPART, FL_CLASS_C, FL_DEADLINE_CONTROL);
    }
    if (is_config(named, SUB_OBJECT_CONFIG)) {
        return write_of(FL_OP_DELETE_CONFIG, class, FL_DEADLINE_CONTROL);
    }
    return write_of(FL_OP_OTHER, FL_CLASS_N, FL_DEADLINE_CONTROL);
}

static struct fl_operation of_s3(const struct fl_operation_facts *f)
{
    enum level level = level_of(f);
    unsigned subs = read_query(f->query);
    switch (f->method) {
    case FL_METHOD_GET:
        return get_of(level, subs, false);
    case FL_METHOD_HEAD:
        return get_of(level, subs, true);
    case FL_METHOD_OPTIONS:
        return read_of(FL_OP_OPTIONS);
    case FL_METHOD_TRACE:
        return read_of(FL_OP_OTHER);
    case FL_METHOD_PUT:
        return put_of(level, subs, f);
    case FL_METHOD_POST:
        return post_of(level, subs);
    case FL_METHOD_DELETE:
        return delete_of(level, subs, f->conditional);
    case FL_METHOD_OTHER:
    case FL_METHOD_PATCH:
    case FL_METHOD_CONNECT:
    case FL_METHOD_COUNT:
        return unknown_write();
    }
    FL_IMPOSSIBLE("method");
}

static struct fl_operation of_http(const struct fl_operation_facts *f)
{
    if (fl_method_is_safe(f->method)) {
        return read_of(FL_OP_HTTP_READ);
    }
    bool overwrites = f->method == FL_METHOD_PUT || f->method == FL_METHOD_DELETE;
    return write_of(FL_OP_HTTP_WRITE, overwrites ? overwrite(f->conditional) : FL_CLASS_N,
                    FL_DEADLINE_CONTROL);
}

struct fl_operation fl_s3_operation_of(enum fl_protocol protocol,
                                       const struct fl_operation_facts *f)
{
    return protocol == FL_PROTOCOL_S3 ? of_s3(f) : of_http(f);
}

const char *fl_s3_operation_name(enum fl_s3_operation op)
{
#define X(id, name) name,
    static const char *const names[] = {FL_S3_OPERATIONS(X)};
#undef X
    FL_MUST((unsigned)op < FL_OP_COUNT);
    return names[op];
}

const char *fl_replay_class_name(enum fl_replay_class c)
{
    switch (c) {
    case FL_CLASS_S:
        return "S";
    case FL_CLASS_I:
        return "I";
    case FL_CLASS_C:
        return "C";
    case FL_CLASS_N:
        return "N";
    }
    FL_IMPOSSIBLE("replay class");
}
