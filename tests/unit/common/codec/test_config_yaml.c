#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/codec/config_yaml.h"
#include "common/model/directives.h"
#include "common/model/outcome.h"
#include "tests/unit/common/codec/findings_kit.h"

static struct fl_config *load(const char *text)
{
    struct fl_config *c = fl_config_yaml_load("f", fl_span_of(text), NULL, 0, &f);
    if (!c) {
        print_error("%s", findings());
    }
    assert_non_null(c);
    return c;
}

static const struct fl_policy_conf *policy(const struct fl_config *c, const char *bucket)
{
    const struct fl_route_conf *r = fl_config_route(c, bucket);
    assert_non_null(r);
    return &r->policy;
}

#define BASE                                                                                       \
    "backends:\n  s: {peers: [{address: \"10.0.0.1:9000\"}]}\n  h: {protocol: http, peers: "       \
    "[{address: \"10.0.0.1:80\"}]}\n"
#define USUAL (FL_ON_ERROR | FL_ON_TIMEOUT | FL_ON_INVALID_HEADER)

static void defaults_follow_the_protocol(void **state)
{
    (void)state;
    struct fl_config *c =
        load(BASE "routes: {a: s, b: h, c: {backend: s, paths: {\"/x\": {backend: h}}}}\n");
    const struct fl_policy_conf *s = policy(c, "a"), *h = policy(c, "b"),
                                *x = &fl_config_route(c, "c")->paths[0].policy;
    assert_int_equal(s->next_upstream, FL_ON_ERROR | FL_ON_TIMEOUT);
    assert_int_equal(s->next_upstream_tries, 2);
    assert_int_equal(s->next_upstream_timeout_ms, 0);
    assert_int_equal(s->connect_timeout_ms, 1000);
    assert_int_equal(s->send_timeout_ms, 10000);
    assert_int_equal(s->read_timeout_ms, 10000);
    assert_int_equal(s->deadline_ms, 30000);
    assert_int_equal(s->long_deadline_ms, 300000);
    assert_int_equal(s->replay_after_send, FL_REPLAY_NEVER);
    assert_int_equal(s->replay_body_bytes, 65536);
    assert_int_equal(s->expect_gate_bytes, 0);
    assert_int_equal(s->count_failures, USUAL);
    assert_int_equal(h->next_upstream_timeout_ms, 3000);
    assert_int_equal(h->read_timeout_ms, 15000);
    assert_int_equal(h->deadline_ms, 0);
    assert_int_equal(h->replay_after_send, FL_REPLAY_ALWAYS);
    assert_int_equal(x->read_timeout_ms, 15000); /* the path's own backend decides */
    assert_int_equal(x->replay_after_send, FL_REPLAY_ALWAYS);
    assert_int_equal(policy(c, "c")->read_timeout_ms, 10000);
    assert_int_equal(fl_config_backend(c, "s")->probe.type, FL_PROBE_S3);
    assert_int_equal(fl_config_backend(c, "h")->probe.type, FL_PROBE_TCP);
    fl_config_free(c);
}

static void profiles_give_way_to_keys(void **state)
{
    (void)state;
    struct fl_config *c =
        load("backends:\n"
             "  a: {profile: read, peers: [{address: 'x:1'}, {address: 'y:1', max_fails: 7}]}\n"
             "  b: {profile: report, max_fails: 5, peers: [{address: 'x:1'}]}\n"
             "routes:\n"
             "  a: {backend: a, profile: read}\n"
             "  w: {backend: a, profile: write, read_timeout: 5s}\n"
             "  r: {backend: b, profile: report, deadline: 400s}\n");
    const struct fl_backend_conf *a = fl_config_backend(c, "a"), *b = fl_config_backend(c, "b");
    assert_int_equal(a->balance, FL_BALANCE_LEAST_CONN);
    assert_int_equal(a->max_fails, 3);
    assert_int_equal(a->peers[0].max_fails, 3);
    assert_int_equal(a->peers[1].max_fails, 7);
    assert_int_equal(a->peers[1].max_conns, 1024);
    assert_int_equal(b->balance, FL_BALANCE_ROUND_ROBIN);
    assert_int_equal(b->max_fails, 5);
    assert_int_equal(b->fail_timeout_ms, 30000);
    assert_int_equal(b->peers[0].fail_timeout_ms, 30000);
    const uint32_t gateways = FL_ON_HTTP_502 | FL_ON_HTTP_503 | FL_ON_HTTP_504;
    assert_int_equal(policy(c, "a")->next_upstream, USUAL | gateways);
    assert_int_equal(policy(c, "a")->count_failures,
                     USUAL | gateways); /* as in nginx: what is listed counts */
    assert_int_equal(policy(c, "a")->next_upstream_timeout_ms, 2000);
    assert_int_equal(policy(c, "w")->next_upstream, USUAL);
    assert_int_equal(policy(c, "w")->next_upstream_tries, 1);
    assert_int_equal(policy(c, "w")->read_timeout_ms, 5000);
    assert_int_equal(policy(c, "r")->read_timeout_ms, 300000);
    assert_int_equal(policy(c, "r")->connect_timeout_ms, 2000);
    fl_config_free(c);
}

static void paths_inherit(void **state)
{
    (void)state;
    struct fl_config *c =
        load(BASE "routes:\n"
                  "  r:\n"
                  "    backend: h\n"
                  "    read_timeout: 7s\n"
                  "    count_failures: [error]\n"
                  "    paths:\n"
                  "      /b: {next_upstream: [http_500], read_timeout: 8s}\n"
                  "      '= /a': {backend: s}\n"
                  "  q: {backend: h, paths: {/c: {next_upstream: [http_500]}}}\n");
    const struct fl_route_conf *r = fl_config_route(c, "r");
    assert_int_equal(r->path_count, 2);
    assert_string_equal(r->paths[0].prefix, "/a");
    assert_true(r->paths[0].exact);
    assert_string_equal(r->paths[0].backend, "s");
    assert_int_equal(r->paths[0].policy.read_timeout_ms, 7000);
    assert_int_equal(r->paths[0].policy.deadline_ms, 30000);
    assert_false(r->paths[1].exact);
    assert_int_equal(r->paths[1].policy.read_timeout_ms, 8000);
    assert_int_equal(r->paths[1].policy.count_failures, FL_ON_ERROR); /* given on the route */
    assert_int_equal(fl_config_route(c, "q")->paths[0].policy.count_failures,
                     USUAL | FL_ON_HTTP_500);
    assert_int_equal(policy(c, "q")->count_failures, USUAL);
    fl_config_free(c);
}

static void values_take_every_form(void **state)
{
    (void)state;
    struct fl_config *c = load("threads: 4\nhosts: one.internal\naccess_log: off\nboot_probe: "
                               "\"off\"\nlisten: {data: '[::1]:1'}\n"
                               "backends: {s: {panic_threshold: \"50%\", quarantine_max: '8x', "
                               "tls: {server_name: x, verify: false}, "
                               "peers: [{address: 'x:1', backup: true, weight: 100}]}}\n"
                               "routes: {a: {backend: s, deadline: off, next_upstream: \"off\", "
                               "replay_body: 0, expect_gate: 1GiB, "
                               "next_upstream_timeout: 0}}\n");
    const struct fl_backend_conf *s = fl_config_backend(c, "s");
    assert_int_equal(c->threads, 4);
    assert_string_equal(c->hosts.items[0], "one.internal");
    assert_int_equal(c->access_log, FL_ACCESS_OFF);
    assert_int_equal(c->boot_probe, FL_BOOT_OFF);
    assert_int_equal(s->panic_threshold_percent, 50);
    assert_int_equal(s->quarantine_max, 8);
    assert_true(s->tls.on);
    assert_false(s->tls.verify);
    assert_int_equal(s->peers[0].tier, FL_TIER_BACKUP);
    assert_int_equal(policy(c, "a")->deadline_ms, 0);
    assert_int_equal(policy(c, "a")->next_upstream, 0);
    assert_int_equal(policy(c, "a")->replay_body_bytes, 0);
    assert_int_equal(policy(c, "a")->expect_gate_bytes, (uint64_t)1 << 30);
    fl_config_free(c);
}

static bool with(const char *name, const char *value, const char *text, struct fl_config **ret)
{
    struct fl_config_override o = {name, value};
    *ret = fl_config_yaml_load("f", fl_span_of(text), &o, 1, &f);
    return *ret != NULL;
}

static void the_environment_goes_over_the_file(void **state)
{
    struct fl_config *c;
    const char *text = BASE "boot_probe: off\nroutes: {a: {backend: s, deadline: 9s}, b: {backend: "
                            "h, paths: {/x: {backend: s}}}}\n";
    (void)state;
    assert_true(with("FAIRLEAD_DEADLINE", "5s", text, &c));
    assert_int_equal(policy(c, "a")->deadline_ms, 5000);
    assert_int_equal(policy(c, "b")->deadline_ms, 0); /* off on http routes */
    assert_int_equal(fl_config_route(c, "b")->paths[0].policy.deadline_ms, 5000);
    assert_int_equal(policy(c, "a")->long_deadline_ms, 300000);
    fl_config_free(c);
    assert_true(with("FAIRLEAD_PROBE_INTERVAL", "2s", text, &c));
    assert_int_equal(fl_config_backend(c, "s")->probe.interval_ms, 2000);
    assert_int_equal(fl_config_backend(c, "h")->probe.interval_ms, 2000);
    fl_config_free(c);
    assert_true(with("FAIRLEAD_BOOT_PROBE", "warn", text, &c));
    assert_int_equal(c->boot_probe, FL_BOOT_WARN);
    fl_config_free(c);
    assert_true(with("FAIRLEAD_SLOW_REQUEST", "", text, &c));
    assert_int_equal(c->slow_request_ms, 5000);
    fl_config_free(c);
    assert_int_equal(f.errors, 0);
}

static void zero_is_no_override(void **state)
{
    static const char *const rows[][3] = {
        {"FAIRLEAD_DEADLINE", "0",
         "f: error: FAIRLEAD_DEADLINE: 0 is out of range (10ms to 24h)\n"},
        {"FAIRLEAD_DEADLINE", "off",
         "f: error: FAIRLEAD_DEADLINE: \"off\" is not a duration (write 10s, 250ms, 5m)\n"},
        {"FAIRLEAD_SLOW_REQUEST", "5",
         "f: error: FAIRLEAD_SLOW_REQUEST: \"5\" is not a duration (write 10s, 250ms, 5m)\n"},
        {"FAIRLEAD_PROBE_INTERVAL", "50ms",
         "f: error: FAIRLEAD_PROBE_INTERVAL: 50ms is out of range (100ms to 24h)\n"},
        {"FAIRLEAD_BOOT_PROBE", "0",
         "f: error: FAIRLEAD_BOOT_PROBE: \"0\" is not one of enforce, warn, off\n"},
        {"FAIRLEAD_OTHER", "1",
         "f: error: FAIRLEAD_OTHER: is not a variable that overrides a key\n"},
    };
    (void)state;
    for (size_t i = 0; i < FL_COUNTOF(rows); i++) {
        struct fl_config *c;
        assert_false(with(
            rows[i][0], rows[i][1],
            "backends: {h: {protocol: http, peers: [{address: 'x:1'}]}}\nroutes: {a: h}\n", &c));
        assert_string_equal(findings(), rows[i][2]);
        end(NULL);
        begin(NULL);
    }
}

static void finish_may_run_twice(void **state)
{
    (void)state;
    struct fl_config *c =
        load(BASE "routes: {a: {backend: h, profile: read, paths: {/x: {backend: s}}}, b: s}\n");
    char *once = fl_directives_show_text(c);
    fl_directives_finish(c);
    char *twice = fl_directives_show_text(c);
    assert_non_null(once);
    assert_string_equal(once, twice);
    free(once);
    free(twice);
    fl_config_free(c);
}

static void a_pool_is_bounded(void **state)
{
    static char text[128 << 10];
    struct fl_fmt out = fl_fmt_of(text, sizeof(text));
    (void)state;
    fl_fmt_text(&out, "routes: {a: s}\nbackends: {s: {probe: {type: none}, peers: [");
    for (int i = 0; i < 1024; i++) {
        fl_fmt_printf(&out, "{address: '10.0.%d.%d:9000'}, ", i / 256, i % 256);
    }
    size_t at = out.len;
    fl_fmt_text(&out, "]}}\n");
    struct fl_config *c = load(text);
    assert_int_equal(fl_config_backend(c, "s")->peer_count, 1024);
    fl_config_free(c);
    out.len = at;
    fl_fmt_text(&out, "{address: 'x:1'}]}}\n");
    assert_null(fl_config_yaml_load("f", fl_span_of(text), NULL, 0, &f));
    assert_string_equal(findings(), "f:2: error: backends.s.peers: has more than 1024 entries\n");
}

static void services_in_a_file_and_their_endpoints(void **state)
{
    (void)state;
    struct fl_services *s = fl_services_yaml_load(
        FL_SPAN("services:\n  storage/minio:\n    ports: {s3: 9000, admin: 9001}\n    endpoints:\n"
                "      - {address: 10.0.1.10, zone: a}\n      - {address: \"[::1]:9001\", ready: "
                "false, serving: false, terminating: true}\n"),
        &f);
    assert_non_null(s);
    assert_int_equal(s->count, 1);
    assert_string_equal(s->items[0].namespace, "storage");
    assert_string_equal(s->items[0].name, "minio");
    assert_int_equal(s->items[0].port_count, 2);
    assert_string_equal(s->items[0].ports[1].name, "admin");
    assert_int_equal(s->items[0].ports[1].number, 9001);
    const struct fl_service_endpoint *e = s->items[0].endpoints;
    assert_int_equal(s->items[0].endpoint_count, 2);
    assert_true(e[0].ready && e[0].serving && !e[0].terminating);
    assert_string_equal(e[0].zone, "a");
    assert_true(!e[1].ready && !e[1].serving && e[1].terminating);
    assert_string_equal(e[1].address, "[::1]:9001");
    fl_services_free(s);
}

static void the_controller_reads_its_own(void **state)
{
    (void)state;
    struct fl_controller_config *c = fl_controller_config_yaml_load(
        "c",
        FL_SPAN("source: file:/x.yaml\nprobe_defaults: {interval: 7s}\nprobe: {namespaces: [a, "
                "b]}\npush: {signing_key_file: /k}\n"
                "backends: {m: {service: {namespace: n, name: m, port: s3}, probe: {type: tcp, "
                "timeout: "
                "3s}}}\nroutes: {r: m}\n"
                "sidecars: [{address: '127.0.0.1:8422', id: local}]\n"),
        &f);
    assert_non_null(c);
    assert_string_equal(c->source_file, "/x.yaml");
    assert_int_equal(c->probe.mode, FL_NAMESPACES_LISTED);
    assert_int_equal(c->probe.names.count, 2);
    assert_string_equal(c->sidecars[0].id, "local");
    assert_int_equal(c->push.concurrency, 64);
    assert_int_equal(c->push.settle_ms, 50);
    assert_true(c->leader_election.enabled);
    assert_int_equal(fl_config_backend(c->cluster, "m")->probe.interval_ms, 7000);
    assert_int_equal(fl_config_backend(c->cluster, "m")->probe.timeout_ms, 3000);
    assert_true(c->hash != 0);
    assert_int_equal(f.errors + f.warnings, 0);
    fl_controller_config_free(c);
    c = fl_controller_config_yaml_load("c", FL_SPAN(""), &f);
    assert_non_null(c);
    assert_string_equal(c->source_file, "");
    assert_int_equal(c->probe.mode, FL_NAMESPACES_OWN);
    assert_string_equal(c->listen.webhook, "[::]:8443");
    fl_controller_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(defaults_follow_the_protocol, begin, end),
        cmocka_unit_test_setup_teardown(profiles_give_way_to_keys, begin, end),
        cmocka_unit_test_setup_teardown(paths_inherit, begin, end),
        cmocka_unit_test_setup_teardown(values_take_every_form, begin, end),
        cmocka_unit_test_setup_teardown(the_environment_goes_over_the_file, begin, end),
        cmocka_unit_test_setup_teardown(zero_is_no_override, begin, end),
        cmocka_unit_test_setup_teardown(finish_may_run_twice, begin, end),
        cmocka_unit_test_setup_teardown(a_pool_is_bounded, begin, end),
        cmocka_unit_test_setup_teardown(services_in_a_file_and_their_endpoints, begin, end),
        cmocka_unit_test_setup_teardown(the_controller_reads_its_own, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
