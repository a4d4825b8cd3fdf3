/* From annotations to the state, its verdicts, and what the controller probes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "controller/decide/probe_list.h"
#include "tests/unit/controller/codec/pod_kit.h"

#define SERVICE(namespace) "service: {namespace: " namespace ", name: minio, port: s3}"

static const struct fl_state_backend *backend(const struct fl_state *s, const char *name)
{
    for (uint32_t i = 0; i < s->backend_count; i++) {
        if (strcmp(s->backends[i].name, name) == 0) {
            return &s->backends[i];
        }
    }
    return NULL;
}

/* ---- the state ---- */

static void without_routes_of_its_own_a_pod_gets_all(void **state)
{
    (void)state;
    struct fl_pod_overlay *o = pod_read("fairlead.dev/log-level: debug\n");
    struct fl_state *none = pod_compose(NULL), *empty = pod_compose(o);
    assert_int_equal(none->backend_count, 3);
    assert_int_equal(empty->backend_count, 3);
    assert_int_equal(none->route_count, 2);
    assert_true(fl_state_json_hash(none) == fl_state_json_hash(empty));
    assert_false(backend(none, "minio")->owns); /* as before: it only fills one */
    fl_state_free(none);
    fl_state_free(empty);
    fl_pod_overlay_free(o);
}

static void a_pod_with_routes_gets_the_backends_that_it_uses_defined(void **state)
{
    (void)state;
    struct fl_pod_overlay *o = pod_read("backend.fairlead.dev/unused: \"{" SERVICE(
        "shop") "}\"\n"
                "route.fairlead.dev/common: \"{backend: minio, paths: {/x: {backend: "
                "archive}}}\"\nroute.fairlead.dev/bad: nobody\n");
    struct fl_state *s = pod_compose(o);
    assert_null(backend(s, "unused"));
    assert_non_null(backend(s, "archive")); /* by a path */
    assert_non_null(backend(s, "web"));     /* by a route of the controller's */
    assert_true(backend(s, "minio")->owns);
    assert_int_equal(s->backend_count, 3);
    struct fl_config *c = pod_overlaid(s);
    assert_int_equal(fl_config_backend(c, "minio")->peer_count, 2);
    assert_string_equal(fl_config_route(c, "bad")->invalid,
                        "annotation route.fairlead.dev/bad: backend: there is no backend "
                        "\"nobody\"");
    fl_config_free(c);
    fl_state_free(s);
    fl_pod_overlay_free(o);
}

static void the_state_outlives_the_overlay(void **state)
{
    (void)state;
    struct fl_pod_overlay *o = pod_read("backend.fairlead.dev/own: \"{" SERVICE(
        "shop") ", probe: {secret: keys}}\"\n"
                "route.fairlead.dev/a: \"{backend: own, paths: {'= /x': {backend: "
                "'minio.storage:9000'}}}\"\nroute.fairlead.dev/b: nobody\n");
    struct fl_state *s = pod_compose(o);
    fl_pod_overlay_free(o);
    fl_config_free(pod_overlaid(s));
    assert_string_equal(backend(s, "own")->conf.probe.secret, "keys"); /* a name, for the pod */
    fl_state_free(s);
}

static void files_of_the_controller_reach_no_pod(void **state)
{
    (void)state;
    size_t len;
    struct fl_pod_overlay *o = pod_read("route.fairlead.dev/a: minio\n");
    struct fl_state *s = pod_compose(o);
    char *json = fl_state_json_text(s, &len);
    assert_non_null(json);
    assert_null(strstr(json, "/keys/"));
    free(json);
    fl_state_free(s);
    fl_pod_overlay_free(o);
}

static void a_missing_service_is_said_with_the_namespace(void **state)
{
    (void)state;
    struct fl_pod_overlay *o = pod_read("route.fairlead.dev/a: nothing:9000\n");
    struct fl_state *s = pod_compose(o);
    assert_false(backend(s, "nothing.shop:9000")->has_peers);
    assert_int_equal(pod_findings.warnings, 1);
    assert_string_equal(pod_findings.first->text,
                        "shop: backends.nothing.shop:9000.service: there is no service "
                        "shop/nothing, so it brings no members");
    fl_state_free(s);
    fl_pod_overlay_free(o);
}

static enum fl_members_found crowd(const void *arg, const struct fl_service_ref *ref,
                                   struct fl_arena *arena, struct fl_members *ret)
{
    uint32_t count = FL_PEERS_MAX;
    struct fl_peer_conf *peers = fl_arena_array(arena, count, sizeof(*peers));
    (void)arg;
    (void)ref;
    assert_non_null(peers);
    for (uint32_t i = 0; i < count; i++) {
        peers[i] = (struct fl_peer_conf){.fallback_address = "", .zone = "", .weight = 1};
        peers[i].address = fl_arena_printf(arena, "10.8.%u.%u:9000", i / 250, i % 250 + 1);
        peers[i].set = UINT64_C(1) << fl_directive_bit(fl_scope_find(FL_SCOPE_PEER, "address"));
    }
    *ret = (struct fl_members){peers, count};
    return FL_MEMBERS_FOUND;
}

/* A sidecar refuses a state with more, and with it all that is good in it. */
static void members_beyond_what_a_sidecar_takes_are_left_out(void **state)
{
    (void)state;
    const struct fl_membership many = {.members = crowd};
    struct fl_pod_overlay *o = pod_read("backend.fairlead.dev/b: \"{" SERVICE(
        "shop") ", peers: [{address: '10.9.0.1:1'}, {address: '10.8.0.1:9000'}]}\"\n"
                "route.fairlead.dev/a: b\n");
    struct fl_state *s =
        fl_compose_state(pod_controller, &many, o, &pod_verdicts, 0, &pod_findings);
    assert_non_null(s);
    assert_int_equal(backend(s, "b")->conf.peer_count, FL_PEERS_MAX);
    assert_int_equal(pod_findings.warnings, 1);
    fl_config_free(pod_overlaid(s));
    fl_state_free(s);
    fl_pod_overlay_free(o);
}

/* ---- subjects and verdicts ---- */

static void set_down(const char *subject, const char *address)
{
    struct fl_verdict v = {.status = FL_VERDICT_UNREACHABLE, .step = "connect", .at_ms = 9000};
    fl_cause_set(&v.cause, "connect_refused", "connect to %s failed", address);
    assert_int_equal(fl_verdict_table_set(&pod_verdicts, subject, address, &v), 0);
}

static const char *subject_of(const struct fl_pod_overlay *o, const char *name)
{
    static char subject[FL_SUBJECT_MAX];
    const struct fl_backend_conf *b = fl_config_backend(o->own, name);
    fl_compose_subject(pod_controller, o,
                       b != NULL ? b : fl_config_backend(pod_controller->cluster, name), subject);
    return subject;
}

static void one_name_in_two_namespaces_is_two_subjects(void **state)
{
    (void)state;
    struct fl_pod_overlay *shop = pod_read_in(
        "shop", "backend.fairlead.dev/minio: \"{" SERVICE("shop") "}\"\n"
                                                                  "route.fairlead.dev/a: minio\n");
    struct fl_pod_overlay *other = pod_read_in(
        "other",
        "backend.fairlead.dev/minio: \"{" SERVICE("other") "}\"\n"
                                                           "route.fairlead.dev/a: minio\n");
    struct fl_pod_overlay *plain = pod_read_in("other", "route.fairlead.dev/a: minio\n");
    assert_string_equal(subject_of(shop, "minio"), "shop/minio:s3");
    assert_string_equal(subject_of(other, "minio"), "other/minio:s3");
    assert_string_equal(subject_of(plain, "minio"), "minio");
    static const char *const members[] = {"10.1.0.1:9000", "10.2.0.1:9000", "10.3.0.1:9000"};
    for (size_t i = 0; i < 3; i++) { /* whatever the address: only the subject decides */
        set_down("shop/minio:s3", members[i]);
    }
    struct fl_state *s = pod_compose(shop), *o = pod_compose(other), *p = pod_compose(plain);
    assert_int_equal(backend(s, "minio")->verdict_count, 1);
    assert_int_equal(backend(o, "minio")->verdict_count, 0);
    assert_int_equal(backend(p, "minio")->verdict_count, 0);
    fl_state_free(s);
    fl_state_free(o);
    fl_state_free(p);
    fl_pod_overlay_free(shop);
    fl_pod_overlay_free(other);
    fl_pod_overlay_free(plain);
}

static void those_who_probe_the_same_share_a_subject_and_no_others(void **state)
{
    (void)state;
    struct fl_pod_overlay *o = pod_read("backend.fairlead.dev/a: \"{" SERVICE(
        "shop") "}\"\n"
                "backend.fairlead.dev/b: \"{" SERVICE(
                    "shop") ", max_fails: 3, balance: random_two}\"\n"
                            "backend.fairlead.dev/c: \"{" SERVICE(
                                "shop") ", probe: {bucket: x}}\"\n"
                                        "backend.fairlead.dev/d: \"{" SERVICE(
                                            "shop") ", protocol: http}\"\n"
                                                    "backend.fairlead.dev/e: \"{" SERVICE(
                                                        "shop") ", probe: {interval: 20s}}\"\n");
    struct fl_pod_overlay *same = pod_read(
        "backend.fairlead.dev/c: \"{" SERVICE("shop") ", max_fails: 2, probe: {bucket: x}}\"\n");
    struct fl_pod_overlay *elsewhere =
        pod_read_in("other", "backend.fairlead.dev/c: \"{" SERVICE(
                                 "shop") ", probe: {bucket: x}}\"\n"
                                         "backend.fairlead.dev/a: \"{" SERVICE("shop") "}\"\n");
    char c[FL_SUBJECT_MAX];
    snprintf(c, sizeof(c), "%s", subject_of(o, "c"));
    assert_string_equal(subject_of(o, "a"), "shop/minio:s3");
    assert_string_equal(subject_of(o, "b"), "shop/minio:s3");
    assert_string_equal(subject_of(elsewhere, "a"), "shop/minio:s3");
    assert_string_equal(subject_of(same, "c"), c);
    assert_true(strncmp(c, "shop/c#", 7) == 0);
    assert_string_not_equal(subject_of(elsewhere, "c"), c); /* keys of another's writing */
    assert_true(strncmp(subject_of(o, "d"), "shop/d#", 7) == 0);
    assert_true(strncmp(subject_of(o, "e"), "shop/e#", 7) == 0);
    fl_pod_overlay_free(o);
    fl_pod_overlay_free(same);
    fl_pod_overlay_free(elsewhere);
}

/* ---- what is probed ---- */

static uint32_t probed(const struct fl_pod_overlay *o, const char *subject)
{
    struct fl_probe_list list;
    uint32_t peers = 0;
    struct fl_state *s = pod_compose(o);
    fl_probe_list_init(&list);
    assert_true(fl_probe_list_add(&list, pod_controller, o, s));
    for (uint32_t i = 0; i < list.count; i++) {
        peers += strcmp(list.items[i].subject, subject) == 0 ? list.items[i].peer_count : 0;
    }
    fl_probe_list_done(&list);
    fl_state_free(s);
    return peers;
}

static void only_services_that_the_namespaces_allow_are_probed(void **state)
{
    (void)state;
    static const char *listed[] = {"storage"};
    struct fl_pod_overlay *o =
        pod_read("route.fairlead.dev/a: minio:s3\nroute.fairlead.dev/b: minio.storage:s3\n"
                 "route.fairlead.dev/c: minio.other:s3\nroute.fairlead.dev/d: minio\n");
    assert_int_equal(probed(o, "shop/minio:s3"), 2);
    assert_int_equal(probed(o, "storage/minio:s3"), 0);
    assert_int_equal(probed(o, "other/minio:s3"), 0);
    assert_int_equal(probed(o, "minio"), 0); /* stands in the controller's own part */
    assert_int_equal(probed(NULL, "minio"), 2);
    assert_int_equal(probed(NULL, "archive"), 1);
    pod_controller->probe.mode = FL_NAMESPACES_LISTED; /* widens: the own one stays */
    pod_controller->probe.names = (struct fl_strings){listed, 1};
    assert_int_equal(probed(o, "shop/minio:s3"), 2);
    assert_int_equal(probed(o, "storage/minio:s3"), 2);
    assert_int_equal(probed(o, "other/minio:s3"), 0);
    pod_controller->probe.mode = FL_NAMESPACES_ALL;
    assert_int_equal(probed(o, "other/minio:s3"), 2);
    fl_pod_overlay_free(o);
}

static void an_address_in_an_annotation_is_for_the_sidecar_alone(void **state)
{
    (void)state;
    pod_controller->probe.mode = FL_NAMESPACES_ALL;
    struct fl_pod_overlay *o = pod_read(
        "backend.fairlead.dev/own: \"{peers: [{address: '10.0.0.1:6443'}]}\"\n"
        "backend.fairlead.dev/mix: \"{" SERVICE(
            "shop") ", peers: [{address: "
                    "'10.0.0.1:6443'}]}\"\nroute.fairlead.dev/a: own\nroute.fairlead.dev/b: mix\n");
    assert_int_equal(probed(o, subject_of(o, "own")), 0);
    assert_int_equal(probed(o, subject_of(o, "mix")), 2);
    fl_pod_overlay_free(o);
}

static const struct fl_probe_item *item_of(const struct fl_probe_list *l, const char *prefix)
{
    for (uint32_t i = 0; i < l->count; i++) {
        if (strncmp(l->items[i].subject, prefix, strlen(prefix)) == 0) {
            return &l->items[i];
        }
    }
    return NULL;
}

static void a_pods_interval_makes_nobody_busy(void **state)
{
    (void)state;
    struct fl_probe_list list;
    struct fl_pod_overlay *o = pod_read("backend.fairlead.dev/fast: \"{" SERVICE(
        "shop") ", probe: {interval: 100ms}}\"\n"
                "backend.fairlead.dev/slow: \"{" SERVICE(
                    "shop") ", probe: {interval: 60s}}\"\n"
                            "route.fairlead.dev/a: fast\nroute.fairlead.dev/b: slow\n");
    struct fl_state *s = pod_compose(o);
    fl_probe_list_init(&list);
    assert_true(fl_probe_list_add(&list, pod_controller, o, s));
    assert_int_equal(item_of(&list, "shop/fast#")->backend.probe.interval_ms, 5000);
    assert_int_equal(item_of(&list, "shop/slow#")->backend.probe.interval_ms, 60000);
    assert_int_equal(backend(s, "fast")->conf.probe.interval_ms, 100); /* the sidecar's own */
    fl_probe_list_done(&list);
    fl_state_free(s);
    fl_pod_overlay_free(o);
}

static void what_sidecars_define_is_asked_for_a_connect_alone(void **state)
{
    (void)state;
    struct fl_probe_list list;
    struct fl_state *s = pod_compose(NULL);
    fl_probe_list_init(&list);
    assert_true(fl_probe_list_add(&list, pod_controller, NULL, s));
    assert_int_equal(item_of(&list, "minio")->backend.probe.type, FL_PROBE_S3);
    pod_controller->source_file = "services.yaml"; /* then a sidecar has a file of its own */
    assert_true(fl_probe_list_add(&list, pod_controller, NULL, s));
    assert_int_equal(list.count, 6);
    assert_int_equal(item_of(&list, "minio")->backend.probe.type, FL_PROBE_S3); /* the first */
    unsigned tcp = 0;
    for (uint32_t i = 3; i < list.count; i++) {
        tcp += list.items[i].backend.probe.type == FL_PROBE_TCP;
    }
    assert_int_equal(tcp, 2); /* minio, and web by its protocol */
    fl_probe_list_done(&list);
    fl_state_free(s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, pod_begin, pod_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_routes_of_its_own_a_pod_gets_all),
        TEST(a_pod_with_routes_gets_the_backends_that_it_uses_defined),
        TEST(the_state_outlives_the_overlay),
        TEST(files_of_the_controller_reach_no_pod),
        TEST(a_missing_service_is_said_with_the_namespace),
        TEST(members_beyond_what_a_sidecar_takes_are_left_out),
        TEST(one_name_in_two_namespaces_is_two_subjects),
        TEST(those_who_probe_the_same_share_a_subject_and_no_others),
        TEST(only_services_that_the_namespaces_allow_are_probed),
        TEST(an_address_in_an_annotation_is_for_the_sidecar_alone),
        TEST(a_pods_interval_makes_nobody_busy),
        TEST(what_sidecars_define_is_asked_for_a_connect_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
