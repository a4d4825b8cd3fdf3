#include "sidecar/admin/events.h"

// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <json-c/json.h>
#include <stdlib.h>

static char text[1 << 20];

static struct json_object *written(const struct fl_events *e, uint64_t since)
{
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    fl_events_write(e, since, &f);
    assert_false(f.cut);
    struct json_object *o = json_tokener_parse(text);
    assert_non_null(o);
    return o;
}

static struct json_object *list_of(struct json_object *o)
{
    struct json_object *list = NULL;
    assert_true(json_object_object_get_ex(o, "events", &list));
    return list;
}

static int64_t version_of(struct json_object *o)
{
    return json_object_get_int64(json_object_object_get(o, "version"));
}

static void numbers_go_on_and_the_oldest_fall_out(void **state)
{
    (void)state;
    struct fl_events *e = fl_events_new();
    assert_non_null(e);
    struct json_object *o = written(e, 0);
    assert_int_equal(version_of(o), 0);
    assert_int_equal(json_object_array_length(list_of(o)), 0);
    json_object_put(o);
    for (int i = 1; i <= 300; i++) {
        fl_events_add(e, 1764477751123 + i, "peer_quarantined", "minio", "10.0.0.1:9000", "no %d",
                      i);
    }
    o = written(e, 0);
    assert_int_equal(version_of(o), 300);
    assert_int_equal(json_object_array_length(list_of(o)), 256);
    struct json_object *first = json_object_array_get_idx(list_of(o), 0);
    assert_int_equal(version_of(first), 45);
    assert_string_equal(json_object_get_string(json_object_object_get(first, "text")), "no 45");
    json_object_put(o);
    o = written(e, 299);
    assert_int_equal(json_object_array_length(list_of(o)), 1);
    json_object_put(o);
    o = written(e, 300);
    assert_int_equal(json_object_array_length(list_of(o)), 0);
    json_object_put(o);
    o = written(e, UINT64_MAX); /* a since of the future, or of another life, is nothing */
    assert_int_equal(json_object_array_length(list_of(o)), 0);
    json_object_put(o);
    fl_events_free(e);
}

static void hostile_text_stays_json(void **state)
{
    (void)state;
    struct fl_events *e = fl_events_new();
    assert_non_null(e);
    char long_text[4000];
    memset(long_text, '"', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    fl_events_add(e, 1, "a", "b\"\\\n\x01", "\xff", "%s", long_text);
    fl_events_add(e, 1, "b", "", "", "%s", "plain");
    struct json_object *o = written(e, 0);
    assert_true(json_object_array_length(list_of(o)) >= 1);
    assert_int_equal(version_of(o), 2);
    json_object_put(o);
    fl_events_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_go_on_and_the_oldest_fall_out),
        cmocka_unit_test(hostile_text_stays_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
