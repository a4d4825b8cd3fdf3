/* A large body that comes fast is waited for in larger pieces (sidecar/policy/patience.h): what is
 * saved, and that nothing that trickles, ends or breaks is noticed later for it. */
#include "tests/sim/scenarios/kit.h"

enum {
    FAST_BYTES = 1 << 20, /* enough to prove the reader fast, and the source */
    LATE_MS = 8 + 8 + 1,  /* FL_PATIENCE_MS, and a timer's step */
};

static struct origin *well_connected(struct bed *b)
{
    struct origin *o = origin_new(b, 0);
    struct sim_path path = sim_path_default();
    path.send_bytes = path.recv_bytes = 4 << 20; /* else a full window is what wakes us */
    origin_path(o, &path);
    return o;
}

static struct bed *with_one(uint64_t seed, struct origin **ret)
{
    struct bed *b = bed_new(seed, 1, KIT_S3("", KIT_ONE, ""));
    *ret = well_connected(b);
    return b;
}

static struct user_script reader(void)
{
    struct user_script s = {.path = sim_path_default()};
    s.path.send_bytes = s.path.recv_bytes = 4 << 20;
    return s;
}

/* Reads of the sidecar and of nobody else: clients and origins are scripts. */
static uint64_t reads(const struct bed *b)
{
    return sim_counts(b->world).calls[SIM_CALL_RECV];
}

/* 16 MiB in pieces of 64 KiB, one a millisecond: fast. */
static void test_gathers(void **state)
{
    (void)state;
    struct origin *o;
    struct bed *b = with_one(1, &o);
    struct user_script fast = reader();
    struct deal *d = kit_get(b);
    uint64_t turns = sim_counts(b->world).turns;
    kit_plan(d, (struct plan){.body_bytes = 16 * FAST_BYTES, .piece_bytes = 65536, .piece_ms = 1});
    user_dial(b, &fast, &d, 1);
    bed_run_for(b, 400);
    kit_answered(d, 200, "");
    turns = sim_counts(b->world).turns - turns;
    assert_in_range(turns, 1, 180); /* not one for each of the 256 pieces */
    bed_end(b);
}

/* Behind a fast beginning it trickles: of that each piece goes on when it comes, but for one wait
 * at the change. */
static void test_trickle(void **state)
{
    (void)state;
    for (unsigned piece_ms = 1; piece_ms <= 40; piece_ms += 3) {
        struct origin *o;
        struct bed *b = with_one(2 + piece_ms, &o);
        struct user_script fast = reader();
        struct deal *d = kit_get(b);
        kit_plan(d, (struct plan){.body_bytes = 2 * FAST_BYTES,
                                  .gush_bytes = FAST_BYTES,
                                  .piece_bytes = 1000,
                                  .piece_ms = piece_ms});
        user_dial(b, &fast, &d, 1);
        bed_run_for(b, 5);
        unsigned late = 0;
        for (unsigned ms = 5; ms < 500; ms++) {
            uint64_t was = d->wire_bytes;
            bed_run_for(b, 1);
            uint64_t pieces = ms / piece_ms;
            late += pieces > 0 && d->wire_bytes < FAST_BYTES + pieces * 1000;
            assert_true(d->wire_bytes >= was);
        }
        assert_true(late <= LATE_MS);
        bed_run(b);
        kit_answered(d, 200, "");
        bed_end(b);
    }
}

/* It ends too soon, by FIN or by RST, while we wait for more: seen at once. */
static void test_early_end(void **state)
{
    (void)state;
    static const enum plan_fault faults[] = {PLAN_FIN_ANSWER, PLAN_RST_ANSWER};
    for (unsigned i = 0; i < 2; i++) {
        struct origin *o;
        struct bed *b = with_one(50 + i, &o);
        struct user_script fast = reader();
        struct deal *d = kit_get(b);
        kit_plan(d, (struct plan){.body_bytes = 3 * FAST_BYTES,
                                  .gush_bytes = FAST_BYTES,
                                  .piece_bytes = 1000,
                                  .piece_ms = 4,
                                  .fault = faults[i],
                                  .fault_at = FAST_BYTES + 500});
        user_dial(b, &fast, &d, 1);
        bed_run_for(b, 6);
        assert_int_equal(d->end, DEAL_TRUNCATED);
        bed_run(b);
        bed_end(b);
    }
}

/* The connection is kept: the small answers that follow wait for nothing. */
static void test_small_ones_follow(void **state)
{
    (void)state;
    struct origin *o;
    struct bed *b = with_one(60, &o);
    struct user_script fast = reader();
    struct deal *d[4] = {kit_get(b), kit_get(b), kit_get(b), kit_get(b)};
    for (unsigned i = 0; i < 4; i++) {
        uint32_t bytes = i % 2 == 0 ? 4 * FAST_BYTES + 777 * i : 300;
        kit_plan(d[i], (struct plan){.body_bytes = bytes, .piece_bytes = 65536, .piece_ms = 1});
    }
    user_dial(b, &fast, d, 4);
    bed_run(b);
    for (unsigned i = 0; i < 4; i++) {
        kit_answered(d[i], 200, "");
        assert_true(d[i]->answered_ms - d[i]->asked_ms <= (i % 2 == 0 ? 66 + LATE_MS : 1));
    }
    assert_int_equal(o->conns_made, 1);
    bed_end(b);
}

/* A reader that has stopped has the end of the answer still before it when the store says more than
 * was asked: too little for the mark, and all the same not the beginning of the next answer. */
static void test_too_much_below_the_mark(void **state)
{
    (void)state;
    struct origin *o;
    struct bed *b = with_one(65, &o);
    struct user_script stops = reader();
    stops.pipelines = true;
    stops.hold_ms = 100;
    stops.path.send_bytes = FAST_BYTES;
    stops.path.recv_bytes = 2 * FAST_BYTES - 4000;
    struct deal *d[2] = {kit_get(b), kit_get(b)};
    kit_plan(d[0], (struct plan){.body_bytes = 3 * FAST_BYTES,
                                 .gush_bytes = 3 * FAST_BYTES - 200000,
                                 .piece_bytes = 250000,
                                 .piece_ms = 4,
                                 .surplus = 40});
    user_dial(b, &stops, d, 2);
    bed_run(b);
    kit_answered(d[0], 200, "");
    kit_answered(d[1], 200, "");
    assert_int_equal(o->conns_made, 2);
    bed_end(b);
}

/* The source stops in the middle: what it gave goes on, and read_timeout runs from its last byte.
 */
static void test_stall(void **state)
{
    (void)state;
    struct bed *b = bed_new(70, 1, KIT_S3("", KIT_ONE, ", read_timeout: 2s"));
    (void)well_connected(b);
    struct user_script fast = reader();
    struct deal *d = kit_get(b);
    kit_plan(d, (struct plan){.body_bytes = 3 * FAST_BYTES,
                              .gush_bytes = FAST_BYTES,
                              .piece_bytes = 5000,
                              .piece_ms = 4,
                              .fault = PLAN_STALL_ANSWER,
                              .fault_at = FAST_BYTES + 5000});
    user_dial(b, &fast, &d, 1);
    bed_run_for(b, 4 + LATE_MS);
    assert_int_equal(d->wire_bytes, FAST_BYTES + 5000);
    bed_run_for(b, 1900 - 4 - LATE_MS);
    assert_int_equal(d->end, DEAL_OPEN);
    uint64_t before = reads(b);
    bed_run_for(b, 200);
    assert_int_equal(d->end, DEAL_TRUNCATED);
    assert_true(reads(b) - before <= 2);
    bed_run(b);
    bed_end(b);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_gathers),
    cmocka_unit_test(test_trickle),
    cmocka_unit_test(test_early_end),
    cmocka_unit_test(test_small_ones_follow),
    cmocka_unit_test(test_too_much_below_the_mark),
    cmocka_unit_test(test_stall),
};

KIT_MAIN(tests)
