/* Any bytes as a list or a watch: however they are split, the same objects, the same end; and where
 * json-c reads the list too, the same items. The first byte says which of the two, how large an
 * object may be, and how the second feeding is split. */
#include <json-c/json.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/base/fmt.h"
#include "common/base/rng.h"
#include "controller/codec/kube_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct heard {
    uint64_t sum; /* of all events and texts, in their order */
    size_t count;
    struct json_object *items; /* NULL: not compared */
};

static struct json_object *parse(struct fl_span text)
{
    struct json_tokener *t = json_tokener_new_ex(80);
    FL_MUST(t);
    json_tokener_set_flags(t, JSON_TOKENER_STRICT);
    struct json_object *o = json_tokener_parse_ex(t, text.ptr, (int)text.len);
    bool good = json_tokener_get_error(t) == json_tokener_success;
    json_tokener_free(t);
    if (!good) {
        json_object_put(o);
        return NULL;
    }
    return o;
}

static bool hear(void *arg, enum fl_kube_event event, struct fl_span object)
{
    struct heard *h = arg;
    char *copy = malloc(object.len);
    FL_MUST(copy && object.len >= 2 && object.ptr[0] == '{' && object.ptr[object.len - 1] == '}');
    memcpy(copy, object.ptr, object.len);
    h->sum = (h->sum ^ (uint64_t)event) * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < object.len; i++) {
        h->sum = (h->sum ^ (uint8_t)copy[i]) * UINT64_C(0x100000001b3);
    }
    if (h->items && h->count < json_object_array_length(h->items)) {
        struct json_object *one = parse((struct fl_span){copy, object.len});
        FL_MUST(one && json_object_equal(one, json_object_array_get_idx(h->items, h->count)));
        json_object_put(one);
    }
    free(copy);
    h->count++;
    return true;
}

struct end {
    int err;
    bool whole;
    char version[64], next[64];
    struct heard heard;
};

/* piece 0: of random sizes. */
static void feed(enum fl_kube_form form, size_t max, struct fl_span text, size_t piece,
                 struct end *ret)
{
    struct fl_kube_stream *s = fl_kube_stream_new(form, max, hear, &ret->heard);
    struct fl_rng rng;
    FL_MUST(s);
    fl_rng_seed(&rng, text.len + max);
    while (text.len && ret->err == 0) {
        size_t n = piece ? piece : fl_rng_below(&rng, 9);
        ret->err = fl_kube_stream_feed(s, fl_span_first(text, n));
        text = fl_span_from(text, n);
    }
    struct fl_fmt version = fl_fmt_of(ret->version, sizeof(ret->version));
    struct fl_fmt next = fl_fmt_of(ret->next, sizeof(ret->next));
    ret->whole = fl_kube_stream_whole(s);
    FL_MUST(ret->err == 0 || !ret->whole);
    FL_MUST(fl_kube_stream_feed(s, FL_SPAN("")) == ret->err);
    fl_fmt_text(&version, fl_kube_stream_version(s));
    fl_fmt_text(&next, fl_kube_stream_continue(s));
    fl_kube_stream_free(s);
}

/* Escapes may hide a key of ours from us (the API writes none there). */
static struct json_object *items_by_json_c(struct fl_span text, struct json_object **ret_root)
{
    struct json_object *items = NULL;
    *ret_root = fl_span_find(text, '\\') < 0 ? parse(text) : NULL;
    if (*ret_root && json_object_is_type(*ret_root, json_type_object)) {
        json_object_object_get_ex(*ret_root, "items", &items);
    }
    return json_object_is_type(items, json_type_array) ? items : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 1 << 16) {
        return 0;
    }
    enum fl_kube_form form = data[0] & 1 ? FL_KUBE_WATCH : FL_KUBE_LIST;
    size_t max = data[0] & 2 ? 40 : (size_t)1 << 16;
    struct fl_span text = {(const char *)data + 1, size - 1};
    struct end whole = {0}, bytes = {0}, split = {0};
    struct json_object *root = NULL;
    if (form == FL_KUBE_LIST) {
        whole.heard.items = items_by_json_c(text, &root);
    }
    feed(form, max, text, size, &whole);
    feed(form, max, text, 1, &bytes);
    feed(form, max, text, 0, &split);
    FL_MUST(whole.err == bytes.err && whole.err == split.err);
    FL_MUST(whole.whole == bytes.whole && whole.whole == split.whole);
    FL_MUST(whole.heard.sum == bytes.heard.sum && whole.heard.sum == split.heard.sum);
    FL_MUST(whole.heard.count == bytes.heard.count && whole.heard.count == split.heard.count);
    FL_MUST(strcmp(whole.version, bytes.version) == 0 && strcmp(whole.version, split.version) == 0);
    FL_MUST(strcmp(whole.next, bytes.next) == 0 && strcmp(whole.next, split.next) == 0);
    if (whole.heard.items && whole.whole) {
        FL_MUST(whole.heard.count == json_object_array_length(whole.heard.items));
    }
    json_object_put(root);
    return 0;
}
