#include "tests/support/origin_store.h"

#include <stdio.h>
#include <stdlib.h>

#define SLOTS    16384u
#define LIST_MAX 1000

struct fl_origin_store {
    uint64_t bytes, count;
    struct fl_origin_object *slot[SLOTS];
};

static uint32_t slot_of(struct fl_span path)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < path.len; i++) {
        h = (h ^ (unsigned char)path.ptr[i]) * 0x100000001b3u;
    }
    return (uint32_t)(h >> 20) % SLOTS;
}

struct fl_origin_store *fl_origin_store_new(void)
{
    return calloc(1, sizeof(struct fl_origin_store));
}

void fl_origin_object_unref(struct fl_origin_object **object)
{
    struct fl_origin_object *x = *object;
    *object = NULL;
    if (x && --x->refs == 0) {
        fl_origin_buf_done(&x->bytes);
        free(x->path);
        free(x);
    }
}

/* Where the pointer to the object of this path is, or where it would go. */
static struct fl_origin_object **find(struct fl_origin_store *s, struct fl_span path)
{
    struct fl_origin_object **at = &s->slot[slot_of(path)];
    while (*at && !fl_span_is(path, (*at)->path)) {
        at = &(*at)->next;
    }
    return at;
}

struct fl_origin_object *fl_origin_store_get(struct fl_origin_store *s, struct fl_span path)
{
    struct fl_origin_object *x = *find(s, path);
    if (x) {
        x->refs++;
    }
    return x;
}

void fl_origin_store_remove(struct fl_origin_store *s, struct fl_span path)
{
    struct fl_origin_object **at = find(s, path), *x = *at;
    if (x) {
        *at = x->next;
        s->bytes -= x->bytes.len;
        s->count--;
        fl_origin_object_unref(&x);
    }
}

void fl_origin_store_put(struct fl_origin_store *s, struct fl_span path, const char etag[33],
                         struct fl_origin_buf *bytes)
{
    fl_origin_store_remove(s, path);
    struct fl_origin_object *x = calloc(1, sizeof(*x));
    if (!x) {
        abort();
    }
    x->refs = 1;
    x->path = fl_origin_buf_dup(path);
    snprintf(x->etag, sizeof(x->etag), "%s", etag);
    x->bytes = *bytes;
    *bytes = (struct fl_origin_buf){NULL, 0, 0};
    struct fl_origin_object **at = find(s, path);
    *at = x;
    s->bytes += x->bytes.len;
    s->count++;
}

uint64_t fl_origin_store_bytes(const struct fl_origin_store *s)
{
    return s->bytes;
}

uint64_t fl_origin_store_count(const struct fl_origin_store *s)
{
    return s->count;
}

struct fl_origin_store *fl_origin_store_free(struct fl_origin_store *s)
{
    for (size_t i = 0; s && i < SLOTS; i++) {
        while (s->slot[i]) {
            struct fl_origin_object *x = s->slot[i];
            s->slot[i] = x->next;
            fl_origin_object_unref(&x);
        }
    }
    free(s);
    return NULL;
}

static void xml_text(struct fl_origin_buf *out, struct fl_span s)
{
    for (size_t i = 0; i < s.len; i++) {
        const char *as = s.ptr[i] == '<'   ? "&lt;"
                         : s.ptr[i] == '>' ? "&gt;"
                         : s.ptr[i] == '&' ? "&amp;"
                                           : NULL;
        if (as) {
            fl_origin_buf_text(out, as);
        } else {
            fl_origin_buf_add(out, &s.ptr[i], 1);
        }
    }
}

static void list_objects(const struct fl_origin_store *s, struct fl_span prefix,
                         struct fl_origin_buf *out)
{
    int listed = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        for (const struct fl_origin_object *x = s->slot[i]; x && listed < LIST_MAX; x = x->next) {
            struct fl_span path = fl_span_of(x->path);
            if (!fl_span_starts(path, prefix)) {
                continue;
            }
            fl_origin_buf_text(out, "<Contents><Key>");
            xml_text(out, fl_span_from(path, prefix.len));
            fl_origin_buf_printf(out,
                                 "</Key><ETag>&quot;%s&quot;</ETag><Size>%zu</Size></Contents>",
                                 x->etag, x->bytes.len);
            listed++;
        }
    }
    fl_origin_buf_printf(out, "<KeyCount>%d</KeyCount><IsTruncated>false</IsTruncated>", listed);
}

void fl_origin_store_list(const struct fl_origin_store *s, struct fl_span path,
                          struct fl_origin_buf *out)
{
    struct fl_span name = fl_span_from(path, 1);
    if (name.len && name.ptr[name.len - 1] == '/') {
        name.len--;
    }
    fl_origin_buf_text(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    if (!name.len) {
        fl_origin_buf_text(out,
                           "<ListAllMyBucketsResult><Buckets></Buckets></ListAllMyBucketsResult>");
        return;
    }
    struct fl_origin_buf prefix = {NULL, 0, 0};
    fl_origin_buf_text(&prefix, "/");
    fl_origin_buf_span(&prefix, name);
    fl_origin_buf_text(&prefix, "/");
    fl_origin_buf_text(out, "<ListBucketResult><Name>");
    xml_text(out, name);
    fl_origin_buf_text(out, "</Name>");
    list_objects(s, (struct fl_span){prefix.base, prefix.len}, out);
    fl_origin_buf_text(out, "</ListBucketResult>");
    fl_origin_buf_done(&prefix);
}
