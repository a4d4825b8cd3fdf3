/* docs/ANNOTATIONS.md says what is: its examples are read, its findings are those that come, and
 * its lists of keys are the table's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/controller/codec/pod_kit.h"

static char page[1 << 17], said[1 << 14];

static void read_page(void)
{
    FILE *fp = fopen(FL_SOURCE_DIR "/docs/ANNOTATIONS.md", "rb");
    assert_non_null(fp);
    page[fread(page, 1, sizeof(page) - 1, fp)] = '\0';
    fclose(fp);
}

/* The inside of the block that opens at or after *at; *at is then behind it. NULL: none. */
static char *next_block(const char **at, const char *fence)
{
    const char *open = strstr(*at, fence);
    if (open == NULL) {
        return NULL;
    }
    open += strlen(fence);
    const char *end = strstr(open, "```");
    assert_non_null(end);
    *at = end + 3;
    return strndup(open, (size_t)(end - open));
}

static void find(const char *yaml)
{
    struct fl_fmt out = fl_fmt_of(said, sizeof(said));
    struct fl_pod_overlay *o = pod_read(yaml);
    for (const struct fl_annotation_finding *i = o->first; i != NULL; i = i->next) {
        fl_fmt_printf(&out, "%s\n", i->text);
    }
    struct fl_state *s = pod_compose(o);
    fl_config_free(pod_overlaid(s));
    fl_state_free(s);
    fl_pod_overlay_free(o);
}

static void the_examples_are_good_and_the_bad_ones_say_what_the_page_says(void **state)
{
    (void)state;
    unsigned good = 0, bad = 0;
    const char *at = page;
    for (char *yaml; (yaml = next_block(&at, "```yaml\n")) != NULL; free(yaml)) {
        char *expected =
            strncmp(at, "\n\n```text\n", 10) == 0 ? next_block(&at, "```text\n") : NULL;
        find(yaml);
        assert_string_equal(said, expected != NULL ? expected : "");
        good += expected == NULL;
        bad += expected != NULL;
        free(expected);
    }
    assert_int_equal(good, 3);
    assert_int_equal(bad, 2);
}

static const char *section(const char *title)
{
    const char *at = strstr(page, title);
    assert_non_null(at);
    return at;
}

/* "`fairlead.dev/log-level`" for log_level. */
static bool names(const char *where, const char *key)
{
    char cell[96];
    struct fl_fmt out = fl_fmt_of(cell, sizeof(cell));
    fl_fmt_text(&out, "`fairlead.dev/");
    for (; *key != '\0'; key++) {
        fl_fmt_char(&out, *key == '_' ? '-' : *key);
    }
    fl_fmt_char(&out, '`');
    return strstr(where, cell) != NULL;
}

static void its_lists_are_those_of_the_table(void **state)
{
    (void)state;
    unsigned count, listed = 0;
    const char *own = section("## Keys of the sidecar itself"),
               *closed = section("## What an annotation may not");
    const struct fl_directive *d = fl_scope_rows(FL_SCOPE_ROOT, &count);
    for (unsigned i = 0; i < count; i++) {
        bool container = d[i].type == FL_TYPE_BACKENDS || d[i].type == FL_TYPE_ROUTES;
        bool is_private = d[i].flags & FL_D_PRIVATE;
        assert_int_equal(names(own, d[i].name), !container && !is_private);
        assert_true(!is_private || names(closed, d[i].name));
        listed += !container && !is_private;
    }
    for (const char *at = own; (at = strstr(at, "`fairlead.dev/")) != NULL; at++) {
        listed--; /* and no other stands there */
    }
    assert_int_equal(listed, 0);
}

static void all_files_that_are_refused_are_named(void **state)
{
    (void)state;
    static const enum fl_scope scopes[] = {FL_SCOPE_BACKEND, FL_SCOPE_TLS,   FL_SCOPE_PROBE,
                                           FL_SCOPE_PEER,    FL_SCOPE_ROUTE, FL_SCOPE_POLICY};
    const char *closed = section("## What an annotation may not");
    for (size_t s = 0; s < FL_COUNTOF(scopes); s++) {
        unsigned count;
        const struct fl_directive *d = fl_scope_rows(scopes[s], &count);
        for (unsigned i = 0; i < count; i++) {
            char cell[80];
            snprintf(cell, sizeof(cell), "`%s`", d[i].name);
            assert_true(!(d[i].flags & FL_D_PRIVATE) || strstr(closed, cell) != NULL);
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, pod_begin, pod_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_examples_are_good_and_the_bad_ones_say_what_the_page_says),
        TEST(its_lists_are_those_of_the_table),
        TEST(all_files_that_are_refused_are_named),
    };
    read_page();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
