/* Any text as each of the objects: taken or refused, never a byte read beyond it; and where json-c
 * reads it too, the same fields. */
#include <errno.h>
#include <json-c/json.h>
#include <stdint.h>
#include <stdlib.h>

#include "controller/codec/json_walk.h"
#include "controller/codec/kube_decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Members in all; each is a key, so that keys that stand twice show (json-c keeps the last alone).
 */
static unsigned count_members(struct fl_json_walk *w, unsigned depth)
{
    struct fl_json_walk copy = *w;
    struct fl_span key;
    unsigned n = 0;
    if (depth < 32 && fl_json_walk_object(w)) {
        while (fl_json_walk_member(w, &key)) {
            n += 1 + count_members(w, depth + 1);
        }
        return n;
    }
    *w = copy;
    if (depth < 32 && fl_json_walk_list(w)) {
        while (fl_json_walk_element(w)) {
            n += count_members(w, depth + 1);
        }
        return n;
    }
    *w = copy;
    fl_json_walk_skip(w);
    return n;
}

static unsigned count_by_json_c(struct json_object *o)
{
    unsigned n = 0;
    if (json_object_is_type(o, json_type_object)) {
        struct json_object_iterator i = json_object_iter_begin(o), end = json_object_iter_end(o);
        for (; !json_object_iter_equal(&i, &end); json_object_iter_next(&i)) {
            n += 1 + count_by_json_c(json_object_iter_peek_value(&i));
        }
    } else if (json_object_is_type(o, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(o); i++) {
            n += count_by_json_c(json_object_array_get_idx(o, i));
        }
    }
    return n;
}

/* NULL: json-c does not read it, or not as we do (keys twice, escapes). */
static struct json_object *parse(struct fl_span text)
{
    struct json_tokener *t = json_tokener_new_ex(33);
    struct fl_json_walk w = fl_json_walk_of(text, NULL);
    FL_MUST(t);
    json_tokener_set_flags(t, JSON_TOKENER_STRICT);
    struct json_object *o = json_tokener_parse_ex(t, text.ptr, (int)text.len);
    bool good = json_tokener_get_error(t) == json_tokener_success;
    json_tokener_free(t);
    unsigned members = count_members(&w, 0);
    if (good && fl_span_find(text, '\\') < 0 && fl_json_walk_end(&w) == 0 &&
        members == count_by_json_c(o)) {
        return o;
    }
    json_object_put(o);
    return NULL;
}

static struct json_object *get(struct json_object *o, const char *key)
{
    struct json_object *found = NULL;
    if (json_object_is_type(o, json_type_object)) {
        json_object_object_get_ex(o, key, &found);
    }
    return found;
}

/* The text that stands there, "" for none or null. */
static void expect(struct json_object *o, const char *key, const char *got)
{
    struct json_object *v = get(o, key);
    FL_MUST(strcmp(got, v ? json_object_get_string(v) : "") == 0);
}

static void expect_meta(struct json_object *o, const struct fl_kube_meta *m)
{
    struct json_object *meta = get(o, "metadata");
    expect(meta, "namespace", m->namespace);
    expect(meta, "name", m->name);
    expect(meta, "uid", m->uid);
    expect(meta, "resourceVersion", m->resource_version);
}

static enum fl_maybe condition(struct json_object *o, const char *key)
{
    struct json_object *v = get(o, key);
    return !v ? FL_MAYBE_NIL : json_object_get_boolean(v) ? FL_MAYBE_TRUE : FL_MAYBE_FALSE;
}

static void expect_slice(struct json_object *o, const struct fl_kube_slice *s)
{
    struct json_object *list = get(o, "endpoints");
    uint32_t n = 0;
    expect_meta(o, &s->meta);
    expect(get(get(o, "metadata"), "labels"), "kubernetes.io/service-name", s->service);
    for (size_t i = 0; list && s->family != FL_ADDR_NONE && i < json_object_array_length(list);
         i++) {
        struct json_object *e = json_object_array_get_idx(list, i), *of = get(e, "addresses");
        struct json_object *first =
            of && json_object_array_length(of) ? json_object_array_get_idx(of, 0) : NULL;
        if (!first || json_object_get_string_len(first) == 0) {
            continue;
        }
        FL_MUST(n < s->endpoint_count);
        FL_MUST(strcmp(s->endpoints[n].address, json_object_get_string(first)) == 0);
        expect(e, "zone", s->endpoints[n].zone);
        expect(get(e, "targetRef"), "uid", s->endpoints[n].target_uid);
        FL_MUST(s->endpoints[n].ready == condition(get(e, "conditions"), "ready"));
        FL_MUST(s->endpoints[n].serving == condition(get(e, "conditions"), "serving"));
        FL_MUST(s->endpoints[n].terminating == condition(get(e, "conditions"), "terminating"));
        n++;
    }
    FL_MUST(n == s->endpoint_count);
    for (uint32_t i = 0; i < s->port_count; i++) {
        FL_MUST(s->ports[i].number > 0 && s->ports[i].name);
    }
}

static void expect_pod(struct json_object *o, const struct fl_kube_pod *p)
{
    struct json_object *notes = get(get(o, "metadata"), "annotations");
    expect_meta(o, &p->meta);
    expect(get(o, "spec"), "nodeName", p->node);
    expect(get(o, "status"), "podIP", p->ip);
    expect(get(o, "status"), "phase", p->phase);
    FL_MUST(p->deleting == (get(get(o, "metadata"), "deletionTimestamp") != NULL));
    for (uint32_t i = 0; i < p->annotation_count; i++) {
        FL_MUST(i == 0 || strcmp(p->annotations[i - 1].key, p->annotations[i].key) < 0);
        expect(notes, p->annotations[i].key, p->annotations[i].value);
    }
}

static void try_all(struct fl_span text, struct fl_arena *a, struct json_object *o)
{
    struct fl_kube_slice slice;
    struct fl_kube_service service;
    struct fl_kube_pod pod;
    struct fl_kube_meta meta;
    struct fl_kube_status status;
    if (fl_kube_decode_slice(text, a, &slice) == 0 && o) {
        expect_slice(o, &slice);
    }
    if (fl_kube_decode_service(text, a, &service) == 0 && o) {
        struct json_object *spec = get(o, "spec"), *type = get(spec, "type");
        bool external = type && strcmp(json_object_get_string(type), "ExternalName") == 0;
        expect_meta(o, &service.meta);
        expect(external ? spec : NULL, "externalName", service.external_name);
    }
    if (fl_kube_decode_pod(text, a, &pod) == 0 && o) {
        expect_pod(o, &pod);
    }
    if (fl_kube_decode_meta(text, a, &meta) == 0 && o) {
        expect_meta(o, &meta);
    }
    if (fl_kube_decode_status(text, a, &status) == 0 && o) {
        expect(o, "reason", status.reason);
        expect(o, "message", status.message);
    }
    (void)fl_kube_decode_is_initial_end(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fl_arena arena;
    if (size == 0 || size > 1 << 16) {
        return 0;
    }
    char *copy = malloc(size); /* of its exact size, and not NUL-terminated */
    FL_MUST(copy);
    memcpy(copy, data, size);
    struct fl_span text = {copy, size};
    struct json_object *o = parse(text);
    fl_arena_init(&arena, (size_t)4 << 20);
    try_all(text, &arena, o);
    fl_arena_done(&arena);
    fl_arena_init(&arena, size % 512); /* too small, mostly */
    try_all(text, &arena, o);
    fl_arena_done(&arena);
    json_object_put(o);
    free(copy);
    return 0;
}
