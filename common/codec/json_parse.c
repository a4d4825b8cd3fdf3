#include "common/codec/json_parse.h"

#include <json-c/json.h>

static struct fl_node *refuse(struct fl_findings *f, const char *text)
{
    fl_findings_add(f, FL_SEVERITY_ERROR, 0, "%s", text);
    return NULL;
}

static bool has_nul(struct fl_span s)
{
    return s.len && memchr(s.ptr, '\0', s.len);
}

/* One value without its children; NULL: no memory, or a NUL in a string, which no C text can carry.
 */
static struct fl_node *convert_one(struct json_object *o, struct fl_arena *a)
{
    struct fl_node *n = fl_arena_alloc(a, sizeof(*n));
    if (!n) {
        return NULL;
    }
    n->key = n->text = FL_SPAN("");
    switch (json_object_get_type(o)) {
    case json_type_null:
        n->kind = FL_NODE_NULL;
        return n;
    case json_type_object:
        n->kind = FL_NODE_MAP;
        return n;
    case json_type_array:
        n->kind = FL_NODE_LIST;
        return n;
    case json_type_string:
    case json_type_boolean:
    case json_type_double:
    case json_type_int:
        break;
    }
    n->kind = FL_NODE_SCALAR;
    n->quoted = json_object_get_type(o) == json_type_string;
    struct fl_span s = fl_span_of(n->quoted ? "" : json_object_get_string(o));
    if (n->quoted) {
        s = (struct fl_span){json_object_get_string(o), (size_t)json_object_get_string_len(o)};
    }
    const char *copy = has_nul(s) ? NULL : fl_arena_text(a, s);
    n->text = (struct fl_span){copy ? copy : "", s.len};
    return copy ? n : NULL;
}

/* The depth is bounded by the parser. */
static struct fl_node *convert(struct json_object *o, struct fl_arena *a)
{
    struct fl_node *n = convert_one(o, a), **at = n ? &n->first : NULL;
    if (n && n->kind == FL_NODE_LIST) {
        for (size_t i = 0; i < json_object_array_length(o); i++) {
            *at = convert(json_object_array_get_idx(o, i), a);
            if (!*at) {
                return NULL;
            }
            at = &(*at)->next;
        }
    } else if (n && n->kind == FL_NODE_MAP) {
        struct json_object_iterator i = json_object_iter_begin(o), end = json_object_iter_end(o);
        for (; !json_object_iter_equal(&i, &end); json_object_iter_next(&i)) {
            *at = convert(json_object_iter_peek_value(&i), a);
            const char *key =
                *at ? fl_arena_text(a, fl_span_of(json_object_iter_peek_name(&i))) : NULL;
            if (!key) {
                return NULL;
            }
            (*at)->key = fl_span_of(key);
            at = &(*at)->next;
        }
    }
    return n;
}

/* An upper bound, since brackets inside strings count too; enough to keep json-c's memory within
 * reason. */
static bool too_many(struct fl_span text)
{
    unsigned count = 0;
    for (size_t i = 0; i < text.len; i++) {
        count += text.ptr[i] == '{' || text.ptr[i] == '[';
    }
    return count > FL_JSON_OBJECTS_MAX;
}

struct fl_node *fl_json_parse(struct fl_span text, struct fl_arena *a, struct fl_findings *f)
{
    if (text.len > FL_JSON_BYTES_MAX) {
        return refuse(f, "the document is larger than 1 MiB");
    }
    if (too_many(text)) {
        return refuse(f, "the document has too many objects and lists");
    }
    struct json_tokener *t = json_tokener_new_ex(FL_JSON_DEPTH_MAX);
    if (!t) {
        return refuse(f, "out of memory");
    }
    json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    struct json_object *o = json_tokener_parse_ex(t, text.ptr, (int)text.len);
    enum json_tokener_error e = json_tokener_get_error(t);
    size_t at = json_tokener_get_parse_end(t);
    json_tokener_free(t);
    if (e != json_tokener_success) {
        json_object_put(o);
        fl_findings_add(
            f, FL_SEVERITY_ERROR, 0, "this is not valid JSON: %s at byte %zu",
            e == json_tokener_continue ? "it ends too early" : json_tokener_error_desc(e), at);
        return NULL;
    }
    struct fl_node *n = convert(o, a);
    json_object_put(o);
    return n ? n : refuse(f, "out of memory, or a string has a NUL character");
}
