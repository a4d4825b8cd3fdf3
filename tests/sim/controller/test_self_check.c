#include "controller/kube/self_check.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <errno.h>
#include <string.h>

#include "controller/kube/role.h"
#include "tests/sim/controller/kube_script.h"

#define YES                                                                                        \
    "{\"kind\":\"SelfSubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/v1\","            \
    "\"metadata\":{},\"spec\":{\"resourceAttributes\":{\"verb\":\"get\"}},"                        \
    "\"status\":{\"allowed\":true,\"reason\":\"RBAC: allowed by …\"}}"
#define NO "{\"status\":{\"allowed\":false},\"kind\":\"SelfSubjectAccessReview\"}"

static struct fl_kube kube;
static struct fl_self_check *check;
static struct fl_self_check_row rows[FL_ROLE_ROWS_MAX];
static int told;
static struct fl_cause cause;
static bool free_at_once;

static void done(void *arg, const struct fl_cause *c)
{
    assert_ptr_equal(arg, &kube);
    told++;
    cause = *c;
    if (free_at_once) {
        check = fl_self_check_free(check);
    }
}

static int set_up(void **state)
{
    (void)state;
    script_init(&kube);
    told = 0;
    free_at_once = false;
    check = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    check = fl_self_check_free(check);
    script_done(&kube);
    return 0;
}

static size_t begin(bool election)
{
    const struct fl_role role = {
        .election = election, .namespace = "fairlead", .lease = "fairlead-controller"};
    size_t n = fl_role_rows(&role, rows);
    assert_int_equal(fl_self_check_new(&kube, rows, n, done, &kube, &check), 0);
    assert_int_equal(told, 0);
    memset(rows, 0x5a, sizeof(rows)); /* it has copies */
    return n;
}

/* Answers all; those whose body has `missing` in it are denied. Two words, either may be NULL. */
static void answer_all(const char *missing, const char *too)
{
    while (kube.count > 0) {
        struct fl_kube_call *c = script_first(&kube);
        bool no = (missing != NULL && strstr(c->body, missing) != NULL) ||
                  (too != NULL && strstr(c->body, too) != NULL);
        script_answer(c, 201, no ? NO : YES);
    }
    assert_int_equal(told, 1);
}

static void every_row_is_asked_and_nothing_is_said_when_all_is_well(void **state)
{
    (void)state;
    size_t n = begin(true);
    assert_int_equal(n, FL_ROLE_ROWS_MAX);
    struct fl_kube_call *c = script_first(&kube);
    assert_string_equal(c->method, "POST");
    assert_string_equal(c->path, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
    assert_string_equal(c->content_type, "application/json");
    assert_string_equal(
        c->body, "{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SelfSubjectAccessReview\","
                 "\"spec\":{\"resourceAttributes\":{\"verb\":\"list\",\"resource\":\"pods\"}}}");
    answer_all(NULL, NULL);
    assert_int_equal(kube.started, n);
    assert_int_equal(kube.most, 4);
    assert_string_equal(cause.code, "");
    assert_string_equal(cause.text, "");
    assert_string_equal(fl_self_check_sentence(check), "");
}

static void a_row_of_the_lease_names_it(void **state)
{
    (void)state;
    (void)begin(true);
    bool seen = false;
    while (kube.count > 0) {
        struct fl_kube_call *c = script_first(&kube);
        seen |= strstr(c->body, "{\"verb\":\"update\",\"group\":\"coordination.k8s.io\","
                                "\"resource\":\"leases\",\"namespace\":\"fairlead\","
                                "\"name\":\"fairlead-controller\"}") != NULL;
        script_answer(c, 201, YES);
    }
    assert_true(seen);
}

static void without_an_election_nobody_asks_for_leases(void **state)
{
    (void)state;
    assert_int_equal(begin(false), FL_ROLE_ROWS_MAX - 3);
    answer_all("leases", NULL);
    assert_string_equal(cause.code, "");
}

static void one_thing_missing_is_one_sentence_with_the_remedy(void **state)
{
    (void)state;
    (void)begin(true);
    answer_all("{\"verb\":\"watch\",\"group\":\"discovery.k8s.io\"", NULL);
    assert_string_equal(cause.code, "not_allowed");
    assert_string_equal(cause.text,
                        "the controller is not allowed to watch endpointslices.discovery.k8s.io: "
                        "apply the ClusterRole of deploy/manifests/controller-rbac.yaml");
    assert_string_equal(fl_self_check_sentence(check),
                        "the controller is not allowed to watch endpointslices.discovery.k8s.io "
                        "(membership): apply the ClusterRole of "
                        "deploy/manifests/controller-rbac.yaml");
}

static void the_lease_has_its_own_role(void **state)
{
    (void)state;
    (void)begin(true);
    answer_all("fairlead-controller", NULL);
    assert_string_equal(cause.text,
                        "the controller is not allowed to get/update leases.coordination.k8s.io "
                        "fairlead-controller in fairlead: apply the Role of "
                        "deploy/manifests/controller-rbac.yaml");
}

static void equal_verbs_are_said_once(void **state)
{
    (void)state;
    (void)begin(true);
    answer_all("\"pods\"", "\"services\"");
    assert_string_equal(cause.text, "the controller is not allowed to list/watch pods, "
                                    "services: apply the ClusterRole of "
                                    "deploy/manifests/controller-rbac.yaml");
    assert_string_equal(fl_self_check_sentence(check),
                        "the controller is not allowed to list/watch pods (pushes); "
                        "list/watch services (membership): apply the ClusterRole of "
                        "deploy/manifests/controller-rbac.yaml");
}

static void a_controller_without_any_role_is_told_all(void **state)
{
    (void)state;
    (void)begin(true);
    answer_all("spec", NULL);
    assert_string_equal(cause.code, "not_allowed");
    assert_string_equal(cause.text,
                        "the controller is not allowed to list/watch pods, services, "
                        "endpointslices.discovery.k8s.io; create/patch events.events.k8s.io and 2 "
                        "more: apply the roles of deploy/manifests/controller-rbac.yaml");
    assert_string_equal(
        fl_self_check_sentence(check),
        "the controller is not allowed to list/watch pods (pushes); list/watch services, "
        "endpointslices.discovery.k8s.io (membership); create/patch events.events.k8s.io "
        "(reports); create leases.coordination.k8s.io in fairlead (election); get/update "
        "leases.coordination.k8s.io fairlead-controller in fairlead (election): apply the roles of "
        "deploy/manifests/controller-rbac.yaml");
}

static void what_could_not_be_asked_is_said(void **state)
{
    (void)state;
    (void)begin(true);
    script_fail(script_first(&kube), FL_CURL_CONNECT);
    answer_all(NULL, NULL);
    assert_string_equal(cause.code, "rights_unknown");
    assert_string_equal(cause.text, "1 of 11 rights of the controller could not be asked for: "
                                    "connect to 10.96.0.1:443 failed");
}

static void what_is_missing_is_said_before_what_is_unknown(void **state)
{
    (void)state;
    (void)begin(true);
    script_answer(script_first(&kube), 403, "{}");
    script_answer(script_first(&kube), 200, "{}"); /* no review */
    answer_all("patch", NULL);
    assert_string_equal(cause.code, "not_allowed");
    assert_string_equal(
        fl_self_check_sentence(check),
        "the controller is not allowed to patch events.events.k8s.io (reports): apply the "
        "ClusterRole of deploy/manifests/controller-rbac.yaml; 2 of 11 rights of the controller "
        "could not be asked for: the answer is no SelfSubjectAccessReview");
}

static void an_answer_without_a_verdict_is_none(void **state)
{
    static const char *const bad[] = {
        "",
        "{}",
        "{\"kind\":\"SelfSubjectAccessReview\"}",
        "{\"kind\":\"SelfSubjectAccessReview\",\"status\":{}}",
        "{\"kind\":\"SelfSubjectAccessReview\",\"status\":null}",
        "{\"kind\":\"SelfSubjectAccessReview\",\"status\":{\"allowed\":\"true\"}}",
        "{\"kind\":\"SelfSubjectAccessReview\",\"status\":{\"allowed\":true}",
        "{\"kind\":\"Status\",\"status\":{\"allowed\":true}}",
    };
    const struct fl_role role = {.election = false};
    (void)state;
    (void)fl_role_rows(&role, rows);
    for (size_t i = 0; i < FL_COUNTOF(bad); i++) {
        told = 0;
        assert_int_equal(fl_self_check_new(&kube, rows, 1, done, &kube, &check), 0);
        script_answer(script_only(&kube), 201, bad[i]);
        assert_string_equal(cause.code, "rights_unknown");
        check = fl_self_check_free(check);
    }
}

static void starts_that_fail_are_said(void **state)
{
    (void)state;
    const struct fl_role role = {.election = true, .namespace = "n", .lease = "l"};
    size_t n = fl_role_rows(&role, rows);
    kube.start_fails = -ENOMEM;
    assert_int_equal(fl_self_check_new(&kube, rows, n, done, &kube, &check), -ENOMEM);
    assert_int_equal(fl_self_check_new(&kube, rows, 0, done, &kube, &check), -EINVAL);
    kube.start_fails = 0;
    (void)begin(true);
    kube.start_fails = -ENOMEM;
    answer_all(NULL, NULL);
    assert_string_equal(cause.text, "7 of 11 rights of the controller could not be asked for: "
                                    "Cannot allocate memory");
}

static void it_may_be_freed_from_within_done(void **state)
{
    (void)state;
    (void)begin(true);
    free_at_once = true;
    answer_all(NULL, NULL);
    assert_null(check);
}

static void free_in_the_middle_cancels(void **state)
{
    (void)state;
    (void)begin(true);
    check = fl_self_check_free(check);
    assert_int_equal(kube.cancelled, 4);
    assert_int_equal(told, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(every_row_is_asked_and_nothing_is_said_when_all_is_well),
        T(a_row_of_the_lease_names_it),
        T(without_an_election_nobody_asks_for_leases),
        T(one_thing_missing_is_one_sentence_with_the_remedy),
        T(the_lease_has_its_own_role),
        T(equal_verbs_are_said_once),
        T(a_controller_without_any_role_is_told_all),
        T(what_could_not_be_asked_is_said),
        T(what_is_missing_is_said_before_what_is_unknown),
        T(an_answer_without_a_verdict_is_none),
        T(starts_that_fail_are_said),
        T(it_may_be_freed_from_within_done),
        T(free_in_the_middle_cancels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
