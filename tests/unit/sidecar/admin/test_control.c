/* The control thread as a whole: boot gate, verdicts, names, reload, and the pages that show them.
 */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include "tests/unit/sidecar/admin/harness.h"

#include <netdb.h>

#include "common/io/resolve.h"
#include "sidecar/admin/metrics.h"

/* ---- a resolver that knows what the test says ---- */

struct fl_resolver {
    int unused;
};
static struct fl_resolver the_resolver;
static struct {
    fl_resolve_fn *done;
    void *arg;
    char host[64];
} questions[8];
static unsigned question_count;

int fl_resolver_new(struct fl_reactor *r, struct fl_resolver **ret)
{
    (void)r;
    *ret = &the_resolver;
    return 0;
}

struct fl_resolver *fl_resolver_free(struct fl_resolver *rs)
{
    (void)rs;
    return NULL;
}

int fl_resolver_ask(struct fl_resolver *rs, const char *host, uint16_t port, fl_resolve_fn *done,
                    void *arg)
{
    (void)rs;
    (void)port;
    assert_true(question_count < FL_COUNTOF(questions));
    questions[question_count].done = done;
    questions[question_count].arg = arg;
    (void)snprintf(questions[question_count++].host, sizeof(questions[0].host), "%s", host);
    return 0;
}

static void answer(unsigned i, int err, const struct fl_addr *addrs, int count)
{
    questions[i].done(questions[i].arg, err, addrs, count);
}

/* ---- origins: listeners that accept into their queue ---- */

static struct {
    int fd;
    struct fl_addr at;
    char text[FL_ADDR_TEXT_MAX];
} origin[3];
static char yaml[4096];

static void open_origin(unsigned i)
{
    origin[i].fd = h_listen(&origin[i].at);
    struct fl_fmt f = fl_fmt_of(origin[i].text, sizeof(origin[i].text));
    fl_addr_print(&origin[i].at, &f);
}

static void close_origin(unsigned i)
{
    if (origin[i].fd >= 0) {
        close(origin[i].fd);
        origin[i].fd = -1;
    }
}

static void reopen_origin(unsigned i)
{
    assert_int_equal(fl_sock_listen(&origin[i].at, 16, &origin[i].fd), 0);
}

static int set_up(void **state)
{
    (void)state;
    question_count = 0;
    for (unsigned i = 0; i < 3; i++) {
        open_origin(i);
    }
    return 0;
}

static int tear_down(void **state)
{
    h_tear_down(state);
    for (unsigned i = 0; i < 3; i++) {
        close_origin(i);
    }
    return 0;
}

/* Two backends: a with origins 0 and 1, b with origin 2. */
static const char *config_with(const char *top)
{
    (void)snprintf(yaml, sizeof(yaml),
                   "%slog_level: error\n"
                   "backends:\n"
                   "  a:\n"
                   "    protocol: http\n"
                   "    peers: [{address: \"%s\"}, {address: \"%s\", backup: true}]\n"
                   "    probe: {type: tcp, interval: 10s, timeout: 1s}\n"
                   "  b: {protocol: http, peers: [{address: \"%s\"}], probe: {type: tcp, interval: "
                   "10s, timeout: 1s}}\n"
                   "routes:\n"
                   "  one: {backend: a, paths: {\"/x/\": {backend: b}}}\n"
                   "  two: {backend: b}\n",
                   top, origin[0].text, origin[1].text, origin[2].text);
    return yaml;
}

static void close_all(void)
{
    for (unsigned i = 0; i < 3; i++) {
        close_origin(i);
    }
}

static void boot_gate(void **state)
{
    (void)state;
    h_start(config_with("boot_probe: enforce\n"));
    assert_int_equal(h.booted, -1); /* nothing is known before the first turns */
    h_settle();
    assert_int_equal(h.booted, 1);
    h_stop();
    close_origin(0);
    close_origin(1); /* a is down, b is not: degraded, not refused */
    h_start(config_with("boot_probe: enforce\n"));
    h_settle();
    assert_int_equal(h.booted, 1);
    assert_string_equal(h_look("/_/ready", "status"), "degraded");
    assert_string_equal(h_look("/_/ready", "backend"), "ready");
    h_stop();
    close_all();
    h_start(config_with("boot_probe: enforce\n"));
    h_settle();
    assert_int_equal(h.booted, 0);
    h_stop();
    h_start(config_with("boot_probe: warn\n"));
    h_settle();
    assert_int_equal(h.booted, 1);
    assert_string_equal(h_look("/_/ready", "backend"), "unavailable");
    h_stop();
    h_start(config_with("boot_probe: off\n"));
    assert_int_equal(h.booted, 1); /* decided at once */
}

static void verdicts_change_and_are_told(void **state)
{
    (void)state;
    h_start(config_with(""));
    h_settle();
    uint64_t version = h.control->health_version;
    assert_string_equal(h_look("/_/api/admin/backends", "backends.1.verdict.status"), "healthy");
    close_origin(2);
    assert_int_equal(h_post("/_/api/admin/backends/b/probe"),
                     200); /* at once, and 200 although unhealthy */
    struct json_object *o = h_json();
    assert_string_equal(h_at(o, "name"), "b");
    assert_string_equal(h_at(o, "verdict.status"), "unreachable");
    assert_string_equal(h_at(o, "verdict.code"), "connect_refused");
    assert_string_equal(h_at(o, "verdict.step"), "connect");
    assert_string_equal(h_at(o, "verdict.peers_down"), "1/1");
    assert_string_equal(h_at(o, "blocked"), "true");
    assert_string_equal(h_at(o, "buckets.0"), "one"); /* by its path */
    assert_string_equal(h_at(o, "buckets.1"), "two");
    json_object_put(o);
    assert_true(h.control->health_version > version);
    assert_true(fl_engine_snapshot(h.engine)->backends[1].gated);
    assert_string_equal(h_look("/_/ready", "backends.a"), "healthy");
    assert_string_equal(h_look("/_/ready", "backends.b"), "unreachable");
    reopen_origin(2);
    h_turn_ms(1200); /* again after 1 s although the interval is 10 s */
    assert_string_equal(h_look("/_/ready", "backends.b"), "healthy");
    assert_string_equal(h_look("/_/api/admin/events", "events.0.kind"), "backend_unhealthy");
    assert_string_equal(h_look("/_/api/admin/events", "events.1.kind"), "backend_recovered");
    assert_string_equal(h_look("/_/api/admin/events?since=1", "events.0.backend"), "b");
    assert_int_equal(h_get("/_/api/admin/events?since=x"), 400);
}

static void data_threads_ask_for_probes(void **state)
{
    (void)state;
    h_start(config_with(""));
    h_turn_ms(1100); /* past the spacing of the boot probe */
    uint64_t before[5], n[5];
    assert_true(fl_prober_counts(h.control->prober, "a", before));
    for (int i = 0; i < 20; i++) { /* many failures, one probe a second */
        fl_prober_want(h.control->prober, "a", origin[0].text);
        h_turn_ms(10);
    }
    assert_true(fl_prober_counts(h.control->prober, "a", n));
    assert_int_equal(n[FL_VERDICT_HEALTHY], before[FL_VERDICT_HEALTHY] + 1);
    h_turn_ms(900);
    assert_true(fl_prober_counts(h.control->prober, "a", n));
    assert_int_equal(n[FL_VERDICT_HEALTHY],
                     before[FL_VERDICT_HEALTHY] + 2); /* the rest of them, together */
}

static void a_changed_definition_is_probed_afresh(void **state)
{
    (void)state;
    h_start(config_with(""));
    h_settle();
    struct fl_watch_view w;
    assert_true(fl_prober_look(h.control->prober, "b", origin[2].text, &w));
    assert_int_equal(w.own->status, FL_VERDICT_HEALTHY);
    uint64_t old = w.own->fingerprint;
    close_origin(2);
    (void)config_with("");
    char *timeout = strstr(strstr(yaml, "  b:"), "timeout: 1s");
    timeout[9] = '2';
    (void)h_apply(h_config(yaml), true); /* without asking it first */
    assert_int_equal(h_applied.end, FL_APPLY_DONE);
    assert_true(fl_prober_look(h.control->prober, "b", origin[2].text, &w));
    assert_int_equal(w.own->status, FL_VERDICT_UNKNOWN); /* the old verdict is not about this one */
    assert_true(fl_prober_look(h.control->prober, "a", origin[0].text, &w));
    assert_int_equal(w.own->status, FL_VERDICT_HEALTHY); /* untouched */
    h_settle();
    assert_true(fl_prober_look(h.control->prober, "b", origin[2].text, &w));
    assert_int_equal(w.own->status, FL_VERDICT_UNREACHABLE);
    assert_true(w.own->fingerprint != old);
}

static void names_become_peers(void **state)
{
    (void)state;
    (void)snprintf(yaml, sizeof(yaml),
                   "boot_probe: enforce\nlog_level: error\n"
                   "backends: {a: {protocol: http, peers: [{address: \"store.example:9000\", "
                   "weight: 7}], probe: {type: tcp}}}\n"
                   "routes: {\"*\": {backend: a}}\n");
    h_start(yaml);
    h_turn_ms(30);
    assert_int_equal(question_count, 1);
    assert_int_equal(h.booted, -1); /* waits for the name */
    assert_string_equal(h_look("/_/ready", "backends.a"), "unknown");
    answer(0, EAI_NONAME, NULL, 0);
    h_turn_ms(30);
    assert_int_equal(h.booted, 0);
    assert_string_equal(h_look("/_/ready", "backends.a"), "unreachable");
    assert_string_equal(h_look("/_/api/admin/backends", "backends.0.verdict.code"), "dns_failure");
    assert_string_equal(h_look("/_/api/admin/backends", "backends.0.peers.0.state"), "unresolved");
    const struct fl_addr addrs[] = {origin[0].at, origin[1].at};
    answer(0, 0, addrs, 2);
    h_settle();
    assert_int_equal(h.control->current->backends[0].peer_count, 2);
    assert_string_equal(h_look("/_/api/admin/backends", "backends.0.peers.1.address"),
                        origin[1].text);
    assert_string_equal(h_look("/_/api/admin/backends", "backends.0.peers.1.weight"), "7");
    assert_string_equal(h_look("/_/ready", "backends.a"), "healthy");
    const struct fl_peer *stays = h.control->current->backends[0].peers[1].peer;
    uint64_t generation = h.control->membership_generation;
    answer(0, 0, addrs + 1, 1);
    h_turn_ms(30);
    assert_int_equal(h.control->current->backends[0].peer_count, 1);
    assert_ptr_equal(h.control->current->backends[0].peers[0].peer,
                     stays); /* its health lives on */
    assert_int_equal(h.control->membership_generation, generation + 1);
    assert_int_equal(h_get("/_/api/admin/config"),
                     200); /* shows the name, not what it stands for */
    assert_non_null(strstr(h_answer, "store.example:9000"));
    assert_null(strstr(h_answer, origin[1].text));
}

static void reload_is_all_or_nothing(void **state)
{
    (void)state;
    h_start(config_with(""));
    h_settle();
    const struct fl_snapshot *before = h.control->current;
    struct fl_config *bad = h_config(config_with("")); /* turned bad after its own check */
    bad->routes[0].backend = "nobody";
    (void)h_apply(bad, false);
    assert_int_equal(h_applied.end, FL_APPLY_INVALID);
    h_turn_ms(20);
    assert_ptr_equal(h.control->current, before);
    assert_string_equal(h_look("/_/api/admin/events", "events.0.kind"), "config_refused");
    (void)h_apply(h_config(config_with("slow_request: 9s\n")), false);
    assert_int_equal(h_applied.end, FL_APPLY_DONE); /* at once: no definition has changed */
    assert_true(h_applied.changed);
    assert_ptr_not_equal(h.control->current, before);
    assert_int_equal(h.control->current->config->slow_request_ms, 9000);
}

static void drained_peers(void **state)
{
    (void)state;
    char target[256];
    h_start(config_with(""));
    h_settle();
    (void)snprintf(target, sizeof(target), "/_/api/admin/backends/a/peers/%s/drain",
                   origin[0].text);
    assert_int_equal(h_get(target), 405);
    assert_int_equal(h_request(&h.admin_at, "POST", target, "", "", 0), 415);
    assert_int_equal(h_post(target), 200);
    struct json_object *o = h_json();
    assert_string_equal(h_at(o, "peers.0.state"), "drained");
    assert_string_equal(h_at(o, "on_backup"), "true");
    json_object_put(o);
    assert_true(atomic_load(&h.control->current->backends[0].peers[0].peer->drained));
    (void)snprintf(target, sizeof(target), "/_/api/admin/backends/a/peers/%s/undrain",
                   origin[0].text);
    assert_int_equal(h_post(target), 200);
    assert_false(atomic_load(&h.control->current->backends[0].peers[0].peer->drained));
    assert_int_equal(h_post("/_/api/admin/backends/a/peers/10.0.0.1:1/drain"), 404);
    assert_int_equal(h_post("/_/api/admin/backends/zz/peers/10.0.0.1:1/drain"), 404);
    assert_int_equal(h_post("/_/api/admin/backends/zz/probe"), 404);
    assert_int_equal(h_get("/_/api/admin/backends/a/probe"), 405);
    assert_non_null(strstr(h_answer, "Allow: POST\r\n"));
}

static void readiness(void **state)
{
    (void)state;
    h_start(config_with(""));
    h_settle();
    assert_int_equal(h_request(&h.status_at, "GET", "/_/ready", "", NULL, 0), 200);
    assert_string_equal(
        h_body(), "{\"status\":\"ready\",\"backend\":\"ready\",\"config\":\"ready\",\"membership\":"
                  "\"ready\",\"backends\":{\"a\":\"healthy\",\"b\":\"healthy\"}}\n");
    assert_int_equal(h_request(&h.status_at, "HEAD", "/_/ready", "", NULL, 0), 200);
    assert_string_equal(h_body(), "");
    assert_int_equal(h_request(&h.status_at, "GET", "/_/live", "", NULL, 0), 200);
    assert_int_equal(h_request(&h.status_at, "GET", "/_/started", "", NULL, 0), 200);
    assert_int_equal(h_request(&h.status_at, "GET", "/_/api/admin/backends", "", NULL, 0),
                     404); /* admin only */
    fl_control_drain(h.control);
    assert_int_equal(h_request(&h.status_at, "GET", "/_/ready", "", NULL, 0), 503);
    assert_non_null(strstr(h_answer, "\"status\":\"draining\""));
}

static void explain(void **state)
{
    (void)state;
    h_start(config_with(""));
    h_settle();
    assert_string_equal(h_look("/_/api/admin/explain?method=PUT&target=/one/k", "replay_class"),
                        "I");
    assert_string_equal(
        h_look("/_/api/admin/explain?method=PUT&target=/one/k&header=If-Match:x", "replay_class"),
        "C");
    assert_string_equal(h_look("/_/api/admin/explain?target=/one/k", "backend"), "a");
    assert_string_equal(h_look("/_/api/admin/explain?target=/one/k", "peers.1.tier"), "backup");
    assert_string_equal(h_look("/_/api/admin/explain?target=/one/x/k", "backend"), "b");
    assert_string_equal(h_look("/_/api/admin/explain?target=/three/k", "answer"), "no_route");
    assert_string_equal(h_look("/_/api/admin/explain?target=/_/ready", "answer"), "not_found");
    assert_string_equal(h_look("/_/api/admin/explain?target=no-slash", "answer"), "bad_request");
    assert_string_equal(h_look("/_/api/admin/explain?target=/one%20x", "answer"), "bad_request");
    assert_int_equal(h_get("/_/api/admin/explain"), 400);
    assert_int_equal(h_get("/_/api/admin/explain?target=/one/k&header=A:b%0d%0aC:d"), 400);
    close_origin(2);
    assert_int_equal(h_post("/_/api/admin/backends/b/probe"), 200);
    assert_string_equal(h_look("/_/api/admin/explain?target=/two/k", "answer"),
                        "backend_unavailable");
    assert_string_equal(h_look("/_/api/admin/explain?target=/two/k", "peers.0.why"), "verdict");
    assert_string_equal(h_look("/_/api/admin/routes", "routes.0.paths.0.backend"), "b");
    assert_int_equal(h_get("/_/api/admin/tap"), 503);
}

/* Every line is a comment of a known form or `name{labels} value`, and every family is declared
 * before it is used. */
static void metrics_are_well_formed(void **state)
{
    (void)state;
    h_start(config_with(""));
    h_settle();
    assert_int_equal(h_request(&h.status_at, "GET", "/_/metrics", "", NULL, 0), 200);
    assert_non_null(strstr(h_answer, "Content-Type: text/plain; version=0.0.4"));
    char *save = NULL, *text = strdup(h_body()), family[96] = "";
    assert_non_null(text);
    unsigned samples = 0;
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "# HELP fairlead_", 16) == 0) {
            continue;
        }
        if (strncmp(line, "# TYPE ", 7) == 0) {
            assert_int_equal(sscanf(line, "# TYPE %95s", family), 1);
            continue;
        }
        assert_int_equal(strncmp(line, family, strlen(family)), 0);
        char *value = strrchr(line, ' '), *end;
        assert_non_null(value);
        (void)strtod(value + 1, &end);
        assert_true(end != value + 1 && *end == '\0');
        assert_true(value[-1] == '}' || strchr(line, '{') == NULL);
        samples++;
    }
    free(text);
    assert_true(samples > 50);
    static const char *const wanted[] = {
        "fairlead_backend_up{backend=\"a\"} 1\n",
        "fairlead_backend_state{backend=\"b\",state=\"healthy\"} 1\n",
        "fairlead_request_duration_seconds_bucket{route=\"one /x/\",le=\"0.005\"} 0\n",
        "fairlead_request_duration_seconds_bucket{route=\"-\",le=\"2.5\"} 0\n",
        "fairlead_request_duration_seconds_bucket{route=\"-\",le=\"60\"} 0\n",
        "fairlead_request_duration_seconds_bucket{route=\"-\",le=\"+Inf\"} 0\n",
        "fairlead_probes_total{backend=\"a\",result=\"healthy\"} 2\n",
        "fairlead_membership_age_seconds 0.000\n",
        "fairlead_build_info{version=\"" FL_VERSION "\"} 1\n",
    };
    for (size_t i = 0; i < FL_COUNTOF(wanted); i++) {
        if (strstr(h_answer, wanted[i]) == NULL) {
            print_error("missing: %s", wanted[i]);
        }
        assert_non_null(strstr(h_answer, wanted[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(boot_gate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(verdicts_change_and_are_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(data_threads_ask_for_probes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_changed_definition_is_probed_afresh, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_become_peers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reload_is_all_or_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(drained_peers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(readiness, set_up, tear_down),
        cmocka_unit_test_setup_teardown(explain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(metrics_are_well_formed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
