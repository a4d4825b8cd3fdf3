#include "sidecar/policy/s3_operation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/check.h"

enum { IF = 1, COPY = 2, OFFSET = 4, HOST = 8 };

struct row {
    const char *request; /* METHOD target */
    unsigned facts;
    const char *op;
    char class;
    char deadline; /* c u l */
    bool write;
};

static struct fl_operation judge(enum fl_protocol protocol, const char *request, unsigned facts)
{
    const char *space = strchr(request, ' '), *mark = strchr(request, '?');
    size_t end = mark ? (size_t)(mark - request) : strlen(request);
    size_t method = (size_t)(space - request);
    struct fl_operation_facts f = {
        .method = fl_method_of((struct fl_span){request, method}),
        .path = {space + 1, end - method - 1},
        .query = mark ? fl_span_of(mark + 1) : (struct fl_span){0},
        .bucket_in_host = facts & HOST,
        .conditional = facts & IF,
        .copy_source = facts & COPY,
        .write_offset = facts & OFFSET,
    };
    return fl_s3_operation_of(protocol, &f);
}

static void check(enum fl_protocol protocol, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct fl_operation o = judge(protocol, rows[i].request, rows[i].facts);
        char deadline = "cul"[o.deadline];
        if (strcmp(fl_s3_operation_name(o.op), rows[i].op) != 0 ||
            fl_replay_class_name(o.class)[0] != rows[i].class || deadline != rows[i].deadline ||
            o.write != rows[i].write) {
            fail_msg("%s (facts %u): %s %s %c %s", rows[i].request, rows[i].facts,
                     fl_s3_operation_name(o.op), fl_replay_class_name(o.class), deadline,
                     o.write ? "write" : "read");
        }
    }
}

// clang-format off
static const struct row safe_reads[] = {
    {"GET /", 0, "ListBuckets", 'S', 'c', false},
    {"GET /?x-id=ListBuckets", 0, "ListBuckets", 'S', 'c', false},
    {"GET //key", 0, "ListBuckets", 'S', 'c', false},
    {"HEAD /", 0, "Other", 'S', 'c', false},
    {"HEAD /b", 0, "HeadBucket", 'S', 'c', false},
    {"HEAD /b/", 0, "HeadBucket", 'S', 'c', false},
    {"HEAD /", HOST, "HeadBucket", 'S', 'c', false},
    {"GET /b?list-type=2&prefix=a", 0, "ListObjects", 'S', 'c', false},
    {"GET /b?versions", 0, "ListObjects", 'S', 'c', false},
    {"GET /b?uploads", 0, "ListMultipartUploads", 'S', 'c', false},
    {"GET /b/k?uploadId=x&max-parts=2", 0, "ListParts", 'S', 'c', false},
    {"GET /b?location", 0, "GetConfig", 'S', 'c', false},
    {"GET /b/k?tagging", 0, "GetConfig", 'S', 'c', false},
    {"GET /b/k", 0, "GetObject", 'S', 'c', false},
    {"GET /b/k", IF, "GetObject", 'S', 'c', false}, /* If-None-Match on a read changes nothing */
    {"GET /k", HOST, "GetObject", 'S', 'c', false},
    {"GET /b//k", 0, "GetObject", 'S', 'c', false},
    {"GET /b/k?versionId=3&response-content-type=a", 0, "GetObject", 'S', 'c', false},
    {"GET /b/k?partNumber=1", 0, "GetObject", 'S', 'c', false},
    {"GET /b/k?utterly=unknown", 0, "GetObject", 'S', 'c', false},
    {"HEAD /b/k", 0, "HeadObject", 'S', 'c', false},
    {"OPTIONS /b/k", 0, "Options", 'S', 'c', false},
    {"OPTIONS *", 0, "Options", 'S', 'c', false},
    {"TRACE /b/k", 0, "Other", 'S', 'c', false},
    {"POST /b/k?select&select-type=2", 0, "SelectObjectContent", 'S', 'l', false},
    {"POST /b/k?select=&select-type=2&x-id=SelectObjectContent", 0, "SelectObjectContent", 'S', 'l', false},
};

static const struct row overwrites[] = {
    {"PUT /b/k", 0, "PutObject", 'I', 'u', true},
    {"PUT /k", HOST, "PutObject", 'I', 'u', true},
    {"PUT /b/dir/", 0, "PutObject", 'I', 'u', true},
    {"PUT /b/k?x-id=PutObject", 0, "PutObject", 'I', 'u', true},
    {"PUT /b/k?versionId=1", 0, "PutObject", 'I', 'u', true},
    {"PUT /b/k?partNumber=1", 0, "PutObject", 'I', 'u', true},
    {"PUT /b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=a%2Fb&X-Amz-Date=1&X-Amz-Expires=9&"
     "X-Amz-SignedHeaders=host&X-Amz-Signature=ab&x-amz-acl=private&x-amz-storage-class=STANDARD", 0, "PutObject", 'I', 'u', true},
    {"PUT /b/k?AWSAccessKeyId=a&Signature=b&Expires=1", 0, "PutObject", 'I', 'u', true},
    {"PUT /b/k?&", 0, "PutObject", 'I', 'u', true},
    {"PUT /b/k?partNumber=1&uploadId=x", 0, "UploadPart", 'I', 'u', true},
    {"PUT /b/k?uploadId=x&partNumber=1&x-id=UploadPart", 0, "UploadPart", 'I', 'u', true},
    {"PUT /b/k", COPY, "CopyObject", 'I', 'l', true},
    {"PUT /b/k?x-amz-copy-source=%2Fb%2Fold", 0, "CopyObject", 'I', 'l', true},
    {"PUT /b/k?partNumber=1&uploadId=x", COPY, "UploadPartCopy", 'I', 'l', true},
    {"DELETE /b/k", 0, "DeleteObject", 'I', 'c', true},
    {"DELETE /b/k?versionId=1", 0, "DeleteObject", 'I', 'c', true},
    {"DELETE /k", HOST, "DeleteObject", 'I', 'c', true},
    {"PUT /b?acl", 0, "PutConfig", 'I', 'c', true},
    {"PUT /b?policy=", 0, "PutConfig", 'I', 'c', true},
    {"PUT /b/?lifecycle", 0, "PutConfig", 'I', 'c', true},
    {"PUT /?versioning", HOST, "PutConfig", 'I', 'c', true},
    {"PUT /b?inventory&id=1", 0, "PutConfig", 'I', 'c', true},
    {"PUT /b/k?acl&versionId=2", 0, "PutConfig", 'I', 'c', true},
    {"PUT /b/k?tagging", 0, "PutConfig", 'I', 'c', true},
    {"PUT /b/k?%74agging", 0, "PutConfig", 'I', 'c', true},
    {"PUT /b/k?legal-hold", 0, "PutConfig", 'I', 'c', true},
    {"PUT /b/k?retention", 0, "PutConfig", 'I', 'c', true},
    {"DELETE /b?policy", 0, "DeleteConfig", 'I', 'c', true},
    {"DELETE /b/k?tagging", 0, "DeleteConfig", 'I', 'c', true},
};

static const struct row changes_the_answer[] = {
    {"PUT /b/k", IF, "PutObject", 'C', 'u', true},
    {"PUT /b/k?partNumber=1&uploadId=x", IF, "UploadPart", 'C', 'u', true},
    {"PUT /b/k", IF | COPY, "CopyObject", 'C', 'l', true},
    {"PUT /b/k?x-amz-copy-source-if-match=a", COPY, "CopyObject", 'C', 'l', true},
    {"PUT /b/k?tagging", IF, "PutConfig", 'C', 'c', true},
    {"DELETE /b/k", IF, "DeleteObject", 'C', 'c', true},
    {"DELETE /b/k?x-amz-if-match-size=3", 0, "DeleteObject", 'C', 'c', true},
    {"POST /b/k?uploadId=x", 0, "CompleteMultipartUpload", 'C', 'l', true},
    {"POST /b/k?uploadId=x", IF, "CompleteMultipartUpload", 'C', 'l', true},
    {"DELETE /b/k?uploadId=x", 0, "AbortMultipartUpload", 'C', 'c', true},
    {"PUT /b", 0, "CreateBucket", 'C', 'c', true},
    {"PUT /b/", 0, "CreateBucket", 'C', 'c', true},
    {"PUT /", HOST, "CreateBucket", 'C', 'c', true},
    {"DELETE /b", 0, "DeleteBucket", 'C', 'c', true},
    {"DELETE /", HOST, "DeleteBucket", 'C', 'c', true},
    {"POST /b?delete", 0, "DeleteObjects", 'C', 'l', true},
    {"POST /?delete=&x-id=DeleteObjects", HOST, "DeleteObjects", 'C', 'l', true},
    {"POST /b/k?restore&versionId=1", 0, "RestoreObject", 'C', 'l', true},
};

static const struct row changes_state[] = {
    {"POST /b/k?uploads", 0, "CreateMultipartUpload", 'N', 'c', true},
    {"POST /b/k?uploads&x-id=CreateMultipartUpload", 0, "CreateMultipartUpload", 'N', 'c', true},
    {"PUT /b/k", OFFSET, "AppendObject", 'N', 'u', true},
    {"PUT /b/k?x-amz-write-offset-bytes=5", 0, "AppendObject", 'N', 'u', true},
    {"POST /b/k?append&position=0", 0, "AppendObject", 'N', 'u', true},
    {"PUT /b/k?renameObject", 0, "RenameObject", 'N', 'c', true},
    {"PUT /b/k?renameObject", IF, "RenameObject", 'N', 'c', true},
    {"POST /b", 0, "PostObject", 'N', 'u', true},
    {"POST /b/", 0, "PostObject", 'N', 'u', true},
    {"POST /", HOST, "PostObject", 'N', 'u', true},
    {"PATCH /b/k", 0, "Other", 'N', 'u', true},
    {"POST /b/k", 0, "Other", 'N', 'u', true},
    {"POST /", 0, "Other", 'N', 'u', true},
    {"POST /b/k?frob", 0, "Other", 'N', 'u', true},
    {"PUT /b/k?frob", 0, "Other", 'N', 'u', true},
    {"PUT /b?frob", 0, "Other", 'N', 'u', true},
    {"DELETE /b?frob", 0, "Other", 'N', 'c', true},
    {"DELETE /b/k?frob=1", 0, "Other", 'N', 'c', true},
    {"PUT /b/k?ACL", 0, "Other", 'N', 'u', true}, /* names are case-sensitive */
    {"PUT /b/k?policy", 0, "Other", 'N', 'u', true}, /* a bucket's, not an object's */
    {"PUT /b?legal-hold", 0, "Other", 'N', 'u', true},
    {"PUT /b/k?acl&tagging", 0, "Other", 'N', 'u', true},
    {"PUT /b/k?tagging&frob", 0, "Other", 'N', 'u', true},
    {"PUT /b/k?uploadId=x", 0, "Other", 'N', 'u', true},
    {"PUT /b/k?uploads", 0, "Other", 'N', 'u', true},
    {"PUT /b/k?id=1", 0, "Other", 'N', 'u', true}, /* id of nothing */
    {"POST /b/k?uploads&uploadId=x", 0, "Other", 'N', 'u', true},
    {"POST /b/k?select-type=2", 0, "Other", 'N', 'u', true},
    {"POST /b/k?delete", 0, "Other", 'N', 'u', true},
    {"DELETE /b/k?delete", 0, "Other", 'N', 'c', true},
    {"DELETE /", 0, "Other", 'N', 'c', true},
    {"PUT /", 0, "Other", 'N', 'u', true},
    {"PUT //k", 0, "Other", 'N', 'u', true}, /* names no bucket */
    {"PUT /minio/admin/v3/add-user", 0, "Other", 'N', 'u', true},
    {"DELETE /minio/admin/v3/remove-user", 0, "Other", 'N', 'c', true},
    {"PUT /admin/user?uid=x", 0, "Other", 'N', 'u', true},
    {"PUT /admin/user", 0, "Other", 'N', 'u', true},
    {"MOVE /b/k", 0, "Other", 'N', 'u', true},
    {"put /b/k", 0, "Other", 'N', 'u', true},
    {"PUT /b/k?aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0, "Other", 'N', 'u', true},
    {"PUT /b/k?%", 0, "Other", 'N', 'u', true},
};

static const struct row http[] = {
    {"GET /b/k?frob", 0, "read", 'S', 'c', false},
    {"HEAD /", 0, "read", 'S', 'c', false},
    {"OPTIONS *", 0, "read", 'S', 'c', false},
    {"TRACE /", 0, "read", 'S', 'c', false},
    {"PUT /b/k?frob", 0, "write", 'I', 'c', true},
    {"PUT /b/k", IF, "write", 'C', 'c', true},
    {"DELETE /b", 0, "write", 'I', 'c', true},
    {"DELETE /b", IF, "write", 'C', 'c', true},
    {"POST /b?select&select-type=2", 0, "write", 'N', 'c', true},
    {"PATCH /b", 0, "write", 'N', 'c', true},
    {"LOCK /b", 0, "write", 'N', 'c', true},
};
// clang-format on

static void class_s_safe_reads(void **state)
{
    (void)state;
    check(FL_PROTOCOL_S3, safe_reads, FL_COUNTOF(safe_reads));
}

static void class_i_idempotent_overwrites(void **state)
{
    (void)state;
    check(FL_PROTOCOL_S3, overwrites, FL_COUNTOF(overwrites));
}

static void class_c_a_repeat_changes_the_answer(void **state)
{
    (void)state;
    check(FL_PROTOCOL_S3, changes_the_answer, FL_COUNTOF(changes_the_answer));
}

static void class_n_a_repeat_changes_state(void **state)
{
    (void)state;
    check(FL_PROTOCOL_S3, changes_state, FL_COUNTOF(changes_state));
}

static void http_routes_as_nginx(void **state)
{
    (void)state;
    check(FL_PROTOCOL_HTTP, http, FL_COUNTOF(http));
}

static void every_config_subresource_is_known(void **state)
{
    (void)state;
    static const char *const names[] = {
        "accelerate",        "acl",
        "analytics&id=a",    "cors",
        "encryption",        "intelligent-tiering&id=a",
        "inventory&id=a",    "lifecycle",
        "logging",           "metrics&id=a",
        "notification",      "object-lock",
        "ownershipControls", "policy",
        "publicAccessBlock", "replication",
        "requestPayment",    "tagging",
        "versioning",        "website",
    };
    for (size_t i = 0; i < FL_COUNTOF(names); i++) {
        char request[64] = "PUT /b?";
        memcpy(request + 7, names[i], strlen(names[i]) + 1);
        struct fl_operation o = judge(FL_PROTOCOL_S3, request, 0);
        assert_int_equal(o.op, FL_OP_PUT_CONFIG);
        assert_int_equal(o.class, FL_CLASS_I);
    }
}

static void names_are_complete(void **state)
{
    (void)state;
    for (unsigned i = 0; i < FL_OP_COUNT; i++) {
        assert_true(fl_s3_operation_name((enum fl_s3_operation)i)[0] != '\0');
    }
    assert_string_equal(fl_s3_operation_name(FL_OP_HTTP_WRITE), "write");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(class_s_safe_reads),
        cmocka_unit_test(class_i_idempotent_overwrites),
        cmocka_unit_test(class_c_a_repeat_changes_the_answer),
        cmocka_unit_test(class_n_a_repeat_changes_state),
        cmocka_unit_test(http_routes_as_nginx),
        cmocka_unit_test(every_config_subresource_is_known),
        cmocka_unit_test(names_are_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
