/* The election against a model of the API server: the codes are those of a real one. */
#include "controller/kube/election.h"

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

#include <json-c/json.h>

#include "controller/decide/lease.h"
#include "tests/sim/controller/kube_script.h"
#include "tests/sim/sim.h"

#define LATENCY_MS 5

struct replica {
    struct fl_kube kube;
    struct fl_reactor *reactor;
    struct fl_election *election;
    int64_t epoch; /* as told */
    int leads, follows, released;
};

static struct sim_world *world;
static struct replica a, b;
static const struct fl_log quiet = {.level = FL_LOG_ERROR};

static struct {
    struct json_object *lease;
    int rv;
    int refuse; /* this status to everything; 0: none */
    bool silent;
} server;

/* --- the API server --- */

static bool six_digits(struct json_object *spec, const char *key)
{
    struct json_object *v;
    const char *s = json_object_object_get_ex(spec, key, &v) ? json_object_get_string(v) : NULL;
    return s == NULL || (strlen(s) == 27 && s[19] == '.' && s[26] == 'Z');
}

static const char *text_in(struct json_object *o, const char *in, const char *key)
{
    struct json_object *part, *v;
    return json_object_object_get_ex(o, in, &part) && json_object_object_get_ex(part, key, &v)
               ? json_object_get_string(v)
               : NULL;
}

static void store(struct json_object *made)
{
    struct json_object *meta = json_object_object_get(made, "metadata");
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", ++server.rv);
    json_object_object_add(meta, "resourceVersion", json_object_new_string(text));
    json_object_object_add(meta, "uid", json_object_new_string("u1"));
    json_object_put(server.lease);
    server.lease = made;
}

static int judge(struct fl_kube_call *c, struct json_object *body)
{
    struct json_object *spec = body ? json_object_object_get(body, "spec") : NULL;
    bool create = strcmp(c->method, "POST") == 0, read = strcmp(c->method, "GET") == 0;
    if (server.refuse) {
        return server.refuse;
    }
    if (!read && (!six_digits(spec, "renewTime") || !six_digits(spec, "acquireTime"))) {
        return 400;
    }
    if (!read && json_object_get_int(json_object_object_get(spec, "leaseDurationSeconds")) <= 0) {
        return 422;
    }
    if (create || server.lease == NULL) {
        return create ? (server.lease == NULL ? 201 : 409) : 404;
    }
    const char *rv = body ? text_in(body, "metadata", "resourceVersion") : NULL;
    if (!read && rv == NULL) {
        return 422;
    }
    return read || atol(rv) == server.rv ? 200 : 409; /* lint-ok: digits of our own */
}

static void serve(void *arg)
{
    struct fl_kube_call *c = arg;
    struct json_object *body = *c->body ? json_tokener_parse(c->body) : NULL;
    int status = judge(c, body);
    char path[128];
    (void)snprintf(path, sizeof(path), "/apis/coordination.k8s.io/v1/namespaces/fairlead/leases%s",
                   strcmp(c->method, "POST") == 0 ? "" : "/fc");
    assert_string_equal(c->path, path);
    if (body != NULL && status < 300) {
        store(body);
    } else {
        json_object_put(body);
    }
    script_answer(c, status, status < 300 ? json_object_to_json_string(server.lease) : "{}");
}

static void on_start(void *arg, struct fl_kube_call *c)
{
    (void)arg;
    if (!server.silent) {
        sim_at(world, sim_now_ms(world) + LATENCY_MS, serve, c);
    }
}

/* --- replicas --- */

static void lead(void *arg, int64_t epoch)
{
    struct replica *r = arg;
    assert_true(epoch > r->epoch || r->epoch == 0);
    assert_int_equal(fl_election_epoch(r->election), epoch);
    r->epoch = epoch;
    r->leads++;
}

static void follow(void *arg)
{
    struct replica *r = arg;
    assert_true(r->epoch > 0);
    assert_int_equal(fl_election_epoch(r->election), 0);
    r->epoch = 0;
    r->follows++;
}

static void released(void *arg)
{
    ((struct replica *)arg)->released++;
}

static void open_replica(struct replica *r, const char *identity)
{
    *r = (struct replica){0};
    script_init(&r->kube);
    r->kube.on_start = on_start;
    assert_int_equal(fl_reactor_new(&r->reactor), 0);
    const struct fl_election_conf conf = {.kube = &r->kube,
                                          .reactor = r->reactor,
                                          .log = &quiet,
                                          .namespace = "fairlead",
                                          .name = "fc",
                                          .identity = identity,
                                          .seed = (uint64_t)identity[0],
                                          .lead = lead,
                                          .follow = follow,
                                          .arg = r};
    assert_int_equal(fl_election_new(&conf, &r->election), 0);
    assert_int_equal(r->kube.started, 0);
}

static void close_replica(struct replica *r)
{
    if (r->election != NULL) {
        r->election = fl_election_free(r->election);
        script_done(&r->kube);
        r->reactor = fl_reactor_free(r->reactor);
    }
}

static int set_up(void **state)
{
    (void)state;
    world = sim_new(7);
    memset(&server, 0, sizeof(server));
    server.rv = 1000;
    open_replica(&a, "a_1");
    memset(&b, 0, sizeof(b));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)sim_run_for(world, 100); /* answers that are on their way */
    close_replica(&a);
    close_replica(&b);
    json_object_put(server.lease);
    return sim_free(world) == 0 ? 0 : -1;
}

static struct fl_election_view view(const struct replica *r)
{
    struct fl_election_view v;
    fl_election_view(r->election, &v);
    return v;
}

static void the_first_one_leads_and_stays(void **state)
{
    (void)state;
    (void)sim_run_for(world, 1000);
    assert_int_equal(a.leads, 1);
    assert_int_equal(a.epoch, 1002); /* above the version of the new Lease */
    open_replica(&b, "b_1");
    (void)sim_run_for(world, 120000);
    assert_int_equal(a.leads, 1);
    assert_int_equal(a.follows, 0);
    assert_int_equal(b.leads, 0);
    assert_true(view(&a).leads);
    assert_int_equal(view(&a).epoch, 1002);
    assert_string_equal(view(&b).holder, "a_1");
    assert_string_equal(view(&b).fault.code, "");
    assert_in_range(server.rv, 1000 + 55, 1000 + 65); /* a renewal every 2 s, nothing else */
}

static void labels_and_what_others_wrote_stay(void **state)
{
    struct json_object *meta, *labels = json_object_new_object();
    (void)state;
    (void)sim_run_for(world, 1000);
    meta = json_object_object_get(server.lease, "metadata");
    json_object_object_add(labels, "team", json_object_new_string("x"));
    json_object_object_add(meta, "labels", labels);
    json_object_object_add(meta, "resourceVersion", json_object_new_string("2000"));
    server.rv = 2000; /* an edit: the next renewal meets a conflict */
    (void)sim_run_for(world, 10000);
    meta = json_object_object_get(server.lease, "metadata");
    assert_non_null(json_object_object_get(meta, "labels"));
    assert_true(server.rv > 2003);
    assert_int_equal(a.follows, 0);
}

static void a_release_lets_the_other_one_in_and_is_said_once(void **state)
{
    (void)state;
    open_replica(&b, "b_1");
    (void)sim_run_for(world, 5000);
    struct replica *first = a.epoch > 0 ? &a : &b, *second = first == &a ? &b : &a;
    int64_t epoch = first->epoch;
    fl_election_release(first->election, released, first);
    assert_int_equal(first->epoch, 0); /* before the Lease is given back */
    assert_int_equal(first->released, 0);
    (void)sim_run_for(world, 50);
    assert_int_equal(first->released, 1);
    assert_string_equal(text_in(server.lease, "spec", "holderIdentity"), "");
    assert_string_equal(text_in(server.lease, "spec", "leaseDurationSeconds"), "1");
    (void)sim_run_for(world, 5000);
    assert_int_equal(second->epoch, epoch + 1);
    assert_int_equal(first->released, 1);
    assert_int_equal(first->leads, 1);
}

static void a_release_that_hears_nothing_ends_after_two_seconds(void **state)
{
    (void)state;
    (void)sim_run_for(world, 1000);
    server.silent = true;
    fl_election_release(a.election, released, &a);
    (void)sim_run_for(world, 900);
    assert_int_equal(a.released, 0);
    (void)sim_run_for(world, 1200);
    assert_int_equal(a.released, 1);
    assert_int_equal(a.kube.count, 0); /* the call is cancelled */
}

static void a_follower_has_nothing_to_release(void **state)
{
    (void)state;
    (void)sim_run_for(world, 1000);
    open_replica(&b, "b_1");
    (void)sim_run_for(world, 1000);
    fl_election_release(b.election, released, &b);
    assert_int_equal(b.released, 0); /* never from within */
    (void)sim_run_for(world, 50);
    assert_int_equal(b.released, 1);
    assert_int_equal(b.follows, 0);
}

static void a_raise_is_written_and_told(void **state)
{
    (void)state;
    (void)sim_run_for(world, 1000);
    fl_election_raise(a.election, 1764493000);
    assert_int_equal(a.epoch, 1002);
    (void)sim_run_for(world, 50);
    assert_int_equal(a.epoch, 1764493001);
    assert_int_equal(a.follows, 0);
    assert_string_equal(text_in(server.lease, "spec", "leaseTransitions"), "1764493001");
    fl_election_raise(a.election, INT64_MAX);
    (void)sim_run_for(world, 10000);
    assert_int_equal(a.epoch, 1764493001);
}

static void a_server_that_fails_ends_the_term_and_says_why(void **state)
{
    (void)state;
    (void)sim_run_for(world, 1000);
    server.refuse = 500;
    (void)sim_run_for(world, 9000);
    assert_int_equal(a.follows, 0);
    assert_string_equal(view(&a).fault.code, "lease_refused");
    (void)sim_run_for(world, 2500);
    assert_int_equal(a.follows, 1);
    server.refuse = 0;
    (void)sim_run_for(world, 5000);
    assert_int_equal(a.leads, 2);
    assert_string_equal(view(&a).fault.code, "");
}

static void a_forbidden_lease_names_the_remedy(void **state)
{
    (void)state;
    server.refuse = 403;
    (void)sim_run_for(world, 60000);
    struct fl_election_view v = view(&a);
    assert_string_equal(v.fault.code, "lease_forbidden");
    assert_string_equal(v.fault.text,
                        "cannot get Lease fairlead/fc: so says the script; apply the Role of "
                        "deploy/manifests/controller-rbac.yaml");
    assert_in_range(a.kube.started, 60 / 5, 60 / 2 + 1); /* at the usual pace */
}

static void what_is_no_lease_is_not_believed(void **state)
{
    (void)state;
    server.silent = true;
    (void)sim_run_for(world, 100);
    script_answer(script_only(&a.kube), 200, "<html>login</html>");
    assert_string_equal(view(&a).fault.code, "lease_unreadable");
    (void)sim_run_for(world, 5000);
    script_fail(script_only(&a.kube), FL_CURL_CONNECT);
    assert_string_equal(view(&a).fault.code, "lease_unreachable");
    assert_string_equal(view(&a).fault.text,
                        "cannot get Lease fairlead/fc: connect to 10.96.0.1:443 failed");
}

static void a_start_that_fails_is_a_failed_call(void **state)
{
    (void)state;
    a.kube.start_fails = -ENOMEM;
    (void)sim_run_for(world, 10000);
    assert_string_equal(view(&a).fault.code, "no_memory");
    a.kube.start_fails = 0;
    (void)sim_run_for(world, 5000);
    assert_int_equal(a.leads, 1);
}

static int pushed_after_pause;
static struct fl_task push;

static void at_the_end_of_the_turn(struct fl_task *t)
{
    (void)t;
    pushed_after_pause += a.epoch > 0 ? 1 : 100;
}

static void pause(void *arg) /* the process gets no time for 30 s, and then wants to push */
{
    (void)arg;
    sim_advance(world, 30000000);
    fl_reactor_later(a.reactor, &push);
}

static void a_leader_that_was_paused_follows_in_the_turn_in_which_it_wakes(void **state)
{
    (void)state;
    for (int in_call = 0; in_call < 2; in_call++) {
        server.silent = false;
        (void)sim_run_for(world, 20000);
        assert_true(a.epoch > 0);
        server.silent = in_call;
        (void)sim_run_for(world, 3000);
        assert_true(a.epoch > 0);
        assert_int_equal(a.kube.count, in_call);
        pushed_after_pause = 0;
        fl_task_init(&push, at_the_end_of_the_turn);
        sim_at(world, sim_now_ms(world) + 10, pause, NULL);
        (void)sim_run_for(world, 30100);
        assert_int_equal(a.follows, in_call + 1);
        assert_int_equal(pushed_after_pause, 100);
        if (in_call) { /* the call ends at last */
            script_fail(script_only(&a.kube), FL_CURL_TIMEOUT);
        }
    }
}

static void free_in_the_middle_of_a_call_leaves_nothing(void **state)
{
    (void)state;
    server.silent = true;
    (void)sim_run_for(world, 100);
    assert_int_equal(a.kube.count, 1);
    close_replica(&a);
}

static void names_that_cannot_be_are_refused(void **state)
{
    struct fl_election *e;
    struct fl_election_conf c = {.kube = &a.kube,
                                 .reactor = a.reactor,
                                 .log = &quiet,
                                 .namespace = "",
                                 .name = "fc",
                                 .identity = "x"};
    char longest[FL_LEASE_HOLDER_MAX + 1];
    (void)state;
    assert_int_equal(fl_election_new(&c, &e), -EINVAL);
    c.namespace = "ns";
    c.identity = "";
    assert_int_equal(fl_election_new(&c, &e), -EINVAL);
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    c.identity = longest;
    assert_int_equal(fl_election_new(&c, &e), -EINVAL);
    assert_null(fl_election_free(NULL));
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_first_one_leads_and_stays),
        T(labels_and_what_others_wrote_stay),
        T(a_release_lets_the_other_one_in_and_is_said_once),
        T(a_release_that_hears_nothing_ends_after_two_seconds),
        T(a_follower_has_nothing_to_release),
        T(a_raise_is_written_and_told),
        T(a_server_that_fails_ends_the_term_and_says_why),
        T(a_forbidden_lease_names_the_remedy),
        T(what_is_no_lease_is_not_believed),
        T(a_start_that_fails_is_a_failed_call),
        T(a_leader_that_was_paused_follows_in_the_turn_in_which_it_wakes),
        T(free_in_the_middle_of_a_call_leaves_nothing),
        T(names_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
