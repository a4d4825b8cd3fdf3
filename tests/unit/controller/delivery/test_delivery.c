#include "controller/delivery/delivery.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <string.h>

#include "common/codec/config_yaml.h"
#include "common/io/sock.h"
#include "controller/decide/slices.h"

/* A delivery that follows or leads, with stores of slices and pods; nobody listens to its pushes.
 */
static struct fl_reactor *reactor;
static struct fl_delivery *delivery;
static struct fl_controller_config *config;
static struct fl_slices *slices;
static struct fl_pods *pods;
static unsigned asked_a, asked_b; /* how often for the members of these services */
static unsigned told, composed;
static char told_pod[64];
static const struct fl_log quiet = {.level = FL_LOG_ERROR};

static const char config_text[] = "source: kubernetes\n"
                                  "backends:\n"
                                  "  a: {service: {namespace: s, name: a, port: s3}}\n"
                                  "  b: {service: {namespace: s, name: b, port: s3}}\n"
                                  "push: {signing_key_file: /k}\n";

static enum fl_members_found members(const void *arg, const struct fl_service_ref *ref,
                                     struct fl_arena *arena, struct fl_members *ret)
{
    asked_a += strcmp(ref->name, "a") == 0;
    asked_b += strcmp(ref->name, "b") == 0;
    return fl_slices_members(arg, ref, arena, ret);
}

static void source(void *arg, struct fl_delivery_source *ret)
{
    (void)arg;
    struct fl_membership m = fl_membership_of_slices(slices);
    m.members = members;
    *ret = (struct fl_delivery_source){true, m, pods};
}

static void on_wrong(void *arg, const struct fl_kube_pod *pod, const char *said)
{
    (void)arg;
    assert_non_null(strstr(said, "annotation"));
    told++;
    (void)snprintf(told_pod, sizeof(told_pod), "%s", pod->meta.name);
}

static void on_composed(void *arg)
{
    (void)arg;
    composed++;
}

static struct fl_controller_config *read_config(const char *text)
{
    struct fl_findings f;
    fl_findings_init(&f, "");
    struct fl_controller_config *c = fl_controller_config_yaml_load("c.yaml", fl_span_of(text), &f);
    assert_non_null(c);
    fl_findings_done(&f);
    return c;
}

static void configure(const char *text)
{
    struct fl_controller_config *before = config;
    struct fl_sign_key *key = NULL;
    config = read_config(text);
    fl_delivery_configure(delivery, config, &key);
    fl_controller_config_free(before);
}

static void put_slice(const char *service, const char *address)
{
    struct fl_kube_slice_port port = {"s3", 9000};
    struct fl_kube_endpoint e = {address,       address,       "",
                                 FL_MAYBE_TRUE, FL_MAYBE_TRUE, FL_MAYBE_FALSE};
    const struct fl_kube_slice s = {
        .meta = {"s", service, "", ""},
        .service = service,
        .family = FL_ADDR_V4,
        .ports = &port,
        .port_count = 1,
        .endpoints = &e,
        .endpoint_count = 1,
    };
    assert_int_equal(fl_slices_put(slices, &s, 0), 0);
}

static void put_pod(const char *name, const char *ip, const char *value)
{
    bool changed = false;
    struct fl_kube_annotation a = {"route.fairlead.dev/x", value};
    const struct fl_kube_pod p = {
        .meta = {"shop", name, name, ""},
        .node = "",
        .ip = ip,
        .phase = "Running",
        .started = true,
        .annotations = &a,
        .annotation_count = value != NULL,
    };
    assert_int_equal(fl_pods_put(pods, &p, &changed), 0);
    assert_true(changed);
}

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(fl_reactor_new(&reactor), 0);
    slices = fl_slices_new(1);
    pods = fl_pods_new(1);
    assert_true(slices != NULL && pods != NULL);
    const struct fl_delivery_conf c = {
        .reactor = reactor,
        .log = &quiet,
        .elected = true,
        .source = source,
        .annotation_news = on_wrong,
        .composed = on_composed,
    };
    assert_int_equal(fl_delivery_new(&c, &delivery), 0);
    put_slice("a", "10.0.0.1");
    put_slice("b", "10.0.0.2");
    configure(config_text);
    asked_a = asked_b = told = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    delivery = fl_delivery_free(delivery);
    fl_reactor_turn(reactor, 0);
    fl_reactor_free(reactor);
    fl_slices_free(slices);
    fl_pods_free(pods);
    config = fl_controller_config_free(config);
    return 0;
}

static void look(unsigned why)
{
    asked_a = asked_b = 0;
    fl_delivery_look(delivery, why);
}

/* The first peer of the only backend that a pod's configuration has. */
static const char *peer_of(uint32_t pod)
{
    struct fl_fanout_view v;
    fl_fanout_view(fl_delivery_fanout(delivery), pod, &v);
    const struct fl_state *s = fl_fanout_state(fl_delivery_fanout(delivery), v.configuration);
    assert_non_null(s);
    assert_int_equal(s->backend_count, 1);
    return s->backends[0].conf.peers[0].address;
}

/* Until states were made so often. */
static int64_t until_composed(unsigned n)
{
    int64_t end_ms = fl_reactor_now_ms(reactor) + 10000;
    while (composed < n && fl_reactor_now_ms(reactor) < end_ms) {
        fl_reactor_turn(reactor, 20);
    }
    assert_int_equal(composed, n);
    return fl_reactor_now_ms(reactor);
}

/* ---- what is made anew ---- */

static void a_change_makes_the_states_with_that_service_and_no_others(void **state)
{
    (void)state;
    put_pod("p", "10.1.0.1", "a");
    put_pod("q", "10.1.0.2", "b");
    look(FL_DELIVERY_PODS);
    assert_true(asked_a == 1 && asked_b == 1); /* that without annotations has them already */
    put_slice("a", "10.0.0.9");
    look(FL_DELIVERY_MEMBERS);
    assert_true(asked_a == 1 && asked_b == 0);
    assert_string_equal(peer_of(0), "10.0.0.9:9000");
    assert_string_equal(peer_of(1), "10.0.0.2:9000");
    put_slice("unrelated", "10.0.0.10");
    look(FL_DELIVERY_MEMBERS);
    assert_true(asked_a == 0 && asked_b == 0);
}

static void a_pod_that_joins_others_makes_no_state(void **state)
{
    (void)state;
    put_pod("p", "10.1.0.1", "a");
    look(FL_DELIVERY_PODS);
    put_pod("q", "10.1.0.2", "a");
    look(FL_DELIVERY_PODS);
    assert_true(asked_a == 0 && asked_b == 0);
    assert_string_equal(peer_of(1), "10.0.0.1:9000");
    assert_int_equal(fl_fanout_count(fl_delivery_fanout(delivery)), 2);
}

static void a_configuration_that_was_away_is_made_anew(void **state)
{
    (void)state;
    put_pod("p", "10.1.0.1", "a");
    look(FL_DELIVERY_PODS);
    assert_true(fl_pods_remove(pods, "shop", "p"));
    look(FL_DELIVERY_PODS);
    put_slice("a", "10.0.0.9");
    look(FL_DELIVERY_MEMBERS);
    put_pod("p", "10.1.0.1", "a");
    look(FL_DELIVERY_PODS);
    assert_string_equal(peer_of(0), "10.0.0.9:9000");
}

static void verdicts_and_configurations_make_all(void **state)
{
    (void)state;
    put_pod("p", "10.1.0.1", "a");
    look(FL_DELIVERY_PODS);
    look(FL_DELIVERY_VERDICTS);
    assert_true(asked_a == 1 && asked_b == 0);
    look(FL_DELIVERY_CONFIG);
    assert_true(asked_a == 2 && asked_b == 1); /* "" has both */
}

/* It is shown, and probed. */
static void what_nobody_is_pushed_is_made_after_the_others(void **state)
{
    (void)state;
    put_pod("p", "10.1.0.1", "a");
    look(FL_DELIVERY_PODS);
    put_slice("a", "10.0.0.9");
    look(FL_DELIVERY_MEMBERS);
    assert_string_equal(peer_of(0), "10.0.0.9:9000");
    const struct fl_state *own = fl_fanout_state(fl_delivery_fanout(delivery), "");
    assert_string_equal(own->backends[0].conf.peers[0].address, "10.0.0.1:9000");
    composed = 0;
    (void)until_composed(1);
    own = fl_fanout_state(fl_delivery_fanout(delivery), "");
    assert_string_equal(own->backends[0].conf.peers[0].address, "10.0.0.9:9000");
    assert_true(asked_a == 2 && asked_b == 1);
    put_slice("b", "10.0.0.10"); /* in no other */
    look(FL_DELIVERY_MEMBERS);
    assert_true(asked_a == 0 && asked_b == 0);
    (void)until_composed(2);
    assert_true(asked_a == 1 && asked_b == 1);
}

static void who_is_the_first_to_get_a_state_gets_the_newest(void **state)
{
    (void)state;
    const struct fl_verdict bad = {.status = FL_VERDICT_UNREACHABLE};
    struct fl_verdict_table *table =
        (struct fl_verdict_table *)(uintptr_t)fl_delivery_verdicts(delivery);
    assert_int_equal(fl_verdict_table_set(table, "a", "10.0.0.1:9000", &bad), 0);
    look(FL_DELIVERY_VERDICTS);
    assert_true(asked_a == 0 && asked_b == 0);
    put_pod("p", "10.1.0.1", NULL);
    look(FL_DELIVERY_PODS);
    assert_true(asked_a == 1 && asked_b == 1);
    const struct fl_state *own = fl_fanout_state(fl_delivery_fanout(delivery), "");
    assert_int_equal(own->backends[0].verdict_count, 1);
    look(FL_DELIVERY_VERDICTS);
    assert_true(asked_a == 1 && asked_b == 1);
    put_slice("a", "10.0.0.9");
    look(FL_DELIVERY_MEMBERS);
    assert_true(asked_a == 1 && asked_b == 1);
}

static void two_changes_before_one_look_are_both_seen(void **state)
{
    (void)state;
    put_pod("p", "10.1.0.1", "a");
    put_pod("q", "10.1.0.2", "b");
    look(FL_DELIVERY_PODS);
    put_slice("a", "10.0.0.7");
    put_slice("b", "10.0.0.8");
    put_pod("q", "10.1.0.2", "a"); /* of another configuration at the same time */
    look(FL_DELIVERY_MEMBERS | FL_DELIVERY_PODS);
    assert_string_equal(peer_of(0), "10.0.0.7:9000");
    assert_string_equal(peer_of(1), "10.0.0.7:9000");
}

/* ---- who is told ---- */

static void who_follows_tells_nothing_and_who_begins_to_lead_tells_all(void **state)
{
    (void)state;
    put_pod("p", "10.1.0.1", "a");
    put_pod("q", "10.1.0.2", "nowhere");
    look(FL_DELIVERY_PODS);
    assert_int_equal(told, 0);
    fl_delivery_lead(delivery, 7);
    assert_int_equal(told, 1);
    assert_string_equal(told_pod, "q");
    fl_delivery_lead(delivery, 8); /* raised: nobody else told meanwhile */
    assert_int_equal(told, 1);
    put_pod("r", "10.1.0.3", "nowhere");
    look(FL_DELIVERY_PODS);
    assert_int_equal(told, 2);
    assert_string_equal(told_pod, "r");
    look(FL_DELIVERY_PODS);
    assert_int_equal(told, 2);
    fl_delivery_follow(delivery);
    fl_delivery_lead(delivery, 9);
    assert_int_equal(told, 4);
}

static void what_another_configuration_makes_wrong_is_told_once(void **state)
{
    (void)state;
    fl_delivery_lead(delivery, 7);
    put_pod("p", "10.1.0.1", "b");
    look(FL_DELIVERY_PODS);
    configure("source: kubernetes\nbackends: {a: {peers: [{address: '10.0.0.1:1'}]}}\n");
    assert_int_equal(told, 1);
    configure("source: kubernetes\nbackends: {a: {peers: [{address: '10.0.0.2:1'}]}}\n");
    assert_int_equal(told, 1);
    configure(config_text);
    assert_int_equal(told, 1);
    assert_string_equal(peer_of(0), "10.0.0.2:9000");
}

/* ---- probes ---- */

static int listen_locally(char *text, size_t cap)
{
    struct fl_addr at;
    int fd = -1;
    struct fl_fmt f = fl_fmt_of(text, cap);
    assert_true(fl_addr_parse(FL_SPAN("127.0.0.1:0"), &at));
    assert_int_equal(fl_sock_listen(&at, 64, &fd), 0);
    assert_int_equal(fl_sock_local(fd, &at), 0);
    fl_addr_print(&at, &f);
    return fd;
}

/* What is only fresher waits for a second, and for another one while changes wait to leave; a
 * verdict that blocks nobody for some tenths of one. Without a key they do wait. */
static void what_takes_nobody_out_lets_changes_go_first(void **state)
{
    (void)state;
    char address[FL_ADDR_TEXT_MAX], text[512];
    int fd = listen_locally(address, sizeof(address));
    (void)snprintf(
        text, sizeof(text),
        "source: kubernetes\nbackends: {a: {peers: [{address: '%s'}], probe: {type: tcp, "
        "interval: 100ms}}}\n",
        address);
    fl_reactor_turn(reactor, 0);
    fl_delivery_lead(delivery, 7);
    put_pod("p", "10.1.0.1", "a");
    configure(text);
    assert_true(fl_fanout_hurries(fl_delivery_fanout(delivery)));
    composed = 0;
    int64_t began_ms = fl_reactor_now_ms(reactor);
    int64_t at_ms = until_composed(1); /* its first verdict */
    assert_true(at_ms - began_ms >= 220);
    assert_true(until_composed(2) - at_ms >= 1900);
    fl_sock_close(fd);
}

static bool is_probed(const char *address)
{
    struct fl_cluster_prober *p = fl_delivery_prober(delivery);
    (void)fl_cluster_prober_ask(p, "a");
    return fl_cluster_prober_probing(p, "a", address);
}

/* A leader hears of another member of "a", and has not caught up. */
static void lead_and_hear(void)
{
    fl_reactor_turn(reactor, 0);
    fl_delivery_lead(delivery, 7);
    put_slice("a", "127.0.0.1");
    look(FL_DELIVERY_MEMBERS);
    composed = 0;
}

/* Without a key changes do wait. */
static void what_is_probed_after_a_change_of_members_lets_it_leave_first(void **state)
{
    (void)state;
    fl_reactor_turn(reactor, 0);
    fl_delivery_lead(delivery, 7);
    put_pod("p", "10.1.0.1", "a");
    look(FL_DELIVERY_PODS);
    assert_true(fl_fanout_hurries(fl_delivery_fanout(delivery)));
    assert_true(is_probed("10.0.0.1:9000"));
    composed = 0;
    fl_reactor_turn(reactor, 0);
    int64_t began_ms = fl_reactor_now_ms(reactor);
    put_slice("a", "127.0.0.1");
    look(FL_DELIVERY_MEMBERS);
    assert_string_equal(peer_of(0), "127.0.0.1:9000");
    assert_int_equal(composed, 0);
    assert_false(is_probed("127.0.0.1:9000"));
    put_slice("a", "127.0.0.2"); /* another change puts nothing off for longer */
    look(FL_DELIVERY_MEMBERS);
    int64_t took_ms = until_composed(1) - began_ms;
    assert_true(took_ms >= 150 && took_ms < 5000);
    assert_true(is_probed("127.0.0.2:9000"));
    assert_false(is_probed("10.0.0.1:9000"));
}

static void whoever_asks_meanwhile_is_told_what_is_so(void **state)
{
    (void)state;
    lead_and_hear();
    assert_false(is_probed("127.0.0.1:9000"));
    fl_delivery_catch_up(delivery);
    assert_int_equal(composed, 1);
    assert_true(is_probed("127.0.0.1:9000"));
    fl_delivery_catch_up(delivery);
    assert_int_equal(composed, 1); /* nothing is left */
}

static void another_configuration_is_probed_at_once(void **state)
{
    (void)state;
    lead_and_hear();
    configure(config_text);
    assert_int_equal(composed, 1);
    assert_true(is_probed("127.0.0.1:9000"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(a_change_makes_the_states_with_that_service_and_no_others),
        TEST(a_pod_that_joins_others_makes_no_state),
        TEST(a_configuration_that_was_away_is_made_anew),
        TEST(verdicts_and_configurations_make_all),
        TEST(what_nobody_is_pushed_is_made_after_the_others),
        TEST(who_is_the_first_to_get_a_state_gets_the_newest),
        TEST(two_changes_before_one_look_are_both_seen),
        TEST(who_follows_tells_nothing_and_who_begins_to_lead_tells_all),
        TEST(what_another_configuration_makes_wrong_is_told_once),
        TEST(what_takes_nobody_out_lets_changes_go_first),
        TEST(what_is_probed_after_a_change_of_members_lets_it_leave_first),
        TEST(whoever_asks_meanwhile_is_told_what_is_so),
        TEST(another_configuration_is_probed_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
