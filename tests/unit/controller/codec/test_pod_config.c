/* Rules of pod annotations that one example does not prove; the examples are tests/annotations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/model/directives_show.h"
#include "tests/unit/controller/codec/pod_kit.h"

static char text[1 << 18];

static const struct fl_route_conf *route(const struct fl_pod_overlay *o, const char *bucket)
{
    const struct fl_route_conf *r = fl_config_route(o->own, bucket);
    assert_non_null(r);
    return r;
}

/* ---- trust ---- */

static void assert_refused(const char *yaml)
{
    struct fl_pod_overlay *o = pod_read(yaml);
    if (o->faults[FL_ANNOTATION_REFUSED] != 1 || o->errors != 1) {
        fail_msg("%s: %u errors, %u refusals", yaml, (unsigned)o->errors,
                 (unsigned)o->faults[FL_ANNOTATION_REFUSED]);
    }
    assert_non_null(strstr(o->first->text, "is not allowed in a pod annotation"));
    fl_pod_overlay_free(o);
}

/* Whatever the table marks as private is refused, wherever an annotation could put it. */
static void every_private_key_is_refused(void **state)
{
    (void)state;
    static const struct {
        enum fl_scope scope;
        const char *yaml; /* % stands for the key */
    } places[] = {
        {FL_SCOPE_BACKEND, "backend.fairlead.dev/b: \"{peers: [{address: 'a:1'}], %: x}\"\n"},
        {FL_SCOPE_TLS, "backend.fairlead.dev/b: \"{peers: [{address: 'a:1'}], tls: {%: x}}\"\n"},
        {FL_SCOPE_PROBE,
         "backend.fairlead.dev/b: \"{peers: [{address: 'a:1'}], probe: {%: x}}\"\n"},
        {FL_SCOPE_PROBE, "fairlead.dev/routes: \"{backends: {b: {peers: [{address: 'a:1'}], "
                         "probe: {%: x}}}}\"\n"},
        {FL_SCOPE_ROUTE, "route.fairlead.dev/a: \"{backend: minio, %: x}\"\n"},
        {FL_SCOPE_POLICY, "route.fairlead.dev/a: \"{backend: minio, %: x}\"\n"},
    };
    unsigned refused = 0;
    for (size_t p = 0; p < FL_COUNTOF(places); p++) {
        unsigned count;
        const struct fl_directive *d = fl_scope_rows(places[p].scope, &count);
        for (unsigned i = 0; i < count; i++) {
            if (d[i].flags & FL_D_PRIVATE) {
                struct fl_span whole = fl_span_of(places[p].yaml);
                ptrdiff_t at = fl_span_find(whole, '%');
                struct fl_fmt out = fl_fmt_of(text, sizeof(text));
                fl_fmt_span(&out, fl_span_first(whole, (size_t)at));
                fl_fmt_text(&out, d[i].name);
                fl_fmt_span(&out, fl_span_from(whole, (size_t)at + 1));
                assert_refused(text);
                refused++;
            }
        }
    }
    assert_int_equal(refused, 3 + 2 + 2);
    assert_refused("fairlead.dev/listen: \"{admin: '0.0.0.0:1'}\"\n");
    assert_refused("fairlead.dev/push: \"{public_key_file: /x}\"\n");
    assert_refused("fairlead.dev/state-file: /x\n");
    assert_refused("fairlead.dev/id: x\n");
}

static void a_refused_key_leaves_no_trace(void **state)
{
    (void)state;
    struct fl_pod_overlay *o =
        pod_read("fairlead.dev/id: somebody\nfairlead.dev/state-file: /x\n"
                 "backend.fairlead.dev/b: \"{peers: [{address: 'a:1'}], tls: {ca_file: /x}}\"\n");
    assert_string_equal(o->own->id, "");
    assert_string_equal(o->own->state_file, "");
    assert_int_equal(o->own->backend_count, 0);
    assert_true(o->own->set == 0);
    fl_pod_overlay_free(o);
}

/* ---- isolation ---- */

static char *json_of(const struct fl_pod_overlay *o)
{
    size_t len;
    struct fl_state *s = pod_compose(o);
    char *json = fl_state_json_text(s, &len);
    assert_non_null(json);
    fl_state_free(s);
    return json;
}

/* What is left of the state when route `x` is taken out is the state of the other annotations. */
static void a_bad_annotation_changes_nothing_but_its_own_route(void **state)
{
    (void)state;
    static const char good[] = "route.fairlead.dev/a: minio\n"
                               "backend.fairlead.dev/s: \"{peers: [{address: '10.5.0.1:9000'}]}\"\n"
                               "route.fairlead.dev/z: \"{backend: s, read_timeout: 4s}\"\n";
    static const char *const bad[] = {
        "route.fairlead.dev/x: nobody\n",
        "route.fairlead.dev/x: \"{\"\n",
        "route.fairlead.dev/x: \"\"\n",
        "route.fairlead.dev/x: \"{backend: s, deadline: -1s}\"\n",
        "route.fairlead.dev/x: \"{backend: s, backend: s}\"\n",
        "route.fairlead.dev/x: \"&a s\"\n",
        "route.fairlead.dev/x: \"s: s: s\"\n",
        "route.fairlead.dev/x: \"10.0.0.1:80\"\n",
        "route.fairlead.dev/x: t\nbackend.fairlead.dev/t: \"{max_fails: 99}\"\n",
        "fairlead.dev/routes: \"{routes: {x: {backend: s, pathes: {}}}}\"\n",
        "fairlead.dev/routes: \"{routes: {x: s, x: minio}}\"\n",
    };
    struct fl_pod_overlay *alone = pod_read(good);
    assert_int_equal(alone->errors, 0);
    char *expected = json_of(alone);
    for (size_t i = 0; i < FL_COUNTOF(bad); i++) {
        snprintf(text, sizeof(text), "%s%s", good, bad[i]);
        struct fl_pod_overlay *o = pod_read(text);
        struct fl_route_conf *x = NULL;
        assert_true(o->errors > 0);
        for (uint32_t r = 0; r < o->own->route_count; r++) {
            x = strcmp(o->own->routes[r].bucket, "x") == 0 ? &o->own->routes[r] : x;
        }
        assert_non_null(x);
        assert_true(strncmp(x->invalid, "annotation ", 11) == 0);
        *x = o->own->routes[--o->own->route_count];
        char *left = json_of(o);
        assert_string_equal(left, expected);
        free(left);
        fl_pod_overlay_free(o);
    }
    free(expected);
    fl_pod_overlay_free(alone);
}

static void write_controller(const void *what, struct fl_fmt *out)
{
    fl_controller_config_show(what, out);
}

static void the_controllers_configuration_is_not_touched(void **state)
{
    (void)state;
    uint64_t before = fl_show_hash_of(write_controller, pod_controller, FL_SHOW_ABOUT);
    struct fl_pod_overlay *o =
        pod_read("backend.fairlead.dev/web: \"{peers: [{address: '10.5.0.1:9000'}]}\"\n"
                 "route.fairlead.dev/releases: web\nroute.fairlead.dev/common: minio\n"
                 "fairlead.dev/routes: \"{routes: {x: minio.storage:9000, '*': archive}}\"\n");
    fl_state_free(pod_compose(o));
    fl_pod_overlay_free(o);
    assert_true(before == fl_show_hash_of(write_controller, pod_controller, FL_SHOW_ABOUT));
}

static void a_pods_route_goes_over_the_controllers(void **state)
{
    (void)state;
    struct fl_pod_overlay *o = pod_read("route.fairlead.dev/common: minio\n");
    struct fl_state *s = pod_compose(o);
    struct fl_config *c = pod_overlaid(s);
    assert_string_equal(fl_config_route(c, "common")->backend, "minio");
    assert_string_equal(fl_config_route(c, "a@b")->backend, "web");
    assert_null(fl_config_backend(c, "archive")); /* nobody uses it any more */
    fl_config_free(c);
    fl_state_free(s);
    fl_pod_overlay_free(o);
}

/* ---- bounds ---- */

static void more_routes_than_a_pod_may_have_are_left_out(void **state)
{
    (void)state;
    struct fl_fmt out = fl_fmt_of(text, sizeof(text));
    for (unsigned i = 0; i < FL_POD_ROUTES_MAX + 3; i++) {
        fl_fmt_printf(&out, "route.fairlead.dev/b%u: minio:%u\n", i, i + 1);
    }
    assert_false(out.cut);
    struct fl_pod_overlay *o = pod_read(text);
    assert_int_equal(o->own->route_count, FL_POD_ROUTES_MAX);
    assert_int_equal(o->own->backend_count, FL_POD_BACKENDS_MAX);
    assert_int_equal(o->faults[FL_ANNOTATION_TOO_MANY], 3);
    struct fl_state *s = pod_compose(o);
    fl_config_free(pod_overlaid(s));
    fl_state_free(s);
    fl_pod_overlay_free(o);
}

static void all_findings_are_counted_and_some_are_kept(void **state)
{
    (void)state;
    struct fl_fmt out = fl_fmt_of(text, sizeof(text));
    for (unsigned i = 0; i < 500; i++) {
        fl_fmt_printf(&out, "route.fairlead.dev/b%u: nobody\n", i);
    }
    struct fl_pod_overlay *o = pod_read(text);
    unsigned kept = 0;
    for (const struct fl_annotation_finding *i = o->first; i != NULL; i = i->next) {
        kept++;
    }
    assert_int_equal(kept, FL_POD_FINDINGS_MAX);
    assert_int_equal(o->errors, 500);
    assert_int_equal(o->faults[FL_ANNOTATION_BACKEND], 500);
    for (uint32_t i = 0; i < o->own->route_count; i++) {
        assert_true(o->own->routes[i].invalid[0] != '\0');
    }
    char said[FL_POD_OVERLAY_SAID_MAX];
    fl_pod_overlay_say(o, said);
    assert_string_equal(said, "annotation route.fairlead.dev/b0: backend: there is no backend "
                              "\"nobody\" (and 499 more)");
    fl_pod_overlay_free(o);
}

/* It goes into a header, and a sidecar refuses a state whose reason is too long. */
static void a_reason_is_short_ascii(void **state)
{
    (void)state;
    struct fl_fmt out = fl_fmt_of(text, sizeof(text));
    fl_fmt_text(&out, "route.fairlead.dev/a: \"{backend: minio, read_timeout: '");
    for (unsigned i = 0; i < 300; i++) {
        fl_fmt_text(&out, "\xc3\xa4");
    }
    fl_fmt_text(&out, "'}\"\n");
    struct fl_pod_overlay *o = pod_read(text);
    const char *why = route(o, "a")->invalid;
    assert_in_range(strlen(why), 20, 255);
    assert_non_null(strstr(why, "read_timeout: \"????"));
    for (const char *c = why; *c != '\0'; c++) {
        assert_in_range((unsigned char)*c, 0x20, 0x7e);
    }
    fl_pod_overlay_free(o);
}

static void a_pod_without_a_namespace_has_no_services_of_its_own(void **state)
{
    (void)state;
    struct fl_pod_overlay *o = pod_read_in(
        "Not A Namespace", "route.fairlead.dev/a: minio:9000\nroute.fairlead.dev/b: minio\n");
    assert_true(route(o, "a")->invalid[0] != '\0');
    assert_string_equal(route(o, "b")->invalid, "");
    assert_string_equal(o->namespace, "");
    fl_pod_overlay_free(o);
}

/* ---- what is kept ---- */

static void sidecar_wide_keys_are_kept_for_the_injector(void **state)
{
    (void)state;
    struct fl_pod_overlay *o = pod_read("fairlead.dev/log-level: debug\nfairlead.dev/threads: "
                                        "lots\nfairlead.dev/env: 'true'\n"
                                        "fairlead.dev/readiness-gate: startup\n");
    assert_int_equal(o->own->log_level, 3);
    assert_int_equal(o->own->threads, 0);
    assert_true(o->own->set == UINT64_C(1)
                                   << fl_directive_bit(fl_scope_find(FL_SCOPE_ROOT, "log_level")));
    assert_true(o->env);
    assert_int_equal(o->gate, FL_GATE_WISH_STARTUP);
    assert_true(fl_pod_overlay_is_empty(o));
    assert_int_equal(o->errors, 1);
    fl_pod_overlay_free(o);
}

static void probe_times_are_the_controllers_where_none_is_given(void **state)
{
    (void)state;
    pod_controller->probe_defaults.interval_ms = 7000;
    struct fl_pod_overlay *o =
        pod_read("route.fairlead.dev/a: minio:s3\n"
                 "backend.fairlead.dev/b: \"{peers: [{address: 'a:1'}], probe: {timeout: 2s}}\"\n");
    const struct fl_backend_conf *implicit = fl_config_backend(o->own, "minio.shop:s3"),
                                 *given = fl_config_backend(o->own, "b");
    assert_int_equal(implicit->probe.interval_ms, 7000);
    assert_int_equal(implicit->probe.timeout_ms, 30000);
    assert_int_equal(given->probe.interval_ms, 7000);
    assert_int_equal(given->probe.timeout_ms, 2000);
    fl_pod_overlay_free(o);
}

static void nothing_of_the_annotations_is_borrowed(void **state)
{
    (void)state;
    char key[] = "route.fairlead.dev/a", value[] = "minio:s3", other[] = "route.fairlead.dev/b";
    char wrong[] = "nobody", space[] = "shop";
    struct fl_kube_annotation annotations[] = {{key, value}, {other, wrong}};
    struct fl_pod_overlay *o = fl_pod_config_read(pod_controller, space, annotations, 2);
    assert_non_null(o);
    memset(key, 'x', sizeof(key));
    memset(value, 'x', sizeof(value));
    memset(other, 'x', sizeof(other));
    memset(wrong, 'x', sizeof(wrong));
    memset(space, 'x', sizeof(space));
    assert_string_equal(route(o, "a")->backend, "minio.shop:s3");
    assert_string_equal(o->first->annotation, "route.fairlead.dev/b");
    assert_non_null(strstr(o->first->text, "nobody"));
    assert_string_equal(o->namespace, "shop");
    fl_pod_overlay_free(o);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, pod_begin, pod_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_private_key_is_refused),
        TEST(a_refused_key_leaves_no_trace),
        TEST(a_bad_annotation_changes_nothing_but_its_own_route),
        TEST(the_controllers_configuration_is_not_touched),
        TEST(a_pods_route_goes_over_the_controllers),
        TEST(more_routes_than_a_pod_may_have_are_left_out),
        TEST(all_findings_are_counted_and_some_are_kept),
        TEST(a_reason_is_short_ascii),
        TEST(a_pod_without_a_namespace_has_no_services_of_its_own),
        TEST(sidecar_wide_keys_are_kept_for_the_injector),
        TEST(probe_times_are_the_controllers_where_none_is_given),
        TEST(nothing_of_the_annotations_is_borrowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
