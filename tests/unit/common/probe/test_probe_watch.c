#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/probe/probe_watch.h"
#include "tests/unit/common/probe/peer_kit.h"

static struct fl_probe_watches all;
static unsigned done_count, next_count;
static struct fl_probe_watch *last;

static void done(void *arg, const struct fl_verdict *v, bool answered)
{
    (void)answered;
    last = arg;
    fl_probe_watch_count(last, v->status);
    done_count++;
}

static void next(struct fl_timer *t)
{
    assert_true(fl_probe_watch_begin(fl_container_of(t, struct fl_probe_watch, next)));
    next_count++;
}

static int begin(void **state)
{
    (void)state;
    done_count = next_count = 0;
    if (fl_reactor_new(&reactor) < 0) {
        return -1;
    }
    peer_listen(8);
    fl_probe_watches_init(&all, reactor, 7);
    return 0;
}

static int end(void **state)
{
    (void)state;
    assert_null(fl_list_first(&all.list));
    fl_probe_watches_done(&all);
    fl_reactor_turn(reactor, 0);
    reactor = fl_reactor_free(reactor);
    peer_close();
    return 0;
}

static struct fl_probe_target tcp_target(void)
{
    return (struct fl_probe_target){
        .addr = peer.at, .type = FL_PROBE_TCP, .timeout_ms = 1000, .fingerprint = 42};
}

static void open_watch(struct fl_probe_watch *w, const char *backend, const char *address)
{
    struct fl_probe_target t = tcp_target();
    assert_int_equal(fl_probe_watch_open(w, &all, backend, address, done, next), 0);
    assert_int_equal(fl_probe_watch_define(w, &t), 1);
}

static void each_is_found_by_backend_and_address(void **state)
{
    (void)state;
    struct fl_probe_watch a, b, c;
    open_watch(&a, "s", "10.0.0.1:1");
    open_watch(&b, "s", "10.0.0.1:11");
    open_watch(&c, "s1", "10.0.0.1:1");
    assert_ptr_equal(fl_probe_watches_find(&all, "s", "10.0.0.1:1"), &a);
    assert_ptr_equal(fl_probe_watches_find(&all, "s", "10.0.0.1:11"), &b);
    assert_ptr_equal(fl_probe_watches_find(&all, "s1", "10.0.0.1:1"), &c);
    assert_null(fl_probe_watches_find(&all, "s1", "10.0.0.1:11"));
    assert_string_equal(c.backend, "s1");
    assert_string_equal(c.address, "10.0.0.1:1");
    assert_string_equal(c.key, "s1\n10.0.0.1:1");
    a.wanted = b.wanted = true;
    fl_probe_watches_unwant(&all);
    assert_false(a.wanted || b.wanted || c.wanted);
    fl_probe_watch_close(&b);
    assert_null(fl_probe_watches_find(&all, "s", "10.0.0.1:11"));
    assert_ptr_equal(fl_probe_watches_find(&all, "s", "10.0.0.1:1"), &a);
    fl_probe_watch_close(&a);
    fl_probe_watch_close(&c);
}

/* One that is refused leaves the other in its place. */
static void nobody_is_watched_twice(void **state)
{
    (void)state;
    static char long_name[1100];
    struct fl_probe_watch a, other = {.unhealthy = 3};
    memset(long_name, 'x', sizeof(long_name) - 1);
    open_watch(&a, "s", "10.0.0.1:1");
    assert_int_equal(fl_probe_watch_open(&other, &all, "s", "10.0.0.1:1", done, next), -ENOMEM);
    assert_int_equal(fl_probe_watch_open(&other, &all, "s", long_name, done, next), -ENOMEM);
    assert_int_equal(other.unhealthy, 3);
    assert_ptr_equal(fl_probe_watches_find(&all, "s", "10.0.0.1:1"), &a);
    assert_null(fl_probe_watches_find(&all, "s", long_name));
    fl_probe_watch_close(&a);
}

static void a_definition_is_another_by_its_fingerprint(void **state)
{
    (void)state;
    struct fl_probe_watch w;
    open_watch(&w, "s", peer.text);
    struct fl_probe_target t = tcp_target();
    assert_int_equal(fl_probe_watch_define(&w, &t), 0);
    t.bucket = "routed";
    assert_int_equal(fl_probe_watch_define(&w, &t), 0);
    assert_string_equal(w.target->bucket, "routed"); /* taken over all the same */
    t.fingerprint = 43;
    assert_int_equal(fl_probe_watch_define(&w, &t), 1);
    assert_int_equal(w.target->fingerprint, 43);
    fl_probe_watch_close(&w);
}

static void one_probe_at_a_time_and_a_ticket_waits_for_its_round(void **state)
{
    (void)state;
    struct fl_probe_watch a, b;
    open_watch(&a, "s", peer.text);
    open_watch(&b, "t", peer.text);
    fl_timer_set(reactor, &a.next, fl_reactor_now_ms(reactor) + 50);
    assert_true(fl_probe_watch_begin(&a));
    assert_true(a.next.at_ms == INT64_MAX);
    assert_false(fl_probe_watch_begin(&a));
    uint64_t ticket = all.round;
    assert_int_equal(a.round, ticket);
    assert_true(fl_probe_watches_asked(&all, "s", ticket));
    assert_false(fl_probe_watches_asked(&all, "s", ticket - 1)); /* began after that */
    assert_false(fl_probe_watches_asked(&all, "t", ticket));
    turn_until(&done_count, 1);
    assert_ptr_equal(last, &a);
    assert_false(fl_probe_watches_asked(&all, "s", ticket));
    assert_true(fl_probe_watch_begin(&a)); /* a later one is nothing to that ticket */
    assert_false(fl_probe_watches_asked(&all, "s", ticket));
    turn_until(&done_count, 2);
    assert_int_equal(next_count, 0);
    fl_timer_set(reactor, &b.next, fl_reactor_now_ms(reactor) + 10);
    turn_until(&done_count, 3);
    assert_int_equal(next_count, 1);
    assert_ptr_equal(last, &b);
    fl_probe_watch_close(&a);
    fl_probe_watch_close(&b);
}

static void a_closed_one_is_heard_of_no_more(void **state)
{
    (void)state;
    struct fl_probe_watch a, b;
    open_watch(&a, "s", peer.text);
    open_watch(&b, "s", "10.0.0.1:1");
    fl_timer_set(reactor, &b.next, fl_reactor_now_ms(reactor) + 10);
    assert_true(fl_probe_watch_begin(&a));
    fl_probe_watch_close(&a);
    fl_probe_watch_close(&b);
    turn_ms(60);
    assert_int_equal(done_count, 0);
    assert_int_equal(next_count, 0);
}

static void counts_outlive_their_watches(void **state)
{
    (void)state;
    struct fl_probe_watch a;
    uint64_t by_status[5];
    assert_false(fl_probe_watches_counts(&all, "s", by_status));
    for (unsigned i = 1; i <= 2; i++) {
        open_watch(&a, "s", peer.text);
        fl_probe_watch_count(&a, FL_VERDICT_ERRORING);
        fl_probe_watch_count(&a, FL_VERDICT_UNKNOWN);
        assert_int_equal(a.unhealthy, 2);
        fl_probe_watch_count(&a, FL_VERDICT_HEALTHY);
        assert_int_equal(a.unhealthy, 0);
        fl_probe_watch_close(&a);
        assert_true(fl_probe_watches_counts(&all, "s", by_status));
        assert_int_equal(by_status[FL_VERDICT_ERRORING], i);
        assert_int_equal(by_status[FL_VERDICT_UNKNOWN], i);
        assert_int_equal(by_status[FL_VERDICT_HEALTHY], i);
        assert_int_equal(by_status[FL_VERDICT_UNREACHABLE], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_is_found_by_backend_and_address, begin, end),
        cmocka_unit_test_setup_teardown(nobody_is_watched_twice, begin, end),
        cmocka_unit_test_setup_teardown(a_definition_is_another_by_its_fingerprint, begin, end),
        cmocka_unit_test_setup_teardown(one_probe_at_a_time_and_a_ticket_waits_for_its_round, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_closed_one_is_heard_of_no_more, begin, end),
        cmocka_unit_test_setup_teardown(counts_outlive_their_watches, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
