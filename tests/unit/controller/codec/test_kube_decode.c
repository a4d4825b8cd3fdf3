#include "controller/codec/kube_decode.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct fl_arena arena;

static int set_up(void **state)
{
    (void)state;
    fl_arena_init(&arena, (size_t)1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fl_arena_done(&arena);
    return 0;
}

#define META "\"metadata\":{\"namespace\":\"storage\",\"name\":\"n\"}"

// clang-format off
static const char slice_text[] =
    "{\"metadata\":{\"name\":\"minio-abc\",\"generateName\":\"minio-\",\"namespace\":\"storage\","
    "\"uid\":\"u-1\",\"resourceVersion\":\"77\",\"generation\":3,"
    "\"labels\":{\"app\":\"x\",\"kubernetes.io/service-name\":\"minio\"},"
    "\"annotations\":{\"a\":\"b\",\"endpoints.kubernetes.io/last-change-trigger-time\":"
    "\"2026-11-30T09:21:47.5Z\"},"
    "\"ownerReferences\":[{\"kind\":\"Service\",\"name\":\"minio\",\"uid\":\"other\"}],"
    "\"managedFields\":[{\"manager\":\"kube-controller-manager\",\"fieldsV1\":{\"f:endpoints\":{}}}]},"
    "\"addressType\":\"IPv4\","
    "\"endpoints\":["
    "{\"addresses\":[\"10.0.0.1\",\"10.0.0.99\"],\"conditions\":{\"ready\":true,\"serving\":true,"
    "\"terminating\":false},\"targetRef\":{\"kind\":\"Pod\",\"namespace\":\"storage\","
    "\"name\":\"minio-0\",\"uid\":\"p-1\"},\"nodeName\":\"node-1\",\"zone\":\"z1\","
    "\"hints\":{\"forZones\":[{\"name\":\"z1\"}]}},"
    "{\"addresses\":[\"10.0.0.2\"],\"conditions\":{\"ready\":false,\"serving\":null}},"
    "{\"addresses\":[]},{\"addresses\":null},{},"
    "{\"addresses\":[\"10.0.0.3\"]}],"
    "\"ports\":[{\"name\":\"s3\",\"port\":9000,\"protocol\":\"TCP\"},"
    "{\"name\":\"dns\",\"port\":53,\"protocol\":\"UDP\"},"
    "{\"name\":\"all\",\"port\":null},{\"port\":9001},{\"name\":\"far\",\"port\":70000},"
    "{\"name\":null,\"port\":9002,\"protocol\":null}]}";

static const char pod_text[] =
    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"web-0\",\"namespace\":\"shop\","
    "\"uid\":\"u-9\",\"resourceVersion\":\"123\",\"deletionTimestamp\":\"2026-11-30T09:21:47Z\","
    "\"annotations\":{\"route.fairlead.dev/releases\":\"minio\",\"fairlead.dev/log-level\":\"debug\","
    "\"kubectl.kubernetes.io/x\":\"fairlead.dev/no\",\"notfairlead.dev/a\":\"1\","
    "\"Backend.FairLead.Dev/m\":\"{peers: [\\\"a\\\"]}\\n\\u00fc\\u0000\\ud83d\\ude00\",\"fairlead.dev\":\"no\"},"
    "\"managedFields\":[{\"fieldsV1\":{\"f:spec\":{\"f:nodeName\":{}}}}]},"
    "\"spec\":{\"containers\":[{\"name\":\"app\",\"env\":[{\"name\":\"nodeName\",\"value\":\"}\"}]}],"
    "\"initContainers\":[{\"name\":\"fairlead\"}],\"nodeName\":\"node-7\","
    "\"readinessGates\":[{\"conditionType\":\"other\"},{\"conditionType\":\"fairlead.dev/backends-ready\"}]},"
    "\"status\":{\"phase\":\"Running\",\"podIP\":\"10.1.2.3\",\"podIPs\":[{\"ip\":\"10.1.2.3\"}],"
    "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"},"
    "{\"type\":\"fairlead.dev/backends-ready\",\"status\":\"True\"}],"
    "\"containerStatuses\":[{\"name\":\"app\",\"state\":{\"running\":{\"startedAt\":\"x\"}}}],"
    "\"initContainerStatuses\":[{\"name\":\"fairlead\",\"state\":{\"running\":{\"startedAt\":\"x\"}}}]}}";

static const char service_text[] =
    "{\"metadata\":{\"name\":\"minio\",\"namespace\":\"storage\",\"uid\":\"s\"},"
    "\"spec\":{\"ports\":[{\"name\":\"s3\",\"protocol\":\"TCP\",\"port\":80,\"targetPort\":\"http\"},"
    "{\"name\":\"u\",\"protocol\":\"SCTP\",\"port\":81}],\"type\":\"ExternalName\","
    "\"externalName\":\"s3.example.com\"}}";
// clang-format on

static void a_slice_as_the_controller_writes_it(void **state)
{
    (void)state;
    struct fl_kube_slice s;
    assert_int_equal(fl_kube_decode_slice(FL_SPAN(slice_text), &arena, &s), 0);
    assert_string_equal(s.meta.namespace, "storage");
    assert_string_equal(s.meta.name, "minio-abc");
    assert_string_equal(s.meta.uid, "u-1");
    assert_string_equal(s.meta.resource_version, "77");
    assert_string_equal(s.service, "minio");
    assert_int_equal(s.trigger_unix_ms, 1796030507500);
    assert_int_equal(s.family, FL_ADDR_V4);
    assert_int_equal(s.endpoint_count, 3);
    assert_string_equal(s.endpoints[0].address, "10.0.0.1");
    assert_string_equal(s.endpoints[0].target_uid, "p-1");
    assert_string_equal(s.endpoints[0].zone, "z1");
    assert_int_equal(s.endpoints[0].ready, FL_MAYBE_TRUE);
    assert_int_equal(s.endpoints[0].serving, FL_MAYBE_TRUE);
    assert_int_equal(s.endpoints[0].terminating, FL_MAYBE_FALSE);
    assert_int_equal(s.endpoints[1].ready, FL_MAYBE_FALSE);
    assert_int_equal(s.endpoints[1].serving, FL_MAYBE_NIL);
    assert_int_equal(s.endpoints[1].terminating, FL_MAYBE_NIL);
    assert_string_equal(s.endpoints[1].target_uid, "");
    assert_string_equal(s.endpoints[1].zone, "");
    assert_string_equal(s.endpoints[2].address, "10.0.0.3");
    assert_int_equal(s.endpoints[2].ready, FL_MAYBE_NIL);
}

static void only_ports_of_tcp_with_a_number_count(void **state)
{
    (void)state;
    struct fl_kube_slice s;
    assert_int_equal(fl_kube_decode_slice(FL_SPAN(slice_text), &arena, &s), 0);
    assert_int_equal(s.port_count, 3);
    assert_string_equal(s.ports[0].name, "s3");
    assert_int_equal(s.ports[0].number, 9000);
    assert_string_equal(s.ports[1].name, "");
    assert_int_equal(s.ports[1].number, 9001);
    assert_string_equal(s.ports[2].name, "");
    assert_int_equal(s.ports[2].number, 9002);
}

static void what_a_slice_may_lack(void **state)
{
    (void)state;
    struct fl_kube_slice s;
    static const char *const texts[] = {
        "{" META ",\"addressType\":\"IPv6\",\"endpoints\":null,\"ports\":null}",
        "{\"ports\":[],\"endpoints\":[],\"addressType\":\"IPv6\"," META "}",
        "{" META ",\"addressType\":\"IPv6\"}",
        "\n{" META ",\"addressType\":\"IPv6\",\"endpoints\":[],\"more\":{\"endpoints\":[5]}}\r\n",
    };
    for (size_t i = 0; i < FL_COUNTOF(texts); i++) {
        assert_int_equal(fl_kube_decode_slice(fl_span_of(texts[i]), &arena, &s), 0);
        assert_int_equal(s.family, FL_ADDR_V6);
        assert_int_equal(s.endpoint_count, 0);
        assert_int_equal(s.port_count, 0);
        assert_int_equal(s.trigger_unix_ms, 0);
        assert_string_equal(s.service, "");
        assert_string_equal(s.meta.uid, "");
    }
}

static void names_have_no_meaning_as_endpoints(void **state)
{
    (void)state;
    struct fl_kube_slice s;
    assert_int_equal(
        fl_kube_decode_slice(
            FL_SPAN(
                "{\"endpoints\":[{\"addresses\":[\"x.example\"]}],\"addressType\":\"FQDN\"," META
                "}"),
            &arena, &s),
        0);
    assert_int_equal(s.family, FL_ADDR_NONE);
    assert_int_equal(s.endpoint_count, 0);
}

static void a_trigger_time_that_is_none_is_absent(void **state)
{
    (void)state;
    struct fl_kube_slice s;
    assert_int_equal(
        fl_kube_decode_slice(
            FL_SPAN("{\"metadata\":{\"namespace\":\"s\",\"name\":\"n\",\"annotations\":{"
                    "\"endpoints.kubernetes.io/last-change-trigger-time\":\"yesterday\"}}}"),
            &arena, &s),
        0);
    assert_int_equal(s.trigger_unix_ms, 0);
}

static void a_pod_with_our_sidecar(void **state)
{
    (void)state;
    struct fl_kube_pod p;
    assert_int_equal(fl_kube_decode_pod(FL_SPAN(pod_text), &arena, &p), 0);
    assert_string_equal(p.meta.namespace, "shop");
    assert_string_equal(p.meta.name, "web-0");
    assert_string_equal(p.meta.uid, "u-9");
    assert_string_equal(p.meta.resource_version, "123");
    assert_string_equal(p.node, "node-7");
    assert_string_equal(p.ip, "10.1.2.3");
    assert_string_equal(p.phase, "Running");
    assert_true(p.deleting);
    assert_true(p.started);
    assert_int_equal(p.gate, FL_GATE_TRUE);
    assert_int_equal(p.annotation_count, 3);
    assert_string_equal(p.annotations[0].key, "Backend.FairLead.Dev/m");
    assert_string_equal(p.annotations[0].value,
                        "{peers: [\"a\"]}\n\xc3\xbc\xef\xbf\xbd\xf0\x9f\x98\x80");
    assert_string_equal(p.annotations[1].key, "fairlead.dev/log-level");
    assert_string_equal(p.annotations[1].value, "debug");
    assert_string_equal(p.annotations[2].key, "route.fairlead.dev/releases");
    assert_string_equal(p.annotations[2].value, "minio");
}

static struct fl_kube_pod pod_of(const char *rest)
{
    char text[512];
    struct fl_fmt f = fl_fmt_of(text, sizeof(text));
    struct fl_kube_pod p;
    fl_fmt_printf(&f, "{" META "%s}", rest);
    assert_int_equal(fl_kube_decode_pod((struct fl_span){f.base, f.len}, &arena, &p), 0);
    return p;
}

static void a_pod_that_has_hardly_begun(void **state)
{
    (void)state;
    struct fl_kube_pod p = pod_of("");
    assert_string_equal(p.node, "");
    assert_string_equal(p.ip, "");
    assert_string_equal(p.phase, "");
    assert_false(p.deleting);
    assert_false(p.started);
    assert_int_equal(p.gate, FL_GATE_NONE);
    assert_int_equal(p.annotation_count, 0);
    assert_false(pod_of(",\"metadata\":{\"deletionTimestamp\":null}").deleting);
}

static void started_means_that_our_own_container_runs(void **state)
{
    (void)state;
    // clang-format off
    assert_true(pod_of(",\"status\":{\"containerStatuses\":[{\"name\":\"fairlead\",\"state\":{\"running\":{}}}]}").started);
    assert_true(pod_of(",\"status\":{\"containerStatuses\":[{\"state\":{\"running\":{}},\"name\":\"fairlead\"}]}").started);
    assert_false(pod_of(",\"status\":{\"containerStatuses\":[{\"name\":\"app\",\"state\":{\"running\":{}}}]}").started);
    assert_false(pod_of(",\"status\":{\"initContainerStatuses\":[{\"name\":\"fairlead\",\"state\":{\"waiting\":{}}}]}").started);
    assert_false(pod_of(",\"status\":{\"initContainerStatuses\":[{\"name\":\"fairlead\",\"state\":{\"running\":null}}]}").started);
    assert_false(pod_of(",\"status\":{\"initContainerStatuses\":[{\"name\":\"fairlead\",\"lastState\":{\"running\":{}}}]}").started);
    // clang-format on
}

static void a_gate_is_one_that_the_pod_asks_for(void **state)
{
    (void)state;
#define GATED   "\"readinessGates\":[{\"conditionType\":\"fairlead.dev/backends-ready\"}]"
#define SAYS(v) "{\"type\":\"fairlead.dev/backends-ready\",\"status\":\"" v "\"}"
    // clang-format off
    assert_int_equal(pod_of(",\"spec\":{" GATED "}").gate, FL_GATE_FALSE);
    assert_int_equal(pod_of(",\"spec\":{" GATED "},\"status\":{\"conditions\":[" SAYS("True") "]}").gate, FL_GATE_TRUE);
    assert_int_equal(pod_of(",\"spec\":{" GATED "},\"status\":{\"conditions\":[" SAYS("False") "]}").gate, FL_GATE_FALSE);
    assert_int_equal(pod_of(",\"spec\":{" GATED "},\"status\":{\"conditions\":[" SAYS("Unknown") "]}").gate, FL_GATE_FALSE);
    assert_int_equal(pod_of(",\"status\":{\"conditions\":[" SAYS("True") "]}").gate, FL_GATE_NONE);
    // clang-format on
}

static void a_service_says_its_ports_and_external_name(void **state)
{
    (void)state;
    struct fl_kube_service s;
    assert_int_equal(fl_kube_decode_service(FL_SPAN(service_text), &arena, &s), 0);
    assert_string_equal(s.meta.name, "minio");
    assert_string_equal(s.external_name, "s3.example.com");
    assert_int_equal(s.port_count, 1);
    assert_string_equal(s.ports[0].name, "s3");
    assert_int_equal(s.ports[0].number, 80);
    assert_int_equal(
        fl_kube_decode_service(
            FL_SPAN("{" META ",\"spec\":{\"externalName\":\"left.over\",\"type\":\"ClusterIP\"}}"),
            &arena, &s),
        0);
    assert_string_equal(s.external_name, "");
}

static void metadata_of_anything(void **state)
{
    (void)state;
    struct fl_kube_meta m;
    assert_int_equal(fl_kube_decode_meta(FL_SPAN("{\"kind\":\"Pod\",\"metadata\":{"
                                                 "\"resourceVersion\":\"9\",\"creationTimestamp\":"
                                                 "null},\"spec\":{\"containers\":null}}"),
                                         &arena, &m),
                     0);
    assert_string_equal(m.resource_version, "9");
    assert_string_equal(m.name, "");
}

static void the_bookmark_that_ends_a_streamed_list(void **state)
{
    (void)state;
    // clang-format off
    assert_true(fl_kube_decode_is_initial_end(FL_SPAN("{\"metadata\":{\"resourceVersion\":\"9\",\"name\":\"\\u0041\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}")));
    assert_false(fl_kube_decode_is_initial_end(FL_SPAN("{\"metadata\":{\"annotations\":{\"k8s.io/initial-events-end\":\"false\"}}}")));
    assert_false(fl_kube_decode_is_initial_end(FL_SPAN("{\"metadata\":{\"resourceVersion\":\"9\"}}")));
    assert_false(fl_kube_decode_is_initial_end(FL_SPAN("{\"metadata\":{\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}")));
    assert_false(fl_kube_decode_is_initial_end(FL_SPAN("")));
    // clang-format on
}

static struct fl_kube_status status_of(const char *text)
{
    struct fl_kube_status s;
    assert_int_equal(fl_kube_decode_status(fl_span_of(text), &arena, &s), 0);
    return s;
}

static void an_error_in_words(void **state)
{
    (void)state;
    struct fl_kube_status s =
        status_of("{\"kind\":\"Status\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"too "
                  "old\",\"reason\":\"Expired\",\"code\":410}");
    assert_int_equal(s.code, 410);
    assert_string_equal(s.reason, "Expired");
    assert_string_equal(s.message, "too old");
    assert_false(s.version_too_large || s.names_initial_events);
    assert_int_equal(s.retry_after_s, 0);
    s = status_of("{\"code\":504,\"reason\":\"Timeout\",\"details\":{\"causes\":[{\"reason\":"
                  "\"ResourceVersionTooLarge\",\"message\":\"Too large\"}],\"retryAfterSeconds\":1}"
                  "}");
    assert_true(s.version_too_large);
    assert_int_equal(s.retry_after_s, 1);
    s = status_of("{\"code\":422,\"reason\":\"Invalid\",\"message\":\"ListOptions is invalid\","
                  "\"details\":{\"causes\":[{\"reason\":\"FieldValueForbidden\",\"field\":"
                  "\"sendInitialEvents\"}]}}");
    assert_true(s.names_initial_events);
    assert_true(status_of("{\"message\":\"sendInitialEvents is forbidden\",\"code\":422}")
                    .names_initial_events);
    assert_false(status_of("{\"message\":\"sendInitialEvents is forbidden\",\"code\":400}")
                     .names_initial_events);
    assert_int_equal(status_of("{\"code\":-7,\"details\":{\"retryAfterSeconds\":-3}}").code, 0);
}

static int decode_any(unsigned kind, struct fl_span text)
{
    struct fl_kube_slice slice;
    struct fl_kube_service service;
    struct fl_kube_pod pod;
    struct fl_kube_status status;
    switch (kind) {
    case 0:
        return fl_kube_decode_slice(text, &arena, &slice);
    case 1:
        return fl_kube_decode_service(text, &arena, &service);
    case 2:
        return fl_kube_decode_pod(text, &arena, &pod);
    default:
        return fl_kube_decode_status(text, &arena, &status);
    }
}

static void a_field_of_a_wrong_kind_refuses_the_object(void **state)
{
    (void)state;
    static const struct {
        unsigned kind;
        const char *text;
    } rows[] = {
        {0, "[]"},
        {0, "null"},
        {0, "{}"},
        {0, "{\"metadata\":{\"name\":\"n\"}}"},
        {0, "{\"metadata\":{\"namespace\":\"n\"}}"},
        {0, "{\"metadata\":[]}"},
        {0, "{\"metadata\":{\"namespace\":\"s\",\"name\":5}}"},
        {0, "{\"metadata\":{\"namespace\":\"s\",\"name\":\"a\\u0000b\"}}"},
        {0, "{\"metadata\":{\"namespace\":\"s\",\"name\":\"\\x\"}}"},
        {0, "{\"metadata\":{\"namespace\":\"s\",\"name\":\"\\u12\"}}"},
        {0, "{\"metadata\":{\"namespace\":\"s\",\"name\":\"a\nb\"}}"},
        {0, "{" META ",\"addressType\":4}"},
        {0, "{" META ",\"endpoints\":{}}"},
        {0, "{" META ",\"endpoints\":[7]}"},
        {0, "{" META ",\"endpoints\":[{\"addresses\":\"10.0.0.1\"}]}"},
        {0, "{" META ",\"endpoints\":[{\"addresses\":[1]}]}"},
        {0, "{" META ",\"endpoints\":[{\"conditions\":{\"ready\":\"true\"}}]}"},
        {0, "{" META ",\"endpoints\":[{\"conditions\":{\"ready\":1}}]}"},
        {0, "{" META ",\"endpoints\":[{\"targetRef\":\"x\"}]}"},
        {0, "{" META ",\"endpoints\":[{},]}"},
        {0, "{" META ",\"endpoints\":[{} {}]}"},
        {0, "{" META ",\"ports\":[{\"port\":\"http\"}]}"},
        {0, "{" META ",\"ports\":[{\"port\":1.5}]}"},
        {0, "{" META ",\"ports\":[{\"port\":99999999999999999999}]}"},
        {0, "{" META ",\"x\":{]}"},
        {0, "{" META ",\"x\":}"},
        {0, "{" META "}}"},
        {0, "{" META "} x"},
        {0, "{" META " \"x\":1}"},
        {0, "{x" META "}"},
        {0, "{" META ",}"},
        {1, "{" META ",\"spec\":7}"},
        {1, "{" META ",\"spec\":{\"externalName\":{}}}"},
        {2, "{" META ",\"spec\":{\"nodeName\":[]}}"},
        {2, "{" META ",\"status\":{\"podIP\":10}}"},
        {2, "{" META ",\"status\":{\"conditions\":[{\"type\":1}]}}"},
        {2, "{\"metadata\":{\"namespace\":\"s\",\"name\":\"n\",\"annotations\":{"
            "\"fairlead.dev/x\":{}}}}"},
        {3, "{\"code\":\"410\"}"},
        {3, "Too many requests"},
        {3, ""},
    };
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        if (decode_any(rows[i].kind, fl_span_of(rows[i].text)) != -EBADMSG) {
            fail_msg("taken: %s", rows[i].text);
        }
    }
}

/* Cut anywhere, never read beyond the cut (the sanitizer looks), never taken. */
static void half_an_object_is_none(void **state)
{
    (void)state;
    static const struct fl_span texts[] = {
        {slice_text, sizeof(slice_text) - 1},
        {service_text, sizeof(service_text) - 1},
        {pod_text, sizeof(pod_text) - 1},
    };
    for (unsigned k = 0; k < FL_COUNTOF(texts); k++) {
        for (size_t n = 0; n < texts[k].len; n++) {
            char *copy = malloc(n ? n : 1);
            assert_non_null(copy);
            memcpy(copy, texts[k].ptr, n);
            assert_int_equal(decode_any(k, (struct fl_span){copy, n}), -EBADMSG);
            free(copy);
            fl_arena_done(&arena);
            fl_arena_init(&arena, (size_t)1 << 20);
        }
        assert_int_equal(decode_any(k, texts[k]), 0);
    }
}

static void a_small_arena_is_no_memory(void **state)
{
    (void)state;
    unsigned short_of = 0;
    for (size_t max = 0; max < 2000; max += 16) {
        fl_arena_done(&arena);
        fl_arena_init(&arena, max);
        int err = decode_any(0, FL_SPAN(slice_text));
        assert_true(err == 0 || err == -ENOMEM);
        short_of += err == -ENOMEM;
    }
    assert_in_range(short_of, 10, 100);
}

static void half_a_pair_is_replaced(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"\\ud83d", "\xef\xbf\xbd"},
        {"\\ude00", "\xef\xbf\xbd"},
        {"\\ud83dx", "\xef\xbf\xbdx"},
        {"\\ud83d\\u0041", "\xef\xbf\xbd"
                           "A"},
        {"\\ud83d\\ud83d\\ude00", "\xef\xbf\xbd\xf0\x9f\x98\x80"},
        {"\\u07ff\\u0800\\uFFFF", "\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf"},
        {"\\b\\f\\n\\r\\t\\/\\\\\\\"", "\b\f\n\r\t/\\\""},
    };
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        char text[128];
        struct fl_fmt f = fl_fmt_of(text, sizeof(text));
        fl_fmt_printf(&f, "{\"message\":\"%s\"}", rows[i].in);
        assert_string_equal(status_of(text).message, rows[i].out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice_as_the_controller_writes_it),
        cmocka_unit_test(only_ports_of_tcp_with_a_number_count),
        cmocka_unit_test(what_a_slice_may_lack),
        cmocka_unit_test(names_have_no_meaning_as_endpoints),
        cmocka_unit_test(a_trigger_time_that_is_none_is_absent),
        cmocka_unit_test(a_pod_with_our_sidecar),
        cmocka_unit_test(a_pod_that_has_hardly_begun),
        cmocka_unit_test(started_means_that_our_own_container_runs),
        cmocka_unit_test(a_gate_is_one_that_the_pod_asks_for),
        cmocka_unit_test(a_service_says_its_ports_and_external_name),
        cmocka_unit_test(metadata_of_anything),
        cmocka_unit_test(the_bookmark_that_ends_a_streamed_list),
        cmocka_unit_test(an_error_in_words),
        cmocka_unit_test(a_field_of_a_wrong_kind_refuses_the_object),
        cmocka_unit_test(half_an_object_is_none),
        cmocka_unit_test(a_small_arena_is_no_memory),
        cmocka_unit_test(half_a_pair_is_replaced),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
