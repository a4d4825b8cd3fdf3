/* The documents of tests/config: broken ones beside their exact findings, good ones that show and
 * load to the same. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/codec/config_yaml.h"
#include "common/model/directives.h"

static char *slurp(const char *path, size_t *len)
{
    FILE *fp = fopen(path, "rb");
    assert_non_null(fp);
    char *text = malloc((size_t)5 << 20);
    assert_non_null(text);
    *len = fread(text, 1, ((size_t)5 << 20) - 1, fp);
    text[*len] = '\0';
    fclose(fp);
    return text;
}

static void join(char path[static 512], const char *folder, struct fl_span name, const char *end)
{
    struct fl_fmt f = fl_fmt_of(path, 512);
    fl_fmt_printf(&f, "%s/", folder);
    fl_fmt_span(&f, name);
    fl_fmt_text(&f, end);
    assert_false(f.cut);
}

static char *printed(const struct fl_findings *f)
{
    size_t cap = (size_t)1 << 20;
    char *text = malloc(cap);
    assert_non_null(text);
    struct fl_fmt out = fl_fmt_of(text, cap);
    for (const struct fl_finding *i = f->first; i; i = i->next) {
        fl_findings_print(f, i, &out);
        fl_fmt_char(&out, '\n');
    }
    assert_false(out.cut);
    return text;
}

/* The loader by the name of the file; the shown text, or NULL when it is refused. */
static char *load(const char *name, struct fl_span text, struct fl_findings *f)
{
    char *shown = NULL;
    if (strncmp(name, "services", 8) == 0) {
        struct fl_services *s = fl_services_yaml_load(text, f);
        shown = s ? calloc(1, 1) : NULL;
        fl_services_free(s);
    } else if (strncmp(name, "controller", 10) == 0) {
        struct fl_controller_config *c = fl_controller_config_yaml_load(name, text, f);
        size_t cap = (size_t)1 << 20;
        if (c) {
            shown = malloc(cap);
            assert_non_null(shown);
            struct fl_fmt out = fl_fmt_of(shown, cap);
            fl_controller_config_show(c, &out);
            assert_false(out.cut);
        }
        fl_controller_config_free(c);
    } else {
        struct fl_config *c = fl_config_yaml_load(name, text, NULL, 0, f);
        shown = c ? fl_directives_show_text(c) : NULL;
        fl_config_free(c);
    }
    return shown;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), e = strlen(end);
    return n > e && strcmp(name + n - e, end) == 0;
}

static int each(const char *folder, void (*check)(const char *folder, const char *name))
{
    int count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *d = readdir(dir); d; d = readdir(dir)) {
        if (ends_with(d->d_name, ".yaml")) {
            check(folder, d->d_name);
            count++;
        }
    }
    closedir(dir);
    return count;
}

static void check_broken(const char *folder, const char *name)
{
    char path[512];
    size_t len, expected_len;
    struct fl_findings f;
    join(path, folder, fl_span_of(name), "");
    char *text = slurp(path, &len);
    join(path, folder, fl_span_first(fl_span_of(name), strlen(name) - 5), ".expect");
    char *expected = slurp(path, &expected_len);
    fl_findings_init(&f, name);
    char *shown = load(name, (struct fl_span){text, len}, &f);
    char *found = printed(&f);
    if (shown || strcmp(found, expected) != 0) {
        print_error("%s: %s\n", name, shown ? "was taken" : "other findings:");
        print_error("%s", found);
    }
    assert_null(shown);
    assert_true(f.errors > 0);
    assert_string_equal(found, expected);
    free(found);
    free(expected);
    free(text);
    fl_findings_done(&f);
}

static void broken_files_say_what_is_wrong(void **state)
{
    (void)state;
    assert_true(each(FL_SOURCE_DIR "/tests/config/broken", check_broken) >= 60);
}

/* A good document has no findings, unless its .expect says which warnings. */
static void check_warnings(const char *folder, const char *name, const struct fl_findings *f)
{
    char path[512];
    size_t len;
    join(path, folder, fl_span_first(fl_span_of(name), strlen(name) - 5), ".expect");
    FILE *fp = fopen(path, "rb");
    char *expected = fp ? slurp(path, &len) : calloc(1, 1), *found = printed(f);
    if (fp) {
        fclose(fp);
    }
    assert_non_null(expected);
    assert_string_equal(found, expected);
    free(expected);
    free(found);
}

static void check_good(const char *folder, const char *name)
{
    char path[512];
    size_t len;
    struct fl_findings f;
    join(path, folder, fl_span_of(name), "");
    char *text = slurp(path, &len);
    fl_findings_init(&f, name);
    char *shown = load(name, (struct fl_span){text, len}, &f);
    check_warnings(folder, name, &f);
    assert_non_null(shown);
    bool has_show = strncmp(name, "services", 8) != 0;
    char *again = load(name, has_show ? fl_span_of(shown) : (struct fl_span){text, len}, &f);
    assert_int_equal(f.errors, 0);
    assert_non_null(again);
    assert_string_equal(again, shown);
    free(again);
    free(shown);
    free(text);
    fl_findings_done(&f);
}

static void good_files_show_and_load_to_the_same(void **state)
{
    (void)state;
    assert_true(each(FL_SOURCE_DIR "/tests/config/good", check_good) >= 8);
}

/* The hash is of the meaning: not of order, of comments, or of what is written out. */
static void hash_of(const char *text, uint64_t *hash)
{
    struct fl_findings f;
    fl_findings_init(&f, "x");
    struct fl_config *c = fl_config_yaml_load("x", fl_span_of(text), NULL, 0, &f);
    assert_non_null(c);
    *hash = c->hash;
    fl_config_free(c);
    fl_findings_done(&f);
}

static void equal_meaning_has_one_hash(void **state)
{
    uint64_t a, b, other;
    (void)state;
    hash_of("backends: {x: {peers: [{address: 'a:1'}]}, y: {peers: [{address: 'b:1'}]}}\nroutes: "
            "{m: x, n: y}\n",
            &a);
    hash_of("# comment\nlog_level: info\nroutes: {n: {backend: y, next_upstream_tries: 2}, m: x}\n"
            "backends:\n  y: {peers: [{weight: 1, address: \"b:1\"}], max_fails: 1}\n  x: {peers: "
            "[{address: 'a:1'}]}\n",
            &b);
    hash_of("backends: {x: {peers: [{address: 'a:1'}]}, y: {peers: [{address: 'b:1', weight: "
            "2}]}}\nroutes: {m: x, n: y}\n",
            &other);
    assert_true(a == b);
    assert_true(a != other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_files_say_what_is_wrong),
        cmocka_unit_test(good_files_show_and_load_to_the_same),
        cmocka_unit_test(equal_meaning_has_one_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
