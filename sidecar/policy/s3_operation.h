/* s3_operation - what a request does, by method, target and a few header facts: its S3 operation
 * (log, metric), how often it may be repeated (behaviour.md section 3) and which deadline it has
 * (section 4). Pure. */
#ifndef FL_SIDECAR_POLICY_S3_OPERATION_H
#define FL_SIDECAR_POLICY_S3_OPERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/span.h"
#include "common/http1/method.h"
#include "common/model/config.h"

enum fl_replay_class {
    FL_CLASS_S, /* safe read */
    FL_CLASS_I, /* idempotent overwrite */
    FL_CLASS_C, /* a repeat changes the answer */
    FL_CLASS_N, /* a repeat changes state */
};

enum fl_deadline_kind {
    FL_DEADLINE_CONTROL,
    FL_DEADLINE_UPLOAD /* + 1 s per MiB */,
    FL_DEADLINE_LONG
};

// clang-format off
/* id, log name */
#define FL_S3_OPERATIONS(X)                                                                                       \
    X(OTHER, "Other") X(GET_OBJECT, "GetObject") X(HEAD_OBJECT, "HeadObject") X(LIST_OBJECTS, "ListObjects")       \
    X(LIST_BUCKETS, "ListBuckets") X(HEAD_BUCKET, "HeadBucket") X(GET_CONFIG, "GetConfig") X(PUT_CONFIG, "PutConfig") \
    X(DELETE_CONFIG, "DeleteConfig") X(SELECT, "SelectObjectContent") X(PUT_OBJECT, "PutObject")                   \
    X(UPLOAD_PART, "UploadPart") X(COPY_OBJECT, "CopyObject") X(UPLOAD_PART_COPY, "UploadPartCopy")                \
    X(DELETE_OBJECT, "DeleteObject") X(DELETE_OBJECTS, "DeleteObjects") X(CREATE_MULTIPART, "CreateMultipartUpload") \
    X(COMPLETE_MULTIPART, "CompleteMultipartUpload") X(ABORT_MULTIPART, "AbortMultipartUpload")                    \
    X(CREATE_BUCKET, "CreateBucket") X(DELETE_BUCKET, "DeleteBucket") X(RESTORE, "RestoreObject")                  \
    X(APPEND, "AppendObject") X(RENAME, "RenameObject") X(POST_FORM, "PostObject") X(OPTIONS, "Options")           \
    X(LIST_UPLOADS, "ListMultipartUploads") X(LIST_PARTS, "ListParts")                                             \
    X(HTTP_READ, "read") X(HTTP_WRITE, "write")
// clang-format on
#define X(id, name) FL_OP_##id,
enum fl_s3_operation { FL_S3_OPERATIONS(X) FL_OP_COUNT };
#undef X

struct fl_operation_facts {
    enum fl_http_method method;
    struct fl_span path;  /* of the target, raw, "/bucket/key" or "/key" when bucket_in_host */
    struct fl_span query; /* without "?" */
    bool bucket_in_host;
    bool conditional;  /* any If-*, x-amz-copy-source-if-*, x-amz-if-match-* field */
    bool copy_source;  /* x-amz-copy-source */
    bool write_offset; /* x-amz-write-offset-bytes */
};

struct fl_operation {
    enum fl_s3_operation op;
    enum fl_replay_class class;
    enum fl_deadline_kind deadline;
    bool write; /* changes the store: a read-only backup refuses it */
};

struct fl_operation fl_s3_operation_of(enum fl_protocol protocol,
                                       const struct fl_operation_facts *f);
const char *fl_s3_operation_name(enum fl_s3_operation op);
const char *fl_replay_class_name(enum fl_replay_class c); /* "S" "I" "C" "N" */

#endif
