#include "controller/kube/kube_events.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "controller/decide/event_series.h"
#include "tests/sim/controller/kube_script.h"
#include "tests/sim/sim.h"

static struct sim_world *world;
static struct fl_reactor *reactor;
static struct fl_kube kube;
static struct fl_kube_events *events;
static const struct fl_log quiet = {.level = FL_LOG_ERROR};
static const struct fl_event_about pod = {
    .api_version = "v1", .kind = "Pod", .namespace = "shop", .name = "web-1", .uid = "u-1"};

static int set_up(void **state)
{
    (void)state;
    world = sim_new(3);
    sim_set_wall_ms(world, INT64_C(1796030507123));
    script_init(&kube);
    assert_int_equal(fl_reactor_new(&reactor), 0);
    assert_int_equal(fl_kube_events_new(&kube, reactor, &quiet, "fairlead-controller-0", &events),
                     0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    events = fl_kube_events_free(events);
    script_done(&kube);
    reactor = fl_reactor_free(reactor);
    return sim_free(world) == 0 ? 0 : -1;
}

static void say(const char *note)
{
    fl_kube_events_say(events, FL_EVENT_BACKEND_UNREACHABLE, &pod, "Probe", note);
}

static struct fl_kube_call *call_after(int64_t ms)
{
    (void)sim_run_for(world, ms);
    return script_only(&kube);
}

static void has(const struct fl_kube_call *c, const char *text)
{
    if (strstr(c->body, text) == NULL) {
        print_message("%s\n  is not in\n%s\n", text, c->body);
    }
    assert_non_null(strstr(c->body, text));
}

static void totals(uint64_t written, uint64_t folded, uint64_t lost)
{
    struct fl_kube_events_totals t = fl_kube_events_totals(events);
    assert_int_equal(t.written, written);
    assert_int_equal(t.folded, folded);
    assert_int_equal(t.lost, lost);
}

static void an_event_is_what_the_server_takes(void **state)
{
    (void)state;
    say("connect to 10.0.0.1:9000 failed (\"refused\")");
    assert_int_equal(kube.started, 0); /* not from within */
    struct fl_kube_call *c = call_after(20);
    assert_string_equal(c->method, "POST");
    assert_string_equal(c->path, "/apis/events.k8s.io/v1/namespaces/shop/events");
    assert_string_equal(c->content_type, "application/json");
    assert_string_equal(c->verb, "create");
    assert_string_equal(c->resource, "events");
    has(c, "{\"apiVersion\":\"events.k8s.io/v1\",\"kind\":\"Event\",\"metadata\":{"
           "\"namespace\":\"shop\",\"name\":\"web-1.");
    has(c, "\"eventTime\":\"2026-11-30T09:21:47.1"); /* and six digits: */
    const char *t = strstr(c->body, "\"eventTime\":\"") + strlen("\"eventTime\":\"");
    assert_int_equal(strspn(t + 20, "0123456789"), 6);
    has(c, "Z\",\"type\":\"Warning\",\"reason\":\"BackendUnreachable\",\"action\":\"Probe\","
           "\"note\":\"connect to 10.0.0.1:9000 failed (\\\"refused\\\")\","
           "\"reportingController\":\"fairlead.dev/controller\","
           "\"reportingInstance\":\"fairlead-controller-0\","
           "\"regarding\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"namespace\":\"shop\","
           "\"name\":\"web-1\",\"uid\":\"u-1\"}}");
    script_answer(c, 201, "{}");
    totals(1, 0, 0);
}

static void a_repetition_is_a_patch_of_the_same_event(void **state)
{
    char path[400];
    (void)state;
    say("down");
    struct fl_kube_call *c = call_after(20);
    const char *name = strstr(c->body, "web-1.");
    (void)snprintf(path, sizeof(path), "/apis/events.k8s.io/v1/namespaces/shop/events/%.22s", name);
    script_answer(c, 201, "{}");
    say("down");
    say("down");
    (void)sim_run_for(world, FL_EVENT_PATCH_MS - 1000);
    assert_int_equal(kube.count, 0);
    c = call_after(2000);
    assert_string_equal(c->method, "PATCH");
    assert_string_equal(c->path, path);
    assert_string_equal(c->content_type, "application/merge-patch+json");
    assert_string_equal(c->verb, "patch");
    has(c, "{\"series\":{\"count\":3,\"lastObservedTime\":\"2026-11-30T09:21:47.1");
    script_answer(c, 200, "{}");
    totals(2, 2, 0);
    (void)sim_run_for(world, 600000);
    assert_int_equal(kube.started, 2);
}

static void what_belongs_to_no_namespace_goes_to_default(void **state)
{
    const struct fl_event_about node = {.api_version = "v1", .kind = "Node", .name = "n1"};
    (void)state;
    fl_kube_events_say(events, FL_EVENT_BACKEND_RECOVERED, &node, NULL, NULL);
    struct fl_kube_call *c = call_after(20);
    assert_string_equal(c->path, "/apis/events.k8s.io/v1/namespaces/default/events");
    has(c, "\"metadata\":{\"namespace\":\"default\",");
    has(c, "\"type\":\"Normal\",\"reason\":\"BackendRecovered\",\"action\":\"BackendRecovered\","
           "\"reportingController\"");
    has(c, "\"regarding\":{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"n1\"}}");
    script_answer(c, 201, "{}");
}

static void at_most_four_are_on_their_way(void **state)
{
    char note[8];
    (void)state;
    for (int i = 0; i < 12; i++) {
        (void)snprintf(note, sizeof(note), "%d", i);
        say(note);
    }
    (void)sim_run_for(world, 1000);
    assert_int_equal(kube.count, 4);
    while (kube.count > 0) {
        script_answer(script_first(&kube), 201, "{}");
        (void)sim_run_for(world, 20);
    }
    assert_int_equal(kube.most, 4);
    totals(12, 0, 0);
}

static void an_unreachable_server_costs_three_tries(void **state)
{
    (void)state;
    say("down");
    script_fail(call_after(20), FL_CURL_CONNECT);
    script_answer(call_after(10100), 503, "");
    (void)sim_run_for(world, 19000);
    assert_int_equal(kube.count, 0);
    script_answer_later(call_after(1100), 429, "", 1000);
    (void)sim_run_for(world, 600000);
    assert_int_equal(kube.started, 3);
    totals(0, 0, 1);
}

static void a_refusal_is_not_repeated(void **state)
{
    (void)state;
    say("down");
    script_answer(call_after(20), 403, "{}");
    (void)sim_run_for(world, 600000);
    assert_int_equal(kube.started, 1);
    totals(0, 0, 1);
}

static void an_answer_that_was_lost_is_found_by_the_name(void **state)
{
    (void)state;
    say("down");
    script_fail(call_after(20), FL_CURL_TIMEOUT);
    script_answer(call_after(10100), 409, "{}");
    totals(1, 0, 0);
}

static void a_forgotten_event_is_made_anew(void **state)
{
    (void)state;
    say("down");
    script_answer(call_after(20), 201, "{}");
    (void)sim_run_for(world, 100000);
    say("down");
    struct fl_kube_call *c = call_after(20);
    assert_string_equal(c->method, "PATCH");
    script_answer(c, 404, "{}");
    c = call_after(20);
    assert_string_equal(c->method, "POST");
    has(c, "\"series\":{\"count\":2,");
    script_answer(c, 201, "{}");
}

static void a_start_that_fails_is_tried_again(void **state)
{
    (void)state;
    kube.start_fails = -ENOMEM;
    say("down");
    (void)sim_run_for(world, 1000);
    kube.start_fails = 0;
    script_answer(call_after(10000), 201, "{}");
    totals(1, 0, 0);
}

static void a_note_that_is_too_long_is_cut(void **state)
{
    char note[2001];
    (void)state;
    memset(note, '\n', sizeof(note) - 1); /* twice as long in JSON */
    note[sizeof(note) - 1] = '\0';
    say(note);
    struct fl_kube_call *c = call_after(20);
    const char *from = strstr(c->body, "\"note\":\"") + strlen("\"note\":\"");
    assert_int_equal(strspn(from, "\\n"), 2 * FL_EVENT_NOTE_MAX);
    script_answer(c, 201, "{}");
}

static void free_in_the_middle_leaves_nothing(void **state)
{
    (void)state;
    say("a");
    say("b");
    (void)sim_run_for(world, 20);
    assert_int_equal(kube.count, 2);
    say("c");
    /* tear_down frees */
}

static void who_says_it_has_a_name(void **state)
{
    struct fl_kube_events *e;
    (void)state;
    assert_int_equal(fl_kube_events_new(&kube, reactor, &quiet, "", &e), -EINVAL);
    assert_null(fl_kube_events_free(NULL));
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(an_event_is_what_the_server_takes),
        T(a_repetition_is_a_patch_of_the_same_event),
        T(what_belongs_to_no_namespace_goes_to_default),
        T(at_most_four_are_on_their_way),
        T(an_unreachable_server_costs_three_tries),
        T(a_refusal_is_not_repeated),
        T(an_answer_that_was_lost_is_found_by_the_name),
        T(a_forgotten_event_is_made_anew),
        T(a_start_that_fails_is_tried_again),
        T(a_note_that_is_too_long_is_cut),
        T(free_in_the_middle_leaves_nothing),
        T(who_says_it_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
