/* Applying a configuration: judged, asked, in force or not; and what may happen in between. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include "tests/unit/sidecar/admin/harness.h"

#include "common/codec/state_json.h"

static struct {
    int fd;
    struct fl_addr at;
    char text[FL_ADDR_TEXT_MAX];
} origin[3]; /* accept into their queue: enough for tcp probes */
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

static int set_up(void **state)
{
    (void)state;
    for (unsigned i = 0; i < FL_COUNTOF(origin); i++) {
        open_origin(i);
    }
    h_applied.end = -1;
    return 0;
}

static int tear_down(void **state)
{
    h_tear_down(state);
    for (unsigned i = 0; i < FL_COUNTOF(origin); i++) {
        close_origin(i);
    }
    return 0;
}

/* One backend `a` at one address; `more` are further lines of the top level. */
static struct fl_config *with_peer(const char *address, const char *more)
{
    (void)snprintf(yaml, sizeof(yaml),
                   "boot_probe: warn\nlog_level: error\n%s"
                   "backends:\n  a: {protocol: http, peers: [{address: \"%s\"}], "
                   "probe: {type: tcp, timeout: 1s}}\n"
                   "routes: {one: {backend: a}}\n",
                   more, address);
    return h_config(yaml);
}

static void start(void)
{
    fl_config_free(with_peer(origin[0].text, ""));
    h_start(yaml);
    h_settle();
}

static const char *peer_now(void)
{
    return h.control->current->backends[0].peers[0].peer->address;
}

static void wait_for_the_end(void)
{
    for (int i = 0; i < 400 && h_applied.end == -1; i++) {
        h_turn_ms(5);
    }
}

static void nobody_is_asked_about_what_is_no_definition(void **state)
{
    (void)state;
    start();
    assert_int_equal(h_apply(with_peer(origin[0].text, "slow_request: 9s\n"), false), 0);
    assert_int_equal(h_applied.end, FL_APPLY_DONE); /* before any turn */
    assert_true(h_applied.changed);
    assert_int_equal(h_apply(with_peer(origin[0].text, "slow_request: 9s\n"), false), 0);
    assert_int_equal(h_applied.end, FL_APPLY_DONE);
    assert_false(h_applied.changed);
}

static void a_peer_that_answers_is_in_force_then(void **state)
{
    (void)state;
    start();
    uint64_t before[5], after[5];
    assert_true(fl_prober_counts(h.control->prober, "a", before));
    assert_int_equal(h_apply(with_peer(origin[1].text, ""), false), 0);
    assert_int_equal(h_applied.end, -1); /* it is asked first */
    assert_string_equal(peer_now(), origin[0].text);
    wait_for_the_end();
    assert_int_equal(h_applied.end, FL_APPLY_DONE);
    assert_string_equal(peer_now(), origin[1].text);
    assert_null(h.control->apply);
    h_settle();
    assert_true(fl_prober_counts(h.control->prober, "a", after));
    assert_int_equal(after[FL_VERDICT_HEALTHY], before[FL_VERDICT_HEALTHY] + 1);
}

static void a_peer_that_refuses_changes_nothing(void **state)
{
    (void)state;
    start();
    const struct fl_snapshot *snapshot = h.control->current;
    const struct fl_config *file = h.control->file;
    uint64_t before[5], after[5], version = h.control->health_version;
    assert_true(fl_prober_counts(h.control->prober, "a", before));
    close_origin(1);
    assert_int_equal(h_apply(with_peer(origin[1].text, ""), false), 0);
    wait_for_the_end();
    assert_int_equal(h_applied.end, FL_APPLY_UNFIT);
    char want[640];
    (void)snprintf(want, sizeof(want),
                   "config refused: backend 'a' failed its connection probe — connect to %s failed "
                   "(Connection refused). Fix the address, or start the backend, and re-apply "
                   "(nothing was changed)",
                   origin[1].text);
    assert_string_equal(h_applied.text, want);
    h_turn_ms(30);
    assert_ptr_equal(h.control->current, snapshot);
    assert_ptr_equal(h.control->file, file);
    assert_int_equal(h.control->health_version, version);
    assert_true(fl_prober_counts(h.control->prober, "a", after));
    assert_memory_equal(before, after, sizeof(before));
    struct fl_watch_view w;
    assert_false(fl_prober_look(h.control->prober, "a", origin[1].text, &w));
}

static void one_at_a_time_but_a_file_takes_the_place_of_a_file(void **state)
{
    (void)state;
    start();
    assert_int_equal(h_apply(with_peer(origin[1].text, ""), false), 0);
    int first = h_applied.end;
    assert_int_equal(first, -1);
    assert_int_equal(h_apply(with_peer(origin[2].text, ""), false), -EBUSY);
    struct fl_findings f;
    fl_findings_init(&f, "file.yaml");
    struct fl_apply_order o = {
        .fresh = with_peer(origin[2].text, ""), .findings = &f, .source = FL_APPLY_FROM_FILE};
    assert_int_equal(fl_apply(h.control, &o), -EBUSY);
    fl_config_free(o.fresh);
    fl_findings_done(&f);
    wait_for_the_end();
    assert_int_equal(h_applied.end, FL_APPLY_DONE);
    assert_string_equal(peer_now(), origin[1].text);
    for (unsigned i = 0; i < 3; i++) { /* 0, 1, 2: only the last one counts */
        fl_findings_init(&f, "file.yaml");
        o.fresh = with_peer(origin[(i + 2) % 3].text, "");
        assert_int_equal(fl_apply(h.control, &o), 0);
        fl_findings_done(&f);
    }
    h_turn_ms(80);
    assert_null(h.control->apply);
    assert_string_equal(peer_now(), origin[1].text);
}

/* What was pushed while the backends were asked counts: the name is the controller's by then. */
static void a_push_in_between_is_judged(void **state)
{
    (void)state;
    start();
    assert_int_equal(h_apply(with_peer(origin[1].text, ""), false), 0);
    assert_int_equal(h_applied.end, -1);
    char json[512];
    (void)snprintf(
        json, sizeof(json),
        "{\"epoch\":1,\"seq\":1,\"routes\":{},\"backends\":{\"a\":{\"protocol\":\"http\","
        "\"max_fails\":3,\"probe\":{\"type\":\"none\"},\"peers\":[{\"address\":\"%s\"}]}}}",
        origin[2].text);
    struct fl_findings f;
    fl_findings_init(&f, "");
    h.control->pushed = fl_state_json_decode(fl_span_of(json), &f);
    assert_non_null(h.control->pushed);
    fl_findings_done(&f);
    fl_control_rebuild(h.control);
    assert_string_equal(peer_now(), origin[2].text);
    wait_for_the_end();
    assert_int_equal(h_applied.end, FL_APPLY_OWNED);
    assert_non_null(strstr(h_applied.text, "controller"));
    assert_string_equal(peer_now(), origin[2].text);
}

static void force_and_boot_probe_off_ask_nobody(void **state)
{
    (void)state;
    start();
    close_origin(1);
    assert_int_equal(h_apply(with_peer(origin[1].text, ""), true), 0);
    assert_int_equal(h_applied.end, FL_APPLY_DONE);
    struct fl_config *off = with_peer(origin[2].text, "");
    off->boot_probe = FL_BOOT_OFF;
    close_origin(2);
    assert_int_equal(h_apply(off, false), 0);
    assert_int_equal(h_applied.end, FL_APPLY_DONE);
    assert_string_equal(peer_now(), origin[2].text);
}

static void what_is_taken_at_the_start_stays(void **state)
{
    (void)state;
    start();
    struct fl_config *fresh = with_peer(origin[0].text, "threads: 4\nmax_connections: 9\n"
                                                        "slow_request: 9s\nid: x\n");
    assert_int_equal(h_apply(fresh, false), 0);
    assert_int_equal(h_applied.end, FL_APPLY_DONE);
    assert_string_equal(h_applied.text, "threads: is taken at the start: restart to change it");
    assert_int_equal(h.control->file->threads, 0);
    assert_int_equal(h.control->file->max_connections, 4096);
    assert_string_equal(h.control->file->id, "");
    assert_int_equal(h.control->current->config->slow_request_ms, 9000);
}

static void the_process_may_end_while_it_asks(void **state)
{
    (void)state;
    start();
    fl_config_free(with_peer(origin[1].text, ""));
    char *type = strstr(yaml, "type: tcp, ");
    assert_non_null(type);
    memcpy(type, "type: http,", 11); /* which gets no answer */
    assert_int_equal(h_apply(h_config(yaml), false), 0);
    h_turn_ms(40);
    assert_int_equal(h_applied.end, -1);
    h_stop();
    assert_int_equal(h_applied.end, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nobody_is_asked_about_what_is_no_definition, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_peer_that_answers_is_in_force_then, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_peer_that_refuses_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_at_a_time_but_a_file_takes_the_place_of_a_file, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_push_in_between_is_judged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(force_and_boot_probe_off_ask_nobody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_taken_at_the_start_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_process_may_end_while_it_asks, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
