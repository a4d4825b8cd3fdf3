/* origin_store - objects by path, kept in memory, and the S3-like answers about them. */
#ifndef FL_TESTS_ORIGIN_STORE_H
#define FL_TESTS_ORIGIN_STORE_H

#include <stdint.h>

#include "common/base/span.h"
#include "tests/support/origin_buf.h"

struct fl_origin_object {
    struct fl_origin_object *next; /* in its hash chain */
    uint32_t refs;
    char *path;
    char etag[33]; /* hex */
    struct fl_origin_buf bytes;
};

struct fl_origin_store *fl_origin_store_new(void);
struct fl_origin_store *
fl_origin_store_free(struct fl_origin_store *s); /* accepts NULL, returns NULL */
struct fl_origin_object *fl_origin_store_get(struct fl_origin_store *s,
                                             struct fl_span path); /* a reference, or NULL */
/* Takes the bytes out of *bytes (which is empty afterwards); replaces an older object. */
void fl_origin_store_put(struct fl_origin_store *s, struct fl_span path, const char etag[33],
                         struct fl_origin_buf *bytes);
void fl_origin_store_remove(struct fl_origin_store *s, struct fl_span path);
uint64_t fl_origin_store_bytes(const struct fl_origin_store *s);
uint64_t fl_origin_store_count(const struct fl_origin_store *s);
void fl_origin_object_unref(struct fl_origin_object **object);
/* The listing of one bucket ("/bucket", with or without a slash), or of all buckets ("/"), as S3
 * XML. */
void fl_origin_store_list(const struct fl_origin_store *s, struct fl_span path,
                          struct fl_origin_buf *out);

#endif
