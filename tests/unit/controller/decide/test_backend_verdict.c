#include "controller/decide/backend_verdict.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <string.h>

static struct fl_verdict_table table;
static struct fl_peer_conf peers[3];
static struct fl_state_backend backend;

static int start(void **state)
{
    (void)state;
    fl_verdict_table_init(&table, 3);
    memset(peers, 0, sizeof(peers));
    peers[0].address = "10.0.0.1:9000";
    peers[1].address = "10.0.0.2:9000";
    peers[2].address = "10.0.0.3:9000";
    backend = (struct fl_state_backend){.name = "minio"};
    backend.conf.peers = peers;
    backend.conf.peer_count = 2;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    fl_verdict_table_done(&table);
    return 0;
}

static void found(unsigned i, enum fl_verdict_status status)
{
    struct fl_verdict v = {.status = status, .at_ms = 10};
    assert_int_equal(fl_verdict_table_set(&table, "minio", peers[i].address, &v), 0);
}

static enum fl_verdict_status derived(void)
{
    struct fl_derived d;
    fl_backend_verdict(&table, backend.name, &backend, &d);
    return d.verdict.status;
}

static void it_is_down_only_when_every_peer_is_known_to_be(void **state)
{
    (void)state;
    assert_int_equal(derived(), FL_VERDICT_UNKNOWN);
    found(0, FL_VERDICT_UNREACHABLE);
    assert_int_equal(derived(), FL_VERDICT_UNKNOWN);
    found(1, FL_VERDICT_UNREACHABLE);
    assert_int_equal(derived(), FL_VERDICT_UNREACHABLE);
    backend.conf.peer_count = 3;
    assert_int_equal(derived(), FL_VERDICT_UNKNOWN);
    peers[2].down = true;
    assert_int_equal(derived(), FL_VERDICT_UNREACHABLE);
    found(1, FL_VERDICT_HEALTHY);
    assert_int_equal(derived(), FL_VERDICT_HEALTHY);
    backend.conf.peer_count = 0;
    assert_int_equal(derived(), FL_VERDICT_UNKNOWN);
}

static void the_other_view_is_said_only_when_there_are_two(void **state)
{
    (void)state;
    char text[96];
    struct fl_verdict down = {.status = FL_VERDICT_UNREACHABLE},
                      up = {.status = FL_VERDICT_HEALTHY}, unknown = {0};
    fl_backend_verdict_other_view(NULL, 3, 3, text);
    assert_string_equal(text, "");
    fl_backend_verdict_other_view(&unknown, 3, 3, text);
    assert_string_equal(text, "");
    fl_backend_verdict_other_view(&down, 0, 5, text);
    assert_string_equal(text, "");
    fl_backend_verdict_other_view(&up, 5, 0, text);
    assert_string_equal(text, "");
    fl_backend_verdict_other_view(&down, 2, 5, text);
    assert_string_equal(text, "unreachable from the controller, reachable from 2 of 7 pods");
    fl_backend_verdict_other_view(&up, UINT32_MAX / 2, UINT32_MAX / 2, text);
    assert_string_equal(
        text, "reachable from the controller, failing from 2147483647 of 4294967294 pods");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_down_only_when_every_peer_is_known_to_be, start,
                                        stop),
        cmocka_unit_test_setup_teardown(the_other_view_is_said_only_when_there_are_two, start,
                                        stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
