/* Reading for pod annotations: what their authors may not set, and where findings say it stands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/model/directives.h"
#include "common/model/directives_scope.h"

static struct fl_config *c;
static struct fl_findings f;

static int begin(void **state)
{
    (void)state;
    c = fl_config_new();
    assert_non_null(c);
    fl_findings_init(&f, "");
    return 0;
}

static int end(void **state)
{
    (void)state;
    fl_config_free(c);
    fl_findings_done(&f);
    return 0;
}

static struct fl_node scalar(const char *key, const char *text)
{
    return (struct fl_node){.kind = FL_NODE_SCALAR,
                            .line = 1,
                            .key = fl_span_of(key),
                            .key_line = 1,
                            .text = fl_span_of(text)};
}

static struct fl_node mapping(const char *key, struct fl_node *first)
{
    return (struct fl_node){
        .kind = FL_NODE_MAP, .line = 1, .key = fl_span_of(key), .key_line = 1, .first = first};
}

static const char *said(void)
{
    assert_non_null(f.first);
    return f.first->text;
}

static bool reads_backend(struct fl_node *map)
{
    struct fl_backend_conf b;
    return fl_directives_read_backend_as(FL_ORIGIN_ANNOTATION, map, "minio", c, &b, &f);
}

static bool reads_route(struct fl_node *map)
{
    struct fl_route_conf r;
    return fl_directives_read_route_as(FL_ORIGIN_ANNOTATION, map, "releases", c, &r, &f);
}

/* A key that names a file of the machine, or who pushes, is never an annotation's. */
static void what_reaches_beyond_the_pod_is_marked_private(void **state)
{
    (void)state;
    static const char *const closed[] = {"listen", "push", "state_file", "id"};
    unsigned count;
    for (unsigned s = 0; s < FL_SCOPE_COUNT; s++) {
        const struct fl_directive *d = fl_scope_rows((enum fl_scope)s, &count);
        for (unsigned i = 0; i < count; i++) {
            size_t n = strlen(d[i].name);
            bool sidecars = fl_scope_row((enum fl_scope)s)->document & FL_IN_SIDECAR;
            if (sidecars && n > 5 && strcmp(d[i].name + n - 5, "_file") == 0) {
                assert_true(d[i].flags & FL_D_PRIVATE);
            }
        }
    }
    for (size_t i = 0; i < FL_COUNTOF(closed); i++) {
        assert_true(fl_scope_find(FL_SCOPE_ROOT, closed[i])->flags & FL_D_PRIVATE);
    }
}

static void files_are_refused_one_by_one(void **state)
{
    (void)state;
    static const char *const keys[][2] = {{"tls", "ca_file"},
                                          {"tls", "cert_file"},
                                          {"tls", "key_file"},
                                          {"probe", "access_key_file"},
                                          {"probe", "secret_key_file"}};
    for (size_t i = 0; i < FL_COUNTOF(keys); i++) {
        char want[96];
        struct fl_fmt out = fl_fmt_of(want, sizeof(want));
        struct fl_node file = scalar(keys[i][1], "/etc/passwd");
        struct fl_node inner = mapping(keys[i][0], &file), outer = mapping("", &inner);
        assert_false(reads_backend(&outer));
        fl_fmt_printf(&out, "%s.%s: is not allowed in a pod annotation", keys[i][0], keys[i][1]);
        assert_string_equal(said(), want);
        end(NULL);
        begin(NULL);
    }
}

static void a_secret_by_name_is_for_annotations(void **state)
{
    (void)state;
    struct fl_node secret = scalar("secret", "keys"), probe = mapping("probe", &secret);
    struct fl_node outer = mapping("", &probe);
    assert_true(reads_backend(&outer));
    secret = scalar("secrets", "keys");
    assert_false(reads_backend(&outer));
    assert_string_equal(said(), "unknown key \"secrets\" in probe; did you mean \"secret\"?");
}

static void places_count_from_the_annotation(void **state)
{
    (void)state;
    struct fl_node backend = scalar("backend", "minio"), other = scalar("read_timeut", "3s");
    struct fl_node outer = mapping("", &backend);
    backend.next = &other;
    assert_false(reads_route(&outer));
    assert_string_equal(said(), "unknown key \"read_timeut\"; did you mean \"read_timeout\"?");
}

static void a_key_of_another_annotation_is_sent_there(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"max_fails", "unknown key \"max_fails\"; it belongs in backend.fairlead.dev/NAME"},
        {"min_per_second", "unknown key \"min_per_second\"; it belongs in \"retry_budget\" of "
                           "backend.fairlead.dev/NAME"},
        {"log_level",
         "unknown key \"log_level\"; it is an annotation of its own, fairlead.dev/log-level"},
        {"backends", "unknown key \"backends\"; did you mean \"backend\"?"},
        {"routes", "unknown key \"routes\"; it belongs in fairlead.dev/routes"},
        {"listen", "unknown key \"listen\"; it is not allowed in a pod annotation"},
        {"ca_file", "unknown key \"ca_file\"; it is not allowed in a pod annotation"},
    };
    for (size_t i = 0; i < FL_COUNTOF(cases); i++) {
        struct fl_node backend = scalar("backend", "minio"), other = scalar(cases[i][0], "x");
        struct fl_node outer = mapping("", &backend);
        backend.next = &other;
        assert_false(reads_route(&outer));
        assert_string_equal(said(), cases[i][1]);
        end(NULL);
        begin(NULL);
    }
}

static void one_key_of_the_top_level_alone(void **state)
{
    (void)state;
    struct fl_node level = scalar("", "debug"), timeout = scalar("idle_timeout", "5s");
    struct fl_node client = mapping("", &timeout);
    assert_true(fl_directives_read_key(&level, "log_level", c, &f));
    assert_int_equal(c->log_level, 3);
    assert_true(fl_directives_read_key(&client, "client", c, &f));
    assert_int_equal(c->client.idle_timeout_ms, 5000);
    level = scalar("", "chatty");
    assert_false(fl_directives_read_key(&level, "log_level", c, &f));
    assert_string_equal(said(), "\"chatty\" is not one of error, warn, info, debug");
}

static void no_private_key_alone(void **state)
{
    (void)state;
    struct fl_node v = scalar("", "/x");
    assert_false(fl_directives_read_key(&v, "state_file", c, &f));
    assert_string_equal(said(), "is not allowed in a pod annotation");
    assert_string_equal(c->state_file, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_reaches_beyond_the_pod_is_marked_private),
        TEST(files_are_refused_one_by_one),
        TEST(a_secret_by_name_is_for_annotations),
        TEST(places_count_from_the_annotation),
        TEST(a_key_of_another_annotation_is_sent_there),
        TEST(one_key_of_the_top_level_alone),
        TEST(no_private_key_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
