/* Candidates against one API server, in virtual time: delays, lost requests and answers, writes
 * that arrive after their caller gave up, partitions, pauses, restarts without memory, deletions,
 * wrong clocks. What must hold is looked at in every step. */
#include "controller/decide/lease.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <string.h>

#define STEP_MS 10
#ifndef SEEDS
#define SEEDS 3 /* 400 have been tried */
#endif
#define CALLS      64
#define CANDIDATES 3
#define NEVER      INT64_MAX
/* client-go's own sum: the look that came just before the last renewal, the lease, the next look.
 */
#define TAKEOVER_MS (FL_LEASE_MS + FL_LEASE_RETRY_MS * 22 / 10 + 500)

struct weather { /* chances per call in percent, per second in permille */
    unsigned lose_request_pct, lose_answer_pct, slow_pct;
    bool great_versions; /* that do not fit into an epoch */
    unsigned cut_pm, pause_pm, restart_pm, release_pm, delete_pm, touch_pm, raise_pm;
};

struct candidate {
    struct fl_lease l;
    unsigned incarnation;
    int64_t mono_off_ms, wall_off_ms;
    int64_t drift_pm; /* its monotonic clock, in permille */
    int64_t paused_to, cut_to;
    uint64_t call; /* the one it waits for; 0 none */
    int64_t give_up_at;
    uint64_t seen_rv; /* of the object it has */
    int64_t epoch;    /* as of the last step */
};

struct travelling {
    uint64_t id; /* 0: free */
    struct candidate *from;
    unsigned incarnation;
    enum fl_lease_step step;
    struct fl_lease_record record;
    uint64_t over_rv;
    int64_t applies_at, answers_at;
    enum fl_lease_answer answer;
    uint64_t rv;
};

static struct {
    int64_t t;
    struct fl_rng rng;
    struct weather w;
    struct candidate c[CANDIDATES];
    unsigned count;
    struct travelling call[CALLS];
    uint64_t ids;
    struct { /* the API server */
        bool there;
        uint64_t rv, uids;
        struct fl_lease_record record;
    } lease;
    int64_t sidecar; /* the epoch in force there */
    bool forgetful;  /* a deletion and a restart */
    int64_t highest; /* of all terms */
    unsigned terms, deletions, refused, doubles;
    int64_t double_since, leaderless_ms, leaderless_max_ms;
} world;

static bool chance(unsigned of, unsigned n)
{
    return n > 0 && fl_rng_below(&world.rng, of) < n;
}

static int64_t between(int64_t low, int64_t high)
{
    return low + fl_rng_below(&world.rng, (uint32_t)(high - low + 1));
}

static int64_t mono(const struct candidate *c)
{
    return world.t + world.t * c->drift_pm / 1000 + c->mono_off_ms;
}

static int64_t wall_us(const struct candidate *c)
{
    return INT64_C(1800000000000000) + (world.t + c->wall_off_ms) * 1000;
}

static int64_t epoch_of(const struct candidate *c)
{
    return fl_lease_epoch(&c->l, mono(c));
}

static void boot(struct candidate *c) /* another process: nothing is remembered */
{
    char name[32];
    c->incarnation++;
    c->mono_off_ms = between(1, 1000000);
    c->wall_off_ms = between(-5000000, 5000000);
    c->call = 0;
    c->epoch = 0;
    (void)snprintf(name, sizeof(name), "pod-%d_%u", (int)(c - world.c), c->incarnation);
    fl_lease_init(&c->l, name, fl_rng_next(&world.rng), mono(c));
}

static void begin(unsigned count, struct weather w, uint64_t seed)
{
    memset(&world, 0, sizeof(world));
    fl_rng_seed(&world.rng, seed);
    world.w = w;
    world.count = count;
    world.lease.rv = w.great_versions ? UINT64_C(3000000000) : 1000;
    for (unsigned i = 0; i < count; i++) {
        world.c[i].drift_pm = between(-10, 10);
        boot(&world.c[i]);
    }
}

/* --- the server --- */

static enum fl_lease_answer serve(struct travelling *v)
{
    bool put = v->step == FL_LEASE_PUT;
    if (v->step == FL_LEASE_POST ? world.lease.there : !world.lease.there) {
        return put || v->step == FL_LEASE_GET ? FL_LEASE_GONE : FL_LEASE_CONFLICT;
    }
    if (put && v->over_rv != world.lease.rv) {
        return FL_LEASE_CONFLICT;
    }
    if (v->step == FL_LEASE_POST) {
        world.lease.uids++;
        world.lease.there = true;
    }
    if (v->step != FL_LEASE_GET) {
        world.lease.record = v->record;
        (void)snprintf(world.lease.record.uid, sizeof(world.lease.record.uid), "%llu",
                       (unsigned long long)world.lease.uids);
        world.lease.rv++;
    }
    v->record = world.lease.record;
    v->record.version = (int64_t)world.lease.rv;
    v->rv = world.lease.rv;
    return FL_LEASE_OK;
}

static void deliver(struct travelling *v)
{
    struct candidate *c = v->from;
    if (v->incarnation == c->incarnation && c->call == v->id) {
        c->call = 0;
        if (v->answer == FL_LEASE_OK) {
            c->seen_rv = v->rv;
        }
        fl_lease_answered(&c->l, v->answer, &v->record, 0, mono(c));
    }
    v->id = 0;
}

static void move_calls(void)
{
    for (int i = 0; i < CALLS; i++) {
        struct travelling *v = &world.call[i];
        if (v->id != 0 && world.t >= v->applies_at) {
            v->applies_at = NEVER;
            v->answer = serve(v);
        }
        if (v->id != 0 && world.t >= v->answers_at && world.t >= v->from->paused_to) {
            deliver(v);
        }
        if (v->id != 0 && v->applies_at == NEVER && v->answers_at == NEVER) {
            v->id = 0;
        }
    }
}

static void send(struct candidate *c, const struct fl_lease_call *call)
{
    bool cut = world.t < c->cut_to;
    struct travelling *v = world.call;
    while (v->id != 0) {
        v++;
        assert_true(v < world.call + CALLS);
    }
    *v = (struct travelling){.id = ++world.ids,
                             .from = c,
                             .incarnation = c->incarnation,
                             .step = call->step,
                             .record = call->record,
                             .over_rv = c->seen_rv};
    int64_t way = chance(100, world.w.slow_pct) ? between(500, 6000) : between(1, 40);
    v->applies_at = cut || chance(100, world.w.lose_request_pct) ? NEVER : world.t + way;
    v->answers_at = v->applies_at == NEVER || chance(100, world.w.lose_answer_pct)
                        ? NEVER
                        : v->applies_at + between(1, 40);
    c->call = v->id;
    c->give_up_at = world.t + call->timeout_ms;
}

/* --- what must hold --- */

static void begins(struct candidate *c, int64_t e)
{
    /* who forgets, and has no version to go by, may begin below what was */
    assert_true(e > world.highest || (world.w.great_versions && world.deletions > 0));
    world.highest = e > world.highest ? e : world.highest;
    world.terms++;
    world.double_since = 0; /* of another pair */
    for (unsigned i = 0; i < world.count; i++) {
        assert_true(&world.c[i] == c || epoch_of(&world.c[i]) != e);
    }
}

static void look(void)
{
    int leaders = 0;
    for (unsigned i = 0; i < world.count; i++) {
        struct candidate *c = &world.c[i];
        int64_t e = epoch_of(c);
        leaders += e > 0;
        if (e > 0 && e != c->epoch) {
            begins(c, e);
        }
        c->epoch = e;
    }
    assert_true(leaders <= 1 || (world.deletions > 0 && !world.w.great_versions));
    if (leaders > 1 && world.double_since == 0) {
        world.double_since = world.t;
        world.doubles++;
    }
    world.double_since = leaders > 1 ? world.double_since : 0;
    assert_true(leaders <= 1 || world.t - world.double_since <= FL_LEASE_RENEW_MS * 102 / 100);
    world.leaderless_ms = leaders ? 0 : world.leaderless_ms + STEP_MS;
    if (world.leaderless_ms > world.leaderless_max_ms) {
        world.leaderless_max_ms = world.leaderless_ms;
    }
}

/* Who has just woken pushes before it does anything else. */
static void push(struct candidate *c)
{
    int64_t e = epoch_of(c);
    if (e > 0 && e < world.sidecar) {
        world.refused++;
        assert_true(fl_lease_raise(&c->l, world.sidecar, mono(c)));
    } else if (e > 0) {
        world.sidecar = e;
    }
}

/* --- the weather --- */

static void trouble_one(struct candidate *c)
{
    const struct weather *w = &world.w;
    if (chance(1000, w->cut_pm)) {
        c->cut_to = world.t + between(1000, 40000);
    }
    if (chance(1000, w->pause_pm)) {
        c->paused_to = world.t + between(1000, 30000);
    }
    if (chance(1000, w->release_pm)) {
        fl_lease_release(&c->l, mono(c));
    }
    if (chance(1000, w->restart_pm) || c->l.step == FL_LEASE_END) {
        boot(c);
        world.forgetful |= world.deletions > 0;
    }
    if (chance(1000, w->raise_pm)) {
        world.sidecar += between(1, 1000); /* it comes from a cluster where it heard more */
    }
    c->wall_off_ms += chance(100, 1) ? between(-4000000, 4000000) : 0;
}

static void trouble(void) /* once a second */
{
    for (unsigned i = 0; i < world.count; i++) {
        trouble_one(&world.c[i]);
    }
    if (world.lease.there && chance(1000, world.w.delete_pm)) {
        world.lease.there = false;
        world.lease.rv++;
        world.deletions++;
    }
    if (world.lease.there && chance(1000, world.w.touch_pm)) {
        world.lease.rv++; /* a label */
    }
}

static void turn(struct candidate *c)
{
    struct fl_lease_call call;
    if (world.t < c->paused_to) {
        return;
    }
    push(c);
    if (c->call != 0 && world.t >= c->give_up_at) {
        c->call = 0;
        fl_lease_answered(&c->l, FL_LEASE_FAILED, NULL, 0, mono(c));
    }
    fl_lease_run(&c->l, mono(c));
    if (c->l.step == FL_LEASE_END) { /* as a process: it waits for nobody */
        c->call = 0;
    } else if (c->call == 0 && fl_lease_take(&c->l, mono(c), wall_us(c), &call)) {
        send(c, &call);
    }
}

static void run_for(int64_t ms)
{
    for (int64_t end = world.t + ms; world.t < end; world.t += STEP_MS) {
        if (world.t % 1000 == 0) {
            trouble();
        }
        move_calls();
        look();
        for (unsigned i = 0; i < world.count; i++) {
            turn(&world.c[i]);
            look();
        }
    }
}

static struct candidate *leader(void) /* NULL: none */
{
    for (unsigned i = 0; i < world.count; i++) {
        if (epoch_of(&world.c[i]) > 0) {
            return &world.c[i];
        }
    }
    return NULL;
}

static struct candidate *the_leader(void)
{
    struct candidate *c = leader();
    FL_MUST(c != NULL);
    return c;
}

static void calm_down(void)
{
    world.w = (struct weather){.great_versions = world.w.great_versions};
    for (unsigned i = 0; i < world.count; i++) {
        world.c[i].cut_to = world.c[i].paused_to = world.t;
    }
}

/* Storms with a calm after each; then there must be one leader, whose pushes count. */
static void storms(unsigned count, struct weather w, unsigned seeds, bool forgets)
{
    unsigned terms = 0, deletions = 0, refused = 0, doubles = 0;
    for (unsigned seed = 1; seed <= seeds; seed++) {
        begin(count, w, seed * 7919u);
        for (int i = 0; i < 3; i++) {
            world.w = w;
            run_for(120000);
            calm_down();
            run_for(2 * TAKEOVER_MS); /* what is on its way may still hold it once */
            assert_non_null(leader());
            run_for(20000);
            assert_non_null(leader());
            assert_true(epoch_of(the_leader()) >= world.sidecar);
        }
        terms += world.terms;
        deletions += world.deletions;
        refused += world.refused;
        doubles += world.doubles;
        assert_true(forgets || !world.forgetful);
    }
    print_message("%u candidates, %u seeds: %u terms, %u deletions, %u pushes refused, %u times "
                  "two at once\n",
                  count, seeds, terms, deletions, refused, doubles);
    assert_true(terms > seeds);
    assert_true(deletions > 0 || w.delete_pm == 0);
}

/* --- tests --- */

static void a_new_installation_has_a_leader_at_once(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        begin(2, (struct weather){0}, seed);
        run_for(5000);
        assert_non_null(leader());
        assert_true(epoch_of(the_leader()) > 1000);
    }
}

static void where_versions_do_not_fit_it_has_one_after_the_lease_time(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        begin(2, (struct weather){.great_versions = true}, seed);
        run_for(FL_LEASE_MS - 300); /* clocks differ by 1 % */
        assert_null(leader());
        run_for(1000);
        assert_non_null(leader());
        assert_int_equal(epoch_of(the_leader()), 1);
    }
}

static void in_calm_the_leader_stays_for_ever(void **state)
{
    (void)state;
    begin(3, (struct weather){.touch_pm = 200}, 5);
    run_for(600000);
    assert_int_equal(world.terms, 1);
    assert_int_equal(epoch_of(the_leader()), world.highest);
}

static void a_dead_leader_is_followed_within_lease_and_retry(void **state)
{
    (void)state;
    int64_t longest = 0;
    for (unsigned seed = 1; seed <= 60; seed++) {
        begin(2, (struct weather){0}, seed);
        run_for(30000 + (int64_t)seed * 70);
        struct candidate *dead = the_leader();
        dead->paused_to = dead->cut_to = NEVER;
        int64_t at = world.t;
        while (leader() == NULL || leader() == dead) {
            run_for(STEP_MS);
            assert_true(world.t - at <= TAKEOVER_MS);
        }
        longest = world.t - at > longest ? world.t - at : longest;
    }
    print_message("taken over after %lld ms at most\n", (long long)longest);
}

static void a_released_lease_is_taken_at_the_next_look(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 40; seed++) {
        begin(2, (struct weather){0}, seed);
        run_for(30000);
        struct candidate *old = the_leader();
        fl_lease_release(&old->l, mono(old));
        assert_null(leader());
        int64_t at = world.t;
        while (leader() == NULL) {
            run_for(STEP_MS);
            assert_true(world.t - at <= FL_LEASE_RETRY_MS * 22 / 10 + 500);
        }
        assert_int_equal(epoch_of(the_leader()), world.highest);
        assert_int_equal(world.terms, 2);
    }
}

static void a_leader_that_wakes_after_thirty_seconds_pushes_nothing(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 40; seed++) {
        begin(2, (struct weather){0}, seed);
        run_for(30000 + (int64_t)seed * 90);
        struct candidate *old = the_leader();
        old->paused_to = world.t + 30000;
        run_for(30000);
        assert_true(leader() != NULL && leader() != old);
        run_for(30000);
        assert_int_equal(world.refused, 0);
        assert_true(leader() != old);
        assert_int_equal(world.terms, 2);
    }
}

static void a_deleted_lease_costs_its_leader_nothing(void **state)
{
    (void)state;
    begin(3, (struct weather){0}, 9);
    run_for(30000);
    for (int i = 0; i < 20; i++) {
        world.lease.there = false;
        world.lease.rv++;
        run_for(7130);
    }
    assert_int_equal(world.terms, 1);
    assert_non_null(leader());
}

static void two_in_bad_weather(void **state)
{
    (void)state;
    storms(2,
           (struct weather){.lose_request_pct = 10,
                            .lose_answer_pct = 15,
                            .slow_pct = 15,
                            .cut_pm = 15,
                            .pause_pm = 15,
                            .restart_pm = 5,
                            .release_pm = 5,
                            .touch_pm = 50},
           SEEDS, false);
}

static void three_in_bad_weather_with_sidecars_that_have_heard_more(void **state)
{
    (void)state;
    storms(3,
           (struct weather){.lose_request_pct = 20,
                            .lose_answer_pct = 25,
                            .slow_pct = 30,
                            .cut_pm = 30,
                            .pause_pm = 30,
                            .restart_pm = 5,
                            .touch_pm = 100,
                            .raise_pm = 20},
           SEEDS, false);
}

static const struct weather deleting = {.lose_request_pct = 10,
                                        .lose_answer_pct = 15,
                                        .slow_pct = 15,
                                        .cut_pm = 20,
                                        .pause_pm = 20,
                                        .delete_pm = 60};

static void three_that_keep_their_memory_and_a_lease_that_is_deleted(void **state)
{
    (void)state;
    storms(3, deleting, SEEDS, false);
}

static void three_that_forget_and_a_lease_that_is_deleted(void **state)
{
    struct weather w = deleting;
    (void)state;
    w.restart_pm = 20;
    w.release_pm = 5;
    storms(3, w, SEEDS, true);
}

static void three_that_forget_where_versions_do_not_fit(void **state)
{
    struct weather w = deleting;
    (void)state;
    w.restart_pm = 20;
    w.release_pm = 5;
    w.great_versions = true;
    storms(3, w, SEEDS, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_installation_has_a_leader_at_once),
        cmocka_unit_test(where_versions_do_not_fit_it_has_one_after_the_lease_time),
        cmocka_unit_test(in_calm_the_leader_stays_for_ever),
        cmocka_unit_test(a_dead_leader_is_followed_within_lease_and_retry),
        cmocka_unit_test(a_released_lease_is_taken_at_the_next_look),
        cmocka_unit_test(a_leader_that_wakes_after_thirty_seconds_pushes_nothing),
        cmocka_unit_test(a_deleted_lease_costs_its_leader_nothing),
        cmocka_unit_test(two_in_bad_weather),
        cmocka_unit_test(three_in_bad_weather_with_sidecars_that_have_heard_more),
        cmocka_unit_test(three_that_keep_their_memory_and_a_lease_that_is_deleted),
        cmocka_unit_test(three_that_forget_and_a_lease_that_is_deleted),
        cmocka_unit_test(three_that_forget_where_versions_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
