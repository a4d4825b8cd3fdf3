#include "controller/decide/compose.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <string.h>

#include "common/model/directives_table.h"
#include "controller/decide/membership.h"

/* Written out by hand: the ways in which documents come to these structs are other rooms'. */
static struct fl_controller_config *config;
static struct fl_backend_conf backends[3];
static struct fl_route_conf routes[2];
static struct fl_service_port ports[] = {{"s3", 9000}};
static struct fl_service_endpoint endpoints[3];
static struct fl_service service;
static struct fl_services document = {.items = &service, .count = 1};
static struct fl_verdict_table verdicts;
static struct fl_findings findings;

static uint64_t bit(enum fl_scope scope, const char *name)
{
    return UINT64_C(1) << fl_directive_bit(fl_scope_find(scope, name));
}

static void init_backend(struct fl_backend_conf *b, const char *name, bool with_service)
{
    *b = (struct fl_backend_conf){.name = name};
    b->service = (struct fl_service_ref){"", "", ""};
    b->tls.ca_file = b->tls.server_name = b->tls.cert_file = b->tls.key_file = "";
    b->probe.host = b->probe.path = b->probe.expect = b->probe.bucket = b->probe.region = "";
    b->probe.access_key_file = b->probe.secret_key_file = b->probe.secret = "";
    b->probe.set = bit(FL_SCOPE_PROBE, "interval") | bit(FL_SCOPE_PROBE, "timeout");
    b->set = bit(FL_SCOPE_BACKEND, "probe");
    if (with_service) {
        b->service = (struct fl_service_ref){"storage", "minio", "s3"};
        b->set |= bit(FL_SCOPE_BACKEND, "service");
    }
}

static int set_up(void **state)
{
    (void)state;
    config = fl_controller_config_new();
    assert_non_null(config);
    init_backend(&backends[0], "minio", true);
    config->cluster->backends = backends;
    config->cluster->backend_count = 1;
    config->cluster->routes = routes;
    config->cluster->route_count = 0;
    for (int i = 0; i < 3; i++) {
        static const char *const addresses[] = {"10.0.0.1", "10.0.0.2", "10.0.0.3"};
        endpoints[i] = (struct fl_service_endpoint){addresses[i], "", true, true, false};
    }
    service = (struct fl_service){"storage", "minio", ports, 1, endpoints, 3};
    fl_verdict_table_init(&verdicts, 1);
    fl_findings_init(&findings, "");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    fl_controller_config_free(config);
    fl_verdict_table_done(&verdicts);
    fl_findings_done(&findings);
    return 0;
}

static struct fl_state *compose(void)
{
    struct fl_membership m = fl_membership_of_services(&document);
    struct fl_state *s = fl_compose_state(config, &m, NULL, &verdicts, 10000, &findings);
    assert_non_null(s);
    return s;
}

static void route_to(const char *backend)
{
    routes[0] = (struct fl_route_conf){.bucket = "releases", .backend = backend, .invalid = ""};
    config->cluster->route_count = 1;
}

/* ---- who defines a backend ---- */

static void a_backend_of_nothing_but_its_service_is_the_sidecars_own(void **state)
{
    (void)state;
    assert_false(fl_compose_owns(config->cluster, &backends[0]));
    struct fl_state *s = compose();
    assert_false(s->backends[0].owns);
    assert_true(s->backends[0].has_peers);
    fl_state_free(s);
}

static void any_other_key_a_written_peer_or_a_route_makes_it_ours(void **state)
{
    (void)state;
    static struct fl_peer_conf peers[1];
    backends[0].set |= bit(FL_SCOPE_BACKEND, "protocol");
    assert_true(fl_compose_owns(config->cluster, &backends[0]));
    init_backend(&backends[0], "minio", true);
    backends[0].probe.set |= bit(FL_SCOPE_PROBE, "type"); /* of the controller's own probe */
    assert_false(fl_compose_owns(config->cluster, &backends[0]));
    init_backend(&backends[0], "minio", true);
    backends[0].peers = peers;
    backends[0].peer_count = 1;
    backends[0].set |= bit(FL_SCOPE_BACKEND, "peers");
    assert_true(fl_compose_owns(config->cluster, &backends[0]));
    init_backend(&backends[0], "minio", false);
    assert_true(fl_compose_owns(config->cluster, &backends[0]));
    init_backend(&backends[0], "minio", true);
    route_to("other");
    assert_false(fl_compose_owns(config->cluster, &backends[0]));
    route_to("minio");
    assert_true(fl_compose_owns(config->cluster, &backends[0]));
}

static void a_path_of_a_route_counts_as_a_route(void **state)
{
    (void)state;
    static struct fl_path_conf paths[] = {{.prefix = "/b/", .backend = ""},
                                          {.prefix = "/a/", .backend = "minio"}};
    route_to("other");
    routes[1] = routes[0];
    routes[1].paths = paths;
    routes[1].path_count = 2;
    config->cluster->route_count = 2;
    assert_true(fl_compose_owns(config->cluster, &backends[0]));
    struct fl_state *s = compose();
    assert_true(s->backends[0].owns);
    fl_state_free(s);
}

static void written_peers_alone_are_members_and_nothing_written_is_none(void **state)
{
    (void)state;
    static struct fl_peer_conf peers[1];
    peers[0] = (struct fl_peer_conf){
        .address = "10.9.0.1:9000", .fallback_address = "", .zone = "", .weight = 1};
    init_backend(&backends[0], "written", false);
    backends[0].peers = peers;
    backends[0].peer_count = 1;
    init_backend(&backends[1], "xempty", false);
    config->cluster->backend_count = 2;
    struct fl_state *s = compose();
    assert_int_equal(s->backend_count, 2);
    assert_true(s->backends[0].has_peers && s->backends[0].owns);
    assert_false(s->backends[1].has_peers);
    assert_int_equal(findings.warnings, 0);
    fl_state_free(s);
}

/* ---- members ---- */

static void members_stand_beside_written_peers_which_win_where_the_address_is_one(void **state)
{
    (void)state;
    static struct fl_peer_conf written[2];
    written[0] = (struct fl_peer_conf){.address = "10.9.0.1:9000",
                                       .fallback_address = "",
                                       .zone = "",
                                       .tier = FL_TIER_BACKUP,
                                       .weight = 7};
    written[1] = (struct fl_peer_conf){
        .address = "10.0.0.2:9000", .fallback_address = "", .zone = "", .weight = 5};
    backends[0].peers = written;
    backends[0].peer_count = 2;
    struct fl_state *s = compose();
    const struct fl_backend_conf *b = &s->backends[0].conf;
    assert_int_equal(b->peer_count, 4);
    assert_string_equal(b->peers[0].address, "10.9.0.1:9000");
    assert_string_equal(b->peers[1].address, "10.0.0.2:9000");
    assert_int_equal(b->peers[1].weight, 5);
    assert_string_equal(b->peers[2].address, "10.0.0.1:9000");
    assert_string_equal(b->peers[3].address, "10.0.0.3:9000");
    fl_state_free(s);
}

static void a_missing_service_is_a_warning_and_no_membership_not_an_empty_one(void **state)
{
    (void)state;
    backends[0].service.name = "minio2";
    init_backend(&backends[1], "empty", true);
    service.endpoint_count = 0;
    config->cluster->backend_count = 2;
    struct fl_state *s = compose();
    assert_string_equal(s->backends[0].name, "empty"); /* in canonical order */
    assert_true(s->backends[0].has_peers);
    assert_int_equal(s->backends[0].conf.peer_count, 0);
    assert_string_equal(s->backends[1].name, "minio");
    assert_false(s->backends[1].has_peers);
    assert_int_equal(findings.warnings, 1);
    assert_int_equal(findings.errors, 0);
    assert_non_null(strstr(findings.first->text, "storage/minio2"));
    fl_state_free(s);
}

static void a_missing_port_is_named(void **state)
{
    (void)state;
    backends[0].service.port = "http";
    struct fl_state *s = compose();
    assert_false(s->backends[0].has_peers);
    assert_non_null(strstr(findings.first->text, "\"http\""));
    fl_state_free(s);
}

static void the_state_keeps_no_text_of_the_configuration(void **state)
{
    (void)state;
    char name[] = "minio", bucket[] = "releases", prefix[] = "/a/";
    struct fl_path_conf paths[] = {{.prefix = prefix, .backend = name}};
    backends[0].name = name;
    routes[0] = (struct fl_route_conf){
        .bucket = bucket, .backend = name, .invalid = "", .paths = paths, .path_count = 1};
    config->cluster->route_count = 1;
    struct fl_state *s = compose();
    memset(name, 'x', 5);
    memset(bucket, 'x', 8);
    memset(prefix, 'x', 3);
    assert_string_equal(s->backends[0].name, "minio");
    assert_string_equal(s->backends[0].conf.name, "minio");
    assert_string_equal(s->routes[0].bucket, "releases");
    assert_string_equal(s->routes[0].backend, "minio");
    assert_string_equal(s->routes[0].paths[0].prefix, "/a/");
    assert_string_equal(s->routes[0].paths[0].backend, "minio");
    fl_state_free(s);
}

static void probe_keys_stay_here(void **state)
{
    (void)state;
    backends[0].probe.access_key_file = "/keys/id";
    backends[0].probe.secret_key_file = "/keys/secret";
    backends[0].probe.set |=
        bit(FL_SCOPE_PROBE, "access_key_file") | bit(FL_SCOPE_PROBE, "secret_key_file");
    struct fl_state *s = compose();
    assert_string_equal(s->backends[0].conf.probe.access_key_file, "");
    assert_string_equal(s->backends[0].conf.probe.secret_key_file, "");
    assert_true(s->backends[0].conf.probe.set ==
                (bit(FL_SCOPE_PROBE, "interval") | bit(FL_SCOPE_PROBE, "timeout")));
    fl_state_free(s);
}

/* ---- verdicts ---- */

static void set_verdict(const char *address, enum fl_verdict_status status, int64_t at_ms)
{
    struct fl_verdict v = {.status = status, .step = "connect", .at_ms = at_ms};
    fl_cause_set(&v.cause, "connect_refused", "connect to it failed");
    assert_int_equal(fl_verdict_table_set(&verdicts, "minio", address, &v), 0);
}

static void verdicts_of_members_go_along_with_their_age(void **state)
{
    (void)state;
    set_verdict("10.0.0.2:9000", FL_VERDICT_UNREACHABLE, 7000);
    set_verdict("10.0.0.3:9000", FL_VERDICT_UNKNOWN, 7000);
    set_verdict("10.0.0.99:9000", FL_VERDICT_UNREACHABLE, 7000);
    struct fl_state *s = compose();
    assert_int_equal(s->backends[0].verdict_count, 1);
    const struct fl_state_verdict *v = &s->backends[0].verdicts[0];
    assert_string_equal(v->address, "10.0.0.2:9000");
    assert_int_equal(v->status, FL_VERDICT_UNREACHABLE);
    assert_string_equal(v->cause.code, "connect_refused");
    assert_string_equal(v->step, "connect");
    assert_int_equal(v->age_ms, 3000);
    fl_state_free(s);
}

/* ---- what may wait to settle ---- */

static bool takes_away(void (*change)(void))
{
    struct fl_state *old = compose();
    change();
    struct fl_state *fresh = compose();
    bool away = fl_compose_takes_away(old, fresh);
    fl_state_free(old);
    fl_state_free(fresh);
    return away;
}

static void drop_first(void)
{
    endpoints[0] = endpoints[1];
    endpoints[1] = endpoints[2];
    service.endpoint_count = 2;
}

static void drop_all(void)
{
    service.endpoint_count = 0;
}

static void add_one(void)
{
    service.endpoint_count = 3;
}

static void end_one(void)
{
    endpoints[1].terminating = true;
}

static void revive_one(void)
{
    endpoints[1].terminating = false;
}

static void leave(void)
{
    config->cluster->backend_count = 0;
}

static void lose_service(void)
{
    service.name = "gone";
}

static void lose_route(void)
{
    config->cluster->route_count = 0;
}

static void gain_route(void)
{
    route_to("minio");
}

static void block(void)
{
    set_verdict("10.0.0.1:9000", FL_VERDICT_AUTH_REJECTED, 9000);
}

static void unblock(void)
{
    set_verdict("10.0.0.1:9000", FL_VERDICT_ERRORING, 9000);
}

static void zone(void)
{
    endpoints[0].zone = "b";
}

static void stay(void)
{
}

static void two_of_all(void)
{
    init_backend(&backends[1], "zweite", true);
    config->cluster->backend_count = 2;
    route_to("minio");
    routes[1] = routes[0];
    routes[1].bucket = "zone";
    config->cluster->route_count = 2;
}

static void second_leaves(void)
{
    config->cluster->backend_count = 1;
}

static void second_route_leaves(void)
{
    config->cluster->route_count = 1;
}

static void each(void (*change)(void), void (*before)(void), bool want)
{
    before();
    bool got = takes_away(change);
    tear_down(NULL);
    set_up(NULL);
    assert_int_equal(got, want);
}

static void less_is_urgent_and_more_or_other_is_not(void **state)
{
    (void)state;
    each(drop_first, stay, true);
    each(drop_all, stay, true);
    each(end_one, stay, true); /* to a worse tier */
    each(leave, stay, true);
    each(lose_service, stay, true);
    each(lose_route, gain_route, true);
    each(block, stay, true);
    each(block, unblock, true);
    each(add_one, drop_first, false);
    each(revive_one, end_one, false);
    each(gain_route, stay, false);
    each(unblock, block, false);
    each(block, block, false);
    each(zone, stay, false);
    each(stay, gain_route, false);
    each(second_leaves, two_of_all, true);
    each(second_route_leaves, two_of_all, true);
    each(stay, two_of_all, false);
    each(stay, stay, false);
}

static void the_first_state_takes_nothing_away_unless_it_blocks(void **state)
{
    (void)state;
    struct fl_state *s = compose();
    assert_false(fl_compose_takes_away(NULL, s));
    fl_state_free(s);
    block();
    s = compose();
    assert_true(fl_compose_takes_away(NULL, s));
    fl_state_free(s);
}

static void a_peer_taken_down_or_without_weight_is_taken_away(void **state)
{
    (void)state;
    static struct fl_peer_conf written[1];
    written[0] = (struct fl_peer_conf){
        .address = "10.9.0.1:9000", .fallback_address = "", .zone = "", .weight = 1};
    backends[0].peers = written;
    backends[0].peer_count = 1;
    struct fl_state *up = compose();
    written[0].down = true;
    struct fl_state *down = compose();
    written[0].down = false;
    written[0].weight = 0;
    struct fl_state *weightless = compose();
    assert_true(fl_compose_takes_away(up, down));
    assert_true(fl_compose_takes_away(up, weightless));
    assert_false(fl_compose_takes_away(down, up));
    assert_false(fl_compose_takes_away(down, weightless));
    fl_state_free(up);
    fl_state_free(down);
    fl_state_free(weightless);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_backend_of_nothing_but_its_service_is_the_sidecars_own),
        TEST(any_other_key_a_written_peer_or_a_route_makes_it_ours),
        TEST(a_path_of_a_route_counts_as_a_route),
        TEST(written_peers_alone_are_members_and_nothing_written_is_none),
        TEST(members_stand_beside_written_peers_which_win_where_the_address_is_one),
        TEST(a_missing_service_is_a_warning_and_no_membership_not_an_empty_one),
        TEST(a_missing_port_is_named),
        TEST(the_state_keeps_no_text_of_the_configuration),
        TEST(probe_keys_stay_here),
        TEST(verdicts_of_members_go_along_with_their_age),
        TEST(less_is_urgent_and_more_or_other_is_not),
        TEST(the_first_state_takes_nothing_away_unless_it_blocks),
        TEST(a_peer_taken_down_or_without_weight_is_taken_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
