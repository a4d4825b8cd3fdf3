#include "controller/codec/lease_json.h"

#include <errno.h>

#include <json-c/json.h>

#include "common/base/json.h"
#include "common/base/units.h"
#include "controller/codec/micro_time.h"

#define DEPTH_MAX 32

/* NULL: not JSON. The caller puts it. */
static struct json_object *parse(struct fl_span text, int *ret_error)
{
    if (text.len > FL_LEASE_JSON_BYTES_MAX) {
        *ret_error = -EBADMSG;
        return NULL;
    }
    struct json_tokener *t = json_tokener_new_ex(DEPTH_MAX);
    if (t == NULL) {
        *ret_error = -ENOMEM;
        return NULL;
    }
    json_tokener_set_flags(t, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    struct json_object *o = json_tokener_parse_ex(t, text.ptr, (int)text.len);
    if (json_tokener_get_error(t) != json_tokener_success) {
        json_object_put(o);
        o = NULL;
    }
    json_tokener_free(t);
    *ret_error = -EBADMSG;
    return o;
}

/* The member when it is of this type; absent or null: NULL and true. */
static bool member(struct json_object *o, const char *key, enum json_type type,
                   struct json_object **ret)
{
    *ret = NULL;
    return o == NULL || !json_object_object_get_ex(o, key, ret) || *ret == NULL ||
           json_object_is_type(*ret, type);
}

static bool text_of(struct json_object *o, const char *key, char *to, size_t cap)
{
    struct json_object *v;
    if (!member(o, key, json_type_string, &v)) {
        return false;
    }
    struct fl_span s = fl_span_first(fl_span_of(v ? json_object_get_string(v) : ""), cap - 1);
    memcpy(to, s.ptr, s.len);
    to[s.len] = '\0';
    return true;
}

static bool int_of(struct json_object *o, const char *key, int32_t *ret)
{
    struct json_object *v;
    if (!member(o, key, json_type_int, &v)) {
        return false;
    }
    int64_t n = v ? json_object_get_int64(v) : 0;
    *ret = (int32_t)n;
    return n >= INT32_MIN && n <= INT32_MAX;
}

static bool time_of(struct json_object *o, const char *key, int64_t *ret)
{
    struct json_object *v;
    if (!member(o, key, json_type_string, &v)) {
        return false;
    }
    *ret = 0;
    (void)(v && fl_micro_time_parse(fl_span_of(json_object_get_string(v)), ret));
    return true;
}

static bool decode(struct json_object *o, struct fl_lease_record *r)
{
    struct json_object *meta, *spec, *kind;
    char version[24];
    uint64_t number;
    bool good =
        json_object_is_type(o, json_type_object) && member(o, "kind", json_type_string, &kind) &&
        kind != NULL && fl_span_is(fl_span_of(json_object_get_string(kind)), "Lease") &&
        member(o, "metadata", json_type_object, &meta) && meta != NULL &&
        member(o, "spec", json_type_object, &spec) &&
        text_of(meta, "uid", r->uid, sizeof(r->uid)) &&
        text_of(meta, "resourceVersion", version, sizeof(version)) &&
        text_of(spec, "holderIdentity", r->holder, sizeof(r->holder)) &&
        int_of(spec, "leaseDurationSeconds", &r->duration_s) &&
        int_of(spec, "leaseTransitions", &r->transitions) &&
        time_of(spec, "acquireTime", &r->acquire_us) && time_of(spec, "renewTime", &r->renew_us);
    if (good && fl_units_uint(fl_span_of(version), &number) && number <= INT64_MAX) {
        r->version = (int64_t)number;
    }
    return good;
}

int fl_lease_json_decode(struct fl_span json, struct fl_lease_record *ret)
{
    int error;
    struct fl_lease_record made = {0};
    struct json_object *o = parse(json, &error);
    if (o == NULL) {
        return error;
    }
    bool good = decode(o, &made);
    json_object_put(o);
    if (good) {
        *ret = made;
    }
    return good ? 0 : -EBADMSG;
}

static void write_time(struct fl_json *j, const char *key, int64_t unix_us)
{
    char text[FL_MICRO_TIME_MAX];
    if (unix_us != 0) {
        fl_json_text(j, key, fl_micro_time_text(unix_us, text));
    }
}

static void write_spec(struct fl_json *j, const struct fl_lease_record *r)
{
    fl_json_open(j, "spec", '{');
    fl_json_text(j, "holderIdentity", r->holder);
    fl_json_int(j, "leaseDurationSeconds", r->duration_s);
    fl_json_int(j, "leaseTransitions", r->transitions);
    write_time(j, "acquireTime", r->acquire_us);
    write_time(j, "renewTime", r->renew_us);
    fl_json_close(j, '}');
}

void fl_lease_json_new(const char *namespace, const char *name, const struct fl_lease_record *r,
                       struct fl_fmt *out)
{
    struct fl_json j = {.out = out};
    fl_json_open(&j, NULL, '{');
    fl_json_text(&j, "apiVersion", "coordination.k8s.io/v1");
    fl_json_text(&j, "kind", "Lease");
    fl_json_open(&j, "metadata", '{');
    fl_json_text(&j, "namespace", namespace);
    fl_json_text(&j, "name", name);
    fl_json_close(&j, '}');
    write_spec(&j, r);
    fl_json_close(&j, '}');
}

/* Takes value over; NULL: there was no memory for it. */
static bool put(struct json_object *o, const char *key, struct json_object *value)
{
    if (value == NULL || json_object_object_add(o, key, value) != 0) {
        json_object_put(value);
        return false;
    }
    return true;
}

static bool put_time(struct json_object *o, const char *key, int64_t unix_us)
{
    char text[FL_MICRO_TIME_MAX];
    if (unix_us == 0) {
        json_object_object_del(o, key);
        return true;
    }
    return put(o, key, json_object_new_string(fl_micro_time_text(unix_us, text)));
}

static bool replace(struct json_object *o, const struct fl_lease_record *r)
{
    struct json_object *spec = NULL;
    (void)json_object_object_get_ex(o, "spec", &spec);
    if (spec == NULL) { /* absent, or null */
        if (!put(o, "spec", json_object_new_object())) {
            return false;
        }
        (void)json_object_object_get_ex(o, "spec", &spec);
    }
    return put(spec, "holderIdentity", json_object_new_string(r->holder)) &&
           put(spec, "leaseDurationSeconds", json_object_new_int(r->duration_s)) &&
           put(spec, "leaseTransitions", json_object_new_int(r->transitions)) &&
           put_time(spec, "acquireTime", r->acquire_us) && put_time(spec, "renewTime", r->renew_us);
}

int fl_lease_json_replace(struct fl_span last, const struct fl_lease_record *r, struct fl_arena *a,
                          struct fl_span *ret)
{
    int error;
    size_t n = 0;
    struct fl_lease_record read = {0};
    struct json_object *o = parse(last, &error);
    if (o == NULL) {
        return error;
    }
    const char *text = NULL;
    if (decode(o, &read)) {
        error = -ENOMEM;
        text = replace(o, r) ? json_object_to_json_string_length(
                                   o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, &n)
                             : NULL;
    }
    char *copy = text != NULL ? fl_arena_text(a, (struct fl_span){text, n}) : NULL;
    json_object_put(o);
    if (copy == NULL) {
        return error;
    }
    *ret = (struct fl_span){copy, n};
    return 0;
}
