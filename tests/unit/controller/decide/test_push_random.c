/* push_plan in random weather: sidecars as they are (they refuse what is not newer), groups that
 * change, targets that come, go and move, leaders that come and go. What must hold is asked at
 * every step, and at the end, in good weather, everybody has the newest of its own group. */
#include "controller/decide/push_plan.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#define T0       1000
#define GROUPS   4
#define TARGETS  12
#define STEPS    600
#define INTERVAL 5000

struct group {
    struct fl_push_group group;
    int64_t version; /* of its state; 0: none */
};

struct target {
    struct fl_push_target target;
    struct group *of;
    bool there, in_flight;
    int64_t sent_epoch, sent_seq, sent_version;
    const struct group *sent_of;
    /* what its sidecar has */
    int64_t epoch, seq, version;
    const struct group *has_of;
};

static struct fl_push_plan plan;
static struct group groups[GROUPS];
static struct target targets[TARGETS];
static struct fl_rng rng;
static int64_t now_ms, most_epoch;
static bool elected, leads;

static bool one_of(uint32_t n)
{
    return fl_rng_below(&rng, n) == 0;
}

static struct target *any(void)
{
    return &targets[fl_rng_below(&rng, TARGETS)];
}

static struct group *any_group(void)
{
    return &groups[fl_rng_below(&rng, GROUPS)];
}

/* ---- the weather ---- */

static void change(void)
{
    struct group *g = any_group();
    g->version++;
    fl_push_plan_changed(&plan, &g->group, one_of(3), now_ms);
}

static void come_or_go(void)
{
    struct target *t = any();
    if (t->there) {
        fl_push_plan_leave(&plan, &t->target);
        t->there = t->in_flight = false;
        return;
    }
    if (one_of(2)) {
        t->epoch = t->seq = t->version = 0; /* another pod */
        t->has_of = NULL;
    }
    t->of = any_group();
    t->there = true;
    t->sent_epoch = 0; /* the plan has forgotten it */
    fl_push_plan_join(&plan, &t->of->group, &t->target, now_ms);
}

static void move(void)
{
    struct target *t = any();
    struct group *to = any_group();
    if (t->there && to != t->of) {
        t->of = to;
        fl_push_plan_move(&plan, &t->target, &to->group, now_ms);
    }
}

/* Somebody else has pushed there, with another pair. */
static void intrude(void)
{
    struct target *t = any();
    t->epoch = plan.epoch + (int64_t)fl_rng_below(&rng, 3);
    t->seq = (int64_t)fl_rng_below(&rng, 60);
    t->version = -1;
    t->has_of = NULL;
}

static void elect(void)
{
    if (!elected) {
        return;
    }
    if (leads && one_of(2)) {
        leads = false;
        fl_push_plan_follow(&plan);
        for (int i = 0; i < TARGETS; i++) {
            targets[i].in_flight = false; /* broken off */
        }
        return;
    }
    int64_t epoch = most_epoch + (int64_t)fl_rng_below(&rng, 3) - 1; /* also one that is too low */
    bool taken = fl_push_plan_lead(&plan, epoch, now_ms);
    leads = leads || taken;
    most_epoch = epoch > most_epoch ? epoch : most_epoch;
}

/* ---- pushes ---- */

static int in_flight(void)
{
    int n = 0;
    for (int i = 0; i < TARGETS; i++) {
        n += targets[i].in_flight;
    }
    return n;
}

static void send_all(void)
{
    struct fl_push_target *one;
    fl_push_plan_run(&plan, now_ms);
    while ((one = fl_push_plan_take(&plan)) != NULL) {
        struct target *t = fl_container_of(one, struct target, target);
        assert_true(!elected || leads);         /* nothing while following */
        assert_true(t->there && !t->in_flight); /* one in flight */
        assert_in_range(in_flight(), 0, (int)plan.concurrency - 1);
        assert_true(t->of->group.epoch >= t->sent_epoch); /* epochs never fall */
        assert_true(t->of->group.epoch <= plan.epoch);
        t->in_flight = true;
        t->sent_of = t->of;
        t->sent_epoch = t->of->group.epoch;
        t->sent_seq = t->of->group.seq;
        /* what settles is not in it yet, or is: both are right */
        t->sent_version = t->of->version;
    }
}

/* The answer of a sidecar that is as sidecars are. */
static struct fl_push_report answer_of(struct target *t)
{
    struct fl_push_report r = {.result = FL_PUSH_OK};
    if (t->sent_epoch < t->epoch || (t->sent_epoch == t->epoch && t->sent_seq <= t->seq)) {
        return (struct fl_push_report){
            .result = FL_PUSH_CONFLICT, .epoch = t->epoch, .seq = t->seq};
    }
    t->epoch = t->sent_epoch;
    t->seq = t->sent_seq;
    t->version = t->sent_version;
    t->has_of = t->sent_of;
    return r;
}

static void land(struct target *t, bool good_weather)
{
    struct fl_push_report r = {.result = FL_PUSH_FAILED};
    if (good_weather || !one_of(4)) {
        r = answer_of(t);
        r.hash_differs = !good_weather && one_of(20);
    }
    if (!good_weather && one_of(6)) {
        r = (struct fl_push_report){.result = FL_PUSH_FAILED}; /* the answer was lost */
    }
    t->in_flight = false;
    int64_t before = plan.epoch;
    (void)fl_push_plan_settle(&plan, &t->target, &r, now_ms);
    assert_true(plan.epoch >= before);
    assert_true(!elected || plan.epoch == before); /* nobody invents epochs */
    if (r.result == FL_PUSH_OK && t->target.acked >= t->target.need && !t->target.drifted &&
        t->of->group.edition == t->target.acked) {
        assert_ptr_equal(t->has_of, t->of); /* its own configuration */
    }
}

static void raise_if_met(void)
{
    if (elected && leads && plan.met_epoch > 0) {
        most_epoch = plan.met_epoch + 1 > most_epoch ? plan.met_epoch + 1 : most_epoch;
        assert_true(fl_push_plan_lead(&plan, most_epoch, now_ms));
    }
}

static void step(void)
{
    now_ms += fl_rng_below(&rng, 300);
    switch (fl_rng_below(&rng, 14)) {
    case 0:
    case 1:
    case 2:
        change();
        break;
    case 3:
        come_or_go();
        break;
    case 4:
        move();
        break;
    case 5:
        fl_push_plan_eager(&plan, &targets[0].target, targets[0].there && one_of(2), now_ms);
        break;
    case 6:
        if (one_of(3)) {
            intrude();
        }
        break;
    case 7:
        if (one_of(3)) {
            elect();
        }
        break;
    default:
        break;
    }
    send_all();
    for (int i = 0; i < TARGETS; i++) {
        if (targets[i].in_flight && one_of(3)) {
            land(&targets[i], false);
        }
    }
    if (one_of(5)) {
        raise_if_met();
    }
}

static void set_up(uint64_t seed)
{
    fl_rng_seed(&rng, seed * 7919);
    elected = seed % 2 == 0;
    leads = false;
    now_ms = T0;
    most_epoch = 100;
    fl_push_plan_init(&plan, elected ? 0 : 100, seed);
    fl_push_plan_set_interval(&plan, INTERVAL, now_ms);
    plan.concurrency = 1 + fl_rng_below(&rng, 5);
    for (int i = 0; i < GROUPS; i++) {
        groups[i] = (struct group){0};
        fl_push_plan_enter(&plan, &groups[i].group);
    }
    for (int i = 0; i < TARGETS; i++) {
        targets[i] = (struct target){.of = &groups[i % GROUPS], .there = true};
        fl_push_plan_join(&plan, &targets[i].of->group, &targets[i].target, now_ms);
    }
}

/* Everybody answers, and nothing changes any more. */
static void clear_up(void)
{
    if (elected && !leads) {
        most_epoch++;
        leads = fl_push_plan_lead(&plan, most_epoch, now_ms);
        assert_true(leads);
    }
    for (int64_t end_ms = now_ms + 90000; now_ms < end_ms; now_ms += 40) {
        send_all();
        for (int i = 0; i < TARGETS; i++) {
            if (targets[i].in_flight) {
                land(&targets[i], true);
            }
        }
        raise_if_met();
    }
}

static void whatever_happens_all_end_up_with_the_newest_of_their_configuration(void **state)
{
    (void)state;
    int served = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        set_up(seed);
        for (int i = 0; i < STEPS; i++) {
            step();
        }
        clear_up();
        assert_int_equal(plan.flying, 0);
        assert_int_equal(plan.flying_ailing, 0);
        for (int i = 0; i < TARGETS; i++) {
            const struct target *t = &targets[i];
            if (!t->there || t->of->version == 0) {
                continue;
            }
            served++;
            assert_ptr_equal(t->has_of, t->of);
            assert_true(t->version == t->of->version);
            assert_int_equal(fl_push_plan_lag_ms(&t->target, now_ms), 0);
            assert_int_equal(t->target.failures, 0);
        }
    }
    assert_true(served > 300 * 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_happens_all_end_up_with_the_newest_of_their_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
