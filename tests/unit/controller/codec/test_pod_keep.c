/* A live edit that is bad keeps what was good. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "controller/decide/pod_keep.h"
#include "tests/unit/controller/codec/pod_kit.h"

#define OWN  "{peers: [{address: '10.5.0.1:9000'}], max_fails: 7}"
#define NEXT "{peers: [{address: '10.6.0.1:9000'}]}"

/* The pod had `before`, now it has `after`; *kept of its routes stay. */
static struct fl_pod_overlay *edit(const char *before, const char *after, int kept)
{
    struct fl_pod_overlay *old = pod_read(before), *fresh = pod_read(after);
    int rc = fl_pod_keep(pod_controller, fresh, old);
    fl_pod_overlay_free(old); /* nothing of it is borrowed */
    assert_int_equal(rc, kept);
    struct fl_state *s = pod_compose(fresh);
    fl_config_free(pod_overlaid(s)); /* a sidecar takes it */
    fl_state_free(s);
    return fresh;
}

static const struct fl_route_conf *route(const struct fl_pod_overlay *o, const char *bucket)
{
    return fl_config_route(o->own, bucket);
}

static const char *backend_of(const struct fl_pod_overlay *o, const char *bucket)
{
    const struct fl_route_conf *r = route(o, bucket);
    assert_non_null(r);
    assert_string_equal(r->invalid, "");
    return r->backend;
}

static void a_bad_route_stays_as_it_was_and_the_finding_stays_too(void **state)
{
    (void)state;
    struct fl_pod_overlay *o =
        edit("route.fairlead.dev/a: \"{backend: minio, paths: {/x: {backend: archive}}}\"\n"
             "route.fairlead.dev/b: archive\n",
             "route.fairlead.dev/a: minoi\nroute.fairlead.dev/b: web\n", 1);
    assert_string_equal(backend_of(o, "a"), "minio");
    assert_string_equal(route(o, "a")->paths[0].prefix, "/x");
    assert_string_equal(backend_of(o, "b"), "web"); /* a good edit counts */
    assert_int_equal(o->errors, 1);
    fl_pod_overlay_free(o);
}

static void what_was_bad_or_is_gone_does_not_come_back(void **state)
{
    (void)state;
    struct fl_pod_overlay *o = edit("route.fairlead.dev/a: minoi\nroute.fairlead.dev/b: archive\n",
                                    "route.fairlead.dev/a: minioo\n", 0);
    assert_non_null(strstr(route(o, "a")->invalid, "minioo"));
    assert_null(route(o, "b"));
    fl_pod_overlay_free(o);
}

static void a_bad_backend_stays_as_it_was_for_its_routes(void **state)
{
    (void)state;
    struct fl_pod_overlay *o =
        edit("backend.fairlead.dev/s: \"" OWN "\"\nroute.fairlead.dev/a: s\n",
             "backend.fairlead.dev/s: \"{peers: 5}\"\nroute.fairlead.dev/a: \"{backend: s, "
             "deadline: 9s}\"\n",
             1);
    assert_string_equal(backend_of(o, "a"), "s");
    assert_int_equal(fl_config_backend(o->own, "s")->max_fails, 7);
    fl_pod_overlay_free(o);
}

static void a_good_backend_is_the_one_of_now(void **state)
{
    (void)state;
    struct fl_pod_overlay *o =
        edit("backend.fairlead.dev/s: \"" OWN "\"\nroute.fairlead.dev/a: s\n",
             "backend.fairlead.dev/s: \"" NEXT "\"\nroute.fairlead.dev/a: \"{\"\n", 1);
    assert_int_equal(o->own->backend_count, 1);
    assert_string_equal(fl_config_backend(o->own, "s")->peers[0].address, "10.6.0.1:9000");
    fl_pod_overlay_free(o);
}

/* The pod's own minio is gone, and b means the controller's now: that may not be undone. */
static void a_kept_route_changes_no_other(void **state)
{
    (void)state;
    struct fl_pod_overlay *o =
        edit("backend.fairlead.dev/minio: \"" OWN "\"\nroute.fairlead.dev/a: minio\n",
             "route.fairlead.dev/a: \"{\"\nroute.fairlead.dev/b: minio\n", 1);
    assert_string_equal(backend_of(o, "a"), "minio");
    assert_null(fl_config_backend(o->own, "minio"));
    fl_pod_overlay_free(o);
    o = edit("backend.fairlead.dev/minio: \"" OWN "\"\nroute.fairlead.dev/a: minio\n",
             "route.fairlead.dev/a: \"{\"\nroute.fairlead.dev/b: archive\n", 1);
    assert_int_equal(fl_config_backend(o->own, "minio")->max_fails, 7); /* nobody else means it */
    fl_pod_overlay_free(o);
}

/* The bucket was an http one; the backend of that name speaks s3 now. */
static void a_route_that_its_backend_does_not_bear_stays_invalid(void **state)
{
    (void)state;
    struct fl_pod_overlay *o = edit("fairlead.dev/routes: \"{routes: {'x@y': web}}\"\n",
                                    "backend.fairlead.dev/web: \"" NEXT "\"\n"
                                    "fairlead.dev/routes: \"{routes: {'x@y': nobody}}\"\n",
                                    0);
    assert_true(route(o, "x@y")->invalid[0] != '\0');
    fl_pod_overlay_free(o);
}

static void a_backend_that_the_controller_has_no_more_is_missed(void **state)
{
    (void)state;
    struct fl_pod_overlay *old = pod_read("route.fairlead.dev/a: archive\n");
    pod_controller->cluster->backend_count = 0;
    pod_controller->cluster->route_count = 0;
    struct fl_pod_overlay *fresh = pod_read("route.fairlead.dev/a: archive\n");
    assert_int_equal(fl_pod_keep(pod_controller, fresh, old), 0);
    assert_true(route(fresh, "a")->invalid[0] != '\0');
    fl_pod_overlay_free(old);
    fl_pod_overlay_free(fresh);
}

static void a_document_that_cannot_be_read_keeps_all_that_was_in_it(void **state)
{
    (void)state;
    static const char before[] =
        "route.fairlead.dev/single: archive\n"
        "fairlead.dev/routes: \"{routes: {a: minio, b: s}, backends: {s: " OWN "}}\"\n";
    struct fl_pod_overlay *o = edit(before, "fairlead.dev/routes: \"{routes: {a: minio\"\n", 2);
    assert_string_equal(backend_of(o, "a"), "minio");
    assert_string_equal(backend_of(o, "b"), "s");
    assert_null(route(o, "single")); /* that annotation was taken away */
    assert_null(route(o, "*"));      /* nothing is unknown */
    assert_int_equal(o->errors, 1);
    fl_pod_overlay_free(o);
    o = edit("route.fairlead.dev/single: archive\n", "fairlead.dev/routes: \"{\"\n", 0);
    assert_true(route(o, "*")->invalid[0] != '\0');
    fl_pod_overlay_free(o);
}

static void what_was_kept_once_is_kept_again(void **state)
{
    (void)state;
    struct fl_pod_overlay *first =
        edit("fairlead.dev/routes: \"{routes: {a: s, '*': minio}, backends: {s: " OWN "}}\"\n"
             "route.fairlead.dev/b: minio:s3\n",
             "fairlead.dev/routes: \"{\"\nroute.fairlead.dev/b: \"{\"\n", 3);
    struct fl_pod_overlay *second =
        pod_read("fairlead.dev/routes: \"[\"\nroute.fairlead.dev/b: \"[\"\n");
    assert_int_equal(fl_pod_keep(pod_controller, second, first), 3);
    fl_pod_overlay_free(first);
    assert_string_equal(backend_of(second, "a"), "s");
    assert_string_equal(backend_of(second, "*"), "minio");
    assert_string_equal(backend_of(second, "b"), "minio.shop:s3");
    assert_non_null(fl_config_backend(second->own, "minio.shop:s3"));
    fl_pod_overlay_free(second);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, pod_begin, pod_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_bad_route_stays_as_it_was_and_the_finding_stays_too),
        TEST(what_was_bad_or_is_gone_does_not_come_back),
        TEST(a_bad_backend_stays_as_it_was_for_its_routes),
        TEST(a_good_backend_is_the_one_of_now),
        TEST(a_kept_route_changes_no_other),
        TEST(a_route_that_its_backend_does_not_bear_stays_invalid),
        TEST(a_backend_that_the_controller_has_no_more_is_missed),
        TEST(a_document_that_cannot_be_read_keeps_all_that_was_in_it),
        TEST(what_was_kept_once_is_kept_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
