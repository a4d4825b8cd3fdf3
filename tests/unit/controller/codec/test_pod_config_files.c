/* The annotations of tests/annotations beside what they come to: the findings word for word, and
 * the routes and backends that the sidecar gets. `--write` makes the .expect files anew; read them
 * before you keep them. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/model/directives_show.h"
#include "tests/unit/controller/codec/pod_kit.h"

#define FOLDER FL_SOURCE_DIR "/tests/annotations"

static char came[1 << 20];

static char *slurp(const char *path)
{
    FILE *fp = fopen(path, "rb");
    char *text = calloc(1, (size_t)1 << 20);
    assert_non_null(text);
    if (fp != NULL) {
        text[fread(text, 1, ((size_t)1 << 20) - 1, fp)] = '\0';
        fclose(fp);
    }
    return text;
}

static void put_findings(const struct fl_pod_overlay *o, struct fl_fmt *out)
{
    for (const struct fl_annotation_finding *i = o->first; i != NULL; i = i->next) {
        fl_fmt_printf(out, "%s %s: %s\n", i->severity == FL_SEVERITY_ERROR ? "error" : "warning",
                      fl_annotation_fault_token(i->fault), i->text);
    }
}

static void put_state(const struct fl_pod_overlay *o, const struct fl_state *s, struct fl_fmt *out)
{
    for (uint32_t i = 0; i < s->route_count; i++) {
        const struct fl_route_conf *r = &s->routes[i];
        fl_fmt_printf(out, "route %s ", r->bucket);
        if (r->invalid[0] != '\0') {
            fl_fmt_printf(out, "invalid: %s", r->invalid);
        } else {
            fl_show_given(FL_SCOPE_ROUTE, r, out);
        }
        fl_fmt_char(out, '\n');
    }
    for (uint32_t i = 0; i < s->backend_count; i++) {
        const struct fl_backend_conf *b = &s->backends[i].conf;
        char subject[FL_SUBJECT_MAX];
        uint32_t probed = 0;
        fl_compose_subject(pod_controller, o, b, subject);
        for (uint32_t k = 0; k < b->peer_count; k++) {
            probed += fl_compose_may_probe(pod_controller, o, b, &b->peers[k]);
        }
        fl_fmt_printf(out, "backend %s ", b->name);
        fl_show_given(FL_SCOPE_BACKEND, b, out);
        fl_fmt_printf(out, "\n  %u peers, %u of them probed as %s\n", (unsigned)b->peer_count,
                      (unsigned)probed, subject);
    }
}

static void make(const char *yaml)
{
    struct fl_fmt out = fl_fmt_of(came, sizeof(came));
    pod_begin(NULL);
    struct fl_pod_overlay *o = pod_read(yaml);
    struct fl_state *s = pod_compose(o);
    put_findings(o, &out);
    put_state(o, s, &out);
    assert_false(out.cut);
    fl_config_free(pod_overlaid(s));
    fl_state_free(s);
    fl_pod_overlay_free(o);
    pod_end(NULL);
}

static int each(void (*use)(const char *yaml_path, const char *expect_path))
{
    int count = 0;
    DIR *dir = opendir(FOLDER);
    assert_non_null(dir);
    for (struct dirent *d = readdir(dir); d != NULL; d = readdir(dir)) {
        char yaml[512], expect[512];
        size_t n = strlen(d->d_name);
        if (n < 6 || strcmp(d->d_name + n - 5, ".yaml") != 0) {
            continue;
        }
        struct fl_fmt y = fl_fmt_of(yaml, sizeof(yaml)), e = fl_fmt_of(expect, sizeof(expect));
        fl_fmt_printf(&y, FOLDER "/%s", d->d_name);
        fl_fmt_printf(&e, FOLDER "/%.*s.expect", (int)(n - 5), d->d_name);
        assert_false(y.cut || e.cut);
        use(yaml, expect);
        count++;
    }
    closedir(dir);
    return count;
}

static void check(const char *yaml_path, const char *expect_path)
{
    char *yaml = slurp(yaml_path), *expect = slurp(expect_path);
    make(yaml);
    if (strcmp(came, expect) != 0) {
        print_error("%s came to:\n%s", yaml_path, came);
    }
    assert_string_equal(came, expect);
    free(yaml);
    free(expect);
}

static void write_one(const char *yaml_path, const char *expect_path)
{
    char *yaml = slurp(yaml_path);
    make(yaml);
    FILE *fp = fopen(expect_path, "wb");
    assert_non_null(fp);
    assert_int_equal(fwrite(came, 1, strlen(came), fp), strlen(came));
    assert_int_equal(fclose(fp), 0);
    free(yaml);
}

static void annotations_come_to_what_stands_beside_them(void **state)
{
    (void)state;
    assert_true(each(check) >= 20);
}

static void write_all(void **state)
{
    (void)state;
    assert_true(each(write_one) > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(annotations_come_to_what_stands_beside_them),
    };
    const struct CMUnitTest writing[] = {cmocka_unit_test(write_all)};
    return argc > 1 && strcmp(argv[1], "--write") == 0 ? cmocka_run_group_tests(writing, NULL, NULL)
                                                       : cmocka_run_group_tests(tests, NULL, NULL);
}
