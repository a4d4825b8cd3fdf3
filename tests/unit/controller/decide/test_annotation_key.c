#include "controller/decide/annotation_key.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <string.h>

static const char bucket63[] = "a23456789012345678901234567890123456789012345678901234567890123";

static void a_key_is_known_by_its_prefix_or_its_name(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        enum fl_annotation_kind kind;
        const char *name;
        bool has_capitals;
    } cases[] = {
        {"route.fairlead.dev/releases", FL_ANNOTATION_ROUTE, "releases", false},
        {"route.fairlead.dev/my.bucket-1", FL_ANNOTATION_ROUTE, "my.bucket-1", false},
        {"ROUTE.fairlead.dev/Releases", FL_ANNOTATION_ROUTE, "releases", true},
        {"backend.fairlead.dev/minio", FL_ANNOTATION_BACKEND_OF, "minio", false},
        {"fairlead.dev/routes", FL_ANNOTATION_DOCUMENT, "routes", false},
        {"fairlead.dev/ROUTES", FL_ANNOTATION_DOCUMENT, "routes", true},
        {"fairlead.dev/env", FL_ANNOTATION_ENV, "env", false},
        {"fairlead.dev/readiness-gate", FL_ANNOTATION_GATE, "readiness-gate", false},
        {"fairlead.dev/bootstrap", FL_ANNOTATION_OURS, "bootstrap", false},
        {"fairlead.dev/injected-hash", FL_ANNOTATION_OURS, "injected-hash", false},
        {"fairlead.dev/inject", FL_ANNOTATION_LABEL, "inject", false},
        {"fairlead.dev/log-level", FL_ANNOTATION_SIDECAR, "log-level", false},
        {"fairlead.dev/client", FL_ANNOTATION_SIDECAR, "client", false},
        {"fairlead.dev/state-file", FL_ANNOTATION_SIDECAR, "state-file", false},
        {"fairlead.dev/log_level", FL_ANNOTATION_STRANGE, "log_level", false},
        {"fairlead.dev/backends", FL_ANNOTATION_STRANGE, "backends", false},
        {"x.route.fairlead.dev/a", FL_ANNOTATION_STRANGE, "a", false},
        {"fairlead.dev", FL_ANNOTATION_STRANGE, "", false},
        {"fairlead.dev/", FL_ANNOTATION_STRANGE, "", false},
        {"route.fairlead.dev", FL_ANNOTATION_NAMELESS, "", false},
        {"route.fairlead.dev/-a", FL_ANNOTATION_NAMELESS, "", false},
        {"route.fairlead.dev/a_", FL_ANNOTATION_NAMELESS, "", false},
        {"route.fairlead.dev/a/b", FL_ANNOTATION_NAMELESS, "", false},
        {"route.fairlead.dev/*", FL_ANNOTATION_NAMELESS, "", false},
        {"notfairlead.dev/a", FL_ANNOTATION_OF_OTHERS, "", false},
        {"fairlead.dev.example.org/a", FL_ANNOTATION_OF_OTHERS, "", false},
        {"airlead.dev/a", FL_ANNOTATION_OF_OTHERS, "", false},
        {"", FL_ANNOTATION_OF_OTHERS, "", false},
    };
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        struct fl_annotation_key key;
        fl_annotation_key_read(cases[i].key, &key);
        if (key.kind != cases[i].kind) {
            fail_msg("%s is of kind %d", cases[i].key, (int)key.kind);
        }
        assert_string_equal(key.name, cases[i].name);
        assert_int_equal(key.has_capitals, cases[i].has_capitals);
        assert_int_equal(key.row != NULL, key.kind == FL_ANNOTATION_SIDECAR);
    }
}

static void a_bucket_may_have_all_63_bytes_and_no_more(void **state)
{
    (void)state;
    char text[128];
    struct fl_annotation_key key;
    struct fl_fmt out = fl_fmt_of(text, sizeof(text));
    assert_int_equal(strlen(bucket63), 63);
    fl_fmt_printf(&out, "route.fairlead.dev/%s", bucket63);
    fl_annotation_key_read(text, &key);
    assert_int_equal(key.kind, FL_ANNOTATION_ROUTE);
    assert_string_equal(key.name, bucket63);
    fl_fmt_char(&out, '4');
    fl_annotation_key_read(text, &key);
    assert_int_equal(key.kind, FL_ANNOTATION_NAMELESS);
}

/* Every key of the top level is one, but for those that the document has. */
static void the_table_gives_the_sidecar_wide_keys(void **state)
{
    (void)state;
    unsigned count, found = 0;
    const struct fl_directive *d = fl_scope_rows(FL_SCOPE_ROOT, &count);
    for (unsigned i = 0; i < count; i++) {
        char text[128];
        struct fl_annotation_key key;
        struct fl_fmt out = fl_fmt_of(text, sizeof(text));
        fl_fmt_text(&out, "fairlead.dev/");
        for (const char *c = d[i].name; *c != '\0'; c++) {
            fl_fmt_char(&out, *c == '_' ? '-' : *c);
        }
        fl_annotation_key_read(text, &key);
        if (key.kind == FL_ANNOTATION_SIDECAR) {
            assert_ptr_equal(key.row, &d[i]);
            found++;
        }
    }
    assert_int_equal(found, count - 2);
}

static void the_nearest_key_is_offered(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"routes.fairlead.dev/a", "route.fairlead.dev/a"},
        {"bakend.fairlead.dev/a", "backend.fairlead.dev/a"},
        {"health.fairlead.dev/a", ""},
        {"fairlead.dev/route.a", "route.fairlead.dev/a"},
        {"fairlead.dev/Backend.a", "backend.fairlead.dev/a"},
        {"fairlead.dev/rutes", "fairlead.dev/routes"},
        {"fairlead.dev/log_level", "fairlead.dev/log-level"},
        {"fairlead.dev/readyness-gate", "fairlead.dev/readiness-gate"},
        {"fairlead.dev/state_file", ""}, /* nobody is led to what is refused */
        {"fairlead.dev/injekt", ""},     /* nor to a label */
        {"fairlead.dev/", ""},
        {"fairlead.dev", ""},
    };
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        char near[192];
        struct fl_fmt out = fl_fmt_of(near, sizeof(near));
        fl_annotation_key_nearest(cases[i][0], &out);
        assert_string_equal(near, cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_known_by_its_prefix_or_its_name),
        cmocka_unit_test(a_bucket_may_have_all_63_bytes_and_no_more),
        cmocka_unit_test(the_table_gives_the_sidecar_wide_keys),
        cmocka_unit_test(the_nearest_key_is_offered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
