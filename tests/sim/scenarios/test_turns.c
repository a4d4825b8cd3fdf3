/* A turn reads first, then thinks, then sends: what befalls an exchange between two of these, and
 * that nobody waits for longer than a turn. Turns last long here, so that much comes in one. */
#include "sidecar/policy/peer.h"
#include "sidecar/proxy/engine_state.h"
#include "tests/sim/scenarios/kit.h"

enum { CROWD = 60, FLOOD = 2000 };

static const char options[] = "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n";

static struct bed *single(uint64_t seed, const char *yaml)
{
    struct bed *b = bed_new(seed, 1, yaml);
    origin_new(b, 0);
    return b;
}

static struct deal *asks_options(struct bed *b)
{
    struct deal *d = deal_new(b, "OPTIONS", "*");
    d->raw = options;
    return d;
}

/* A client that has put thousands of requests into its socket, all with an answer of our own, and
 * one with a single request: that one has its answer within a few turns. */
static void test_flood_is_fair(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct bed *b = single(1, KIT_S3("", KIT_ONE, ""));
        struct user_script floods = {.pipelines = true, .path = sim_path_default()};
        static struct deal *deals[2 * FLOOD];
        floods.path.recv_bytes = floods.path.send_bytes = 1 << 20;
        for (unsigned k = 0; k < 2 * FLOOD; k++) {
            deals[k] = asks_options(b);
        }
        sim_set_turn_us(b->world, 1000);
        struct user *one = user_dial(b, &floods, deals, FLOOD);
        struct user *two = user_dial(b, &floods, deals + FLOOD, FLOOD);
        bed_run_for(b, 100);
        struct deal *d = i == 0 ? kit_get(b) : kit_put(b, 30000);
        user_ask(b, d);
        bed_run_for(b, 60);
        kit_answered(d, 200, "");
        assert_true(one->answered > 0 && two->answered > 0);
        assert_true(one->answered < FLOOD && two->answered < FLOOD); /* they still have plenty */
        bed_run(b);
        assert_int_equal(one->answered + two->answered, 2 * FLOOD);
        bed_end(b);
    }
}

/* A client that fills its socket faster than we take it, with a body for the backend. */
static void test_endless_writer_is_fair(void **state)
{
    (void)state;
    struct bed *b = single(2, KIT_S3("", KIT_ONE, ""));
    struct deal *large = kit_put(b, 40000000), *d = kit_get(b);
    large->body = DEAL_CHUNKED;
    user_ask(b, large);
    sim_set_turn_us(b->world, 1000);
    bed_run_for(b, 100);
    user_ask(b, d);
    bed_run_for(b, 60);
    kit_answered(d, 200, "");
    assert_int_equal(large->end, DEAL_OPEN);
    bed_run(b);
    kit_answered(large, 200, "");
    bed_end(b);
}

/* The kept connection ends at every millisecond around the one in which a request would take it.
 * Where the end has come it is seen, also behind the request's event of the same turn; nothing has
 * been sent then, so also a request that may not be repeated goes elsewhere. Left are the two that
 * cross the end on their way. */
static unsigned lost_requests(enum origin_fault fault, bool retried)
{
    unsigned lost = 0, second_tries = 0;
    for (unsigned i = 0; i < 80; i++) {
        struct bed *b = single(3, KIT_S3(", max_fails: 0", KIT_TWO, ""));
        struct origin *other = origin_new(b, 1);
        struct sim_path near = sim_path_default(), far = near;
        struct user_script late = {.send_bytes = 120, .send_ms = 100, .path = near};
        near.latency_us = 1000;
        far.latency_us = late.path.latency_us = 5000;
        origin_path(b->origins[0], &far);
        origin_path(other, &near);
        origin_stop(b->origins[0]);
        if (!retried) {
            atomic_store(&bed_peer(b, b->origins[0]->address)->drained, true);
        }
        other->fault = fault;
        other->fault_at = 80 + i;
        other->fault_times = 1;
        sim_set_turn_us(b->world, 0); /* what comes in one millisecond comes in one turn */
        struct deal *warm = kit_get(b), *d = kit_post(b);
        user_ask(b, warm);
        bed_run_for(b, 20);
        kit_answered(warm, 200, "");
        user_dial(b, &late, &d, 1);
        bed_run(b);
        assert_int_equal(d->end, DEAL_ANSWERED);
        lost += d->status != 200;
        second_tries += d->log_tries > 1;
        bed_end(b);
    }
    assert_true(second_tries > 40 || !retried);
    return lost;
}

static void test_kept_connection_ends_in_the_turn(void **state)
{
    (void)state;
    assert_int_equal(lost_requests(ORIGIN_FIN_IDLE, false), 2);
    assert_int_equal(lost_requests(ORIGIN_RST_IDLE, false), 2);
}

/* The same where it is taken for a second try, while events are still being handed out. */
static void test_kept_connection_ends_in_the_turn_of_a_retry(void **state)
{
    (void)state;
    assert_int_equal(lost_requests(ORIGIN_FIN_IDLE, true), 2);
    assert_int_equal(lost_requests(ORIGIN_RST_IDLE, true), 2);
}

/* A thread that did not run for longer than head_timeout: the requests that are here, and wait for
 * its next turn, have come in time. */
static void test_stopped_thread_keeps_what_has_come(void **state)
{
    (void)state;
    struct bed *b = single(5, KIT_S3("", KIT_ONE, ""));
    struct user_script at_once = {.pipelines = true};
    struct deal *deals[6];
    for (unsigned i = 0; i < 6; i++) {
        deals[i] = asks_options(b);
    }
    sim_set_turn_us(b->world, 15000000);
    user_dial(b, &at_once, deals, 6);
    sim_run_for(b->world, 150000);
    sim_set_turn_us(b->world, 10);
    bed_run(b);
    for (unsigned i = 0; i < 6; i++) {
        kit_answered(deals[i], 200, "");
    }
    bed_end(b);
}

/* SIGTERM while an answer flows that has promised to keep the connection: the client is closed
 * afterwards, also when its socket was not known to be empty (a body was read to its end). */
static void test_drain_during_an_answer(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct bed *b = single(6, KIT_S3("", KIT_ONE, ""));
        struct user_script stays = {.leaves = USER_LINGERS};
        struct deal *d = i == 0 ? kit_get(b) : kit_put(b, 50000);
        d->body = i == 2 ? DEAL_CHUNKED : d->body;
        kit_plan(d, (struct plan){.body_bytes = 30000, .piece_bytes = 20000, .piece_ms = 1000});
        struct user *u = user_dial(b, &stays, &d, 1);
        bed_run_for(b, 500);
        assert_int_equal(d->end, DEAL_OPEN);
        fl_engine_drain(b->engine);
        bed_run(b);
        kit_answered(d, 200, "");
        assert_in_range(u->closed_ms - d->answered_ms, 0, 1100);
        bed_end(b);
    }
}

/* Our own answer meets a socket without room at its first byte: the client has its write_timeout
 * from then on. */
static void test_own_answer_without_room(void **state)
{
    (void)state;
    struct bed *b = single(7, KIT_S3("", KIT_ONE, ""));
    struct deal *d = asks_options(b);
    b->impatient = true;
    sim_fault(b->world, SIM_CALL_SEND, EAGAIN, 0, 1);
    struct user *u = user_ask(b, d);
    bed_run(b);
    assert_in_range(u->closed_ms - u->dialled_ms, 59000, 61000);
    bed_end(b);
}

/* Hundreds at once with an answer of our own, and memory for a few: each answer gives back what it
 * took before the next one needs it. */
static void test_crowd_of_own_answers_in_little_memory(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct bed *b = bed_new(8, 1, KIT("buffer_memory: 256KiB", "s3", "", KIT_ONE, ""));
        struct deal *deals[CROWD * 2];
        b->memory_short = true;
        sim_set_turn_us(b->world, 50000);
        for (unsigned k = 0; k < CROWD * 2; k++) {
            deals[k] = deal_new(b, "GET", "/_/ready");
            user_ask(b, deals[k]);
        }
        bed_run(b);
        for (unsigned k = 0; k < CROWD * 2; k++) {
            kit_answered(deals[k], 404, "not_found");
        }
        bed_end(b);
    }
}

/* As many answers of a backend, whose heads are rewritten: a buffer more. */
static void test_crowd_of_answers_in_little_memory(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct bed *b = single(9, KIT("buffer_memory: 256KiB", "s3", "", KIT_ONE, ""));
        struct deal *deals[CROWD];
        b->memory_short = true;
        sim_set_turn_us(b->world, 50000);
        for (unsigned k = 0; k < CROWD; k++) {
            deals[k] = kit_get(b);
            kit_plan(deals[k], (struct plan){.http10 = true, .body_bytes = 1000});
            user_ask(b, deals[k]);
        }
        bed_run(b);
        for (unsigned k = 0; k < CROWD; k++) {
            kit_answered(deals[k], 200, "");
        }
        bed_end(b);
    }
}

/* No buffer for an answer of our own: the connection ends, instead of waiting for an answer that
 * never comes. */
static void test_options_without_memory(void **state)
{
    (void)state;
    struct bed *b = single(10, KIT_S3("", KIT_ONE, ""));
    struct user_script late = {.send_bytes = 20, .send_ms = 2000, .leaves = USER_LINGERS};
    struct fl_buffers *pool = &b->engine->workers[0].buffers;
    struct deal *d = asks_options(b);
    b->memory_short = true;
    struct user *u = user_dial(b, &late, &d, 1);
    bed_run_for(b, 100);
    uint64_t limit = pool->limit_bytes;
    pool->limit_bytes = atomic_load(&pool->used_bytes); /* its own head, and not a byte more */
    bed_run_for(b, 2100);
    pool->limit_bytes = limit;
    bed_run(b);
    assert_int_equal(d->end, DEAL_DROPPED);
    assert_in_range(u->closed_ms - u->dialled_ms, 1900, 4500);
    bed_end(b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_flood_is_fair),
    cmocka_unit_test(test_endless_writer_is_fair),
    cmocka_unit_test(test_kept_connection_ends_in_the_turn),
    cmocka_unit_test(test_kept_connection_ends_in_the_turn_of_a_retry),
    cmocka_unit_test(test_stopped_thread_keeps_what_has_come),
    cmocka_unit_test(test_drain_during_an_answer),
    cmocka_unit_test(test_own_answer_without_room),
    cmocka_unit_test(test_crowd_of_own_answers_in_little_memory),
    cmocka_unit_test(test_crowd_of_answers_in_little_memory),
    cmocka_unit_test(test_options_without_memory),
};
KIT_MAIN(tests)
